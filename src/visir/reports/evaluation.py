"""The page of an evaluation: its numbers, what they mean, plots, and queries with their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

import visir.reports.page as page
from visir.errors import VisirError
from visir.evaluation.assembly import Source
from visir.evaluation.by_label import LabelDifferences, by_label, label_differences
from visir.evaluation.results import Evaluation
from visir.evaluation.scoring import typical_measures
from visir.records import GROUP, IMAGE, Collection, Items, Qrels, Result, Run, Task
from visir.reports.by_label import by_label_table, differences_plot, differences_table
from visir.reports.examples import Answer, Example, ExampleQueries, Kind, by_image, first_ranks, shown_examples
from visir.reports.page import Block, Definitions, Fold, GalleryEntry, Inline, Paragraph, Section, Strip, inline
from visir.reports.plots import hit_curves, rank_distribution, training_curves
from visir.reports.report import Chart, StudyReport
from visir.reports.shown import ShownItems
from visir.reports.table import Column, Table, shortened
from visir.reports.tables import card_table, headline_table, measures_table
from visir.reports.views.parts import protocol_card, protocol_facts
from visir.reports.words import candidates_per_query, display, heading, in_reading_order, in_words, meaning, task_words

# Sections of an evaluation's page on the labels of its queries: by language, by category.

_MOST = 60
"""A label with more values is no grouping of the queries that a page could show."""


def label_sections(result: Result) -> list[Section]:
    """A section for each label with two values or more: the measures, and how far the values are apart."""
    sections: list[Section] = []
    for label in grouping_labels(result):
        blocks: list[Block] = [by_label_table(by_label(result, label))]
        differences = paired_differences(result, label)
        if differences is not None:
            blocks += [differences_table(differences), page.Figures(_maps(differences))]
        sections.append(Section(f"by-{len(sections)}", f"By {label}", blocks))
    return sections


def grouping_labels(result: Result) -> list[str]:
    """The labels that a page can show: of two values or more, and not too many."""
    # They are counted first, because measuring thousands of groups takes long.
    values: dict[str, set[str | None]] = {}
    for labels in result.labels.values():
        for label in labels.column_names[1:]:
            if label not in (GROUP, IMAGE):
                values.setdefault(label, set()).update(labels[label].unique().to_pylist())
    return [label for label, distinct in values.items() if 1 < len(distinct) <= _MOST]


def paired_differences(result: Result, label: str) -> LabelDifferences | None:
    """The differences between the values of a label by its first typical measure; None where no images are shared."""
    try:
        differences = label_differences(result, label, typical_measures(result)[0])
    except (VisirError, IndexError):
        return None
    return differences if any(row.paired for row in differences.rows) else None


def _maps(differences: LabelDifferences) -> list[Chart]:
    caption = (
        f"{differences.measure} of the row's {differences.label} minus that of the column's, over the images that have "
        "both. Blue is better, orange is worse. Numbers are grey where the 95 % interval includes 0."
    )
    charts = []
    for number, task in enumerate(differences.tasks):
        rows = [row for row in differences.rows if row.task == task and row.second == differences.reference]
        listed = ", ".join(f"{row.first} {100 * row.difference:+.1f}" for row in rows)
        label = f"Map of differences of {differences.measure}, against {differences.reference}, times 100: {listed}."
        draw = partial(differences_plot, differences, task)
        charts.append(Chart(f"map-{number}", draw, f"Differences, {task_words(task)}", caption, label))
    return charts


# A compact view of the best and worst queries for the terminal.


def queries_table(
    result: Result, run: Run, source: Collection | Task, kind: Kind = "worst", *, count: int = 5, width: int = 60
) -> Table:
    """The worst, nearest-missed or best queries of one run: query, rank, and what came first instead.

    Items without a text are shown by id; images of a collection with their first caption.

    Args:
        result: The result that the run was measured in.
        run: What the search answered.
        source: The task that was searched, or the collection that it is of.
        kind: "worst", "near" (lost by a hair) or "best".
        count: How many queries are shown.
        width: To how many characters texts are cut.
    """
    task = source.task(run.task) if isinstance(source, Collection) else source
    captions: dict[str, str] = {}
    if isinstance(source, Collection):
        for image, text in zip(*(source.captions[name].to_pylist() for name in ("image_id", "text")), strict=True):
            captions.setdefault(image, text)
    queries, documents = _texts(task.queries), _texts(task.documents)

    def label(name: str, texts: dict[str, str]) -> str:
        if name in texts:
            return shortened(texts[name], width)
        return f"{name}: {shortened(captions[name], width)}" if not texts and name in captions else name

    relevance = result.protocol.relevance
    qrels = task.judgements(relevance if relevance in task.qrels else None)
    group = by_image(source) if isinstance(source, Collection) and run.task == "t2i" else None
    columns = [
        Column("query", of=lambda example: label(example.query, queries)),
        Column("rank", 0, of="rank"),
        Column("answered first", of=lambda example: label(example.top[0].id, documents) if example.top else None),
        Column("a right answer", of=lambda example: label(example.positives[0].id, documents)),
    ]
    titles = {"worst": "Worst queries", "near": "Lost by a hair", "best": "Best queries"}
    shown = ExampleQueries(run, qrels, result).choose(kind, count, top=1, group=group)
    return Table.over(shown, columns, caption=f"{titles[kind]}, {task_words(run.task)}")


def _texts(items: Items) -> dict[str, str]:
    """The texts of items by id; none for images."""
    if items.texts is None:
        return {}
    pairs = zip(items.ids.to_pylist(), items.texts.to_pylist(), strict=True)
    return {name: text for name, text in pairs if text is not None}


# What a random order would reach: the floor below every hit@k.


def chance_curve(positives: NDArray[np.int64], gallery: int, limit: int) -> NDArray[np.float64]:
    """(limit,) hit@1 … hit@limit expected of a random order: the mean over queries of 1 − C(N − m, k) / C(N, k)."""
    # `positives` are the m of each query, `gallery` is N. For one positive it is k / N.
    counts, shares = np.unique(np.minimum(positives, gallery), return_counts=True)
    ks = np.arange(limit)
    missed = np.zeros(limit)
    for m, share in zip(counts, shares, strict=True):
        # No positive among the first k: a product of (N − m − i) / (N − i) over i < k.
        factors = np.maximum(gallery - m - ks, 0) / np.maximum(gallery - ks, 1)
        missed += share * np.cumprod(factors)
    return np.asarray(1 - missed / shares.sum(), np.float64)


def expected_by_chance(
    result: Result, runs: Mapping[str, Run], qrels: Mapping[str, Qrels]
) -> dict[str, NDArray[np.float64]]:
    """Task -> (N,) hit@1 … hit@N expected of a random order of N candidates, for the tasks with judgements."""
    # Under folds N is the size of one fold's gallery: a query meets only its own fold. Where each query has a pool of
    # its own, N is the size of the pools; tasks with pools of several sizes are left out.
    expected: dict[str, NDArray[np.float64]] = {}
    for task, run in runs.items():
        if task in qrels and (run.gallery.is_known or candidates_per_query(result.protocol, task) is not None):
            positives = qrels[task].select(run.queries).positives
            pooled = candidates_per_query(result.protocol, task)
            size = max(1, round(run.gallery.size / result.protocol.folds)) if pooled is None else pooled
            if size and (positives > 0).any():
                expected[task] = chance_curve(positives[positives > 0], size, size)
    return expected


# The charts of one evaluation, with their captions: what `visir.reports.plots` draws from a result.

Ranks = Mapping[str, NDArray[np.float64]]


def charts(
    result: Result,
    *,
    runs: Mapping[str, Run],
    qrels: Mapping[str, Qrels],
    training: Sequence[Mapping[str, Any]] | None,
) -> list[Chart]:
    """What can be drawn: ranks if the result or the runs know them, chance if the galleries do, training if given."""
    ranks = _ranks(result, runs, qrels)
    chance = expected_by_chance(result, runs, qrels) if ranks else {}
    drawn = []
    if any(np.isfinite(values).any() for values in ranks.values()):
        random = " The thin dotted lines are what a random order would reach." if chance else ""
        drawn = [
            Chart(
                "hits",
                lambda: hit_curves(ranks, chance=chance),
                "How far down one has to look",
                f"Share of queries with a right answer among the first k (hit@k), k on a logarithmic scale.{random}",
                f"Curves of hit@k. {_in_words(ranks)}",
            ),
            Chart(
                "bands",
                lambda: rank_distribution(ranks),
                "Where the first right answer stands",
                "Share of queries whose first right answer stands at each rank.",
                f"Bars over bands of ranks. {_in_words(ranks)}",
            ),
        ]
    if training:
        caption = f"Loss and validation measures over the {len(training):,} entries of the training history."
        label, draw = "Training curves: loss and validation.", partial(training_curves, training)
        drawn.append(Chart("training", draw, "How it was trained", caption, label))
    return drawn


def _ranks(result: Result, runs: Mapping[str, Run], qrels: Mapping[str, Qrels]) -> dict[str, NDArray[np.float64]]:
    """Task -> the rank of each query's first positive: from the result, otherwise from the run."""
    ranks: dict[str, NDArray[np.float64]] = {}
    for task in dict.fromkeys((*result.tasks, *runs)):
        measured = first_ranks(result, task)
        run = runs.get(task)
        if measured is not None:
            values = measured[1]
            # A positive outside the gallery is counted as one rank below the last: nobody can find it.
            is_known = run is not None and run.gallery.is_known
            ranks[task] = np.where(values > run.gallery.size, np.inf, values) if run and is_known else values
        elif run is not None and task in qrels:
            examples = ExampleQueries(run, qrels[task])
            ranks[task] = examples.ranks[examples.judged]
    return ranks


