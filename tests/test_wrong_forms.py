"""Models and vectors of one form where another is needed, and inputs that a model does not take: what is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visir
from colour_patches import ColourPatches
from refusals import refused
from visir.errors import VisirError
from visir.retrieval import build_index

SCENES = "scenes:8?size=64"
PATCHES = ColourPatches()


def _own(vectors: Callable[[int], Any], form: Any = "multi-vector") -> visir.Encoder:
    return visir.Encoder.wrap("own", text=lambda texts: vectors(len(texts)), form=form)


WRONG: dict[str, tuple[Callable[[], object], str, str]] = {
    "a text where only images are taken": (
        lambda: visir.search(SCENES, "pixels", "a red car"), "pixels encodes no texts, only images", "",
    ),
    "a picture where only texts are taken": (
        lambda: visir.encode("bow", SCENES, "image"), "bow:4096 encodes no images, only texts", "",
    ),
    "a mixture where only one of both is taken": (
        lambda: visir.encode("bow:8", SCENES, "text+image"), "text", "",
    ),
    "several vectors in a probe": (
        lambda: visir.probe(SCENES, PATCHES),
        "colour-patches makes several vectors for each item", "name another model",
    ),
    "several vectors in weighted words": (
        lambda: visir.words(PATCHES, "red"), "colour-patches: its vectors have no words", "one vector for each",
    ),
    "several vectors in a kind of index for one": (
        lambda: build_index(visir.encode(PATCHES, SCENES, "image"), "hnsw"),
        "an index of kind 'hnsw' holds dense vectors; those by colour-patches are multi-vector", "maxsim",
    ),
    "one vector in a kind of index for several": (
        lambda: build_index(visir.encode("pixels", SCENES, "image"), "maxsim"),
        "an index of kind 'maxsim' holds multi-vector vectors; those by pixels are dense", "exact",
    ),
    "one vector added to an index of several": (
        lambda: build_index(visir.encode(PATCHES, SCENES, "image")).add(visir.encode("pixels", SCENES, "image")),
        "image vectors by pixels", "the model that the index was built with",
    ),
    "one vector that searches several": (
        lambda: build_index(visir.encode(PATCHES, SCENES, "image")).search(visir.encode("bow:7", ["red"]), 3),
        "by bow:7", "the model that the index was built with",
    ),
    "two sides of two forms": (
        lambda: visir.evaluate(
            SCENES,
            vectors={"image": visir.encode(PATCHES, SCENES, "image"), "text": visir.encode("bow:7", SCENES, "text")},
        ),
        "image embeddings by colour-patches are multi-vector, text embeddings by bow:7 dense", "one encoder",
    ),
    "vectors of two lengths": (
        lambda: visir.encode(_own(lambda n: [np.ones((2, 3 + i)) for i in range(n)]), ["a", "b"]),
        "own: for 2 texts it returned vectors of 3 and 4 values", "the same length",
    ),
    "an input without a vector": (
        lambda: visir.encode(_own(lambda n: [np.ones((0, 3)) for _ in range(n)]), ["a"]),
        "it returned no vector for number 1 of them", "at least one vector",
    ),
    "one vector from a function of several": (
        lambda: visir.encode(_own(lambda n: np.ones((n, 3))), ["a", "b"]),
        "expected is a list of 2 arrays", 'form = "dense"',
    ),
    "several vectors from a function of one": (
        lambda: visir.encode(_own(lambda n: np.ones((n, 2, 3)), "dense"), ["a", "b"]),
        "a vector of d numbers for each", 'form="multi-vector"',
    ),
    "too few vectors": (
        lambda: visir.encode(_own(lambda n: [np.ones((2, 3))]), ["a", "b"]),
        "for 2 texts it returned 1 arrays", "in the order of the inputs",
    ),
    "vectors that are no numbers": (
        lambda: visir.encode(_own(lambda n: [np.full((2, 3), np.nan)] * n), ["a", "b"]),
        "NaN or infinite values for 2 inputs: 'a', 'b'", "look at these inputs",
    ),
    "a form that there is not": (
        lambda: visir.Encoder.wrap("own", text=len, form="ragged"),  # type: ignore[arg-type]
        "form = 'ragged' is no form of own functions", 'form="multi-vector"',
    ),
    "a folder of photos as a model": (
        lambda: visir.models(Path(__file__).parent), "holds no model that is known here", "name a model",
    ),
    "no words at all": (lambda: visir.models(5), "5 is no name of a model", "visir.models("),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_given_is_named_and_what_can_be_done(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    call, message, hint = WRONG[name]
    with pytest.raises(VisirError) as error:
        call()
    assert message in error.value.message
    assert hint in error.value.hint
    assert "Encoder(" not in str(error.value)


def test_a_folder_that_is_no_model_says_what_it_is(tmp_path: Path) -> None:
    library = visir.index(SCENES, PATCHES, out=tmp_path / "drawn.visir")
    with refused(VisirError, "library", code="visir-wrote-folder-no"):
        visir.models(library.folder)
