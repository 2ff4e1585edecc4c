"""The papers from Python: which tables there are, how far each is, run one, compare it with what is printed."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from visir.display import Displayed, Tabular, brief
from visir.errors import VisirError, require
from visir_papers.cells import run_study, saved_cells
from visir_papers.study import SCALES, TABLES, Study, missing, name_of, names, read_study
from visir_papers.verdicts import StudyComparison, Verdict, compare_cells, verdicts

OUT = Path("runs/studies")
"""The folder of all studies, when none is named."""


@dataclass(frozen=True)
class StudyEntry:
    """A table or figure of a paper in a list."""

    name: str  # what it is called: "thesis-table-3-2"
    paper: str  # which it is: "Thesis, Table 3.2"
    title: str  # what it shows
    claims: str  # what the paper says of it
    scales: tuple[str, ...]  # at which scales it can be run; none when something is missing in visir


@dataclass(frozen=True, repr=False)
class StudyList(Tabular, Sequence[StudyEntry]):
    """Every table and figure of the papers, by document and number."""

    entries: tuple[StudyEntry, ...]  # the studies

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> StudyEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StudyEntry]: ...
    def __getitem__(self, index: int | slice) -> StudyEntry | Sequence[StudyEntry]:
        return self.entries[index]

    def __repr__(self) -> str:
        first = [f"{entry.name}: {entry.title}" for entry in self.entries[:3]]
        more = f"… {len(self) - 3} more" if len(self) > 3 else ""
        return brief(self, f"{len(self)} tables and figures", *first, more)


StudyState = Literal["verified on real data", "run at smoke scale only", "not run", "not built yet"]
STATES: tuple[StudyState, ...] = ("verified on real data", "run at smoke scale only", "not run", "not built yet")


@dataclass(frozen=True, repr=False)
class StudyStatus(Displayed):
    """One study with all results that are on disk."""

    name: str  # the study's name
    study: Study  # the study
    comparisons: tuple[StudyComparison, ...]  # scales of which something was run, the smallest first
    verdicts: tuple[Verdict, ...]  # the verdicts on the study

    def __repr__(self) -> str:
        scales = f"scales: {', '.join(self.study.scales)}" if self.study.scales else self.study.not_built
        return brief(self, f"{self.name}: {self.state}", f"{self.study.paper}: {self.study.title}", scales)

    @property
    def state(self) -> StudyState:
        """The furthest state reached. Real data of another collection counts: orders of systems are verified on it."""
        # A study that needs no data (Table 6.7, a list of features) is not verified on real data, whatever it
        # reproduces.
        if self.study.not_built:
            return "not built yet"
        done = [comparison for comparison in self.comparisons if comparison.states["done"]]
        real = [comparison for comparison in done if comparison.data in ("same", "other")]
        if any(experiment.needs for part in real for experiment in self.study.experiments(part.scale)):
            return "verified on real data"
        return "run at smoke scale only" if real or any(part.data == "generated" for part in done) else "not run"

    @property
    def value_counts(self) -> tuple[int, int, int]:
        """Values within 5 %, values judged, values published; of the largest scale on the table's own data."""
        same = [comparison for comparison in self.comparisons if comparison.data == "same"]
        values = self.comparisons[0].values if self.comparisons else ()
        published = sum(value.published is not None for value in values)
        if not same:
            return 0, 0, published
        reproduced = same[-1].count("reproduced")
        return reproduced, reproduced + same[-1].count("not reproduced"), published

    @property
    def available_cells(self) -> dict[str, tuple[int, int]]:
        """Scale → how many of its cells have their data on this machine, and how many there are."""
        return {
            scale: (sum(not missing(experiment) for experiment in experiments), len(experiments))
            for scale in self.study.scales
            for experiments in [self.study.experiments(scale)]
        }


# What people call.


def studies() -> StudyList:
    """Every table and figure of the papers. This needs nothing beyond the base installation.

    Example:
        >>> import visir_papers
        >>> tables = visir_papers.studies()
        >>> len(tables), tables[0].name
        (42, 'brittleness-table-1')
    """
    entries = []
    for name in names():
        values = tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))
        scales = tuple(scale for scale in SCALES if scale in values)
        entries.append(StudyEntry(name, values["paper"], values["title"], values["claims"], scales))
    return StudyList(tuple(entries))


