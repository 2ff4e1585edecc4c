"""The engine of docs/how-to/use-an-engine.md holds what every engine must hold."""

from __future__ import annotations

import importlib
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_engines as contract
from engine_places import Mine, Place

from refusals import refused
from visir.retrieval.kinds import KINDS, build_index, open_index
from visir.retrieval.remote import engine as engine_module
from visir.retrieval.remote import index as storage
from visir.retrieval.remote.engine import EngineError, EngineHit
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


Hits = list[EngineHit]
WRONG_ANSWERS: dict[str, tuple[Callable[[Hits], Any], str]] = {
    "too few": (lambda hits: hits[:2], "finds 2 documents of the 5 that it holds"),
    "none": (lambda hits: [], "finds 0 documents of the 5 that it holds"),
    "unknown ids": (lambda hits: [hit._replace(id=f"x-{hit.id}") for hit in hits], "finds 0 documents of the 5"),
    "twice": (lambda hits: [hits[0], *hits], "finds a document twice"),
    "ids that are numbers": (lambda hits: [hit._replace(id=7) for hit in hits], "no texts, such as 7"),
    "scores of NaN": (lambda hits: [hit._replace(score=float("nan")) for hit in hits], "scores that are NaN"),
    "scores of text": (lambda hits: [hit._replace(score="best") for hit in hits], "scores that are no numbers"),
    "worst first": (lambda hits: hits[::-1], "does not give the best documents first"),
    "no vectors": (lambda hits: [hit._replace(vector=None) for hit in hits], "without the vectors"),
    "short vectors": (
        lambda hits: [hit._replace(vector=hit.vector[:3]) for hit in hits],
        "another shape than 12 values",
    ),
    "vectors of NaN": (lambda hits: [hit._replace(vector=hit.vector * np.nan) for hit in hits], "NaN or infinite"),
    "vectors of text": (lambda hits: [hit._replace(vector="far") for hit in hits], "none of this index's"),
}


@pytest.mark.parametrize("wrong", WRONG_ANSWERS)
@pytest.mark.parametrize("listed", [True, False])
def test_an_engine_that_answers_what_none_may(
    wrong: str, listed: bool, at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an error that names the place and who to tell, and never a wrong answer."""
    monkeypatch.setattr(storage, "LISTED", 50 if listed else 5)
    mine = Mine(at, tmp_path / "index")
    engine, (spoil, said) = type(mine.index._storage.state.engine), WRONG_ANSWERS[wrong]
    search = engine.search
    monkeypatch.setattr(engine, "search", lambda *given, **named: [spoil(hits) for hits in search(*given, **named)])
    if wrong == "unknown ids" and not listed:
        return  # nobody here knows the ids of so many documents
    with refused(EngineError, "mine", code="engine-answers-wrong", hint=("visir_example.sqlite.SqliteEngine",)) as no:
        mine.index.search(mine.queries, 5)
    assert said in str(no.value)
    monkeypatch.setattr(engine, "search", search)
    assert mine.answers(mine.index, kept=mine.some(0, 30))


def test_an_engine_that_forgets_a_search_or_the_filter(
    at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Mine(at, tmp_path / "index")
    engine = type(mine.index._storage.state.engine)
    search, allowed = engine.search, mine.documents.ids[:4]
    wanted = mine.index.search_among(mine.queries, allowed, 3)
    with monkeypatch.context() as spoiled:
        spoiled.setattr(engine, "search", lambda *given, **named: search(*given, **named)[:-1])
        with refused(EngineError, "4", "5", code="engine-answers-wrong"):
            mine.index.search(mine.queries, 5)
        spoiled.setattr(engine, "search", lambda *given, **named: search(*given, **{**named, "allowed": None}))
        with refused(EngineError, "filter", code="engine-answers-wrong"):
            mine.index.search_among(mine.queries, allowed, 3)
        spoiled.setattr(engine, "search", lambda *given, **named: [hits[:2] for hits in search(*given, **named)])
        with refused(EngineError, "2", "3", code="engine-answers-wrong"):
            mine.index.search_among(mine.queries, allowed, 3)
    assert mine.index.search_among(mine.queries, allowed, 3).answer("t0000") == wanted.answer("t0000")


def test_an_engine_that_lists_or_gives_what_none_may(
    at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Mine(at, tmp_path / "index")
    engine = type(mine.index._storage.state.engine)
    ids = engine.ids
    for spoil, said in ((lambda ids: [*ids, ids[0]], "an id twice"), (lambda ids: [*ids, 7], "no texts")):
        monkeypatch.setattr(engine, "ids", lambda *given, spoil=spoil: spoil(ids(*given)))
        with refused(EngineError, "mine", said, code="engine-answers-wrong"):
            mine.open().search(mine.queries, 5)
    monkeypatch.setattr(engine, "ids", ids)
    for vector in (None, np.full(12, np.inf), np.ones(11)):
        monkeypatch.setattr(engine, "get", lambda self, ids, space, vector=vector: dict.fromkeys(ids, vector))
        with refused(EngineError, "mine", code="engine-answers-wrong"):
            mine.index.select(mine.ids[:2])


def test_a_graph_that_does_not_lead_to_all_documents_is_said(
    at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Mine(at, tmp_path / "index")
    engine = mine.index._storage.state.engine
    object.__setattr__(engine.place, "m", 16)
    search = type(engine).search
    monkeypatch.setattr(type(engine), "search", lambda *given, **named: [x[:2] for x in search(*given, **named)])
    with pytest.warns(
        UserWarning, match=r"mine.* its graph finds 2 documents of the 5 that it holds.*\(m=0\) finds all"
    ):
        assert len(mine.index.search(mine.queries, 5).answer("t0000")) == 2


def test_an_engine_that_loses_what_it_is_sent(at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Mine(at, tmp_path / "index")
    engine = type(mine.index._storage.state.engine)
    upsert = engine.upsert
    monkeypatch.setattr(engine, "upsert", lambda self, points: upsert(self, points[1:]))
    with refused(EngineError, "other", "39", "40", code="engine-answers-wrong"):
        at.build(mine.documents, "dense", tmp_path / "other", collection="other")
    assert at.names() == ["mine"] and not (tmp_path / "other").exists()
    with pytest.warns(UserWarning, match="holds 39 documents; by this index's own changes it should hold 40"):
        mine.index.add(mine.some(30))
    monkeypatch.setattr(engine, "read_mark", lambda self: {"index": "mine"})
    with refused(EngineError, "mine", "Mark", code="engine-answers-wrong"):
        mine.open()


def test_the_page_says_how_long_it_is(at: Place) -> None:
    page = (ROOT / "docs" / "how-to" / "use-an-engine.md").read_text("utf-8")
    code = (EXAMPLE / "visir_example" / "sqlite.py").read_text("utf-8")
    assert f"{round(code.count(chr(10)), -1)} lines" in page
    assert all(line in code for line in page.split("```python")[-1].split("```")[0].strip().splitlines())
