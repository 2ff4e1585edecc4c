"""A study: a small TOML file that says which table it is, what that claims, and which experiments fill its cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, ValidationError

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.published import PlainTable, Published, PublishedRow, every_table, load, open_table, shipped
from visir.plugins import load_target
from visir.training.settings import Settings, explain_faults, read_layers
from visir_papers.draws import DrawFigure, Means, TrendCheck
from visir_papers.experiment import Data, Experiment, data_requirement, data_requirements
from visir_papers.figures import Figure
from visir_papers.published_values import (
    STANDS_FOR,
    SystemAxis,
    ValueKey,
    doubts_of,
    plotted_numbers,
    published_numbers,
    row_of,
    systems_of,
)

T = TypeVar("T")


# The names of the studies.

TABLES = Path(__file__).parent / "tables"


def names() -> list[str]:
    """All studies, by document and number."""
    return sorted((path.stem for path in TABLES.glob("*.toml")), key=_by_number)


def _by_number(name: str) -> tuple[str, int, list[int]]:
    """Tables first, then figures, of each document and chapter."""
    numbers = [int(digits) for digits in re.findall(r"\d+", name)]
    chapter = numbers[:1] if name.startswith("thesis") else []
    return name.partition("-")[0], chapter[0] if chapter else 0, [int("figure" in name), *numbers]


# What a study's file can name: kinds of experiments, what the paper says of a figure, and how the figure is drawn.


class Targets(Mapping[str, T]):
    """Names, and what each is: imported when it is first used. Other packages add theirs by entry points."""

    def __init__(self, group: str, own: Mapping[str, str]) -> None:
        self._group, self._own = group, own

    @cached_property
    def _targets(self) -> dict[str, str]:
        from importlib.metadata import entry_points

        others = {point.name: point.value for point in entry_points(group=f"visir_papers.{self._group}")}
        return dict(sorted((others | dict(self._own)).items()))

    def __getitem__(self, name: str) -> T:
        return load_target(self._targets[name])  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)


EXPERIMENTS: Mapping[str, type[Experiment]] = Targets(
    "experiments",
    {
        "categories": "visir_papers.experiments.categories:CategoriesExperiment",
        "count": "visir_papers.experiments.evaluate:CountExperiment",
        "describe": "visir_papers.experiments.describe:DescribeExperiment",
        "evaluate": "visir_papers.experiments.evaluate:EvaluateExperiment",
        "features": "visir_papers.experiments.predict:FeaturesExperiment",
        "latency": "visir_papers.experiments.stress:LatencyExperiment",
        "logs": "visir_papers.experiments.stress:LogsExperiment",
        "losses": "visir_papers.experiments.evaluate:LossesExperiment",
        "plotted": "visir_papers.experiments.evaluate:PlottedExperiment",
        "predict": "visir_papers.experiments.predict:PredictExperiment",
        "sparsify": "visir_papers.experiments.train:SparsifyExperiment",
        "stress": "visir_papers.experiments.stress:StressExperiment",
        "terms": "visir_papers.experiments.evaluate:TermsExperiment",
        "train": "visir_papers.experiments.train:TrainExperiment",
    },
)
"""Kinds of experiments, by the word that a study's file uses (`experiment = "train"`)."""
TREND_CHECKS: Mapping[str, Callable[[Means], list[TrendCheck]]] = Targets(
    "trend_checks",
    {
        "figure-3-2": "visir_papers.trend_checks:figure_3_2",
        "figure-4-5": "visir_papers.trend_checks:figure_4_5",
        "figure-6-2": "visir_papers.experiments.describe:figure_6_2",
        "figure-6-3": "visir_papers.experiments.describe:figure_6_3",
        "figure-6-4": "visir_papers.experiments.describe:figure_6_4",
        "figure-6-5": "visir_papers.experiments.describe:figure_6_5",
        "figure-6-6": "visir_papers.experiments.predict:figure_6_6",
        "figure-6-7": "visir_papers.experiments.predict:figure_6_7",
        "figure-7-2": "visir_papers.experiments.categories:figure_7_2",
        "ltd-figure-2": "visir_papers.trend_checks:ltd_figure_2",
        "table-3-4": "visir_papers.trend_checks:table_3_4",
    },
)
"""What the paper says of a figure, as statements that hold or do not: for figures without printed values."""
DRAWINGS: Mapping[str, DrawFigure] = Targets(
    "drawings",
    {
        "figure-6-2": "visir_papers.experiments.describe:lengths",
        "figure-6-3": "visir_papers.experiments.describe:weekdays",
        "figure-6-4": "visir_papers.experiments.describe:hours",
        "figure-6-5": "visir_papers.experiments.describe:switches",
        "figure-6-6": "visir_papers.experiments.predict:importance",
        "figure-6-7": "visir_papers.experiments.predict:predictions",
    },
)
"""Functions that draw a figure, by the name of its trend checks."""


