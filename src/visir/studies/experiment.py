"""What all experiments of studies share: which row of a table they fill, what data they need, what they return."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from visir.errors import VisirError
from visir.evaluation.published import PublishedRow
from visir.studies.draws import Draws
from visir.training.settings import Settings


class Experiment(Settings):
    """One cell of a table, as a study's file describes it."""

    system: str  # the system in the published table that the cell fills, or stands for on other data
    collection: str = ""  # the collection in that table; "" where the table names none
    needs: tuple[str, ...] = ()  # names in `data_requirements.toml`: data and weights that are not part of visir

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
    # Label → draws of its value (`visir.studies.draws`); a value without draws has no interval.
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
