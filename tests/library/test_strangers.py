"""Libraries from strangers: whatever stands in them, a sentence says what is wrong, and nothing leaves."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from library_toys import draw

from refusals import refused
from visir.errors import VisirError
from visir.library import LibraryError, update
from visir.library.database import _RULES, LONGEST, Database
from visir.library.duplicates import duplicates
from visir.library.layout import LIBRARY, LibraryCard, check_library_name
from visir.library.snapshot import LibrarySnapshot
from visir.storage import MANIFEST, FileRecord, Manifest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    draw(folder / "photos", range(4))
    update(folder / "photos", folder / "library", model="pixels")
    return folder / "library"


@pytest.fixture
def library(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "library"))


def seal(library: Path, **content: Any) -> None:
    """Give the library the checksums of what lies there: whoever makes one can."""
    manifest = Manifest.read(library, LIBRARY)
    files = {name: FileRecord.of(library / name) for name in manifest.files}
    sealed = Manifest(manifest.kind, {**manifest.content, **content}, files, manifest.generation, manifest.version)
    (library / MANIFEST).write_bytes(sealed.to_bytes())


def change(library: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    """Change the database behind visir's back."""
    path = library / LibraryCard.read(library).database
    connection = sqlite3.connect(path)
    connection.create_function("fold", 1, str, deterministic=True)
    with connection:
        for statement in statements:
            connection.execute(statement, values)
    connection.close()
    seal(library)


def read_everything(library: Path) -> None:
    """All that commands and the service tell of pictures, through JSON."""
    with LibrarySnapshot.open(library) as opened:
        ids = [one for (one,) in opened.database.rows("SELECT id FROM items")]
        for item in opened.items(ids):
            assert item.name is not None and item.media_type
            json.dumps([item.fields, item.captions, item.width, item.height, item.bytes, item.category]).encode()
            opened.thumbnail(item.id)
            try:
                opened.open_image(item.id)
            except LibraryError:
                continue
        duplicates(opened.database)
        opened.where([])


WRONG = [None, -1, 2**62, 1.5, b"\xff\x00", "", "a\0b", "../" * 8 + "etc/passwd", "/etc/passwd", "z" * 32, "0" * 64]
COLUMNS = [(table, column) for table, rules in _RULES.items() for column in rules]


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=lambda name: str(name))
def test_any_value_anywhere_is_refused_or_harmless(library: Path, table: str, column: str) -> None:
    """No value in any column of any table raises anything but a `VisirError`: on reading, and on updating."""
    before = (library / LibraryCard.read(library).database).read_bytes()
    caught = 0
    for value in WRONG:
        (library / LibraryCard.read(library).database).write_bytes(before)
        seal(library)
        row = dict.fromkeys(_RULES[table], "0" * 32) | {column: value}
        columns, marks = ", ".join(row), ", ".join("?" * len(row))
        try:
            if table in ("items", "files"):
                one = f"(SELECT min({'id' if table == 'items' else 'path'}) FROM {table})"
                key = "id" if table == "items" else "path"
                change(library, f"UPDATE {table} SET {column} = ? WHERE {key} = {one}", values=(value,))
            else:
                change(library, f"INSERT INTO {table}({columns}) VALUES ({marks})", values=tuple(row.values()))
        except sqlite3.IntegrityError:
            continue  # the schema itself takes no NULL there
        for act in (read_everything, lambda library: update(None, library)):
            try:
                act(library)
            except VisirError as fault:
                caught += 1
                assert "\0" not in str(fault)
    assert caught >= 2 or (table, column) in {("broken", "path"), ("broken", "mark"), ("broken", "reason")}


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE captions"],
        ["DROP TABLE fields", "CREATE VIEW fields AS SELECT id AS item, 'x' AS name, 1 AS value FROM items"],
        ["ALTER TABLE items ADD COLUMN more TEXT"],
        ["CREATE TRIGGER t AFTER DELETE ON files BEGIN DELETE FROM items; END"],
        ["CREATE INDEX more ON files(fold(name))"],
        [
            "CREATE TABLE other AS SELECT * FROM files",
            "DROP TABLE files",
            "CREATE VIEW files AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) "
            "SELECT other.* FROM other, n",  # has no end
        ],
    ],
    ids=["no table", "view", "column", "trigger", "index", "endless view"],
)
def test_another_schema_is_refused_before_anything_is_read(library: Path, statements: list[str]) -> None:
    change(library, *statements)
    for act in (LibrarySnapshot.open, lambda library: update(None, library)):
        with pytest.raises(LibraryError, match=r"its tables are not those that visir makes|malformed database schema"):
            act(library)


