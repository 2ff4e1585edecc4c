"""Items of any modality through encoders: texts with images in one vector, refusals, and the keys of the store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from encoder_toys import Means, photos
from numpy.typing import NDArray

from refusals import refused
from visir.collections import open_collection
from visir.encoders import Encoder, Store, encode_detailed, encode_items, load
from visir.encoders.intake import Pixels
from visir.encoders.shards import Shard, encode_shard, join_shards
from visir.errors import CollectionError, EncoderError
from visir.records import EncoderCard, Items
from visir.robustness.corruptions import corrupt
from visir.shortcuts import inject


class PixelsAndWords(Encoder):
    """One vector of a text and an image: colour statistics, then a bag of words."""

    batch_size = 2

    def __init__(self) -> None:
        self.pixels, self.words = load("pixels"), load("bow:16")
        self.card = EncoderCard("pixels and words", "toy", weights="1")
        self.dimension = self.pixels.dimension + self.words.dimension
        self.modalities = frozenset({"text+image"})
        self.preprocess = self.pixels.preprocess  # type: ignore[method-assign]

    def embed_texts_with_images(self, texts: Sequence[str], batch: Sequence[Pixels]) -> NDArray[np.float32]:
        return np.hstack([self.pixels.embed_images(batch), self.words.embed_texts(texts)])


def compositions(folder: Path, count: int = 5) -> Items:
    """Photos, each with a text."""
    images = photos(folder, count).items("image")
    texts = pa.array([f"the same in colour {number}" for number in range(count)])
    return Items(images.ids, texts, images.places, images.root, "modified photos", "compositions")


def test_texts_with_images_in_one_vector(tmp_path: Path) -> None:
    items, encoder, store = compositions(tmp_path / "photos"), PixelsAndWords(), Store(tmp_path / "store")
    pictures = Items(items.ids, None, items.places, items.root)
    assert items.modality == "text+image"
    result = encode_detailed(encoder, items, store=store)
    vectors = result.embeddings
    assert vectors.modality == "text+image" and vectors.ids.equals(items.ids) and result.computed == 5
    images = encode_items(load("pixels"), pictures, store=store).vectors
    assert np.array_equal(vectors.vectors, np.hstack([images, load("bow:16").encode_texts(items.texts.to_pylist())]))
    assert encode_detailed(encoder, items, store=store).computed == 0
    other = Items(items.ids, pa.array(["another text"] * 5), items.places, items.root)
    assert encode_detailed(encoder, other, store=store).computed == 5  # the text is part of the key
    backwards = items.take(np.arange(5)[::-1])
    assert np.array_equal(encode_items(encoder, backwards, store=store).vectors, vectors.vectors[::-1])


def test_a_broken_image_takes_its_text_with_it(tmp_path: Path) -> None:
    items = compositions(tmp_path / "photos")
    sound = encode_items(PixelsAndWords(), items, store=Store(tmp_path / "first")).vectors
    (tmp_path / "photos" / items.places["path"][1].as_py()).write_bytes(b"no image")
    result = encode_detailed(PixelsAndWords(), items, store=Store(tmp_path / "second"), skip_broken=True)
    assert list(result.broken) == [items.ids[1].as_py()]
    assert np.array_equal(result.embeddings.vectors, sound[[0, 2, 3, 4]])


def test_shards_of_texts_with_images(tmp_path: Path) -> None:
    items, store = compositions(tmp_path / "photos"), Store(tmp_path / "shards")
    for number in (1, 2):
        encode_shard(PixelsAndWords(), items, Shard(number, 2), store=store)
    joined = join_shards(PixelsAndWords(), items, store=store)
    whole = encode_items(PixelsAndWords(), items, store=Store(tmp_path / "whole"))
    assert np.array_equal(joined.embeddings().vectors, whole.vectors)


def test_an_encoder_says_what_it_takes(tmp_path: Path) -> None:
    items = compositions(tmp_path / "photos")
    with refused(EncoderError, "pixels", "texts with images", "images", code="encodes-no"):
        encode_items(load("pixels"), items)
    with refused(EncoderError, "means", "texts with images", "images and texts", code="encodes-no"):
        encode_items(Means(), items)
    with refused(EncoderError, "texts", "texts with images", code="encodes-no"):
        encode_items(PixelsAndWords(), Items.of_texts({"a": "b"}))


def test_every_item_has_its_text() -> None:
    items = Items(pa.array(["a", "b"]), pa.array(["a dog", None]), title="queries", name="mine")
    with pytest.raises(CollectionError, match=r"mine: 1 query has no text, e\.g\. b"):
        encode_items(load("bow:16"), items)
    with refused(CollectionError, "texts", code="no-encode"):
        encode_items(load("bow:16"), items.take(np.array([], np.int64)))


def test_keys_of_the_store_are_those_of_before(tmp_path: Path) -> None:
    """Pinned: vectors that a store holds are found by every later version."""
    collection, store = open_collection("scenes:4?size=64"), Store(tmp_path)
    card = EncoderCard("m", "toy", weights="w", image_preprocessing={"size": 8}, text_preprocessing={"template": "{}"})
    views = (collection, inject(collection, "bits:2?digits=sklearn"), corrupt(collection, "occlusion", 3))
    assert [[store.key(card, view.items(side)) for side in ("image", "text")] for view in views] == [
        ["10485ea1465f3b4b8fa2b72eda4a2113", "f67495938c0434d1978615c4575b0510"],
        ["5113d58fbb0d16b85505fd2594a33fef", "0127274ee84b70e28e96df62f993981f"],
        ["3a7522ed2aa360c005f0440e2c11183e", "f67495938c0434d1978615c4575b0510"],
    ]
    items = collection.items("text")
    assert len({store.key(card, items, role) for role in (None, "query", "document")}) == 3
