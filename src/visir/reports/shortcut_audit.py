"""The shortcut audit as a table, a plot and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.reports.page import Block, Paragraph, Section, inline
from visir.reports.plots import DASHES, FAINT, INK, MARKERS, SERIES, drawing, line
from visir.reports.report import Chart, StudyReport
from visir.reports.table import Column, Table
from visir.studies.shortcut_audit import Audit

if TYPE_CHECKING:
    from visir.reports.plot import Plot

Floats = NDArray[np.float64]


def audit_table(audit: Audit) -> Table:
    """One row per number of bits: rsum without and with the shortcuts, and what was lost."""
    zero = audit.without[list(audit.bits).index(0)]
    rows: list[tuple[str | float | None, ...]] = [("no shortcuts", _spread(audit.baseline), None, None)]
    for bits, without, present in zip(audit.bits, audit.without, audit.with_shortcuts, strict=True):
        lost = 100 * float(((zero - without) / zero).mean())
        rows.append((f"{bits} bits", _spread(without), _spread(present), lost if bits else None))
    seeds = f"{len(audit.seeds)} seeds, ± their standard deviation" if len(audit.seeds) > 1 else "one seed"
    return Table.of(
        [
            Column("trained with"),
            Column("rsum without", 1),
            Column("rsum with", 1),
            Column("lost, %", 1),
        ],
        rows,
        caption=f"Shortcut audit of {audit.name}",
        notes=(
            f"rsum of 600; {seeds}. Lost: of what is found without shortcuts, against training with 0 bits.",
            f"Lost per bit: {_spread(audit.loss_per_bit, 2)} % of retrieval.",
        ),
    )


def audit_plot(audit: Audit) -> Plot:
    """rsum over the bits, without and with the shortcuts, as a complete SVG document."""
    # Every seed is a thin line, their mean a thick one; the baseline is dotted.
    with drawing(5.6, 3.3) as (figure, axes):
        for number, (label, values) in enumerate(
            (("evaluated with the shortcuts", audit.with_shortcuts), ("evaluated without", audit.without))
        ):
            for seed in values.T:
                if len(audit.seeds) > 1:
                    axes.plot(audit.bits, seed, color=SERIES[number], alpha=0.35, linewidth=0.8)
            axes.plot(
                audit.bits,
                values.mean(1),
                **line(number, marker=MARKERS[number], markersize=4.5, linewidth=1.8, label=label),
            )
        axes.axhline(audit.baseline.mean(), color=INK, linewidth=1.2, linestyle=DASHES[2], label="never any shortcuts")
        axes.axhline(600, color=FAINT, linewidth=0.8)
        axes.set_ylim(0, 615)
        axes.set_xticks(list(audit.bits))
        axes.set(xlabel="bits of shortcut in training", ylabel="rsum")
        figure.legend(loc="outside upper center", ncols=3, fontsize=8.5)
        return figure


def audit_report(audit: Audit) -> StudyReport:
    """What a training loses to shortcuts."""
    seeds = f", {len(audit.seeds)} seeds" if len(audit.seeds) > 1 else ""
    number = inline("<b>{} %</b> of retrieval, up to {} bits{}", _spread(audit.loss_per_bit, 2), max(audit.bits), seeds)
    lead = inline(
        "In training, every image and its captions carried a number of so many bits that says nothing of what they "
        "show. The figure is the slope of what retrieval <em>without</em> such numbers lost by it."
    )
    chart = Chart(
        "audit",
        lambda: audit_plot(audit),
        caption="An objective that keeps what it could learn without the shortcut stays level when evaluated without; "
        "one that cheats falls. Zero bits are a constant number on every picture and caption.",
        label="rsum over bits of shortcut",
    )
    numbers: list[Block] = [Paragraph(number, "total"), Paragraph(lead, "lead"), audit_table(audit)]
    sections = [
        Section("number", "Lost per bit of shortcut", numbers),
        Section("plot", "Retrieval over bits", [chart]),
    ]
    return StudyReport("shortcut audit", audit.name, sections)


def _spread(values: Floats, digits: int = 1) -> str:
    """The mean over seeds and, of several, ± the standard deviation."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"
