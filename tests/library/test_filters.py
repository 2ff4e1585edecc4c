"""Conditions: read from text and records, compared in memory, against a slow reading in Python."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from refusals import refused
from visir.library import update
from visir.library.database import FieldColumns
from visir.library.filters import LONGEST, Field, FieldCondition, FilterError, fields_of, fold, parse, select
from visir.library.snapshot import LibrarySnapshot

ITEMS: list[dict[str, Any]] = [
    {"id": "a", "width": 800, "taken": "2024-05-31T23:59:59Z", "camera": "Canon EOS 5D", "format": "JPEG",
     "files": [("pets/dogs/rex.jpg", "pets/dogs"), ("best/rex.jpg", "best")], "captions": ["A dog", "Rex running"],
     "fields": {"stars": 5, "place": "Köln"}},
    {"id": "b", "width": 640, "taken": "2024-06-01T00:00:00", "camera": None, "format": "PNG",
     "files": [("pets-old/tom.png", "pets-old")], "captions": [], "fields": {"stars": 2.5, "place": "Rome"}},
    {"id": "c", "width": None, "taken": None, "camera": "NIKON D7", "format": None,
     "files": [("pets/tom.png", "pets")], "captions": ["a cat"], "fields": {}},
]  # fmt: skip


@pytest.fixture(scope="module")
def columns() -> Any:
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "CREATE TABLE items(id, width, height, format, bytes, taken, camera);"
        "CREATE TABLE files(path, item, name, category);"
        "CREATE TABLE captions(id, item, text); CREATE TABLE fields(item, name, value);"
    )
    for one in ITEMS:
        known = (one["id"], one["width"], one["format"], one["taken"], one["camera"])
        connection.execute("INSERT INTO items(id, width, format, taken, camera) VALUES (?, ?, ?, ?, ?)", known)
        for path, category in one["files"]:
            file = (path, one["id"], path.rpartition("/")[2], category)
            connection.execute("INSERT INTO files VALUES (?, ?, ?, ?)", file)
        for text in one["captions"]:
            connection.execute("INSERT INTO captions VALUES ('', ?, ?)", (one["id"], text))
        for name, value in one["fields"].items():
            connection.execute("INSERT INTO fields VALUES (?, ?, ?)", (one["id"], name, value))
    return FieldColumns(lambda sql, values=(): connection.execute(sql, values).fetchall())


def chosen(columns: Any, *how: Any, **more: Any) -> set[str]:
    ids = select(columns, *how, **more).to_pylist()
    assert ids == sorted(set(ids))
    return set(ids)


def found(columns: Any, *texts: str, category: str | None = None) -> str:
    return "".join(sorted(chosen(columns, [parse(one) for one in texts], fields_of(columns.rows), category=category)))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("width >= 640", "ab"), ("width>640", "a"), ("width != 640", "ac"), ("width in 640, 1", "b"),
        ("width=6.4e2", "b"),
        # taken: a is in the last second of May, b in the first of June
        ("taken = 2024", "ab"), ("taken = 2024-05", "a"), ("taken <= 2024-05", "a"), ("taken < 2024-05", ""),
        ("taken > 2024-05", "b"), ("taken >= 2024-05-31T23:59", "ab"), ("taken in 2023, 2024-06", "b"),
        ("taken != 2024-05", "bc"), ("taken >= 2024-06-01 00:00:00", "b"),
        ("camera contains canon", "a"), ("camera != canon eos 5d", "bc"), ("camera = 'nikon d7'", "c"),
        ("format in jpeg, png", "ab"), ("format in [\"PNG\"]", "b"),
        ("name = rex.jpg", "a"), ("path contains /tom", "bc"), ("category = pets", "ac"), ("category != best", "bc"),
        ("caption contains RUN", "a"), ("caption != a cat", "ab"), ("caption contains dog", "a"),
        ("stars >= 2.5", "ab"), ("stars = 5", "a"), ("place contains KÖLN", "a"), ("place = ko\u0308ln", "a"),
    ],
)  # fmt: skip
def test_what_a_condition_finds(columns: Any, text: str, wanted: str) -> None:
    assert found(columns, text) == wanted


def test_conditions_are_joined_by_and_and_a_category_has_its_subtree(columns: Any) -> None:
    assert found(columns, "width >= 640", "camera contains canon") == "a"
    assert found(columns) == "abc"
    assert found(columns, category="pets") == "ac"  # pets-old is another
    assert found(columns, category="pets/dogs") == "a" and found(columns, category="best") == "a"
    assert found(columns, category="pe%") == "" and found(columns, "width >= 1", category="pets") == "a"


def test_fields_are_told_with_their_types_and_few_values(columns: Any) -> None:
    known = fields_of(columns.rows)
    assert (known["stars"].type, known["place"].type, known["taken"].type) == ("number", "text", "date")
    assert known["place"].values == ("Köln", "Rome") and known["format"].values == ("JPEG", "PNG")
    assert known["width"].values == () and list(known)[-2:] == ["place", "stars"]


def test_faults_are_listed_with_the_nearest_name(columns: Any) -> None:
    with pytest.raises(FilterError) as fault:
        found(
            columns,
            "widht > 3",
            "width contains 3",
            "width > wide",
            "taken = soon",
            "taken = 2024-13",
            "camera < b",
            "stars = x",
        )
    said = str(fault.value)
    assert "(7 faults)" in said and "unknown field 'widht' (did you mean 'width'?" in said
    assert "width: is a number, which 'contains' does not fit (try = != < <= > >= in)" in said
    assert "width: 'wide' is no number" in said and "taken: 'soon' is no date (write 2024, 2024-05" in said
    assert "taken: '2024-13' is no date" in said and "camera: is text" in said and "stars: 'x' is no number" in said


@pytest.mark.parametrize("text", ["", "width", "width >=", "contains dog", "> 3", "width in "])
def test_what_is_no_condition(text: str) -> None:
    with refused(FilterError, code="field-one-value"):
        parse(text)


def test_records_are_checked_as_text_is(columns: Any) -> None:
    assert FieldCondition.of({"field": "width", "op": "in", "value": [1, 2]}) == FieldCondition("width", "in", (1, 2))
    with pytest.raises(FilterError, match=r"where\[2\]: op is missing"):
        FieldCondition.of({"field": "width", "value": 1}, "where[2]")
    with refused(FilterError, code="no-condition"):
        FieldCondition.of("width > 3")
    known = fields_of(columns.rows)
    wrong: list[Any] = [True, None, {}, [1], [], "\ud800", "", [[1]], "a\0b"]
    for value in wrong:
        for field in known:
            for op in ("=", "!=", "contains", ">="):
                with pytest.raises(FilterError):
                    chosen(columns, [FieldCondition.of({"field": field, "op": op, "value": value})], known)
            with pytest.raises(FilterError):
                chosen(columns, [FieldCondition.of({"field": field, "op": "in", "value": [value]})], known)
    for number in (float("nan"), float("inf"), 2**70, "1e999"):
        with pytest.raises(FilterError, match="is no number"):
            chosen(columns, [FieldCondition("width", "<", number)], known)
    for field, op in ((None, "="), ([], "="), ("width", None), ("width", ["="]), ("width", "; DROP TABLE items")):
        with pytest.raises(FilterError):
            chosen(columns, [FieldCondition.of({"field": field, "op": op, "value": 1})], known)


ATTACKS = ["' OR 1=1 --", "x'; DROP TABLE items; --", "%", "_", "a') OR ('1'='1", '"', "\\", "?", ":x", "*"]


@pytest.mark.parametrize("attack", ATTACKS)
def test_values_and_names_are_never_read_as_sql(columns: Any, attack: str) -> None:
    for field in ("camera", "name", "path", "category", "caption", "place"):
        known = fields_of(columns.rows)
        assert chosen(columns, [FieldCondition(field, "=", attack)], known) == set()
        assert chosen(columns, [FieldCondition(field, "in", (attack, attack))], known) == set()
        assert len(chosen(columns, [FieldCondition(field, "!=", attack)], known)) == 3
        assert chosen(columns, [FieldCondition(field, "contains", "zz" + attack)], known) == set()
    assert chosen(columns, [], known, category=attack) == set()
    with refused(FilterError, "unknown field"):
        chosen(columns, [FieldCondition(attack, "=", "x")], known)
    assert len(columns.rows("SELECT * FROM items")) == 3


@given(
    value=st.text(max_size=6), op=st.sampled_from(["=", "!=", "contains"]), field=st.sampled_from(["camera", "place"])
)
def test_any_text_is_compared_as_python_would(columns: Any, value: str, op: Any, field: str) -> None:
    known = fields_of(columns.rows)
    try:
        got = chosen(columns, [FieldCondition(field, op, value)], known)
    except FilterError:
        assert value == "" or "\0" in value
        return
    wanted = set()
    for one in ITEMS:
        held = one["camera"] if field == "camera" else one["fields"].get("place")
        same, part = held is not None and fold(held) == fold(value), held is not None and fold(value) in fold(held)  # type: ignore[operator]
        if {"=": same, "!=": not same, "contains": part}[op]:
            wanted.add(one["id"])
    assert got == wanted


@given(
    held=st.lists(
        st.tuples(st.sampled_from("abcde"), st.one_of(st.integers(-3, 3), st.sampled_from([0.5, 2**53, 2**53 + 1]))),
        max_size=8,
    ),
    op=st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "in"]),
    value=st.one_of(st.integers(-4, 4), st.sampled_from([0.5, 2**53, 2**53 + 1])),
)
def test_numbers_are_compared_as_sqlite_would(held: Any, op: Any, value: Any) -> None:
    """Several values of an item, whole and broken, beyond what a double can hold."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE items(id)")
    connection.execute("CREATE TABLE fields(item, name, value)")
    connection.executemany("INSERT INTO items VALUES (?)", [*"abcde"])
    connection.executemany("INSERT INTO fields VALUES (?, 'n', ?)", held)
    columns = FieldColumns(lambda sql, values=(): connection.execute(sql, values).fetchall())
    within, test = ("NOT IN", "=") if op == "!=" else ("IN", "=" if op == "in" else op)
    sql = f"SELECT id FROM items WHERE id {within} (SELECT item FROM fields WHERE value {test} ?)"
    wanted = {one for (one,) in connection.execute(sql, (value,))}
    asked = FieldCondition("n", op, (value,) if op == "in" else value)
    assert chosen(columns, [asked], {"n": Field("n", "number")}) == wanted


