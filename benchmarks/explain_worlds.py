"""Results of one's own that published numbers are explained from: Flickr8k with trained heads, and variants of it.

A world is a collection, the vectors of all its splits, and a result folder of its test split. Vectors are made once:
the recipe `flickr8k-heads` is trained for five epochs and encodes all of Flickr8k (about 40 minutes on two cores).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import visir
from visir.files import data_directory
from visir.records import Collection, Embeddings, EncoderCard, Gallery, Run

Matrix = NDArray[np.float32]
KS = (1, 5, 10)
Data = tuple[Collection, Embeddings, Embeddings]
"""A collection with its splits, and the vectors of all its images and captions."""
CARD = EncoderCard("heads", "benchmark", revision="1")


@dataclass(frozen=True, eq=False)
class World:
    """A collection, its vectors, and a result of its test split.

    Attributes:
        name: Its name.
        collection: The collection with all splits.
        images: Vectors of all images.
        texts: Vectors of all captions.
        options: The options of the result's evaluation.
        least: Answers with a lower score are left out of the result's runs.
        gallery: How many of the first images are candidates; 0 for all.
    """

    name: str
    collection: Collection
    images: Embeddings
    texts: Embeddings
    options: dict[str, Any]
    least: float = -np.inf
    gallery: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether runs lack the answers with low scores."""
        return not np.isinf(self.least)

    def evaluate(self, **options: Any) -> visir.Evaluation:
        """The result, or another evaluation of the same vectors."""
        options = {"split": "test", **self.options, **options}
        evaluation = visir.evaluate(self.collection, (self.images, self.texts), **options)
        if not self.is_cut:
            return evaluation
        runs = {}
        for task, run in evaluation.runs.items():
            row, keep = np.repeat(np.arange(len(run.queries)), np.diff(run.offsets)), run.scores >= self.least
            runs[task] = Run.ranked(
                "cut", task, run.queries.take(pa.array(row[keep])), run.documents.take(pa.array(run.indices[keep])),
                run.scores[keep], run.gallery, depth=run.depth,
            )  # fmt: skip
        return visir.evaluate(self.collection, runs, **options)

    def part(self, split: str = "test") -> Part:
        """The vectors of a split as plain arrays."""
        part = self.collection.split(split)
        ids = part.images["id"].to_pylist()
        place = {identifier: number for number, identifier in enumerate(ids)}
        owner = np.array([place[image] for image in part.captions["image_id"].to_pylist()])
        images = self.images.select(part.images["id"]).vectors
        return Part(np.asarray(images), np.asarray(self.texts.select(part.captions["id"]).vectors), owner, ids)


@dataclass(frozen=True, eq=False)
class Part:
    """The vectors of a split: (n, d) images, (m, d) texts, (m,) the image of each caption, and the ids of images."""

    images: Matrix
    texts: Matrix
    owner: NDArray[np.int64]
    ids: list[str]

    @cached_property
    def cosines(self) -> Matrix:
        """(captions, images) cosines."""
        return unit(self.texts) @ unit(self.images).T

    def keep(self, captions: NDArray[np.bool_]) -> Part:
        """The part with some of its captions only."""
        return replace(self, texts=self.texts[captions], owner=self.owner[captions])

    def first(self, images: int) -> Part:
        """The part with its first images only."""
        keep = self.owner < images
        return Part(self.images[:images], self.texts[keep], self.owner[keep], self.ids[:images])

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """Which caption of its image each is, from 0."""
        seen: dict[int, int] = {}
        places = []
        for image in self.owner.tolist():
            places.append(seen.get(image, 0))
            seen[image] = places[-1] + 1
        return np.array(places)


def unit(vectors: NDArray[Any]) -> Matrix:
    """Vectors of length 1."""
    vectors = np.asarray(vectors, np.float64)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def features(out: Path) -> Data:
    """Flickr8k and its vectors, made where they are not yet there."""
    data = data_directory() / "flickr8k"
    collection = visir.open(
        f"karpathy:{data / 'dataset_flickr8k.karpathy_schema.json.xz'}",
        images=[str(data / f"images_{name}.zip") for name in ("test_224", "val_224", "train_160")],
    )
    path = out / "flickr8k.npz"
    if not path.is_file():
        heads = out / "heads"
        if not heads.is_dir():
            command = [sys.executable, "-m", "visir", "train", "flickr8k-heads", "--set", "optimiser.epochs=5"]
            subprocess.run([*command, "--out", str(heads)], check=True)
        model = visir.load(str(heads))
        made = {side: visir.encoders.encode_items(model, collection.items(side)) for side in ("image", "text")}
        np.savez(
            path,
            image=made["image"].vectors,
            text=made["text"].vectors,
            image_ids=np.array(made["image"].ids.to_pylist()),
            text_ids=np.array(made["text"].ids.to_pylist()),
        )
    with np.load(path) as arrays:
        images = Embeddings("image", pa.array(arrays["image_ids"].tolist()), arrays["image"], CARD)
        texts = Embeddings("text", pa.array(arrays["text_ids"].tolist()), arrays["text"], CARD)
    return collection, images, texts


