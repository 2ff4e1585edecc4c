"""The page of the brittleness study: what is marked, what is escaped; its tables; the contact sheet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stress_toys import Reader, coloured
from visir.encoders import Store
from visir.evaluation.stress.stress import Stress, stress
from visir.records import Collection
from visir.reports.stress import (
    as_dict,
    decrease_table,
    effects_table,
    jaccard_table,
    marked,
    per_query,
    refined_table,
    stress_report,
    worst_hits,
)


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    (tmp_path / "pictures").mkdir()
    return coloured(tmp_path / "pictures")


@pytest.fixture
def study(collection: Collection, tmp_path: Path) -> Stress:
    return stress(
        collection,
        Reader(),
        perturbations=["missing_char", "extra_char", "shuffle_all_words"],
        corruptions=["occlusion"],
        severity=3,
        picture_severity=5,
        store=Store(tmp_path / "store"),
    )


def test_what_is_new_is_marked() -> None:
    assert marked("a dog on grass", "a dgo on grass") == (("a ", False), ("dgo ", True), ("on grass", False))
    assert marked("a dog.", "a dog. and true is true") == (("a dog. ", False), ("and true is true", True))
    assert marked("same", "same") == (("same", False),)


@given(st.text(max_size=40), st.text(max_size=40))
def test_marking_loses_nothing(before: str, after: str) -> None:
    assert "".join(text for text, _ in marked(before, after)) == after


def test_the_page(study: Stress, collection: Collection, tmp_path: Path) -> None:
    page = (
        stress_report(study, collection, fail_under=90).write(tmp_path / "a.html", command="visir stress").read_text()
    )
    again = (
        stress_report(study, collection, fail_under=90).write(tmp_path / "b.html", command="visir stress").read_text()
    )
    assert (
        page == again
        and "<script" not in page
        and "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    )
    for part in (
        "Fails:",
        "Perturbed captions",
        "Perturbed pictures",
        "<mark>",
        "Missing Character",
        "data:image/jpeg",
    ):
        assert part in page, part
    bare = stress_report(study).write(tmp_path / "c.html").read_text()  # without the collection: no pictures
    assert "data:image/jpeg" not in bare and "Missing Character" in bare


def test_the_worst_hit_lost_most_and_no_image_comes_twice(study: Stress, collection: Collection) -> None:
    hits = worst_hits(study, collection)
    assert [hit.effect.name for hit in hits] == ["missing_char", "extra_char", "occlusion"]  # the shuffle harmed nobody
    assert len({study.images.get(hit.before.query, hit.before.query) for hit in hits}) == 3
    for hit in hits:
        at = hit.effect.queries.to_pylist().index(hit.before.query)
        assert hit.effect.before[at] > hit.effect.after[at]
        assert (hit.before.rank or 99) < (hit.after.rank or 99)
    assert hits[2].spoilt is not None and hits[2].spoilt.uri and hits[0].spoilt is None


def test_what_comes_from_outside_is_escaped(collection: Collection, study: Stress, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    broken = replace(
        study, system=evil, texts={one: f"{evil} {text}" for one, text in study.texts.items()}, notes=(evil,)
    )
    page = stress_report(broken, collection).write(tmp_path / "a.html").read_text()
    assert "<img src=x" not in page and "&lt;img src=x" in page


def test_tables(study: Stress) -> None:
    narrow, wide = effects_table(study), effects_table(study, wide=True)
    assert [row[0] for row in narrow.rows] == [
        *("captions as they are", "Missing Character", "Extra Character", "Shuffle All Words"),
        *("pictures as they are", "Occlusion"),
    ]
    assert len(wide.columns) > len(narrow.columns)
    shuffled = dict(zip([one.name for one in narrow.columns], narrow.rows[3], strict=True))
    assert shuffled["cov."] == 50 and shuffled["95 %"] == "0.0 … 0.0" and shuffled["p"] == 1
    assert [one[0] for one in jaccard_table([study]).rows] == ["reader", "  at random"]
    other = replace(study, collection="refined")
    assert len(decrease_table([study, other]).columns) == 3 and len(refined_table([study, other]).columns) == 5
    lost = {row[0]: row[1] for row in decrease_table([study]).rows}
    assert lost["Missing Character"] == pytest.approx(-study.effect("missing_char").overall.percent)
    queries = per_query(study)
    assert queries.num_rows == 3 * 48 + 24
    first = queries.slice(0, 48)  # of missing_char, which costs something
    assert first["rsum_before"].to_pylist() == list(study.effects[0].before)
    assert sum(first["rsum_before"].to_pylist()) > sum(first["rsum_after"].to_pylist())
    values = as_dict(study)
    assert values["family"] == 4
    effect = study.effect("missing_char").overall
    overall = next(one for one in values["effects"] if one["name"] == "missing_char")["overall"]  # type: ignore[attr-defined]
    assert (overall["rsum_before"], overall["rsum_after"]) == (effect.before, effect.after)
    assert overall["rsum_before"] + overall["points"] == pytest.approx(overall["rsum_after"])
    assert overall["percent"] < 0 < overall["kept_percent"] < 100
