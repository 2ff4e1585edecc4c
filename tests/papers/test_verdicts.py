"""What counts, what chance gives, and the answers: pairs and statements with draws, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers_toys import cell, study

import visir
from visir.evaluation.published import PublishedRow
from visir.records import Collection
from visir_papers.cells import StudyFolder, TableCell
from visir_papers.draws import DRAWS, Means, TrendCheck
from visir_papers.experiment import ExperimentContext, FolderLocks
from visir_papers.published_values import nearest_reading
from visir_papers.reports.tables import orders_table
from visir_papers.verdicts import (
    GENERALISABLE,
    ORDER,
    OTHER,
    REPLICABLE,
    VALUES,
    Agreement,
    PairOrder,
    StudyComparison,
    Verdict,
    agreement,
    answer_of,
    answer_of_values,
    compare_cells,
    mean_draws,
    sure_checks,
    verdicts,
)


def pair(higher: str, lower: str, agrees: bool | None = True, label: str = "R@1") -> PairOrder:
    interval = {True: (1.0, 3.0), False: (-3.0, -1.0), None: (-1.0, 3.0)}[agrees]
    return PairOrder("COCO", label, higher, lower, sum(interval) / 2, interval)


def found(agreeing: int, counted: int, measured: int | None = None, high: float | None = None) -> Agreement:
    """So many coins of a fair kind, unless `high` says what chance gives."""
    ends = np.quantile(np.random.default_rng(0).binomial(counted, 0.5, 10_000), [0.025, 0.975])
    return Agreement(
        measured or counted, counted, agreeing, counted / 2, float(ends[0]), float(ends[1]) if high is None else high
    )


def by_question(comparisons: list[StudyComparison], **counterpart: Any) -> dict[str, Verdict]:
    return {one.question: one for one in verdicts(comparisons, **counterpart)}


def test_a_pair_counts_when_its_interval_excludes_0() -> None:
    """VSE++ is printed above Ours. A lead of 2.4 with errors of 0.3 each counts, with errors of 3 it does not."""
    for error, agrees, answer in ((0.3, True, "yes"), (3.0, None, "undecided"), (None, None, "undecided")):
        cells = [cell("Ours", i2t_R1=38.9, error=error), cell("VSE++", i2t_R1=41.3, error=error)]
        comparison = compare_cells("x", study(data="other"), "full", cells)
        (order,) = comparison.measured_pairs
        assert order.agrees is agrees
        assert order.difference == pytest.approx(2.4)
        assert (len(comparison.counted_pairs), comparison.pairs_in_order) == ((1, 1) if agrees else (0, 0))
        assert by_question([comparison])[OTHER].answer == answer
    reverse = [cell("Ours", i2t_R1=41.3, error=0.3), cell("VSE++", i2t_R1=38.9, error=0.3)]
    comparison = compare_cells("x", study(data="other"), "full", reverse)
    assert comparison.counted_pairs[0].agrees is False
    assert by_question([comparison])[OTHER].answer == "no"


def test_one_of_seven_two_of_21_and_100_of_179_are_not_the_same_answer_as_a_tenth_less_than_all() -> None:
    assert answer_of(found(1, 7)) == "no"
    assert answer_of(found(2, 21)) == "no"
    assert answer_of(found(100, 179)) == "no"  # coins give 77 to 103
    assert answer_of(found(140, 179)) == "partly"
    assert answer_of(found(175, 179)) == "yes"
    assert answer_of(found(0, 0, measured=9)) == "undecided"
    # All that counts agrees, and hardly anything counts.
    assert answer_of(found(5, 5, measured=40, high=4.0)) == "partly"
    assert answer_of(found(5, 5, measured=40, high=5.0)) == "undecided"
    # Half is not most.
    assert [answer_of(found(5, 5, measured=measured, high=4.0)) for measured in (9, 10)] == ["yes", "partly"]
    assert [answer_of(found(0, 5, measured=measured, high=5.0)) for measured in (9, 10)] == ["no", "undecided"]


@pytest.mark.parametrize(
    ("reproduced", "judged", "answer"),
    [(0, 1, "no"), (1, 1, "yes"), (1, 7, "no"), (1, 2, "partly"), (19, 19, "yes"), (100, 179, "partly"), (2, 21, "no")],
)
def test_the_answer_on_values_is_read_off_an_interval(reproduced: int, judged: int, answer: str) -> None:
    """Wilson's: 1 of 7 is 3 to 51 %, which reaches 1 in 20; 100 of 179 is 49 to 63 %, which reaches neither end."""
    assert answer_of_values(reproduced, judged) == answer


