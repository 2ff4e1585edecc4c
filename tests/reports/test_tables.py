from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import report_toys as toys

import visir
from visir.evaluation.compare import Comparison, Difference
from visir.evaluation.explaining import Explanation, Fit
from visir.evaluation.explaining.readings import Combined, Reading
from visir.evaluation.measures import MEASURES
from visir.evaluation.published import Judgement, PublishedRow
from visir.evaluation.published.judge import judge
from visir.reports import (
    card_table,
    comparison_table,
    explain_table,
    measures_table,
    published_table,
    queries_table,
    result_table,
    systems_table,
    to_csv,
    to_markdown,
)
from visir.reports.words import display, in_words, meaning


@pytest.fixture
def tiny(tmp_path: Path):
    collection = toys.collection(tmp_path)
    return collection, toys.runs(collection)


def test_result_table_is_this_text(tiny):
    # i2t first ranks 1, 3, 5: hit@1 1/3, hit@5 3/3. t2i 1 3 2 1 2 2: hit@1 2/6, hit@5 and hit@10 all.
    # rsum: 33.3 + 100 + 100, and the same again.
    made = toys.result(*tiny, notes=("1 image was set aside.",))
    assert to_markdown(result_table(made, ["hit@1", "hit@5", "rsum", "median_rank"])) == (
        "**toy**\n\n"
        "| task         |  R@1 |   R@5 |  rsum | median\\_rank |\n"
        "| ------------ | ---: | ----: | ----: | -----------: |\n"
        "| image → text | 33.3 | 100.0 | 233.3 |          3.0 |\n"
        "| text → image | 33.3 | 100.0 | 233.3 |          2.0 |\n"
        "| both tasks   |    – |     – | 466.7 |            – |\n\n"
        "R@k is hit@k. Fractions in percent; ranks, gains and rsum as they are. "
        f"Protocol {made.protocol.fingerprint[:12]}.  \n"
        "1 image was set aside.  \n"
    )


def test_the_named_recall_and_rsum_come_first(tiny):
    made = toys.result(*tiny)
    names = [column.name for column in result_table(made).columns]
    assert names[:5] == ["task", "R@1", "R@5", "R@10", "rsum"]
    assert "recall@1" in names and "capped_recall@5" in names
    turned = measures_table(made)
    assert [row[0] for row in turned.rows] == names[1:]
    assert turned.rows[0] == ("R@1", "33.3", "33.3", "–")


def test_another_named_recall_takes_the_name_r_at_k(tiny):
    made = toys.result(*tiny)
    other = made.protocol.changed(recall="capped_recall")
    table = result_table(type(made)(made.system, other, made.per_query, made.aggregates))
    assert [column.name for column in table.columns][1] == "R@1"
    assert "hit@1" in [column.name for column in table.columns]


def test_card_table_says_every_field(tiny):
    made = toys.result(*tiny)
    rows = dict(card_table(made.protocol).rows)
    assert rows["galleries text → image"].startswith("3 images · all of test · ")
    assert rows["recall"] == "hit"


def test_systems_table_marks_the_better_system_in_the_right_sense(tiny):
    made = toys.result(*tiny)
    worse = {d: {**values, "hit@1": 0.1, "median_rank": 9.0} for d, values in made.aggregates.items()}
    other = type(made)("other", made.protocol, made.per_query, worse)
    table = systems_table([other, made], ["hit@1", "median_rank"], "i2t")
    assert table.best() == {(1, 1), (1, 2)}


def difference(**fields) -> Difference:
    values = {
        "task": "t2i",
        "measure": "hit@1",
        "system": "B",
        "baseline": "A",
        "value": 0.43,
        "baseline_value": 0.41,
        "difference": 0.02,
        "low": 0.011,
        "high": 0.029,
        "p": 0.00012,
        "p_corrected": 0.00024,
        "better": True,
    }
    return Difference(**{**values, **fields})


def test_comparison_table_prints_percentage_points():
    rank = difference(
        task="i2t",
        measure="mean_rank",
        value=5.0,
        baseline_value=4.0,
        difference=1.0,
        low=-0.5,
        high=2.5,
        p=0.2,
        p_corrected=0.2,
        better=False,
    )
    made = Comparison(("A", "B"), (difference(), rank), "paired t-test", "holm", 2, {"captions": ("all", "first")}, {})
    assert to_markdown(comparison_table(made)) == (
        "**B against A**\n\n"
        "| measure                   | baseline | value | change | 95 % interval |      p | p (holm) |\n"
        "| ------------------------- | -------: | ----: | -----: | ------------- | -----: | -------: |\n"
        "| text → image R@1          |     41.0 |  43.0 |   +2.0 | +1.1 … +2.9   | 0.0001 |   0.0002 |\n"
        "| image → text mean\\_rank ↓ |      4.0 |   5.0 |   +1.0 | -0.5 … +2.5   | 0.2000 |   0.2000 |\n\n"
        "paired t-test; correction over 2 comparisons: holm  \n"
        "allowed to differ, captions: all \\| first  \n"
    )


