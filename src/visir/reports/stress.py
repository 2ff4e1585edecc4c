"""A stress study: its tables (those of the brittleness paper too), plots, page and folder."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from markupsafe import Markup

import visir.reports.page as page
from visir.errors import VisirError
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.stress.effect import GROUPS, Effect, Jaccard, RsumChange, StressByLabel
from visir.evaluation.stress.stress import DCG, Stress
from visir.records import Collection, Items
from visir.reports.evaluation import grouping_labels
from visir.reports.examples import Answer, Example, ExampleQueries, first_ranks, shown_examples
from visir.reports.page import Block, GalleryEntry, Inline, Paragraph, Section, Strip, Thumbnail, Tile, inline
from visir.reports.plots import DASHES, SERIES, PlotMark, Square, dots, grid
from visir.reports.report import Chart, StudyReport
from visir.reports.shown import ShownItems
from visir.reports.table import Cell, Column, Table, at, between
from visir.reports.views.parts import protocol_card, protocol_facts
from visir.reports.words import meaning
from visir.robustness.corruptions import corrupt, pictures
from visir.robustness.perturbations import find
from visir.storage import FolderKind

if TYPE_CHECKING:
    from visir.reports.plot import Plot

# The plots of the brittleness study; each returns a complete SVG document, the same bytes for the same input.


def degradation_bars(effects: Sequence[Effect], queries: str) -> Plot:
    """A bar for each perturbation: percent of rsum lost or gained, with its 95 % interval."""
    # A diamond is the change over the queries that the perturbation could change. Families stand apart.
    everything, some = f"all {queries}, with 95 % interval", f"changed {queries} only"
    marks = []
    for effect in effects:
        title, family, only = effect.outcome.title, effect.outcome.family, effect.on_changed
        marks.append(PlotMark(title, [effect.overall.percent, *effect.overall.percent_interval], everything, family))
        if only is not None and effect.coverage < 1:
            marks.append(PlotMark(title, [only.percent], some, family))
    ends = [0.0, *(end for mark in marks for end in mark.values if not isnan(end))]
    room = max((max(ends) - min(ends)) * 0.04, 0.5)
    return dots(
        marks,
        f"change of rsum, % of what {queries} as they are find",
        size=(7.6, 0.3),
        apart=0,
        styles={
            everything: {"bar": 0.62, "color": SERIES[0]},
            some: {"color": SERIES[1], "marker": "D", "markersize": 5, "fillstyle": "none"},
        },
        beside={"": "changed"} | {effect.outcome.title: f"{100 * effect.coverage:.0f} %" for effect in effects},
        lines={0: DASHES[0]},
        limits=(min(ends) - room, max(ends) + room),
        legend=2,
    )


def similarity_map(jaccard: Jaccard, titles: Sequence[str], group: str = "decreased") -> Plot:
    """The similarity of every two perturbations' sets of one group, in percent: the deeper the blue, the more alike."""
    count, values = len(jaccard.names), jaccard.pairwise[group]
    least, most = jaccard.range(group)
    squares = [
        Square(
            *(column, row - 1),
            0.08 + 0.55 * (values[row, column] - least) / (most - least if most > least else 1),
            f"{100 * values[row, column]:.0f}",
        )
        for row in range(1, count)
        for column in range(row)
        if not isnan(values[row, column])
    ]
    side = max(3.2, 0.36 * count + 2.0)
    return grid(squares, titles[:-1], titles[1:], size=(side + 0.6, side - 0.4), upright=True)