# The file.

ScaleName = Literal["smoke", "replica", "logs", "full"]
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)


class Scale(Settings):
    """How a table is made at one scale."""

    data: Data  # of its cells, where they do not say otherwise
    description: str  # what is done, in a sentence
    hardware: str = "two cores"  # what it takes
    hours: Annotated[float, Field(gt=0)]  # how long it takes
    # Every experiment is run with each of them.
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    # Settings of all cells; a cell's own settings take precedence.
    defaults: dict[str, Any] = Field(default_factory=dict)
    # One table of settings per cell; see `visir_papers.experiments`.
    cells: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]


class Beside(Settings):
    """Rows of another table that the text compares this one with."""

    table: str  # its name in `visir.evaluation.published`; a table of results
    # Its rows; those of collections that the study's own table has.
    systems: Annotated[tuple[str, ...], Field(min_length=1)]


class Study(Settings):
    """A table or figure of a paper."""

    title: str  # what it shows
    paper: str  # which it is: "Thesis, Table 3.2"
    published: str | None = None  # its name in `visir.evaluation.published`; "none" for a figure
    beside: Beside | None = None  # rows of another table that the text compares it with
    # Which of the figures whose values come from outside visir (`visir_papers.published_values`).
    figure: Figure | None = None
    # Values of a figure that the text beside it prints: system → label → value.
    text_values: dict[str, dict[str, float]] = Field(default_factory=dict)
    claims: str  # what the paper says of it, in a sentence or two
    # Where what was printed is not what the text says: each reading of the protocol, in a sentence. Systems without a
    # suffix are of the first one, "CLIP · as published" is of the reading "as published".
    readings: dict[str, str] = Field(default_factory=dict)
    findings: tuple[str, ...] = ()  # how text, digits and logs disagree, a sentence or two each
    not_built: str = ""  # what visir lacks to run it at all; then there are no scales
    # What is compared in its order: "systems" of a collection under each label; "labels" of a row (which perturbation
    # harms most); "none".
    pairs: Literal["systems", "labels", "none"] = "systems"
    systems_in: SystemAxis = "columns"  # whether a plain table has its systems in columns or in rows
    groups: tuple[tuple[str, ...], ...] = ()  # systems that are compared with each other; by default all
    trend_checks: str | None = None  # a name in `TREND_CHECKS`: statements about a figure
    of_images: bool = True  # whether collections are of images; logs are neither of scenes nor of single objects
    object_centric: tuple[str, ...] = ()  # collections of single objects; all others are of scenes
    counterpart: str | None = None  # the study whose collections are the other kind (thesis 2.2 for 2.1)
    smoke: Scale | None = None  # generated data, minutes on two cores
    replica: Scale | None = None  # other real data that two cores can process (Flickr8k, logs)
    logs: Scale | None = None  # the runs that the authors released, measured anew
    full: Scale | None = None  # the paper's own data

    def scale(self, name: str) -> Scale:
        """A scale by name; where there is none, or nothing can be run at all, the message says why."""
        if self.not_built:
            raise ConfigurationError(
                f"{self.paper} cannot be run yet: {self.not_built}.", hint="visir papers list", code="cannot-run-yet"
            )
        scale = getattr(self, name, None) if name in SCALES else None
        if not isinstance(scale, Scale):
            raise ConfigurationError(
                f"{self.paper} has no scale {name!r}.", hint=nearest(name, self.scales), code="no-scale"
            )
        return scale

    @property
    def scales(self) -> tuple[ScaleName, ...]:
        """The scales of this study, the smallest first."""
        return tuple(name for name in SCALES if getattr(self, name) is not None)

    def experiments(self, scale: str, reading: str | None = None) -> list[Experiment]:
        """The experiments of a scale, or of one reading at it, each once, whatever the seeds."""
        self.check_reading(reading)
        experiments = (_experiment(settings, where)[0] for settings, where in _cell_settings(self, scale))
        return [
            experiment
            for experiment in experiments
            if experiment is not None and reading in (None, self.reading_of(experiment.system))
        ]

    def reading_of(self, system: str) -> str | None:
        """The reading of the protocol that a row follows; None in a study with one."""
        suffix = system.partition(STANDS_FOR)[2]
        return suffix if suffix in self.readings else next(iter(self.readings), None)

    def groups_of(self, system: str) -> set[tuple[str | None, int]]:
        """The groups that a row is in: systems of one reading; without `groups` all of them are one."""
        reading = self.reading_of(system)
        name = row_of(system) if self.readings else system
        return {(reading, place) for place, group in enumerate(self.groups or [(name,)]) if name in group}

    def check_reading(self, reading: str | None) -> None:
        """Refuse a reading that the study does not have."""
        if reading is not None and reading not in self.readings:
            hint = nearest(reading, self.readings) if self.readings else "leave the reading out: there is one"
            raise ConfigurationError(f"{self.paper} has no reading {reading!r}.", hint=hint, code="no-reading")

    def table(self) -> Published | PlainTable | None:
        """The published table; None for a figure."""
        return None if self.published is None else open_table(self.published)

    def published_numbers(self, rows: Sequence[tuple[str, str]] = ()) -> dict[ValueKey, float]:
        """Every published number; of a figure, what its text prints, or the values behind it where they are there."""
        # A plain table names no collections: where the rows, (system, collection), do, its numbers are repeated for
        # each of these. Numbers of other tables are repeated for all that stands for theirs (`row_of`).
        table = self.table()
        numbers = published_numbers(table, self.systems_in)
        if self.beside is not None and isinstance(table, Published):
            numbers |= {
                (row.system, row.collection, f"{task} {label}"): value
                for row in self._rows_beside(table)
                for task, part in row.values.items()
                for label, value in part.items()
            }
        text_values = {
            (system, collection, label): value
            for collection in _collections(rows)
            for system, part in self.text_values.items()
            for label, value in part.items()
        }
        return self._for_rows(numbers, rows) or text_values or plotted_numbers(self.figure)

    def row(self, system: str, collection: str) -> PublishedRow | None:
        """The published row of a cell: of the study's own table, or of the one beside it; None for a plain table."""
        table = self.table()
        if not isinstance(table, Published):
            return None
        beside = {(row.system, row.collection): row for row in self._rows_beside(table)}
        return beside.get((system, row_of(collection))) or table.row(row_of(system), row_of(collection))

    def _rows_beside(self, table: Published) -> list[PublishedRow]:
        """The rows of the table beside, with the labels that the study's own table has."""
        if self.beside is None:
            return []
        labels = {(task, label) for row in table.rows for task, part in row.values.items() for label in part}
        rows = [row for row in load(self.beside.table).rows if row.system in self.beside.systems]
        return [
            replace(
                row,
                values={
                    task: {label: value for label, value in part.items() if (task, label) in labels}
                    for task, part in row.values.items()
                },
            )
            for row in rows
            if row.collection in table.collections
        ]

    def doubts(self, rows: Sequence[tuple[str, str]] = ()) -> dict[ValueKey, str]:
        """Why some of the published numbers cannot be right, for these rows, (system, collection)."""
        return self._for_rows(doubts_of(self.table(), self.systems_in), rows)

    def _for_rows(self, values: dict[ValueKey, T], rows: Sequence[tuple[str, str]]) -> dict[ValueKey, T]:
        readings: dict[tuple[str, str], list[str]] = {}
        for system, collection in rows:
            readings.setdefault((row_of(system), collection), []).append(system)
        if isinstance(self.table(), PlainTable):
            return {
                (reading, collection, label): value
                for collection in _collections(rows)
                for (system, _, label), value in values.items()
                for reading in readings.get((system, collection), [system])
            }
        collections: dict[str, list[str]] = {}
        for collection in _collections(rows):
            collections.setdefault(row_of(collection), []).append(collection)
        printed: dict[tuple[str, str], dict[str, T]] = {}
        for (system, published, label), value in values.items():
            printed.setdefault((system, published), {})[label] = value
        return {
            (reading, collection, label): value
            for (system, published), part in printed.items()
            for collection in collections.get(published, [published])
            for reading in readings.get((system, collection), [system])
            for label, value in part.items()
        }


