"""Online tests: the log of decisions, intervals that hold at every look, the sample ratio, the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sessions import DecisionLog, ab_test, assign
from visir.sessions.online.ab_test import read_decisions
from visir.sessions.reports.ab_test import ab_test_report, sentences
from visir.stats import RunningSums, sample_ratio, sequential

HOUR = 3_600_000_000


def write_test(
    path: Path, draw: np.random.Generator, visitors: int, rates: tuple[float, float], share: float = 0.5
) -> Path:
    """A test of two variants over 48 hours; visitors come up to three times."""
    lines = []
    for k in range(visitors):
        treated = bool(draw.random() < share)
        for visit in range(1 + draw.integers(3)):
            time = int(draw.integers(48 * HOUR))
            bought = int(draw.random() < rates[treated])
            variant = "model" if treated else "control"
            row = {"session": f"s{k}-{visit}", "visitor": f"v{k}", "variant": variant, "decision": treated}
            lines.append(json.dumps({**row, "time": time, "outcome": bought}))
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(("rate", "units", "planned"), [(0.02, 8_000, 10_000), (0.2, 3_000, 500)])
def test_a_look_every_hour_errs_less_than_promised_and_plain_intervals_more(
    rate: float, units: int, planned: int
) -> None:
    """No difference, 336 looks: the sequence errs in at most 5 %, the usual interval at as many in over 15 %."""
    draw = np.random.default_rng(1)
    ends = np.linspace(units / 336, units, 336).astype(int) - 1
    wrong, plain = 0, 0
    for _ in range(300):
        treated, bought = draw.random(units) < 0.5, draw.random(units) < rate
        sums = []
        for members in (treated, ~treated):
            counts = [np.cumsum(members * values)[ends].astype(float) for values in (np.ones(units), bought)]
            sums.append(RunningSums(counts[0], counts[1], counts[1], counts[1]))
        path = sequential(*sums, planned=planned)
        wrong += path.p[-1] < 0.05
        with np.errstate(invalid="ignore", divide="ignore"):
            z = path.difference / np.sqrt(sum(each.variance / each.units for each in sums))
        plain += bool(np.any(np.abs(z[np.isfinite(path.low)]) > 1.96))
    assert wrong / 300 <= 0.05
    assert plain / 300 > 0.15


@pytest.mark.parametrize("rate", [0.97, 0.99])
def test_outcomes_that_are_nearly_always_1_err_less_than_promised(rate: float) -> None:
    """A small variant that has not seen a 0 yet has no variance: it is too early then."""
    draw = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        sums = []
        for units in (400, 3_600):
            ends = np.linspace(units / 300, units, 300).astype(int)
            good = np.cumsum(draw.random(units) < rate)[ends - 1].astype(float)
            sums.append(RunningSums(ends.astype(float), good, good, good))
        wrong += sequential(*sums).p[-1] < 0.05
    assert wrong / 200 <= 0.05


def test_too_early_says_which_outcomes_are_missing(tmp_path: Path) -> None:
    """Every visitor buys: there are outcomes enough, and none of 0."""
    lines = [{"session": f"s{k}", "variant": "ab"[k % 2], "outcome": 1} for k in range(100)]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    assert sentences(ab_test(log)) == [
        "b against a: too early. Each variant needs 10 sessions with an outcome other than 0, and 10 with 0."
    ]


AMOUNTS = {
    "spread 0.5": lambda draw, size: np.exp(0.5 * draw.normal(size=size)),
    "spread 1.5": lambda draw, size: np.exp(1.5 * draw.normal(size=size)),
    "Pareto": lambda draw, size: (1 - draw.random(size)) ** (-1 / 1.5),
}


def amounts_over_time(
    draw: np.random.Generator,
    amounts,
    share: float,
    rate: float,
    lift: float = 1.0,
    buyers: int = 300,
    looks: int = 336,
) -> list[RunningSums]:
    """Two variants at every look, the small one with 300 buyers at the end."""
    sides, buyers = [], 300
    for part, own in ((share, rate * lift), (1 - share, rate)):
        units = draw.multinomial(int(part * buyers / (rate * share)), np.full(looks, 1 / looks))
        bought = draw.binomial(units, own)
        values, look = amounts(draw, bought.sum()), np.repeat(np.arange(looks), bought)
        columns = [units, *(np.bincount(look, values**power, looks) for power in (1, 2)), bought]
        sides.append(RunningSums(*(np.cumsum(column).astype(float) for column in columns)))
    return sides


@pytest.mark.parametrize("kind", AMOUNTS)
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("looks", [24, 336])
def test_amounts_in_a_small_variant_err_less_than_promised(kind: str, share: float, looks: int) -> None:
    """No difference: a variant that has not seen the large amounts yet is not worse for that."""
    draw, wrong = np.random.default_rng(7), 0
    for _ in range(100):
        path = sequential(*amounts_over_time(draw, AMOUNTS[kind], share, 0.02, looks=looks))
        wrong += path.p[-1] < 0.05
        assert (path.p[-1] < 0.05) == bool(((path.low > 0) | (path.high < 0)).any())
    assert wrong <= 5


def test_a_difference_of_amounts_is_found_with_unequal_shares() -> None:
    draw = np.random.default_rng(8)
    paths = [sequential(*amounts_over_time(draw, AMOUNTS["spread 0.5"], 0.1, 0.02, lift=1.5)) for _ in range(50)]
    assert sum(path.p[-1] < 0.05 and path.difference[-1] > 0 for path in paths) >= 48


def test_outcomes_of_0_and_1_keep_their_own_variances() -> None:
    first, second = (
        RunningSums(*(np.array([value], float) for value in row)) for row in ((200, 80, 80, 80), (900, 90, 90, 90))
    )
    path = sequential(first, second)
    own = sum(side.variance / side.units for side in (first, second))
    amounts = sequential(first, RunningSums(second.units, second.y, second.yy + 1e-6, second.other))
    assert amounts.high - amounts.low > path.high - path.low
    rho = (-2 * np.log(0.05) + np.log1p(-2 * np.log(0.05))) / 10_000
    width = np.sqrt(own * 2 * (1100 * rho + 1) / (1100 * rho) * np.log(np.sqrt(1100 * rho + 1) / 0.05))
    assert (path.high - path.low) / 2 == pytest.approx(width)


def test_the_largest_amount_that_counts(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "log.jsonl")
    # v1 spends 40 and 80 and sends 30 back; v2 spends 20; v3 nothing; v4 sends 500 back
    for session, visitor, variant, value in [
        ("a", "v1", "model", 40),
        ("b", "v1", "model", 80),
        ("c", "v1", "model", -30),
        ("d", "v2", "control", 20),
        ("e", "v3", "control", 0),
        ("f", "v4", "control", -500),
    ]:
        log.decide(session, variant, visitor=visitor, time=5)
        log.outcome(session, value)
    test = ab_test(tmp_path / "log.jsonl", most=50)
    control, model = test.variants
    assert (model.mean, model.units, model.positive) == (50, 1, 1)
    assert control.mean == pytest.approx((20 + 0 - 50) / 3)
    assert (test.most, test.cut, test.amounts) == (50, 2, True)
    page = ab_test_report(test).write(tmp_path / "a.html").read_text()
    assert "2 visitors have more than 50" in page
    plain = ab_test(tmp_path / "log.jsonl")
    assert (plain.variants[1].mean, plain.cut, plain.most) == (90, 0, None)
    assert "--most" in ab_test_report(plain).write(tmp_path / "b.html").read_text()
    with refused(ConfigurationError, code="largest-amount-counts"):
        ab_test(tmp_path / "log.jsonl", most=0)


def test_repeated_visits_do_not_break_the_promise(tmp_path: Path) -> None:
    """Through the log and its looks: visitors come up to three times; no difference."""
    draw = np.random.default_rng(2)
    wrong = sum(
        ab_test(write_test(tmp_path / "log.jsonl", draw, 500, (0.2, 0.2)), planned=500).effects[0].p < 0.05
        for _ in range(60)
    )
    assert wrong <= 6


def test_the_interval_by_hand() -> None:
    # 200 and 200 units, 80 and 40 outcomes; rho² = (−2 log .05 + log(1 − 2 log .05)) / 400 = 0.019841
    first, second = (RunningSums(*(np.array([value], float) for value in (200, y, y, y))) for y in (80, 40))
    rho = (5.991465 + np.log(6.991465)) / 400
    variance = 400 * (0.24 * 200 / 199 + 0.16 * 200 / 199) / 200
    width = np.sqrt(variance * 2 * (400 * rho + 1) / (400**2 * rho) * np.log(np.sqrt(400 * rho + 1) / 0.05))
    path = sequential(first, second, planned=400)
    assert path.high[0] - path.low[0] == pytest.approx(2 * width)
    # p is the error rate at which the interval of the same rho just touches 0
    p = path.p[0]
    touching = np.sqrt(variance * 2 * (400 * rho + 1) / (400**2 * rho) * np.log(np.sqrt(400 * rho + 1) / p))
    assert touching == pytest.approx(0.2)


def test_a_real_difference_is_found_and_a_wrong_one_is_not_hidden(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    test = ab_test(write_test(tmp_path / "a.jsonl", draw, 4000, (0.05, 0.09)), control="control", planned=4000)
    effect = test.effects[0]
    assert (effect.verdict, test.is_trusted, test.unit, test.timed) == ("better", True, "visitors", True)
    assert effect.low is not None and effect.high is not None
    assert 0 < effect.low < 2 * 0.04 < effect.high + 0.02  # two sessions a visitor in the mean
    assert len(effect.looks) == 48
    worse = ab_test(tmp_path / "a.jsonl", control="model", planned=4000).effects[0]
    assert worse.verdict == "worse"
    assert "the test can stop" in sentences(test)[0]


def test_an_assignment_that_is_not_as_planned(tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    log = write_test(tmp_path / "a.jsonl", draw, 3000, (0.1, 0.1), share=0.45)
    test = ab_test(log)
    assert not test.is_trusted
    assert sentences(test)[0].startswith("Do not use this test")
    assert ab_test(log, shares={"control": 0.55, "model": 0.45}).is_trusted


def test_the_sample_ratio_errs_less_than_promised() -> None:
    draw = np.random.default_rng(5)
    wrong = sum(
        sample_ratio(draw.multinomial(20, [0.5, 0.3, 0.2], size=200).cumsum(axis=0), [0.5, 0.3, 0.2])[-1] < 0.05
        for _ in range(300)
    )
    assert wrong / 300 <= 0.05


def test_a_wrong_ratio_is_not_forgotten_when_later_units_make_up_for_it() -> None:
    early, late = sample_ratio([[30, 70], [500, 500]], [0.5, 0.5])
    assert early == late < 0.03
    assert sample_ratio([[500, 500]], [0.5, 0.5]) == 1


def test_sums_of_a_small_log_by_hand(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "log.jsonl")
    # v1 buys in one of two sessions; v2 once; v3 saw both variants and counts for the first; v4's outcome is not known.
    for session, visitor, variant, value in [
        ("a", "v1", "model", 1),
        ("b", "v1", "model", 0),
        ("c", "v2", "control", 2.5),
        ("d", "v3", "control", 0),
        ("e", "v3", "model", 1),
        ("f", "v4", "model", None),
    ]:
        log.decide(session, variant, visitor=visitor, decision=variant == "model", time=5)
        if value is not None:
            log.outcome(session, value)
    test = ab_test(tmp_path / "log.jsonl")
    control, model = test.variants
    assert (control.units, control.mean, control.positive, control.sessions) == (2, 1.75, 2, 2)
    assert (model.units, model.mean, model.sessions, model.without) == (1, 1.0, 3, 1)
    assert model.decisions == {"true": 4}
    assert (test.several, test.effects[0].verdict, test.effects[0].low) == (1, "open", None)
    assert "too early" in sentences(test)[0]


def test_every_fault_of_a_log_is_named_with_its_line(tmp_path: Path) -> None:
    lines = [
        '{"session": "a", "variant": "x", "time": "2026-01-01T00:00:00Z"}',
        "not json",
        "[1]",
        '{"session": "a", "variant": "y"}',
        '{"session": "b", "outcome": 1}',
        '{"session": "c", "variant": "x", "outcme": 1}',
        '{"session": "d", "variant": "x", "outcome": "yes"}',
        '{"session": "e", "variant": "x", "time": "2026-01-01T00:00:00"}',
        '{"session": "f", "variant": "x"}',
        '{"variant": "x"}',
    ]
    (tmp_path / "log.jsonl").write_bytes(b"\xef\xbb\xbf" + "\n".join(lines).encode())
    with pytest.raises(VisirError) as caught:
        read_decisions(tmp_path / "log.jsonl")
    told = str(caught.value)
    for number, words in [
        (2, "not JSON"),
        (3, "no object"),
        (4, "saw 'x' at line 1, and now 'y'"),
        (5, "its decision must come first"),
        (6, "unknown key 'outcme'; did you mean 'outcome'"),
        (7, "not a number"),
        (8, "neither ISO 8601 with an offset"),
        (9, "no time, though other sessions have one"),
        (10, "no session"),
    ]:
        line = next(line for line in told.splitlines() if f"line {number}:" in line)
        assert words in line
    (tmp_path / "empty.jsonl").write_text("")
    with refused(VisirError, code="no-decision"):
        read_decisions(tmp_path / "empty.jsonl")


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    path = write_test(tmp_path / "a.jsonl", np.random.default_rng(0), 20, (0.5, 0.5))
    with refused(ConfigurationError, "contrl", code="no-variant", meant="control"):
        ab_test(path, control="contrl")
    with refused(ConfigurationError, "model", code="no-share"):
        ab_test(path, shares={"control": 0.5, "other": 0.5})
    with refused(ConfigurationError, code="shares-not-above-sum"):
        ab_test(path, shares={"control": 0.5, "model": 0.6})
    (tmp_path / "b.jsonl").write_text('{"session": "a", "variant": "x", "outcome": 1}')
    with refused(ConfigurationError, code="test-compares-two-variants"):
        ab_test(tmp_path / "b.jsonl")


def test_assignment_is_stable_even_and_independent_between_tests() -> None:
    units = [f"v{k}" for k in range(6000)]
    first, second = ([assign(unit, ["a", "b", "c"], test=name) for unit in units] for name in ("one", "two"))
    assert first == [assign(unit, ["a", "b", "c"], test="one") for unit in units]
    counts = [first.count(name) for name in "abc"]
    assert max(abs(count - 2000) for count in counts) < 150
    both = sum(a == b for a, b in zip(first, second, strict=True))
    assert abs(both - 2000) < 150


def test_the_page(tmp_path: Path) -> None:
    path = write_test(tmp_path / "a.jsonl", np.random.default_rng(6), 1500, (0.1, 0.2))
    test = ab_test(path)
    page = ab_test_report(test).write(tmp_path / "a.html", command="visir sessions ab-test a.jsonl").read_text()
    assert page.count("<svg") == 1
    assert "Can the test be trusted?" in page
    assert "visir sessions ab-test a.jsonl" in page
    assert json.loads(json.dumps(test.to_dict()))["effects"][0]["verdict"] == "better"


def test_several_variants_share_the_error(tmp_path: Path) -> None:
    """Of three differences with one control each has a third of the 5 % (Bonferroni)."""
    log = DecisionLog(tmp_path / "log.jsonl")
    for k in range(400):
        log.decide(f"s{k}", "abcd"[k % 4], visitor=f"v{k}", time=k)
        log.outcome(f"s{k}", k % 3 == 0)
    effects = ab_test(tmp_path / "log.jsonl", control="a").effects
    assert [effect.variant for effect in effects] == ["b", "c", "d"]
    assert [effect.error for effect in effects] == pytest.approx([0.05 / 3] * 3)