def effects_table(study: Stress, *, wide: bool = False) -> Table:
    """One row for each perturbation, in the order of the study, under a row of the unperturbed search."""
    # `wide` adds R@k, dcg_cm where it was measured, and the change over changed queries only: for a page or a file, not
    # for a terminal of 80 columns.
    with_dcg = any(DCG in effect.outcome.result.measures for effect in study.effects)
    rows: list[tuple[str, Mapping[str, float], Effect | None]] = []
    for task in study.plain.tasks:
        effects = [effect for effect in study.effects if effect.outcome.task == task]
        if effects:
            rows.append((f"{_SIDES[task]} as they are", study.plain.aggregates[task], None))
        rows += [(effect.outcome.title, effect.outcome.result.aggregates[task], effect) for effect in effects]

    def effect(read: Callable[[Effect], Any]) -> Callable[[Any], Any]:
        return lambda row: None if row[2] is None else read(row[2])

    recall = study.protocol.recall
    columns = [
        Column("perturbation", of=lambda row: row[0]),
        Column("changed %" if wide else "cov.", 1 if wide else 0, of=effect(lambda of: of.coverage), scale=100),
        *(_measured(recall, with_dcg) if wide else [Column("rsum", 1, of=lambda row: row[1]["rsum"])]),
        Column("change %", 1, signed=True, of=effect(lambda of: of.overall.percent)),
        Column("95 %", of=effect(lambda of: _interval(of.overall))),
        Column("changed only %", 1, signed=True, of=effect(lambda of: of.on_changed and of.on_changed.percent)),
        Column("95 %", of=effect(lambda of: of.on_changed and _interval(of.on_changed))),
        Column("p (Holm)" if wide else "p", 4, positive=True, of=effect(lambda of: of.p_corrected)),
    ]
    if not wide:
        del columns[-3:-1]
    notes = [
        f"Captions are queries over plain images, pictures over plain captions. R@k is {recall}@k; rsum: R@1 + R@5 + "
        "R@10 of that task, of 300. Change: in percent of the unperturbed rsum, over all queries"
        + (
            "; changed only: over those the perturbation could change."
            if wide
            else "; cov.: how many percent it could change."
        ),
        f"p: {study.how}; Holm's correction over {study.family} effects.",
        *study.notes,
    ]
    return Table.over(rows, columns, caption=f"{study.system} on {study.collection}", notes=notes)


def _measured(recall: str, with_dcg: bool, prefix: str = "", digits: int = 1) -> list[Column]:
    """Columns of the recalls and rsum, for rows whose second entry is values by measure."""

    def value(name: str) -> Callable[[Any], Any]:
        return lambda row: row[1].get(name)

    columns = [Column(f"{prefix}R@{k}", digits, of=value(f"{recall}@{k}"), scale=100) for k in RSUM_CUTOFFS]
    columns.append(Column(f"{prefix}rsum", digits, of=value("rsum")))
    return [*columns, *([Column(f"{prefix}DCG", 3, of=value(DCG))] if with_dcg else [])]


def jaccard_table(studies: Sequence[Stress]) -> Table:
    """Table 5: how alike the sets of captions are that perturbations make worse, make better, and leave."""
    # Under each model what sets of the same sizes would share at random.
    rows: list[tuple[str, Callable[[str], float]]] = []
    several = len({study.collection for study in studies}) > 1
    for study in studies:
        if (jaccard := study.jaccard) is not None:
            name = f"{study.collection}, {study.system}" if several else study.system
            rows += [(name, jaccard.mean), ("  at random", jaccard.by_chance)]
    return Table.over(
        rows,
        [Column("model", of=at(0)), *(Column(group, 4, of=_called(group)) for group in GROUPS)],
        caption="Jaccard similarity between perturbations of captions",
        notes=["Mean over all pairs of perturbations; at random: of sets of the same sizes."],
    )


def _called(group: str) -> Callable[[Any], Any]:
    return lambda row: row[1](group)


def decrease_table(studies: Sequence[Stress]) -> Table:
    """Table 4: percent of rsum lost under each perturbation, the mean over the models of each collection."""
    counts = Counter(study.collection for study in studies)
    lost: dict[tuple[str, str], list[float]] = {}
    titles: dict[str, str] = {}
    for study in studies:
        for effect in study.effects:
            titles[effect.name] = effect.outcome.title
            lost.setdefault((effect.name, study.collection), []).append(-effect.overall.percent)
    means = {key: float(np.mean(values)) for key, values in lost.items()}
    return Table.of(
        [Column("perturbation"), *(Column(collection, 2) for collection in counts)],
        [[title, *(means.get((name, collection)) for collection in counts)] for name, title in titles.items()],
        caption="Decrease of rsum, in percent of the unperturbed",
        notes=[
            f"Mean over models ({', '.join(f'{collection}: {count}' for collection, count in counts.items())}). "
            "A negative value is an increase."
        ],
    )


