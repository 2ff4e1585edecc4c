"""The report: one HTML file that anybody can open, keep and send, with nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.records import Collection, Qrels, Result, Run
from visir.reports.chance import expected_by_chance
from visir.reports.examples import Example, Examples, Kind, by_image
from visir.reports.figures import figures
from visir.reports.formats import to_html
from visir.reports.library import Library
from visir.reports.page import write_page
from visir.reports.table import Table
from visir.reports.tables import measures_table, result_table
from visir.reports.words import TASK_WORDS, display, in_reading_order, in_words, meaning

PICTURE_BUDGET = 1_400_000
"""Bytes of text that all pictures of one report may take together; the whole stays under two megabytes."""

KINDS: tuple[tuple[Kind, str, str], ...] = (
    ("worst", "Worst", "The first right answer stands furthest down."),
    ("near", "Lost by a hair", "A wrong answer is first and a right one close behind: the most confusable."),
    ("best", "Best", "A right answer is first, with the largest lead over the best wrong one."),
)
"""The kinds of queries shown: key, heading, and how they were chosen."""


@dataclass(frozen=True)
class Headline:
    """The big numbers of one task: (name, value, sentence) of the named recall; `rsum` and `chance` may be ""."""

    title: str
    values: tuple[tuple[str, str, str], ...]
    rsum: str
    chance: str


@dataclass(frozen=True)
class Gallery:
    """The queries of one task that are shown, by kind, and over what they were searched."""

    title: str
    queries: str
    kinds: tuple[tuple[str, str, str, tuple[Example, ...]], ...]
    size: int
    depth: int


def write_report(
    path: str | Path,
    result: Result,
    *,
    runs: Mapping[str, Run] | None = None,
    collection: Collection | None = None,
    qrels: Mapping[str, Qrels] | None = None,
    training: Sequence[Mapping[str, Any]] | None = None,
    title: str = "",
    command: str = "",
    beside: Mapping[str, str] | None = None,
    examples: int = 6,
    top: int = 5,
) -> Path:
    """Write the report of one evaluation as a single HTML file and return its path.

    The file needs no network, no script and no other file, and follows the reader's light or dark theme. The same input
    gives the same bytes.

    - `runs`: what the search answered; together with `collection` it shows the best and worst queries. Without either,
      the numbers, the protocol and what can be drawn from per-query ranks remain.
    - `collection`: the split that was searched (or more). A picture that is not at hand is replaced by its first
      caption.
    - `qrels`: what the runs were judged by; by default the collection's, under the relevance of the protocol. Give
      those of the evaluation when only some captions took part (`captions="first"`).
    - `training`: one mapping of numbers per epoch, drawn as curves
    - `command`: the command line that makes the report again; `beside`: {file name: what it holds} of the files written
      into the same folder, linked relatively
    - `examples`: queries per kind (worst, lost by a hair, best) and task; `top`: how much of each answer is shown

    Everything that came from outside (captions, ids, names, notes) is escaped, and the page forbids scripts besides.
    Raises `CollectionError` when the runs speak of images or captions that the collection does not have.
    """
    runs = dict(runs or {})
    judged = _judged(result, runs, collection, qrels)
    chosen = {} if collection is None else _choose(result, runs, collection, judged, examples, top)
    shown = {task: [example for part in kinds.values() for example in part] for task, kinds in chosen.items()}
    library = Library(collection, shown, budget=PICTURE_BUDGET)
    chance = expected_by_chance(result, runs, judged)
    measured = list(dict.fromkeys(name for part in result.aggregates.values() for name in part))
    return write_page(
        path,
        "report.html.j2",
        title=title or f"{result.system} on {result.protocol.collection}",
        result=result,
        protocol=result.protocol,
        headlines=[_headline(result, task, chance.get(task)) for task in result.tasks],
        rsum=_rsum(result, "both"),
        headline_table=to_html(_headline_table(result)),
        measures_table=to_html(_without_notes(measures_table(result))),
        measures=[(name, display(name).says) for name in in_reading_order(measured, result.protocol)],
        meaning=meaning(result.protocol),
        figures=figures(result, runs=runs, qrels=judged, training=training),
        galleries=[_gallery(runs[task], kinds) for task, kinds in chosen.items()],
        library=library,
        command=command,
        beside=sorted((beside or {}).items()),
    )


def _judged(
    result: Result,
    runs: Mapping[str, Run],
    collection: Collection | None,
    qrels: Mapping[str, Qrels] | None,
) -> dict[str, Qrels]:
    """What each run was judged by, as far as it can be known."""
    given = dict(qrels or {})
    if collection is None:
        return given
    return {one: given.get(one) or collection.qrels(one, result.protocol.relevance) for one in runs}


def _choose(
    result: Result,
    runs: Mapping[str, Run],
    collection: Collection,
    qrels: Mapping[str, Qrels],
    count: int,
    top: int,
) -> dict[str, dict[Kind, list[Example]]]:
    chosen: dict[str, dict[Kind, list[Example]]] = {}
    for task, run in runs.items():
        sorted_out = Examples(run, qrels[task], result)
        group = by_image(collection) if task == "t2i" else None
        chosen[task] = {kind: sorted_out.choose(kind, count, top, group) for kind, _, _ in KINDS}
    return chosen


def _gallery(run: Run, chosen: Mapping[Kind, Sequence[Example]]) -> Gallery:
    kinds = tuple((kind, name, words, tuple(chosen[kind])) for kind, name, words in KINDS if chosen[kind])
    queries = "caption" if run.task == "t2i" else "image"
    return Gallery(TASK_WORDS[run.task], queries, kinds, run.gallery.size, run.depth)


def _headline(result: Result, task: str, chance: NDArray[np.float64] | None) -> Headline:
    recall, values = result.protocol.recall, result.aggregates.get(task, {})
    shown: list[tuple[str, str, str]] = []
    for name in in_reading_order(list(values), result.protocol):
        base, _, cutoff = name.partition("@")
        if base == recall and cutoff.isdigit() and len(shown) < 3:
            sentence = in_words(result.protocol, task, int(cutoff), values[name])
            shown.append((f"R@{cutoff}", f"{100 * values[name]:.1f}", sentence))
    # A random order is worked out for hit@k; the other recalls have other expectations.
    said = f"A random order would reach {100 * chance[0]:.2g} %." if chance is not None and recall == "hit" else ""
    return Headline(TASK_WORDS.get(task, task), tuple(shown), _rsum(result, task), said)


def _rsum(result: Result, task: str) -> str:
    values = result.aggregates.get(task, {})
    return f"{values['rsum']:.1f}" if "rsum" in values else ""


def _headline_table(result: Result) -> Table:
    """The named recall and rsum only; a result without them shows what it has."""
    names = list(dict.fromkeys(name for values in result.aggregates.values() for name in values))
    named = [name for name in names if name.partition("@")[0] == result.protocol.recall or name == "rsum"]
    return _without_notes(result_table(result, in_reading_order(named or names, result.protocol)))


def _without_notes(table: Table) -> Table:
    """The table with its first note (the units) alone: the page shows the result's own notes in a box."""
    return replace(table, notes=table.notes[:1])
