"""A stress study: its tables (those of the brittleness paper too), plots, page and folder."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.stress.effect import GROUPS, Effect, Jaccard, RsumChange, StressByLabel
from visir.evaluation.stress.stress import DCG, Stress
from visir.records import Collection, Items, Result
from visir.reports.evaluation import grouping_labels
from visir.reports.examples import Answer, Example, ExampleQueries, first_ranks
from visir.reports.formats import to_csv
from visir.reports.page import (
    Block,
    Card,
    Cards,
    Definitions,
    Figure,
    Fold,
    GalleryEntry,
    Group,
    Inline,
    Notice,
    Page,
    Paragraph,
    QueryGallery,
    Section,
    Strip,
    Thumbnail,
    Tile,
    inline,
    production,
    thumbnails,
    write_page,
)
from visir.reports.plots import FAINT, INK, SERIES, drawing, themed
from visir.reports.shown import ShownItems, first_captions
from visir.reports.table import Cell, Column, Table, between
from visir.reports.tables import card_table
from visir.reports.views.parts import facts
from visir.reports.words import meaning
from visir.robustness.corruptions import corrupt, pictures
from visir.robustness.perturbations import find
from visir.storage import FolderChange, FolderKind, new_folder

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


# How a study looks in a notebook.


Side = Literal["captions", "pictures"]
_TASK_OF: dict[Side, str] = {"captions": "t2i", "pictures": "i2t"}


def stress_blocks(study: Stress) -> list[Block]:
    """The table of effects; how alike the perturbations are, folded."""
    effects = effects_table(study)
    units, test, *_ = effects.notes
    shown: list[Block] = [
        facts(study.system, f"on {study.collection}", f"{len(study.effects)} perturbations"),
        replace(effects, caption="", notes=(units, test)),
    ]
    if study.notes:
        shown.append(Notice(study.notes))
    if study.jaccard is not None:
        shown.append(Fold("Do they break the same captions?", [jaccard_table([study])]))
    return [*shown, Paragraph("study.plot() draws the changes.", "soft")]


def stress_table(study: Stress) -> Table:
    """One row for each perturbation."""
    return effects_table(study, wide=True)


def stress_plot(study: Stress, *, side: Side | None = None) -> Plot:
    """A bar for each perturbation: how many percent of rsum it costs, with the 95 % interval."""
    by_side = {
        name: [effect for effect in study.effects if effect.outcome.task == task] for name, task in _TASK_OF.items()
    }
    perturbed = [name for name, effects in by_side.items() if effects]
    if not perturbed or (side is not None and side not in perturbed):
        raise VisirError(
            f"no perturbation of {side or 'anything'} in this study.", hint=f"perturbed: {', '.join(perturbed)}"
        )
    chosen = side or perturbed[0]
    return degradation_bars(by_side[chosen], chosen)


# What perturbations cost by label.


def stress_by_label_table(shown: StressByLabel) -> Table:
    """One row for each perturbation and value: queries, rsum before and after, the change with its 95 % interval."""
    percent = Column("change %", 1, signed=True)
    columns = [Column("perturbation"), Column(shown.label), Column("queries", 0), Column("cov.", 0),
               Column("rsum before", 1), Column("after", 1), percent, Column("95 %")]  # fmt: skip
    rows: list[list[Cell]] = []
    for row in shown.rows:
        change = row.change
        low, high = change.percent_interval
        cells: list[Cell] = [row.title, row.value, change.queries, 100 * row.coverage, change.before, change.after]
        cells.append(None if isnan(change.percent) else change.percent)
        cells.append(between(low, high, percent))
        rows.append(cells)
    notes = [
        "Change: in percent of the unperturbed rsum of the same queries; cov.: how many percent it could change.",
        "Intervals are for each row alone; values are not tested against each other.",
    ]
    return Table.of(columns, rows, caption=f"{shown.system} on {shown.collection}, by {shown.label}", notes=notes)


def stress_by_label_arrow(shown: StressByLabel) -> pa.Table:
    """One row for each perturbation and value."""
    rows = [
        {
            "task": row.task,
            "perturbation": row.perturbation,
            shown.label: row.value,
            "queries": row.change.queries,
            "coverage": row.coverage,
            "rsum_before": row.change.before,
            "rsum_after": row.change.after,
            "percent": row.change.percent,
            "percent_low": row.change.percent_interval[0],
            "percent_high": row.change.percent_interval[1],
        }
        for row in shown.rows
    ]
    return pa.Table.from_pylist(rows)


# The page of the brittleness study: what breaks a system, how badly, and on which captions, as pictures.

PICTURE_BUDGET = 1_500_000
"""Bytes of text that all pictures of one page may take together; the whole stays under two megabytes."""
TOP = 4
"""How much of each answer is shown."""
_SIDES: Mapping[str, str] = {"t2i": "captions", "i2t": "pictures"}


@dataclass(frozen=True)
class WorstHit:
    """A query that a perturbation hit hard, with both rankings."""

    effect: Effect  # the effect of the perturbation on all queries
    # Pieces of the caption as it was sent, and whether each is new; none for a picture.
    text: tuple[tuple[str, bool], ...]
    spoilt: Thumbnail | None  # the corrupted picture, of image queries
    before: Example  # the query in the run without the perturbation
    after: Example  # the query in the run with it


def write_stress_report(
    path: str | Path,
    study: Stress,
    collection: Collection | None = None,
    *,
    granularity: str = "",
    fail_under: float | None = None,
    command: str = "",
    beside: Mapping[str, str] | None = None,
) -> Path:
    """Write the page of a brittleness study and return its path."""
    protocol = study.protocol
    sections = [Section("numbers", "What breaks it, and how badly", _numbers_section(study, granularity, fail_under),
                        short="What breaks it")]  # fmt: skip
    if collection is not None:
        sections.append(Section("worst", "Worst hit", _worst(study, collection)))
    for number, label in enumerate(grouping_labels(study.plain)):
        blocks: list[Block] = [replace(stress_by_label_table(study.by(label)), caption="")]
        sections.append(Section(f"by-{number}", f"By {label}", blocks))
    if study.jaccard is not None:
        sections.append(
            Section("same", "Do perturbations break the same captions?", _overlap(study), short="The same captions?")
        )
    sections += [
        Section("meaning", "What the numbers mean", _meaning(study)),
        Section("made", "How it was made", production(command, beside)),
    ]
    facts = [
        inline("system <b>{}</b>", study.system),
        inline("collection <b>{}</b>", protocol.collection),
        *([inline("split <b>{}</b>", protocol.split)] if protocol.split else []),
        inline("protocol <code>{}</code>", protocol.fingerprint[:12]),
    ]
    return write_page(path, Page("brittleness report", f"{study.system} on {study.collection}", sections, facts))


def _numbers_section(study: Stress, granularity: str, fail_under: float | None) -> list[Block]:
    """Headlines, the gate, plots and the table of all perturbations."""
    blocks: list[Block] = [Cards(_cards(study))]
    if fail_under is not None:
        failed = ", ".join(
            f"{effect.outcome.title} ({effect.overall.percent_left:.1f} %)" for effect in study.under(fail_under)
        )
        text = (
            inline("<b>Fails:</b> less than {} % of rsum is left after {}.", f"{fail_under:g}", failed)
            if failed
            else inline("<b>Passes:</b> at least {} % of rsum is left after every perturbation.", f"{fail_under:g}")
        )
        blocks.append(Paragraph(text, "total"))
    if study.notes:
        blocks.append(Notice(study.notes))
    blocks += [*_figures(study), effects_table(study, wide=True)]
    return [*blocks, Paragraph(granularity, "note")] if granularity else blocks


def _worst(study: Stress, collection: Collection) -> list[Block]:
    """The worst-hit queries, pictured, by what was perturbed."""
    hits = worst_hits(study, collection)
    tasks = {task: collection.task(task) for task in _SIDES if task in study.plain.tasks}
    lists: list[tuple[Items, list[str]]] = []
    for hit in hits:
        task = tasks[hit.effect.outcome.task]
        for example in (hit.before, hit.after):
            lists.append((task.queries, [example.query]))
            lists.append((task.documents, [answer.id for answer in (*example.positives, *example.top)]))
    # The thumbnails are made in the order of the page, and share one budget.
    pictures = [name for items, ids in lists if items.modality == "image" for name in ids]
    shown = ShownItems(lists, budget=PICTURE_BUDGET, alternatives=first_captions(collection, pictures))
    lead = (
        "For each perturbation the query that lost most by it: what it found as it was, and what it found perturbed. "
        "The right answer has a tick and a solid green frame; what is new in a caption is underlined."
    )
    blocks: list[Block] = [Paragraph(f"{lead} {shown.missing}".strip(), "lead")]
    for name, task in tasks.items():
        entries = [
            _entry(hit, task.queries, task.documents, shown, study.protocol.depth)
            for hit in hits
            if hit.effect.outcome.task == name
        ]
        if entries:
            blocks.append(Group(f"Perturbed {_SIDES[name]}", [QueryGallery(entries)]))
    return blocks


def _entry(hit: WorstHit, queries: Items, documents: Items, shown: ShownItems, depth: int | None) -> GalleryEntry:
    """A query before and after, with both rankings."""
    outcome, query = hit.effect.outcome, hit.before.query
    label = inline('<b>{}</b> · {} <span class="id">{}</span>', outcome.title, outcome.family, query)

    def answers(example: Example) -> list[Tile]:
        return [
            shown.tile(documents, answer.id, _place(answer), right=answer.positive or None) for answer in example.top
        ]

    if queries.modality != "text":
        pictures = [replace(shown.tile(queries, query), text="", note="as it is")]
        if hit.spoilt is not None and hit.spoilt.uri:
            pictures.append(Tile(picture=hit.spoilt, alt=f"the same picture, {outcome.title}", note="spoilt"))
        strips = [
            Strip(answers(hit.before), inline("As it is: {}", _rank(hit.before, depth))),
            Strip(answers(hit.after), inline("Spoilt: {}", _rank(hit.after, depth))),
        ]
        return GalleryEntry("", "", strips, pictures, label)
    text = shown.text(queries, query)
    sent = Markup("").join(
        inline("<mark>{}</mark>{}", piece.rstrip(), piece[len(piece.rstrip()) :]) if new else piece
        for piece, new in hit.text
    )
    positive = hit.before.positives[0].id
    strips = [
        Strip([shown.tile(documents, positive, right=True, alt=text)], "Right image", is_ranked=False),
        Strip(answers(hit.before), inline("As it was: {}", _rank(hit.before, depth))),
        Strip(answers(hit.after), inline("Perturbed: {}", _rank(hit.after, depth))),
    ]
    return GalleryEntry(inline("“{}”", sent), "", strips, label=label, remark=f"was: {text}")


def _rank(example: Example, depth: int | None) -> Inline:
    """Where the right answer is."""
    if example.rank:
        return inline("right answer at rank <b>{}</b>", f"{example.rank:,}")
    return inline("right answer <b>beyond rank {}</b>", depth)


def _place(answer: Answer) -> str:
    """The rank and the score of an answer."""
    return f"{answer.rank} · {answer.score:.3f}"


def _overlap(study: Stress) -> list[Block]:
    """Whether perturbations break the same captions: a table and a map."""
    lead = (
        "Every perturbation splits the captions into those whose rsum it decreased, increased, and left unchanged. The "
        "similarity of these sets between two perturbations (Jaccard: shared over all) says whether some captions are "
        "brittle whatever is done to them."
    )
    figure = _similarity(study)
    table = replace(jaccard_table([study]), caption="")
    return [Paragraph(lead, "lead"), table, *([figure] if figure else [])]


def _meaning(study: Stress) -> list[Block]:
    """The protocol in words, the test, what was done, and the protocol card."""
    changes = "; ".join(f"{effect.outcome.title}: {effect.outcome.description}" for effect in study.effects)
    entries: list[tuple[Inline, Inline]] = [
        *meaning(study.protocol),
        ("Test", f"{study.how}; Holm's correction over {study.family} effects."),
        ("What was done", f"{changes}."),
    ]
    card = replace(card_table(study.protocol), caption="")
    return [Definitions(entries), Fold("Protocol card", [card])]


def granularity_line(collection: Collection) -> str:
    """How fine-grained the captions are that were perturbed: the means of every feature, strictly counted."""
    # A system breaks more easily on captions that say little: there is less to fall back on. Cheap where the captions
    # were cut into words already, as most perturbations need.
    from visir.evaluation.granularity import means
    from visir.robustness.granularity import FEATURES, granularity

    features = means(granularity(collection, "strict"))
    values = ", ".join(f"{FEATURES.get(mean.feature).title.lower()} {mean.mean:.2f}" for mean in features)
    return f"Granularity of these captions (means, strict profile of visir granularity): {values}."


def worst_hits(study: Stress, collection: Collection, *, top: int = TOP) -> list[WorstHit]:
    """For each perturbation the query that lost most by it, each image at most once on the page."""
    hits: list[WorstHit] = []
    used: set[str] = set()
    for task in _SIDES:
        effects = [effect for effect in study.effects if effect.outcome.task == task]
        if not effects:
            continue
        qrels = study.qrels[task]
        plain = ExampleQueries(study.runs[task], qrels, study.plain)
        before = _ranks(study, task)
        ids = effects[0].queries.to_pylist()
        images = [study.images.get(query, query) for query in ids]
        for effect in effects:
            after = first_ranks(effect.outcome.result, task)
            assert after is not None, "ranks are measured"
            worst = effect.worst(1 + len(used), (before, after[1]), images)
            fresh = [row for row in worst if images[row] not in used][:1]
            if not fresh:
                continue
            used.add(images[fresh[0]])
            query = ids[fresh[0]]
            broken = ExampleQueries(effect.outcome.run, qrels, effect.outcome.result)
            pair = [run.example(run.run.queries.index(query).as_py(), top) for run in (plain, broken)]
            sent = effect.outcome.texts.get(query)
            text = () if sent is None else marked(study.texts[query], sent)
            hits.append(WorstHit(effect, text, _spoilt(effect, collection, query), pair[0], pair[1]))
    return hits


def marked(before: str, after: str) -> tuple[tuple[str, bool], ...]:
    """The new text in pieces, each with whether it is new; white space belongs to what it stands behind."""
    old, new = (re.findall(r"\S+\s*|\s+", text) for text in (before, after))
    matched = difflib.SequenceMatcher(
        a=[word.strip() for word in old], b=[word.strip() for word in new], autojunk=False
    )
    pieces = []
    for kind, _, _, start, stop in matched.get_opcodes():
        text = "".join(new[start:stop])
        if text:
            pieces.append((text, kind != "equal"))
    return tuple(pieces)


def _spoilt(effect: Effect, collection: Collection, query: str) -> Thumbnail | None:
    """The picture of a query as the perturbation left it."""
    corrupted = effect.outcome.corrupted
    if corrupted is None:
        return None
    view = corrupt(collection, corrupted.name, corrupted.severity, corrupted.seed)
    row = collection.images["id"].to_pylist().index(query)
    look = pictures(view, on_screen=True)
    return thumbnails([query], lambda _: look(row), budget=PICTURE_BUDGET // 40)[query]


def _ranks(study: Stress, task: str) -> NDArray[np.float64]:
    ranks = first_ranks(study.plain, task)
    assert ranks is not None, "ranks are measured"
    return ranks[1]


def _cards(study: Stress) -> list[Card]:
    """The big numbers of each side, and a sentence."""
    cards = []
    for task, side in _SIDES.items():
        effects = [effect for effect in study.effects if effect.outcome.task == task]
        defined = [effect for effect in effects if not isnan(effect.overall.percent)]
        if not defined:
            continue
        worst = min(defined, key=lambda effect: effect.overall.percent)
        mean = float(np.mean([effect.overall.percent for effect in defined]))
        significant = sum(effect.p_corrected < 0.05 and effect.overall.points < 0 for effect in defined)
        values = (
            ("rsum as they are", f"{study.plain.aggregates[task]['rsum']:.1f}"),
            ("mean change", f"{mean:+.1f} %"),
            ("largest loss", f"{worst.overall.percent:+.1f} %"),
        )
        sentence = (
            f"{worst.outcome.title} costs most ({worst.overall.interval_in_words}). {significant} of {len(defined)} "
            "perturbations lower rsum significantly (p < 0.05 after Holm's correction)."
        )
        cards.append(Card(f"Perturbed {side}", values, [Paragraph(sentence)]))
    return cards


def _figures(study: Stress) -> list[Figure]:
    """The change of rsum by every perturbation, a plot for each side."""
    figures = []
    for task, side in _SIDES.items():
        effects = [effect for effect in study.effects if effect.outcome.task == task]
        if effects:
            values = "; ".join(f"{effect.outcome.title} {effect.overall.percent:+.1f} %" for effect in effects)
            diamonds = (
                " Diamonds: over the changed ones only." if any(effect.coverage < 1 for effect in effects) else ""
            )
            caption = (
                "Bars to the left: retrieval lost. The thin line is the 95 % interval over images, with all their "
                f"captions.{diamonds} At the right, how many of the {side} the perturbation could change."
            )
            svg = themed(degradation_bars(effects, side), f"bars-{task}", f"Change of rsum: {values}")
            figures.append(Figure(svg, f"Perturbed {side}", caption))
    return figures


def _similarity(study: Stress) -> Figure | None:
    """How alike the sets of captions are that perturbations make worse; None for fewer than three perturbations."""
    jaccard = study.jaccard
    if jaccard is None or isnan(jaccard.mean("decreased")) or len(jaccard.names) < 3:
        return None
    titles = [study.effect(name).outcome.title for name in jaccard.names]
    return Figure(
        themed(similarity_map(jaccard, titles), "similar", "Similarity of the captions that perturbations make worse"),
        "Which perturbations hit the same captions",
        "Jaccard similarity, in percent, of the sets of captions that each two perturbations make worse; by chance it "
        f"would be {100 * jaccard.by_chance('decreased'):.0f} on average.",
    )


STRESS = FolderKind("stress", "a stress report")


def save_stress(study: Stress, folder: Path) -> None:
    """Write a stress study into a folder; `study.save` calls this."""
    with new_folder(folder, STRESS, replace=True) as change:
        write_stress(change, study)


def write_stress(
    change: FolderChange,
    study: Stress,
    part: Collection | None = None,
    *,
    folder: str = "",
    fail_under: float | None = None,
    command: str = "",
) -> None:
    """Write the files of a stress study: stress.json, stress.csv, per_query.parquet, stress.html."""
    part = study.source if part is None else part
    if part is None:
        raise VisirError(f"{study.system}: the pictures and captions of this study are not at hand, so it has no page.")
    change.write_json(f"{folder}stress.json", as_dict(study))
    change.write(f"{folder}stress.csv", to_csv(effects_table(study, wide=True)).encode())
    pq.write_table(per_query(study), change.file(f"{folder}per_query.parquet"), compression="zstd")
    write_stress_report(
        change.file(f"{folder}stress.html"),
        study,
        part,
        granularity=granularity_line(part) if _cut_into_words(study) else "",
        fail_under=fail_under,
        command=command,
        beside={
            "stress.json": "every number of this page, and the protocol",
            "stress.csv": "the table",
            "per_query.parquet": "every query: what was sent, rsum before and after",
        },
    )


def _cut_into_words(study: Stress) -> bool:
    """Whether some perturbation needed words and their parts of speech: then they are at hand."""
    steps = [step for effect in study.effects if effect.outcome.task == "t2i" for step in effect.name.split("+")]
    return any(find(step).needs_words for step in steps)
