from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from refusals import refused
from visir.errors import VisirError
from visir.reports import plots
from visir.reports.evaluation import chance_curve
from visir.reports.plot import Plot
from visir.reports.plots import themed, to_svg

RANKS = {"i2t": np.array([1.0, 3, 5, np.inf]), "t2i": np.array([1.0, 1, 2, 40])}


def drawn() -> dict[str, str]:
    return {name: to_svg(plot) for name, plot in figures().items()}


def figures() -> dict[str, Plot]:
    return {
        "curves": plots.hit_curves(RANKS, chance={"t2i": chance_curve(np.ones(4, np.int64), 100, 40)}),
        "bands": plots.rank_distribution(RANKS),
        "named": plots.rank_distribution({"A & <B>": RANKS["i2t"], "$C$": RANKS["t2i"]}),
        "training": plots.training_curves([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0, "val R@1": 0.3}]),
    }


@pytest.fixture(scope="module")
def plotted() -> dict[str, str]:
    return drawn()


def texts(plot: Plot | str) -> list[str]:
    svg = plot if isinstance(plot, str) else to_svg(plot)
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_same_input_same_bytes_and_small(plotted):
    first = plotted
    assert drawn() == first
    assert {name: len(svg) < 200_000 for name, svg in first.items()} == dict.fromkeys(first, True)
    assert not any(re.search(r"<dc:date>|\d{4}-\d\d-\d\d", svg) for svg in first.values())


def test_text_stays_text_and_names_are_escaped(plotted):
    assert {"A & <B>", "$C$"} <= set(texts(plotted["named"]))
    assert not any("mathdefault" in one for svg in plotted.values() for one in texts(svg))
    assert "text → image" in texts(plotted["curves"])


def test_not_found_is_a_band_of_its_own():
    # i2t: 1 | 3–5 (twice) | not found, of four queries: 25, 50 and 25 %. "not found" is set on two lines.
    labels = texts(plots.rank_distribution({"i2t": RANKS["i2t"]}))
    assert {"1", "2", "3–5", "not", "found", "25", "50"} <= set(labels)
    assert "not" not in texts(plots.rank_distribution({"t2i": RANKS["t2i"]}))


def test_empty_histories_are_refused():
    with refused(VisirError, code="history-holds-no-numbers"):
        plots.training_curves([{"epoch": 1, "note": "x"}])


def test_times_and_learning_rates_are_not_drawn_as_measures():
    labels = texts(plots.training_curves([{"step": 1, "loss": 2.0, "lr": 1e-3, "seconds": 5.0, "val_rsum": 100.0}]))
    assert "val_rsum" in labels and "lr" not in labels and "seconds" not in labels


def test_nested_validation_is_taken_apart_and_rsum_has_a_scale_of_its_own():
    history = [
        {"epoch": n, "loss": 2.0 / n, "rate": 9.0, "validation": {"t2i hit@1": 30.0, "i2t hit@1": 40.0, "rsum": 300.0}}
        for n in (1, 2)
    ]
    labels = texts(plots.training_curves(history))
    assert {"loss", "validation", "t2i hit@1", "i2t hit@1", "rsum", "epoch"} <= set(labels)
    assert "rate" not in labels


def test_chance_curve_by_hand():
    # One positive of four: k/4. Two of four: 1 - C(2, k)/C(4, k) = 1 - 2/4, 1 - 1/6, 1, 1.
    assert chance_curve(np.array([1]), 4, 4) == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert chance_curve(np.array([2]), 4, 4) == pytest.approx([0.5, 5 / 6, 1.0, 1.0])
    assert chance_curve(np.array([1, 2]), 4, 2) == pytest.approx([0.375, 2 / 3])


def test_a_themed_plot_takes_its_colours_from_the_page(plotted):
    fragment = themed(figures()["curves"], "p1", 'a "label" & more')
    root = ET.fromstring(fragment.replace("xlink:href", "href"))
    assert root.attrib["role"] == "img" and root.attrib["aria-label"] == 'a "label" & more'
    assert "var(--plot-1, #0072B2)" in fragment
    assert not re.search(r"(?<!, )#0072b2", fragment, re.IGNORECASE)
    assert "<style" not in fragment and "<metadata" not in fragment
    ids = re.findall(r' id="([^"]+)"', fragment)
    assert len(ids) == len(set(ids)) and all(one.startswith("p1-") for one in ids)
    referred = set(re.findall(r'(?:url\(|href=")#([^)"]+)', fragment))
    assert referred == set(ids)


def test_matplotlib_settings_are_left_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.rank_distribution(RANKS)
    assert dict(matplotlib.rcParams) == before