def plain_table(studies: Sequence[Stress]) -> Table:
    """Table 3: every model on every collection, unperturbed, in the tasks that were stressed."""
    tasks = list(dict.fromkeys(task for study in studies for task in study.plain.tasks))
    with_dcg = any(DCG in study.plain.measures for study in studies)
    columns = [Column("collection"), Column("model")]
    columns += [
        Column(f"{task} {name}", 2)
        for task in tasks
        for name in ("R@1", "R@5", "R@10", "rsum", *([DCG] if with_dcg else []))
    ]
    rows: list[list[Cell]] = []
    for study in studies:
        measured = _measured(study.protocol.recall, with_dcg)
        of_tasks = [study.plain.aggregates[task] if task in study.plain.tasks else {} for task in tasks]
        cells = [cell for values in of_tasks for column in measured for cell in column.cells(("", values))]
        rows.append([study.collection, study.system, *cells])
    return Table.of(columns, rows, caption="Unperturbed", notes=["R@k in percent, rsum of one task in points."])


def refined_table(studies: Sequence[Stress]) -> Table:
    """Table 2: R@1 of every model, collections side by side."""
    values: dict[tuple[str, str, str], float] = {
        (study.system, study.collection, task): 100 * study.plain.aggregates[task][f"{study.protocol.recall}@1"]
        for study in studies
        for task in study.plain.tasks
    }
    collections = dict.fromkeys(study.collection for study in studies)
    tasks = dict.fromkeys(task for _, _, task in values)
    places = [(collection, task) for collection in collections for task in tasks]
    systems = dict.fromkeys(study.system for study in studies)
    return Table.of(
        [Column("model"), *(Column(f"{collection} {task}", 2) for collection, task in places)],
        [[system, *(values.get((system, *place)) for place in places)] for system in systems],
        caption="R@1, collection beside collection",
    )


def _interval(change: RsumChange) -> str | None:
    return "too few" if change.is_too_few else between(*change.percent_interval, Column("", 1, signed=True))


def per_query(study: Stress) -> pa.Table:
    """One row per query and perturbation: perturbation, task, query_id, changed, text (as sent; null for pictures and
    where nothing changed), rsum before and after in points."""
    return pa.concat_tables(
        pa.table(
            {
                "perturbation": pa.array([effect.name] * len(effect.queries), pa.string()),
                "task": pa.array([effect.outcome.task] * len(effect.queries), pa.string()),
                "query_id": effect.queries,
                "changed": pa.array(effect.outcome.changed),
                "text": pa.array(map(effect.outcome.texts.get, effect.queries.to_pylist()), pa.string()),
                "rsum_before": effect.before,
                "rsum_after": effect.after,
            }
        )
        for effect in study.effects
    )


def as_dict(study: Stress) -> dict[str, object]:
    """Everything but the per-query values, as plain values; what is not defined is NaN, in JSON null."""
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
            "mean": {group: jaccard.mean(group) for group in GROUPS},
            "by_chance": {group: jaccard.by_chance(group) for group in GROUPS},
            "counts": {group: jaccard.counts[group].tolist() for group in GROUPS},
            "pairwise": {group: jaccard.pairwise[group].tolist() for group in GROUPS},
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
        "points_interval": list(change.points_interval),
        "percent": change.percent,
        "percent_interval": list(change.percent_interval),
        "kept_percent": change.percent_left,
        "queries": change.queries,
        "images": change.images,
    }


Side = Literal["captions", "pictures"]
_SIDES: Mapping[str, Side] = {"t2i": "captions", "i2t": "pictures"}


def stress_table(study: Stress) -> Table:
    """One row for each perturbation, with all that was measured."""
    return effects_table(study, wide=True)


def stress_plot(study: Stress, *, side: Side | None = None) -> Plot:
    """A bar for each perturbation: how many percent of rsum it costs, with the 95 % interval."""
    by_side: dict[str, list[Effect]] = {_SIDES[task]: effects for task, effects in _by_side(study).items()}
    if not by_side or (side is not None and side not in by_side):
        raise VisirError(
            f"no perturbation of {side or 'anything'} in this study.", hint=f"perturbed: {', '.join(by_side)}"
        )
    chosen: str = side or next(iter(by_side))
    return degradation_bars(by_side[chosen], chosen)


# What perturbations cost by label.


