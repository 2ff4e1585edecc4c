"""Changes of an index on a server, whichever it is: seen as a whole, and by nobody before they are complete.

What a kill leaves at every request is in `cut_off.py` (Qdrant, Milvus) and in `test_pgvector.py`.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_places import *  # noqa: F403
from engine_places import SERVERS, Mine, Place, truth
from index_data import TERMS, dense, random_dense, same_run, sparse, vectors

from refusals import refused
from visir.errors import EmbeddingError
from visir.retrieval.index import IndexFolderError, changing_index, read_index
from visir.retrieval.kinds import open_index
from visir.retrieval.remote import index as storage
from visir.retrieval.remote.engine import Engine, EngineError, Mark, Point
from visir.retrieval.remote.index import HybridCollection

STEPWISE = pytest.mark.parametrize("place", ["qdrant", "milvus"])


def before_the_mark(engine: Engine, act: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Do something when all of a change was sent, and nothing of it is counted yet."""
    plain = type(engine).mark

    def mark(self: Engine, new: Any) -> None:
        patch.setattr(type(engine), "mark", plain)
        act()
        plain(self, new)

    patch.setattr(type(engine), "mark", mark)


@SERVERS
def test_the_folder_does_not_grow_with_the_documents(at: Place, tmp_path: Path) -> None:
    documents, sizes = random_dense("image", 300, 1), []
    for name, count in (("few", 3), ("many", 300)):
        index = at.build(documents.select(documents.ids[:count]), "dense", tmp_path / name)
        assert {file.split("/")[0] for file in read_index(tmp_path / name).files} == {"space-1"}
        sizes.append(index.info().bytes)
    assert sizes[0] == sizes[1]


@SERVERS
def test_who_searches_does_not_see_documents_that_are_added_later(at: Place, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 60, 1), random_dense("text", 5, 2)
    at.build(documents.select(documents.ids[:40]), "dense", tmp_path / "index")
    mine, theirs = open_index(tmp_path / "index"), open_index(tmp_path / "index")
    wanted = mine.search(queries, 10)
    theirs.add(documents.select(documents.ids[40:]))
    assert same_run(mine.search(queries, 10), wanted) and len(mine.ids) == 40
    assert same_run(theirs.search(queries, 10), truth(documents, "dense", queries, 10))
    theirs.delete(documents.ids[:5])  # what is deleted is seen by nobody
    found = mine.search(queries, 60)
    left = truth(documents.select(documents.ids[5:40]), "dense", queries, 60)
    assert all(found.answer(query) == left.answer(query) for query in queries.ids.to_pylist())
    with refused(IndexFolderError, "index", code="another-process-changed-since"):
        mine.delete(documents.ids[10:11])


