"""`visir search`: ask a collection in words or with a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from visir.records import Collection, Embeddings, Modality, SparseEmbeddings
    from visir.retrieval.index import Index

Query = Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to look for.")]
Model = Annotated[str, typer.Option("--model", "-m", help="A model, or a checkpoint folder.")]
Count = Annotated[int, typer.Option("-k", min=1, help="How many answers.")]
IndexFolder = Annotated[
    Path | None, typer.Option(help="Ask this index of the collection (visir index build), by its own model.")
]
Answers = Annotated[
    str | None, typer.Option(help="Answers: images or captions. Default: images for a text, both for a picture.")
]
Split = Annotated[str | None, typer.Option(help="Search one split only.")]
Images = Annotated[list[str] | None, typer.Option("--images", "-i", help="Where the pictures are: folder, zip or tar.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, mps, … Default: the best there is.")]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Leave images aside that cannot be read.")]


def search(
    collection: Annotated[
        str, typer.Argument(metavar="COLLECTION", help="A folder of photos, or any known format.", show_default=False)
    ],
    text: Query = None,
    model: Model = "",
    image: Annotated[Path | None, typer.Option(help="Look for what fits this picture, instead of a text.")] = None,
    k: Count = 10,
    index: IndexFolder = None,
    to: Answers = None,
    split: Split = None,
    images: Images = None,
    device: Device = None,
    skip_broken: SkipBroken = False,
) -> None:
    """Find images (or captions) by a text, or by a picture: ranked, with scores and where the pictures are.

    The collection is encoded first. With a model of weighted words (visir sparsify) the terms that matched are shown,
    and how much each gave.
    """
    from visir.cli.matched_terms import matched_terms
    from visir.cli.vectors import picture_vector
    from visir.collections import open_collection
    from visir.encoders import encode_items, load
    from visir.errors import ConfigurationError, nearest, raise_faults
    from visir.retrieval.kinds import open_index

    faults = []
    if not model and index is None:
        faults.append("no model is named (--model)")
    if (text is None) == (image is None):
        faults.append("ask with a text or with --image FILE, one of the two")
    if to not in (None, "images", "captions"):
        faults.append(f"unknown answers {to!r} ({nearest(str(to), ('images', 'captions'))})")
    raise_faults(ConfigurationError, "search", faults, hint='visir search COLLECTION --model MODEL "a dog on a beach"')
    built = None if index is None else open_index(index)
    held = None if built is None else "images" if built.info().modality == "image" else "captions"
    if held is not None and to not in (None, held):
        raise ConfigurationError(f"{index}: an index of {held}, not of {to}.", hint="leave --to out, or build another")
    opened = open_collection(collection, images=images[0] if images and len(images) == 1 else images, split=split)
    encoder = load(model or built.info().encoder, device=device)  # type: ignore[union-attr]
    if image is not None:
        vectors = picture_vector(encoder, image)
    else:
        vectors = encoder.encode_inputs("text", {"query": text or ""})
    answers = [held] if held else [to] if to else ["images"] if image is None else ["captions", "images"]
    if image is not None and to is None and held is None and opened.captions.num_rows == 0:
        answers = ["images"]
    for answer in answers:
        modality: Modality = "image" if answer == "images" else "text"
        chosen = built or _exact(encode_items(encoder, opened.items(modality), skip_broken=skip_broken))
        run = chosen.search(vectors, k)
        ranked = run.answer("query")
        terms = matched_terms(vectors, chosen.select([document for document, _ in ranked]), ranked)
        unit = "cosine" if run.provenance.get("similarity") == "cosine" else "score"
        _show(ranked, unit, terms, opened, answer, text or str(image))


def _exact(candidates: Embeddings | SparseEmbeddings) -> Index[Any]:
    """The candidates as an index in memory, searched once."""
    from visir.retrieval.kinds import build_index, form_of

    return build_index(candidates, "exact" if form_of(candidates) == "dense" else "scipy")


def _show(
    answers: list[tuple[str, float]], unit: str, terms: dict[str, str], collection: Collection, kind: str, question: str
) -> None:
    from rich.table import Table

    from visir.console import Console

    table = Table(title=f"{kind} for “{question}”", title_justify="left", box=None)
    table.add_column("rank", justify="right")
    table.add_column(unit, justify="right")
    table.add_column(kind[:-1], overflow="fold")
    table.add_column("caption" if kind == "captions" else "where", overflow="fold")
    if kind == "images":
        table.add_column("first caption", overflow="fold")
    if terms:
        table.add_column("matched terms", overflow="fold")
    texts, places = _texts(collection), _places(collection)
    for rank, (document, score) in enumerate(answers, 1):
        row: list[Any] = [str(rank), f"{score:.4f}", document]
        if kind == "captions":
            row += [texts["caption"].get(document, "")]
        else:
            row += [places.get(document, "not in the collection"), texts["image"].get(document, "")]
        row += [terms[document]] if terms else []
        table.add_row(*row)
    Console().print(table, markup=False)


def _texts(collection: Collection) -> dict[str, dict[str, str]]:
    """{"caption": caption id → text, "image": image id → its first caption}."""
    columns = collection.captions.to_pydict()
    rows = list(zip(columns["id"], columns["text"], columns["image_id"], strict=True))
    return {
        "caption": {caption: text for caption, text, _ in rows},
        "image": {image: text for _, text, image in reversed(rows)},
    }


def _places(collection: Collection) -> dict[str, str]:
    """Image id → where the picture is: a path, or the name inside an archive."""
    columns = collection.images.to_pydict()
    return {
        image: "" if path is None else f"{collection.root / archive}: {path}" if archive else _path(collection, path)
        for image, path, archive in zip(columns["id"], columns["path"], columns["archive"], strict=True)
    }


def _path(collection: Collection, path: str) -> str:
    return path if path.startswith("scene:") else str(collection.root / path)