def test_a_condition_is_read_in_one_pass_and_has_a_length(columns: Any) -> None:
    """20,000 spaces took 3.8 s: the text was looked through again from each of them."""
    for text in ("a" + " " * 15_000 + "b", "a " * 7_000, "width" + " " * 15_000 + ">= 3", "w in " + '",' * 7_000):
        began = time.perf_counter()
        with contextlib.suppress(FilterError):
            parse(text)
        assert time.perf_counter() - began < 0.5
    assert parse("width" + " " * 15_000 + ">= 3") == FieldCondition("width", ">=", "3")
    with refused(FilterError, "20,005", "16,000", code="condition-characters"):
        parse("width" + " " * 20_000)
    assert LONGEST == 16_000


def test_a_thousand_conditions_on_texts_are_not_a_thousand_walks() -> None:
    """1,024 conditions `caption != x` took 21.7 s: SQLite called Python for every caption of each."""
    connection = sqlite3.connect(":memory:")
    connection.executescript("CREATE TABLE items(id); CREATE TABLE captions(id, item, text);")
    connection.executemany("INSERT INTO items VALUES (?)", [(f"{at:06}",) for at in range(8_000)])
    connection.executemany(
        "INSERT INTO captions VALUES ('', ?, ?)", [(f"{at % 8_000:06}", f"Photo {at}") for at in range(40_000)]
    )
    columns = FieldColumns(lambda sql, values=(): connection.execute(sql, values).fetchall())
    known = {"caption": Field("caption", "text")}
    began = time.perf_counter()
    for query in range(64):
        asked = [FieldCondition("caption", "!=", f"photo {16 * query + at}") for at in range(16)]
        assert len(select(columns, asked, known)) == 8_000 - 16
    assert time.perf_counter() - began < 3