def test_a_row_is_named_by_its_column(library: Path) -> None:
    change(library, "UPDATE items SET width = 'wide', phash = 'x'")
    with pytest.raises(LibraryError) as fault:
        LibrarySnapshot.open(library)
    assert "items.width: 4 values that visir would not write" in str(fault.value) and "items.phash: 4" in str(
        fault.value
    )


def test_huge_values_are_refused(library: Path) -> None:
    change(library, f"UPDATE files SET name = '{'a' * (LONGEST + 1)}'")
    with refused(LibraryError, "files.name", "4 values"):
        LibrarySnapshot.open(library)
    change(library, f"UPDATE files SET name = replace(hex(zeroblob({200_000_000})), '0', 'b')")
    with refused(LibraryError, "too big"):
        LibrarySnapshot.open(library)


@pytest.mark.parametrize("schema", [None, "1; DROP", b"1", 10**6, -1.5])
def test_a_schema_of_any_kind(library: Path, schema: Any) -> None:
    change(library, "UPDATE meta SET value = ? WHERE name = 'schema'", values=(schema,))
    with pytest.raises(LibraryError):
        LibrarySnapshot.open(library)


def test_a_file_of_this_machine_is_not_handed_out(library: Path, tmp_path: Path) -> None:
    """A row leads to a secret, by an absolute path or by "..": what is read there is not the item, and stays here."""
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"what nobody else may know")
    for place in (str(secret), f"../{secret.name}", f"{library}/../{secret.name}"):
        change(library, "UPDATE files SET place = ?", values=(place,))
        change(library, "UPDATE items SET bytes = ?", values=(len(secret.read_bytes()),))
        seal(library, root=str(library))
        with LibrarySnapshot.open(library) as opened:
            for (item,) in opened.database.rows("SELECT id FROM items"):
                with pytest.raises(LibraryError, match="it has changed since"):
                    opened.open_image(item)


@pytest.mark.parametrize(
    "content",
    [
        {"name": 3},
        {"name": None},
        {"database": "../items-1.sqlite"},
        {"database": "/etc/passwd"},
        {"indexes": ["../../etc"]},
        {"indexes": [3]},
        {"indexes": 3},
        {"kinds": {"dense": 3}},
        {"kinds": "dense"},
        {"kinds": {"../x": "exact"}},
        {"settings": {"dense": "x"}},
        {"cards": []},
        {"generation": "x"},
        {"images": [1]},
        {"head": 1},
        {"model": []},
        {"root": 0},
    ],
    ids=str,
)
def test_a_card_with_anything_in_it(library: Path, content: dict[str, Any]) -> None:
    seal(library, **content)
    for act in (LibrarySnapshot.open, lambda library: update(None, library)):
        with pytest.raises(LibraryError, match=f"wrong {next(iter(content))}|does not describe a library"):
            act(library)


GOOD = ["photos", "a", "x" * 200, "..a", "Ferien 2024", "日本", "50 % off?", "a#b", "-"]
BAD = ["", ".", "..", "...", "a/b", "/", "a\\b", "x" * 201, "a\nb", "a\x1b[2J", "a\0b"]


@pytest.mark.parametrize("name", GOOD)
def test_names_that_can_be_reached(name: str) -> None:
    check_library_name(name)


@pytest.mark.parametrize("name", BAD)
def test_names_that_could_not_be_reached_are_refused_where_they_are_given(
    name: str, library: Path, tmp_path: Path
) -> None:
    draw(tmp_path / "photos", range(2))
    for act in (
        lambda: update(tmp_path / "photos", tmp_path / "new", model="pixels", name=name),
        lambda: update(None, library, name=name),
    ):
        with refused(LibraryError, "200", code="characters-printed-without-not"):
            act()
    assert not (tmp_path / "new").exists() and LibraryCard.read(library).name == "library"


def test_the_name_of_a_folder_is_a_name_too(tmp_path: Path) -> None:
    draw(tmp_path / "photos", range(2))
    with refused(LibraryError, code="characters-printed-without-not"):
        update(tmp_path / "photos", tmp_path / ("x" * 201), model="pixels")
    update(tmp_path / "photos", tmp_path / ("x" * 201), model="pixels", name="short")


def test_a_database_of_nothing_is_sound() -> None:
    from visir.library.database import row_faults

    rows: Callable[..., Any] = Database.empty().rows
    assert row_faults(rows, Database.empty().rows) == []
