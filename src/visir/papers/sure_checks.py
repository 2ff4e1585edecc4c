"""How sure a statement about a figure is: it is looked at in every draw of the values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from visir.papers.published_values import ValueKey
from visir.studies.draws import DRAWS, SURE, Draws
from visir.studies.trend_check import Means, TrendCheck


def sure_checks(
    check: Callable[[Means], list[TrendCheck]], means: Mapping[ValueKey, float], draws: Mapping[ValueKey, Draws] | None
) -> list[TrendCheck]:
    """The statements about each collection, with the share of the draws in which they hold."""
    # A statement that needs a value without draws, or that some draws cannot decide, has no such share.
    collections = dict.fromkeys(collection for _, collection, _ in means)
    checks: list[TrendCheck] = []
    for collection in collections:
        prefix = f"{collection}: " if len(collections) > 1 else ""
        holds: Counter[str] = Counter()
        made: Counter[str] = Counter()
        of_collection = {key: drawn for key, drawn in (draws or {}).items() if key[1] == collection}
        for number in range(DRAWS if of_collection else 0):
            for drawn in check(_by_system({key: float(values[number]) for key, values in of_collection.items()})):
                if drawn.holds is not None:
                    made[drawn.statement] += 1
                    holds[drawn.statement] += drawn.holds
        for at_means in check(_by_system({key: mean for key, mean in means.items() if key[1] == collection})):
            count = made[at_means.statement]
            sure = holds[at_means.statement] / count if count >= SURE * DRAWS else None
            if draws is None and at_means.holds is not None:
                sure = float(at_means.holds)
            checks.append(replace(at_means, statement=prefix + at_means.statement, sure=sure))
    return checks


def _by_system(values: Mapping[ValueKey, float]) -> dict[str, dict[str, float]]:
    by_system: dict[str, dict[str, float]] = {}
    for (system, _, label), value in values.items():
        by_system.setdefault(system, {})[label] = value
    return by_system