def test_a_comparison_of_three_systems_names_them():
    made = Comparison(("A", "B", "C"), (difference(), difference(system="C")), "t", "none", 2, {}, {})
    table = comparison_table(made)
    assert [column.name for column in table.columns][:4] == ["system", "measure", "baseline", "value"]
    assert [row[0] for row in table.rows] == ["B", "C"]
    assert table.caption == "B and C against A"


def test_published_table_shows_both_numbers_and_the_verdicts():
    # (51.5 - 50) / 50 = 3 %: within 5 %, but not the printed digits.
    row = PublishedRow("CLIP", {"t2i": {"R@1": 50.0}})
    table = published_table(judge({"t2i": {"hit@1": 0.515}}, row), system="CLIP")
    assert table.texts() == [["text → image", "R@1", "hit@1", "50.00", "51.50", "+3.0", "yes", "off"]]


def test_explain_table_puts_the_published_row_above_the_readings():
    def fit(recall: str, ours: float, distance: float) -> Fit:
        value = Judgement("i2t", "R@5", f"{recall}@5", ours, 61.2, (ours - 61.2) / 61.2, ours == 61.2, "off")
        values = (replace(value, digits="rounded") if ours == 61.2 else value,)
        reading = Combined((("i2t", Reading.of(recall=recall)),))
        return Fit(reading, values, distance, {"i2t": (5000,)}, ours == 61.2)

    fits = (fit("capped_recall", 61.2, 0.0), fit("hit", 95.0, 0.552), fit("recall", 10.0, 0.837))
    table = explain_table(Explanation("capped_recall it is.", "named", fits, (), "cut out of the run"), limit=2)
    assert [row[0].split(":")[0] for row in table.rows] == [
        "published",
        "R@k is capped_recall@k",
        "R@k is hit@k",
    ]
    assert [row[1:] for row in table.texts()] == [
        ["61.20", "–", "–"],
        ["61.20", "0.00", "1 of 1"],
        ["95.00", "55.20", "0 of 1"],
    ]
    assert table.best() == {(1, 2)}
    assert table.notes == ("capped_recall it is.", "ranks: cut out of the run", "further off, not shown: 1")


def test_queries_table_for_the_terminal(tiny):
    collection, runs = tiny
    made = toys.result(collection, runs)
    assert to_csv(queries_table(made, runs["i2t"], collection, count=2)) == (
        "query,rank,answered first,a right answer\n"
        "c: caption c0,5,caption a0,caption c0\n"
        "b: caption b0,3,caption a0,caption b0\n"
    )


def test_every_registered_measure_is_displayed_as_it_says_of_itself():
    for name, measure in MEASURES.items():
        assert display(name).higher_is_better == (measure.best == "high")
        assert display(name).scale == (100.0 if measure.unit == "fraction" else 1.0)
    assert display("map@r").says == MEASURES.get("map@r").says
    assert display("map@10").says == MEASURES.get("map").says
    assert display("rsum").scale == 1.0 and display("dcg_cm@10").digits == 3


def test_the_protocol_in_words_names_the_traps(tiny):
    protocol = toys.result(*tiny).protocol.changed(
        recall="capped_recall",
        folds=5,
        depth=10,
        estimator="self (circular)",
        galleries={"t2i": "31,783 images · all of them · stated:31783"},
    )
    said = dict(meaning(protocol))
    assert "R@5 can be below R@1" in said["Recall"]
    assert "could not be checked" in said["text → image"]
    assert "5 disjoint galleries" in said["Folds"]
    assert "10 deep" in said["Depth"]
    assert "circular" in said["Estimated gains"]
    assert in_words(protocol, "i2t", 5, 0.5) == (
        "On average 50.0 % of the right captions (at most 5 counted) are among the first 5."
    )
    assert in_words(protocol.changed(recall="hit"), "t2i", 1, 0.805) == (
        "80.5 % of the captions have a right image first."
    )


def test_three_tasks_have_a_mean() -> None:
    """FashionIQ is published as the mean over its three categories."""
    documents = {name: name for name in "abcd"}
    found = {"dress": "a", "shirt": "b", "toptee": "c"}
    values = {}
    for task, right in found.items():
        source = {"queries": {"q": "a"}, "documents": documents, "qrels": {"q": [right]}}
        values[task] = visir.evaluate(source, {"q": {"a": 3, "b": 2, "c": 1}}, measures=["hit@1", "hit@2"]).result
    result = replace(
        values["dress"],
        aggregates={task: next(iter(each.aggregates.values())) for task, each in values.items()},
        per_query={task: next(iter(each.per_query.values())) for task, each in values.items()},
    )
    last = result_table(result, ["hit@1", "hit@2"]).rows[-1]
    assert last[0] == "mean of the tasks" and last[1:] == pytest.approx((100 / 3, 200 / 3))
    assert [column.name for column in measures_table(result).columns][-1] == "mean of the tasks"
    assert measures_table(result).rows[0][-1] == "33.3"
