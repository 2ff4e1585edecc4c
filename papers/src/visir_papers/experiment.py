"""A cell of a table: which row it fills, what data it needs, what it returns."""

from __future__ import annotations

import threading
import tomllib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from visir.errors import ConfigurationError, VisirError, nearest
from visir.evaluation.published import PublishedRow
from visir.files import read_bytes
from visir.training.settings import Settings
from visir_papers.draws import Draws

Data = Literal["generated", "other", "quoted", "same"]
"""What data a scale or a cell has. "same", that of the table: values are judged. "other", real data of another
collection or split, and "generated" scenes: only the order of systems is compared. "quoted", the authors' own numbers:
nothing is measured, and only what the paper says of them is checked."""


class Experiment(Settings):
    """One cell of a table, as a study's file describes it."""

    system: str  # the system in the published table that the cell fills, or stands for on other data
    collection: str = ""  # the collection in that table; "" where the table names none
    needs: tuple[str, ...] = ()  # names in `data_requirements.toml`: data and weights that are not part of visir
    data: Data | None = None  # where the cell's data is not that of its scale

    @property
    def row(self) -> str:
        """System and collection in words: "CLIP, Flickr30k"."""
        return f"{self.system}, {self.collection}" if self.collection else self.system

    @abstractmethod
    def measure(self, context: ExperimentContext) -> Measurement:
        """Carry the experiment out."""

    @abstractmethod
    def describe(self) -> str:
        """One line that says what the experiment does."""


@dataclass(frozen=True, eq=False)
class ExperimentContext:
    """Where an experiment writes, and what it is compared with."""

    folder: Path  # the folder of this cell alone
    shared: Path  # the folder of all studies: a training that two tables need is done once
    seed: int  # the seed of the cell
    row: PublishedRow | None  # the published row, which names the values to measure; None where nothing is published
    decimals: int  # how many decimals the table prints
    judged: bool  # whether values are compared with the published ones; only on the table's own data
    locks: FolderLocks  # the locks that all cells of this process share


@dataclass(frozen=True, eq=False)
class Measurement:
    """What an experiment measured."""

    # Label as the table prints it ("i2t R@1", "both rsum") → value in the units of the table.
    values: Mapping[str, float]
    provenance: Mapping[str, str]  # what ran: the real system, the real collection and its fingerprint, (label, value)
    protocol: Mapping[str, str] = field(default_factory=dict)  # rows of the protocol card
    explained: str = ""  # which reading of the protocol gives the published values, where ours differ
    notes: tuple[str, ...] = ()  # sentences to print below the table
    # Label → why this value cannot be compared with the published one (half of the data, for example).
    not_judged: Mapping[str, str] = field(default_factory=dict)
    # Results that are words, by the name of a published row or of an example; shown, never judged.
    words: Mapping[str, str] = field(default_factory=dict)
    # Label → draws of its value (`visir_papers.draws`); a value without draws has no interval.
    draws: Mapping[str, Draws] = field(default_factory=dict)
    # Test size over training size where the seeds of a cell are folds of one cross-validation, which share most of what
    # they are trained on. None for seeds that are independent trainings.
    fold_ratio: float | None = None


class InsufficientDataError(VisirError):
    """The data is there and does not hold what a cell needs (a log without customers); the cell is "not run"."""


class FolderLocks:
    """One lock for each folder that several cells may fill at the same time."""

    def __init__(self) -> None:
        self.process = threading.RLock()
        self._guard = threading.Lock()
        self._by_folder: dict[Path, threading.RLock] = {}

    def for_folder(self, folder: Path) -> threading.RLock:
        """The lock of a folder."""
        with self._guard:
            return self._by_folder.setdefault(folder, threading.RLock())


# Data and weights that experiments need and visir does not include: where each belongs, and where to get it.

FILE = Path(__file__).parent / "data_requirements.toml"


@dataclass(frozen=True)
class DataRequirement:
    """A data set, or the weights of a model."""

    name: str  # the name that studies use
    description: str  # what it is, in words
    instructions: str  # what to download, and where to put it
    path: str = ""  # the file or folder that must exist; "$VISIR_DATA" in it stands for the directory of real data
    model: str = ""  # instead of a path: a name on the Hugging Face hub, which must lie in the hub's cache

    @property
    def is_available(self) -> bool:
        """Whether it is on this machine now."""
        from visir.training.recipe import expand

        if self.path:
            return Path(expand(self.path)).exists()
        from importlib.util import find_spec

        if find_spec("huggingface_hub") is None:
            return False
        from huggingface_hub import try_to_load_from_cache

        # A model of sentence-transformers may have no `config.json` at the top.
        files = ("config.json", "modules.json")
        return any(isinstance(try_to_load_from_cache(self.model, file), str) for file in files)

    def __str__(self) -> str:
        from visir.training.recipe import expand

        where = expand(self.path) if self.path else f"{self.model} in the cache of the Hugging Face hub"
        return f"{self.description}: {where} is not there. {expand(self.instructions)}"


@cache
def data_requirements() -> dict[str, DataRequirement]:
    """All requirements by name."""
    entries = tomllib.loads(read_bytes(FILE).decode())
    return {name: DataRequirement(name, **entry) for name, entry in entries.items()}


def data_requirement(name: str) -> DataRequirement:
    """A requirement by name."""
    if name not in data_requirements():
        raise ConfigurationError(f"{FILE.name}: nothing is called {name!r}.", hint=nearest(name, data_requirements()))
    return data_requirements()[name]
