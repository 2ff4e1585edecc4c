"""`visir.search`: any source, any model, any query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import visir
from refusals import refused
from visir.encoders import Encoder
from visir.errors import ConfigurationError, EncoderError, ImageError, RunError
from visir.records import Embeddings, MultiVectorEmbeddings
from visir.retrieval import build_index

COLOURS = {"red": (1.0, 0.0, 0.0), "green": (0.0, 1.0, 0.0), "blue": (0.0, 0.0, 1.0)}


def picture(colour: str) -> Image.Image:
    return Image.new("RGB", (16, 12), colour)


def of_images(images: list[Any]) -> Any:
    return np.stack([np.asarray(image).mean((0, 1)) / 255 for image in images])


def of_texts(texts: list[str]) -> Any:
    return [
        [sum(values) + 0.01 for values in zip(*(COLOURS.get(w, (0, 0, 0)) for w in t.split()), strict=True)]
        for t in texts
    ]


MODEL = Encoder.wrap("colours", image=of_images, text=of_texts)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in COLOURS:
        picture("lime" if name == "green" else name).save(tmp_path / f"{name}.png")
    return tmp_path


def test_a_text_is_its_own_id_and_the_items_come_along(photos: Path) -> None:
    run = visir.search(photos, MODEL, "a red boat", k=2)
    assert [name.rpartition("/")[2] for name in run.top("a red boat")][:1] == ["red.png"] and len(
        run["a red boat"]
    ) == 2
    assert run.query_items is not None and run.query_items.texts.to_pylist() == ["a red boat"]  # type: ignore[union-attr]
    assert run.document_items is not None and len(run.document_items) == 3
    assert run.provenance["vectors"].startswith("encoded at ")


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        (["red", "blue"], ["red", "blue"]),
        (["red", "red"], ["red", "red #2"]),
        ({"q1": "red", 7: "blue"}, ["q1", "7"]),
        (picture("red"), ["image"]),
        ([picture("red"), "blue"], ["image", "blue"]),
        ({"mine": np.zeros((4, 4, 3), np.uint8) + 200}, ["mine"]),
        (np.array([1.0, 0.0, 0.0]), ["vector"]),
        (np.eye(3), ["vector", "vector #2", "vector #3"]),
        ({"v": [0.0, 1.0, 0.0], "t": "red"}, ["v", "t"]),
        (visir.Query(text="red", image=picture("red")), ["red + image"]),
    ],
    ids=["texts", "twice", "ids", "picture", "mixed", "array", "vector", "matrix", "vector and text", "both"],
)
def test_queries_of_every_form(photos: Path, query: Any, ids: list[str]) -> None:
    run = visir.search(photos, MODEL, query, k=1)
    assert list(run) == ids and all(len(run[name]) == 1 for name in ids)


def test_a_picture_file_is_a_picture(photos: Path) -> None:
    for query in (photos / "blue.png", str(photos / "blue.png")):
        run = visir.search(photos, MODEL, query, k=1)
        [name] = list(run)
        assert name.endswith("blue.png") and run.top(name)[0].endswith("blue.png")
        assert run.query_items is not None and run.query_items.modality == "image"


def test_a_text_beside_a_picture_is_weighed(photos: Path) -> None:
    def best(weight: float) -> str:
        query = visir.Query(text="blue", image=str(photos / "red.png"), text_weight=weight)
        run = visir.search(photos, MODEL, {"q": query}, k=1)
        return run.top("q")[0].rpartition("/")[2]

    assert (best(0.1), best(0.9)) == ("red.png", "blue.png")
    with refused(RunError, "where", code="query-libraries") as error:
        visir.search(photos, MODEL, visir.Query(text="blue", where=["width > 1"]))
    assert "visir.index(source, model, out=…)" in error.value.hint


def test_a_model_of_texts_and_a_folder_of_pictures(photos: Path) -> None:
    with refused(EncoderError, "images", "texts", code="encodes-no"):
        visir.search(photos, "bow", "a red boat")


def test_sources_of_every_form(photos: Path) -> None:
    vectors = visir.encode(MODEL, photos)
    assert visir.search(vectors, MODEL, "red").top("red", 1)[0].endswith("red.png")
    assert visir.search(vectors, None, np.array([0, 0, 1.0])).top("vector", 1)[0].endswith("blue.png")
    assert visir.search({"r": picture("red"), "b": picture("blue")}, MODEL, "blue").top("blue") == ["b", "r"]
    assert visir.search(["red sea", "blue sky"], MODEL, "blue").top("blue") == ["blue sky", "red sea"]
    assert visir.search(Embeddings.of({"x": [1, 0], "y": [0, 1]}), None, {"q": np.array([0, 2])}).top("q", 1) == ["y"]
    scenes = visir.open("scenes:8?size=64")
    assert visir.search(scenes, MODEL, "red", to="captions", k=1).gallery.modality == "text"
    assert visir.search(scenes, MODEL, "red", k=1).gallery.modality == "image"


def test_indexes(photos: Path) -> None:
    exact = visir.search(photos, MODEL, ["red", "blue"])
    assert visir.search(photos, MODEL, ["red", "blue"], index="hnsw").to_dict().keys() == exact.to_dict().keys()
    from visir.retrieval.kinds import build_index

    built = build_index(visir.encode(MODEL, photos), "exact", photos / "vectors.index")
    assert visir.search(photos, MODEL, "red", index=built).top("red") == exact.top("red")
    assert visir.search(photos, MODEL, "red", index=photos / "vectors.index").top("red") == exact.top("red")
    assert visir.search(photos / "vectors.index", MODEL, "red").top("red") == exact.top("red")


def test_words_without_a_model() -> None:
    texts = ["a red boat", "two dogs", "a dog in the long rain"]
    assert visir.search(texts, "bm25", "dogs", k=5).top("dogs") == ["two dogs", "a dog in the long rain"]
    scenes = visir.open("scenes:8?size=64")
    word = scenes.captions["text"][0].as_py()
    run = visir.search(scenes, "bm25", word, k=3)
    assert run.gallery.modality == "image" and run.top(word, 1) == [scenes.captions["image_id"][0].as_py()]
    with refused(RunError, "image", code="bm25-compares-words"):
        visir.search(scenes, "bm25", picture("red"))


def test_a_model_that_takes_no_text_says_so_before_it_encodes(photos: Path) -> None:
    calls = []
    model = Encoder.wrap("pictures", image=lambda images: calls.append(1) or of_images(images))
    with refused(EncoderError, "pictures", "texts", "images", code="encodes-no") as error:
        visir.search(photos, model, "red")
    assert not calls and "begin with openai/clip-vit-base-patch32" in error.value.hint


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((MODEL, ""), {}, "the query is an empty text"),
        ((MODEL, []), {}, "there is no query"),
        ((MODEL, 3), {}, "cannot look for a int"),
        ((MODEL, "red"), {"k": 0}, "k must be at least 1, not 0"),
        ((MODEL, "red"), {"to": "pictures"}, "unknown to='pictures'"),
        ((None, "red"), {}, "there is no model"),
    ],
)
def test_misuse(photos: Path, arguments: tuple[Any, Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises((RunError, ConfigurationError), match=said) as error:
        visir.search(photos, *arguments, **options)
    assert error.value.hint


def test_vectors_in_memory_name_their_model(photos: Path) -> None:
    vectors = visir.encode("bow:16", ["a red boat", "two dogs"])
    assert visir.search(vectors, None, "two dogs").top("two dogs", 1) == ["two dogs"]


def test_vectors_are_searched_in_an_index_without_its_model() -> None:
    index = build_index(Embeddings.of({"a": [1, 0], "b": [0, 1]}, name="mine"))
    assert visir.search(index, None, [np.array([0.0, 2.0])], k=1).answer("vector") == [("b", 1.0)]
    several = MultiVectorEmbeddings.of({"a": [[1, 0], [0, 1]], "b": [[0, 3]]}, name="mine")
    query = np.array([[1.0, 0.0], [0.0, 1.0]])
    for source in (several, build_index(several), build_index(several, "maxsim-ivf")):
        run = visir.search(source, None, [query])
        assert run.answer("vector") == [("b", 3.0), ("a", 2.0)]


def test_a_broken_picture_of_a_folder_is_set_aside_and_counted(tmp_path: Path) -> None:
    for name, colour in {"a": "red", "b": "blue"}.items():
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{name}.png")
    (tmp_path / "c.png").write_bytes(b"no picture")
    with pytest.warns(UserWarning, match=r"1 picture cannot be read, left out of this search: .*c\.png"):
        run = visir.search(tmp_path, "colours", "red")
    assert run.top("red") == ["a.png", "b.png"]
    with refused(ImageError, "c.png"):
        visir.search(tmp_path, "colours", "red", skip_broken=False)
