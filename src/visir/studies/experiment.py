"""What every act has in common: whose place in the table it fills, what it needs, and what it hands back."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from visir.errors import VisirError
from visir.evaluation.published import PublishedRow
from visir.training.settings import Settings


class Experiment(Settings):
    """One cell of a table, as a study's file describes it.

    - `system`, `collection`: the row of the published table that it fills, or stands for on other data
    - `needs`: names of `data_requirements.toml`, for what is not part of visir
    """

    system: str
    collection: str = ""
    needs: tuple[str, ...] = ()

    @abstractmethod
    def measure(self, work: Work) -> Measurement:
        """Do it; `VisirError` when something is not as it should be."""

    @abstractmethod
    def what(self) -> str:
        """What is done, in a line."""


@dataclass(frozen=True, eq=False)
class Work:
    """Where an act works and for whom.

    - `folder`: of this cell alone; `shared`: of all studies, so that a training which two tables need is done once
    - `row`: the published row, which says what is printed; None where nothing is
    - `judged`: whether values are compared with it: on the table's own data only
    - `decimals`: of the table
    """

    folder: Path
    shared: Path
    seed: int
    row: PublishedRow | None
    decimals: int
    judged: bool
    locks: Locks


@dataclass(frozen=True, eq=False)
class Measurement:
    """What an act found.

    - `values`: by label as the table prints it, task first ("i2t R@1", "both rsum"), in the units of the table
    - `ran`: what it was that ran, (label, value): the real system, the real collection
    - `protocol`: rows of its card
    - `explained`: which reading gives the published values, where ours are not those
    - `unjudged`: label → why this value is not the published one's equal, whatever it says (half of the data, say)
    - `words`: what was found that is no number, by the name of a printed row or of what it is of; shown, never judged
    """

    values: Mapping[str, float]
    ran: Mapping[str, str]
    protocol: Mapping[str, str] = field(default_factory=dict)
    explained: str = ""
    notes: tuple[str, ...] = ()
    unjudged: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


class NotMeasurable(VisirError):
    """The data is at hand and does not hold what a cell asks (a log without customers): it is "not run", and this says
    why."""


class Locks:
    """One lock for each folder that several cells may want to fill at once; `here` for work in this process."""

    def __init__(self) -> None:
        self.here = threading.RLock()
        self._guard = threading.Lock()
        self._by_folder: dict[Path, threading.RLock] = {}

    def of(self, folder: Path) -> threading.RLock:
        """The lock of a folder."""
        with self._guard:
            return self._by_folder.setdefault(folder, threading.RLock())
