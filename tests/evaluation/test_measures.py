"""Measures: by hand, and against ir_measures, torchmetrics and scikit-learn on random rankings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refused
from visir.errors import ConfigurationError, ProtocolError
from visir.evaluation.measures import DEFAULT_MEASURES, MEASURES, aggregate, measure, parse, rsum
from visir.records import Gallery, Qrels, Ranks, Run
from visir.retrieval.ranks import ranks_of


def ranks(*queries: Sequence[int], grades: Sequence[float] | None = None, depth: int | None = None) -> Ranks:
    """Ranks of one query per argument, 0 for not retrieved, in a gallery of 100."""
    flat = [rank for query in queries for rank in query]
    return Ranks(
        pa.array([f"q{i}" for i in range(len(queries))]),
        np.cumsum([0, *map(len, queries)]),
        np.array(flat, np.int64),
        np.array(grades if grades is not None else [1.0] * len(flat), np.float32),
        depth,
        100,
    )


def value(name: str, given: Ranks) -> list[float]:
    return list(measure(given, [name])[name].to_pylist())


# One query with positives at ranks 2, 3 and 7, another whose only positive was not found, one without any positive.
TOY = ranks([2, 3, 7], [0], [])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hit@1", 0),
        ("hit@2", 1),
        ("recall@2", 1 / 3),
        ("recall@5", 2 / 3),
        ("capped_recall@1", 0),
        ("capped_recall@2", 1 / 2),  # 1 of min(2, 3)
        ("capped_recall@5", 2 / 3),  # 2 of min(5, 3)
        ("precision@5", 2 / 5),
        ("mrr", 1 / 2),
        ("mrr@1", 0),
        ("map", (1 / 2 + 2 / 3 + 3 / 7) / 3),
        ("map@3", (1 / 2 + 2 / 3) / 3),  # the divisor is R = 3
        ("map@2", (1 / 2) / 3),
        ("capped_map@2", (1 / 2) / 2),  # the divisor is min(2, 3)
        ("map@r", (1 / 2 + 2 / 3) / 3),  # ranks up to 3
        ("rprecision", 2 / 3),
        # (1/log2 3 + 1/log2 4 + 1/log2 8) / (1/log2 2 + 1/log2 3 + 1/log2 4)
        ("ndcg", (1 / np.log2(3) + 1 / 2 + 1 / 3) / (1 + 1 / np.log2(3) + 1 / 2)),
        ("ndcg@2", (1 / np.log2(3)) / (1 + 1 / np.log2(3))),
        ("median_rank", 2),
        ("mean_rank", 2),
    ],
)
def test_by_hand(name: str, expected: float) -> None:
    found, missed, none = value(name, TOY)
    assert found == pytest.approx(expected, abs=1e-12)
    assert missed == none == (101.0 if "rank" in name else 0.0)  # one below the last of 100; otherwise nothing found


def test_grades_by_hand() -> None:
    # Grade 1 at rank 1, grade 3 at rank 2. Linear: (1 + 3/log2 3) / (3 + 1/log2 3); exponential: gains 1 and 7.
    graded = ranks([1, 2], grades=[1, 3])
    third = 1 / np.log2(3)
    assert value("ndcg", graded) == pytest.approx([(1 + 3 * third) / (3 + third)])
    assert value("ndcg_exp@10", graded) == pytest.approx([(1 + 7 * third) / (7 + third)])
    assert value("ndcg@1", graded) == pytest.approx([1 / 3])


def test_the_brittleness_reading_of_recall_can_fall() -> None:
    # One of five captions at rank 1, the others far down: hit@5 = 1, recall@5 = 1/5; capped: 1/1 at 1, then 1/5 at 5.
    five = ranks([1, 20, 30, 40, 50])
    assert value("capped_recall@1", five) == [1.0] and value("capped_recall@5", five) == [0.2]
    assert value("hit@5", five) == [1.0] and value("recall@1", five) == [0.2]


def test_aggregates_and_rsum() -> None:
    per_query = measure(ranks([1], [4], [7], [0]), ["hit@1", "hit@5", "hit@10", "median_rank", "mean_rank"])
    means = aggregate(per_query)
    # first ranks 1, 4, 7, 101: median (4 + 7) / 2, mean 113 / 4
    assert means == {"hit@1": 0.25, "hit@5": 0.5, "hit@10": 0.75, "median_rank": 5.5, "mean_rank": 28.25}
    assert rsum({"t2i": means}) == {"t2i": 150.0}
    assert rsum({"t2i": means, "i2t": means}) == {"t2i": 150.0, "i2t": 150.0, "both": 300.0}
    with refused(
        ConfigurationError, "recall", "recall@1", "recall@5", "recall@10", "t2i", "recall@1", code="rsum-needs"
    ):
        rsum({"t2i": means}, "recall")


def test_a_cutoff_beyond_the_run_is_refused() -> None:
    short = ranks([1], depth=5)
    with refused(ProtocolError, "5", "hit@10 looks deeper", code="rankings-deep"):
        measure(short, ["hit@5", "hit@10"])
    assert measure(short, ["hit@10"], beyond_depth=True)["hit@10"].to_pylist() == [1.0]
    assert value("mean_rank", ranks([0], depth=5)) == [6.0]


def test_all_faulty_names_are_listed_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(["hits@5", "hit", "hit@0", "rprecision@3", "map@r", "hit@1", "hit@1", "mrr@x", "hit@"])
    text = str(caught.value)
    assert "unknown measure 'hits@5' (did you mean 'hit@k'?" in text
    assert "'hit' needs a cutoff, for example hit@10" in text
    assert "'hit@0': the cutoff must be a whole number from 1" in text
    assert "'rprecision@3': rprecision takes no cutoff" in text
    assert "'hit@1' is named twice" in text
    assert "'mrr@x': the cutoff must be a whole number from 1, not 'x'" in text
    assert "'hit@' needs a cutoff" in text and "map@r" not in text.replace("map@r, ", "").split("known")[0]
    with pytest.raises(ConfigurationError, match="no measure is named"):
        parse([])


def test_every_measure_describes_itself() -> None:
    for name, one in MEASURES.items():
        assert name == one.name and one.title and one.formula and one.says and one.papers and one.source
        assert bool(one.cutoff_says) == (one.cutoff != "none")
    assert [one.name for one in parse(DEFAULT_MEASURES)] == list(DEFAULT_MEASURES)


# --- referees -------------------------------------------------------------------------------------------------------

THEIRS = {
    **{f"hit@{k}": f"Success@{k}" for k in (1, 5, 10)},
    **{f"recall@{k}": f"R@{k}" for k in (1, 5, 10)},
    **{f"precision@{k}": f"P@{k}" for k in (1, 5, 10)},
    **{f"map@{k}": f"AP@{k}" for k in (5, 10)},
    **{f"ndcg@{k}": f"nDCG@{k}" for k in (5, 10)},
    "mrr": "RR",
    "mrr@10": "RR@10",
    "map": "AP",
    "ndcg": "nDCG",
    "rprecision": "Rprec",
}


def random_case(rng: np.random.Generator, queries: int) -> tuple[Run, Qrels]:
    """Rankings of 1–40 of 60 documents with tied scores, 0–12 graded positives, judged non-relevant documents,
    queries that are not answered and answers that are not judged.
    """
    run_rows: list[tuple[str, str, float]] = []
    qrel_rows: list[tuple[str, str, int]] = []
    documents = np.array([f"d{i:02}" for i in range(60)])
    for q in range(queries):
        judged = rng.choice(60, rng.integers(1, 13), replace=False)
        grades = rng.integers(0 if len(judged) > 1 else 1, 4, len(judged))
        if not grades.any():
            grades[0] = 1
        if rng.random() < 0.95:
            qrel_rows += [(f"q{q}", documents[d], int(g)) for d, g in zip(judged, grades, strict=True)]
        if rng.random() < 0.95:
            answered = rng.choice(60, rng.integers(1, 41), replace=False)
            scores = np.round(rng.random(len(answered)), 1)
            run_rows += [(f"q{q}", documents[d], float(s)) for d, s in zip(answered, scores, strict=True)]
    run = Run.ranked("random", "t2i", *zip(*run_rows, strict=True), Gallery.of("image", documents, "60"))  # type: ignore[misc]
    return run, Qrels.of(*zip(*qrel_rows, strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_equal_to_ir_measures(seed: int) -> None:
    """3,000 random queries. trec_eval breaks ties by falling document id and ignores the order of the run, so the
    referee gets -rank as the score: our order, free of ties."""
    import ir_measures

    run, qrels = random_case(np.random.default_rng(seed), 750)
    ours = measure(ranks_of(run, qrels), list(THEIRS), beyond_depth=True)
    table = run.to_arrow()
    theirs_run = [
        ir_measures.ScoredDoc(q, d, -float(r))
        for q, d, r in zip(*(table[c].to_pylist() for c in ("query_id", "document_id", "rank")), strict=True)
    ]
    theirs_qrels = [
        ir_measures.Qrel(q, d, int(grade)) for q, judged in qrels.to_dict().items() for d, grade in judged.items()
    ]
    wanted = {ir_measures.parse_measure(theirs): name for name, theirs in THEIRS.items()}
    row = {query: i for i, query in enumerate(ours["query_id"].to_pylist())}
    columns = {name: ours[name].to_numpy() for name in THEIRS}
    seen = 0
    for metric in ir_measures.iter_calc(list(wanted), theirs_qrels, theirs_run):
        assert columns[wanted[metric.measure]][row[metric.query_id]] == pytest.approx(metric.value, abs=1e-9)
        seen += 1
    answered = len(set(run.queries.to_pylist()) & set(row))
    assert seen >= answered * len(THEIRS)
    means = ir_measures.calc_aggregate(list(wanted), theirs_qrels, theirs_run)
    for theirs, name in wanted.items():  # over all judged queries, the unanswered among them
        assert columns[name].mean() == pytest.approx(means[theirs], abs=1e-9)


def test_equal_to_torchmetrics_and_scikit_learn() -> None:
    """Full rankings of 30 documents: torchmetrics and scikit-learn know no cut runs."""
    import torch
    from sklearn.metrics import average_precision_score, ndcg_score
    from torchmetrics.functional import retrieval as theirs

    rng = np.random.default_rng(7)
    for _ in range(150):
        scores = rng.permutation(30).astype(np.float32)
        grades = rng.integers(0, 4, 30) * (rng.random(30) < 0.3)
        if not grades.any():
            continue
        order = np.argsort(-scores)
        found = np.flatnonzero(grades[order] > 0)
        given = ranks(list(found + 1), grades=list(grades[order][found]))
        names = ["hit@5", "recall@5", "precision@5", "mrr", "map", "rprecision", "ndcg@5", "ndcg", "ndcg_exp"]
        ours = {name: value(name, given)[0] for name in names}
        preds, target = torch.from_numpy(scores), torch.from_numpy(grades > 0)
        assert ours["hit@5"] == theirs.retrieval_hit_rate(preds, target, top_k=5).item()
        assert ours["recall@5"] == pytest.approx(theirs.retrieval_recall(preds, target, top_k=5).item(), abs=1e-6)
        assert ours["precision@5"] == pytest.approx(theirs.retrieval_precision(preds, target, top_k=5).item(), abs=1e-6)
        assert ours["mrr"] == pytest.approx(theirs.retrieval_reciprocal_rank(preds, target).item(), abs=1e-6)
        assert ours["rprecision"] == pytest.approx(theirs.retrieval_r_precision(preds, target).item(), abs=1e-6)
        assert ours["map"] == pytest.approx(average_precision_score(grades > 0, scores), abs=1e-9)
        assert ours["ndcg"] == pytest.approx(ndcg_score([grades], [scores]), abs=1e-9)
        assert ours["ndcg@5"] == pytest.approx(ndcg_score([grades], [scores], k=5), abs=1e-9)
        assert ours["ndcg_exp"] == pytest.approx(ndcg_score([2**grades - 1], [scores]), abs=1e-9)


# --- properties -----------------------------------------------------------------------------------------------------

queries = st.lists(st.sets(st.integers(1, 60), max_size=8).map(sorted), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(queries, st.integers(1, 70))
def test_properties(given: list[list[int]], k: int) -> None:
    one = ranks(*given)
    got = {
        name: np.array(value(f"{name}@{k}", one)) for name in ("hit", "recall", "capped_recall", "map", "capped_map")
    }
    deeper = {name: np.array(value(f"{name}@{k + 1}", one)) for name in ("hit", "recall", "map")}
    assert all((got[name] <= deeper[name]).all() for name in deeper)  # these never fall with k
    assert (got["recall"] <= got["capped_recall"]).all() and (got["capped_recall"] <= got["hit"]).all()
    assert (got["map"] <= got["capped_map"]).all()
    single = np.array([len(query) == 1 for query in given])
    assert (got["capped_recall"][single] == got["hit"][single]).all()
    for name in DEFAULT_MEASURES:
        values = np.array(value(name, one))
        assert (values >= 0).all() and (values <= (101 if "rank" in name else 1)).all()
    perfect = ranks(*(list(range(1, len(query) + 1)) for query in given))
    full = np.array([len(query) > 0 for query in given], float)
    for name in ("map", "map@r", "rprecision", "ndcg", f"ndcg@{k}", f"capped_recall@{k}", f"capped_map@{k}", "mrr"):
        assert value(name, perfect) == pytest.approx(full.tolist())