def show(name: str | Path, *, out: str | Path = OUT, reading: str | None = None) -> StudyStatus:
    """A study with all results that are on disk: what it claims, its state, comparisons, verdicts.

    Args:
        name: Of the study (`visir_papers.studies()`), or its TOML file.
        out: The folder of all studies.
        reading: Only one reading of the protocol, of a study whose text and print differ (`study.readings`).

    Raises:
        ConfigurationError: There is no study of that name, or no such reading; the hint is the nearest.

    Example:
        >>> import visir_papers
        >>> visir_papers.show("thesis-table-3-2").study.scales
        ('smoke', 'replica', 'full')
    """
    require_torch()
    study, named, out = read_study(name), name_of(name), Path(out)
    study.check_reading(reading)
    every = _all_comparisons(named, study, out)
    comparisons = tuple(part for part in every if part.states["done"] or part.states["failed"])
    counterpart = _all_comparisons(study.counterpart, read_study(study.counterpart), out) if study.counterpart else ()
    answers = verdicts(comparisons, counterpart)
    if reading is not None:
        comparisons = tuple(part.part(reading=reading) for part in comparisons)
        answers = tuple(verdict for verdict in answers if verdict.reading == reading)
    return StudyStatus(named, study, comparisons, answers)


def run(
    name: str | Path,
    scale: str = "smoke",
    *,
    out: str | Path = OUT,
    jobs: int | None = None,
    reading: str | None = None,
) -> StudyComparison:
    """Run every cell of a study that is not done; after an interruption the same call goes on.

    Args:
        name: Of the study, or its TOML file.
        scale: "smoke" (generated data), "replica" (other real data), "logs" (the authors' runs) or "full".
        out: The folder of all studies.
        jobs: How many cells run side by side; by default one per core.
        reading: Only one reading of the protocol, where what was printed is not what the text says: "as the text says"
            or "as published" (chapter 2 of the thesis).

    Returns:
        What was measured beside what is printed. `cells` are all cells of the scale; one that failed or lacks data
        says why.

    Raises:
        CollectionError: No cell can be run; the message names all that is missing, and where it belongs.
    """
    require_torch()
    study = read_study(name)
    cells = run_study(study, name_of(name), scale, Path(out), jobs=jobs, reading=reading)
    return compare_cells(name_of(name), study, scale, cells).part(reading=reading)


def compare(
    name: str | Path, scale: str | None = None, *, out: str | Path = OUT, reading: str | None = None
) -> StudyComparison:
    """What was measured beside what is printed.

    Args:
        name: Of the study, or its TOML file.
        scale: Which one; by default the largest that was run. `show(name).comparisons` has them all.
        out: The folder of all studies.
        reading: Only the rows of one reading of the protocol, as `run` takes it.

    Raises:
        VisirError: Nothing of it was run; the hint is the command.
    """
    return comparisons(show(name, out=out, reading=reading), name, scale, out)[-1]


def comparisons(status: StudyStatus, name: str | Path, scale: str | None, out: str | Path) -> list[StudyComparison]:
    """The scales that were run, the smallest first, or one of them."""
    if scale is not None:
        status.study.scale(scale)
    shown = [comparison for comparison in status.comparisons if scale in (None, comparison.scale)]
    if not shown:
        raise VisirError(
            f"{name}: nothing was run{f' at the scale {scale}' if scale else ''} in {out}.",
            hint=status.study.not_built or f"visir papers run {name} --scale {scale or 'smoke'}",
            code="nothing-run",
        )
    return shown


def require_torch() -> None:
    """Studies name training recipes, and reading a recipe imports what it builds."""
    require("torch", extra="torch", purpose="visir papers")


def all_statuses(out: Path) -> list[StudyStatus]:
    """The status of every study, by document and number."""
    return [show(name, out=out) for name in names()]


def _all_comparisons(name: str, study: Study, out: Path) -> tuple[StudyComparison, ...]:
    return tuple(compare_cells(name, study, scale, saved_cells(study, name, scale, out)) for scale in study.scales)
