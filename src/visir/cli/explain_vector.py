"""`visir explain-vector`: what a sparse vector of a picture or a text says, in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli import output
from visir.cli.options import (
    DeviceOption,
    ExamplesOption,
    ImagesOption,
    ModelOption,
    SplitOption,
    out_option,
)
from visir.cli.verbs import examples

if TYPE_CHECKING:
    from visir.records import Collection
    from visir.sparse.encoder import SparseEncoder
    from visir.sparse.top_terms import TopTerms

_BAR = 28
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@examples(
    "visir explain-vector photo.jpg 'a dog on a beach' --model runs/sparse",
)
def explain_vector(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[IMAGE|TEXT]…", help="Picture files, texts, or ids of the collection.", show_default=False
        ),
    ] = None,
    model: ModelOption = "",
    data: Annotated[
        str | None, typer.Option("--data", metavar="COLLECTION", help="A collection: where ids are looked up.")
    ] = None,
    split: SplitOption = None,
    images: ImagesOption = None,
    count: ExamplesOption = 10,
    terms: Annotated[int, typer.Option("--terms", min=1, help="How many words of each vector.")] = 20,
    out: Annotated[Path | None, out_option("a sheet with the pictures, page.html")] = None,
    device: DeviceOption = None,
) -> None:
    """Print the words that a sparse vector stands for.

    Print the heaviest words of vectors, with their weights; several at once as a sheet of pictures with their
    words.

    A dot marks words that a text has itself. With --data and no inputs, ten of its images with their captions.
    """
    from visir.encoders import load
    from visir.errors import ConfigurationError, EncoderError, raise_faults, require
    from visir.reports.word_sheet import check_suffix, write_word_sheet

    faults = [] if model else ["no checkpoint is named (--model)"]
    if not inputs and data is None:
        faults.append("nothing to explain: name pictures or texts, or a --data COLLECTION")
    hint = 'visir explain-vector photo.jpg "a dog on a beach" --model runs/sparse'
    raise_faults(ConfigurationError, "explain-vector", faults, hint=hint)
    if out is not None:
        check_suffix(out)
    require("torch", "tokenizers", extra="sparse", purpose="sparse vectors")
    from visir.sparse.encoder import SparseEncoder
    from visir.sparse.top_terms import top_terms_of_sample

    encoder = load(model, device=device)
    if not isinstance(encoder, SparseEncoder):
        raise EncoderError(f"{model}: its vectors have no words.", hint=f"visir sparsify --model {model} …")
    opened = None
    if data is not None:
        from visir.collections import open_collection

        where = images[0] if images and len(images) == 1 else images
        opened = open_collection(data, images=where, split=split)
    if inputs:
        cards = [_top_terms(encoder, opened, text, terms) for text in inputs]
    else:
        assert opened is not None
        cards = top_terms_of_sample(encoder, opened, count, terms)
    output.answer([_as_json(card) for card in cards])
    for card in cards:
        _show(card)
    if out is not None:
        title = f"Words of {opened.name}" if opened is not None else "Vectors in words"
        expansion = "captions expanded" if encoder.expanded else "captions not expanded"
        write_word_sheet(out, cards, title=title, subtitle=f"{encoder.card.name} · {expansion} · top {terms}")
        output.line(f"sheet: {out}")


def _top_terms(encoder: SparseEncoder, opened: Collection | None, name: str, k: int) -> TopTerms:
    """A picture file, an image or a caption of the collection, or a text: the first that fits."""
    import pyarrow.compute as pc

    from visir.sparse.top_terms import top_terms_of_captions, top_terms_of_images

    if Path(name).is_file():
        return _file(encoder, Path(name), k)
    if opened is not None:
        is_named = pc.equal(opened.images["id"], name)
        if pc.any(is_named).as_py():
            return top_terms_of_images(encoder, opened, opened.keep_images(is_named), k)[0]
        captions = opened.captions.filter(pc.equal(opened.captions["id"], name))
        if captions.num_rows:
            image = captions["image_id"][0].as_py()
            part = opened.keep_images(pc.equal(opened.images["id"], image))
            return top_terms_of_captions(encoder, opened, part, [name], k)[name]
    return _text(encoder, name, k)


def _file(encoder: SparseEncoder, path: Path, k: int) -> TopTerms:
    from visir.collections.images import decode
    from visir.records import Embeddings
    from visir.sparse.top_terms import TopTerms

    picture = decode(path.read_bytes(), str(path))
    dense = Embeddings("image", [path.name], encoder.dense.encode_images([picture]), encoder.dense.card)
    return TopTerms(path.name, tuple(encoder.sparsify(dense).words(path.name, k)), picture=picture)


def _text(encoder: SparseEncoder, text: str, k: int) -> TopTerms:
    from visir.records import Embeddings
    from visir.sparse.top_terms import TopTerms, own_terms

    dense = Embeddings("text", ["text"], encoder.dense.encode_texts([text]), encoder.dense.card)
    terms = encoder.tokenizer.terms([text])
    vectors = encoder.sparsify(dense, None if encoder.expanded else terms)
    return TopTerms(text, tuple(vectors.words("text", k)), own_terms(encoder, text))


def _as_json(card: TopTerms) -> dict[str, Any]:
    words = [{"word": term, "weight": weight, "own": term in card.own} for term, weight in card.terms]
    return {"title": card.title, "words": words, "caption": None if card.caption is None else _as_json(card.caption)}


def _show(card: TopTerms) -> None:
    """A table of words with bars, the heaviest as long as `_BAR`; below a picture its caption's."""
    from rich.markup import escape
    from rich.table import Table

    heading = escape(" ".join(card.title.split()))
    if not card.terms:
        output.console_of_verb().print(f"[bold]{heading}[/bold]\n  no words\n")
    else:
        table = Table(title=heading, title_justify="left", title_style="bold", box=None, show_header=False)
        table.add_column(justify="right", width=2)
        table.add_column(min_width=14)
        table.add_column(justify="right")
        table.add_column()
        for term, weight in card.terms:
            table.add_row(
                "•" if term in card.own else "", escape(term), f"{weight:.2f}", _bar(weight / card.terms[0][1])
            )
        output.console_of_verb().print(table)
    if card.caption is not None:
        _show(card.caption)


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
