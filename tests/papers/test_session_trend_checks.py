"""What chapter 6 says of its figures, checked on values made by hand."""

from __future__ import annotations

import pytest

from visir.sessions.description.outcomes import DAYS
from visir_papers.study import TREND_CHECKS

for package in ("duckdb", "sklearn", "numba"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")


def holds(figure: str, means: dict[str, dict[str, float]]) -> dict[str, bool | None]:
    return {one.statement: one.holds for one in TREND_CHECKS[figure](means)}


def test_trends_of_lengths_days_and_hours() -> None:
    lengths = {"P50": {"PC": 4.0, "Smartphone": 2.0}, "P90": {"PC": 8.0, "Smartphone": 8.0}}
    others = {"P50": {"PC": 1.0, "Smartphone": 2.0}, "P90": {"PC": 9.0, "Smartphone": 8.0}}
    found = holds(
        "figure-6-2",
        {f"Purchase: {one}": said for one, said in lengths.items()}
        | {f"Non-purchase: {one}": said for one, said in others.items()},
    )
    assert found == {
        "PC: purchase sessions are longer from P50 to P90": False,  # 4 > 1, but 8 < 9
        "PC: their length varies less": True,  # 8 / 4 against 9 / 1
        "Smartphone: purchase sessions are longer from P50 to P90": False,  # the same
        "Smartphone: their length varies less": False,
        "purchase sessions are shortest on smartphones": True,  # 2 < 4, and a tie at P90
        "non-purchase sessions are shortest on smartphones": False,
    }
    # Two Mondays, one of every other day: 20 % on two are 10 % on one.
    days = dict(zip(DAYS, (20.0, 18.0, 17.0, 16.0, 11.0, 9.0, 9.0), strict=True))
    covered = dict.fromkeys(DAYS, 1.0) | {"Monday": 2.0}
    found = holds("figure-6-3", {"Purchase sessions": days, "Days in the log": covered})
    assert found["purchase sessions: most on Tuesday, Wednesday, Thursday"] is True
    assert found["purchase sessions: more on a weekday than on a day of the weekend"] is True  # 72/5 > 18/2
    assert found["non-purchase sessions: more on a weekday than on a day of the weekend"] is None
    assert (
        holds("figure-6-3", {"Purchase sessions": days})["purchase sessions: most on Tuesday, Wednesday, Thursday"]
        is False
    )
    hours = {f"{hour:02d}": 4.0 for hour in range(24)} | {"03": 1.0, "21": 7.0, "12": 5.5}
    # From 10 to 16 the mean is 29.5 / 7 = 4.21; 5.5 is 31 % above.
    assert list(holds("figure-6-4", {"Purchase sessions": hours}).values()) == [True, False, False]


def test_trends_of_device_changes() -> None:
    # Devices gone to → devices left.
    found = holds(
        "figure-6-5",
        {
            "PC": {"PC": 90.0, "Smartphone": 6.0, "Tablet": 20.0, "TV": 45.0},
            "Smartphone": {"PC": 6.0, "Smartphone": 92.0, "Tablet": 5.0, "TV": 25.0},
            "Tablet": {"PC": 3.0, "Smartphone": 1.0, "Tablet": 75.0, "TV": 6.0},
            "TV": {"PC": 1.0, "Smartphone": 1.0, "Tablet": 0.0, "TV": 24.0},
        },
    )
    assert found["PC: to stay is most likely"] is True
    assert found["TV: one goes to a PC rather than stay"] is True
    assert found["Smartphone: TV is gone to least"] is True  # as rarely as to a tablet
    assert found["PCs are stayed on most, then smartphones, then tablets"] is False  # 90 < 92


def test_trends_of_predictions() -> None:
    dwell = {"current page dwell time, mean": 20.0, "current page dwell time, σ": 19.0, "page sequence score": 18.0}
    found = holds(
        "figure-6-6",
        {
            "anonymous": {"week day": 30.0, **dwell, "start hour": 13.0},
            "identified": {"number of orders": 30.0, **dwell, "days since last purchase": 13.0},
            "static features": {"step 0": 100.0, "step 1": 60.0, "step 2": 61.0},
        },
    )
    assert list(found.values()) == [True, True, False, False, True, False]  # falls in 2 of 3 pairs of steps
    models = {"RF": 9.0, "GBDT": 8.0, "neural": 7.0, "SVM": 6.0, "LR": 5.0, "KNN": 4.0}
    curves = {}
    for model, more in models.items():
        curves[f"anonymous, {model}, baseline"] = {"step 0": 50 + more, "step 1": 60 + more}
        curves[f"anonymous, {model}, extended"] = {"step 0": 61.5 + more, "step 1": 62 + more}
        curves[f"identified, {model}, baseline"] = {"step 0": 96.0, "step 1": 96.0}
        curves[f"identified, {model}, extended"] = {"step 0": 96.1 + 1.5 * (model == "KNN"), "step 1": 96.0}
    found = holds("figure-6-7", curves)
    assert set(found.values()) == {True}
    assert len(found) == 11
    curves["anonymous, LR, extended"] = {"step 0": 54.0, "step 1": 80.0}
    found = holds("figure-6-7", curves)
    assert found["anonymous: the extended set is above the baseline at every step (mean of models)"] is True
    assert found["anonymous: so it is for every model"] is False  # LR: 54 against 55 at step 0
    assert found["anonymous: RF, GBDT and the neural model are best"] is True  # LR (55 + 65 + 54 + 80) / 4 = 63.5


def curves(extended: list[float], baseline: list[float]) -> dict[str, dict[str, float]]:
    """Two models with the same curves in the anonymous setting."""
    return {
        f"anonymous, {model}, {name}": {f"step {step}": value for step, value in enumerate(values)}
        for model in ("RF", "LR")
        for name, values in (("extended", extended), ("baseline", baseline))
    }


STEP_1 = "anonymous: step 1 does not significantly help the extended set (mean of models, under 1 point)"
PLATEAU = "anonymous: after step 1 the extended set is at a plateau (mean of models, 2 points)"


def test_step_1_is_not_to_help_the_extended_set_and_then_comes_a_plateau() -> None:
    """+0.5 and 80.5 to 82.0 are as the thesis says; +3 is a gain, although the baseline's 10 is larger."""
    as_said = holds("figure-6-7", curves([80.0, 80.5, 82.0, 81.0], [60.0, 70.0, 71.0, 70.5]))
    assert (as_said[STEP_1], as_said[PLATEAU]) == (True, True)
    gains = holds("figure-6-7", curves([80.0, 83.0, 84.0, 84.0], [60.0, 70.0, 71.0, 70.5]))
    assert (gains[STEP_1], gains[PLATEAU]) == (False, True)
    climbs = holds("figure-6-7", curves([80.0, 80.5, 82.0, 84.0], [60.0, 70.0, 75.0, 80.0]))
    assert (climbs[STEP_1], climbs[PLATEAU]) == (True, False)
    assert climbs[PLATEAU.replace("extended", "baseline")] is False


def test_chances_are_those_of_a_random_order() -> None:
    checks = {one.statement: one.chance for one in TREND_CHECKS["figure-6-7"](curves([80.0] * 4, [70.0] * 4))}
    assert checks["anonymous: it adds most at step 0"] == 1 / 4
    hours = {f"{hour:02d}": float(hour) for hour in range(24)}
    checks = {one.statement: one.chance for one in TREND_CHECKS["figure-6-4"]({"Purchase sessions": hours})}
    assert checks["purchase sessions: the busiest hour is among 6 to 8 pm"] == 3 / 24
