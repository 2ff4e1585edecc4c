"""A generated log, whose causes are known: do the tables of section 6.4 show them, within their intervals?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from shop_truth import CauseShares, Truth, truth

from visir.sessions import load_mapping, sessionise
from visir.sessions.description import Characterisation, StatisticCell, describe
from visir.sessions.simulator import generate

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

OUTCOMES = (("Purchase sessions", "Purchase", "purchase"), ("Non-purchase sessions", "Non-purchase", "non-purchase"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Characterisation:
    folder = tmp_path_factory.mktemp("generated")
    generate(folder / "log", 30_000, seed=5)
    sessionise(folder / "log" / "events", load_mapping(folder / "log" / "mapping.toml"), folder / "sessions")
    return describe(folder / "sessions")


def planted(found: Characterisation, known: Truth) -> Iterator[tuple[str, StatisticCell, float]]:
    """Every estimate with an interval, beside what was planted."""
    devices = known.by_device.names
    for name, split in (("table-6-2", known.by_channel), ("table-6-4", known.by_device)):
        yield from of_split(found, name, split, split.names)
        for at, row in enumerate(split.names):
            one = found.statistic(name)
            yield f"{name} {row} rate", one.value(row, "Conversion rate"), 100 * split.conversion[at]
        cells = [one.value(row, "Standardised rate") for row in split.names]
        kept = np.array([cell.value is not None for cell in cells])
        rates = split.conversion[kept]
        for at, true in zip(np.flatnonzero(kept), (rates - rates.mean()) / rates.std(), strict=True):
            yield f"{name} {split.names[at]} z", cells[at], true
    yield from of_split(found, "figure-6-3", known.by_weekday, known.by_weekday.names)
    yield from of_split(found, "figure-6-4", known.by_hour, tuple(f"{hour:02d}" for hour in range(24)))
    for name, matrix in (("figure-6-5", known.switches_before[1]), ("figure-6-5-all", known.switches)):
        for at, left in enumerate(devices):
            for to, column in enumerate(devices):
                yield f"{name} {left} {column}", found.statistic(name).value(left, column), 100 * matrix[at, to]
    for outcome, column in ((1, "Purchasers"), (0, "Non-purchasers")):
        for count, row in enumerate(("1 device", "2 devices", "3 devices")):
            yield f"6.3 {row}", found.statistic("table-6-3").value(row, column), 100 * known.devices[outcome, count]
    for outcome, (_, column, small) in zip((1, 0), OUTCOMES, strict=True):
        mixed = known.by_device.of_purchases if outcome else known.by_device.of_others
        asked = mixed * known.queries[outcome]
        for at, device in enumerate(devices):
            one = found.statistic("table-6-5")
            yield f"6.5 {device}", one.value(device, f"{column}: queries per session"), known.queries[outcome, at]
            yield f"6.5 {device} share", one.value(device, f"{column}: share"), 100 * asked[at] / asked.sum()
            for x in (2, 5, 10, 20):
                longer = 100 * (1 - known.length[outcome, at, : x + 1].sum())
                yield f"6.2 {device} > {x}", found.statistic("figure-6-2").value(str(x), f"{device}, {small}"), longer


def of_split(
    found: Characterisation, name: str, split: CauseShares, rows: tuple[str, ...]
) -> Iterator[tuple[str, StatisticCell, float]]:
    for column, shares in ((OUTCOMES[0][0], split.of_purchases), (OUTCOMES[1][0], split.of_others)):
        for at, row in enumerate(rows):
            yield f"{name} {row}", found.statistic(name).value(row, column), 100 * shares[at]


def test_what_was_planted_is_found(found: Characterisation) -> None:
    distances = {}
    for what, one, true in planted(found, truth()):
        if one.value is None:
            continue
        assert isinstance(one.value, (int, float))
        assert one.low is not None
        assert one.high is not None
        # in standard errors, of the side on which the truth lies: intervals of rare things are lopsided
        half = (one.high - one.value) if true > one.value else (one.value - one.low)
        distances[what, column_of(distances, what)] = abs(true - one.value) / (half / 1.96) if half else 0.0
    assert len(distances) > 180
    values = np.array(list(distances.values()))
    assert (values <= 1.96 + 1e-9).mean() >= 0.9
    far = {what: value for what, value in distances.items() if value > 4}
    assert not far


def column_of(distances: dict[tuple[str, int], float], what: str) -> int:
    """Purchase and non-purchase have one name here."""
    return int((what, 0) in distances)


def test_two_readings_of_before_a_purchase_differ_from_all_steps(found: Characterisation) -> None:
    # Who switches buys more often here (switch_factor 1.25), so fewer steps into a purchase stay on the smartphone.
    stay = [found.statistic(name).value("smartphone", "smartphone").value for name in ("figure-6-5", "figure-6-5-all")]
    assert stay[0] < stay[1]  # type: ignore[operator]
