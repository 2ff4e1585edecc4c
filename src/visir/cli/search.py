"""`visir search`: ask a library, or a collection, in words or with a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from visir.records import Collection, Embeddings, Modality, SparseEmbeddings
    from visir.search.index import Index


_HERE: Any = {"rich_help_panel": "In a library"}


def search(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="LIBRARY|COLLECTION",
            help="What visir index made, a folder of photos, or any known format.",
            show_default=False,
        ),
    ],
    query: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to look for.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="A model, or a checkpoint folder.")] = "",
    image: Annotated[
        Path | None, typer.Option(help="Look for what fits this picture, instead of a text; a library takes both.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers.")] = 10,
    index: Annotated[
        Path | None, typer.Option(help="Ask this index of the collection (visir index build), by its own model.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Answers: images or captions. Default: images for a text, both for a picture.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Search one split only.")] = None,
    images: Annotated[
        list[str] | None, typer.Option("--images", "-i", help="Where the pictures are: folder, zip or tar.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, … Default: the best there is.")] = None,
    skip_broken: Annotated[bool, typer.Option("--skip-broken", help="Leave images aside that cannot be read.")] = False,
    like: Annotated[
        str | None, typer.Option(help="Look for pictures like this one of the library: its path, name or id.", **_HERE)
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="Part of the text beside a picture, 0 to 1. Default: 0.5", **_HERE)
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="dense, sparse or hybrid. Default: dense, if there.", **_HERE)
    ] = None,
    fusion: Annotated[
        str | None, typer.Option(help="How hybrid joins the two: rrf or weighted. Default: rrf", **_HERE)
    ] = None,
    weight: Annotated[float | None, typer.Option(help="Part of dense in weighted. Default: 0.5", **_HERE)] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help='A condition: "width >= 800", "taken >= 2024-05", "camera contains canon" …', **_HERE),
    ] = None,
    category: Annotated[
        str | None, typer.Option(help="Only this folder or category, with what lies below it.", **_HERE)
    ] = None,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many of the first answers.", **_HERE)] = 0,
    rerank: Annotated[
        int, typer.Option(min=0, help="Put so many of the best in order by the model's matching head.", **_HERE)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the service would answer.", **_HERE)] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Show thumbnails where the terminal can.", **_HERE)
    ] = True,
) -> None:
    """Find images (or captions) by a text, or by a picture: ranked, with scores and where the pictures are.

    In a library (visir index PLACE --model M) it takes a moment; a collection is encoded first. With a model of
    weighted words (visir sparsify) the terms that matched are shown, and how much each gave.
    """
    from visir.cli.search_library import Asked, search_library
    from visir.collections.open import resolve
    from visir.errors import ConfigurationError, raise_faults
    from visir.library.layout import check_begun, is_library

    asked = Asked(query, image, like, share, system, fusion, weight, where or (), category, k, offset, rerank, device,
                  as_json, pictures)  # fmt: skip
    check_begun(Path(collection))
    here = is_library(collection)
    if not here and "://" not in collection:
        resolve(collection)  # a place that is not there is the first thing to say
    elsewhere = {"--model": model or None, "--index": index, "--to": to, "--split": split, "--images": images,
                 "--skip-broken": skip_broken or None}  # fmt: skip
    unfit = [name for name, value in elsewhere.items() if value is not None] if here else asked.only_here()
    what = "a library, which has its own models and pictures" if here else "no library (visir index PLACE --model M)"
    raise_faults(ConfigurationError, "search", [f"{one}: {collection} is {what}" for one in unfit], hint="leave it out")
    if here:
        search_library(Path(collection), asked)
    else:
        _search_collection(collection, query, model, image, k, index, to, split, images, device, skip_broken)


def _search_collection(
    collection: str,
    query: str | None,
    model: str,
    image: Path | None,
    k: int,
    index: Path | None,
    to: str | None,
    split: str | None,
    images: list[str] | None,
    device: str | None,
    skip_broken: bool,
) -> None:
    from visir.cli.explained import explained
    from visir.cli.vectors import collection_vectors, picture_vector, text_vectors
    from visir.collections import open_collection
    from visir.encoders import load
    from visir.errors import ConfigurationError, nearest, raise_faults
    from visir.search.kinds import load as load_index

    faults = []
    if not model and index is None:
        faults.append("no model is named (--model)")
    if (query is None) == (image is None):
        faults.append("ask with a text or with --image FILE, one of the two")
    if to not in (None, "images", "captions"):
        faults.append(f"unknown answers {to!r} ({nearest(str(to), ('images', 'captions'))})")
    raise_faults(ConfigurationError, "search", faults, hint='visir search COLLECTION --model MODEL "a dog on a beach"')
    built = None if index is None else load_index(index)
    held = None if built is None else "images" if built.info().modality == "image" else "captions"
    if held is not None and to not in (None, held):
        raise ConfigurationError(f"{index}: an index of {held}, not of {to}.", hint="leave --to out, or build another")
    opened = open_collection(collection, images=images[0] if images and len(images) == 1 else images, split=split)
    encoder = load(model or built.info().encoder, device=device)  # type: ignore[union-attr]
    vectors = picture_vector(encoder, image) if image is not None else text_vectors(encoder, {"query": query or ""})
    answers = [held] if held else [to] if to else ["images"] if image is None else ["captions", "images"]
    if image is not None and to is None and held is None and opened.captions.num_rows == 0:
        answers = ["images"]
    for answer in answers:
        modality: Modality = "image" if answer == "images" else "text"
        # Answers are of the other modality than queries. A picture that looks for pictures is searched as a text would
        # be: both are one vector of the same space, and only the label differs.
        relabelled = replace(vectors, modality="text" if modality == "image" else "image")
        chosen = built or _exact(collection_vectors(encoder, opened, modality, skip_broken))
        run = chosen.search(relabelled, k)
        ranked = run.answer("query")
        terms = explained(relabelled, chosen.select([one for one, _ in ranked]), ranked)
        unit = "cosine" if run.provenance.get("similarity") == "cosine" else "score"
        _show(ranked, unit, terms, opened, answer, query or str(image))


def _exact(candidates: Embeddings | SparseEmbeddings) -> Index[Any]:
    """The candidates as an index in memory, searched once."""
    from visir.search.kinds import build, form_of

    return build("exact" if form_of(candidates) == "dense" else "scipy", candidates)


def _show(
    answers: list[tuple[str, float]], unit: str, terms: dict[str, str], collection: Collection, kind: str, asked: str
) -> None:
    from rich.table import Table

    from visir.console import Console

    table = Table(title=f"{kind} for “{asked}”", title_justify="left", box=None)
    table.add_column("rank", justify="right")
    table.add_column(unit, justify="right")
    table.add_column(kind[:-1], overflow="fold")
    table.add_column("caption" if kind == "captions" else "where", overflow="fold")
    if kind == "images":
        table.add_column("first caption", overflow="fold")
    if terms:
        table.add_column("matched terms", overflow="fold")
    texts, places = _texts(collection), _places(collection)
    for rank, (one, score) in enumerate(answers, 1):
        row: list[Any] = [str(rank), f"{score:.4f}", one]
        if kind == "captions":
            row += [texts["caption"].get(one, "")]
        else:
            row += [places.get(one, "not in the collection"), texts["image"].get(one, "")]
        row += [terms[one]] if terms else []
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
        one: "" if path is None else f"{collection.root / archive}: {path}" if archive else _path(collection, path)
        for one, path, archive in zip(columns["id"], columns["path"], columns["archive"], strict=True)
    }


def _path(collection: Collection, path: str) -> str:
    return path if path.startswith("scene:") else str(collection.root / path)
