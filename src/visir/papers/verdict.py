"""What came of a table: a verdict for every printed value, and for every pair whose order it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from visir.evaluation.published.judge import TOLERANCE
from visir.papers.cells import Cell
from visir.papers.marks import marks
from visir.papers.printed import Key
from visir.papers.registered import SHAPES
from visir.papers.study import Data, Study
from visir.studies.trend_check import TrendCheck

State = Literal["reproduced", "not reproduced", "not judged", "failed", "not run"]


@dataclass(frozen=True)
class Value:
    """One printed value and ours.

    - `published`: as printed; None of a figure, whose values are not
    - `ours`: the mean over seeds; `spread`: the standard deviation over them; `seeds`: how many
    - `relative`: (ours − published) / |published|
    - `state`: "reproduced" when |relative| ≤ 5 % (thesis 2.5.3, after Petrov & Macdonald 2022) and the data is the
      table's; "not judged" on other data; `reason` says why, or why it failed or was not run
    - `doubt`: why the printed value is not to be trusted; "" when nothing is known against it
    """

    system: str
    collection: str
    label: str
    published: float | None
    ours: float | None
    spread: float | None
    seeds: int
    relative: float | None
    state: State
    reason: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class Pair:
    """Two things that the table puts in an order, `higher` above `lower` (by printed value, whichever is better).

    `same`: whether ours is strictly in that order; None when one of the two is not there. Printed ties are no pairs.
    """

    collection: str
    label: str
    higher: str
    lower: str
    same: bool | None


@dataclass(frozen=True)
class Verdict:
    """All that can be said of a study at one scale.

    `explained`: for each cell with values that are not reproduced, which reading comes nearest.
    """

    name: str
    study: Study
    scale: str
    data: Data
    cells: tuple[Cell, ...]
    values: tuple[Value, ...]
    pairs: tuple[Pair, ...]
    shapes: tuple[TrendCheck, ...]

    def count(self, state: State) -> int:
        """How many printed values have this verdict."""
        return sum(one.state == state for one in self.values)

    @property
    def judged(self) -> tuple[Pair, ...]:
        """The pairs of which both are there."""
        return tuple(one for one in self.pairs if one.same is not None)

    @property
    def kept(self) -> int:
        """How many pairs stand in the printed order."""
        return sum(bool(one.same) for one in self.pairs)

    @property
    def states(self) -> Counter[str]:
        """How many cells are done, failed, not run."""
        return Counter(one.state for one in self.cells)

    @property
    def marks(self) -> tuple[tuple[str, str], ...]:
        """(row, sentence): whose ranking ends early, in print or here, and what does that."""
        return marks(self.study, self.cells)

    @property
    def explained(self) -> tuple[tuple[str, str], ...]:
        """(cell, sentence); only where values are judged at all."""
        if self.data != "same":
            return ()
        said = {_named(one): one.measured.explained for one in self.cells if one.measured.explained}
        return tuple(said.items())


def verdict(name: str, study: Study, scale: str, cells: Sequence[Cell]) -> Verdict:
    """The verdict on the kept cells of a scale (`run.kept`)."""
    data = study.scale(scale).data
    printed = study.printed(tuple(dict.fromkeys(one.collection for one in cells)))
    values = _values(study, data, printed, cells)
    means = {(one.system, one.collection, one.label): one.ours for one in values if one.ours is not None}
    shapes: list[TrendCheck] = []
    if study.shape is not None:
        by_collection: dict[str, dict[str, dict[str, float]]] = {}
        for (system, collection, label), value in means.items():
            by_collection.setdefault(collection, {}).setdefault(system, {})[label] = value
        for collection, by_system in by_collection.items():
            prefix = f"{collection}: " if len(by_collection) > 1 else ""
            shapes += [replace(one, says=prefix + one.says) for one in SHAPES[study.shape](by_system)]
    return Verdict(name, study, scale, data, tuple(cells), values, _pairs(study, printed, means), tuple(shapes))


def _values(study: Study, data: Data, printed: Mapping[Key, float], cells: Sequence[Cell]) -> tuple[Value, ...]:
    """Of every printed value; where a table prints no numbers, and of a figure, of every measured one too.

    Of a figure of which only the text prints something, the measured ones stand first, in the order of the cells.
    """
    by_row: dict[tuple[str, str], list[Cell]] = {}
    for one in cells:
        by_row.setdefault((one.system, one.collection), []).append(one)
    wanted: list[Key] = list(printed)
    if not printed or study.figure is not None or study.said:
        measured = [
            (system, collection, label)
            for (system, collection), some in by_row.items()
            for label in dict.fromkeys(label for one in some for label in one.measured.values)
        ]
        wanted = list(dict.fromkeys([*measured, *wanted] if study.said else [*wanted, *measured]))
    doubts = study.doubts(tuple(dict.fromkeys(one.collection for one in cells)))
    return tuple(_value(key, printed.get(key), by_row.get(key[:2], []), data, doubts.get(key, "")) for key in wanted)


def _value(key: Key, published: float | None, cells: Sequence[Cell], data: Data, doubt: str) -> Value:
    label = key[2]
    found = [one.measured.values[label] for one in cells if one.state == "done" and label in one.measured.values]
    if not found:
        states = {one.state for one in cells}
        state: State = "failed" if "failed" in states else "not run"
        reason = next((one.reason for one in cells if one.reason), "")
        if "done" in states:
            said = [note for one in cells for note in one.measured.notes if note.startswith(label.partition(" ")[0])]
            reason = said[0] if said else "not among what was measured"
        return Value(*key, published, None, None, 0, None, state, reason or "not run", doubt)
    ours = float(np.mean(found))
    spread = float(np.std(found, ddof=1)) if len(found) > 1 else None
    partial = next((one.measured.unjudged[label] for one in cells if label in one.measured.unjudged), "")
    if published is None or data != "same" or partial:
        reason = partial or ("no printed value" if published is None else f"{data} data: only orders compare")
        return Value(*key, published, ours, spread, len(found), None, "not judged", reason, doubt)
    gap = ours - published
    relative = gap / abs(published) if published else (0.0 if not gap else float("inf"))
    # As decimal numbers: 1.05 is within 5 % of 1, whatever binary makes of it.
    state = "reproduced" if abs(relative) <= TOLERANCE + 1e-12 else "not reproduced"
    return Value(*key, published, ours, spread, len(found), relative, state, "", doubt)


def _pairs(study: Study, printed: Mapping[Key, float], means: Mapping[Key, float]) -> tuple[Pair, ...]:
    """All pairs of the table whose printed values differ."""
    if study.pairs == "none" or not printed:
        return ()
    sets: dict[tuple[str, str], dict[str, Key]] = {}
    for system, collection, label in printed:
        if study.pairs == "labels":
            sets.setdefault((collection, system), {})[label] = (system, collection, label)
        else:
            sets.setdefault((collection, label), {})[system] = (system, collection, label)
    found = []
    for (collection, what), members in sets.items():
        for one, other in combinations(members, 2):
            if study.groups and not any(one in group and other in group for group in study.groups):
                continue
            gap = printed[members[one]] - printed[members[other]]
            if gap == 0:
                continue
            higher, lower = (one, other) if gap > 0 else (other, one)
            mine = means.get(members[higher]), means.get(members[lower])
            same = None if mine[0] is None or mine[1] is None else mine[0] > mine[1]
            found.append(Pair(collection, what, higher, lower, same))
    return tuple(found)


def _named(cell: Cell) -> str:
    named = f"{cell.system}, {cell.collection}" if cell.collection else cell.system
    return f"{named}, seed {cell.seed}" if cell.seed else named
