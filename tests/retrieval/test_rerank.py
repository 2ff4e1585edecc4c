"""A second stage by hand: order, ties, both tails, both fusions, both tasks; properties against a slow oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from matching_toys import Nearness, reds
from refusals import refused
from visir.errors import ConfigurationError, RunError
from visir.records import Collection, Gallery, Run
from visir.retrieval.formats import read_run, write_run
from visir.retrieval.rerank import rerank, rerank_runs


@pytest.fixture
def toy(tmp_path: Path) -> Collection:
    """Red 10, 20, 30, 40; captions that fit a, b, c, d."""
    return reds(tmp_path / "toy", [10, 20, 30, 40], ["1", "2", "3", "4"], [0, 1, 2, 3])


def run(task: str, answers: dict[str, str], collection: Collection, depth: int = 4) -> Run:
    """{query: documents in one string, best first}, with scores 0.9, 0.8, …"""
    rows = [(q, d, 0.9 - 0.1 * at) for q, given in answers.items() for at, d in enumerate(given.split())]
    gallery = collection.image_gallery() if task == "t2i" else collection.caption_gallery()
    return Run.ranked("first", task, *zip(*rows, strict=True), gallery, depth=depth)


def test_the_best_k_by_matching_score(toy: Collection) -> None:
    """t1 says 2, so 20: a (10) and c (30) are 10 off and tie, d 20 off, b 0. Of d c a the order is a c d; b is not
    among the candidates and is not found."""
    first = run("t2i", {"t1": "d c a b", "t0": "b a"}, toy)
    found = rerank(first, toy, Nearness(), 3)
    assert found.answer("t1") == [("a", -10), ("c", -10), ("d", -20)]
    assert found.answer("t0") == [("a", 0), ("b", -10)]
    assert found.name == "first + nearness" and found.gallery is first.gallery and found.depth == 4
    assert found.provenance["rerank"] == {
        "matcher": "nearness",
        "head": "itm",
        "k": 3,
        "tail": "dropped",
        "fusion": "matching",
    }


def test_the_tail_kept(toy: Collection) -> None:
    """Candidates d c of t1 become c (−10), d (−20). Behind: a at −20 − 1 + (0.7 − 0.7), b 0.1 below it."""
    first = run("t2i", {"t1": "d c a b", "t0": "b"}, toy, depth=4)
    found = rerank(first, toy, Nearness(), 2, tail="kept")
    assert [one for one, _ in found.answer("t1")] == ["c", "d", "a", "b"]
    assert np.allclose([score for _, score in found.answer("t1")], [-10, -20, -21, -21.1])
    assert found.answer("t0") == [("b", -10)] and found.depth == 4


def test_the_sum_with_the_first_stage(toy: Collection) -> None:
    """a and c tie at −10 for t1; the first stage prefers c: −10 + 0.8 against −10 + 0.7."""
    found = rerank(run("t2i", {"t1": "d c a"}, toy), toy, Nearness(), 3, fusion="sum")
    assert [one for one, _ in found.answer("t1")] == ["c", "a", "d"]
    assert found.answer("t1")[0][1] == pytest.approx(-9.2)


def test_image_queries(toy: Collection) -> None:
    found = rerank(run("i2t", {"b": "t3 t2 t1 t0"}, toy), toy, Nearness(), 4)
    assert found.answer("b") == [("t1", 0), ("t0", -10), ("t2", -10), ("t3", -20)]


def test_both_directions_share_their_pairs(toy: Collection) -> None:
    """(a, t0), (a, t1) from i2t; (a, t0), (b, t0) from t2i: three pairs."""
    cross_encoder = Nearness()
    both = {"i2t": run("i2t", {"a": "t1 t0"}, toy), "t2i": run("t2i", {"t0": "b a"}, toy)}
    done = rerank_runs(both, toy, cross_encoder, 2)  # type: ignore[arg-type]
    assert (done.pairs, done.computed, cross_encoder.pairs) == (3, 3, 3)
    assert [one for one, _ in done.runs["i2t"].answer("a")] == ["t0", "t1"]
    assert [one for one, _ in done.runs["t2i"].answer("t0")] == ["a", "b"]
    assert rerank_runs(both, toy, cross_encoder, 2).computed == 0  # type: ignore[arg-type]


def test_it_travels_as_any_run_does(toy: Collection, tmp_path: Path) -> None:
    for tail in ("dropped", "kept"):
        found = rerank(run("t2i", {"t1": "d c a b"}, toy), toy, Nearness(), 2, tail=tail)  # type: ignore[arg-type]
        write_run(found, tmp_path / f"{tail}.parquet")
        back = read_run(tmp_path / f"{tail}.parquet")
        assert back.answer("t1") == found.answer("t1") and back.depth == found.depth
        assert back.provenance["rerank"]["tail"] == tail


def test_faults(toy: Collection) -> None:
    first = run("t2i", {"t1": "d c"}, toy, depth=2)
    with refused(RunError, "first", "t2i", "2", "3", code="run-deep", hint="2"):
        rerank(first, toy, Nearness(), 3)
    with refused(ConfigurationError, "2", "faults", "at least 1", "not 0", "tail", "keep", meant="kept"):
        rerank(first, toy, Nearness(), 0, tail="keep")  # type: ignore[arg-type]
    with refused(RunError, "1", "1", "queries", "collection reds", "t9", code="of-its-are-not"):
        rerank(Run.ranked("x", "t2i", ["t9"], ["a"], [1.0], toy.image_gallery()), toy, Nearness(), 1)
    far = Gallery.stated("image", 1000, "elsewhere")
    with refused(RunError, "1", "2", "documents", "collection reds", "z", code="of-its-are-not"):
        rerank(Run.ranked("x", "t2i", ["t0"] * 2, ["a", "z"], [1.0, 0.5], far), toy, Nearness(), 2)


def test_a_gallery_smaller_than_k(toy: Collection) -> None:
    found = rerank(run("t2i", {"t1": "d c a b"}, toy), toy, Nearness(), 128)
    assert [one for one, _ in found.answer("t1")] == ["b", "a", "c", "d"]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some.data(), some.integers(1, 5), some.sampled_from(["dropped", "kept"]))
def test_against_an_oracle(tmp_path: Path, data: some.DataObject, k: int, tail: str) -> None:
    toy = reds(tmp_path / "same", [10, 20, 30, 40, 50], [*"31524"], [0, 1, 2, 3, 4])
    order = {f"t{at}": " ".join(data.draw(some.permutations("abcde"))) for at in range(5)}
    first = run("t2i", order, toy, depth=5)
    found = rerank(first, toy, Nearness(), k, tail=tail)  # type: ignore[arg-type]
    for at in range(5):
        asked, given_order = 10 * int("31524"[at]), order[f"t{at}"].split()
        red = {name: 10 * (place + 1) for place, name in enumerate("abcde")}
        best = sorted(given_order[:k], key=lambda one: (abs(red[one] - asked), one))
        rest = given_order[k:] if tail == "kept" else []
        assert [one for one, _ in found.answer(f"t{at}")] == best + rest
