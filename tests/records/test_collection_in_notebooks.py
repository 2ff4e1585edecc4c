"""What a notebook does with a collection: length, iteration, samples, pictures, tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import visir
from refusals import refused
from visir.collections.images import ImageReader
from visir.errors import CollectionError
from visir.records import Collection, Items


def scenes() -> Collection:
    collection: Collection = visir.open("scenes:20?size=64")
    return collection


def test_length_and_iteration() -> None:
    collection = scenes()
    assert len(collection) == 20
    for image, captions in collection:
        assert len(captions) == 5
        assert collection.image(image).size == (64, 64)


def test_a_sample_does_not_depend_on_the_order() -> None:
    collection = scenes()
    sample = collection.sample(4, seed=3)
    assert len(sample) == 4
    assert sample.captions.num_rows == 20
    turned = Collection.build("turned", images={"id": collection.images["id"].to_pylist()[::-1]})
    assert set(turned.sample(4, seed=3).images["id"].to_pylist()) == set(sample.images["id"].to_pylist())
    assert collection.sample(4, seed=4).images["id"] != sample.images["id"]
    assert len(collection.sample(99)) == 20
    with refused(CollectionError, "scenes", "0", code="sample-images"):
        collection.sample(0)


def test_a_picture_by_its_id() -> None:
    with refused(CollectionError, "scene-0-00001", code="no-image") as fault:
        scenes().image("scene-0-00001")
    assert "did you mean 'scene-0-00001" in fault.value.hint


def test_as_a_data_frame() -> None:
    frame = scenes().to_pandas()
    assert list(frame.columns) == ["image_id", "path", "archive", "split", "caption_id", "text"]
    assert len(frame) == 100
    assert scenes().captions.to_pandas()["text"].str.len().min() > 5


def test_items_of_pictures_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (8, 6), "red").save(tmp_path / "a.png")
    monkeypatch.chdir(tmp_path)
    items = Items.of_images({"first": "a.png", "second": tmp_path / "a.png"})
    assert items.ids.to_pylist() == ["first", "second"]
    assert items.modality == "image"
    assert [ImageReader(items).open(row).size for row in (0, 1)] == [(8, 6)] * 2