@SERVERS
def test_of_many_documents_the_gallery_of_a_run_is_stated(
    at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LISTED", 20)
    documents, queries = random_dense("image", 30, 1), random_dense("text", 5, 2)
    index: Any = at.build(documents, "dense", tmp_path / "index")
    monkeypatch.setattr(type(index._storage.state.engine), "ids", lambda *_: pytest.fail("all ids were asked for"))
    run, wanted = index.search(queries, 7), truth(documents, "dense", queries, 7)
    assert run.gallery.ids is None and run.gallery.size == 30
    assert [run.answer(q) for q in queries.ids.to_pylist()] == [wanted.answer(q) for q in queries.ids.to_pylist()]


@STEPWISE
@pytest.mark.parametrize("change", ["add", "delete"])
def test_a_request_of_a_killed_change_that_arrives_late_is_noticed(
    change: str, at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, queries = random_dense("image", 40, 1), random_dense("text", 5, 2)
    ids = documents.ids.to_pylist()
    index: Any = at.build(documents.select(ids[:30]), "dense", tmp_path / "index", collection="mine")
    killed: Any = open_index(tmp_path / "index")._storage.state.engine  # type: ignore[attr-defined]
    killed.begin(killed.read_mark(), "2")
    late = Point("late", {"dense": documents.vectors[0]})
    act = (lambda: killed.upsert([late])) if change == "add" else (lambda: killed.delete(ids[:2]))
    before_the_mark(killed, act, monkeypatch)
    with refused(EngineError, code="change-added-documents-deleted") as caught:
        index.add(documents.select(ids[30:])) if change == "add" else index.delete(ids[20:30])
    said = "added 10 documents and deleted 0; the server counts 11 and 0"
    assert (said if change == "add" else "added 0 documents and deleted 10; the server counts 0 and 12") in str(
        caught.value
    )
    assert "try again" in str(caught.value) and at.count("mine") == 30 + (change == "add")  # it may be another copy's
    for opened in (index, open_index(tmp_path / "index")):
        assert same_run(opened.search(queries, 9), truth(documents.select(ids[:30]), "dense", queries, 9))
    index.add(documents.select(ids[30:])) if change == "add" else index.delete(ids[20:30])
    kept = documents.select(ids if change == "add" else ids[:20])
    assert same_run(open_index(tmp_path / "index").search(queries, 9), truth(kept, "dense", queries, 9))
    assert at.count("mine") == len(kept)


@STEPWISE
def test_a_write_that_was_lost_is_noticed(at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = random_dense("image", 40, 1)
    index: Any = at.build(documents.select(documents.ids[:30]), "dense", tmp_path / "index", collection="mine")
    before_the_mark(index._storage.state.engine, lambda: at.lose("mine", "i0035"), monkeypatch)
    with refused(EngineError, "10", "0", "9", "0", code="change-added-documents-deleted"):
        index.add(documents.select(documents.ids[30:]))
    assert at.count("mine") == 30 and index.ids.equals(documents.ids[:30])
    before_the_mark(index._storage.state.engine, lambda: at.lose("new", "i0001"), monkeypatch)
    with refused(EngineError, "40", "0", "39", "0", code="change-added-documents-deleted"):
        at.build(documents, "dense", tmp_path / "new", collection="new")
    assert at.names() == ["mine"] and not (tmp_path / "new").exists()


@STEPWISE
@pytest.mark.parametrize("change", ["add", "delete"])
def test_two_copies_that_are_changed_at_the_same_time(
    change: str, at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that marks first is right; the other takes its own documents back, and none of the first one's."""
    documents, queries = random_dense("image", 40, 1), random_dense("text", 5, 2)
    ids = documents.ids.to_pylist()
    index: Any = at.build(documents.select(ids[:30]), "dense", tmp_path / "index", collection="mine")
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    copy = open_index(tmp_path / "copy")
    before_the_mark(index._storage.state.engine, lambda: copy.add(documents.select(ids[30:35])), monkeypatch)
    with refused(EngineError, code="changed-through-another-copy"):
        index.add(documents.select(ids[35:])) if change == "add" else index.delete(ids[:4])
    right = truth(documents.select(ids[:35]), "dense", queries, 9)
    assert same_run(open_index(tmp_path / "copy").search(queries, 9), right) and at.count("mine") == 35
    with refused(EngineError, "2", "1", code="knows-changes-folder"):
        open_index(tmp_path / "index")


@STEPWISE
def test_two_copies_that_add_the_same_documents_at_the_same_time(
    at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, queries = random_dense("image", 40, 1), random_dense("text", 5, 2)
    ids = documents.ids.to_pylist()
    index: Any = at.build(documents.select(ids[:30]), "dense", tmp_path / "index", collection="mine")
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    copy = open_index(tmp_path / "copy")
    before_the_mark(index._storage.state.engine, lambda: copy.add(documents.select(ids[30:])), monkeypatch)
    with refused(EngineError, code="changed-through-another-copy"):
        index.add(documents.select(ids[30:]))
    found = open_index(tmp_path / "copy")
    assert len(found.ids) == found.info().documents == at.count("mine") == 40
    assert same_run(found.search(queries, 9), truth(documents, "dense", queries, 9))


@STEPWISE
@pytest.mark.parametrize("shared", [False, True])
def test_documents_that_arrive_after_another_copy_has_marked(shared: bool, at: Place, tmp_path: Path) -> None:
    """They are taken back where they can be told from those of the other copy: that one loses nothing."""
    documents = random_dense("image", 40, 1)
    ids = documents.ids.to_pylist()
    at.build(documents.select(ids[:30]), "dense", tmp_path / "index", collection="mine")
    engine: Any = open_index(tmp_path / "index")._storage.state.engine  # type: ignore[attr-defined]
    before, sent = engine.read_mark(), ["late", ids[30] if shared else "later"]
    engine.begin(before, "1")
    open_index(tmp_path / "index").add(documents.select(ids[30:]))
    engine.upsert([Point(id, {"dense": documents.vectors[0]}) for id in sent])
    with refused(EngineError, code="changed-through-another-copy"):
        engine.mark(Mark(before.index, before.generation + 1, True, "1", 32))
    engine.undo()
    assert set(open_index(tmp_path / "index").ids.to_pylist()) == set(ids) | ({"late"} if shared else set())
    assert at.count("mine") == (41 if shared else 40)
    with refused(EngineError, code="changed-through-another-copy"):
        engine.begin(before, "1")
    assert at.count("mine") == (41 if shared else 40)


@STEPWISE
@pytest.mark.parametrize("change", ["add", "delete"])
def test_another_copy_that_begins_just_before_the_mark(
    change: str, at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes what is not marked: the change that was counted before is no change then."""
    documents, queries = random_dense("image", 40, 1), random_dense("text", 5, 2)
    ids = documents.ids.to_pylist()
    index: Any = at.build(documents.select(ids[:30]), "dense", tmp_path / "index", collection="mine")
    other: Any = open_index(tmp_path / "index")._storage.state.engine  # type: ignore[attr-defined]
    plain = type(other).write_mark

    def write_mark(self: Engine, mark: Any) -> None:
        monkeypatch.setattr(type(other), "write_mark", plain)
        other.begin(other.read_mark(), "3")
        plain(self, mark)

    monkeypatch.setattr(type(other), "write_mark", write_mark)
    with refused(EngineError, "0", "0", code="change-added-documents-deleted"):
        index.add(documents.select(ids[30:])) if change == "add" else index.delete(ids[20:30])
    assert same_run(
        open_index(tmp_path / "index").search(queries, 9), truth(documents.select(ids[:30]), "dense", queries, 9)
    )
    index.add(documents.select(ids[30:])) if change == "add" else index.delete(ids[20:30])
    kept = documents.select(ids if change == "add" else ids[:20])
    assert same_run(open_index(tmp_path / "index").search(queries, 9), truth(kept, "dense", queries, 9))
    assert at.count("mine") == open_index(tmp_path / "index").info().documents == len(kept)


@STEPWISE
def test_another_copy_that_sends_as_many_documents_just_before_the_mark(
    mine: Mine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has taken away what was sent from here, and put in as many: they are not taken for those that were sent."""
    other: Any = mine.open()._storage.state.engine
    mark, count_changed = other.read_mark(), type(other).count_changed

    def send_as_many(self: Engine, first: int, last: int) -> tuple[int, int]:
        monkeypatch.setattr(type(other), "count_changed", count_changed)
        other.begin(mark, "f1e2d3")
        other.upsert([Point(f"theirs-{n}", {"dense": mine.documents.vectors[n]}) for n in range(10)])
        counted: tuple[int, int] = count_changed(self, first, last)
        return counted

    monkeypatch.setattr(type(other), "count_changed", send_as_many)
    with refused(EngineError, "10", "0", "0", "0", code="change-added-documents-deleted"):
        mine.index.add(mine.some(30))
    assert mine.answers(mine.open(), kept=mine.some(0, 30)) and mine.at.count("mine") == 40
    other.mark(Mark(mark.index, mark.generation + 1, True, "f1e2d3", 40))
    assert {f"theirs-{n}" for n in range(10)} < set(other.ids(other.seen)) and mine.at.count("mine") == 40


@SERVERS
def test_a_mark_whose_answer_is_lost_is_known_when_the_folder_is_opened(
    mine: Mine, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = mine.index
    plain = type(index._storage.state.engine).mark

    def lost(self: Engine, mark: Any) -> None:
        plain(self, mark)
        raise EngineError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(type(index._storage.state.engine), "mark", lost)
        with pytest.raises(EngineError, match="no answer"):
            index.add(mine.some(30, 35))
    with refused(EmbeddingError, "1 id", "i0034", code="index-already"):
        index.add(mine.some(34))
    assert mine.open().ids.to_pylist() == mine.ids[:35]
    index.add(mine.some(35))
    assert mine.at.count("mine") == len(mine.open().ids) == 40
    assert mine.answers(index, kept=mine.documents)


@SERVERS
@pytest.mark.parametrize("form", ["dense", "sparse", "both"])
def test_documents_of_another_program_are_neither_found_nor_counted_nor_deleted(
    form: str, at: Place, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    both = dense("image", rng.standard_normal((30, 12))), sparse("image", rng.random((30, TERMS)))
    queries = dense("text", both[0].vectors[:1] + 0.01), sparse("text", both[1].to_scipy()[:1].toarray())
    ids, where = both[0].ids.to_pylist(), {"collection": "mine", **at.settings}
    if form == "both":
        build = lambda folder, **more: HybridCollection.build(*both, folder, engine=at.kinds["dense"], **more)  # noqa: E731
        wanted = build(tmp_path / "same", **at.settings).search(*queries, 30)
        index: Any = build(tmp_path / "index", **where)
    else:
        documents = both[form == "sparse"]
        wanted = truth(documents, form, queries[form == "sparse"], 30)
        index = at.build(documents, form, tmp_path / "index", collection="mine")
    spaces = ["dense", "sparse"] if form == "both" else [form]
    words = queries[1]
    first = {
        "dense": queries[0].vectors[0] / np.linalg.norm(queries[0].vectors[0]),
        "sparse": (words.terms[: words.offsets[1]], words.values[: words.offsets[1]]),
    }
    # PostgreSQL refuses rows that are not whole, and who writes a whole one of this generation has added a document.
    strangers: dict[str, dict[str, Any]] = {"a": {}, "b": {"id": "i0003"}, "c": {"id": "elsewhere", "added": 1}}
    if at.kinds["dense"] == "pgvector":
        for key in ("a", "b"):
            with pytest.raises(psycopg.errors.NotNullViolation):
                at.put_strange("mine", key, {name: first[name] for name in spaces}, strangers.pop(key))
        strangers["c"]["added"] = 7
    for key, payload in strangers.items():
        at.put_strange("mine", key, {name: first[name] for name in spaces}, payload)
    assert at.count("mine") == 30 + len(strangers)

    def search() -> Any:
        asked = queries if form == "both" else [queries[form == "sparse"]]
        return index.search(*asked, 9)

    found = search()
    assert found.gallery.size == 30
    for query in queries[0].ids.to_pylist():
        scores, answer = dict(wanted.answer(query)), found.answer(query)  # equal sums stand in any order
        assert np.allclose([score for _, score in answer], list(scores.values())[:9], rtol=1e-5)
        assert all(np.isclose(scores[id], score, rtol=1e-5) for id, score in answer)
    assert index._storage.state.ids.to_pylist() == ids and index._storage.state.size == 30
    index.delete(ids[20:])
    assert at.count("mine") == 20 + len(strangers)


@STEPWISE
def test_a_folder_of_an_earlier_version_is_refused(at: Place, tmp_path: Path) -> None:
    documents = vectors("dense", "image", 5, 1)
    at.build(documents, "dense", tmp_path / "index", collection="mine")
    with changing_index(tmp_path / "index", 1) as change:
        pq.write_table(pa.table({"id": documents.ids}), change.file("ids-1.parquet"))
        change.commit({**change.content, "ids": "ids-1.parquet"})
    with refused(IndexFolderError, code="earlier-version-visir-made") as caught:
        open_index(tmp_path / "index")
    assert "build it again, into a new folder" in str(caught.value) and "mine" in str(caught.value)


@SERVERS
def test_documents_that_were_deleted_past_visir_are_counted(mine: Mine) -> None:
    for id in mine.ids[:5]:
        mine.at.lose("mine", id)
    said = "holds 25 documents; by this index's own changes it should hold 30.*An update of a library adds them again"
    with pytest.warns(UserWarning, match=said):
        assert mine.open().info().documents == 25
    with pytest.warns(UserWarning, match=said):
        mine.index.add(mine.some(0, 5))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*by this index's own changes")
        assert len(mine.index.ids) == mine.index.info().documents == mine.open().info().documents == 30
        mine.index.delete(mine.ids[:3])
        assert mine.open().info().documents == mine.at.count("mine") == 27
    assert mine.answers(mine.open(), kept=mine.some(3, 30))
