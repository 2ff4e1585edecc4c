"""What a notebook does with a collection: length, iteration, samples, pictures, tables."""

from __future__ import annotations

import pytest

import visir
from visir.errors import CollectionError
from visir.records import Collection


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
    with pytest.raises(CollectionError, match="scenes: a sample of 0 images"):
        collection.sample(0)


def test_a_picture_by_its_id() -> None:
    with pytest.raises(CollectionError, match="no image 'scene-0-00001'") as fault:
        scenes().image("scene-0-00001")
    assert "did you mean 'scene-0-00001" in fault.value.hint


def test_as_a_data_frame() -> None:
    frame = scenes().to_pandas()
    assert list(frame.columns) == ["image_id", "path", "archive", "split", "caption_id", "text"]
    assert len(frame) == 100
    assert scenes().captions.to_pandas()["text"].str.len().min() > 5