def name_of(name: str | Path) -> str:
    """The name of a study: as it is, or the stem of its file."""
    return Path(name).stem if str(name).endswith(".toml") else str(name)


def read_study(name: str | Path) -> Study:
    """A study by name, or from a file.

    Args:
        name: "thesis-table-3-2", or the path of a TOML file.

    Raises:
        ConfigurationError: With every fault at once: unknown keys with the nearest known one, unknown experiments,
            systems and collections that the published table does not have, unknown data requirements.

    Example:
        >>> read_study("thesis-table-3-2").scales
        ('smoke', 'replica', 'full')
    """
    path = Path(name)
    if path.suffix != ".toml":
        if str(name) not in names():
            raise ConfigurationError(
                f"there is no study {str(name)!r}.",
                hint=f"{nearest(str(name), names())}; all: visir papers list",
                code="no-such-study",
            )
        path = TABLES / f"{name}.toml"
    layers = read_layers(path, find_base=lambda name, path: path.parent / name)
    faults: list[str] = []
    try:
        study = Study.model_validate(layers.values)
        faults += [fault for scale in study.scales for fault in _faults_of_cells(study, scale)]
        faults += _faults_of_names(study)
    except ValidationError as fault:
        faults = explain_faults(Study, fault, layers.origin)
    raise_faults(ConfigurationError, f"{path.name}", faults, hint="the keys: docs/reference/studies.md")
    return study


