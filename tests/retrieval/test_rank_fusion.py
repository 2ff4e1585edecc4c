"""Fusion of rankings: worked by hand, and against a slow reading of the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refused
from visir.errors import ConfigurationError, RunError
from visir.records import Gallery, Run
from visir.retrieval.fusion import fuse
from visir.retrieval.remote.index import HybridCollection

DOCUMENTS = [f"d{i}" for i in range(8)]
GALLERY = Gallery.of("image", DOCUMENTS)


def run(answers: dict[str, dict[str, float]], depth: int = 5) -> Run:
    rows = [(q, d, s) for q, found in answers.items() for d, s in found.items()]
    return Run.ranked("r", "t2i", *([row[at] for row in rows] for at in range(3)), GALLERY, depth=depth)


A = run({"q": {"d1": 0.9, "d2": 0.6, "d3": 0.3}})
B = run({"q": {"d3": 8.0, "d1": 4.0, "d4": 2.0}})


def test_reciprocal_ranks_by_hand() -> None:
    # d1: 1/61 + 1/62, d3: 1/63 + 1/61, d2: 1/62, d4: 1/63
    fused = fuse({"dense": A, "sparse": B})
    assert fused.answer("q") == [
        ("d1", pytest.approx(1 / 61 + 1 / 62)),
        ("d3", pytest.approx(1 / 63 + 1 / 61)),
        ("d2", pytest.approx(1 / 62)),
        ("d4", pytest.approx(1 / 63)),
    ]
    assert fused.provenance["fusion"] == "rrf" and fused.provenance["k"] == 60
    assert fused.gallery.fingerprint == GALLERY.fingerprint and fused.task == "t2i"


def test_maximum_by_hand() -> None:
    # dense / 0.9: d1 1, d2 2/3, d3 1/3; sparse / 8: d3 1, d1 1/2, d4 1/4; half of each.
    fused = fuse({"dense": A, "sparse": B}, fusion="weighted", normalisation="maximum")
    assert fused.answer("q") == [
        ("d1", pytest.approx(0.75)),
        ("d3", pytest.approx(2 / 3)),
        ("d2", pytest.approx(1 / 3)),
        ("d4", pytest.approx(1 / 8)),
    ]


def test_minmax_by_hand() -> None:
    # dense: d1 1, d2 1/2, d3 0; sparse: d3 1, d1 1/3, d4 0; 0.25 of dense.
    fused = fuse({"a": A, "b": B}, fusion="weighted", normalisation="minmax", weights={"a": 0.25, "b": 0.75})
    assert fused.answer("q") == [
        ("d3", pytest.approx(0.75)),
        ("d1", pytest.approx(0.25 + 0.25)),
        ("d2", pytest.approx(0.125)),
        ("d4", 0.0),
    ]


def test_z_by_hand() -> None:
    # dense: mean 0.6, deviation sqrt(0.06) = 0.2449: d1 1.2247, d2 0, d3 -1.2247
    # sparse: mean 14/3, deviation sqrt((100 + 4 + 64) / 27) = 2.4944: d3 1.3363, d1 -0.2673, d4 -1.0690
    # what one list lacks gets its worst: d2 0 - 1.0690, d4 -1.2247 - 1.0690; less what all get, -2.2938; halved
    fused = fuse({"a": A, "b": B}, fusion="weighted", normalisation="z")
    assert [one for one, _ in fused.answer("q")] == ["d1", "d3", "d2", "d4"]
    wanted = [(1.2247 - 0.2673 + 2.2938) / 2, (-1.2247 + 1.3363 + 2.2938) / 2, (-1.0690 + 2.2938) / 2, 0]
    assert [score for _, score in fused.answer("q")] == pytest.approx(wanted, abs=2e-4)


def test_a_query_that_one_system_does_not_answer_and_equal_scores() -> None:
    # p: only in the second, all ranks 1 and 2; q: d2 and d5 are first here and there, a tie that goes to the smaller id
    one, two = run({"q": {"d5": 3.0}}), run({"p": {"d7": 2.0, "d1": 1.0}, "q": {"d2": 1.0}})
    fused = fuse({"one": one, "two": two})
    assert fused.queries.to_pylist() == ["p", "q"]
    assert [d for d, _ in fused.answer("p")] == ["d7", "d1"]
    assert [d for d, _ in fused.answer("q")] == ["d2", "d5"]
    assert fuse({"one": one, "two": two}, depth=1).answer("q") == [("d2", pytest.approx(1 / 61))]


def test_scores_that_are_all_equal_or_below_zero_make_no_infinity() -> None:
    flat, negative = run({"q": {"d1": 2.0, "d2": 2.0}}), run({"q": {"d3": -0.5, "d4": -0.7}})
    for normalisation in ("maximum", "minmax", "z"):
        fused = fuse({"a": flat, "b": negative}, fusion="weighted", normalisation=normalisation)  # type: ignore[arg-type]
        assert np.isfinite(fused.scores).all() and len(fused.scores) == 4


rankings = st.dictionaries(
    st.sampled_from(["p", "q"]),
    st.dictionaries(st.sampled_from(DOCUMENTS), st.sampled_from([0.1, 0.5, 0.7, 1.5]), min_size=1),
    min_size=1,
)


@settings(max_examples=60, deadline=None)
@given(one=rankings, two=rankings, weight=st.sampled_from([0.0, 0.3, 1.0]), depth=st.integers(1, 9))
def test_as_the_formula_says(one: dict, two: dict, weight: float, depth: int) -> None:  # type: ignore[type-arg]
    runs, weights = {"a": run(one), "b": run(two)}, {"a": weight, "b": 1 - weight}
    fused = fuse(runs, weights=weights, depth=depth)
    for query in sorted(set(one) | set(two)):
        scores: dict[str, float] = {}
        for name, single in runs.items():
            found = single.answer(query) if query in single.queries.to_pylist() else []
            for rank, (document, _) in enumerate(found, 1):
                scores[document] = scores.get(document, 0.0) + weights[name] * (1 / (60 + rank))
        wanted = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:depth]
        assert fused.answer(query) == wanted


def test_faults() -> None:
    with refused(RunError, code="no-run-fuse"):
        fuse({})
    with pytest.raises(ConfigurationError) as fault:
        fuse({"a": A}, fusion="rff", normalisation="zz", weights={"b": -1})  # type: ignore[arg-type]
    said = str(fault.value)
    assert "did you mean 'rrf'" in said and "unknown normalisation 'zz'" in said
    assert "no weight for 'a'" in said and "a weight for 'b', which is no run" in said and "is -1, below 0" in said
    other = Run.ranked("o", "t2i", ["q"], ["x"], [1.0], Gallery.of("image", ["x"]))
    with refused(RunError, code="other-candidates"):
        fuse({"a": A, "o": other})


NUMBERS = [2**2000, -1.5, -1, float("inf"), float("nan"), "6", None, True]


@pytest.mark.parametrize("value", NUMBERS)
def test_the_constant_and_the_weights_are_finite_numbers_from_0(value: Any) -> None:
    with refused(ConfigurationError, "k", "60"):
        fuse({"a": A}, k=value)
    with refused(ConfigurationError, "a"):
        fuse({"a": A, "b": B}, weights={"a": value, "b": 1.0})
    with refused(ConfigurationError, "constant"):
        HybridCollection.search(object.__new__(HybridCollection), None, None, constant=value)  # type: ignore[arg-type]
    assert fuse({"a": A}, k=0).answer("q")[0] == ("d1", 1.0)


@pytest.mark.parametrize("depth", [0, -1, True, 2.5, "3"])
def test_the_depth_is_a_whole_number_from_1(depth: Any) -> None:
    with refused(ConfigurationError, "depth"):
        fuse({"a": A}, depth=depth)
    with refused(ConfigurationError, "depth"):
        HybridCollection.search(object.__new__(HybridCollection), None, None, depth=depth)  # type: ignore[arg-type]
    assert len(fuse({"a": A}, depth=np.int64(2)).answer("q")) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [1.0, (1.0,), ("1", 1), {"dense": 1.0, "sparse": 1.0}, None, (0, 0), (1, np.inf)])
def test_weights_of_another_form(weights: Any) -> None:
    with refused(ConfigurationError, "weight" if isinstance(weights, tuple) and len(weights) == 2 else "weights"):
        HybridCollection.search(object.__new__(HybridCollection), None, None, weights=weights)  # type: ignore[arg-type]
    if weights is not None and not isinstance(weights, dict):
        with refused(ConfigurationError, "weights"):
            fuse({"a": A, "b": B}, weights=weights)


def test_all_faults_of_the_options_are_said_at_once() -> None:
    with refused(ConfigurationError, "4 faults", "k", "-1", "depth", "0", "weight", "x", "z", "inf"):
        fuse({"z": A}, k=-1, depth=0, weights={"z": np.inf, "x": 1})
    with refused(ConfigurationError, "every weight is 0"):
        fuse({"a": A, "b": B}, weights={"a": 0, "b": 0.0})
    with refused(ConfigurationError, "3 faults", "depth", "constant", "weights"):
        HybridCollection.search(object.__new__(HybridCollection), None, None, depth=0, constant=-1, weights=1.0)  # type: ignore[arg-type]