def _in_words(ranks: Ranks) -> str:
    """The curves for those who cannot see them."""
    return " ".join(
        f"{task_words(task)}: a right answer among the first 1, 5, 10 and 100 for "
        + ", ".join(f"{100 * float(np.mean(values <= k)):.1f} %" for k in (1, 5, 10, 100))
        + " of the queries."
        for task, values in ranks.items()
    )


PICTURE_BUDGET = 1_400_000
"""Bytes of text that all pictures of one report may take together; the whole stays under two megabytes."""

KINDS: tuple[tuple[Kind, str, str], ...] = (
    ("worst", "Worst", "The first right answer stands furthest down."),
    ("near", "Lost by a hair", "A wrong answer is first and a right one close behind: the most confusable."),
    ("best", "Best", "A right answer is first, with the largest lead over the best wrong one."),
)
"""The kinds of queries shown: key, heading, and how they were chosen."""

_PICTURES, _TEXTS = 3, 8
"""How many right answers of a query are shown."""


def evaluation_report(
    result: Result | Evaluation,
    *,
    runs: Mapping[str, Run] | None = None,
    source: Source | None = None,
    qrels: Mapping[str, Qrels] | None = None,
    training: Sequence[Mapping[str, Any]] | None = None,
    title: str = "",
    examples: int = 6,
    top: int = 5,
) -> StudyReport:
    """Describe one evaluation: the numbers, the protocol and the plots.

    With runs and what they searched also the best and the worst queries. A picture that is not at hand is replaced by
    its caption.

    Args:
        result: The result, or the evaluation with its runs and judgements.
        runs: What the search answered, by task; by default those of the evaluation.
        source: What was searched, or more of it: a collection, another source of tasks, one task, or several.
        qrels: What the runs were judged by, by task; by default what the source says under the relevance of the
            protocol. Give those of the evaluation when only some captions took part (`captions="first"`).
        training: One mapping of numbers per epoch, drawn as curves.
        title: The heading; by default the system and the collection.
        examples: How many queries of each kind (worst, lost by a hair, best) are shown of each task.
        top: How much of each answer is shown.

    Raises:
        CollectionError: The runs speak of items that the source does not have.
    """
    if isinstance(result, Evaluation):
        runs, qrels, result = runs or result.runs, qrels or result.qrels, result.result
    runs = dict(runs or {})
    tasks = _tasks(source, list(runs))
    collection = source if isinstance(source, Collection) else None
    judged = _judged(result, runs, tasks, qrels)
    drawn = charts(result, runs=runs, qrels=judged, training=training)
    shown = {task: run for task, run in runs.items() if task in tasks}
    galleries: list[Block] = []
    if shown:
        chosen = {task: _choose(result, run, collection, judged[task], examples, top) for task, run in shown.items()}
        galleries = _galleries(shown, tasks, chosen, collection)
    sides = {items.modality for task in shown for items in (tasks[task].queries, tasks[task].documents)}
    heading = "Queries and their answers" if sides == {"text"} else "Queries, as pictures"
    sections = [
        Section("numbers", "Numbers", _numbers(result, expected_by_chance(result, runs, judged))),
        Section("meaning", "What these numbers mean", _meaning(result), short="What they mean"),
        Section("plots", "Plots", [page.Figures(drawn)] if drawn else []),
        *label_sections(result),
        Section("queries", heading, galleries, short="Queries"),
        Section("made", "How it was made", _circumstances(result)),
    ]
    title = title or f"{result.system} on {result.protocol.collection}"
    facts = protocol_facts(result.system, result.protocol)
    headline, printed = [headline_table(result)], [measures_table(result), card_table(result.protocol)]
    return StudyReport("evaluation report", title, sections, facts, headline, printed)


