"""Calls that people get wrong: each is refused with what was given and what works, and none is answered silently."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import visir
from refusals import refused
from visir.display import quoted
from visir.encoders import encode_parts
from visir.errors import EncoderError, VisirError
from visir.records import Gallery

RUN = {"q": {"a": 0.5, "b": 0.25}}
PICTURE = Image.new("RGB", (4, 4))
JUDGED = {"q": {"a": 1}}


def heights(images: list[Any]) -> Any:
    return np.array([[1.0, image.height] for image in images])


def lengths(texts: list[str]) -> Any:
    return np.array([[1.0, len(text)] for text in texts])


def scenes() -> visir.Encoder:
    return visir.Encoder.wrap("mine", image=heights, text=lengths)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "model and photos": (
        lambda: visir.encode(visir.open("scenes:3?size=64"), "pixels"),
        "a Collection is no",
    ),
    "search": (lambda: visir.search(scenes(), visir.open("scenes:3?size=64"), "a dog"), "a Collection is no"),
    "no model": (lambda: visir.load(None), "a NoneType is no model"),  # type: ignore[arg-type]
    "an empty name": (lambda: visir.load(""), "'' is no name of a model"),
    "a text as a model": (lambda: visir.load("a dog on a beach " * 300), "unknown encoder"),
    "a loaded model and a device": (lambda: visir.load(scenes(), device="cpu"), "device='cpu': it is loaded already"),
    "an empty source": (lambda: visir.open(""), "the name of the source is empty"),
    "a text as a source": (lambda: visir.open("a dog on a beach " * 300), "no such file or folder"),
    "a text as judgements": (lambda: visir.evaluate("a dog on a beach " * 300, "bm25"), "no such file or folder"),
    "a text as a system": (lambda: visir.evaluate("scenes:3?size=64", "a dog on a beach " * 300), "unknown encoder"),
    "a text as a report": (lambda: visir.report("a dog on a beach " * 300), "no such file or folder"),
    "a text as a run": (lambda: visir.read_run("a dog on a beach " * 300), "tells no run format"),
    "texts to compare": (lambda: visir.compare("a dog on a beach " * 300, "b"), "no such folder"),
    "half a character": (
        lambda: scenes().encode_texts(["a", "\ud800"]),
        r"number 1: 'utf-8' codec can't encode .*ud800",
    ),
    "half a character in a list": (lambda: visir.encode("bow:8", ["a", "b", "\ud800"]), r"number 2: 'utf-8' codec"),
    "a number as a text": (lambda: scenes().encode_texts(["a", 3]), "number 1: Expected bytes, got a 'int'"),  # type: ignore[list-item]
    "None as a text": (lambda: scenes().encode_texts(["a", None]), "number 1 of the texts is None"),  # type: ignore[list-item]
    "a text for a list of texts": (lambda: scenes().encode_texts("abc"), r"not one text: 'abc'\.(.|\n)*\['abc'\]"),
    "a long text": (lambda: scenes().encode_texts("ab" * 99), r"not one text: '(ab){30}'…\."),
    "bytes for a list of texts": (lambda: scenes().encode_texts(b"abc"), r"not bytes: b'abc'\."),  # type: ignore[arg-type]
    "bytes as a text": (lambda: scenes().encode_texts(["a", b"b"]), "number 1 of the texts is bytes: b'b'"),  # type: ignore[list-item]
    "no texts": (lambda: scenes().encode_texts(None), "a list of texts is wanted, not None"),  # type: ignore[arg-type]
    "texts by id": (lambda: scenes().encode_texts({"a": "x"}), "texts is wanted, not a dictionary"),  # type: ignore[arg-type]
    "a text for ids": (lambda: Gallery.of("image", "abc"), r"list of ids or texts is wanted, not one text: 'abc'"),
    "a picture for a list": (lambda: scenes().encode_images(PICTURE), "not one picture"),  # type: ignore[arg-type]
    "a file for a list": (lambda: scenes().encode_images(Path("a.png")), "not 'a.png'"),  # type: ignore[arg-type]
    "pictures by id": (lambda: scenes().encode_images({"a": PICTURE}), "not dict"),  # type: ignore[arg-type]
    "a file as a picture": (
        lambda: scenes().encode_images([PICTURE, "a.png"]),  # type: ignore[list-item]
        r"number 1 of the pictures is 'a\.png', no picture of PIL(.|\n)*visir\.encode\(model, files\)",
    ),
    "an array as a picture": (
        lambda: scenes().encode_images([np.zeros((4, 4, 3), np.uint8)]),  # type: ignore[list-item]
        "number 0 of the pictures is ndarray, no picture of PIL",
    ),
    "a misspelt option": (lambda: visir.encode("bow:8", ["a"], batchsize=3), "did you mean 'batch_size'"),  # type: ignore[call-arg]
    "a number for measures": (lambda: visir.evaluate(JUDGED, RUN, measures=5), "measures=5: names"),  # type: ignore[arg-type]
    "a score in words": (lambda: visir.evaluate(JUDGED, {"q": {"a": "high"}}), "the score is 'high', not a number"),
    "folds as a text": (lambda: visir.evaluate("scenes:3?size=64", scenes(), folds="5"), "whole number, not '5'"),  # type: ignore[arg-type]
    "several splits": (lambda: visir.evaluate("scenes:3?size=64", scenes(), split=["test"]), r"'test\+val'"),  # type: ignore[arg-type]
    "captions of None": (lambda: visir.evaluate("scenes:3?size=64", scenes(), captions=None), "captions 'None'"),  # type: ignore[arg-type]
    "a list of perturbations": (lambda: visir.perturb("scenes:3?size=64", ["char_swap"]), "must be a text"),  # type: ignore[arg-type]
    "a published NaN": (
        lambda: visir.explain(visir.evaluate("scenes:3?size=64", scenes()), {"t2i R@1": math.nan}),
        "nan is no number",
    ),
    "a task as a number": (lambda: visir.evaluate("scenes:3?size=64", scenes())["t2i"], "which measure of it"),
    "an open collection as a library": (lambda: visir.index(visir.open("scenes:3?size=64"), "pixels"), "on disk"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_call_is_told_what_works(
    call: Callable[[], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VisirError, match=message) as caught:
        call()
    assert "→" in str(caught.value)


def test_an_encoder_is_loaded_already() -> None:
    mine = scenes()
    assert visir.load(mine) is mine


def test_one_task_needs_no_list() -> None:
    assert visir.evaluate("scenes:3?size=64", scenes(), "t2i").tasks == ("t2i",)


def test_a_store_may_be_a_folder(tmp_path: Path) -> None:
    first = visir.encode("bow:8", ["a dog"], store=tmp_path / "vectors")
    assert (tmp_path / "vectors").is_dir()
    assert np.array_equal(first.vectors, visir.encode("bow:8", ["a dog"], store=str(tmp_path / "vectors")).vectors)


def test_a_misspelt_name_of_the_package_has_its_nearest() -> None:
    with pytest.raises(AttributeError, match="Did you mean: 'evaluate'"):
        visir.evalute  # noqa: B018


@pytest.mark.filterwarnings("ignore:.*no texts")
def test_vectors_of_two_versions_of_a_function_never_meet_in_one_library(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8), "red").save(tmp_path / "photos" / "red.png")
    made = visir.index(
        tmp_path / "photos", visir.Encoder.wrap("mine", image=heights, version="1"), out=tmp_path / "lib"
    )
    assert len(made) == 1
    Image.new("RGB", (8, 9), "blue").save(tmp_path / "photos" / "blue.png")
    for version in ("1", "2"):  # the code is another one, whether or not the version is
        edited = visir.Encoder.wrap("mine", image=lambda images: -heights(images), version=version)
        with refused(VisirError, "code", code="not-model-library-made"):
            visir.index(tmp_path / "photos", edited, out=tmp_path / "lib")
    assert len(visir.Library.open(tmp_path / "lib")) == 1


def test_a_run_in_the_place_of_the_judgements_is_refused() -> None:
    judged, run = {"q": {"a": 1}}, {"q": {"a": 0.83, "b": 0.2}}
    assert visir.evaluate(judged, run, measures=["RR"])["RR"] == 1.0
    with refused(VisirError, code="judgements-come-first-run"):
        visir.evaluate(run, judged, measures=["RR"])


def test_a_model_whose_vectors_are_all_equal_is_noted() -> None:
    flat = visir.Encoder.wrap(
        "flat", image=lambda images: [[1, 1]] * len(images), text=lambda texts: [[1, 1]] * len(texts)
    )
    notes = visir.evaluate("scenes:12?size=64", flat).notes
    assert "all 12 image vectors are equal: the order of the answers is that of the ids, not of a model" in notes


def test_an_earlier_result_is_replaced_only_on_demand(tmp_path: Path) -> None:
    first = visir.evaluate({"q": {"a": 1}}, {"q": {"a": 0.83}}, measures=["RR"])
    first.save(tmp_path / "result")
    with refused(VisirError, code="exists-already-folder-kind", hint="replace=True"):
        first.save(tmp_path / "result")
    first.save(tmp_path / "result", replace=True)


def test_exchanged_arguments_and_misspelt_options_say_what_is_meant() -> None:
    with refused(VisirError, "model", code="cannot-open-collection", hint="source comes first"):
        visir.evaluate(visir.load("pixels"), "scenes:12?size=64")
    with refused(VisirError, "splits", code="unknown-option", meant="split"):
        scenes = visir.open("scenes:12?size=64")
        own = {"image": (scenes.images["id"], np.eye(12)), "text": (scenes.captions["id"], np.ones((60, 12)))}
        visir.evaluate(scenes, vectors=own, splits="test")


@pytest.mark.parametrize("model", ["pixels", visir.load("pixels")], ids=["name", "encoder"])
@pytest.mark.parametrize("kind", ["folder", "generated", "opened", "pictures", "texts"])
def test_a_model_and_a_source_in_each_others_place(tmp_path: Path, model: object, kind: str) -> None:
    picture = Image.new("RGB", (8, 8), "red")
    picture.save(tmp_path / "red.png")
    source, called = {
        "folder": (str(tmp_path), quoted(str(tmp_path), 60)),
        "generated": ("scenes:3?size=64", "'scenes:3?size=64'"),
        "opened": (visir.open("scenes:3?size=64"), "a Collection"),
        "pictures": ([picture], "a list"),
        "texts": ({"1": "a dog"}, "a dict"),
    }[kind]
    what = "'pixels'" if model == "pixels" else "the encoder pixels"
    for call, order in (
        (lambda: visir.encode(source, model), "the model comes first: visir.encode(model, source)"),
        (lambda: visir.search(model, source, "a dog"), "the source comes first: visir.search(source, model, query)"),
        (
            lambda: encode_parts(source, model, tmp_path / "parts"),
            "the model comes first: encode_parts(model, source, parts)",
        ),
    ):
        with pytest.raises(EncoderError) as fault:
            call()
        assert (fault.value.message, fault.value.hint) == (f"{called} is no model, and {what} is one.", order)


def test_what_is_not_exchanged_has_its_own_error(tmp_path: Path) -> None:
    pixels = visir.load("pixels")
    with refused(EncoderError, "pixels", code="nothing-encode"):
        visir.encode(pixels, pixels)
    with refused(EncoderError, "scenes:3?size=64", "bm25", code="no-model-one", hint="source comes first"):
        visir.search("bm25", "scenes:3?size=64", "a dog")
    with refused(EncoderError, "pixel", code="not-name-known-no"):
        visir.encode("pixel", ["a dog"])
    with refused(EncoderError, "pixles", code="not-name-known-no", meant="pixels"):
        visir.search("photos/a", "pixles", "a dog")  # "photos/a" has the form of a name on the hub
    with refused(EncoderError, "openai/clip-vit-base-patch32", code="no-model-one"):
        visir.search("openai/clip-vit-base-patch32", "scenes:3?size=64", "a dog")
    with refused(EncoderError, "list", code="no-model"):
        visir.encode(["a dog"], str(tmp_path))  # neither is one


def test_options_of_open_in_another_call_say_where_they_belong(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    (tmp_path / "mine.csv").write_text("bild;titel\nred.png;rot\n")
    with refused(VisirError, "image=…", "caption=…", code="says-how-source-read", hint=("evaluate", "image=…")):
        visir.evaluate(tmp_path / "mine.csv", "pixels", image="bild", caption="titel")
    pairs = visir.open(tmp_path / "mine.csv", image="bild", caption="titel")
    with pytest.raises(VisirError, match=r"unknown split 'test' \(it has none; \?split_by=random"):
        visir.evaluate(pairs, "pixels", split="test")


def test_packages_are_reached_by_their_names() -> None:
    """`import visir` alone does for `visir.library.update(…)`, in a new process too."""
    code = "import visir; print(callable(visir.library.update), callable(visir.retrieval.build_index))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
