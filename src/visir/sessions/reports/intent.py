"""A prediction study of purchase intent as tables and one HTML page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from visir.reports.page import Block, Definitions, Fold, Section, inline
from visir.reports.plots import DASHES, INK, SERIES, drawing, plot_blocks
from visir.reports.report import Chart, StudyReport
from visir.reports.table import Cell, Column, Table
from visir.sessions.features import FEATURE_SETS
from visir.sessions.prediction.models import TITLES, all_bought
from visir.sessions.prediction.purchase_model import PurchaseUse
from visir.sessions.prediction.study import COMPARED, FeatureSetComparison, Summary, SummaryRow, load_study, summarise

if TYPE_CHECKING:
    from visir.reports.plot import Plot


# Plots of a prediction study: F1 over steps (Figure 6.7) and what the forest goes by (Figure 6.6).

MARKERS = ("o", "s", "^", "D", "v", "P")


def f1_over_steps(summary: Summary, scheme: str = "grouped") -> Plot:
    """A panel per setting, a colour and marker per model; extended sets solid, baseline sets dashed and hollow."""
    # Dotted: what calling every session a purchase scores.
    settings = settings_of(summary)
    with drawing(4.6 * len(settings), 4.2, columns=len(settings)) as (figure, several):
        panels = [several] if len(settings) == 1 else list(several)
        for axes, setting in zip(panels, settings, strict=True):
            for number, model in enumerate(models_of(summary)):
                for feature_set in FEATURE_SETS:
                    rows = [
                        row
                        for row in summary.rows
                        if (row.setting, row.scheme, row.model, row.feature_set)
                        == (setting, scheme, model, feature_set)
                    ]
                    solid = feature_set == "extended"
                    axes.plot(
                        [row.step for row in rows],
                        [row.means["f1"] for row in rows],
                        color=SERIES[number],
                        linestyle="-" if solid else DASHES[1],
                        marker=MARKERS[number],
                        markersize=4.5,
                        fillstyle="full" if solid else "none",
                        linewidth=1.7 if solid else 1.2,
                        label=TITLES[model] if solid else None,
                    )
            drawn = summary.card["drawn"][setting]
            share = drawn["purchases"] / drawn["sessions"]
            axes.axhline(all_bought(share)["f1"], color=INK, linestyle=DASHES[2], linewidth=1.4)
            axes.set_title(setting, loc="left")
            axes.set_xlabel("step: pages opened so far")
            axes.xaxis.get_major_locator().set_params(integer=True)
        panels[0].set_ylabel("F1 of the purchase class")
        panels[0].plot([], [], color=INK, label="extended")
        panels[0].plot([], [], color=INK, linestyle=DASHES[1], label="baseline")
        panels[0].plot([], [], color=INK, linestyle=DASHES[2], label="all called a purchase")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside upper center",
            ncols=9 if len(settings) > 1 else 3,
            fontsize=8.5,
            columnspacing=1.1,
        )
        return figure


def importances(summary: Summary, setting: str) -> Plot:
    """Two bars per feature: impurity importance, and what ROC-AUC loses when the feature is shuffled."""
    impurity = summary.importance["impurity"][setting]
    permutation = summary.importance["permutation"][setting]
    names = sorted(impurity, key=lambda name: impurity[name])
    with drawing(7.4, 0.9 + 0.34 * len(names), columns=2) as (figure, (left, right)):
        left.barh(names, [100 * impurity[name] for name in names], color=SERIES[0], height=0.62)
        right.barh(names, [100 * permutation[name] for name in names], color=SERIES[1], height=0.62)
        left.set_xlabel("impurity importance, %")
        right.set_xlabel("lost ROC-AUC when shuffled, points")
        right.set_yticklabels([])
        for axes in (left, right):
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="y", visible=False)
        return figure


def static_share(summary: Summary) -> Plot:
    """The share of importance that static features have, over steps; anonymous setting, random forest."""
    with drawing(4.6, 2.8) as (figure, axes):
        steps = list(summary.static_share)
        shares = [100 * share for share in summary.static_share.values()]
        axes.plot(steps, shares, color=SERIES[0], marker="o", linewidth=1.8)
        axes.set_ylim(0, 104)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set(xlabel="step: pages opened so far", ylabel="static features, %")
        return figure


def settings_of(summary: Summary) -> list[str]:
    """The settings of a study that have cells."""
    return list(dict.fromkeys(row.setting for row in summary.rows))


def models_of(summary: Summary) -> list[str]:
    """The models of a study, in the order of its plan."""
    return [model for model in summary.card["plan"]["models"] if any(row.model == model for row in summary.rows)]


# Its tables.


_MEASURES: tuple[tuple[str, str, Literal["max", "min"]], ...] = (
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
    for model in models_of(summary):
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
    columns = [Column("model"), Column("features"), Column("F1", 1, "max"), Column("from", 1), Column("to", 1)]
    return Table.of(
        [*columns, *(Column(title, 1, best) for _, title, best in _MEASURES)],
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
        for model in models_of(summary)
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

    def later(measure: str) -> Callable[[Any], Any]:
        def difference(row: Any) -> float | None:
            temporal = rows_by_key.get((row.setting, "temporal", row.model, "extended", row.step))
            grouped = rows_by_key[row.setting, "grouped", row.model, "extended", row.step]
            values = [None if of is None else _percent(of, measure) for of in (temporal, grouped)]
            return None if values[0] is None or values[1] is None else values[0] - values[1]

        return difference

    columns = [
        *(Column("setting", of="setting"), Column("model", of=lambda row: TITLES[row.model])),
        Column("step", 0, of="step"),
        Column("ungrouped, F1", 1, signed=True, of="f1", scale=100),
        Column("ungrouped, ROC-AUC", 1, signed=True, of="roc_auc", scale=100),
        Column("temporal, F1", 1, signed=True, of=later("f1")),
        Column("temporal, ROC-AUC", 1, signed=True, of=later("roc_auc")),
    ]
    note = "Points. Ungrouped: a person's other sessions may be trained on. Temporal: one split, so no interval."
    return Table.over(summary.optimism, columns, caption="Other ways to split, against grouped folds", notes=[note])


def intent_report(summary: Summary) -> StudyReport:
    """What a prediction study says: F1 over steps, what more features bring, what folds flatter."""
    settings = settings_of(summary)
    curves = Chart(
        "f1",
        lambda: f1_over_steps(summary),
        caption="Figure 6.7. Solid and filled: extended feature set; dashed and hollow: baseline. Mean over grouped "
        "folds. At step 0 the anonymous baseline knows nothing: every session is called a purchase, which scores what "
        "the dotted line says. The thesis prints F1 alone; the other measures below are not its own.",
        label="F1 over the steps of a session",
    )
    sections = [
        Section(
            *("steps", "F1 over the steps of a session"),
            [curves, *(f1_table(summary, setting) for setting in settings)],
            short="Over steps",
        ),
        Section(
            *("more", "What more features bring"),
            [comparison_table(summary, setting, measure) for measure in COMPARED for setting in settings],
        ),
        Section("importance", "What the random forest goes by", _importances(summary), "Importance"),
        Section("measures", "All measures", _measures(summary)),
        Section("splits", "Other ways to split", _splits(summary), "Other splits"),
        Section("protocol", "Protocol", [Definitions(_card(summary))]),
    ]
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
    # By the settings; the protocol names the log by its mapping.
    title = f"Purchase intent, page by page: {' and '.join(settings)} sessions"
    return StudyReport("purchase intent", title, sections, facts)


def _importances(summary: Summary) -> list[Block]:
    """Figure 6.6: what the forest goes by in each setting, and the share of static features."""
    charts: list[Block] = [
        Chart(
            f"importance-{setting}",
            partial(importances, summary, setting),
            f"What the random forest goes by: {setting}",
            "Figure 6.6. Extended set, mean over steps and folds. Impurity favours features of many values; of two "
            "features that say the same, shuffling shows neither.",
        )
        for setting in settings_of(summary)
        if setting in summary.importance.get("impurity", {})
    ]
    if charts and summary.static_share:
        caption = "Figure 6.6, bottom: share of impurity importance, anonymous setting."
        draw = partial(static_share, summary)
        charts.append(Chart("static", draw, "Static features over the session", caption))
    return charts


def _measures(summary: Summary) -> list[Block]:
    """All measures at the first steps and at the last."""
    steps = sorted({row.step for row in summary.rows if row.scheme == "grouped"})
    shown = [step for step in (0, 1, steps[-1]) if step in steps] if steps else []
    return [measures_table(summary, setting, step) for step in shown for setting in settings_of(summary)]


def _splits(summary: Summary) -> list[Block]:
    """F1 under the temporal split, and how much other splits flatter."""
    tables: list[Block] = [
        f1_table(summary, setting, "temporal")
        for setting in settings_of(summary)
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


def _starred(comparison: FeatureSetComparison) -> str:
    mark = "°" if isnan(comparison.corrected) else "*" if comparison.corrected < 0.05 else ""
    return f"{100 * comparison.difference:+.1f}{mark}"


def _by_key(summary: Summary) -> dict[tuple[str, str, str, str, int], SummaryRow]:
    return {(row.setting, row.scheme, row.model, row.feature_set, row.step): row for row in summary.rows}


def _share(summary: Summary, setting: str) -> float:
    """The share of purchases among the sessions of a setting."""
    drawn = summary.card["drawn"][setting]
    return float(drawn["purchases"] / drawn["sessions"])


def _percent(row: SummaryRow, measure: str) -> float | None:
    value = row.means[measure]
    return None if value is None else 100 * value


# A prediction study: F1 over the steps of a session, and all measures.


def blocks(summary: Summary) -> list[Block]:
    """The plot, and tables of each setting folded."""
    grouped = [row for row in summary.rows if row.scheme == "grouped"]
    shown: list[Block] = [*plot_blocks(plot(summary))] if grouped else []
    steps = sorted({row.step for row in grouped})
    for setting in settings_of(summary):
        shown.append(Fold(f"F1 by step, {setting}", [f1_table(summary, setting)]))
        shown += [
            Fold(f"All measures, {setting}, step {step}", [measures_table(summary, setting, step)])
            for step in dict.fromkeys([*steps[:1], *steps[-1:]])
        ]
    return shown


def table(summary: Summary) -> Table:
    """F1 in percent by step, of the first setting."""
    return f1_table(summary, settings_of(summary)[0])


def arrow(summary: Summary) -> pa.Table:
    """One row per setting, scheme, model, feature set and step, with every measure."""
    rows = [
        {
            "setting": row.setting,
            "scheme": row.scheme,
            "model": row.model,
            "features": row.feature_set,
            "step": row.step,
            "folds": row.folds,
            **row.means,
        }
        for row in summary.rows
    ]
    return pa.Table.from_pylist(rows)


def plot(summary: Summary, *, scheme: str = "grouped") -> Plot:
    """F1 over the steps of a session."""
    return f1_over_steps(summary, scheme)


def open_study(folder: str | Path) -> StudyReport:
    """The report of a prediction study, of the cells that are finished."""
    return intent_report(summarise(*load_study(folder)))
