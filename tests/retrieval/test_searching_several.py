"""`visir.search` with models of late interaction, and among several vectors for each item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import visir
from patch_toys import COLOURS, Patches, slow_maxsim
from refusals import refused
from visir.errors import ConfigurationError, RunError
from visir.records import MultiVectorEmbeddings, TokenVectors

QUERY = np.array([COLOURS["blue"], COLOURS["red"]], float)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Of one colour, and one whose left half is red and whose right half is blue."""
    for name, colour in (("red", "red"), ("green", "lime"), ("blue", "blue")):
        Image.new("RGB", (16, 12), colour).save(tmp_path / f"{name}.png")
    both = Image.new("RGB", (16, 12), "red")
    both.paste("blue", (8, 0, 16, 12))
    both.save(tmp_path / "both.png")
    return tmp_path


def test_each_word_finds_its_place(photos: Path) -> None:
    run = visir.search(photos, Patches(), "red blue")
    assert run["red blue"][0] == ("both.png", 2.0) and run.provenance["similarity"] == "maxsim"
    assert run["red blue"][1:] == [("blue.png", 1.0), ("red.png", 1.0), ("green.png", 0.0)]
    held = visir.encode(Patches(), photos)
    again = visir.search(held, Patches(), "red blue")
    assert again["red blue"] == run["red blue"] and again.provenance["vectors"].startswith("from the vector store")


def test_scores_are_those_of_a_slow_maxsim() -> None:
    scenes, model = visir.open("scenes:10?size=64"), Patches()
    queries = ["a red boat", "blue", "green and blue and grey"]
    run = visir.search(scenes, model, queries, k=10)
    images, texts = visir.encode(model, scenes), model.encode_inputs("text", {text: text for text in queries})
    slow = slow_maxsim(texts, images)  # type: ignore[arg-type]
    for query in queries:
        order = sorted(slow[query], key=lambda name: (-np.float32(slow[query][name]), name))
        assert run.top(query, 10) == order
        assert [score for _, score in run[query]] == pytest.approx([slow[query][name] for name in order], abs=2e-6)


@pytest.mark.parametrize(
    "query",
    [
        [QUERY],
        {"vector": QUERY},
        [QUERY.tolist()],
        TokenVectors.of([QUERY]),
        MultiVectorEmbeddings.of({"vector": QUERY}, modality="text"),
    ],
)
def test_vectors_are_looked_for(photos: Path, query: Any) -> None:
    held = visir.encode(Patches(), photos)
    for source, model in ((held, None), (held, Patches()), (photos, Patches())):
        assert visir.search(source, model, query)["vector"][0] == ("both.png", 2.0)


def test_a_text_beside_a_picture_weighs_the_two_scores(photos: Path) -> None:
    model = Patches()
    query = visir.Query(text="blue blue blue", image=str(photos / "red.png"), text_weight=0.75)
    scores = dict(visir.search(photos, model, {"q": query})["q"])
    # Each side's MaxSim, divided by its vectors (3 words, 4 quarters), weighs 0.75 and 0.25.
    assert scores == pytest.approx({"both.png": 1.0, "blue.png": 0.75, "red.png": 0.25, "green.png": 0.0})

    class Joined(Patches):
        modalities = frozenset({"image", "text", "text+image"})

        def embed_texts_with_images(self, texts, batch):  # type: ignore[no-untyped-def]
            return [[COLOURS["green"]]] * len(texts)

    assert visir.search(photos, Joined(), {"q": query}).top("q", 1) == ["green.png"]


def test_forms_that_do_not_fit_name_the_way_on(photos: Path) -> None:
    held = visir.encode(Patches(), photos)
    for query in (QUERY, QUERY[0], [QUERY[0]]):
        with refused(RunError, "patches", code="compares-several-vectors-each") as error:
            visir.search(held, None, query)
        assert "visir.search(source, model, [array])" in error.value.hint
    with refused(RunError, "bow:2", "vector", "2", code="makes-one-vector-each"):
        visir.search(["a", "b"], "bow:2", [QUERY[:, :2]])
    with refused(ConfigurationError, "dense", "patches", "multi-vector", code="index-kind-holds-vectors"):
        visir.search(photos, Patches(), "red", index="hnsw")
