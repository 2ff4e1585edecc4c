"""The brittleness study as tables: one system's effects, and the forms of the paper's Tables 2 to 5 for several."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.stress.effect import Effect, RsumChange
from visir.evaluation.stress.jaccard import GROUPS, Jaccard
from visir.evaluation.stress.stress import DCG, Stress
from visir.records import Result
from visir.reports.plots import FAINT, INK, SERIES, drawing
from visir.reports.table import Cell, Column, Table

if TYPE_CHECKING:
    from visir.reports.plot import Plot


# The plots of the brittleness study; each returns a complete SVG document, the same bytes for the same input.


def degradation_bars(effects: Sequence[Effect], queries: str) -> Plot:
    """A bar for each perturbation: percent of rsum lost or gained, with its 95 % interval."""
    # A diamond is the change over the queries that the perturbation could change. Families stand apart.
    places, position, families = [], 0.0, ""
    for effect in effects:
        if effect.outcome.family != families:
            position += 0.45 if families else 0.0
            families = effect.outcome.family
        places.append(position)
        position += 1.0
    with drawing(7.6, 0.9 + 0.3 * position) as (figure, axes):
        for place, effect in zip(places, effects, strict=True):
            change = effect.overall
            if not isnan(change.percent):
                axes.barh(place, change.percent, 0.62, color=SERIES[0], alpha=0.85)
                low, high = change.percent_interval
                axes.plot([low, high], [place, place], color=INK, linewidth=1.3, solid_capstyle="butt")
                for end in (low, high):
                    axes.plot([end, end], [place - 0.15, place + 0.15], color=INK, linewidth=1.3)
            only = effect.on_changed
            if only is not None and effect.coverage < 1 and not isnan(only.percent):
                axes.plot(
                    only.percent, place, "D", color=SERIES[1], markersize=5, fillstyle="none", markeredgewidth=1.4
                )
            axes.annotate(
                f"{100 * effect.coverage:.0f} %",
                (1.01, place),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8.5,
                color=FAINT,
            )
        axes.annotate(
            "changed", (1.01, -0.75), xycoords=("axes fraction", "data"), va="center", fontsize=8.5, color=FAINT
        )
        axes.set_yticks(places, [effect.outcome.title for effect in effects])
        axes.set_ylim(position - 0.3, -1.0)
        axes.axvline(0, color=FAINT, linewidth=1)
        ends = [end for effect in effects for end in _ends(effect)]
        room = max((max(ends) - min(ends)) * 0.04, 0.5) if ends else 1
        axes.set_xlim(min([0.0, *ends]) - room, max([0.0, *ends]) + room)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"change of rsum, % of what {queries} as they are find")
        bar = axes.barh(0, 0, color=SERIES[0], alpha=0.85, label=f"all {queries}, with 95 % interval")
        labels = [bar]
        if any(effect.on_changed is not None and effect.coverage < 1 for effect in effects):
            labels += axes.plot(
                [], [], "D", color=SERIES[1], fillstyle="none", markeredgewidth=1.4, label=f"changed {queries} only"
            )
        figure.legend(handles=labels, loc="outside upper left", ncols=2, fontsize=8.5)
        return figure


def similarity_map(jaccard: Jaccard, titles: Sequence[str], group: str = "decreased") -> Plot:
    """The similarity of every two perturbations' sets of one group, in percent: the deeper the blue, the more alike."""
    count = len(jaccard.names)
    values = jaccard.pairwise[group]
    least, most = jaccard.range(group)
    side = max(3.2, 0.36 * count + 2.0)
    with drawing(side + 0.6, side - 0.4) as (figure, axes):
        from matplotlib.patches import Rectangle

        for row in range(1, count):
            for column in range(row):
                value = values[row, column]
                if isnan(value):
                    continue
                depth = 0.08 + 0.55 * (value - least) / (most - least if most > least else 1)
                axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, color=SERIES[0], alpha=depth, lw=0))
                axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=7.5, color=INK)
        axes.set_xlim(-0.5, count - 1.5)
        axes.set_ylim(count - 0.5, 0.5)
        axes.set_yticks(range(1, count), titles[1:], fontsize=8.5)
        axes.set_xticks(range(count - 1), titles[:-1], rotation=90, fontsize=8.5)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        return figure


def _ends(effect: Effect) -> list[float]:
    changes: list[RsumChange] = [effect.overall, *([effect.on_changed] if effect.on_changed is not None else [])]
    values = [changes[0].percent, *changes[0].percent_interval, *(change.percent for change in changes[1:])]
    return [value for value in values if not isnan(value)]


