"""How far every study is: not built, not run, run on generated data, verified on real data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from visir.display import Displayed, brief
from visir.papers.names import names
from visir.papers.running import saved_cells
from visir.papers.study import Study, missing, name_of, read_study
from visir.papers.verdicts import StudyComparison, Verdict, compare_cells, verdicts

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


def study_status(name_or_path: str | Path, out: Path) -> StudyStatus:
    """The status of one study."""
    study, name = read_study(name_or_path), name_of(name_or_path)
    every = _all_comparisons(name, study, out)
    comparisons = tuple(part for part in every if part.states["done"] or part.states["failed"])
    counterpart = _all_comparisons(study.counterpart, read_study(study.counterpart), out) if study.counterpart else ()
    return StudyStatus(name, study, comparisons, verdicts(comparisons, counterpart))


def all_statuses(out: Path) -> list[StudyStatus]:
    """The status of every study, by document and number."""
    return [study_status(name, out) for name in names()]


def _all_comparisons(name: str, study: Study, out: Path) -> tuple[StudyComparison, ...]:
    return tuple(compare_cells(name, study, scale, saved_cells(study, name, scale, out)) for scale in study.scales)