def small(collection: Collection, images: Embeddings, texts: Embeddings) -> Data:
    """The first 200 images of each split: for a quick check."""
    splits = np.array(collection.images["split"].to_pylist())
    keep = np.zeros(len(splits), bool)
    for name in ("train", "val", "test"):
        keep[np.flatnonzero(splits == name)[:200]] = True
    part = collection.keep_images(keep)
    return part, images.select(part.images["id"]), texts.select(part.captions["id"])


def flickr8k(collection: Collection, images: Embeddings, texts: Embeddings) -> World:
    """The plain result."""
    return World("flickr8k", collection, images, texts, {})


def folds(collection: Collection, images: Embeddings, texts: Embeddings) -> World:
    """A result within five folds."""
    return World("folds", collection, images, texts, {"folds": 5})


def one_bit(collection: Collection, images: Embeddings, texts: Embeddings) -> World:
    """Vectors of 64 signs, so that many scores are equal."""
    signs = [replace(side, vectors=np.where(side.vectors[:, :64] >= 0, 1, -1).astype(np.float32))
             for side in (images, texts)]  # fmt: skip
    return World("one bit", collection, signs[0], signs[1], {})


def sixth(collection: Collection, images: Embeddings, texts: Embeddings) -> World:
    """Every tenth test image has a sixth caption: the first caption of an image of the validation split."""
    test, val = collection.split("test"), collection.split("val")
    owners = test.images["id"].to_pylist()[::10]
    first: dict[str, str] = {}
    for identifier, image in zip(val.captions["id"].to_pylist(), val.captions["image_id"].to_pylist(), strict=True):
        first.setdefault(image, identifier)
    taken = list(first.values())[: len(owners)]
    more = {"id": [f"{identifier}-sixth" for identifier in taken], "text": taken, "image_id": owners}
    captions = collection.captions.select(["id", "text", "image_id"])
    wider = Collection.build(
        "sixth captions",
        images={"id": collection.images["id"].to_pylist(), "split": collection.images["split"].to_pylist()},
        captions={name: [*captions[name].to_pylist(), *more[name]] for name in more},
    )
    vectors = np.concatenate([texts.vectors, texts.select(taken).vectors])
    extended = Embeddings("text", pa.array([*texts.ids.to_pylist(), *more["id"]]), vectors, CARD)
    return World("sixth captions", wider, images, extended, {})


def duplicates(collection: Collection, images: Embeddings, texts: Embeddings) -> World:
    """Every tenth test image is there twice; the second one has no captions."""
    twice = collection.split("test").images["id"].to_pylist()[::10]
    ids, splits = collection.images["id"].to_pylist(), collection.images["split"].to_pylist()
    captions = collection.captions
    wider = Collection.build(
        "duplicates",
        images={"id": [*ids, *(f"{name}-copy" for name in twice)], "split": [*splits, *("test" for _ in twice)]},
        captions={name: captions[name].to_pylist() for name in ("id", "text", "image_id")},
    )
    vectors = np.concatenate([images.vectors, images.select(twice).vectors])
    extended = Embeddings(
        "image", pa.array([*images.ids.to_pylist(), *(f"{name}-copy" for name in twice)]), vectors, CARD
    )
    return World("duplicates", wider, extended, texts, {})


def few_answers(collection: Collection, images: Embeddings, texts: Embeddings) -> World:
    """Only answers that are good enough: one query in ten or so has none."""
    part = World("", collection, images, texts, {}).part()
    least = float(np.quantile(part.cosines.max(axis=1), 0.1))
    return World("few answers", collection, images, texts, {}, least=least)


def smaller_gallery(collection: Collection, images: Embeddings, texts: Embeddings) -> World:
    """Nine in ten images are candidates; the captions of all of them ask."""
    ids = collection.split("test").images["id"].to_pylist()
    count = len(ids) * 9 // 10
    options = {"tasks": ["t2i"], "gallery": {"t2i": Gallery.of("image", ids[:count], "nine in ten")}}
    return World("smaller gallery", collection, images, texts, options, gallery=count)


WORLDS: dict[str, Callable[[Collection, Embeddings, Embeddings], World]] = {
    "flickr8k": flickr8k,
    "folds": folds,
    "one bit": one_bit,
    "sixth captions": sixth,
    "duplicates": duplicates,
    "few answers": few_answers,
    "smaller gallery": smaller_gallery,
}
"""Results that set-ups start from, by name."""
