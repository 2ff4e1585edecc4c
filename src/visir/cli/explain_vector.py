"""`visir explain-vector`: what a sparse vector of a picture or a text says, in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from visir.records import Collection, Modality, SparseEmbeddings
    from visir.reports.word_sheet import Said
    from visir.sparse.encoder import SparseEncoder

_BAR = 28
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def explain_vector(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[IMAGE|TEXT]…", help="Picture files, texts, or ids of the collection.", show_default=False
        ),
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="A checkpoint of `visir sparsify`.")] = "",
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="Where ids are looked up.")] = None,
    split: Annotated[str | None, typer.Option(help="One split of it only.")] = None,
    images: Annotated[
        list[str] | None, typer.Option("--images", "-i", help="Where the pictures are: folder, zip, tar (repeatable).")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Without inputs: images, evenly spaced.")] = 10,
    k: Annotated[int, typer.Option("-k", min=1, help="How many words of each vector.")] = 20,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write a sheet with the pictures: page.html.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, … Default: the best there is.")] = None,
) -> None:
    """Print the heaviest words of vectors, with their weights; several at once as a sheet of pictures with their words.

    A dot marks words that a text has itself. With --collection and no inputs, ten of its images with their captions.
    """
    from visir.encoders import load
    from visir.errors import ConfigurationError, EncoderError, raise_faults, require
    from visir.reports.word_sheet import check_suffix, write_word_sheet

    faults = [] if model else ["no checkpoint is named (--model)"]
    if not inputs and collection is None:
        faults.append("nothing to explain: name pictures or texts, or a --collection")
    hint = 'visir explain-vector photo.jpg "a dog on a beach" --model runs/sparse'
    raise_faults(ConfigurationError, "explain-vector", faults, hint=hint)
    if out is not None:
        check_suffix(out)
    require("torch", "tokenizers", extra="sparse", purpose="sparse vectors")
    from visir.sparse.encoder import SparseEncoder

    encoder = load(model, device=device)
    if not isinstance(encoder, SparseEncoder):
        raise EncoderError(f"{model}: its vectors have no words.", hint=f"visir sparsify --model {model} …")
    opened = None
    if collection is not None:
        from visir.collections import open_collection

        where = images[0] if images and len(images) == 1 else images
        opened = open_collection(collection, images=where, split=split)
    if inputs:
        cards = [_one(encoder, opened, one, k) for one in inputs]
    else:
        assert opened is not None
        cards = _evenly(encoder, opened, count, k)
    for card in cards:
        _show(card)
    if out is not None:
        title = f"Words of {opened.name}" if opened is not None else "Vectors in words"
        expansion = "captions expanded" if encoder.expanded else "captions not expanded"
        write_word_sheet(out, cards, title=title, subtitle=f"{encoder.card.name} · {expansion} · top {k}")
        typer.echo(f"sheet: {out}")


def _one(encoder: SparseEncoder, opened: Collection | None, asked: str, k: int) -> Said:
    """A picture file, an image or a caption of the collection, or a text: the first that fits."""
    import pyarrow.compute as pc

    if Path(asked).is_file():
        return _file(encoder, Path(asked), k)
    if opened is not None:
        here = pc.equal(opened.images["id"], asked)
        if pc.any(here).as_py():
            return _of_images(encoder, opened, opened.keep_images(here), k)[0]
        captions = opened.captions.filter(pc.equal(opened.captions["id"], asked))
        if captions.num_rows:
            image = captions["image_id"][0].as_py()
            part = opened.keep_images(pc.equal(opened.images["id"], image))
            return _captions(encoder, opened, part, [asked], k)[asked]
    return _text(encoder, asked, k)


def _file(encoder: SparseEncoder, path: Path, k: int) -> Said:
    from visir.collections.images import decode
    from visir.records import Embeddings
    from visir.reports.word_sheet import Said

    picture = decode(path.read_bytes(), str(path))
    dense = Embeddings("image", [path.name], encoder.dense.encode_images([picture]), encoder.dense.card)
    return Said(path.name, _words(encoder.sparsify(dense), path.name, k), picture=picture)


def _text(encoder: SparseEncoder, text: str, k: int) -> Said:
    from visir.records import Embeddings
    from visir.reports.word_sheet import Said

    dense = Embeddings("text", ["text"], encoder.dense.encode_texts([text]), encoder.dense.card)
    terms = encoder.tokenizer.terms([text])
    found = encoder.sparsify(dense, None if encoder.expanded else terms)
    return Said(text, _words(found, "text", k), _own(encoder, text))


def _evenly(encoder: SparseEncoder, opened: Collection, count: int, k: int) -> list[Said]:
    import numpy as np

    n = opened.images.num_rows
    keep = np.zeros(n, bool)
    keep[np.unique(np.linspace(0, n - 1, min(count, n)).round().astype(int))] = True
    return _of_images(encoder, opened, opened.keep_images(keep), k)


def _of_images(encoder: SparseEncoder, opened: Collection, part: Collection, k: int) -> list[Said]:
    """Each image of a small part of a collection, with its picture if it is at hand, and its first caption."""
    from visir.collections.images import ImageReader
    from visir.errors import ImageError
    from visir.reports.word_sheet import Said

    found, reader = _sparse(encoder, opened, part, "image"), ImageReader(part)
    first: dict[str, str] = {}
    for caption, image in zip(part.captions["id"].to_pylist(), part.captions["image_id"].to_pylist(), strict=True):
        first.setdefault(image, caption)
    captions = _captions(encoder, opened, part, list(first.values()), k)
    cards = []
    for row, image in enumerate(part.images["id"].to_pylist()):
        try:
            picture = reader.open(row)
        except ImageError:  # vectors may be there without pictures
            picture = None
        caption = captions.get(first.get(image, ""))
        cards.append(Said(image, _words(found, image, k), picture=picture, caption=caption))
    return cards


def _captions(encoder: SparseEncoder, opened: Collection, part: Collection, ids: list[str], k: int) -> dict[str, Said]:
    from visir.reports.word_sheet import Said

    if not part.captions.num_rows:
        return {}
    found = _sparse(encoder, opened, part, "text")
    texts = dict(zip(part.captions["id"].to_pylist(), part.captions["text"].to_pylist(), strict=True))
    return {one: Said(texts[one], _words(found, one, k), _own(encoder, texts[one])) for one in ids}


def _sparse(encoder: SparseEncoder, opened: Collection, part: Collection, modality: Modality) -> SparseEmbeddings:
    """Weighted words of a part of a collection; imported vectors may be known by their row in the whole one only."""
    from visir.encoders import encode
    from visir.encoders.models.imported import Imported

    rows = part.images if modality == "image" else part.captions
    if isinstance(encoder.dense, Imported):
        dense = encode(encoder.dense, opened, modality).select(rows["id"].combine_chunks())
    else:
        dense = encode(encoder.dense, part, modality)
    own = modality == "text" and not encoder.expanded
    return encoder.sparsify(dense, encoder.tokenizer.terms(rows["text"].to_pylist()) if own else None)


def _words(found: SparseEmbeddings, one: str, k: int) -> tuple[tuple[str, float], ...]:
    return tuple(found.words(one, k))


def _own(encoder: SparseEncoder, text: str) -> frozenset[str]:
    terms = encoder.vocabulary.terms
    return frozenset(terms[int(term)].as_py() for term in encoder.tokenizer.terms([text]).terms)


def _show(card: Said) -> None:
    """A table of words with bars, the heaviest as long as `_BAR`; below a picture its caption's."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    heading = escape(" ".join(card.title.split()))
    if not card.words:
        Console().print(f"[bold]{heading}[/bold]\n  no words\n")
    else:
        table = Table(title=heading, title_justify="left", title_style="bold", box=None, show_header=False)
        table.add_column(justify="right", width=2)
        table.add_column(min_width=14)
        table.add_column(justify="right")
        table.add_column()
        for term, weight in card.words:
            table.add_row(
                "•" if term in card.own else "", escape(term), f"{weight:.2f}", _bar(weight / card.words[0][1])
            )
        Console().print(table)
    if card.caption is not None:
        _show(card.caption)


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
