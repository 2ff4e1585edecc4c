"""`visir.report`: anything that was measured, described again; several side by side. And comparisons of all pairs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import visir
from visir.cli.main import app
from visir.errors import ConfigurationError, VisirError

QUERIES = [f"q{number:03}" for number in range(120)]
JUDGED = {query: {f"d{query}": 1} for query in QUERIES}


def _run(noise: float, seed: int) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    return {
        query: {f"d{query}": 1.0} | {f"x{number}": float(score) for number, score in enumerate(rng.normal(0, noise, 9))}
        for query in QUERIES
    }


RUNS = {"weak": _run(3.0, 0), "middle": _run(1.0, 1), "good_one": _run(0.3, 2)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("results")
    for name, run in RUNS.items():
        visir.evaluate(JUDGED, run, name=name, measures=["R@1", "MRR"]).save(place / name)
    return place


def test_all_pairs_are_compared_as_each_alone():
    every = visir.compare(RUNS, qrels=JUDGED, measures=["R@1", "MRR"], pairs=True, correction="none")
    assert len(every.differences) == 6
    for first, other in (("weak", "middle"), ("weak", "good_one"), ("middle", "good_one")):
        alone = visir.compare(
            {name: RUNS[name] for name in (first, other)}, qrels=JUDGED, measures=["R@1", "MRR"], correction="none"
        )
        for measure in ("R@1", "MRR"):
            assert every[other, first, measure] == alone[other, measure]
    assert every["good_one", "MRR"].baseline == "weak"
    assert "4 of" not in every.verdict("good_one")  # the verdict is against the first alone
    holm = visir.compare(RUNS, qrels=JUDGED, measures=["R@1", "MRR"], pairs=True)
    assert holm.family == 6


def test_a_comparison_is_a_table_of_systems_with_marks():
    pairs = visir.compare(RUNS, qrels=JUDGED, measures=["R@1", "MRR"], pairs=True)
    latex = pairs.to_latex()
    assert r"c & good\_one & \textbf{" in latex and "$^{ab}$" in latex and "MRR" in latex
    assert "after Holm's correction over 6 comparisons" in latex and "R@1 is recall@1." in latex
    first = visir.compare(RUNS, qrels=JUDGED, measures=["R@1", "MRR"])
    assert "$^{\\dagger}$" in first.to_latex() and "$\\dagger$ better, $\\ddagger$ worse than weak" in first.to_latex()
    worse = visir.compare({"good": RUNS["good_one"], "weak": RUNS["weak"]}, qrels=JUDGED, measures=["MRR"])
    assert "‡" in worse.to_markdown().splitlines()[5]
    same = visir.compare({"a": RUNS["weak"], "b": RUNS["weak"]}, qrels=JUDGED, measures=["MRR"])
    assert "†" not in same.to_markdown().split("\n\n")[1] and "‡" not in same.to_markdown().split("\n\n")[1]


def test_a_comparison_has_a_page_and_a_folder(tmp_path):
    pairs = visir.compare(RUNS, qrels=JUDGED, measures=["R@1", "MRR"], pairs=True)
    pairs.save(tmp_path / "pairs")
    opened = visir.open(tmp_path / "pairs")
    assert opened.kind == "comparison" and opened.to_latex() == pairs.to_latex()
    assert opened.charts.keys() == {"differences"}
    assert (tmp_path / "pairs" / "comparison.html").read_text().count("<sup>ab</sup>") >= 1


def test_one_result_is_described_by_its_folder_and_by_itself(folders):
    evaluation = visir.open(folders / "weak")
    report = visir.report(folders / "weak")
    assert (
        report.kind == "evaluation report" and report.to_csv() == evaluation.to_csv().replace('"', "")
    ) or report.tables
    assert report.title == visir.report(evaluation).title
    assert visir.report(folders / "weak", title="Mine").title == "Mine"
    assert visir.report(str(folders / "weak" / "result.json")).title == report.title


def test_results_of_one_protocol_are_tested_against_one_another(folders):
    report = visir.report(*(folders / name for name in RUNS))
    assert report.table.names[:2] == ["", "system"] and [row[1] for row in report.table.rows] == list(RUNS)
    pairs = visir.compare({name: folders / name for name in RUNS}, pairs=True)
    assert report.to_latex() == pairs.to_latex()
    named = visir.report({"a": folders / "weak", "b": visir.open(folders / "good_one")})
    assert [row[0] for row in named.table.rows] == ["a", "b"]
    assert [row[0] for row in visir.report([folders / "weak", folders / "weak"]).table.rows] == ["weak", "weak (2)"]


def test_results_of_different_protocols_stand_side_by_side_untested(folders, tmp_path):
    other = {query: {**grades, "x1": 1} for query, grades in JUDGED.items()}
    visir.evaluate(other, RUNS["weak"], name="other", measures=["R@1", "MRR"]).save(tmp_path / "other")
    report = visir.report(folders / "weak", tmp_path / "other")
    assert [row[0] for row in report.table.rows] == ["weak", "other"]
    assert not report.table.best()
    said = [line for line in report.printed if isinstance(line, str)]
    assert any("different" in line for line in said) and "No test is made" in said[-1]


def test_other_reports_are_joined_row_by_row_and_their_charts_keep_apart(tmp_path):
    for size in (12, 14):
        stress = visir.stress(f"scenes:{size}?size=64", "colours", perturbations="char_swap", corruptions="jpeg")
        stress.save(tmp_path / f"s{size}")
    report = visir.report(tmp_path / "s12", tmp_path / "s14")
    assert [column.name for column in report.table.columns[:2]] == ["perturbation", "report"]
    assert [row[:2] for row in report.table.rows[:2]] == [
        ("captions as they are", "s12"),
        ("captions as they are", "s14"),
    ]
    assert all(name.startswith(("r1-", "r2-")) for name in report.charts)
    page = report.write(tmp_path / "both.html").read_text()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for reference in re.findall(r"url\(#([^)]+)\)", page):
        assert reference in ids


def test_reports_of_different_kinds_stand_below_one_another(folders):
    comparison = visir.compare({name: folders / name for name in RUNS})
    report = visir.report(folders / "weak", comparison)
    assert report.sections[0].title == "weak" and len(report.printed) == 2


def test_nothing_and_what_has_no_report_are_refused():
    with pytest.raises(ConfigurationError):
        visir.report()
    with pytest.raises(ConfigurationError) as caught:
        visir.report(3, object())
    assert "int has no report" in str(caught.value) and "object has no report" in str(caught.value)


def test_the_verb_writes_page_folder_and_latex(folders, tmp_path):
    names = [str(folders / name) for name in RUNS]
    page, latex, out = tmp_path / "all.html", tmp_path / "all.tex", tmp_path / "out"
    done = CliRunner().invoke(app, ["report", *names, "--out", str(page), "--latex", str(latex)])
    assert done.exit_code == 0, done.output
    assert "good_one" in done.output and r"\cmidrule" not in latex.read_text() and r"good\_one" in latex.read_text()
    assert "The command" in page.read_text()
    assert CliRunner().invoke(app, ["report", *names, "--out", str(out)]).exit_code == 0
    assert visir.open(out).to_latex() == visir.report(*names).to_latex()
    again = CliRunner().invoke(app, ["report", *names, "--out", str(out)])
    assert again.exit_code != 0
    assert CliRunner().invoke(app, ["report", str(tmp_path / "none")]).exit_code != 0
    compared = CliRunner().invoke(app, ["compare", *names, "--pairs", "--out", str(tmp_path / "c")])
    assert compared.exit_code == 0 and visir.open(tmp_path / "c").kind == "comparison"


def test_the_call_writes_a_page_or_a_folder(tmp_path):
    judged, run = {"q1": {"a": 1}}, {"q1": {"a": 0.9, "b": 0.1}}
    result = visir.evaluate(judged, run, name="first")
    visir.report(result, out=tmp_path / "page.html")
    assert "first" in (tmp_path / "page.html").read_text()
    visir.report(result, result, out=tmp_path / "both")
    assert visir.open(tmp_path / "both").table is not None
    (tmp_path / "page.html").write_text("somebody else's")  # an unchanged page of visir's is written again
    for place in ("page.html", "both"):
        with pytest.raises(VisirError):
            visir.report(result, out=tmp_path / place)
        visir.report(result, out=tmp_path / place, replace=True)
    with pytest.raises(ConfigurationError, match=r"x\.pdf"):
        visir.report(result, out=tmp_path / "x.pdf")
