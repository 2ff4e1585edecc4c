"""Clicks as judgements: by hand, propensities against known ones, and the order of searches in simulated worlds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from typer.testing import CliRunner

import visir
from refusals import refused
from simulated_clicks import SimulatedClicks, simulate_clicks
from visir.cli.main import app
from visir.collections import read_qrels
from visir.errors import CollectionError, ConfigurationError
from visir.evaluation.measures import measure
from visir.products import ClickLog, click_judgements, read_click_log
from visir.products.clicks import estimate_position_bias
from visir.records import Gallery, Qrels, Run
from visir.retrieval.ranks import ranks_of
from visir.storage import FolderError

HALF = {1: 1.0, 2: 0.5}


def rows(*cells: tuple[str, str, int, int, int]) -> ClickLog:
    """(query, product, position, impressions, clicks) each."""
    flat = [(q, p, k, at < clicks) for q, p, k, shown, clicks in cells for at in range(shown)]
    return ClickLog.of(*zip(*flat, strict=True))


def test_grades_by_hand() -> None:
    log = rows(("q", "a", 1, 20, 8), ("q", "b", 2, 20, 6), ("q", "c", 2, 9, 9), ("r", "a", 1, 20, 0))
    raw = click_judgements(log, "none")
    assert raw.qrels.to_dict()["q"] == pytest.approx({"a": 0.4, "b": 0.3}) and raw.bias is None
    corrected = click_judgements(log, HALF)
    assert corrected.qrels.to_dict()["q"] == pytest.approx({"a": 0.4, "b": 0.6})
    assert (corrected.rare, corrected.silent) == (1, 1)  # c of q was shown nine times; r has no click
    assert click_judgements(log, HALF, min_impressions=9).qrels.to_dict()["q"]["c"] == 1.0  # at most 1
    whole = click_judgements(log, HALF, levels=3).qrels.to_dict()
    assert whole == {"q": {"a": 2.0, "b": 3.0}}
    assert click_judgements(log, {1: 10.0, 2: 5.0}).qrels.to_dict() == corrected.qrels.to_dict()  # ratios count
    assert click_judgements(log, {1: 1.0, 2: 0.01}, floor=0.5).qrels.to_dict() == corrected.qrels.to_dict()
    with refused(ConfigurationError, "4", "10", code="no-pair-impressions-clicks"):
        click_judgements(log, HALF, min_clicks=9)


def test_a_half_is_rounded_up() -> None:
    log = rows(("q", "a", 1, 20, 20), ("q", "b", 1, 20, 10), ("q", "c", 1, 20, 9))
    assert click_judgements(log, "none", levels=1).qrels.to_dict() == {"q": {"a": 1.0, "b": 1.0, "c": 0.0}}
    assert click_judgements(log, "none", levels=5).qrels.to_dict() == {"q": {"a": 5.0, "b": 3.0, "c": 2.0}}


def test_em_finds_the_ratio_where_it_is_exact() -> None:
    """Two products at both positions: θ₂ / θ₁ is the ratio of their click rates."""
    log = rows(("q", "a", 1, 1000, 400), ("q", "a", 2, 1000, 100), ("q", "b", 1, 1000, 800), ("q", "b", 2, 1000, 200))
    bias = estimate_position_bias(log)
    assert bias.propensities == pytest.approx({1: 1.0, 2: 0.25}, abs=1e-3) and bias.pairs == 2


def test_em_maximises_the_likelihood() -> None:
    world = simulate_clicks(queries=4, products=4, depth=4, searches=300, seed=3)
    log = world.log
    pairs, pair = np.unique(log.pair, return_inverse=True)

    def loss(parameters: np.ndarray) -> float:
        theta = np.concatenate([[1.0], 1 / (1 + np.exp(-parameters[:3]))])
        gamma = 1 / (1 + np.exp(-parameters[3:]))
        p = np.clip(theta[log.position - 1] * gamma[pair], 1e-12, 1 - 1e-12)
        return float(-np.where(log.clicked, np.log(p), np.log(1 - p)).sum())

    best = minimize(loss, np.zeros(3 + len(pairs)), method="L-BFGS-B", options={"maxiter": 2000, "maxfun": 10**6})
    expected = np.concatenate([[1.0], 1 / (1 + np.exp(-best.x[:3]))])
    propensities = np.array(list(estimate_position_bias(log).propensities.values()))
    assert propensities == pytest.approx(expected, abs=0.02)


def test_propensities_of_a_known_world() -> None:
    world = simulate_clicks(searches=300, seed=1)
    estimated = estimate_position_bias(world.log).propensities
    assert estimated == pytest.approx(world.propensities, abs=0.06)


def test_positions_that_cannot_be_compared_are_refused() -> None:
    never = rows(("q", "a", 1, 50, 20), ("q", "b", 2, 50, 10))
    with pytest.raises(ConfigurationError, match="share no query and product with position 1: 2"):
        click_judgements(never)
    without = rows(("q", "a", 1, 50, 20), ("q", "a", 2, 50, 0))
    with refused(ConfigurationError, "positions without a click", "2"):
        click_judgements(without)
    with pytest.raises(ConfigurationError, match=r"(?s)position 2: none given.*position 1: 0 is not above 0"):
        click_judgements(never, {1: 0})


def run_of(name: str, order: np.ndarray) -> Run:
    queries, products = order.shape
    ids = [f"p{row}-{column}" for row in range(queries) for column in order[row]]
    names = np.repeat([f"query {row}" for row in range(queries)], products).tolist()
    gallery = Gallery.of("text", pa.array(sorted(ids)), "all products")
    return Run.ranked(name, "products", names, ids, np.tile(np.arange(products, 0, -1.0), queries), gallery)


def is_better(world: SimulatedClicks, qrels: Qrels) -> bool:
    """Whether a search that knows more of the grades is measured better than the one that was logged."""
    rng = np.random.default_rng(7)
    other = np.argsort(-(0.55 * world.grades + 0.45 * rng.normal(size=world.grades.shape) * 1.5), axis=1)
    first, second = (
        float(measure(ranks_of(run_of(name, order), qrels), ("ndcg@10",))["ndcg@10"].to_numpy().mean())
        for name, order in (("other", other), ("logged", world.shown))
    )
    return first > second


@pytest.mark.parametrize("seed", range(4))
def test_the_correction_recovers_the_order_of_searches(seed: int) -> None:
    world = simulate_clicks(searches=200, seed=seed)
    assert is_better(world, world.qrels)
    assert not is_better(world, click_judgements(world.log, "none").qrels)  # raw clicks: the logged search wins
    assert is_better(world, click_judgements(world.log).qrels)
    assert is_better(world, click_judgements(world.log, world.propensities).qrels)


def test_products_that_were_never_shown_have_no_judgement() -> None:
    world = simulate_clicks(products=20, depth=5, searches=100)
    judged = click_judgements(world.log, world.propensities).qrels
    shown = {world.log.products[row] for row in world.log.product}
    assert set(judged.documents.to_pylist()) <= shown and len(shown) < 50 * 20


def test_a_visitor_counts_once() -> None:
    log = ClickLog.of(["q"] * 4, ["a", "a", "b", "a"], [1, 2, 1, 1], [0, 1, 1, 1], ["v", "v", "v", "w"])
    assert len(log) == 3 and log.repeated == 1
    assert click_judgements(log, "none", min_impressions=1).qrels.to_dict() == {"q": {"a": 0.5, "b": 1.0}}


def write_log(folder: Path, world: SimulatedClicks) -> Path:
    log = world.log
    lines = ["search_term,item_id,pos,clicked"]
    lines += [
        f"{log.queries[q]},{log.products[p]},{k},{'yes' if c else 'no'}"
        for q, p, k, c in zip(log.query, log.product, log.position, log.clicked, strict=True)
    ]
    path = folder / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_file_gives_the_same_judgements_and_they_can_be_evaluated(tmp_path: Path) -> None:
    world = simulate_clicks(queries=5, searches=60)
    path, out = write_log(tmp_path, world), tmp_path / "qrels.csv"
    before = path.read_bytes()
    expected = click_judgements(world.log, HALF | {k: 1 / k for k in range(3, 11)}).qrels
    numbers = ",".join(str(1 / k) for k in range(1, 11))
    result = CliRunner().invoke(
        app, ["products", "judgements", str(path), "--position-bias", numbers, "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert "judgements of 5 queries, from 3,000" in " ".join(result.output.split())
    qrels = read_qrels(out)
    for query, grades in expected.to_dict().items():
        assert qrels.to_dict()[query] == pytest.approx(grades)
    evaluation = visir.evaluate(qrels, run_of("logged", world.shown), measures=["ndcg@10"])
    assert "ndcg@10" in repr(evaluation) or "nDCG@10" in repr(evaluation)
    assert path.read_bytes() == before
    with refused(FolderError, code="exists-already"):
        click_judgements(path, "none").save(out)


def test_faults_of_a_log_are_named_together(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("query,product_id,position,clicked\nq,a,0,1\nq,b,2,maybe\n,c,1,0\n")
    with refused(CollectionError, "line 2", "position", "0", "line 3", "clicked", "maybe", "line 4", "query"):
        read_click_log(path)
    path.write_text("query,product_id,place\nq,a,1\n")
    with refused(CollectionError, "position", "clicked", code="collection-no-column-3"):
        read_click_log(path)
    with refused(CollectionError, "positions begin with 1"):
        ClickLog.of(["q"], ["a"], [0], [1])
    with refused(ConfigurationError, "min_impressions", "levels", "floor", meant="em", hint=False):
        click_judgements(rows(("q", "a", 1, 1, 1)), "eem", min_impressions=0, levels=0, floor=2)  # type: ignore[arg-type]