@pytest.mark.parametrize("column", ["dates", "moments", "texts"])
def test_dates_of_the_source_are_compared_as_dates(tmp_path: Path, column: str) -> None:
    days = [datetime(2024, 4, 30, 23), datetime(2024, 5, 1), datetime(2024, 5, 31, 18), datetime(2024, 6, 1), None]
    texts = ["2024-04-30 23:00", "2024-05-01", "2024-05-31T18:00:00Z", "2024-06-01", None]
    whens = {"dates": [day and day.date() for day in days], "moments": days, "texts": texts}[column]
    opened = of_table(tmp_path, {"when": whens, "flag": [True, False, None, True, False]})
    assert opened.fields["when"].type == "date"
    for text, wanted in {
        "when = 2024-05": {1, 2},
        "when != 2024-05": {0, 3, 4},
        "when > 2024-05": {3},
        "when <= 2024-05": {0, 1, 2},
        "when >= 2024-05-31": {2, 3},
        "flag = true": {0, 3},
        "flag != True": {1, 2, 4},
        "flag = 0": {1, 4},
    }.items():
        found = opened.database.of("SELECT name FROM files WHERE item IN", select_text(opened, text))
        assert {int(name[0]) for (name,) in found} == wanted, text
    with pytest.raises(FilterError, match="'true' is no number"):
        select_text(opened, "width = true")
    opened.close()


def test_only_whole_dates_make_a_field_a_date(tmp_path: Path) -> None:
    columns = {
        "year": ["2024", "2023"],
        "mixed": ["2024-05-31", "soon"],
        "note": ["2024-05-31 12:00 noon", "2024-05-31"],
    }
    opened = of_table(tmp_path, columns)
    assert {name: opened.fields[name].type for name in columns} == dict.fromkeys(columns, "text")
    opened.close()


def of_table(place: Path, columns: dict[str, list[Any]]) -> LibrarySnapshot:
    """A library of a Parquet table with these columns, a picture for every row: 0.png, 1.png, …"""
    count = len(next(iter(columns.values())))
    for row in range(count):
        Image.new("RGB", (20 + row, 20), (40 * row, 0, 0)).save(place / f"{row}.png")
    table = {"file_name": [f"{row}.png" for row in range(count)], "caption": ["a"] * count, **columns}
    pq.write_table(pa.table(table), place / "table.parquet")
    update(place / "table.parquet", place / "library", model="pixels")
    return LibrarySnapshot.open(place / "library")


def select_text(opened: LibrarySnapshot, text: str) -> list[str]:
    return select(opened.columns, [parse(text)], opened.fields).to_pylist()
