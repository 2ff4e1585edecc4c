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
    """One cell of a table, as a study's file describes it.

    Args:
        system: The system in the published table that the cell fills, or stands for on other data.
        collection: The collection in that table; "" where the table names none.
        needs: Names in `data_requirements.toml`: data and weights that are not part of visir.
    """

    system: str
    collection: str = ""
    needs: tuple[str, ...] = ()

    @abstractmethod
    def measure(self, context: ExperimentContext) -> Measurement:
        """Carry the experiment out.

        Raises:
            InsufficientDataError: The data does not hold what the cell needs; the cell is then "not run".
            VisirError: Anything else that the user can mend; the cell is then "failed".
        """

    @abstractmethod
    def describe(self) -> str:
        """One line that says what the experiment does."""


@dataclass(frozen=True, eq=False)
class ExperimentContext:
    """Where an experiment writes, and what it is compared with.

    Args:
        folder: The folder of this cell alone.
        shared: The folder of all studies: a training that two tables need is done once.
        seed: The seed of the cell.
        row: The published row, which names the values to measure; None where nothing is published.
        decimals: How many decimals the table prints.
        judged: Whether values are compared with the published ones; only on the table's own data.
        locks: The locks that all cells of this process share.
    """

    folder: Path
    shared: Path
    seed: int
    row: PublishedRow | None
    decimals: int
    judged: bool
    locks: FolderLocks


@dataclass(frozen=True, eq=False)
class Measurement:
    """What an experiment measured.

    Args:
        values: Label as the table prints it ("i2t R@1", "both rsum") → value in the units of the table.
        provenance: What ran: the real system, the real collection and its fingerprint, (label, value).
        protocol: Rows of the protocol card.
        explained: Which reading of the protocol gives the published values, where ours differ.
        notes: Sentences to print below the table.
        not_judged: Label → why this value cannot be compared with the published one (half of the data, for example).
        words: Results that are words, by the name of a published row or of an example; shown, never judged.
        draws: Label → draws of its value (`visir.studies.draws`); a value without draws has no interval.
        fold_ratio: Test size over training size where the seeds of a cell are folds of one cross-validation, which
            share most of what they are trained on. None for seeds that are independent trainings.
    """

    values: Mapping[str, float]
    provenance: Mapping[str, str]
    protocol: Mapping[str, str] = field(default_factory=dict)
    explained: str = ""
    notes: tuple[str, ...] = ()
    not_judged: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    draws: Mapping[str, Draws] = field(default_factory=dict)
    fold_ratio: float | None = None


class InsufficientDataError(VisirError):
    """The data is there and does not hold what a cell needs (a log without customers); the cell is "not run"."""


class FolderLocks:
    """One lock for each folder that several cells may fill at the same time.

    Attributes:
        process: The lock for work inside this process, which has one processor for all cells.
    """

    def __init__(self) -> None:
        self.process = threading.RLock()
        self._guard = threading.Lock()
        self._by_folder: dict[Path, threading.RLock] = {}

    def for_folder(self, folder: Path) -> threading.RLock:
        """The lock of a folder."""
        with self._guard:
            return self._by_folder.setdefault(folder, threading.RLock())
