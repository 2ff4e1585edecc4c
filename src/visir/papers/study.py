"""A study: a small TOML file that says which table it is, what that claims, and which cells make it at which scale."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, ValidationError

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.published import PlainTable, Published, every_table, open_table
from visir.evaluation.published.figures import Figure
from visir.papers.printed import Key, Systems, doubts_of, numbers_of, plotted_in, row_of, systems_of
from visir.papers.registered import ACTS, SHAPES
from visir.studies.data_requirements import data_requirement, data_requirements
from visir.studies.experiment import Experiment
from visir.training.faults import explain_faults
from visir.training.layers import read_layers
from visir.training.settings import Settings

TABLES = Path(__file__).parent / "tables"
ScaleName = Literal["smoke", "replica", "logs", "full"]
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)
Data = Literal["generated", "other", "quoted", "same"]
T = TypeVar("T")


class Scale(Settings):
    """How a table is made at one scale.

    - `data`: "same", the data of the table, so that values are judged; "other", real data of another collection, or
      "generated" scenes: then only the order of systems is; "quoted", the authors' own numbers, where nothing is
      measured and only what is said of them can be looked at
    - `says`: what is done, in a sentence; `hardware`, `hours`: what it takes
    - `seeds`: every cell is done with each of them
    - `each`: settings of all cells, in front of their own; `cells`: one table per cell, see `acts/`
    """

    data: Data
    says: str
    hardware: str = "two cores"
    hours: Annotated[float, Field(gt=0)]
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    each: dict[str, Any] = Field(default_factory=dict)
    cells: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]


class Study(Settings):
    """A table or figure of a paper.

    - `paper`: which, "Thesis, Table 3.2"; `published`: its name among `visir.evaluation.published`, "none" for a figure
    - `figure`: which of the figures whose values can be had outside visir (`visir.evaluation.published.figures`)
    - `said`: values of a figure that the text beside it prints: system → label → value
    - `claims`: what it says, in a sentence or two
    - `not_built`: what visir lacks to run it at all; then there are no scales
    - `pairs`: what the order is looked at of: "systems" of a collection under each label; "labels" of a row (which
      perturbation harms most); "none"
    - `systems`: whether a plain table has its systems in columns or in rows
    - `groups`: systems that are compared with each other; by default all
    - `shape`: a name of `shapes.py`, for what a figure shows
    - `of_images`: whether collections are of images; logs are neither of scenes nor of single objects
    - `object_centric`: collections of single objects; all others are of scenes
    - `beside`: another study whose collections are the other kind (thesis 2.2 beside 2.1)
    - `smoke`: generated data, minutes on two cores; `replica`: other real data that two cores can do (Flickr8k, logs);
      `logs`: the runs that the authors released, measured anew; `full`: the paper's own data
    """

    title: str
    paper: str
    published: str | None = None
    figure: Figure | None = None
    said: dict[str, dict[str, float]] = Field(default_factory=dict)
    claims: str
    not_built: str = ""
    pairs: Literal["systems", "labels", "none"] = "systems"
    systems: Systems = "columns"
    groups: tuple[tuple[str, ...], ...] = ()
    shape: str | None = None
    of_images: bool = True
    object_centric: tuple[str, ...] = ()
    beside: str | None = None
    smoke: Scale | None = None
    replica: Scale | None = None
    logs: Scale | None = None
    full: Scale | None = None

    def scale(self, name: str) -> Scale:
        """A scale by name; `ConfigurationError` when this study has none, saying why."""
        if self.not_built:
            raise ConfigurationError(f"{self.paper} cannot be run yet: {self.not_built}.", hint="visir study list")
        found = getattr(self, name, None) if name in SCALES else None
        if not isinstance(found, Scale):
            raise ConfigurationError(f"{self.paper} has no scale {name!r}.", hint=nearest(name, self.scales))
        return found

    @property
    def scales(self) -> tuple[ScaleName, ...]:
        """The scales that it has, the smallest first."""
        return tuple(name for name in SCALES if getattr(self, name) is not None)

    def acts(self, scale: str) -> list[Experiment]:
        """The cells of a scale, each once, whatever the seeds."""
        return [act for one, where in _described(self, scale) if (act := _act(one, where)[0]) is not None]

    def table(self) -> Published | PlainTable | None:
        """The published table, or None for a figure."""
        return None if self.published is None else open_table(self.published)

    def printed(self, collections: Sequence[str] = ()) -> dict[Key, float]:
        """Every printed number; of a figure, what the text says of it, or the values behind it, where they are at hand.

        A plain table knows no collections: where cells name some, its numbers stand beside each of these. Those of
        other tables stand beside every collection that takes the place of theirs (`row_of`).
        """
        found = numbers_of(self.table(), self.systems)
        told = {
            (one, here, label): value
            for here in collections or ("",)
            for one, part in self.said.items()
            for label, value in part.items()
        }
        return self._beside_each(found, collections) or told or plotted_in(self.figure)

    def doubts(self, collections: Sequence[str] = ()) -> dict[Key, str]:
        """Why some of the printed numbers are not to be trusted."""
        return self._beside_each(doubts_of(self.table(), self.systems), collections)

    def _beside_each(self, found: dict[Key, T], collections: Sequence[str]) -> dict[Key, T]:
        if isinstance(self.table(), PlainTable):
            return {
                (one, here, label): said for here in collections or ("",) for (one, _, label), said in found.items()
            }
        stand: dict[str, list[str]] = {}
        for here in collections:
            stand.setdefault(row_of(here), []).append(here)
        rows: dict[tuple[str, str], dict[str, T]] = {}
        for (one, of, label), said in found.items():
            rows.setdefault((one, of), {})[label] = said
        return {
            (one, here, label): said
            for (one, of), part in rows.items()
            for here in stand.get(of, [of])
            for label, said in part.items()
        }


def names() -> list[str]:
    """All studies, by document and number."""
    return sorted((one.stem for one in TABLES.glob("*.toml")), key=_by_number)


def name_of(name: str | Path) -> str:
    """What a study is called: its name, or the stem of its file."""
    return Path(name).stem if str(name).endswith(".toml") else str(name)


def read_study(name: str | Path) -> Study:
    """A study by name ("thesis-table-3-2"), or from a file.

    Raises `ConfigurationError` with every fault at once: unknown keys with the nearest known name, cells that are none,
    systems and collections that the published table does not have, places that nothing is known of.
    """
    path = Path(name)
    if path.suffix != ".toml":
        if str(name) not in names():
            raise ConfigurationError(
                f"there is no study {str(name)!r}.", hint=f"{nearest(str(name), names())}; all: visir study list"
            )
        path = TABLES / f"{name}.toml"
    layers = read_layers(path, (), find_base=_beside, kind_of=_no_kind)
    faults: list[str] = []
    try:
        study = Study.model_validate(layers.values)
        faults += [f for scale in study.scales for f in _faults(study, scale)]
        faults += _faults_of_names(study)
    except ValidationError as fault:
        faults = explain_faults(Study, fault, layers.origin)
    raise_faults(ConfigurationError, f"{path.name}", faults, hint="the keys: docs/studies.md")
    return study


def missing(act: Experiment) -> list[str]:
    """What a cell lacks, in words: place by place."""
    return [str(data_requirement(one)) for one in act.needs if not data_requirement(one).at_hand]


def _described(study: Study, scale: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Each cell's settings over those of `each` (lists of changes are joined), and where it stands."""
    found = study.scale(scale)
    for at, own in enumerate(found.cells, 1):
        joined = {**found.each, **own}
        for key in ("set", "needs"):
            if key in found.each and key in own:
                joined[key] = [*found.each[key], *own[key]]
        yield joined, f"{scale}, cell {at} ({own.get('system', 'no system')})"


