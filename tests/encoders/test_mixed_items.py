"""Sides of which some items are texts, some pictures, and some both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import visir
from refusals import refused
from visir.encoders import compose, encode_detailed, encode_items
from visir.encoders.encoding import is_stored
from visir.encoders.shards import Shard, encode_shard
from visir.errors import CollectionError, ConfigurationError, EncoderError, ImageError
from visir.records import EncoderCard, Items
from visir.records.items import PLACES

WORDS = ("red", "green", "blue")


class Both(visir.Encoder):
    """A vector of a text, of a picture, and another one of both; it counts what it reads."""

    card = EncoderCard("both", "test", revision="1")
    dimension = 4
    batch_size = 2

    def __init__(self) -> None:
        self.read: list[str] = []

    def embed_texts(self, texts: Sequence[str]) -> Any:
        self.read += texts
        return [[3.0 * text.split().count(word) for word in WORDS] + [1] for text in texts]

    def embed_images(self, batch: Sequence[Any]) -> Any:
        self.read += ["image"] * len(batch)
        return [[*image.resize((1, 1)).getpixel((0, 0)), 2] for image in batch]

    def embed_texts_with_images(self, texts: Sequence[str], batch: Sequence[Any]) -> Any:
        self.read += [f"{text} + image" for text in texts]
        return [[len(text), *image.resize((1, 1)).getpixel((0, 0))] for text, image in zip(texts, batch, strict=True)]


class Apart(visir.Encoder):
    """The same without a vector of both."""

    card = EncoderCard("apart", "test", revision="1")
    dimension = 4

    def __init__(self) -> None:
        self.read: list[str] = []

    embed_texts = Both.embed_texts
    embed_images = Both.embed_images


def paint(folder: Path) -> Path:
    for name, colour in {"a": (255, 0, 0), "b": (0, 255, 0), "c": (0, 0, 255)}.items():
        Image.new("RGB", (8, 8), colour).save(folder / f"{name}.png")
    return folder


def items(folder: Path, rows: dict[str, tuple[str | None, str | None]], name: str = "shop") -> Items:
    """Items by hand: id → (text, picture)."""
    paths = [None if picture is None else f"{picture}.png" for _, picture in rows.values()]
    places = pa.table([pa.array(paths, pa.string()), pa.nulls(len(paths), pa.string())], schema=PLACES)
    texts = pa.array([text for text, _ in rows.values()], pa.string())
    return Items(pa.array(list(rows)), texts, places, folder, "products", name)


ROWS: dict[str, tuple[str | None, str | None]] = {
    "t": ("red red", None), "i": (None, "a"), "ti": ("blue", "b"), "u": ("green", None), "j": (None, "c"),
}  # fmt: skip


def test_what_items_hold(tmp_path: Path) -> None:
    mixed = items(tmp_path, ROWS)
    assert {kind: rows.tolist() for kind, rows in mixed.kinds.items()} == {
        "text": [0, 3],
        "image": [1, 4],
        "text+image": [2],
    }
    assert mixed.is_mixed and mixed.holding == "2 texts, 2 images, 1 text with an image"
    assert repr(mixed).startswith("Items(5 products, 2 texts, 2 images, 1 text with an image: 'red red'")
    texts = mixed.of_kind("text")
    assert texts.modality == "text" and texts.ids.to_pylist() == ["t", "u"] and not texts.is_mixed
    assert items(tmp_path, {"x": ("a", "b")}).holding == "text+image"
    assert items(tmp_path, {"x": (None, None), "y": ("a", "b")}).holding == "1 text with an image, 1 with neither"
    assert mixed.take(np.array([], np.int64)).kinds == {}


def test_each_kind_by_itself(tmp_path: Path) -> None:
    paint(tmp_path)
    encoder = Both()
    vectors = encode_items(encoder, items(tmp_path, ROWS), store=tmp_path / "store")
    expected = {"t": [6, 0, 0, 1], "i": [255, 0, 0, 2], "ti": [4, 0, 255, 0], "u": [0, 3, 0, 1], "j": [0, 0, 255, 2]}
    assert vectors.ids.to_pylist() == list(ROWS) and vectors.modality == "text+image"
    assert {name: vectors[name].tolist() for name in expected} == expected  # type: ignore[index]
    for row, name in enumerate(ROWS):  # in any company
        alone = encode_items(Both(), items(tmp_path, ROWS).take(np.array([row])), store=tmp_path / "alone")
        assert np.array_equal(alone.vectors[0], vectors.vectors[row]), name  # type: ignore[union-attr]
    backwards = encode_items(encoder, items(tmp_path, ROWS).take(np.arange(5)[::-1]), store=tmp_path / "store")
    assert np.array_equal(backwards.vectors, vectors.vectors[::-1])  # type: ignore[union-attr]


def test_the_store_knows_the_parts(tmp_path: Path) -> None:
    paint(tmp_path)
    store, mixed = tmp_path / "store", items(tmp_path, ROWS)
    assert not is_stored(Both(), mixed, store=store)
    assert encode_detailed(Both(), mixed, store=store).computed == 5
    assert is_stored(Both(), mixed, store=store)
    assert encode_detailed(Both(), mixed, store=store).computed == 0
    changed = items(tmp_path, {**ROWS, "u": ("green green", None)})
    again = encode_detailed(Both(), changed, store=store)
    assert again.computed == 2 and again.embeddings["u"].tolist() == [0, 6, 0, 1]  # type: ignore[index]
    Image.new("RGB", (9, 9), (0, 9, 0)).save(tmp_path / "b.png")  # the picture of the item of both
    assert encode_detailed(Both(), mixed, store=store).embeddings["ti"].tolist() == [4, 0, 9, 0]  # type: ignore[index]
    gained = items(tmp_path, {**ROWS, "t": ("red red", "a")})  # a text becomes a text with a picture
    assert encode_detailed(Both(), gained, store=store).embeddings["t"].tolist() == [7, 255, 0, 0]  # type: ignore[index]


def test_a_model_that_reads_them_apart(tmp_path: Path) -> None:
    paint(tmp_path)
    apart = {name: row for name, row in ROWS.items() if name != "ti"}
    vectors = encode_items(Apart(), items(tmp_path, apart))
    assert vectors["t"].tolist() == [6, 0, 0, 1] and vectors["j"].tolist() == [0, 0, 255, 2]  # type: ignore[index]
    composed = encode_items(compose(Apart(), "sum(0.5)"), items(tmp_path, ROWS))
    for name in apart:
        assert np.array_equal(composed[name], vectors[name])  # type: ignore[index]
    text, image = np.array([0, 0, 3, 1.0]), np.array([0, 255, 0, 2.0])
    lengths = np.linalg.norm(text), np.linalg.norm(image)
    expected = (text / lengths[0] + image / lengths[1]) / 2 * (sum(lengths) / 2)
    assert composed["ti"] == pytest.approx(expected, rel=1e-6)  # type: ignore[index]


def test_kinds_that_a_model_does_not_take(tmp_path: Path) -> None:
    paint(tmp_path)
    encoder = Apart()
    with pytest.raises(EncoderError) as caught:
        encode_items(encoder, items(tmp_path, ROWS))
    assert "apart encodes only images and texts (1 fault)" in str(caught.value)
    assert "shop: 1 text with an image among 5 products: ti" in str(caught.value)
    assert 'compose="sum(0.5)"' in str(caught.value)
    with pytest.raises(EncoderError) as caught:
        encode_items(visir.load("bow:16"), items(tmp_path, {**ROWS, "x": (None, None)}))
    for part in ("(3 faults)", "2 images among 6 products: i, j", "1 text with an image among 6 products: ti",
                 "1 product has neither a text nor an image, e.g. x"):  # fmt: skip
        assert part in str(caught.value), part
    assert not encoder.read  # nothing was encoded before


def test_items_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"shop: 2 products have neither a text nor an image, e\.g\. x, y"):
        encode_items(Both(), items(tmp_path, {"x": (None, None), "t": ("red", None), "y": (None, None)}))


def test_a_picture_that_is_missing(tmp_path: Path) -> None:
    paint(tmp_path)
    (tmp_path / "a.png").unlink()
    with refused(ImageError, "image", "i", "a.png"):
        encode_items(Both(), items(tmp_path, ROWS))
    encoding = encode_detailed(Both(), items(tmp_path, ROWS), skip_broken=True)
    assert list(encoding.broken) == ["i"] and encoding.embeddings.ids.to_pylist() == ["t", "ti", "u", "j"]


def test_roles_and_forms(tmp_path: Path) -> None:
    paint(tmp_path)
    rows = visir.Encoder.wrap(
        "rows",
        image=lambda images: [np.asarray(image.resize((1, 2)), np.float32).reshape(2, 3) / 255 for image in images],
        text=lambda texts: [np.eye(3, dtype=np.float32)[: len(text.split())] for text in texts],
        form="multi-vector",
    )
    apart = {name: row for name, row in ROWS.items() if name != "ti"}
    vectors = encode_items(rows, items(tmp_path, apart))
    assert vectors.ids.to_pylist() == list(apart)
    assert vectors["t"].tolist() == [[1, 0, 0], [0, 1, 0]] and len(vectors["j"]) == 2  # type: ignore[index]
    both = encode_items(compose(rows, "sum(0.5)"), items(tmp_path, ROWS), "document")
    assert both["ti"].tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]  # type: ignore[index]  # all vectors as they are
    assert both["i"].tolist() == [[1, 0, 0], [1, 0, 0]]  # type: ignore[index]


def test_shards_of_mixed_items_are_refused(tmp_path: Path) -> None:
    paint(tmp_path)
    with refused(
        EncoderError, "products", "2 texts", "2 images", "1 text with an image", code="hold-shards-parts-items"
    ):
        encode_shard(Both(), items(tmp_path, ROWS), Shard(1, 2), place=tmp_path / "shards")


def test_spaces_of_their_own(tmp_path: Path) -> None:
    paint(tmp_path)
    odd = visir.Encoder.wrap("odd", text=lambda texts: [[1, 2]] * len(texts), image=lambda images: [[1]] * len(images))
    with pytest.raises(EncoderError, match="text vectors have 2 values, image vectors have 1 values"):
        encode_items(odd, items(tmp_path, {"t": ("red", None), "i": (None, "a")}))


def test_vectors_that_exist_already(tmp_path: Path) -> None:
    mixed = items(tmp_path, {name: row for name, row in ROWS.items() if name != "ti"})
    np.savez(tmp_path / "v.npz", image=np.eye(2, 3), image_ids=["i", "j"], text=np.ones((2, 3)), text_ids=["t", "u"])
    vectors = encode_items(visir.load(f"npz:{tmp_path / 'v.npz'}"), mixed)
    assert vectors.vectors.tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 1], [0, 1, 0]]  # type: ignore[union-attr]
    with refused(EncoderError, "images and texts", code="encodes-only"):
        encode_items(visir.load(f"npz:{tmp_path / 'v.npz'}"), items(tmp_path, ROWS))


def test_encode_takes_items_of_all_kinds(tmp_path: Path) -> None:
    paint(tmp_path)
    photo = tmp_path / "a.png"
    source = {"t": "red red", "i": photo, "ti": {"text": "blue", "image": str(tmp_path / "b.png")}}
    vectors = visir.encode(Both(), source)
    assert vectors.ids.to_pylist() == ["t", "i", "ti"] and vectors["ti"].tolist() == [4, 0, 255, 0]  # type: ignore[index]
    assert visir.encode(Both(), list(source.values())).ids.to_pylist() == ["0", "1", "2"]
    assert visir.encode(Both(), {"t": "red", "i": str(photo)})["i"].tolist() == [255, 0, 0, 2]  # type: ignore[index]
    with pytest.raises(CollectionError, match=r"'x': there is no file '.*nowhere\.png'"):
        visir.encode(Both(), {"t": "red", "x": {"image": str(tmp_path / "nowhere.png")}})
    with pytest.raises(CollectionError, match="'y' has neither a text nor an image"):
        visir.encode(Both(), {"t": {"text": "red"}, "y": {"text": None}})


@pytest.mark.parametrize("count", [2, 12])
def test_a_picture_of_several_items_is_encoded_once(tmp_path: Path, count: int) -> None:
    paint(tmp_path)
    encoder, names = Both(), [f"p{number}" for number in range(count)]
    pictures = [("a", "b", "c")[number % 2] for number in range(count)]
    shared = Items.of_images({name: tmp_path / f"{picture}.png" for name, picture in zip(names, pictures, strict=True)})
    encoding = encode_detailed(encoder, shared, store=tmp_path / "store")
    assert (encoding.computed, encoding.resumed) == (count, 0)
    assert len(encoder.read) == len(set(pictures)) and encoding.embeddings.ids.to_pylist() == names
    singly = [encoder.encode_images([Image.open(tmp_path / f"{picture}.png")])[0] for picture in pictures]
    assert np.array_equal(encoding.embeddings.vectors, np.array(singly))  # type: ignore[union-attr]
    assert encode_detailed(Both(), shared, store=tmp_path / "store").computed == 0
    assert is_stored(Both(), shared, store=tmp_path / "store")
    assert len(list((tmp_path / "store").rglob("vectors.npy"))) == 1  # nothing is left of the distinct ones


def test_equal_texts_are_encoded_once(tmp_path: Path) -> None:
    encoder = Both()
    texts = Items.of_texts({"1": "red", "2": "blue", "3": "red", "4": "red"})
    vectors = encode_items(encoder, texts, store=tmp_path)
    assert sorted(encoder.read) == ["blue", "red"]
    assert vectors.vectors[:, 0].tolist() == [3, 0, 3, 3]  # type: ignore[union-attr]


def test_a_broken_picture_of_several_items(tmp_path: Path) -> None:
    paint(tmp_path)
    (tmp_path / "a.png").write_bytes(b"no picture")
    shared = Items.of_images({"x": tmp_path / "a.png", "y": tmp_path / "b.png", "z": tmp_path / "a.png"})
    encoding = encode_detailed(Both(), shared, store=tmp_path / "store", skip_broken=True)
    assert sorted(encoding.broken) == ["x", "z"] and encoding.embeddings.ids.to_pylist() == ["y"]
    with refused(ImageError, code="images-broken"):
        encode_detailed(Both(), shared, store=tmp_path / "store")


def test_few_repeats_are_left_alone(tmp_path: Path) -> None:
    encoder = Both()
    encode_items(encoder, Items.of_texts({str(number): f"red {number % 99}" for number in range(100)}), store=tmp_path)
    assert len(encoder.read) == 100


def test_options_are_checked(tmp_path: Path) -> None:
    with refused(ConfigurationError, "unknown option"):
        encode_items(Both(), items(tmp_path, ROWS), batches=1)  # type: ignore[call-arg]
