"""The engine of docs/how-to/use-an-engine.md holds what every engine must hold."""

from __future__ import annotations

import importlib
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
import test_engines as contract
from engine_places import Mine, Place

from refusals import refused
from visir.retrieval.kinds import KINDS, build_index, open_index
from visir.retrieval.remote import engine as engine_module
from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.index import COLLECTION, forget
from visir.retrieval.remote.settings import FAMILIES

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "visir-example" / "src"


class SqlitePlace(Place):
    """A file of SQLite, looked at past visir."""

    def __init__(self, file: Path) -> None:
        self.file = file
        super().__init__({"dense": "sqlite"}, {"url": f"sqlite://localhost{file}"})
        tables = "SELECT name FROM sqlite_master WHERE sql LIKE '%BLOB%' ORDER BY 1"
        self.names = lambda: [name for (name,) in self.sql(tables)]
        self.make_strange = lambda name: self.sql(f'CREATE TABLE "{name}" (theirs BLOB)')
        self.read_strange = lambda name: self.sql("SELECT sql FROM sqlite_master WHERE name = ?", name)
        self.count = lambda name: int(self.sql(f'SELECT count(*) FROM "{name}"')[0][0])

    def sql(self, statement: str, *values: Any) -> list[Any]:
        with sqlite3.connect(self.file) as connection:
            return connection.execute(statement, values).fetchall()

    def build(self, documents: Any, form: str, folder: Path, **options: Any) -> Any:
        options = {name: value for name, value in options.items() if name not in ("ef_search", "retries")}
        return build_index(documents, "sqlite", folder, **self.settings, **options)


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's engine, as if its package were installed."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    found = importlib.import_module("visir_example.sqlite")
    monkeypatch.setitem(KINDS._things, "sqlite", found.SQLITE)
    monkeypatch.setitem(FAMILIES._things, "sqlite", found.FAMILY)
    yield SqlitePlace(tmp_path / "vectors.db")
    sys.modules.pop("visir_example.sqlite")


def test_it_holds_what_every_engine_holds(at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    contract.test_a_history_of_changes_is_the_index_of_what_is_left("dense", at, folder("history"))
    for allowed in (1, 20, 75):
        contract.test_the_best_among_allowed_documents("dense", allowed, at, folder(f"among{allowed}"), monkeypatch)
    contract.test_many_batches_are_one_index("dense", at, folder("batches"), monkeypatch)
    contract.test_an_index_that_was_emptied_takes_documents_again(at, folder("emptied"))
    contract.test_ids_may_be_any_text("dense", at, folder("ids"))
    contract.test_an_index_that_was_changed_through_another_copy_says_so(at, folder("copy"))


def test_what_strangers_have_there_stays(at: Place, tmp_path: Path) -> None:
    contract.test_what_strangers_have_there_stays_as_it_is(at, tmp_path)


def test_a_change_that_fails_leaves_what_was_there(at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Mine(at, tmp_path / "index")
    engine = type(mine.index._storage.state.engine)
    with monkeypatch.context() as broken:
        broken.setattr(engine, "mark", lambda self, mark: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mine.index.add(mine.some(30))
    assert at.count("mine") == 30 and mine.answers(mine.open(), kept=mine.some(0, 30))
    mine.index.add(mine.some(30))
    assert mine.answers(mine.open(), kept=mine.documents)


def test_a_file_that_nobody_has_named_is_not_asked(at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Mine(at, tmp_path / "index")
    monkeypatch.setattr(engine_module, "_named", set())
    with refused(EngineError, code="vectors-lie-server-nobody"):
        open_index(mine.folder)
    monkeypatch.setenv("VISIR_SQLITE_URL", at.settings["url"])
    assert len(open_index(mine.folder).ids) == 30


def test_what_a_killed_build_leaves_is_found_by_what_was_written_down(at: Place, tmp_path: Path) -> None:
    mine = Mine(at, tmp_path / "index")
    fact = {"url": at.settings["url"], "collection": "mine", "index": mine.index._storage.content["index"]}
    assert COLLECTION and not forget({**fact, "index": "another"}) and at.names() == ["mine"]
    assert forget(fact) and at.names() == []


def test_the_page_says_how_long_it_is(at: Place) -> None:
    page = (ROOT / "docs" / "how-to" / "use-an-engine.md").read_text("utf-8")
    code = (EXAMPLE / "visir_example" / "sqlite.py").read_text("utf-8")
    assert f"{round(code.count(chr(10)), -1)} lines" in page
    assert all(line in code for line in page.split("```python")[-1].split("```")[0].strip().splitlines())