def _act(described: Mapping[str, Any], where: str) -> tuple[Experiment | None, list[str]]:
    """The act that is described, or what is wrong with the description."""
    kind = ACTS.get(str(described.get("run")))
    if kind is None:
        given = described.get("run")
        said = "the key 'run' is missing" if given is None else f"run = {given!r}"
        return None, [f"{where}: {said} ({nearest(str(given), ACTS)})"]
    try:
        return kind.model_validate(described), []
    except ValidationError as fault:
        return None, [f"{where}: {one}" for one in explain_faults(kind, fault, {})]


def _faults(study: Study, scale: str) -> list[str]:
    faults = []
    seen: set[tuple[str, str]] = set()
    for described, where in _described(study, scale):
        act, wrong = _act(described, where)
        faults += wrong
        if act is None:
            continue
        if (act.system, act.collection) in seen:
            faults.append(f"{where}: {act.system} on {act.collection or 'its collection'} stands there twice")
        seen.add((act.system, act.collection))
        faults += [
            f"{where}: needs {one!r} ({nearest(one, data_requirements())})"
            for one in act.needs
            if one not in data_requirements()
        ]
        faults += [f"{where}: {one}" for one in _not_in_table(study, act)]
    return faults


def _not_in_table(study: Study, act: Experiment) -> list[str]:
    if study.published is None or study.published not in every_table():
        return []
    table = study.table()
    collection = "" if isinstance(table, PlainTable) else row_of(act.collection)
    if table is None or (act.system, collection) in systems_of(table, study.systems):
        return []
    return [f"{study.published} has no row {act.system!r}, {act.collection!r}"]


def _faults_of_names(study: Study) -> list[str]:
    faults = []
    if study.published is not None and study.published not in every_table():
        faults.append(f"published = {study.published!r} ({nearest(study.published, every_table())})")
    if study.shape is not None and study.shape not in SHAPES:
        faults.append(f"shape = {study.shape!r} ({nearest(study.shape, SHAPES)})")
    if study.beside and study.beside not in names():
        faults.append(f"beside = {study.beside!r} ({nearest(study.beside, names())})")
    if bool(study.not_built) == bool(study.scales):
        faults.append("either scales (smoke, replica, logs, full), or not_built, which says why there are none")
    return faults


def _by_number(name: str) -> tuple[str, int, list[int]]:
    """Tables first, then figures, of each document and chapter."""
    numbers = [int(one) for one in re.findall(r"\d+", name)]
    chapter = numbers[:1] if name.startswith("thesis") else []
    return name.partition("-")[0], chapter[0] if chapter else 0, [int("figure" in name), *numbers]


def _beside(name: str, path: Path) -> Path:
    return path.parent / name


def _no_kind(where: tuple[str, ...]) -> None:
    return None