def stress_by_label_table(shown: StressByLabel) -> Table:
    """One row for each perturbation and value: queries, rsum before and after, the change with its 95 % interval."""
    columns = [
        Column("perturbation", of="title"),
        Column(shown.label, of="value"),
        Column("queries", 0, of="change.queries"),
        Column("cov.", 0, of="coverage", scale=100),
        Column("rsum before", 1, of="change.before"),
        Column("after", 1, of="change.after"),
        Column("change %", 1, signed=True, of="change.percent", ends=_ends, interval="95 %"),
    ]
    notes = [
        "Change: in percent of the unperturbed rsum of the same queries; cov.: how many percent it could change.",
        "Intervals are for each row alone; values are not tested against each other.",
    ]
    return Table.over(
        shown.rows, columns, caption=f"{shown.system} on {shown.collection}, by {shown.label}", notes=notes
    )


def _ends(row: Any) -> tuple[float, float]:
    ends: tuple[float, float] = row.change.percent_interval
    return ends


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


@dataclass(frozen=True)
class WorstHit:
    """A query that a perturbation hit hard, with both rankings."""

    effect: Effect  # the effect of the perturbation on all queries
    # Pieces of the caption as it was sent, and whether each is new; none for a picture.
    text: tuple[tuple[str, bool], ...]
    spoilt: Thumbnail | None  # the corrupted picture, of image queries
    before: Example  # the query in the run without the perturbation
    after: Example  # the query in the run with it


def stress_report(
    study: Stress, collection: Collection | None = None, *, granularity: str = "", fail_under: float | None = None
) -> StudyReport:
    """What a brittleness study says; with the collection also the worst-hit queries, pictured."""
    numbers = _numbers(study, granularity, fail_under)
    labels = [] if collection is None else grouping_labels(study.plain)
    sections = [
        Section("numbers", "What breaks it, and how badly", numbers, short="What breaks it"),
        Section("worst", "Worst hit", [] if collection is None else _worst(study, collection)),
        *(
            Section(f"by-{number}", f"By {label}", [replace(stress_by_label_table(study.by(label)), caption="")])
            for number, label in enumerate(labels)
        ),
        Section("same", "Do perturbations break the same captions?", _overlap(study), short="The same captions?"),
        Section("meaning", "What the numbers mean", _meaning(study)),
    ]
    facts = protocol_facts(study.system, study.protocol)
    files = {
        "stress.json": (lambda: as_dict(study), "every number of this page, and the protocol"),
        "stress.csv": (effects_table(study, wide=True), "the table"),
        "per_query.parquet": (lambda: per_query(study), "every query: what was sent, rsum before and after"),
    }
    title, headline = f"{study.system} on {study.collection}", [effects_table(study)]
    return StudyReport(
        *("brittleness report", title, sections, facts, headline), name="stress", files=files, folder=STRESS
    )


def _numbers(study: Stress, granularity: str, fail_under: float | None) -> list[Block]:
    """Headlines, the gate, plots and the table of all perturbations."""
    blocks: list[Block] = [page.Cards(_cards(study))]
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
        blocks.append(page.Notice(study.notes))
    blocks += [*_charts(study), effects_table(study, wide=True)]
    return [*blocks, Paragraph(granularity, "note")] if granularity else blocks


def _worst(study: Stress, collection: Collection) -> list[Block]:
    """The worst-hit queries, pictured, by what was perturbed."""
    hits = worst_hits(study, collection)
    tasks = {task: collection.task(task) for task in _SIDES if task in study.plain.tasks}
    examples = ((tasks[hit.effect.outcome.task], example) for hit in hits for example in (hit.before, hit.after))
    shown = shown_examples(examples, collection, PICTURE_BUDGET)
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
            blocks.append(page.Group(f"Perturbed {_SIDES[name]}", [page.QueryGallery(entries)]))
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
    """Whether perturbations break the same captions: a table, and of three perturbations or more a map."""
    jaccard = study.jaccard
    if jaccard is None:
        return []
    lead = (
        "Every perturbation splits the captions into those whose rsum it decreased, increased, and left unchanged. The "
        "similarity of these sets between two perturbations (Jaccard: shared over all) says whether some captions are "
        "brittle whatever is done to them."
    )
    chart = Chart(
        "similar",
        lambda: similarity_map(jaccard, [study.effect(name).outcome.title for name in jaccard.names]),
        "Which perturbations hit the same captions",
        "Jaccard similarity, in percent, of the sets of captions that each two perturbations make worse; by chance it "
        f"would be {100 * jaccard.by_chance('decreased'):.0f} on average.",
        "Similarity of the captions that perturbations make worse",
    )
    has_map = not isnan(jaccard.mean("decreased")) and len(jaccard.names) > 2
    return [Paragraph(lead, "lead"), replace(jaccard_table([study]), caption=""), *([chart] if has_map else [])]


