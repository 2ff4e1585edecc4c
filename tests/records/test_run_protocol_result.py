"""Runs, protocols and results."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

import visir
from docs_site import protocol_fields
from refusals import refused
from visir.errors import RunError, VisirError
from visir.records import Gallery, Protocol, Result, Run, strings
from visir.records.result import PROTOCOL, option_faults

FINGERPRINT = "a555eef4e6318c55bdf695a9d8924083"
"""Of `protocol()`, as the first edition wrote it."""
GALLERY = Gallery.of("image", ["a", "b", "c"])


def test_ranked_sorts_by_score_and_breaks_ties_by_document_id() -> None:
    run = Run.ranked("r", "t2i", ["q", "q", "q"], ["c", "b", "a"], [0.5, 0.9, 0.5], GALLERY)
    assert [d for d, _ in run.answer("q")] == ["b", "a", "c"]
    assert run.to_arrow()["rank"].to_pylist() == [1, 2, 3]
    assert [d for d, _ in run.cut(2).answer("q")] == ["b", "a"]
    assert run.cut(2).depth == 2
    assert run.cut(50).depth == run.depth == 3  # no deeper than it was searched


def test_a_run_is_as_deep_as_its_longest_answer() -> None:
    gallery = Gallery.of("image", ["a", "b"])
    assert Run.ranked("toy", "t2i", ["p", "q", "q"], ["a", "a", "b"], [1, 1, 0.5], gallery).depth == 2
    assert Run.ranked("toy", "t2i", ["p"], ["a"], [1], gallery, depth=7).depth == 7


def test_a_run_reads_like_a_dictionary_of_answers() -> None:
    run = Run.ranked("r", "t2i", ["q", "q", "p"], ["c", "b", "a"], [0.5, 0.75, 0.5], GALLERY)
    assert list(run) == ["p", "q"]
    assert run["q"] == [("b", 0.75), ("c", 0.5)]
    assert run.top("q", 1) == ["b"]
    assert run.to_dict() == {"p": {"a": 0.5}, "q": {"b": 0.75, "c": 0.5}}
    with refused(RunError, "x", code="run-no-query") as error:
        run["x"]
    assert "its queries are 'p', 'q'" in str(error.value)


def test_given_order_is_kept_when_rounded_scores_tie() -> None:
    run = Run(
        "r", "t2i", strings(["q"]), np.array([0, 2]), strings(["c", "a"]), np.array([0, 1], np.int32),
        np.array([0.5, 0.5]), GALLERY, 2,
    )  # fmt: skip
    assert [d for d, _ in run.answer("q")] == ["c", "a"]


def test_bad_runs_are_refused() -> None:
    def made(scores: list[float], indices: list[int], queries: list[str] | None = None) -> Run:
        queries = queries or ["q"]
        offsets = np.linspace(0, len(indices), len(queries) + 1).astype(np.int64)
        return Run(
            "r", "t2i", strings(queries), offsets, strings(["a", "b", "c"]), np.array(indices, np.int32),
            np.array(scores), GALLERY, 3,
        )  # fmt: skip

    with refused(RunError, "q", code="scores-rise-inside-answer"):
        made([0.1, 0.2], [0, 1])
    with refused(RunError, "q", "b", code="query-lists-document-twice", hint=False):
        made([0.2, 0.1], [1, 1])
    with refused(RunError, "q", code="nan-score-query", hint=False):
        made([0.2, float("nan")], [0, 1])
    with refused(RunError, code="query-answered-twice", hint=False):
        made([0.2, 0.1], [0, 1], ["q", "q"])
    with refused(RunError, code="run-empty", hint=False):
        Run.ranked("r", "t2i", [], [], [], GALLERY)
    # a score may rise from one query's answer to the next
    assert len(made([0.1, 0.2], [0, 1], ["p", "q"])) == 2


def protocol(**changes: object) -> Protocol:
    return Protocol("flickr8k", "f" * 32, "test", **changes)  # type: ignore[arg-type]


def test_protocols_differ_in_task_fields_only() -> None:
    assert protocol().fingerprint == protocol(image_preprocessing="224 bicubic").fingerprint
    assert protocol().differences(protocol(recall="capped_recall")) == {"recall": ("hit", "capped_recall")}
    assert protocol(truncation="77").system_differences(protocol()) == {"truncation": ("77", "")}
    assert protocol(recall="recall").fingerprint != protocol().fingerprint
    assert Protocol.from_dict(protocol(folds=5).to_dict()) == protocol(folds=5)
    assert ("folds", "5") in protocol(folds=5).card()


def test_a_result_answers_by_name_and_suggests_the_nearest() -> None:
    table = pa.table({"query_id": ["q1", "q2"], "hit@1": [1.0, 0.0]})
    result = Result("s", protocol(), {"t2i": table}, {"t2i": {"hit@1": 0.5}})
    assert result.values("t2i", "hit@1").tolist() == [1.0, 0.0]
    assert result.mean("t2i", "hit@1") == 0.5
    assert result.measures == ("hit@1",)
    with refused(VisirError, meant="hit@1"):
        result.values("t2i", "hit@10")
    with refused(VisirError, "i2t", code="no-task"):
        result.values("i2t", "hit@1")


def test_a_repeated_document_is_found_in_answers_of_unequal_length_too() -> None:
    with refused(RunError, "q", "b", code="query-lists-document-twice", hint=False):
        Run(
            "r", "t2i", strings(["p", "q"]), np.array([0, 1, 4]), strings(["a", "b"]),
            np.array([1, 1, 0, 1], np.int32), np.array([0.5, 0.9, 0.8, 0.7]), GALLERY, 3,
        )  # fmt: skip


def test_every_field_of_a_protocol_is_declared_once() -> None:
    """What it is, why it matters and an example; the page of reference, and the options of `evaluate`, say the same."""
    page = protocol_fields.page()["reference/protocol.md"]
    assert list(PROTOCOL) == [item.name for item in fields(Protocol)]
    for name, about in PROTOCOL.items():
        assert about.what.endswith(".") and about.why.endswith(".") and about.example
        assert f"### {name}\n\n{about.what}\n\n**Why it matters.** {about.why}" in page
        assert all(f"- `{choice}`: {words}" in page for choice, words in about.choices.items())
    assert page.index("### matcher") > page.index("## Fields of the system") > page.index("### extra")
    args = inspect.getdoc(visir.evaluate).partition("\nArgs:\n")[2]  # type: ignore[union-attr]
    for name in ("recall", "ties", "similarity", "captions", "gallery"):
        about = next(about for field, about in PROTOCOL.items() if (about.option or field) == name)
        text = re.split(r"\n    (?=\w+: )", args.partition(f"\n    {name}: ")[2])[0]
        assert all(f'"{choice}"' in text for choice in about.choices if choice not in ("random",)), name


def test_the_system_is_not_part_of_the_task() -> None:
    of_system = {name for name, about in PROTOCOL.items() if about.of_system}
    assert of_system == {
        "similarity", "image_preprocessing", "text_preprocessing", "truncation", "vocabulary", "vectors_per_item",
        "composition", "matcher",
    }  # fmt: skip
    assert {name for name, about in PROTOCOL.items() if about.is_condition} == {
        "query_template", "rerank", "perturbation", "extra",
    }  # fmt: skip
    # A fingerprint of old: results that are saved name their protocol by it.
    assert protocol().fingerprint == FINGERPRINT


@pytest.mark.parametrize(
    ("option", "value", "fault"),
    [
        ("recall", "hits", "unknown recall 'hits' (did you mean 'hit'?"),
        ("ties", "worst", "unknown ties 'worst' (known: id, optimistic, pessimistic, trec)"),
        ("similarity", "dots", "unknown similarity 'dots' (did you mean 'dot'?"),
        ("gallery", "splits", "unknown gallery 'splits' (did you mean 'split'?"),
        ("captions", "first 0", "unknown choice of captions 'first 0' (did you mean 'first 5'?"),
        ("captions", "random(seed=x)", "unknown choice of captions"),
        ("folds", 0, "folds must be at least 1, not 0"),
        ("folds", 1.5, "folds must be a whole number, not 1.5"),
    ],
)
def test_options_are_checked_as_declared(option: str, value: object, fault: str) -> None:
    assert [text[: len(fault)] for text in option_faults(**{option: value})] == [fault]
    good = {"recall": "recall", "ties": "trec", "similarity": "maxsim", "gallery": "collection", "folds": 1}
    assert option_faults(**good, captions="first 12") == option_faults(recall=None, captions="random(seed=7)") == []