def test_chance_exchanges_systems_and_not_single_pairs() -> None:
    """Two systems under six labels are one coin, not six; three systems have six orders."""
    labels = [f"R@{k}" for k in range(6)]
    two = agreement([[pair("A", "B", label=label) for label in labels]], ())
    assert (two.agreeing, two.counted, two.low, two.high) == (6, 6, 0.0, 6.0)
    assert two.expected == pytest.approx(3, abs=0.2)
    three = agreement([[pair("A", "B"), pair("A", "C"), pair("B", "C")]], ())
    # 3, 2, 2, 1, 1, 0 of the pairs are in order in the six orders.
    assert three.expected == pytest.approx(1.5, abs=0.1)
    assert (three.low, three.high) == (0, 3)
    everywhere = agreement([[replace(pair("A", "B"), collection=f"{number}") for number in range(20)]], ())
    assert (everywhere.agreeing, everywhere.low, everywhere.high) == (
        20,
        0,
        20,
    )  # one coin still
    again = agreement([[pair("A", "B"), pair("B", "A", False), pair("A", "B")]], ())  # measured three times, at scales
    assert (again.agreeing, again.counted, again.low, again.high) == (2, 3, 1, 2)
    apart = agreement([[pair("A", "B")] for _ in range(20)], ())  # twenty tables of other systems are twenty coins
    assert apart.expected == pytest.approx(10, abs=0.3)
    assert (apart.low, apart.high) == (pytest.approx(6, abs=1), pytest.approx(14, abs=1))


def test_pairs_that_do_not_count_are_not_counted_under_chance_either() -> None:
    undecided = agreement([[pair("A", "B"), pair("A", "C", None), pair("B", "C", None)]], ())
    assert (undecided.measured, undecided.counted, undecided.agreeing) == (3, 1, 1)
    assert undecided.expected == pytest.approx(0.5, abs=0.05)


def test_statements_have_the_chance_that_they_give() -> None:
    checks = [
        TrendCheck("a", True, "", 1 / 35, 1.0),
        TrendCheck("b", False, "", 0.5, 0.0),
        TrendCheck("c", True, "", 0.5, 0.6),
    ]
    agreed = agreement([], checks)
    assert (agreed.measured, agreed.counted, agreed.agreeing) == (3, 2, 1)
    assert agreed.expected == pytest.approx(0.5 + 1 / 35, abs=0.05)


def leads(means: Means) -> list[TrendCheck]:
    return [TrendCheck("A leads", means["A"]["x"] > means["B"]["x"], ""), *(
        [TrendCheck("A has y", True, "")] if "y" in means["A"] else [])]  # fmt: skip


def test_a_statement_is_sure_in_as_many_draws_as_it_holds_in() -> None:
    rng = np.random.default_rng(0)
    means = {("A", "c", "x"): 1.0, ("B", "c", "x"): 0.0, ("A", "c", "y"): 1.0}
    for error, agrees in ((0.1, True), (2.0, None)):
        draws = {key: means[key] + error * rng.standard_normal(DRAWS) for key in list(means)[:2]}
        first, second = sure_checks(leads, means, draws)
        assert first.sure == pytest.approx(np.mean(draws["A", "c", "x"] > draws["B", "c", "x"]))
        assert first.agrees is agrees
        assert (second.holds, second.sure, second.agrees) == (True, None, None), "y has no draws"


@pytest.mark.parametrize(("undecided", "sure"), [(0.02, 1.0), (0.1, None)])
def test_a_statement_that_many_draws_leave_open_is_not_sure(undecided: float, sure: float | None) -> None:
    def check(means: Means) -> list[TrendCheck]:
        return [TrendCheck("A is above 0", None if means["A"]["x"] == 0 else means["A"]["x"] > 0, "")]

    draws = np.where(np.arange(DRAWS) < undecided * DRAWS, 0.0, 1.0)
    (found,) = sure_checks(check, {("A", "c", "x"): 1.0}, {("A", "c", "x"): draws})
    assert (found.holds, found.sure) == (True, sure)


