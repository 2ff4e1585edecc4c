"""Which sessions are trained on and which are predicted: by person, by time, or by chance (to see how that flatters).

- **grouped**: all sessions of a person in one fold. A person is all visitors and customers that logins connect.
- **temporal**: trained on the sessions that were over before a moment, predicted those that began after it.
- **ungrouped**: every session for itself; a person's other sessions may be trained on.

People with a purchase are assigned to folds first, then the others, each in the order of a seeded hash. So folds have
about the same share of purchases and depend on no order of rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from visir.errors import VisirError
from visir.sessions.definition import IDLE_MINUTES
from visir.sessions.records import Bools, Ints, SessionExamples

Scheme = Literal["grouped", "temporal", "ungrouped"]
SCHEMES: tuple[Scheme, ...] = ("grouped", "temporal", "ungrouped")

PAST = 0.8
"""The share of sessions, in the order of their beginning, that is the past of the temporal split."""


@dataclass(frozen=True, eq=False)
class TrainTestSplit:
    """Masks over examples; an example may be in neither."""

    train: Bools
    test: Bools


def splits(examples: SessionExamples, scheme: Scheme, *, folds: int = 10, seed: int = 0) -> list[TrainTestSplit]:
    """The splits of a scheme; one for "temporal"."""
    if scheme == "temporal":
        return [temporal_split(examples)]
    if scheme == "grouped":
        groups = people_of(examples)
    else:
        names = [f"{visitor}/{session}" for visitor, session in zip(examples.visitor, examples.session, strict=True)]
        groups = np.unique(names, return_inverse=True)[1]
    fold = assign_folds(groups, group_names(groups, examples), examples.purchase, folds, seed)
    return [TrainTestSplit(fold != test_fold, fold == test_fold) for test_fold in range(folds)]


def temporal_split(
    examples: SessionExamples, *, past: float = PAST, cut: int | None = None, idle_minutes: float = IDLE_MINUTES
) -> TrainTestSplit:
    """Train on sessions that were over when the later ones began, and test on those later ones."""
    cut = int(np.quantile(examples.began, past, method="lower")) if cut is None else cut
    return TrainTestSplit(examples.ended + round(idle_minutes * 60e6) < cut, examples.began >= cut)


def people_of(examples: SessionExamples) -> Ints:
    """(n,) a number for the person behind each session."""
    # Visitors and customers that were ever seen together are one person.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    visitors, visitor = np.unique(examples.visitor.astype(str), return_inverse=True)
    named = np.array([name is not None for name in examples.customer])
    customers, customer = np.unique(examples.customer[named].astype(str), return_inverse=True)
    nodes = len(visitors) + len(customers)
    edges = (np.ones(named.sum()), (visitor[named], len(visitors) + customer))
    parts = connected_components(coo_array(edges, shape=(nodes, nodes)), directed=False)[1]
    people: Ints = parts[visitor].astype(np.int64)
    return people


def assign_folds(groups: Ints, names: Sequence[str], purchase: Bools, folds: int, seed: int) -> Ints:
    """(n,) the fold of each session."""
    # groups: (n,) the group of each session; a group is in one fold.
    # purchase: (n,) whether each session holds an order.
    if len(names) < folds:
        raise VisirError(
            f"{len(names):,} people cannot be dealt into {folds} folds.",
            hint="fewer folds: --folds",
            code="people-cannot-dealt-folds",
        )
    buys = np.bincount(groups, purchase, minlength=len(names)) > 0
    mixed = [hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).hexdigest() for name in names]
    order = sorted(range(len(names)), key=lambda group: (not buys[group], mixed[group]))
    fold = np.empty(len(names), np.int64)
    fold[order] = np.arange(len(names)) % folds
    return fold[groups]


def group_names(groups: Ints, examples: SessionExamples) -> list[str]:
    """Name each group (0, 1, …) by its first session in the order of visitors."""
    names: dict[int, str] = {}
    for group, visitor, session in zip(groups.tolist(), examples.visitor, examples.session.tolist(), strict=True):
        name = f"{visitor}/{session}"
        names[group] = min(names.get(group, name), name)
    return [names[group] for group in range(len(names))]
