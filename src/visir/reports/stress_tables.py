"""The brittleness study as tables: one system's effects, and the forms of the paper's Tables 2 to 5 for several."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import numpy as np
import pyarrow as pa

from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.stress.effect import Change, Effect
from visir.evaluation.stress.jaccard import GROUPS
from visir.evaluation.stress.stress import DCG, Stress
from visir.records import Result
from visir.reports.table import Cell, Column, Table

_SIDES = {"t2i": "captions", "i2t": "pictures"}


def effects_table(study: Stress, *, wide: bool = False) -> Table:
    """One row for each perturbation, in the order of the study, under a row of the unperturbed search.

    `wide` adds R@k, dcg_cm where it was measured, and the change over changed queries only: for a page or a file, not
    for a terminal of 80 columns.
    """
    with_dcg = wide and any(DCG in one.outcome.result.measures for one in study.effects)
    columns = [
        Column("perturbation"),
        Column("changed %" if wide else "cov.", 1 if wide else 0),
        *([Column("R@1", 1), Column("R@5", 1), Column("R@10", 1)] if wide else []),
        Column("rsum", 1),
        *([Column("DCG", 3)] if with_dcg else []),
        Column("change %", 1, signed=True),
        Column("95 %"),
        *([Column("changed only %", 1, signed=True), Column("95 %")] if wide else []),
        Column("p (Holm)" if wide else "p", 4, positive=True),
    ]
    rows: list[list[Cell]] = []
    for task in study.plain.tasks:
        some = [one for one in study.effects if one.outcome.task == task]
        if some:
            as_is: list[Cell] = [f"{_SIDES[task]} as they are", None]
            as_is += _measured(study.plain, task, wide, with_dcg)
            rows.append([*as_is, *[None] * (len(columns) - len(as_is))])
        rows += [_row(one, wide, with_dcg) for one in some]
    recall = study.protocol.recall
    notes = [
        f"Captions are queries over plain images, pictures over plain captions. rsum: {recall}@1 + @5 + @10 of that "
        "task, of 300. Change: in percent of the unperturbed rsum, over all queries"
        + (
            "; changed only: over those the perturbation could change."
            if wide
            else "; cov.: how many percent it could change."
        ),
        f"p: {study.how}; Holm's correction over {study.family} effects.",
        *study.notes,
    ]
    return Table.of(columns, rows, caption=f"{study.system} on {study.collection}", notes=notes)


def jaccard_table(studies: Sequence[Stress]) -> Table:
    """Table 5: how alike the sets of captions are that perturbations make worse, make better, and leave.

    Under each model what sets of the same sizes would share at random.
    """
    rows: list[list[Cell]] = []
    several = len({one.collection for one in studies}) > 1
    for study in studies:
        found = study.jaccard
        if found is not None:
            name = f"{study.collection}, {study.system}" if several else study.system
            rows.append([name, *(_number(found.mean(group)) for group in GROUPS)])
            rows.append(["  at random", *(_number(found.by_chance(group)) for group in GROUPS)])
    return Table.of(
        [Column("model"), *(Column(group, 4) for group in GROUPS)],
        rows,
        caption="Jaccard similarity between perturbations of captions",
        notes=["Mean over all pairs of perturbations; at random: of sets of the same sizes."],
    )


def decrease_table(studies: Sequence[Stress]) -> Table:
    """Table 4: percent of rsum lost under each perturbation, the mean over the models of each collection."""
    collections = list(dict.fromkeys(one.collection for one in studies))
    titles = {one.name: one.outcome.title for study in studies for one in study.effects}
    rows: list[list[Cell]] = []
    for name, title in titles.items():
        cells: list[Cell] = []
        for collection in collections:
            lost = [
                -one.overall.percent
                for study in studies
                if study.collection == collection
                for one in study.effects
                if one.name == name
            ]
            cells.append(float(np.mean(lost)) if lost else None)
        rows.append([title, *cells])
    counts = {one: sum(study.collection == one for study in studies) for one in collections}
    said = ", ".join(f"{one}: {count}" for one, count in counts.items())
    return Table.of(
        [Column("perturbation"), *(Column(one, 2) for one in collections)],
        rows,
        caption="Decrease of rsum, in percent of the unperturbed",
        notes=[f"Mean over models ({said}). A negative value is an increase."],
    )


def plain_table(studies: Sequence[Stress]) -> Table:
    """Table 3: every model on every collection, unperturbed, in the tasks that were stressed."""
    tasks = list(dict.fromkeys(one for study in studies for one in study.plain.tasks))
    with_dcg = any(DCG in study.plain.measures for study in studies)
    columns = [Column("collection"), Column("model")]
    for one in tasks:
        columns += [Column(f"{one} {name}", 2) for name in ("R@1", "R@5", "R@10", "rsum", *([DCG] if with_dcg else []))]
    rows: list[list[Cell]] = []
    for study in studies:
        cells: list[Cell] = []
        for one in tasks:
            known = one in study.plain.tasks
            cells += _measured(study.plain, one, True, with_dcg) if known else [None] * (4 + with_dcg)
        rows.append([study.collection, study.system, *cells])
    return Table.of(columns, rows, caption="Unperturbed", notes=["R@k in percent, rsum of one task in points."])


def refined_table(studies: Sequence[Stress]) -> Table:
    """Table 2: R@1 of every model, collections side by side."""
    collections = list(dict.fromkeys(one.collection for one in studies))
    found = {(one.system, one.collection): one.plain for one in studies}
    tasks = list(dict.fromkeys(one for study in studies for one in study.plain.tasks))
    rows: list[list[Cell]] = []
    for system in dict.fromkeys(one.system for one in studies):
        cells: list[Cell] = []
        for collection in collections:
            result = found.get((system, collection))
            for one in tasks:
                known = result is not None and one in result.tasks
                recall = f"{result.protocol.recall}@1" if result else ""
                cells.append(100 * result.aggregates[one][recall] if known and result else None)
        rows.append([system, *cells])
    columns = [Column(f"{one} {task}", 2) for one in collections for task in tasks]
    return Table.of([Column("model"), *columns], rows, caption="R@1, collection beside collection")


def _row(one: Effect, wide: bool, with_dcg: bool) -> list[Cell]:
    overall, only = one.overall, one.on_changed
    return [
        one.outcome.title,
        100 * one.coverage,
        *_measured(one.outcome.result, one.outcome.task, wide, with_dcg),
        _number(overall.percent),
        _interval(overall.percent_interval),
        *([None if only is None else _number(only.percent)] if wide else []),
        *([None if only is None else _interval(only.percent_interval)] if wide else []),
        one.p_corrected,
    ]


def _measured(result: Result, task: str, wide: bool, with_dcg: bool) -> list[Cell]:
    values, recall = result.aggregates[task], result.protocol.recall
    return [
        *([100 * values[f"{recall}@{k}"] for k in RSUM_CUTOFFS] if wide else []),
        values["rsum"],
        *([values.get(DCG)] if with_dcg else []),
    ]


def _interval(ends: tuple[float, float]) -> str | None:
    shown = Column("", 1, signed=True)
    return None if isnan(ends[0]) else f"{shown.text(ends[0])} … {shown.text(ends[1])}"


def _number(value: float) -> float | None:
    return None if isnan(value) else value


def per_query(study: Stress) -> pa.Table:
    """One row per query and perturbation: perturbation, task, query_id, changed, text (as sent; null for pictures
    and where nothing changed), rsum before and after in points.
    """
    parts = []
    for one in study.effects:
        queries = one.queries
        sent = one.outcome.texts
        parts.append(
            pa.table(
                {
                    "perturbation": pa.array([one.name] * len(queries), pa.string()),
                    "task": pa.array([one.outcome.task] * len(queries), pa.string()),
                    "query_id": queries,
                    "changed": pa.array(one.outcome.changed),
                    "text": pa.array([sent.get(query) for query in queries.to_pylist()], pa.string()),
                    "rsum_before": one.before,
                    "rsum_after": one.after,
                }
            )
        )
    return pa.concat_tables(parts)


def as_dict(study: Stress) -> dict[str, object]:
    """Everything but the per-query values, as plain values for JSON; what is not defined is None."""
    found = study.jaccard
    return {
        "system": study.system,
        "collection": study.collection,
        "protocol": study.protocol.to_dict(),
        "protocol_fingerprint": study.protocol.fingerprint,
        "plain": study.plain.aggregates,
        "effects": [
            {
                "name": one.name,
                "title": one.outcome.title,
                "family": one.outcome.family,
                "task": one.outcome.task,
                "said": one.outcome.said,
                "queries": len(one.before),
                "changed": int(one.outcome.changed.sum()),
                "measures": one.outcome.result.aggregates[one.outcome.task],
                "overall": _as_dict(one.overall),
                "on_changed": None if one.on_changed is None else _as_dict(one.on_changed),
                "p": one.p,
                "p_corrected": one.p_corrected,
            }
            for one in study.effects
        ],
        "jaccard": None
        if found is None
        else {
            "perturbations": list(found.names),
            "mean": {group: _number(found.mean(group)) for group in GROUPS},
            "by_chance": {group: _number(found.by_chance(group)) for group in GROUPS},
            "counts": {group: found.counts[group].tolist() for group in GROUPS},
            "pairwise": {
                group: [[_number(one) for one in row] for row in found.pairwise[group].tolist()] for group in GROUPS
            },
        },
        "test": study.how,
        "family": study.family,
        "versions": study.plain.versions,
        "timing": dict(study.timing),
        "notes": list(study.notes),
    }


def _as_dict(one: Change) -> dict[str, object]:
    return {
        "rsum_before": one.before,
        "rsum_after": one.after,
        "points": one.points,
        "points_interval": [_number(end) for end in one.points_interval],
        "percent": _number(one.percent),
        "percent_interval": [_number(end) for end in one.percent_interval],
        "kept_percent": _number(one.kept),
        "queries": one.queries,
    }