def test_the_verdicts_by_the_data_they_rest_on() -> None:
    same = compare_cells("x", study(), "full", [cell("Ours", i2t_R1=38.9), cell("VSE++", i2t_R1=60)])
    other = compare_cells("x", study(data="other"), "full", [cell("Ours", i2t_R1=9), cell("VSE++", i2t_R1=8)])
    answers = by_question([same, other])
    assert list(answers) == [VALUES, ORDER, OTHER], "of scenes alone, nothing is replicable or generalisable"
    assert (answers[VALUES].answer, answers[VALUES].reason) == (
        "partly",
        "1 of 2 within 5 % (95 % interval of the share: 9 to 91 %); 2 of 12 printed values could be compared",
    )
    assert answers[ORDER].answer == "yes"
    assert answers[ORDER].reason.startswith("1 of 1 that count agree with the paper (of 1 measured); chance gives 0.5")
    assert answers[OTHER].answer == "no"
    generated = compare_cells("x", study(data="generated"), "full", [cell("Ours", i2t_R1=1), cell("VSE++", i2t_R1=2)])
    answers = by_question([generated])
    assert {one.answer for one in answers.values()} == {"not looked at"}
    assert "generated data cannot answer this: 1 of 1 that count agree" in answers[OTHER].reason


def test_the_table_of_pairs_lists_those_in_another_order_and_counts_the_rest() -> None:
    """VSE++ is printed above Ours, by i2t R@1 and t2i R@1; ours says so of the second, and cannot tell by R@5."""
    cells = [
        cell("Ours", i2t_R1=9, t2i_R1=1, error=0.3, i2t_R5=1),
        cell("VSE++", i2t_R1=6, t2i_R1=3, error=0.3, i2t_R5=1.2),
    ]
    listed = orders_table(compare_cells("x", study(data="other"), "full", cells))
    assert listed is not None
    assert [row[:4] for row in listed.rows] == [("COCO", "i2t R@1", "VSE++ > Ours", -3.0)]
    assert listed.notes == (
        "1 of 2 pairs that count stand in the printed order; the other is listed",
        "A pair counts when the 95 % interval of its difference excludes 0; 1 of 3 do not",
        "difference: the first value here minus the second",
    )
    undecided = [cell("Ours", i2t_R1=5, error=9.0), cell("VSE++", i2t_R1=3, error=9.0)]
    empty = orders_table(compare_cells("x", study(data="other"), "full", undecided))
    assert empty is not None and (empty.rows, empty.notes[0]) == ((), "No pair counts, so no pair is listed")
    assert orders_table(compare_cells("x", study(), "full", [])) is None


def kinds(scenes: list[TableCell], objects: list[TableCell]) -> dict[str, Verdict]:
    """The verdicts on a study of single objects whose counterpart is of scenes; LTD Table 3 stands for both."""
    of_scenes = compare_cells("x", study(), "full", scenes)
    of_objects = compare_cells("y", study(object_centric=["birds"], published="ltd-table-3"), "full", [])
    measured = compare_cells("z", study(), "full", objects)
    renamed = [replace(value, collection="birds") for value in measured.values]
    of_objects = replace(of_objects, values=tuple(renamed))
    return by_question([of_objects], counterpart=[of_scenes])


def test_replicable_is_the_order_printed_for_scenes_on_single_objects() -> None:
    """LTD Table 3 prints VSE++ above Ours. On birds it is so by i2t R@1 only; what scenes give here is no matter."""
    objects = [cell("Ours", i2t_R1=5, t2i_R1=9), cell("VSE++", i2t_R1=6, t2i_R1=3)]
    answers = kinds([], objects)
    assert answers[REPLICABLE].reason.startswith("1 of 2 that count agree with the paper (of 2 measured)")
    assert answers[GENERALISABLE].answer == "not looked at"
    same_kind = compare_cells("x", study(data="other"), "full", objects)
    assert REPLICABLE not in by_question([same_kind]), "another collection of scenes replicates nothing"


def test_generalisable_is_our_order_on_scenes_and_on_single_objects() -> None:
    scenes = [cell("Ours", i2t_R1=9, t2i_R1=9), cell("VSE++", i2t_R1=2, t2i_R1=2)]  # not as printed
    objects = [cell("Ours", i2t_R1=5, t2i_R1=1), cell("VSE++", i2t_R1=3, t2i_R1=3)]
    answers = kinds(scenes, objects)
    assert answers[GENERALISABLE].reason.startswith("1 of 2 that count agree")
    assert answers[REPLICABLE].reason.startswith("1 of 2 that count agree")
    close = [cell("Ours", i2t_R1=5, error=9.0), cell("VSE++", i2t_R1=3, error=9.0)]
    assert kinds(scenes, close)[GENERALISABLE].reason == "none of 1 counts: every interval includes 0, or there is none"


