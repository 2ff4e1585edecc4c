"""The papers from Python: which tables there are, how far each is, run one, compare it with what is printed."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

from visir.display import Tabular, brief
from visir.errors import VisirError, require
from visir.papers.names import TABLES, names

if TYPE_CHECKING:
    from visir.papers.status import StudyStatus
    from visir.papers.verdicts import StudyComparison

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


def studies() -> StudyList:
    """Every table and figure of the papers. This needs nothing beyond the base installation.

    Example:
        >>> import visir
        >>> tables = visir.papers.studies()
        >>> len(tables), tables[0].name
        (42, 'brittleness-table-1')
    """
    entries = []
    for name in names():
        values = tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))
        scales = tuple(scale for scale in ("smoke", "replica", "logs", "full") if scale in values)
        entries.append(StudyEntry(name, values["paper"], values["title"], values["claims"], scales))
    return StudyList(tuple(entries))


def show(name: str | Path, *, out: str | Path = OUT) -> StudyStatus:
    """A study with all results that are on disk: what it claims, its state, comparisons, verdicts.

    Args:
        name: Of the study (`visir.papers.studies()`), or its TOML file.
        out: The folder of all studies.

    Raises:
        ConfigurationError: There is no study of that name; the hint is the nearest.

    Example:
        >>> import visir
        >>> visir.papers.show("thesis-table-3-2").study.scales
        ('smoke', 'replica', 'full')
    """
    _require_torch()
    from visir.papers.status import study_status

    return study_status(name, Path(out))


def run(name: str | Path, scale: str = "smoke", *, out: str | Path = OUT, jobs: int | None = None) -> StudyComparison:
    """Run every cell of a study that is not done; after an interruption the same call goes on.

    Args:
        name: Of the study, or its TOML file.
        scale: "smoke" (generated data), "replica" (other real data), "logs" (the authors' runs) or "full".
        out: The folder of all studies.
        jobs: How many cells run side by side; by default one per core.

    Returns:
        What was measured beside what is printed. `cells` are all cells of the scale; one that failed or lacks data
        says why.

    Raises:
        CollectionError: No cell can be run; the message names all that is missing, and where it belongs.
    """
    _require_torch()
    from visir.papers.running import run_study
    from visir.papers.study import name_of, read_study
    from visir.papers.verdicts import compare_cells

    study = read_study(name)
    cells = run_study(study, name_of(name), scale, Path(out), jobs=jobs)
    return compare_cells(name_of(name), study, scale, cells)


def compare(name: str | Path, scale: str | None = None, *, out: str | Path = OUT) -> StudyComparison:
    """What was measured beside what is printed.

    Args:
        name: Of the study, or its TOML file.
        scale: Which one; by default the largest that was run. `show(name).comparisons` has them all.
        out: The folder of all studies.

    Raises:
        VisirError: Nothing of it was run; the hint is the command.
    """
    return comparisons(name, scale, out=out)[-1]


def comparisons(name: str | Path, scale: str | None = None, *, out: str | Path = OUT) -> list[StudyComparison]:
    """The same of every scale that was run, the smallest first."""
    status = show(name, out=out)
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


def _require_torch() -> None:
    """Studies name training recipes, and reading a recipe imports what it builds."""
    require("torch", extra="torch", purpose="visir papers")