_SIDES = {"t2i": "captions", "i2t": "pictures"}


def effects_table(study: Stress, *, wide: bool = False) -> Table:
    """One row for each perturbation, in the order of the study, under a row of the unperturbed search."""
    # `wide` adds R@k, dcg_cm where it was measured, and the change over changed queries only: for a page or a file, not
    # for a terminal of 80 columns.
    with_dcg = wide and any(DCG in effect.outcome.result.measures for effect in study.effects)
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
        effects = [effect for effect in study.effects if effect.outcome.task == task]
        if effects:
            as_is: list[Cell] = [f"{_SIDES[task]} as they are", None]
            as_is += _measured(study.plain, task, wide, with_dcg)
            rows.append([*as_is, *[None] * (len(columns) - len(as_is))])
        rows += [_row(effect, wide, with_dcg) for effect in effects]
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
    """Table 5: how alike the sets of captions are that perturbations make worse, make better, and leave."""
    # Under each model what sets of the same sizes would share at random.
    rows: list[list[Cell]] = []
    several = len({study.collection for study in studies}) > 1
    for study in studies:
        jaccard = study.jaccard
        if jaccard is not None:
            name = f"{study.collection}, {study.system}" if several else study.system
            rows.append([name, *(_number(jaccard.mean(group)) for group in GROUPS)])
            rows.append(["  at random", *(_number(jaccard.by_chance(group)) for group in GROUPS)])
    return Table.of(
        [Column("model"), *(Column(group, 4) for group in GROUPS)],
        rows,
        caption="Jaccard similarity between perturbations of captions",
        notes=["Mean over all pairs of perturbations; at random: of sets of the same sizes."],
    )


def decrease_table(studies: Sequence[Stress]) -> Table:
    """Table 4: percent of rsum lost under each perturbation, the mean over the models of each collection."""
    collections = list(dict.fromkeys(study.collection for study in studies))
    titles = {effect.name: effect.outcome.title for study in studies for effect in study.effects}
    rows: list[list[Cell]] = []
    for name, title in titles.items():
        cells: list[Cell] = []
        for collection in collections:
            lost = [
                -effect.overall.percent
                for study in studies
                if study.collection == collection
                for effect in study.effects
                if effect.name == name
            ]
            cells.append(float(np.mean(lost)) if lost else None)
        rows.append([title, *cells])
    counts = {collection: sum(study.collection == collection for study in studies) for collection in collections}
    models = ", ".join(f"{collection}: {count}" for collection, count in counts.items())
    return Table.of(
        [Column("perturbation"), *(Column(collection, 2) for collection in collections)],
        rows,
        caption="Decrease of rsum, in percent of the unperturbed",
        notes=[f"Mean over models ({models}). A negative value is an increase."],
    )


def plain_table(studies: Sequence[Stress]) -> Table:
    """Table 3: every model on every collection, unperturbed, in the tasks that were stressed."""
    tasks = list(dict.fromkeys(task for study in studies for task in study.plain.tasks))
    with_dcg = any(DCG in study.plain.measures for study in studies)
    columns = [Column("collection"), Column("model")]
    for task in tasks:
        columns += [
            Column(f"{task} {name}", 2) for name in ("R@1", "R@5", "R@10", "rsum", *([DCG] if with_dcg else []))
        ]
    rows: list[list[Cell]] = []
    for study in studies:
        cells: list[Cell] = []
        for task in tasks:
            is_measured = task in study.plain.tasks
            cells += _measured(study.plain, task, True, with_dcg) if is_measured else [None] * (4 + with_dcg)
        rows.append([study.collection, study.system, *cells])
    return Table.of(columns, rows, caption="Unperturbed", notes=["R@k in percent, rsum of one task in points."])


def refined_table(studies: Sequence[Stress]) -> Table:
    """Table 2: R@1 of every model, collections side by side."""
    collections = list(dict.fromkeys(study.collection for study in studies))
    results = {(study.system, study.collection): study.plain for study in studies}
    tasks = list(dict.fromkeys(task for study in studies for task in study.plain.tasks))
    rows: list[list[Cell]] = []
    for system in dict.fromkeys(study.system for study in studies):
        cells: list[Cell] = []
        for collection in collections:
            result = results.get((system, collection))
            for task in tasks:
                is_measured = result is not None and task in result.tasks
                recall = f"{result.protocol.recall}@1" if result else ""
                cells.append(100 * result.aggregates[task][recall] if is_measured and result else None)
        rows.append([system, *cells])
    columns = [Column(f"{collection} {task}", 2) for collection in collections for task in tasks]
    return Table.of([Column("model"), *columns], rows, caption="R@1, collection beside collection")


