"""Measures as people type them: aliases, parameters, the names of other tools; and what each is called then."""

from __future__ import annotations

import ir_measures
import numpy as np
import pyarrow as pa
import pytest

from refusals import refused
from visir.errors import ConfigurationError
from visir.evaluation.measures import MEASURES, base_of, measure, parse
from visir.evaluation.scoring import canonical
from visir.records import Gallery, Qrels, Ranks, Run
from visir.retrieval.ranks import ranks_of


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("R@1", "hit@1"),
        ("r@1", "hit@1"),
        ("recall@10", "recall@10"),
        ("Recall@10", "recall@10"),
        ("Success@5", "hit@5"),
        ("hit_rate@5", "hit@5"),
        ("HitRate@5", "hit@5"),
        ("nDCG@10", "ndcg@10"),
        ("NDCG", "ndcg"),
        ("nDCG(dcg='exp-log2')@10", "ndcg_exp@10"),
        ("nDCG(dcg='log2')@10", "ndcg@10"),
        ("ndcg_burges@10", "ndcg_exp@10"),
        ("MAP", "map"),
        ("AP", "map"),
        ("AP@100", "map@100"),
        ("AP(rel=2)@10", "map(rel=2)@10"),
        ("AP(rel=2,judged_only=False)@10", "map(rel=2)@10"),
        ("mAP@R", "map@r"),
        ("mAP(rel=2)@R", "map(rel=2)@r"),
        ("MRR", "mrr"),
        ("RR@10", "mrr@10"),
        ("recip_rank", "mrr"),
        ("P@5", "precision@5"),
        ("P_5", "precision@5"),
        ("ndcg_cut_10", "ndcg@10"),
        ("map_cut_100", "map@100"),
        ("Rprec", "rprecision"),
        ("R-precision", "rprecision"),
        ("R-P", "rprecision"),
        ("MedR", "median_rank"),
        ("Mean rank", "mean_rank"),
        ("hit@05", "hit@5"),
    ],
)
def test_what_people_type(typed: str, name: str) -> None:
    assert [named.name for named in parse([typed])] == [named.name for named in parse([name])] == [name]


def test_r_is_the_declared_recall_and_every_other_name_has_one_meaning() -> None:
    for recall in ("hit", "recall", "capped_recall"):
        assert [named.name for named in parse(["R@5", "Recall@1"], recall)] == [f"{recall}@5", "recall@1"]  # type: ignore[arg-type]


def test_two_names_of_one_measure_are_one() -> None:
    assert canonical(["R@1", "hit@1", "Success@1"], "hit") == ["hit@1"]
    assert canonical(["rsum", "MRR"], "recall") == ["mrr", "recall@1", "recall@5", "recall@10"]
    with pytest.raises(ConfigurationError, match="'R@1' is named twice"):
        canonical(["R@1", "R@1"], "hit")


def test_measures_of_ir_measures_are_read_by_what_they_print() -> None:
    theirs = [ir_measures.nDCG @ 10, ir_measures.AP(rel=2) @ 10, ir_measures.RR, ir_measures.Success @ 5]
    names = [named.name for named in parse(theirs)]
    assert names == ["ndcg@10", "map(rel=2)@10", "mrr", "hit@5"]


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("Sucess@5", "did you mean 'hit@k'?"),
        ("nDGC@10", r"did you mean 'ndcg\[@k\]'?"),
        ("hits@5", "did you mean 'hit@k'?"),
        ("AP(rel=x)", "rel=x is not possible"),
        ("AP(2)", r"parameters are written \(rel=2\), not \(2\)"),
        ("nDCG(rel=2)@5", "rel=2 is not possible"),
        ("nDCG(dcg='log')@5", "dcg=log is not possible"),
        ("R", "'R' needs a cutoff, for example hit@10"),
        ("MedR@5", "'MedR@5': median_rank takes no cutoff"),
        ("", "unknown measure ''"),
    ],
)
def test_faults(typed: str, line: str) -> None:
    with pytest.raises(ConfigurationError, match=line):
        parse([typed])


def test_all_faults_at_once() -> None:
    with refused(ConfigurationError, "3", "faults") as fault:
        parse(["nonsense", "P", "MRR@x"])
    assert "visir.measures()" in fault.value.hint


def test_a_lowest_grade_by_hand() -> None:
    # Grades 1, 3, 2 at ranks 1, 2, 4: from grade 2 on there are two positives, at ranks 2 and 4.
    ranks = Ranks(pa.array(["q"]), np.array([0, 3]), np.array([1, 2, 4]), np.array([1, 3, 2], np.float32), None, 9)
    table = measure(ranks, ["MRR", "RR(rel=2)", "AP(rel=2)", "P(rel=3)@2", "MedR(rel=2)"])
    assert {name: table[name][0].as_py() for name in table.column_names[1:]} == {
        "mrr": 1.0,
        "mrr(rel=2)": 0.5,
        "map(rel=2)": (1 / 2 + 2 / 4) / 2,
        "precision(rel=3)@2": 0.5,
        "median_rank(rel=2)": 2.0,
    }


def test_the_same_numbers_as_ir_measures_with_its_own_names() -> None:
    rng = np.random.default_rng(1)
    documents = [f"d{i}" for i in range(30)]
    gallery = Gallery.of("text", documents)
    grades = {f"q{i}": {d: int(g) for d, g in zip(documents, rng.integers(0, 4, 30), strict=True)} for i in range(20)}
    scores = {q: {d: float(s) for d, s in zip(documents, rng.random(30), strict=True)} for q in grades}
    rows = [(q, d, s) for q, answer in scores.items() for d, s in answer.items()]
    run = Run.ranked("x", "t2t", *zip(*rows, strict=True), gallery)
    judged = [(q, d, g) for q, answer in grades.items() for d, g in answer.items()]
    names = ["nDCG@10", "AP(rel=2)@10", "RR(rel=3)", "P(rel=2)@5", "Success@1", "Rprec(rel=2)"]
    ours = measure(ranks_of(run, Qrels.of(*zip(*judged, strict=True))), names)
    theirs = ir_measures.calc_aggregate([ir_measures.parse_measure(name) for name in names], grades, scores)
    for typed, column in zip(names, ours.column_names[1:], strict=True):
        assert np.mean(ours[column].to_numpy()) == pytest.approx(theirs[ir_measures.parse_measure(typed)], abs=1e-12), (
            typed
        )


def test_names_of_columns_lead_back_to_the_measure() -> None:
    for name in (*MEASURES, "hit@5", "map(rel=2)@10", "map(rel=2)@r"):
        assert base_of(name) in MEASURES
