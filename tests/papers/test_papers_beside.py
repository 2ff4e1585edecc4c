"""Rows of another table that the text compares with: LTD's targets beside the baseline of its Table 1 (section 5.5)."""

from __future__ import annotations

from pathlib import Path

from papers_toys import cell

from refusals import refused
from visir.errors import ConfigurationError
from visir.evaluation.published import load
from visir.training.recipe import read_recipe
from visir.training.shipped import find_recipe
from visir_papers.study import TABLES, read_study
from visir_papers.verdicts import compare_cells

TARGETS = ("fixed targets", "fine-tuned targets")


def test_targets_are_to_find_less_than_the_baseline_of_table_1() -> None:
    """They are printed below it in all six recalls of both collections, and so is the fixed one below the tuned."""
    study = read_study("ltd-table-2")
    systems = {"fixed targets": 9.0, "fine-tuned targets": 5.0, "BL, L_con": 7.0}
    cells = [cell(system, "F30k", i2t_R1=value) for system, value in systems.items()]
    found = compare_cells("x", study, "replica", cells)
    assert [(pair.higher, pair.lower, pair.agrees) for pair in found.measured_pairs] == [
        ("fine-tuned targets", "fixed targets", False),
        ("BL, L_con", "fixed targets", False),
        ("BL, L_con", "fine-tuned targets", True),
    ]
    printed = {(pair.collection, pair.label) for pair in found.pairs if pair.higher == "BL, L_con"}
    assert len(printed) == 2 * 6
    assert {pair.lower for pair in found.pairs if pair.higher == "BL, L_con"} == set(TARGETS)
    constraint = [pair for pair in found.pairs if {pair.higher, pair.lower} == {"triplet, L_lag", "LTD, L_lag η=0.2"}]
    assert len(constraint) == 12 and {pair.higher for pair in constraint} == {"triplet, L_lag"}


def test_a_row_beside_has_the_labels_and_collections_of_the_table() -> None:
    study = read_study("ltd-table-2")
    row = study.row("BL, L_con", "F30k")
    assert row is not None
    assert row.values["i2t"]["R@1"] == load("ltd-table-1").row("BL, L_con", "F30k").values["i2t"]["R@1"] == 45.0
    assert "R-P" not in row.values["i2t"], "Table 2 has no R-precision"
    assert not any(collection == "CxC" for _, collection, _ in study.published_numbers())
    experiments = {(one.system, one.collection): one for one in study.experiments("replica")}
    assert set(TARGETS) | {"BL, L_con"} <= {system for system, _ in experiments}


def test_an_unknown_row_or_table_beside_is_a_fault(tmp_path: Path) -> None:
    path = TABLES / "ltd-table-2.toml"
    text = path.read_text()
    (tmp_path / "toy.toml").write_text(text.replace('table = "ltd-table-1"', 'table = "ltd-table-11"'))
    with refused(ConfigurationError, "beside.table", "ltd-table-11", meant="ltd-table-1"):
        read_study(tmp_path / "toy.toml")
    (tmp_path / "toy.toml").write_text(text.replace('systems = ["BL, L_con",', 'systems = ["BL, L_can",'))
    with refused(ConfigurationError, "beside.systems", "BL, L_can", meant="BL, L_con"):
        read_study(tmp_path / "toy.toml")


def test_the_triplet_recipes_have_the_rate_of_the_paper() -> None:
    """At 2e-3 the baseline collapsed: every hinge at the margin."""
    for name in ("flickr8k-gru-triplet", "flickr8k-gru-triplet-ltd-constraint", "flickr8k-gru-triplet-itd-dual"):
        ours, theirs = (read_recipe(find_recipe(one)) for one in (name, "ltd-f30k-triplet"))
        assert ours.optimiser.rate == theirs.optimiser.rate == 2e-4
    assert read_recipe(find_recipe("flickr8k-gru")).optimiser.rate == 2e-3
