"""Folders of studies: every number as JSON, tables as CSV, values as Parquet, and a page."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.classification.labelling import CLASSIFICATION, PREDICTIONS, VALUES
from visir.evaluation.classification.result import Classification
from visir.evaluation.granularity import GranularityStudy
from visir.evaluation.probes import ProbeResult
from visir.evaluation.stress.effect import Effect
from visir.evaluation.stress.stress import Stress
from visir.records import Collection, Items
from visir.reports.classification import best_key, classes_table, tidy_accuracies, write_classification_report
from visir.reports.evaluation import grouping_labels
from visir.reports.examples import Answer, Example, ExampleQueries, first_ranks
from visir.reports.formats import to_csv
from visir.reports.granularity import tidy_changes, tidy_means, write_granularity_report
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
from visir.reports.plots import themed
from visir.reports.probes import write_probe_report
from visir.reports.shown import ShownItems, first_captions
from visir.reports.stress_tables import (
    as_dict,
    degradation_bars,
    effects_table,
    jaccard_table,
    per_query,
    similarity_map,
)
from visir.reports.tables import card_table
from visir.reports.views import stress_by_label as by_label_view
from visir.reports.words import meaning
from visir.robustness.corruptions import corrupt, pictures
from visir.robustness.perturbations import find
from visir.storage import FolderChange, FolderKind, new_folder

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
    sections = [Section("numbers", "What breaks it, and how badly", _numbers(study, granularity, fail_under),
                        short="What breaks it")]  # fmt: skip
    if collection is not None:
        sections.append(Section("worst", "Worst hit", _worst(study, collection)))
    for number, label in enumerate(grouping_labels(study.plain)):
        blocks: list[Block] = [replace(by_label_view.table(study.by(label)), caption="")]
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


def _numbers(study: Stress, granularity: str, fail_under: float | None) -> list[Block]:
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
PROBES = FolderKind("probes", "a probe report")
GRANULARITY = FolderKind("granularity", "a report of granularity")


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


def save_probes(result: ProbeResult, folder: Path, *, command: str = "") -> None:
    """Write probes into a folder: probes.json and probes.html; `result.save` calls this."""
    with new_folder(folder, PROBES, replace=True) as change:
        change.write_json("probes.json", result.to_dict())
        beside = {"probes.json": "every number of this page"}
        write_probe_report(change.file("probes.html"), result, command=command, beside=beside)


def save_granularity(study: GranularityStudy, folder: Path, *, command: str = "") -> None:
    """Write a study of granularity into a folder: JSON, CSV, the values of every caption, a page."""
    parts = []
    for by_profile in study.counted:
        for profile, counted in by_profile.items():
            table = counted.to_arrow()
            for position, (name, value) in enumerate((("collection", counted.name), ("profile", profile))):
                table = table.add_column(position, name, pa.array([value] * len(counted), pa.string()))
            parts.append(table)
    with new_folder(folder, GRANULARITY, replace=True) as change:
        change.write_json("granularity.json", study.to_dict())
        change.write("granularity.csv", to_csv(tidy_means(study)).encode())
        if study.comparisons:
            change.write("changes.csv", to_csv(tidy_changes(study)).encode())
        pq.write_table(pa.concat_tables(parts), change.file("captions.parquet"))
        write_granularity_report(change.file("granularity.html"), study, shlex.split(command))


def save_classification(result: Classification, folder: Path, *, command: str = "") -> None:
    """Write a classification into a folder: JSON, CSV, every prediction, a page; `result.save` calls this."""
    with new_folder(folder, CLASSIFICATION, replace=True) as change:
        change.write_json(VALUES, result.to_dict())
        change.write("classification.csv", to_csv(tidy_accuracies(result)).encode())
        change.write("classes.csv", to_csv(classes_table(result, best_key(result))).encode())
        pq.write_table(result.predicted(), change.file(PREDICTIONS), compression="zstd")
        beside = {
            VALUES: "every number of this page, and the protocol",
            "classification.csv": "the accuracies",
            "classes.csv": "the table of classes",
            PREDICTIONS: "every prediction: picture, class, method, shots, draw, predicted, rank",
        }
        page = change.file("classification.html")
        write_classification_report(page, result, command=command, beside=beside)


def _cut_into_words(study: Stress) -> bool:
    """Whether some perturbation needed words and their parts of speech: then they are at hand."""
    steps = [step for effect in study.effects if effect.outcome.task == "t2i" for step in effect.name.split("+")]
    return any(find(step).needs_words for step in steps)
