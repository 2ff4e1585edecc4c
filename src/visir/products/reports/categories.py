"""The report of category-to-image search: one HTML file with numbers, errors, answers as pictures, and the tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from visir.errors import ConfigurationError, nearest
from visir.products.errors import FirstAnswers, first_answers
from visir.products.evaluate import TABLE, CategoryEvaluation
from visir.products.relevance import Setting
from visir.products.reports.pictures import Chain, chains, product_thumbnails
from visir.products.reports.plots import depth_bars, distance_bars, seen_lines, setting_dots
from visir.products.reports.tables import (
    HEADS,
    SETTING_WORDS,
    differences_table,
    errors_table,
    seen_table,
    setting_head,
    systems_in_setting,
)
from visir.products.reports.tree import Node, tree_of
from visir.reports.figures import Figure
from visir.reports.formats import to_html
from visir.reports.page import write_page
from visir.reports.svg import themed

PICTURE_BUDGET = 1_400_000
"""Bytes of text that all pictures of one report may take together."""
_SAYS: Mapping[Setting, str] = {
    "all": "Every category that has test products asks, whatever its level.",
    "general": "Only the roots of the trees ask: “Clothing”, “Furniture”.",
    "specific": "Only categories to which a product belongs directly ask: the ends of its path.",
}


@dataclass(frozen=True)
class Number:
    """A cell: the mean over splits in percent, its standard deviation ("" for one split), whether it is the best."""

    mean: str
    sd: str
    best: bool


@dataclass(frozen=True)
class SettingPart:
    """The numbers of one setting: systems × measures."""

    title: str
    says: str
    rows: tuple[tuple[str, tuple[Number, ...]], ...]


def write_categories_report(
    path: str | Path,
    evaluation: CategoryEvaluation,
    *,
    system: str | None = None,
    command: str = "",
    beside: Mapping[str, str] | None = None,
    count: int = 4,
    top: int = 8,
) -> Path:
    """Write the report as a single HTML file; returns its path.

    - `system`: whose answers, errors and tree are shown; None takes the one with the best R-precision over all
      categories (or, without that setting, over the first there is)
    - `command`: the command line that makes the report again; `beside`: {file name: what it holds} of the files written
      into the same folder
    - `count`: how many paths of categories are shown as pictures; `top`: how much of each answer

    The file needs no network, no script and no other file, and follows the reader's light or dark theme. The same input
    gives the same bytes. Raises `ConfigurationError` for a system that is not there.
    """
    shown, setting = _chosen(evaluation, system)
    trials = evaluation.trials[shown, setting]
    found = {key: first_answers(one) for key, one in evaluation.trials.items()}
    by_id = trials[0].task.by == "id"
    told = chains(trials[0], count=count, top=top) if by_id else []
    ids = [one.id for chain in told for asked in chain.asked for one in asked.found]
    catalogue = evaluation.catalogue
    compared = differences_table(evaluation) if len(evaluation.systems) > 1 else None
    protocols = {part: evaluation.trials[systems_in_setting(evaluation, part)[0], part] for part in evaluation.settings}
    return write_page(
        path,
        "categories.html.j2",
        room="visir.products.reports",
        title=f"Category-to-image search on {catalogue.name}",
        evaluation=evaluation,
        described=catalogue.describe(),
        task=trials[0].task,
        splits=max(len(one) for one in evaluation.trials.values()),
        heads=[HEADS[name] for name in TABLE],
        parts=[_part(evaluation, one) for one in evaluation.settings],
        overview=_overview(evaluation),
        differences_table=to_html(compared) if compared else "",
        differences=len(compared.rows) if compared else 0,
        beyond=sum(row[-1] == "yes" for row in compared.rows) if compared else 0,
        seen_table=to_html(seen_table(evaluation)),
        seen_figure=_seen_figure(evaluation),
        errors_table=to_html(errors_table(found)),
        error_figures=_error_figures(
            {part: found[shown, part] for part in evaluation.settings if (shown, part) in found}
        ),
        shown=shown,
        shown_setting=SETTING_WORDS[setting].lower(),
        chains=told,
        thumbs=product_thumbnails(catalogue, ids, budget=PICTURE_BUDGET),
        trees=tree_of(trials) if by_id else [],
        protocols=[(SETTING_WORDS[part], one[0].result.protocol.card()) for part, one in protocols.items()],
        notes=_notes(evaluation),
        command=command,
        beside=sorted((beside or {}).items()),
    )


def _chosen(evaluation: CategoryEvaluation, system: str | None) -> tuple[str, Setting]:
    if system is not None and system not in evaluation.systems:
        raise ConfigurationError(f"no system {system!r} was evaluated", hint=nearest(system, evaluation.systems))
    of = system and [setting for setting in evaluation.settings if (system, setting) in evaluation.trials]
    setting = of[0] if of else evaluation.settings[0]
    there = systems_in_setting(evaluation, setting)
    best = max(there, key=lambda one: evaluation.spread(one, setting, "rprecision").mean)
    return system or best, setting


def _part(evaluation: CategoryEvaluation, setting: Setting) -> SettingPart:
    systems = systems_in_setting(evaluation, setting)
    spreads = {one: [evaluation.spread(one, setting, name) for name in TABLE] for one in systems}
    printed = {one: [f"{100 * each.mean:.1f}" for each in own] for one, own in spreads.items()}
    best = [max(float(printed[one][at]) for one in systems) for at in range(len(TABLE))]
    rows = []
    for one in systems:
        cells = tuple(
            Number(
                printed[one][at],
                "" if each.splits < 2 else f"{100 * each.sd:.1f}",
                len(systems) > 1 and float(printed[one][at]) == best[at],
            )
            for at, each in enumerate(spreads[one])
        )
        rows.append((one, cells))
    return SettingPart(setting_head(evaluation, setting), _SAYS[setting], tuple(rows))


def _overview(evaluation: CategoryEvaluation) -> Figure:
    said = "; ".join(
        f"{name}, {SETTING_WORDS[part].lower()}: {100 * evaluation.spread(name, part, 'rprecision').mean:.1f} %"
        for name, part in evaluation.trials
    )
    several = any(len(trials) > 1 for trials in evaluation.trials.values())
    return Figure(
        themed(setting_dots(evaluation), "settings", f"R-precision by system and setting. {said}."),
        "R-precision at a glance",
        "Of as many answers as there are relevant products, how many are right."
        + (" Lines: one standard deviation of the splits to either side." if several else ""),
    )


def _seen_figure(evaluation: CategoryEvaluation) -> Figure:
    return Figure(
        themed(
            seen_lines(evaluation), "seen", "R-precision on seen and unseen categories; the numbers are in the table."
        ),
        "Seen and unseen",
        "Unseen categories tend to be small. Systems that are not trained have seen nothing: their two marks say how "
        "much easier one half is by itself.",
    )


def _error_figures(found: Mapping[Setting, FirstAnswers]) -> list[Figure]:
    said = "; ".join(
        f"{SETTING_WORDS[setting].lower()}: {one.errors.same_tree} wrong in the same tree, "
        f"{one.errors.different_tree} in another"
        for setting, one in found.items()
    )
    return [
        Figure(
            themed(depth_bars(found), "depths", f"Depth differences of wrong first answers. {said}."),
            "How much deeper or higher",
            "Wrong first answers in the right tree, by depth(answer) − depth(asked): the thesis's Figure 7.2. It is no "
            "distance: two categories side by side have 0.",
        ),
        Figure(
            themed(distance_bars(found), "distances", "Tree distances of wrong first answers."),
            "How far away",
            "All wrong first answers, by edges between the two categories. 2 is a sibling; between trees the way leads "
            "over a common root above them.",
        ),
    ]


def _notes(evaluation: CategoryEvaluation) -> list[str]:
    """What a reader must know: of the catalogue, and of each system and setting what its first noted split says."""
    notes = list(evaluation.catalogue.notes)
    for (system, setting), trials in evaluation.trials.items():
        noted = [one for one in trials if one.result.notes]
        if noted:
            more = f" (and {len(noted) - 1} more splits alike)" if len(noted) > 1 else ""
            said = "; ".join(noted[0].result.notes)
            notes.append(f"{system}, {SETTING_WORDS[setting].lower()}, {noted[0].task.fold.name}: {said}{more}")
    return notes


__all__ = ["PICTURE_BUDGET", "Chain", "Node", "write_categories_report"]
