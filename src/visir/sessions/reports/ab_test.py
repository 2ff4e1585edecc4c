"""An online test: the page, the view in a notebook, and the sentences that say what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from visir.reports.page import Block, Figure, Group, Notice, Page, Paragraph, Section, inline, production, write_page
from visir.reports.plots import FAINT, SERIES, drawing, themed
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts
from visir.reports.views.plot import blocks as plot_blocks
from visir.sessions.online.ab_test import LEAST_OUTCOMES, TRUSTED, AbTest, VariantEffect

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def sentences(test: AbTest) -> list[str]:
    """What the test says, in words for who decides."""
    warnings = []
    if not test.is_trusted:
        warnings.append(
            f"Do not use this test: its {test.unit} are not spread over the variants as planned "
            f"(p {test.ratio_p:.2g}). Find out why first: a variant that loses visitors or sessions makes every "
            "difference unsafe."
        )
    return [*warnings, *(_sentence(test, effect) for effect in test.effects)]


def _sentence(test: AbTest, effect: VariantEffect) -> str:
    if effect.low is None or effect.high is None:
        zeros = "" if test.amounts else f", and {LEAST_OUTCOMES} with 0"
        return (
            f"{effect.variant} against {test.control}: too early. Each variant needs {LEAST_OUTCOMES} {test.unit} "
            f"with an outcome other than 0{zeros}."
        )
    sized = f"{effect.difference:+.4g} per {test.unit[:-1]} ({effect.low:+.4g} to {effect.high:+.4g})"
    if effect.verdict == "open":
        return f"{effect.variant} against {test.control}: no difference shown so far, {sized}. The test can go on."
    return (
        f"{effect.variant} is {effect.verdict} than {test.control}: {sized}. This was shown first after "
        f"{effect.decided:,} {test.unit}; the test can stop."
    )


def variants_table(test: AbTest) -> Table:
    """One row for each variant: units, outcomes, decisions."""
    columns = [Column("variant"), Column("sessions", 0), Column(test.unit, 0), Column("planned %", 1), Column("%", 1)]
    columns += [Column("with an outcome", 0), Column(f"mean per {test.unit[:-1]}", 4), Column("without outcome", 0)]
    columns += [Column("decisions")]
    total = sum(variant.units for variant in test.variants) or 1
    rows: list[list[Cell]] = [
        [
            variant.name + (" (control)" if variant.name == test.control else ""),
            variant.sessions,
            variant.units,
            100 * test.planned_shares[variant.name],
            100 * variant.units / total,
            variant.positive,
            variant.mean,
            variant.without,
            ", ".join(f"{name} {count:,}" for name, count in variant.decisions.items()) or "not told",
        ]
        for variant in test.variants
    ]
    return Table.of(columns, rows, caption="Variants")


def effects_table(test: AbTest) -> Table:
    """One row for each variant against the control."""
    columns = [Column("variant"), Column("result"), Column("difference", 4, signed=True), Column("interval")]
    columns += [
        Column("relative %", 1, signed=True),
        Column("p at any time", 4, positive=True),
        Column("shown after", 0),
    ]
    base = test.variants[0].mean
    rows: list[list[Cell]] = [
        [
            effect.variant,
            effect.verdict,
            effect.difference,
            None if effect.low is None else f"{effect.low:+.4f} … {effect.high:+.4f}",
            100 * effect.difference / base if base else None,
            effect.p,
            effect.decided,
        ]
        for effect in test.effects
    ]
    return Table.of(columns, rows, caption=f"Against {test.control}")


def plot(test: AbTest, variant: str | None = None) -> Plot:
    """The difference of a variant and its interval, look by look."""
    effect = next(each for each in test.effects if variant in (None, each.variant))
    points = [(n, difference, low, high) for n, difference, low, high in effect.looks if low is not None]
    with drawing(7.6, 3.4) as (figure, axes):
        axes.axhline(0, color=FAINT, linewidth=1)
        if points:
            n, difference, low, high = zip(*points, strict=True)
            axes.fill_between(n, low, high, color=SERIES[0], alpha=0.18, linewidth=0, label="interval at any time")
            axes.plot(n, difference, color=SERIES[0], linewidth=1.8, label="difference so far")
            widest = [value for k, value in enumerate((*low, *high)) if k % len(n) >= len(n) // 10]
            low_end, high_end = min(0, *widest), max(0, *widest)
            margin = 0.08 * (high_end - low_end) or 1
            axes.set_ylim(low_end - margin, high_end + margin)
            figure.legend(loc="outside upper left", ncols=2, fontsize=9)
        axes.set_xlabel(f"{test.unit} of both variants")
        axes.set_ylabel(f"{effect.variant} − {test.control}")
        return figure


def blocks(test: AbTest) -> list[Block]:
    """The view in a notebook: what to do, the variants, the difference over time."""
    units = sum(variant.units for variant in test.variants)
    shown: list[Block] = [facts(test.name, (units, test.unit), f"control {test.control}")]
    shown += [Paragraph(sentence) for sentence in sentences(test)]
    return [*shown, effects_table(test), variants_table(test), *plot_blocks(plot(test))]


def write_ab_test_report(
    path: str | Path, test: AbTest, *, command: str = "", beside: Mapping[str, str] | None = None
) -> Path:
    """Write the page of an online test, and return its path."""
    advice = sentences(test)
    first: list[Block] = [Notice(advice, title="What to do")] if not test.is_trusted else [Paragraph(s) for s in advice]
    figures = [
        Figure(
            themed(
                plot(test, effect.variant), f"effect-{number}", f"{effect.variant} against {test.control}, over time"
            ),
            effect.variant,
            "The line is the difference so far, the band its interval. The band holds the true difference at every "
            "look at once, so the test may stop whenever it leaves 0.",
        )
        for number, effect in enumerate(test.effects)
    ]
    ratio = (
        f"The planned shares fit the {test.unit} (p {test.ratio_p:.3g})."
        if test.is_trusted
        else f"The planned shares do not fit the {test.unit}: p {test.ratio_p:.2g}, below {TRUSTED:g}."
    )
    checks = [ratio, f"{test.several:,} {test.unit} saw several variants; they count for the first."]
    if test.most is not None:
        checks.append(f"{test.cut:,} {test.unit} have more than {test.most:g}; it counts as {test.most:g}.")
    elif test.amounts:
        checks.append(
            "Amounts count as they are. The interval holds where the variants differ in how many buy, or in how much, "
            "but not where one of them changes only how large the very large orders are. Against that, fix the largest "
            "amount that counts before the test (--most)."
        )
    looks = "an hour" if test.timed else "a look at evenly spread lines"
    method = [
        f"Unit: {test.unit}; the outcome of a unit is the sum over its sessions so far. Looks: {looks}.",
        f"Intervals: asymptotic confidence sequences (Waudby-Smith et al. 2024), error {test.error:g} over all looks "
        f"and variants together, narrowest at {test.planned:,} {test.unit}. Nothing is concluded before each variant "
        f"has {LEAST_OUTCOMES} {test.unit} with an outcome."
        + (" The variance of amounts is at least that of all variants together." if test.amounts else ""),
        "Sample ratio: sequential multinomial test (Lindon and Malek 2022), valid at any time.",
    ]
    sections = [
        Section("result", "Result", [*first, effects_table(test), *figures]),
        Section("variants", "Variants", [variants_table(test)]),
        Section("checks", "Can the test be trusted?", [Paragraph(check) for check in checks], short="Checks"),
        Section(
            "made",
            "How it was made",
            [Group("Method", [Paragraph(line) for line in method]), *production(command, beside)],
        ),
    ]
    heading = [inline("control <b>{}</b>", test.control), inline("error <b>{}</b>", f"{test.error:g}")]
    return write_page(path, Page("online test", test.name, sections, heading))
