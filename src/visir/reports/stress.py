"""The page of the brittleness study: what breaks a system, how badly, and on which captions, as pictures."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.stress.effect import Effect
from visir.evaluation.stress.stress import Stress
from visir.records import Collection
from visir.reports.examples import Example, Examples, first_ranks
from visir.reports.figures import Figure
from visir.reports.formats import to_html
from visir.reports.library import Library
from visir.reports.page import write_page
from visir.reports.stress_plots import degradation_bars, similarity_map
from visir.reports.stress_tables import effects_table, jaccard_table
from visir.reports.svg import themed
from visir.reports.table import Table
from visir.reports.thumbnails import Thumbnail, thumbnails
from visir.reports.words import meaning
from visir.robustness.corruptions import corrupt, pictures

PICTURE_BUDGET = 1_500_000
"""Bytes of text that all pictures of one page may take together; the whole stays under two megabytes."""
TOP = 4
"""How much of each answer is shown."""
_SIDES: Mapping[str, str] = {"t2i": "captions", "i2t": "pictures"}


@dataclass(frozen=True)
class Hit:
    """A query that a perturbation hit hard, with both rankings.

    - `text`: pieces of the caption as it was sent, and whether each is new (none for a picture)
    - `spoilt`: the corrupted picture, of image queries
    - `before`, `after`: the same query in both runs
    """

    effect: Effect
    text: tuple[tuple[str, bool], ...]
    spoilt: Thumbnail | None
    before: Example
    after: Example


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
    """Write the page of one study as a single HTML file and return its path: no network, no script, no other file.

    - `collection`: the part that was searched, for the pictures; without it the worst-hit captions are not shown
    - `granularity`: a line on the captions that were asked; `fail_under`: the gate that was set, in percent
    - `command`, `beside`: as in `write_report`

    The same study gives the same bytes. Everything that came from outside is escaped.
    """
    hits = [] if collection is None else worst_hits(study, collection)
    shown: dict[str, list[Example]] = {
        one: [example for hit in hits if hit.effect.outcome.task == one for example in (hit.before, hit.after)]
        for one in _SIDES
        if one in study.plain.tasks
    }
    library = Library(collection, shown, budget=PICTURE_BUDGET)
    return write_page(
        path,
        "stress.html.j2",
        title=f"{study.system} on {study.collection}",
        study=study,
        protocol=study.protocol,
        cards=_cards(study),
        failed=[] if fail_under is None else study.under(fail_under),
        fail_under=fail_under,
        figures=_figures(study),
        table=to_html(effects_table(study, wide=True)),
        jaccard=None if study.jaccard is None else to_html(_bare(study)),
        similarity=_similarity(study),
        sections=[(one, _SIDES[one], [hit for hit in hits if hit.effect.outcome.task == one]) for one in shown],
        library=library,
        granularity=granularity,
        meaning=meaning(study.protocol),
        command=command,
        beside=sorted((beside or {}).items()),
    )


def granularity_line(collection: Collection) -> str:
    """How fine-grained the captions are that were perturbed: the means of every feature, strictly counted.

    A system breaks more easily on captions that say little: there is less to fall back on. Cheap where the captions
    were cut into words already, as most perturbations need.
    """
    from visir.evaluation.granularity_statistics import means
    from visir.robustness.granularity import FEATURES, granularity

    found = means(granularity(collection, "strict"))
    said = ", ".join(f"{FEATURES.get(one.feature).title.lower()} {one.mean:.2f}" for one in found)
    return f"Granularity of these captions (means, strict profile of visir granularity): {said}."


def worst_hits(study: Stress, collection: Collection, *, top: int = TOP) -> list[Hit]:
    """For each perturbation the query that lost most by it, each image at most once on the page."""
    hits: list[Hit] = []
    used: set[str] = set()
    for task in _SIDES:
        some = [one for one in study.effects if one.outcome.task == task]
        if not some:
            continue
        qrels = study.qrels[task]
        plain = Examples(study.runs[task], qrels, study.plain)
        before = _ranks(study, task)
        ids = some[0].queries.to_pylist()
        images = [study.images.get(one, one) for one in ids]
        for effect in some:
            after = first_ranks(effect.outcome.result, task)
            assert after is not None, "ranks are measured"
            worst = effect.worst(1 + len(used), (before, after[1]), images)
            fresh = [at for at in worst if images[at] not in used][:1]
            if not fresh:
                continue
            used.add(images[fresh[0]])
            query = ids[fresh[0]]
            broken = Examples(effect.outcome.run, qrels, effect.outcome.result)
            pair = [one.example(one.run.queries.index(query).as_py(), top) for one in (plain, broken)]
            sent = effect.outcome.texts.get(query)
            text = () if sent is None else marked(study.texts[query], sent)
            hits.append(Hit(effect, text, _spoilt(effect, collection, query), pair[0], pair[1]))
    return hits


def marked(before: str, after: str) -> tuple[tuple[str, bool], ...]:
    """The new text in pieces, each with whether it is new; white space belongs to what it stands behind."""
    old, new = (re.findall(r"\S+\s*|\s+", one) for one in (before, after))
    matched = difflib.SequenceMatcher(a=[one.strip() for one in old], b=[one.strip() for one in new], autojunk=False)
    pieces = []
    for kind, _, _, start, stop in matched.get_opcodes():
        text = "".join(new[start:stop])
        if text:
            pieces.append((text, kind != "equal"))
    return tuple(pieces)


def _spoilt(effect: Effect, collection: Collection, query: str) -> Thumbnail | None:
    carried = effect.outcome.corrupted
    if carried is None:
        return None
    view = corrupt(collection, carried.name, carried.severity, carried.seed)
    row = collection.images["id"].to_pylist().index(query)
    look = pictures(view)
    return thumbnails([query], lambda _: look(row), budget=PICTURE_BUDGET // 40)[query]


def _ranks(study: Stress, task: str) -> NDArray[np.float64]:
    found = first_ranks(study.plain, task)
    assert found is not None, "ranks are measured"
    return found[1]


@dataclass(frozen=True)
class Card:
    """The big numbers of one side: (name, value) and a sentence."""

    title: str
    values: tuple[tuple[str, str], ...]
    sentence: str


def _cards(study: Stress) -> list[Card]:
    made = []
    for task, side in _SIDES.items():
        some = [one for one in study.effects if one.outcome.task == task]
        known = [one for one in some if not isnan(one.overall.percent)]
        if not known:
            continue
        worst = min(known, key=lambda one: one.overall.percent)
        mean = float(np.mean([one.overall.percent for one in known]))
        low, high = worst.overall.percent_interval
        sure = sum(one.p_corrected < 0.05 and one.overall.points < 0 for one in known)
        made.append(
            Card(
                f"Perturbed {side}",
                (
                    ("rsum as they are", f"{study.plain.aggregates[task]['rsum']:.1f}"),
                    ("mean change", f"{mean:+.1f} %"),
                    ("largest loss", f"{worst.overall.percent:+.1f} %"),
                ),
                f"{worst.outcome.title} costs most ({low:+.1f} to {high:+.1f} %). "
                f"{sure} of {len(known)} perturbations lower rsum significantly (p < 0.05 after Holm's correction).",
            )
        )
    return made


def _figures(study: Stress) -> list[Figure]:
    made = []
    for task, side in _SIDES.items():
        some = [one for one in study.effects if one.outcome.task == task]
        if some:
            said = "; ".join(f"{one.outcome.title} {one.overall.percent:+.1f} %" for one in some)
            diamonds = " Diamonds: over the changed ones only." if any(one.coverage < 1 for one in some) else ""
            caption = (
                "Bars to the left: retrieval lost. The thin line is the 95 % interval over images, with all their "
                f"captions.{diamonds} At the right, how many of the {side} the perturbation could change."
            )
            svg = themed(degradation_bars(some, side), f"bars-{task}", f"Change of rsum: {said}")
            made.append(Figure(svg, f"Perturbed {side}", caption))
    return made


def _similarity(study: Stress) -> Figure | None:
    found = study.jaccard
    if found is None or isnan(found.mean("decreased")) or len(found.names) < 3:
        return None
    titles = [study.effect(one).outcome.title for one in found.names]
    return Figure(
        themed(similarity_map(found, titles), "similar", "Similarity of the captions that perturbations make worse"),
        "Which perturbations hit the same captions",
        "Jaccard similarity, in percent, of the sets of captions that each two perturbations make worse; by chance it "
        f"would be {100 * found.by_chance('decreased'):.0f} on average.",
    )


def _bare(study: Stress) -> Table:
    return replace(jaccard_table([study]), caption="")
