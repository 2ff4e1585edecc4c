"""What people hand in to be compared: evaluations, folders, runs of any tool with judgements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest
import ranx
import scipy.stats
from evaluation_toys import make_collection, random_pair

import visir
from refusals import refused
from visir.errors import ConfigurationError, ProtocolError, VisirError
from visir.evaluation import Comparison
from visir.records import Gallery, Run

COLLECTION = make_collection(30, 2)
RNG = np.random.default_rng(3)
DOCUMENTS = [f"d{number}" for number in range(40)]
JUDGED = {
    f"q{n}": {str(d): int(RNG.integers(1, 4)) for d in RNG.choice(DOCUMENTS, 5, replace=False)} for n in range(25)
}


def answers(seed: int, depth: int = 20) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    return {
        query: {
            str(d): float(s)
            for d, s in zip(rng.permutation(DOCUMENTS)[:depth], -np.sort(-rng.random(depth)), strict=True)
        }
        for query in JUDGED
    }


A, B = answers(1), answers(2)
NAMES = ["nDCG@10", "AP", "RR", "P@5", "R@10"]


def check(comparison: Comparison) -> None:
    """The values of ranx and ir_measures, and the p-values of scipy."""
    assert comparison.systems == ("a", "b")
    measures = [ir_measures.parse_measure(name) for name in NAMES]
    theirs = {name: ir_measures.calc_aggregate(measures, JUDGED, run) for name, run in (("a", A), ("b", B))}
    per_query = {
        name: {(m.query_id, str(m.measure)): m.value for m in ir_measures.iter_calc(measures, JUDGED, run)}
        for name, run in (("a", A), ("b", B))
    }
    for typed, measure in zip(NAMES, measures, strict=True):
        one = comparison["b", typed]
        assert (one.baseline_value, one.value) == pytest.approx((theirs["a"][measure], theirs["b"][measure]), abs=1e-12)
        first, second = ([values[query, typed] for query in JUDGED] for values in per_query.values())
        assert one.p == pytest.approx(scipy.stats.ttest_rel(second, first).pvalue, rel=1e-9)


def test_runs_of_every_form_give_the_numbers_of_ir_measures(tmp_path: Path) -> None:
    def frame(run: dict[str, dict[str, float]]) -> pd.DataFrame:
        return pd.DataFrame(
            [(q, d, s) for q, a in run.items() for d, s in a.items()], columns=["query_id", "doc_id", "score"]
        )

    def scored(run: dict[str, dict[str, float]]) -> list[Any]:
        return [ir_measures.ScoredDoc(q, d, s) for q, a in run.items() for d, s in a.items()]

    lines = [f"{q} Q0 {d} {r} {s!r} b" for q, answer in B.items() for r, (d, s) in enumerate(answer.items(), 1)]
    (tmp_path / "b.trec").write_text("\n".join(lines))
    (tmp_path / "qrels.txt").write_text("\n".join(f"{q} 0 {d} {g}" for q, a in JUDGED.items() for d, g in a.items()))
    check(visir.compare({"a": A, "b": tmp_path / "b.trec"}, qrels=str(tmp_path / "qrels.txt"), measures=NAMES))
    check(visir.compare({"a": frame(A), "b": scored(B)}, qrels=ranx.Qrels(JUDGED), measures=NAMES))
    check(visir.compare(ranx.Run(A, name="a"), ranx.Run(B, name="b"), qrels=JUDGED, measures=NAMES))
    check(visir.compare([ranx.Run(A, name="a"), ranx.Run(B, name="b")], qrels=JUDGED, measures=NAMES))


def test_the_values_of_ranx() -> None:
    comparison = visir.compare({"a": A, "b": B}, qrels=JUDGED, measures=["ndcg@10", "map", "mrr", "recall@10"])
    for name, run in (("a", A), ("b", B)):
        theirs = ranx.evaluate(ranx.Qrels(JUDGED), ranx.Run(run), ["ndcg@10", "map", "mrr", "recall@10"])
        for measure, value in theirs.items():
            one = comparison["b", measure]
            assert (one.baseline_value if name == "a" else one.value) == pytest.approx(value, abs=1e-12)


def test_without_names_of_measures_runs_have_the_usual_ones() -> None:
    comparison = visir.compare({"a": A, "b": B}, qrels=JUDGED)
    assert [one.measure for one in comparison.differences] == ["ndcg@10", "map", "mrr", "recall@10"]
    assert comparison.family == 4 and not comparison.allowed and not comparison.notes


def test_runs_of_different_depth_are_compared_with_a_note() -> None:
    comparison = visir.compare({"a": A, "b": answers(2, 10)}, qrels=JUDGED, measures=["AP"])
    assert any("answers have up to 20 | 10 documents" in note for note in comparison.notes)


def test_a_known_gallery_holds_for_a_run_that_does_not_say() -> None:
    listed = Run.ranked("listed", "t2t", *zip(*[(q, d, s) for q, a in A.items() for d, s in a.items()], strict=True),
                        Gallery.of("text", DOCUMENTS))  # fmt: skip
    comparison = visir.compare(listed, B, qrels=JUDGED, measures=["AP"])
    assert any("does not say what was searched" in note for note in comparison.notes)
    with refused(ProtocolError, code="lists-not"):
        visir.compare(listed, {"q1": {"elsewhere": 1.0}}, qrels=JUDGED, measures=["AP"])


def test_evaluations_folders_and_names(tmp_path: Path) -> None:
    first, second = (
        visir.evaluate(COLLECTION, random_pair(COLLECTION, seed=s, noise=n)) for s, n in ((1, 3.0), (2, 0.8))
    )
    first.save(tmp_path / "first"), second.save(tmp_path / "second")
    by_evaluation = visir.compare(first, second)
    assert by_evaluation.differences == visir.compare([first.result, second.result]).differences
    assert by_evaluation.differences == visir.compare(tmp_path / "first", str(tmp_path / "second")).differences
    named = visir.compare({"one": first, "other": tmp_path / "second"}, measures=["R@1", "rsum"])
    assert named.systems == ("one", "other")
    assert named["other", "t2i R@1"].value == second["t2i R@1"] and named["other", "i2t rsum"].measure == "rsum"
    with refused(VisirError, "other", "t2i MAP", code="no-difference"):
        named["other", "t2i MAP"]


def test_measures_are_read_as_people_type_them() -> None:
    pair = [visir.evaluate(COLLECTION, random_pair(COLLECTION, seed=seed)) for seed in (1, 2)]
    assert [d.measure for d in visir.compare(pair, measures=["R@5", "MRR"]).differences] == ["hit@5", "mrr"] * 2
    with refused(ConfigurationError, "3", "faults") as fault:
        visir.compare(pair, measures=["MedR", "P@3", "nonsense"])
    assert "the difference of two medians has no paired test" in fault.value.message


def test_misuse() -> None:
    with refused(VisirError, code="comparison-needs-least-two") as fault:
        visir.compare({"a": A}, qrels=JUDGED)
    assert "visir.compare(first, second)" in fault.value.hint
    with refused(ConfigurationError, "dict", code="no-result-runs-need") as fault:
        visir.compare({"a": A, "b": B})
    assert "qrels=" in fault.value.hint
    with refused(ConfigurationError, "b.trec", code="no-result-runs-need"):
        visir.compare("b.trec", "a.trec")
    with refused(VisirError, "nowhere"):
        visir.compare("nowhere", "elsewhere")


def test_systems_that_score_in_different_ways_are_comparable() -> None:
    cosine, dot = (visir.evaluate(COLLECTION, random_pair(COLLECTION), similarity=s) for s in ("cosine", "dot"))  # type: ignore[arg-type]
    comparison = visir.compare(cosine, dot)
    assert comparison.system_differences["similarity"] == ("cosine", "dot") and not comparison.allowed


def test_runs_of_other_depths_are_comparable_saved_or_not(tmp_path: Path) -> None:
    judged = {f"q{n}": {"a": 1} for n in range(12)}
    deep = {query: {"b": 0.9, "a": 0.8, "c": 0.1} for query in judged}
    flat = {query: {"a": 0.9, "c": 0.2} for query in judged}
    folders = [visir.evaluate(judged, run).save(tmp_path / name) for name, run in (("deep", deep), ("flat", flat))]
    comparison = visir.compare(*folders, measures=["RR"])
    assert comparison.allowed == {"depth": (3, 2)} and comparison.differences[0].difference == 0.5
