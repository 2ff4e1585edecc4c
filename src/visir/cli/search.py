"""`visir search`: ask a collection in words or with a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli.answers import ShownAnswer, show_answers
from visir.cli.completion import of
from visir.cli.index import model_of_index
from visir.cli.options import (
    CountOption,
    DeviceOption,
    ImagesOption,
    OptionalModelOption,
    SplitOption,
    single_or_all,
)
from visir.cli.verbs import examples

if TYPE_CHECKING:
    from visir.records import Collection, Modality, Vectors
    from visir.retrieval.index import Index

IndexFolder = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Ask this index of the collection (visir index build), by its own model."),
]
AnswersOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIDE",
        help="What is found: images or captions. Default: images for a text, both for a picture.",
        autocompletion=of("images", "captions"),
    ),
]


@examples(
    "visir search ~/Photos 'a dog on a beach' --model openai/clip-vit-base-patch32",
    "visir search photos.visir 'a dog on a beach'",
    "visir search scenes:100 --image photo.jpg --model pixels",
)
def search(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of photos, a library (visir library make), or a collection in any known format.",
            show_default=False,
        ),
    ],
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to look for.")] = None,
    model: OptionalModelOption = None,
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Look for what fits this picture, instead of a text.")
    ] = None,
    k: CountOption = 10,
    to: AnswersOption = None,
    index: IndexFolder = None,
    split: SplitOption = None,
    images: ImagesOption = None,
    skip_broken: Annotated[
        bool,
        typer.Option("--skip-broken", hidden=True, help="Set pictures aside that cannot be read: always so, here."),
    ] = True,
    device: DeviceOption = None,
) -> None:
    """Search photos or a collection with words or a picture.

    A folder or a collection is encoded first; the vectors are kept, so that the next search is fast. Pictures that
    cannot be read are set aside, and named. A library is
    searched at once, by its own model; its filters and further options are in `visir library search`, those of an
    index in `visir index search`. With a model of weighted words (visir sparsify) the terms that matched are shown.
    """
    from visir.cli.encode import print_set_aside
    from visir.cli.shortcuts import matched_terms, picture_vector
    from visir.collections import open_collection
    from visir.encoders import encode_detailed, load
    from visir.errors import ConfigurationError, nearest, raise_faults
    from visir.retrieval.kinds import open_index

    faults = []
    if not model and index is None:
        faults.append("no model is named (--model)")
    if (text is None) == (image is None):
        faults.append("ask with a text or with --image FILE, one of the two")
    if to not in (None, "images", "captions"):
        faults.append(f"unknown answers {to!r} ({nearest(str(to), ('images', 'captions'))})")
    raise_faults(ConfigurationError, "search", faults, hint=f'visir search {collection} "a dog" --model MODEL')
    built = None if index is None else open_index(index)
    held = None if built is None else "images" if built.info().modality == "image" else "captions"
    if held is not None and to not in (None, held):
        raise ConfigurationError(f"{index}: an index of {held}, not of {to}.", hint="leave --to out, or build another")
    opened = open_collection(collection, images=single_or_all(images), split=split)
    if model or built is None or index is None:
        encoder = load(model or "", device=device)
    else:
        encoder = model_of_index(built, index, None, device)
    if image is not None:
        vectors = picture_vector(encoder, image)
    else:
        vectors = encoder.encode_inputs("text", {"query": text or ""})
    sides = [held] if held else [to] if to else ["images"] if image is None else ["captions", "images"]
    if image is not None and to is None and held is None and opened.captions.num_rows == 0:
        sides = ["images"]
    for side in sides:
        modality: Modality = "image" if side == "images" else "text"
        chosen, broken = built, dict[str, str]()
        if chosen is None:
            encoding = encode_detailed(encoder, opened.items(modality), skip_broken=True)
            chosen, broken = _exact(encoding.embeddings), dict(encoding.broken)
        run = chosen.search(vectors, k)
        ranked = run.answer("query")
        terms = matched_terms(vectors, chosen.select([document for document, _ in ranked]), ranked)
        unit = "cosine" if run.provenance.get("similarity") == "cosine" else "score"
        show_answers(f"{side} for “{text or image}”", side, _answers(ranked, terms, opened, side), unit=unit)
        print_set_aside(broken, "they were not searched")


def _exact(candidates: Vectors) -> Index[Any]:
    """The candidates as an index in memory, searched once."""
    from visir.retrieval.kinds import build_index, form_of

    return build_index(candidates, "scipy" if form_of(candidates) == "sparse" else None)


def _answers(
    ranked: list[tuple[str, float]], terms: dict[str, str], collection: Collection, side: str
) -> list[ShownAnswer]:
    """The answers with their texts and places. A photo of a folder is named by its path alone."""
    texts, places = _texts(collection), _places(collection)
    answers = []
    for rank, (document, score) in enumerate(ranked, 1):
        matched = terms.get(document, "")
        if side == "captions":
            answers.append(
                ShownAnswer(rank, score, document, caption=texts["caption"].get(document, ""), terms=matched)
            )
        else:
            path, shown = places.get(document, (None, "not in the collection"))
            answers.append(ShownAnswer(rank, score, document, shown, path, texts["image"].get(document, ""), matched))
    return answers


def _texts(collection: Collection) -> dict[str, dict[str, str]]:
    """{"caption": caption id → text, "image": image id → its first caption}."""
    columns = collection.captions.to_pydict()
    rows = list(zip(columns["id"], columns["text"], columns["image_id"], strict=True))
    return {
        "caption": {caption: text for caption, text, _ in rows},
        "image": {image: text for _, text, image in reversed(rows)},
    }


def _places(collection: Collection) -> dict[str, tuple[Path | None, str]]:
    """Image id → the picture's file, absolute, and how the place is written: a name inside an archive has no file."""
    columns = collection.images.to_pydict()
    places: dict[str, tuple[Path | None, str]] = {}
    for image, path, archive in zip(columns["id"], columns["path"], columns["archive"], strict=True):
        if path is None:
            places[image] = (None, "")
        elif archive:
            places[image] = (None, f"{Path(collection.root, archive).absolute()}: {path}")
        elif "://" in str(collection.root) or path.startswith("scene:"):
            places[image] = (None, path if path.startswith("scene:") else f"{collection.root}/{path}")
        else:
            file = Path(collection.root, path).absolute()
            places[image] = (file, str(file))
    return places
