"""`visir search`: ask a collection in words, or with a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.records import Collection, Embeddings


def search(
    collection: Annotated[
        str, typer.Argument(metavar="COLLECTION", help="A folder of photos, or any known format.", show_default=False)
    ],
    query: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to look for.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="A model, or a checkpoint folder.")] = "",
    image: Annotated[Path | None, typer.Option(help="Look for what fits this picture, instead of a text.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers.")] = 10,
    to: Annotated[
        str | None, typer.Option(help="Answers: images or captions. Default: images for a text, both for a picture.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Search one split only.")] = None,
    images: Annotated[
        list[str] | None, typer.Option("--images", "-i", help="Where the pictures are: folder, zip or tar.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, … Default: the best there is.")] = None,
    skip_broken: Annotated[bool, typer.Option("--skip-broken", help="Leave images aside that cannot be read.")] = False,
) -> None:
    """Find images (or captions) by a text, or by a picture: ranked, with cosines and where the pictures are."""
    from visir.collections import open_collection
    from visir.encoders import encode, load
    from visir.errors import ConfigurationError, nearest, raise_faults

    faults = []
    if not model:
        faults.append("no model is named (--model)")
    if (query is None) == (image is None):
        faults.append("ask with a text or with --image FILE, one of the two")
    if to not in (None, "images", "captions"):
        faults.append(f"unknown answers {to!r} ({nearest(str(to), ('images', 'captions'))})")
    raise_faults(ConfigurationError, "search", faults, hint='visir search COLLECTION --model MODEL "a dog on a beach"')
    opened = open_collection(collection, images=images[0] if images and len(images) == 1 else images, split=split)
    encoder = load(model, device=device)
    asked = _asked(encoder, query, image)
    answers = [to] if to else ["images"] if image is None else ["captions", "images"]
    if image is not None and to is None and opened.captions.num_rows == 0:
        answers = ["images"]
    for answer in answers:
        if answer == "images":
            candidates = encode(encoder, opened, "image", skip_broken=skip_broken)
        else:
            candidates = encode(encoder, opened, "text")
        _show(_ranked(asked, candidates, k), opened, answer, query or str(image))


def _asked(encoder: Encoder, text: str | None, image: Path | None) -> Embeddings:
    from visir.records import Embeddings

    if image is None:
        return Embeddings("text", ["query"], encoder.encode_texts([text or ""]), encoder.card)
    from visir.collections.images import decode
    from visir.files import open_binary

    with open_binary(image) as stream:
        picture = decode(stream.read(), str(image))
    return Embeddings("image", ["query"], encoder.encode_images([picture]), encoder.card)


def _ranked(asked: Embeddings, candidates: Embeddings, k: int) -> list[tuple[str, float]]:
    from dataclasses import replace

    from visir.search.exact import search as search_exact

    if candidates.modality == "text":
        return search_exact(replace(asked, modality="image"), candidates, "i2t", depth=k).run.answer("query")
    # Search takes queries of the other modality. A picture that looks for pictures is searched as a text would be: both
    # are one vector of the same space, and only the label differs.
    return search_exact(replace(asked, modality="text"), candidates, "t2i", depth=k).run.answer("query")


def _show(answers: list[tuple[str, float]], collection: Collection, kind: str, asked: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{kind} for “{asked}”", title_justify="left", box=None)
    table.add_column("rank", justify="right")
    table.add_column("cosine", justify="right")
    table.add_column(kind[:-1], overflow="fold")
    table.add_column("caption" if kind == "captions" else "where", overflow="fold")
    if kind == "images":
        table.add_column("first caption", overflow="fold")
    texts, places = _texts(collection), _places(collection)
    for rank, (one, score) in enumerate(answers, 1):
        row: list[Any] = [str(rank), f"{score:.4f}", one]
        row += [texts["caption"].get(one, "")] if kind == "captions" else [places[one], texts["image"].get(one, "")]
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