def missing(experiment: Experiment) -> list[str]:
    """The data that an experiment lacks, in words."""
    requirements = (data_requirement(name) for name in experiment.needs)
    return [str(requirement) for requirement in requirements if not requirement.is_available]


def _cell_settings(study: Study, scale_name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Each cell's settings over the defaults (lists of changes are joined), and which cell it is in words."""
    scale = study.scale(scale_name)
    for number, own in enumerate(scale.cells, 1):
        settings = {**scale.defaults, **own}
        for key in ("set", "needs"):
            if key in scale.defaults and key in own:
                settings[key] = [*scale.defaults[key], *own[key]]
        yield settings, f"{scale_name}, cell {number} ({own.get('system', 'no system')})"


def _experiment(settings: Mapping[str, Any], where: str) -> tuple[Experiment | None, list[str]]:
    """The experiment with these settings, or the faults in them."""
    name = settings.get("experiment")
    kind = EXPERIMENTS.get(str(name))
    if kind is None:
        fault = "the key 'experiment' is missing" if name is None else f"experiment = {name!r}"
        return None, [f"{where}: {fault} ({nearest(str(name), EXPERIMENTS)})"]
    try:
        return kind.model_validate(settings), []
    except ValidationError as error:
        return None, [f"{where}: {fault}" for fault in explain_faults(kind, error, {})]


def _collections(rows: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The collections of rows, each once; "" where there are no rows."""
    return tuple(dict.fromkeys(collection for _, collection in rows)) or ("",)


def _faults_of_cells(study: Study, scale: str) -> list[str]:
    faults = []
    seen: set[tuple[str, str]] = set()
    for settings, where in _cell_settings(study, scale):
        experiment, faults_of_cell = _experiment(settings, where)
        faults += faults_of_cell
        if experiment is None:
            continue
        row = (experiment.system, experiment.collection)
        if row in seen:
            faults.append(f"{where}: {row[0]} on {row[1] or 'its collection'} is there twice")
        seen.add(row)
        unknown = (name for name in experiment.needs if name not in data_requirements())
        faults += [f"{where}: needs {name!r} ({nearest(name, data_requirements())})" for name in unknown]
        faults += [f"{where}: {fault}" for fault in _faults_of_row(study, experiment)]
    return faults


def _faults_of_row(study: Study, experiment: Experiment) -> list[str]:
    if study.published is None or study.published not in every_table():
        return []
    table = study.table()
    collection = "" if isinstance(table, PlainTable) else row_of(experiment.collection)
    if table is None or (row_of(experiment.system), collection) in systems_of(table, study.systems_in):
        return []
    if study.beside is not None and study.beside.table in shipped():
        beside = {(row.system, row.collection) for row in load(study.beside.table).rows}
        if experiment.system in study.beside.systems and (experiment.system, collection) in beside:
            return []
    return [f"{study.published} has no row {experiment.system!r}, {experiment.collection!r}"]


def _faults_of_names(study: Study) -> list[str]:
    faults = []
    if study.published is not None and study.published not in every_table():
        faults.append(f"published = {study.published!r} ({nearest(study.published, every_table())})")
    if study.beside is not None:
        if study.beside.table not in shipped():
            faults.append(f"beside.table = {study.beside.table!r} ({nearest(study.beside.table, shipped())})")
        else:
            known = {row.system for row in load(study.beside.table).rows}
            unknown = [system for system in study.beside.systems if system not in known]
            faults += [f"beside.systems: {system!r} ({nearest(system, known)})" for system in unknown]
    if study.trend_checks is not None and study.trend_checks not in TREND_CHECKS:
        faults.append(f"trend_checks = {study.trend_checks!r} ({nearest(study.trend_checks, TREND_CHECKS)})")
    if study.counterpart and study.counterpart not in names():
        faults.append(f"counterpart = {study.counterpart!r} ({nearest(study.counterpart, names())})")
    if bool(study.not_built) == bool(study.scales):
        faults.append("either scales (smoke, replica, logs, full), or not_built, which says why there are none")
    return faults