def _tasks(source: Source | None, names: Sequence[str]) -> dict[str, Task]:
    """The tasks of a source with these names, as far as it has them."""
    if source is None:
        return {}
    if isinstance(source, (Task, Sequence)):
        tasks = [source] if isinstance(source, Task) else source
        return {task.name: task for task in tasks if task.name in names}
    return {name: source.task(name) for name in names if name in source.tasks}


def _judged(
    result: Result, runs: Mapping[str, Run], tasks: Mapping[str, Task], qrels: Mapping[str, Qrels] | None
) -> dict[str, Qrels]:
    """What each run was judged by, as far as it can be known."""
    judged = dict(qrels or {})
    for task in runs:
        if task in tasks and not judged.get(task):
            relevance = result.protocol.relevance
            judged[task] = tasks[task].judgements(relevance if relevance in tasks[task].qrels else None)
    return judged


def _numbers(result: Result, chance: Mapping[str, NDArray[np.float64]]) -> list[Block]:
    """The headline of each task, what must be said first, and the tables."""
    blocks: list[Block] = [page.Cards([_headline(result, task, chance.get(task)) for task in result.tasks])]
    if total := _rsum(result, "both"):
        blocks.append(Paragraph(inline("rsum over both tasks <b>{}</b> of 600", total), "total"))
    if result.notes:
        blocks.append(page.Notice(result.notes))
    measured = list(dict.fromkeys(name for values in result.aggregates.values() for name in values))
    names = in_reading_order(measured, result.protocol)
    explained = [(heading(name, result.protocol), display(name).says) for name in names]
    terms = [(inline("<code>{}</code>", name), says) for name, says in explained if says]
    everything: list[Block] = [_without_notes(measures_table(result)), Definitions(terms)]
    return [*blocks, _without_notes(headline_table(result)), Fold("All measures", everything)]


