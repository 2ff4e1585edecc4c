"""The probe report: what its tables say, what is drawn, and that its page runs and fetches nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from visir.evaluation.probes import ProbedFact, ProbeReading, ProbeResult, RoleMean
from visir.reports.formats import to_markdown
from visir.reports.plot import Plot
from visir.reports.plots import to_svg
from visir.reports.probes import fact_dots, facts_table, probe_report, role_means, roles_table

HOSTILE = "<script>alert(1)</script>"


def result(*, shortcut: bool = True, name: str = "companion_colour") -> ProbeResult:
    high, low = ProbeReading(0.9, 0.85, 0.93, 0.25, 200), ProbeReading(0.24, 0.19, 0.30, 0.25, 200)
    facts = [
        ProbedFact("subject", "shared", 22, {"image": high, "told": high}),
        ProbedFact(name, "specific", 8, {"image": low, "told": high, "untold": low}),
        ProbedFact("facing", "irrelevant", 2, {"image": low, "untold": low}),
    ]
    roles = [
        RoleMean("shared", "image", 1, 0.87, 0.8, 0.91),
        RoleMean("shared", "told", 1, 0.87, 0.8, 0.91),
        RoleMean("specific", "image", 1, -0.013, -0.08, 0.06),
        RoleMean("specific", "told", 1, 0.87, 0.8, 0.91),
        RoleMean("irrelevant", "image", 1, -0.013, -0.08, 0.06),
    ]
    if shortcut:
        facts.append(ProbedFact("digit 6", "shortcut", 10, {"image": high, "told": high}))
        roles.append(RoleMean("shortcut", "image", 1, 0.87, 0.8, 0.91))
    return ProbeResult(
        "scenes", "generated scenes, seed 1, 64 px", "f" * 32, 200, 1000, "unique" if shortcut else "", "net", "net",
        128, 128, 5, 0, tuple(facts), tuple(roles),
    )  # fmt: skip


def words(plot: Plot) -> set[str]:
    return {"".join(one.itertext()) for one in ET.fromstring(to_svg(plot)).iter("{http://www.w3.org/2000/svg}text")}


def test_the_table_of_facts() -> None:
    table = facts_table(result())
    assert table.caption == "net on scenes"
    assert table.texts()[1] == ["companion_colour", "specific", "8", "25.0", "24.0", "90.0", "24.0"]
    assert [row[-1] for row in table.texts()] == ["–", "24.0", "24.0", "–"]  # everybody tells a shared fact
    # The widest interval is 0.19 to 0.30, half of it 5.5 points.
    assert "at most ±5.5" in table.notes[-1] and "200 images" in table.notes[-1]
    assert facts_table(result(), intervals=True).texts()[0][4] == "90.0 (85.0 to 93.0)"


def test_the_table_of_roles() -> None:
    # 87 − 80 = 7 is farther than 91 − 87 = 4.
    assert roles_table(result()).texts()[0] == ["shared", "1", "87.0 ±7.0", "87.0 ±7.0", "–"]
    assert roles_table(result(), intervals=True).texts()[1][2] == "-1.3 (-8.0 to 6.0)"
    assert [row[0] for row in roles_table(result(shortcut=False)).rows] == ["shared", "specific", "irrelevant"]
    assert "| shortcut" in to_markdown(roles_table(result()))


def test_every_fact_and_role_is_drawn_and_named() -> None:
    drawn = words(fact_dots(result()))
    assert {"subject", "companion colour", "facing", "digit 6", "image", "caption telling it", "chance"} <= drawn
    assert {"shared: every caption tells it", "shortcut: digits of a number"} <= drawn
    assert "shortcut: digits of a number" not in words(fact_dots(result(shortcut=False)))
    assert {"shared", "1 fact", "shortcut", "from chance (0) to perfect, %"} <= words(role_means(result()))
    only_images = replace(
        result(), facts=tuple(replace(one, readings={"image": one.readings["image"]}) for one in result().facts)
    )
    assert "caption telling it" not in words(fact_dots(only_images))


def test_the_page_is_one_file_that_runs_and_fetches_nothing(tmp_path: Path) -> None:
    made = result(name=HOSTILE)
    page = probe_report(made).write(
        tmp_path / "a.html", command=f"visir probe {HOSTILE}", beside={"probes.json": "all"}
    )
    text = page.read_text("utf-8")
    assert probe_report(made).write(
        tmp_path / "b.html", command=f"visir probe {HOSTILE}", beside={"probes.json": "all"}
    ).read_bytes() == page.read_bytes()  # fmt: skip
    assert "<script" not in text and "&lt;script&gt;" in text
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", text)
    assert "default-src 'none'" in text
    for part in ("net on scenes", "shortcuts <b>unique</b>", "5 folds", "probes.json", "90.0 (85.0 to 93.0)"):
        assert part in text, part
    assert "shortcuts <b>none</b>" in probe_report(result(shortcut=False)).write(tmp_path / "c.html").read_text("utf-8")