def _row(effect: Effect, wide: bool, with_dcg: bool) -> list[Cell]:
    overall, only = effect.overall, effect.on_changed
    return [
        effect.outcome.title,
        100 * effect.coverage,
        *_measured(effect.outcome.result, effect.outcome.task, wide, with_dcg),
        _number(overall.percent),
        _interval(overall),
        *([None if only is None else _number(only.percent)] if wide else []),
        *([None if only is None else _interval(only)] if wide else []),
        effect.p_corrected,
    ]


def _measured(result: Result, task: str, wide: bool, with_dcg: bool) -> list[Cell]:
    values, recall = result.aggregates[task], result.protocol.recall
    return [
        *([100 * values[f"{recall}@{k}"] for k in RSUM_CUTOFFS] if wide else []),
        values["rsum"],
        *([values.get(DCG)] if with_dcg else []),
    ]


def _interval(change: RsumChange) -> str | None:
    shown, ends = Column("", 1, signed=True), change.percent_interval
    if change.is_too_few:
        return "too few"
    return None if isnan(ends[0]) else f"{shown.text(ends[0])} … {shown.text(ends[1])}"


def _number(value: float) -> float | None:
    return None if isnan(value) else value


def per_query(study: Stress) -> pa.Table:
    """One row per query and perturbation: perturbation, task, query_id, changed, text (as sent; null for pictures and
    where nothing changed), rsum before and after in points."""
    parts = []
    for effect in study.effects:
        queries = effect.queries
        sent = effect.outcome.texts
        parts.append(
            pa.table(
                {
                    "perturbation": pa.array([effect.name] * len(queries), pa.string()),
                    "task": pa.array([effect.outcome.task] * len(queries), pa.string()),
                    "query_id": queries,
                    "changed": pa.array(effect.outcome.changed),
                    "text": pa.array([sent.get(query) for query in queries.to_pylist()], pa.string()),
                    "rsum_before": effect.before,
                    "rsum_after": effect.after,
                }
            )
        )
    return pa.concat_tables(parts)


def as_dict(study: Stress) -> dict[str, object]:
    """Everything but the per-query values, as plain values for JSON; what is not defined is None."""
    jaccard = study.jaccard
    return {
        "system": study.system,
        "collection": study.collection,
        "protocol": study.protocol.to_dict(),
        "protocol_fingerprint": study.protocol.fingerprint,
        "plain": study.plain.aggregates,
        "effects": [
            {
                "name": effect.name,
                "title": effect.outcome.title,
                "family": effect.outcome.family,
                "task": effect.outcome.task,
                "said": effect.outcome.description,
                "queries": len(effect.before),
                "changed": int(effect.outcome.changed.sum()),
                "measures": effect.outcome.result.aggregates[effect.outcome.task],
                "overall": _as_dict(effect.overall),
                "on_changed": None if effect.on_changed is None else _as_dict(effect.on_changed),
                "p": effect.p,
                "p_corrected": effect.p_corrected,
            }
            for effect in study.effects
        ],
        "jaccard": None
        if jaccard is None
        else {
            "perturbations": list(jaccard.names),
            "mean": {group: _number(jaccard.mean(group)) for group in GROUPS},
            "by_chance": {group: _number(jaccard.by_chance(group)) for group in GROUPS},
            "counts": {group: jaccard.counts[group].tolist() for group in GROUPS},
            "pairwise": {
                group: [[_number(value) for value in row] for row in jaccard.pairwise[group].tolist()]
                for group in GROUPS
            },
        },
        "test": study.how,
        "family": study.family,
        "versions": study.plain.versions,
        "timing": dict(study.timing),
        "notes": list(study.notes),
    }


def _as_dict(change: RsumChange) -> dict[str, object]:
    return {
        "rsum_before": change.before,
        "rsum_after": change.after,
        "points": change.points,
        "points_interval": [_number(end) for end in change.points_interval],
        "percent": _number(change.percent),
        "percent_interval": [_number(end) for end in change.percent_interval],
        "kept_percent": _number(change.percent_left),
        "queries": change.queries,
        "images": change.images,
    }