def _headline(result: Result, task: str, chance: NDArray[np.float64] | None) -> page.Card:
    """The named recall of a task at its first three cutoffs, and a sentence on the first."""
    recall, values = result.protocol.recall, result.aggregates.get(task, {})
    shown: list[tuple[str, str]] = []
    sentences: list[Inline] = []
    for name in in_reading_order(list(values), result.protocol):
        base, _, cutoff = name.partition("@")
        if base == recall and cutoff.isdigit() and len(shown) < 3:
            shown.append((f"R@{cutoff}", f"{100 * values[name]:.1f}"))
            sentences.append(in_words(result.protocol, task, int(cutoff), values[name]))
    if not shown:
        missing = "The recall that the protocol names was not measured at any cutoff."
        return page.Card(task_words(task), blocks=[Paragraph(missing)])
    text = sentences[:1]
    if chance is not None and recall == "hit":  # the other recalls have other expectations
        text.append(f"A random order would reach {100 * chance[0]:.2g} %.")
    if total := _rsum(result, task):
        text.append(inline('<span class="soft">rsum {} of 300.</span>', total))
    return page.Card(task_words(task), shown, [Paragraph(Markup(" ").join(text))])


def _meaning(result: Result) -> list[Block]:
    """What was searched and how it was counted, and the protocol card."""
    lead = inline(
        "A retrieval number says something only together with what was searched and how it was counted. These numbers "
        "may be compared with others of protocol <code>{}</code>, and with no others.",
        result.protocol.fingerprint[:12],
    )
    return [Paragraph(lead, "lead"), Definitions(meaning(result.protocol)), protocol_card(result.protocol)]


