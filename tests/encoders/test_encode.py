"""Whole collections through an encoder: broken inputs, order, batches, base encoders, memory."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from encoder_toys import Means, photos
from PIL import Image

from refusals import refused
from visir.collections import open_collection
from visir.encoders import Store, encode, encode_detailed, load
from visir.encoders.base import Encoder
from visir.encoders.encoding import load_images
from visir.errors import EncoderError, ImageError
from visir.records import Collection


def broken_photos(folder: Path) -> Collection:
    """Ten photos of which p003 is empty and p007 is missing."""
    collection = photos(folder, 10)
    (folder / "p003.png").write_bytes(b"")
    (folder / "p007.png").unlink()
    return collection


def test_pictures_that_are_not_there_are_named_at_once_before_any_is_encoded(tmp_path: Path) -> None:
    collection = broken_photos(tmp_path / "photos")
    (tmp_path / "photos" / "p009.png").unlink()
    means = Means()
    with refused(ImageError, "photos", "3 of 10 pictures", "image", "p003", "p007", "p009", code="cannot-read") as log:
        encode(means, collection, "image")
    assert "set broken images aside, counted: --skip-broken" in log.value.hint
    assert means.seen == []


def test_a_broken_image_stops_the_run_by_name(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"image 'p003' \(p003.png\): the file is empty") as caught:
        encode(Means(), broken_photos(tmp_path / "photos"), "image")
    assert "set broken images aside, counted: --skip-broken" in caught.value.hint


def test_broken_images_set_aside_are_counted_and_never_passed_on_silently(tmp_path: Path) -> None:
    collection = broken_photos(tmp_path / "photos")
    done = encode_detailed(Means(), collection.items("image"), skip_broken=True)
    assert list(done.broken) == ["p003", "p007"]
    assert "the file is empty" in done.broken["p003"]
    assert "No such file" in done.broken["p007"]
    assert done.embeddings.ids.to_pylist() == [f"p{i:03}" for i in (0, 1, 2, 4, 5, 6, 8, 9)]
    assert done.embeddings.vectors[:, 0].tolist() == [0, 1, 2, 4, 5, 6, 8, 9]
    # Found again, with its broken ones; and refused to who does not allow them.
    found = encode_detailed(Means(), collection.items("image"), skip_broken=True)
    assert (found.computed, found.broken) == (0, done.broken)
    with refused(ImageError, "2", "10", "image", "p003", code="images-broken"):
        encode(Means(), collection, "image")


def test_a_mended_image_is_encoded(tmp_path: Path) -> None:
    collection = broken_photos(tmp_path / "photos")
    encode(Means(), collection, "image", skip_broken=True)
    photos(tmp_path / "photos", 10)
    assert len(encode(Means(), collection, "image")) == 10


def test_an_image_that_can_be_read_again_is_encoded(tmp_path: Path) -> None:
    """The mark is as before (in a tar the member is only named): the entry itself has to notice."""

    class Fussy(Means):
        refuses = True

        def preprocess(self, image):  # type: ignore[no-untyped-def]
            if self.refuses and image.getpixel((0, 0)) == (2, 4, 6):
                raise ImageError("too narrow.")
            return super().preprocess(image)

    collection = photos(tmp_path / "photos", 5)
    fussy = Fussy()
    assert encode_detailed(fussy, collection.items("image"), skip_broken=True).broken == {
        "p002": "image 'p002' (p002.png): too narrow."
    }
    fussy.refuses = False
    assert len(encode(fussy, collection, "image")) == 5


def test_nothing_but_broken_images_is_an_error_even_when_they_may_be_set_aside(tmp_path: Path) -> None:
    collection = Collection.build("bare", images={"id": ["a", "b"]})
    with pytest.raises(ImageError, match=r"bare: none of its 2 images can be used: .*only its metadata is at hand"):
        encode(Means(), collection, "image", skip_broken=True)


def test_a_failing_preprocessing_names_the_image(tmp_path: Path) -> None:
    class Fails(Means):
        def preprocess(self, image):  # type: ignore[no-untyped-def]
            raise ValueError("cannot reshape")

    with refused(EncoderError, "image", "p000", "p000.png", "means", "8", "8", code="preprocessing-failed", hint=False):
        encode(Fails(), photos(tmp_path / "photos", 3), "image")


def test_a_modality_that_the_encoder_lacks_is_refused(tmp_path: Path) -> None:
    with refused(EncoderError, "pixels", "texts", "images", code="encodes-no") as caught:
        encode(load("pixels"), photos(tmp_path / "photos", 2), "text")
    assert caught.value.hint.startswith(("begin with ", "a model of pictures and texts that is on this machine: "))


@pytest.mark.parametrize(("name", "side"), [("pixels", "image"), ("bow", "text")])
def test_vectors_do_not_depend_on_batch_size_or_order(tmp_path: Path, name: str, side: str) -> None:
    collection = open_collection("scenes:12?seed=3&size=64")
    encoder = load(name)
    whole = encode(encoder, collection, side, store=Store(tmp_path / "a"))  # type: ignore[arg-type]
    small = encode(encoder, collection, side, store=Store(tmp_path / "b"), batch_size=5, workers=3)  # type: ignore[arg-type]
    assert np.abs(whole.vectors - small.vectors).max() <= 1e-5
    turned = Collection(
        "turned", collection.images.take(pa.array(range(11, -1, -1))),
        collection.captions.take(pa.array(range(collection.captions.num_rows - 1, -1, -1))), root=collection.root,
    )  # fmt: skip
    backwards = encode(encoder, turned, side, store=Store(tmp_path / "c"))  # type: ignore[arg-type]
    assert np.abs(whole.vectors - backwards.select(whole.ids).vectors).max() <= 1e-5


def test_texts_are_sorted_by_length_inside_and_come_out_in_order(tmp_path: Path) -> None:
    collection = photos(tmp_path / "photos", 50, captions=2)
    texts = collection.captions["text"].to_pylist()

    class Lengths(Means):
        def embed_texts(self, texts):  # type: ignore[no-untyped-def]
            assert [len(one) for one in texts] == sorted(len(one) for one in texts)
            return super().embed_texts(texts)

    vectors = encode(Lengths(), collection, "text").vectors
    assert vectors.tolist() == [[len(one), one.count(" "), 1] for one in texts]


def test_heads_reuse_the_kept_vectors_of_their_base_encoder(tmp_path: Path) -> None:
    class Doubled(Means):
        def __init__(self, under: Encoder) -> None:
            super().__init__(weights="head", name="doubled")
            self.under = under

        def base_encoder(self, modality):  # type: ignore[no-untyped-def]
            return self.under

        def project(self, modality, vectors):  # type: ignore[no-untyped-def]
            return np.asarray(vectors) * 2

    collection, base_encoder = photos(tmp_path / "photos", 6), Means()
    encode(base_encoder, collection, "image")
    base_encoder.seen.clear()
    projected = encode(Doubled(base_encoder), collection, "image")
    assert base_encoder.seen == []
    assert projected.vectors[2].tolist() == [4, 8, 12]
    assert projected.encoder.name == "doubled"


def test_the_loader_stays_a_few_batches_ahead(tmp_path: Path) -> None:
    """Memory is bounded: when the model has taken n batches, at most 3 more have been decoded."""
    collection = photos(tmp_path / "photos", 60)
    decoded = 0
    lock = threading.Lock()

    class Counts(Means):
        def preprocess(self, image: Image.Image):  # type: ignore[no-untyped-def]
            nonlocal decoded
            with lock:
                decoded += 1
            return super().preprocess(image)

    batches = load_images(collection.items("image"), Counts(), start=0, batch_size=4, workers=8, skip_broken=False)
    for taken, _ in enumerate(batches, 1):
        assert decoded <= 4 * (taken + 3)
    assert decoded == 60


def test_resumed_batches_end_where_the_uninterrupted_ones_do(tmp_path: Path) -> None:
    collection = photos(tmp_path / "photos", 10)
    bounds = [
        (one.start, one.stop, len(one.pixels))
        for one in load_images(collection.items("image"), Means(), start=6, batch_size=4, workers=1, skip_broken=False)
    ]
    assert bounds == [(6, 8, 2), (8, 10, 2)]


def test_an_abandoned_loader_ends_its_threads(tmp_path: Path) -> None:
    collection = photos(tmp_path / "photos", 40)
    batches = load_images(collection.items("image"), Means(), start=0, batch_size=2, workers=4, skip_broken=False)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert not [one for one in threading.enumerate() if one.name.startswith("load")]
