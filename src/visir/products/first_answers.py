"""Where wrong first answers lie in the tree (thesis section 7.6.1, Table 7.2 and Figure 7.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.products.evaluation import Trial
from visir.products.relevance import Setting
from visir.products.tree import TreeErrors, tree_errors


@dataclass(frozen=True)
class FirstAnswers:
    """The first answers of a system in a setting, over all splits."""

    setting: Setting  # which categories are queries
    queries: int  # how many queries there are
    right: int  # for how many of them the first product is relevant
    # How many have no product at all (BM25 where no word is shared). They are wrong, and lie nowhere in the tree.
    unanswered: int
    errors: TreeErrors  # of the other wrong ones: same and different tree, depth differences and tree distances


@dataclass(frozen=True, eq=False)
class WrongFirstAnswers:
    """The wrong first answers of a system, query by query, over all splits."""

    queries: list[str]  # the ids of all queries, split by split
    rows: NDArray[np.int64]  # (k,) which of them have a wrong first answer
    targets: NDArray[np.int64]  # (k,) rows of their categories c in the tree
    predicted: NDArray[np.int64]  # (k,) rows of c_p
    right: int  # how many queries are answered rightly
    unanswered: int  # how many have no answer


def first_answers(trials: Sequence[Trial]) -> FirstAnswers:
    """Compare each category c with the category c_p of the product on rank 1, where that product is not relevant."""
    # c_p is the category that stands for the product in the setting (`drawn_categories`): its root, its most specific
    # category, or for "all" the drawn one, as the thesis draws it. So in the setting "general" every error lies in
    # another tree: two roots of a forest have nothing in common. (The thesis counts two in the same tree there, whose
    # predicted category is more general than a most general one.) For a query by name that several categories have, c
    # is the one nearest to c_p.
    wrong = wrong_first_answers(trials)
    errors = tree_errors(trials[0].task.tree, wrong.targets, wrong.predicted)
    return FirstAnswers(trials[0].task.setting, len(wrong.queries), wrong.right, wrong.unanswered, errors)


def wrong_first_answers(trials: Sequence[Trial]) -> WrongFirstAnswers:
    """The same, query by query."""
    triples: list[tuple[int, int, int]] = []
    queries: list[str] = []
    right = unanswered = 0
    for trial in trials:
        is_right = hits(trial, 1)[:, 0]
        answered = np.diff(trial.run.offsets) > 0
        right, unanswered = right + int(is_right.sum()), unanswered + int((~answered).sum())
        wrong = np.flatnonzero(~is_right & answered)
        firsts = trial.run.documents.take(trial.run.indices[trial.run.offsets[wrong]]).to_pylist()
        predicted = [trial.task.predicted[product] for product in firsts]
        start = len(queries)
        triples += [
            (start + int(query), _target(trial, int(query), c_p), c_p)
            for query, c_p in zip(wrong, predicted, strict=True)
        ]
        queries += trial.task.judgements().queries.to_pylist()
    rows, targets, predictions = np.array(triples, dtype=np.int64).reshape(-1, 3).T
    return WrongFirstAnswers(queries, rows, targets, predictions, right, unanswered)


def hits(trial: Trial, k: int) -> NDArray[np.bool_]:
    """(q, k) bool: whether the product on each of the first k ranks is relevant; False beyond the end of the answer."""
    run, qrels = trial.run, trial.task.judgements()
    is_hit = np.zeros((len(run), k), dtype=np.bool_)
    lengths = np.minimum(np.diff(run.offsets), k)
    query = np.repeat(np.arange(len(run)), lengths)
    rank = np.arange(len(query)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    products = run.indices[run.offsets[query] + rank].astype(np.int64)
    documents = pc.index_in(qrels.documents, run.documents).fill_null(-1).to_numpy().astype(np.int64)
    judged = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))
    in_run = documents >= 0
    width = max(len(run.documents), 1)
    is_hit[query, rank] = np.isin(query * width + products, judged[in_run] * width + documents[in_run])
    return is_hit


def _target(trial: Trial, query: int, predicted: int) -> int:
    """The row of the category that is the query; of several of one name, the nearest to the predicted one."""
    task = trial.task
    row = int(task.rows[query])
    if task.by == "id":
        return row
    namesakes = task.namesakes[task.tree.names[row]]
    return int(namesakes[np.argmin(task.tree.distances(namesakes, np.array(predicted)))])