def _meaning(study: Stress) -> list[Block]:
    """The protocol in words, the test, what was done, and the protocol card."""
    changes = "; ".join(f"{effect.outcome.title}: {effect.outcome.description}" for effect in study.effects)
    entries: list[tuple[Inline, Inline]] = [
        *meaning(study.protocol),
        ("Test", f"{study.how}; Holm's correction over {study.family} effects."),
        ("What was done", f"{changes}."),
    ]
    return [page.Definitions(entries), protocol_card(study.protocol)]


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
    for task, effects in _by_side(study).items():
        qrels = study.qrels[task]
        plain = ExampleQueries(study.runs[task], qrels, study.plain)
        before = first_ranks(study.plain, task)
        assert before is not None, "ranks are measured"
        ids = effects[0].queries.to_pylist()
        images = [study.images.get(query, query) for query in ids]
        for effect in effects:
            after = first_ranks(effect.outcome.result, task)
            assert after is not None, "ranks are measured"
            worst = effect.worst(1 + len(used), (before[1], after[1]), images)
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
    return page.thumbnails([query], lambda _: look(row), budget=PICTURE_BUDGET // 40)[query]


def _by_side(study: Stress) -> dict[str, list[Effect]]:
    """The effects on each side that was perturbed."""
    sides = {task: [effect for effect in study.effects if effect.outcome.task == task] for task in _SIDES}
    return {task: effects for task, effects in sides.items() if effects}


def _cards(study: Stress) -> list[page.Card]:
    """The big numbers of each side, and a sentence."""
    cards = []
    for task, effects in _by_side(study).items():
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
        cards.append(page.Card(f"Perturbed {_SIDES[task]}", values, [Paragraph(sentence)]))
    return cards


def _charts(study: Stress) -> list[Chart]:
    """The change of rsum by every perturbation, a plot for each side."""
    charts = []
    for task, effects in _by_side(study).items():
        values = "; ".join(f"{effect.outcome.title} {effect.overall.percent:+.1f} %" for effect in effects)
        diamonds = " Diamonds: over the changed ones only." if any(effect.coverage < 1 for effect in effects) else ""
        caption = (
            "Bars to the left: retrieval lost. The thin line is the 95 % interval over images, with all their "
            f"captions.{diamonds} At the right, how many of the {_SIDES[task]} the perturbation could change."
        )
        draw = partial(degradation_bars, effects, _SIDES[task])
        charts.append(Chart(f"bars-{task}", draw, f"Perturbed {_SIDES[task]}", caption, f"Change of rsum: {values}"))
    return charts


STRESS = FolderKind("stress", "a stress report")


def save_stress(study: Stress, folder: Path) -> None:
    """Write a stress study into a folder; `study.save` calls this."""
    whole_report(study).save(folder, replace=True)


def whole_report(study: Stress, part: Collection | None = None, *, fail_under: float | None = None) -> StudyReport:
    """The report with its pictures: of the split, or where none is given of what the study was made of."""
    part = study.source if part is None else part
    if part is None:
        raise VisirError(f"{study.system}: the pictures and captions of this study are not at hand, so it has no page.")
    line = granularity_line(part) if _cut_into_words(study) else ""
    return stress_report(study, part, granularity=line, fail_under=fail_under)


def beside_one_another(studies: Sequence[Stress]) -> list[Table]:
    """The tables of several studies: of models, of collections, and how alike perturbations are."""
    tables = [decrease_table(studies), plain_table(studies)] if len(studies) > 1 else []
    if len({study.collection for study in studies}) > 1:
        tables.append(refined_table(studies))
    return [*tables, *([jaccard_table(studies)] if any(study.jaccard is not None for study in studies) else [])]


def _cut_into_words(study: Stress) -> bool:
    """Whether some perturbation needed words and their parts of speech: then they are at hand."""
    steps = [step for effect in study.effects if effect.outcome.task == "t2i" for step in effect.name.split("+")]
    return any(find(step).needs_words for step in steps)