def test_seeds_are_samples_beside_queries() -> None:
    """Three seeds 0, 3, 6 have a mean of 3 with a standard error of √3; its interval is that of t with 2 degrees."""
    cells = [cell("Ours", seed=seed, i2t_R1=3.0 * seed) for seed in range(3)]
    draws = mean_draws(cells, "i2t R@1")
    assert draws is not None
    low, high = np.quantile(draws, [0.025, 0.975])
    assert (low, high) == (pytest.approx(3 - 4.303 * 3**0.5, rel=0.2), pytest.approx(3 + 4.303 * 3**0.5, rel=0.2))
    other = [cell("VSE++", seed=seed, i2t_R1=3.0 * seed + 1) for seed in range(3)]
    paired = mean_draws(other, "i2t R@1")
    assert paired is not None
    np.testing.assert_allclose(paired - draws, 1.0, atol=1e-9)  # seed by seed the difference is 1, for certain
    assert mean_draws([cell("Ours", i2t_R1=1, error=None)], "i2t R@1") is None


def test_folds_have_the_chance_of_their_queries_in_them() -> None:
    """Five folds 1 to 5, a test part a quarter of the others: 3 ± 2.776 · √(2.5 · (1/5 + 1/4)), t with 4 degrees."""

    def folds(error: float | None) -> np.ndarray:
        cells = [cell("Ours", seed=seed, i2t_R1=1.0 + seed, error=error) for seed in range(5)]
        cells = [replace(one, measured=replace(one.measured, fold_ratio=0.25)) for one in cells]
        draws = mean_draws(cells, "i2t R@1")
        assert draws is not None
        return draws

    half = 2.776 * (2.5 * (1 / 5 + 1 / 4)) ** 0.5
    assert np.quantile(folds(None), [0.025, 0.975]).tolist() == pytest.approx([3 - half, 3 + half], abs=0.2)
    np.testing.assert_array_equal(folds(50.0), folds(None))  # they are not added once more


def test_draws_of_a_cell_are_kept_beside_it_and_come_back(tmp_path: Any) -> None:
    folder, kept = StudyFolder(tmp_path), cell("Ours", i2t_R1=38.9, t2i_R1=1.0, error=0.5)
    folder.save(kept)
    files = {path.name: path.read_bytes() for path in (tmp_path / "cells").iterdir()}
    assert f"{kept.file}.npy" in files
    loaded = folder.load(TableCell("Ours", "COCO", 0, {}))
    assert loaded.measured.values == kept.measured.values
    for label, draws in kept.measured.draws.items():
        np.testing.assert_allclose(loaded.measured.draws[label], draws, rtol=1e-6)
    folder.save(kept)
    again = {path.name: path.read_bytes() for path in (tmp_path / "cells").iterdir()}
    assert {name for name in files if name != "visir.json" and files[name] != again[name]} == set()
    bare = cell("VSE++", i2t_R1=1.0, error=None)
    folder.save(bare)
    assert not (tmp_path / "cells" / f"{bare.file}.npy").exists()
    assert folder.load(TableCell("VSE++", "COCO", 0, {})).measured.draws == {}


@pytest.mark.parametrize(("printed", "is_told"), [(18.76, True), (18.75, False)])
def test_a_value_that_no_share_of_the_queries_gives_is_told_although_ours_is_near(
    tmp_path: Path, printed: float, is_told: bool
) -> None:
    """Three of 16 captions are 18.75 %: 18.76 lies within the tolerance, and no number of hits gives it."""
    pictures = Collection.build(
        "eight",
        images={"id": [str(n) for n in range(8)]},
        captions={"id": [f"c{n}" for n in range(16)], "text": ["a"] * 16, "image_id": [str(n // 2) for n in range(16)]},
    )
    own = {"image": {str(n): [n + 1.0, 1] for n in range(8)}, "text": {f"c{n}": [n + 1.0, 1] for n in range(16)}}
    row = PublishedRow("A", {"t2i": {"R@1": printed}})
    context = ExperimentContext(tmp_path / "cell", tmp_path, 0, row, 2, True, FolderLocks())
    said = nearest_reading(visir.evaluate(pictures, vectors=own), context)
    assert ("no share of 16 queries is printed as t2i R@1 18.76" in said) == is_told and (bool(said) == is_told)