def _circumstances(result: Result) -> list[Block]:
    """Times, where vectors come from, and versions."""
    cards = [
        ("Time", Table.of([Column("stage"), Column("seconds", 2)], list(result.timing.items()))),
        ("Where vectors come from", Table.pairs(result.origins.items(), ("of", "from"))),
        ("Versions", Table.pairs(result.versions.items(), ("package", "version"))),
    ]
    shown = [page.Card(heading, blocks=[table]) for heading, table in cards if table.rows]
    return [page.Cards(shown)] if shown else []


def _choose(
    result: Result, run: Run, collection: Collection | None, qrels: Qrels, count: int, top: int
) -> dict[Kind, list[Example]]:
    """The queries of each kind that are shown of one task."""
    examples = ExampleQueries(run, qrels, result)
    group = by_image(collection) if collection is not None and run.task == "t2i" else None
    return {kind: examples.choose(kind, count, top, group) for kind, _, _ in KINDS}


def _galleries(
    runs: Mapping[str, Run],
    tasks: Mapping[str, Task],
    chosen: Mapping[str, Mapping[Kind, Sequence[Example]]],
    collection: Collection | None,
) -> list[Block]:
    """The chosen queries of every task with their answers."""
    every = [(tasks[task], example) for task, kinds in chosen.items() for of in kinds.values() for example in of]
    shown = shown_examples(every, collection, PICTURE_BUDGET)
    lead = "What is right is marked with a tick and a solid green frame. Numbers beside ranks are scores."
    blocks: list[Block] = [Paragraph(f"{lead} {shown.missing}".strip(), "lead")]
    for task, kinds in chosen.items():
        folds: list[Block] = [
            Fold(
                name,
                [page.QueryGallery([_entry(example, runs[task], tasks[task], shown) for example in kinds[kind]])],
                words,
                is_open=kind == "worst",
            )
            for kind, name, words in KINDS
            if kinds[kind]
        ]
        nothing = Paragraph("No query of this task has a right answer to show.")
        blocks.append(page.Group(task_words(task), folds or [nothing]))
    return blocks


def _entry(example: Example, run: Run, task: Task, shown: ShownItems) -> GalleryEntry:
    """A query with its right answers and what was retrieved."""
    query = shown.tile(task.queries, example.query, example.query)
    documents = task.documents
    has_pictures = documents.modality != "text"
    limit = _PICTURES if has_pictures else _TEXTS
    positives = [
        # The query says what a right picture shows.
        shown.tile(documents, answer.id, _place(answer, run), right=True, alt=query.text)
        for answer in example.positives[:limit]
    ]
    top = [
        shown.tile(documents, answer.id, _place(answer, run), right=answer.positive or None) for answer in example.top
    ]
    heading = documents.title.removesuffix("s") if len(example.positives) == 1 else documents.title
    right = Strip(positives, f"Right {heading}", max(0, len(example.positives) - limit), is_ranked=False)
    retrieved = Strip(top, "Retrieved")
    return GalleryEntry(
        f"“{query.text}”" if query.text else "",
        _verdict(example, run, task),
        [right, retrieved] if has_pictures else [retrieved, right],
        [] if query.picture is None else [replace(query, text="")],
        hint=example.query if query.picture is None else "",
    )


def _verdict(example: Example, run: Run, task: Task) -> Inline:
    """Where the first right answer stands, of how many candidates."""
    if example.rank == 1:
        return inline('<strong class="right">✓ right answer first</strong>')
    pooled = None if task.pools is None else len(task.pools.select([example.query]).documents)
    size = run.gallery.counted if pooled is None else f"{pooled:,}"
    if example.rank:
        return inline("first right answer at rank <strong>{}</strong> of {}", f"{example.rank:,}", size)
    return inline("<strong>no right answer</strong> among the first {} of {}", f"{run.depth:,}", size)


def _place(answer: Answer, run: Run) -> str:
    """The rank and the score of an answer."""
    rank = f"rank {answer.rank:,}" if answer.rank else f"beyond rank {run.depth:,}"
    return rank if answer.score is None else f"{rank} · {answer.score:.3f}"


def _rsum(result: Result, task: str) -> str:
    values = result.aggregates.get(task, {})
    return f"{values['rsum']:.1f}" if "rsum" in values else ""


def _without_notes(table: Table) -> Table:
    """The table with its first note (the units) alone: the page shows the result's own notes in a box."""
    return replace(table, notes=table.notes[:1])
