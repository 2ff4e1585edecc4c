"""A prediction study of purchase intent as tables and one HTML page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from visir.reports.page import Block, Code, Definitions, Figure, Page, Section, inline, write_page
from visir.reports.plots import themed
from visir.reports.table import Cell, Column, Table
from visir.sessions.description import Characterisation, Statistic, StatisticCell
from visir.sessions.description.differences import COUNTS_BELOW, GroupDifference, Kind
from visir.sessions.features import FEATURE_SETS
from visir.sessions.prediction.models import TITLES, all_bought
from visir.sessions.prediction.purchase_model import PurchaseUse
from visir.sessions.prediction.study import COMPARED, FeatureSetComparison, Summary, SummaryRow
from visir.sessions.reports import intent_plots as plots

if TYPE_CHECKING:
    from visir.reports.plot import Plot


# A characterisation in sentences: the questions of sections 6.4.1 to 6.4.5, answered from the log.

_SPACE = "\N{NO-BREAK SPACE}"


def findings(characterisation: Characterisation) -> dict[str, tuple[str, ...]]:
    """The sentences of each section; nothing of what is missing or hidden."""
    sentences = {"length": list(_lengths(characterisation.statistic("figure-6-2-percentiles")))}
    for difference in characterisation.differences:
        if difference.difference is not None:
            sentences.setdefault(difference.section, []).append(_sentence(difference))
    for section, few in _few(characterisation.differences).items():
        sentences.setdefault(section, []).append(few)
    return {section: tuple(of_section) for section, of_section in sentences.items() if of_section}


def _few(differences: Sequence[GroupDifference]) -> dict[str, str]:
    """What was too small to be compared, in one sentence for each section."""
    few: dict[str, dict[str, str]] = {}
    tested = {name for each in differences if each.p is not None for name in (each.first, each.second)}
    for difference in differences:
        if difference.difference is None:
            for name, (y, n) in zip((difference.first, difference.second), difference.cases, strict=True):
                if name not in tested:
                    few.setdefault(difference.section, {})[name] = f"{name} ({y:,} of {n:,})"
    return {section: f"Too few to compare: {', '.join(names.values())}." for section, names in few.items()}


def _lengths(statistic: Statistic) -> tuple[str, ...]:
    parts = []
    for device in statistic.rows:
        bought, left = (statistic.value(device, f"{outcome}: P50") for outcome in ("Purchase", "Non-purchase"))
        if _number(bought) and _number(left) and min(bought.support or 0, left.support or 0) >= COUNTS_BELOW:
            parts.append(f"{device} {_with(bought, '')} against {_with(left, '')}")
    if not parts:
        return ()
    return (f"Median length in actions [95 % interval], with a purchase against without: {'; '.join(parts)}.",)


def _sentence(difference: GroupDifference) -> str:
    """One comparison in words: both values with their counts, the difference, and whether it is real."""
    pairs = zip(difference.values, difference.cases, strict=True)
    first, second = (value_words(difference.kind, value, cases) for value, cases in pairs)
    low, high = (_signed(end, difference.kind) for end in (difference.low, difference.high))
    points = f"{_SPACE}points" if difference.kind == "share" else ""
    sized = f"{_signed(difference.difference, difference.kind)}{points} (95{_SPACE}% interval {low} to {high})"
    head, tail = WORDS[difference.verdict]
    compared = f"{difference.what}: {difference.first} {first}; {difference.second} {second}"
    return f"{head}, {compared}. The difference is {sized}{tail}."


WORDS = {
    "real": ("Real difference", ""),
    "by chance?": ("May be chance", "; one such difference among so many comparisons can be chance"),
    "not shown": ("No difference shown", "; the log also fits no difference"),
    "too few": ("Too few to compare", ""),
}
"""A verdict in words, and what a sentence adds."""


def value_words(kind: Kind, value: float | None, cases: tuple[int, int]) -> str:
    """A value with what it was counted from; of few sessions the counts alone."""
    y, n = cases
    if kind == "mean":
        return f"{value:.3g} ({y:,} in {n:,})" if value is not None else "none"
    if value is None or n < COUNTS_BELOW:
        return f"{y:,} of {n:,}"
    return f"{value:.{2 if value < 10 else 1}f}{_SPACE}% ({y:,} of {n:,})"


def _signed(value: float | None, kind: str) -> str:
    digits = 2 if kind == "mean" or abs(value or 0) < 10 else 1
    return f"{value or 0:+.{digits}f}".replace("-", "−")


def _number(cell: StatisticCell) -> bool:
    return isinstance(cell.value, (int, float))


def _with(cell: StatisticCell, unit: str = f"{_SPACE}%") -> str:
    """A number with its interval, in as many digits as say something."""
    whole = isinstance(cell.value, int)
    digits = 0 if whole else 2 if float(cell.value or 0) < 10 else 1
    number = f"{float(cell.value or 0):,.{digits}f}{unit}"
    if cell.low is None or cell.high is None:
        return number
    return f"{number} [{cell.low:,.{digits}f}{_SPACE}…{_SPACE}{cell.high:,.{digits}f}]"


_MEASURES = (
    ("roc_auc", "ROC-AUC", "max"),
    ("pr_auc", "PR-AUC", "max"),
    ("brier", "Brier", "min"),
    ("ece", "ECE", "min"),
)


ALL_BOUGHT = "all bought"
"""The row of the constant classifier, beside which every F1 is to be read."""
_ALL_BOUGHT_NOTE = (
    "All bought: every session is called a purchase, without a look. F1 is 2π / (1 + π), π the share that buys."
)


def f1_table(summary: Summary, setting: str, scheme: str = "grouped") -> Table:
    """F1 in per cent, a row per model and feature set, a column per step; last, calling every session a purchase."""
    # The last row is of the sessions that were drawn, so the temporal split, which tests a fifth of them, has none.
    rows_by_key = _by_key(summary)
    steps = sorted({row.step for row in summary.rows if (row.setting, row.scheme) == (setting, scheme)})
    rows: list[list[Cell]] = []
    for model in plots.models_of(summary):
        for feature_set in FEATURE_SETS:
            cells = [rows_by_key.get((setting, scheme, model, feature_set, step)) for step in steps]
            rows.append(
                [TITLES[model], feature_set, *(None if cell is None else _percent(cell, "f1") for cell in cells)]
            )
    if scheme != "temporal":
        rows.append([ALL_BOUGHT, "none", *[100 * all_bought(_share(summary, setting))["f1"]] * len(steps)])
    return Table.of(
        [Column("model"), Column("features"), *(Column(str(step), 1, best="max") for step in steps)],
        rows,
        caption=f"F1 by step, {setting} ({scheme} {'split' if scheme == 'temporal' else 'folds'})",
        notes=(
            "Percent, of the purchase class, mean over folds; a balanced chance of ½ or more counts as a purchase.",
            *([] if scheme == "temporal" else [_ALL_BOUGHT_NOTE]),
        ),
    )


def measures_table(summary: Summary, setting: str, step: int) -> Table:
    """All measures at one step, grouped folds."""
    rows: list[list[Cell]] = [
        [TITLES[row.model], row.feature_set, _percent(row, "f1"), 100 * row.low, 100 * row.high]
        + [_percent(row, name) for name, _, _ in _MEASURES]
        for row in summary.rows
        if (row.setting, row.scheme, row.step) == (setting, "grouped", step)
    ]
    constant = {name: 100 * value for name, value in all_bought(_share(summary, setting)).items()}
    rows.append([ALL_BOUGHT, "none", constant["f1"], None, None, *(constant.get(name) for name, _, _ in _MEASURES)])
    heads = [Column(title, 1, best=best) for _, title, best in _MEASURES]  # type: ignore[arg-type]
    return Table.of(
        [Column("model"), Column("features"), Column("F1", 1, best="max"), Column("from", 1), Column("to", 1), *heads],
        rows,
        caption=f"Step {step}, {setting}",
        notes=(
            "All × 100; F1 with its 95 % interval. Brier score and calibration error (ECE) are those of chances at the "
            "share that really buys.",
            _ALL_BOUGHT_NOTE,
        ),
    )


def comparison_table(summary: Summary, setting: str, measure: str = "f1") -> Table:
    """Extended minus baseline, a row per model, a column per step; what is significant is starred."""
    title = {"f1": "F1", "roc_auc": "ROC-AUC"}[measure]
    comparisons = {
        (comparison.model, comparison.step): comparison
        for comparison in summary.comparisons
        if (comparison.setting, comparison.measure) == (setting, measure)
    }
    steps = sorted({step for _, step in comparisons})
    rows = [
        [
            TITLES[model],
            *(_starred(comparisons[model, step]) if (model, step) in comparisons else None for step in steps),
        ]
        for model in plots.models_of(summary)
    ]
    return Table.of(
        [Column("model"), *(Column(str(step)) for step in steps)],
        rows,
        caption=f"{title} of the extended set minus that of the baseline, {setting}",
        notes=(
            "Points by step. * p < 0.05: paired over folds, corrected resampled t-test (Nadeau & Bengio), Holm "
            "over all models, steps and measures of the setting. ° not tested: the same in every fold, or F1 against a "
            "baseline that calls every session a purchase.",
        ),
    )


def optimism_table(summary: Summary) -> Table:
    """Ungrouped folds minus grouped ones, and the temporal split minus grouped folds; the extended set."""
    rows_by_key = _by_key(summary)
    rows = []
    for optimism in summary.optimism:
        temporal = rows_by_key.get((optimism.setting, "temporal", optimism.model, "extended", optimism.step))
        grouped = rows_by_key[optimism.setting, "grouped", optimism.model, "extended", optimism.step]
        later = [_difference(temporal, grouped, measure) for measure in ("f1", "roc_auc")]
        rows.append(
            [optimism.setting, TITLES[optimism.model], optimism.step, 100 * optimism.f1, 100 * optimism.roc_auc, *later]
        )
    signed = [
        Column(name, 1, signed=True)
        for name in ("ungrouped, F1", "ungrouped, ROC-AUC", "temporal, F1", "temporal, ROC-AUC")
    ]
    return Table.of(
        [Column("setting"), Column("model"), Column("step", 0), *signed],
        rows,
        caption="Other ways to split, against grouped folds",
        notes=("Points. Ungrouped: a person's other sessions may be trained on. Temporal: one split, so no interval.",),
    )


def write_intent_report(
    path: str | Path, summary: Summary, command: Sequence[str] = (), *, replace: bool = False
) -> Path:
    """Write the page of a prediction study and return its path."""
    settings = plots.settings_of(summary)
    f1_tables = [f1_table(summary, setting) for setting in settings]
    comparisons = [comparison_table(summary, setting, measure) for measure in COMPARED for setting in settings]
    sections = [
        Section("steps", "F1 over the steps of a session", [_f1_figure(summary), *f1_tables], short="Over steps"),
        Section("more", "What more features bring", comparisons),
    ]
    if importances := _importances(summary):
        sections.append(Section("importance", "What the random forest goes by", importances, short="Importance"))
    sections.append(Section("measures", "All measures", _measures(summary)))
    if splits := _splits(summary):
        sections.append(Section("splits", "Other ways to split", splits, short="Other splits"))
    code: list[Block] = [Code(shlex.join(command))] if command else []
    sections.append(Section("protocol", "Protocol", [Definitions(_card(summary)), *code]))
    facts = [
        inline(
            "{} <b>{}</b> sessions, <b>{}</b> with a purchase",
            setting,
            f"{counts['sessions']:,}",
            f"{counts['purchases']:,}",
        )
        for setting, counts in summary.card["drawn"].items()
    ]
    if "purchases" in summary.card:  # a study of an earlier visir has no such counts
        facts.append(inline("{}", PurchaseUse.of(summary.card["purchases"]).sentence))
    return write_page(path, Page("purchase intent", _title(summary), sections, facts), replace=replace)


def _f1_figure(summary: Summary) -> Figure:
    """Figure 6.7, under a heading that says its title."""
    title = "F1 over the steps of a session"
    caption = (
        "Figure 6.7. Solid and filled: extended feature set; dashed and hollow: baseline. Mean over grouped folds. "
        "At step 0 the anonymous baseline knows nothing: every session is called a purchase, which scores what the "
        "dotted line says. The thesis prints F1 alone; the other measures below are not its own."
    )
    return _figure(plots.f1_over_steps(summary), "f1", title, caption).untitled()


def _importances(summary: Summary) -> list[Block]:
    """Figure 6.6: what the forest goes by in each setting, and the share of static features."""
    figures: list[Block] = [
        _figure(
            plots.importances(summary, setting),
            f"importance-{setting}",
            f"What the random forest goes by: {setting}",
            "Figure 6.6. Extended set, mean over steps and folds. Impurity favours features of many values; of two "
            "features that say the same, shuffling shows neither.",
        )
        for setting in plots.settings_of(summary)
        if setting in summary.importance.get("impurity", {})
    ]
    if figures and summary.static_share:
        caption = "Figure 6.6, bottom: share of impurity importance, anonymous setting."
        figures.append(_figure(plots.static_share(summary), "static", "Static features over the session", caption))
    return figures


def _measures(summary: Summary) -> list[Block]:
    """All measures at the first steps and at the last."""
    steps = sorted({row.step for row in summary.rows if row.scheme == "grouped"})
    shown = [step for step in (0, 1, steps[-1]) if step in steps] if steps else []
    return [measures_table(summary, setting, step) for step in shown for setting in plots.settings_of(summary)]


def _splits(summary: Summary) -> list[Block]:
    """F1 under the temporal split, and how much other splits flatter."""
    tables: list[Block] = [
        f1_table(summary, setting, "temporal")
        for setting in plots.settings_of(summary)
        if any((row.setting, row.scheme) == (setting, "temporal") for row in summary.rows)
    ]
    return [*tables, optimism_table(summary)] if summary.optimism else tables


def _card(summary: Summary) -> list[tuple[str, str]]:
    """The protocol, as names and values."""
    plan, log = summary.card["plan"], summary.card["log"]
    sample = plan["samples"][0]
    setting_from = {"start": "its first request", "session": "the whole session (selects by the future)"}[
        sample["setting_from"]
    ]
    return [
        ("log", f"{log['mapping']}; hours in {log['zone']}; sessions end after {log['idle_minutes']:g} idle minutes"),
        (
            "examples",
            f"sessions of at least {sample['min_pages']} pages ({sample['counted_pages']}); the setting follows from "
            f"{setting_from}",
        ),
        (
            "steps",
            "pages opened so far; dwell times of "
            + (
                "the pages left by then"
                if sample.get("dwell_times", "left pages") == "left pages"
                else "the current page too"
            ),
        ),
        ("history", "sessions of the customer that were over, idle time included, before this one began"),
        ("learnt features", "page and device chains, conversion rates, switch matrix: from training folds alone"),
        ("folds", f"{plan['folds']}, by person (visitors and customers tied by logins), dealt by a seeded hash"),
        ("class weights", "inverse to frequency in every model; a balanced chance of ½ or more counts as a purchase"),
        ("intervals", "95 %, corrected for folds that share training sessions (Nadeau & Bengio 2003)"),
        ("seed", str(plan["seed"])),
        ("made by", ", ".join(f"{name} {version}" for name, version in summary.card["versions"].items())),
        ("processor time", f"{summary.seconds:,.0f} s"),
    ]


def _title(summary: Summary) -> str:
    """By the settings; the protocol names the log by its mapping."""
    return f"Purchase intent, page by page: {' and '.join(plots.settings_of(summary))} sessions"


def _figure(plot: Plot, name: str, title: str, caption: str) -> Figure:
    return Figure(themed(plot, name, title), title, caption)


def _starred(comparison: FeatureSetComparison) -> str:
    mark = "°" if isnan(comparison.corrected) else "*" if comparison.corrected < 0.05 else ""
    return f"{100 * comparison.difference:+.1f}{mark}"


def _difference(row: SummaryRow | None, other: SummaryRow, measure: str) -> float | None:
    value = None if row is None else _percent(row, measure)
    other_value = _percent(other, measure)
    return None if value is None or other_value is None else value - other_value


def _by_key(summary: Summary) -> dict[tuple[str, str, str, str, int], SummaryRow]:
    return {(row.setting, row.scheme, row.model, row.feature_set, row.step): row for row in summary.rows}


def _share(summary: Summary, setting: str) -> float:
    """The share of purchases among the sessions of a setting."""
    drawn = summary.card["drawn"][setting]
    return float(drawn["purchases"] / drawn["sessions"])


def _percent(row: SummaryRow, measure: str) -> float | None:
    value = row.means[measure]
    return None if value is None else 100 * value
