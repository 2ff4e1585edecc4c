"""An online test: the page, the view in a notebook, and the sentences that say what to do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from visir.reports.page import Block, Group, Notice, Paragraph, Section
from visir.reports.plots import FAINT, SERIES, drawing
from visir.reports.report import Chart, StudyReport
from visir.reports.table import Column, Table
from visir.sessions.online.ab_test import LEAST_OUTCOMES, TRUSTED, AbTest, VariantEffect
from visir.storage import FolderKind

if TYPE_CHECKING:
    from visir.reports.plot import Plot

AB_TEST = FolderKind("ab-test", "a read-out of an online test")


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
    total = sum(variant.units for variant in test.variants) or 1
    columns = [
        Column("variant", of=lambda variant: variant.name + (" (control)" if variant.name == test.control else "")),
        *(Column("sessions", 0, of="sessions"), Column(test.unit, 0, of="units")),
        Column("planned %", 1, of=lambda variant: test.planned_shares[variant.name], scale=100),
        Column("share %", 1, of=lambda variant: variant.units / total, scale=100),
        *(Column("with an outcome", 0, of="positive"), Column(f"mean per {test.unit[:-1]}", 4, of="mean")),
        Column("without outcome", 0, of="without"),
        Column(
            "decisions", of=lambda variant: ", ".join(f"{k} {n:,}" for k, n in variant.decisions.items()) or "not told"
        ),
    ]
    return Table.over(test.variants, columns, caption="Variants")


def effects_table(test: AbTest) -> Table:
    """One row for each variant against the control."""
    base = test.variants[0].mean
    ends = ("low", "high")
    columns = [
        *(Column("variant", of="variant"), Column("result", of="verdict")),
        Column("difference", 4, signed=True, of="difference", ends=ends, interval="interval"),
        Column("relative %", 1, signed=True, of=lambda effect: effect.difference / base if base else None, scale=100),
        Column("p at any time", 4, positive=True, of="p"),
        Column("shown after", 0, of="decided"),
    ]
    return Table.over(test.effects, columns, caption=f"Against {test.control}")


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
        axes.set(xlabel=f"{test.unit} of both variants", ylabel=f"{effect.variant} − {test.control}")
        return figure


def ab_test_report(test: AbTest) -> StudyReport:
    """What an online test says: what to do, the difference over time, and whether it can be trusted."""
    advice = sentences(test)
    first: list[Block] = [Notice(advice, title="What to do")] if not test.is_trusted else [Paragraph(s) for s in advice]
    charts = [
        Chart(
            f"effect-{number}",
            partial(plot, test, effect.variant),
            effect.variant,
            "The line is the difference so far, the band its interval. The band holds the true difference at every "
            "look at once, so the test may stop whenever it leaves 0.",
            f"{effect.variant} against {test.control}, over time",
            in_notebooks=True,
        )
        for number, effect in enumerate(test.effects)
        if sum(look[2] is not None for look in effect.looks) > 1
    ]
    if len(charts) < len(test.effects):
        first.append(Paragraph("With fewer than two looks that have an interval there is no line to draw.", "soft"))
    ratio = (
        f"The planned shares fit the {test.unit} (p = {test.ratio_p:.3g})."
        if test.is_trusted
        else f"The planned shares do not fit the {test.unit}: p = {test.ratio_p:.2g}, below {TRUSTED:g}."
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
        Section("result", "Result", [*first, effects_table(test), *charts]),
        Section("variants", "Variants", [variants_table(test)]),
        Section("checks", "Can the test be trusted?", [Paragraph(check) for check in checks], short="Checks"),
        Section("made", "How it was made", [Group("Method", [Paragraph(line) for line in method])]),
    ]
    return StudyReport(
        *("online test", test.name, sections, {"control": test.control, "error": f"{test.error:g}"}),
        headline=[effects_table(test), variants_table(test)],
        printed=[variants_table(test), *advice],
        files={"ab-test.json": (test.to_dict, "everything on this page, with the interval at every look")},
        folder=AB_TEST,
    )


def blocks(test: AbTest) -> list[Block]:
    """The view in a notebook: what to do, the variants, the difference over time."""
    return ab_test_report(test).blocks()
