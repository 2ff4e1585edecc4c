"""What an index on a server notices while it is open: its collection is gone, made anew, older, or empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_places import *  # noqa: F403
from engine_places import SERVERS, Mine
from index_data import TERMS, dense, random_dense, sparse

from refusals import refused
from visir.retrieval.index import read_index
from visir.retrieval.kinds import open_index
from visir.retrieval.remote import index as storage
from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.index import HybridCollection

LISTED = pytest.mark.parametrize("listed", [True, False], ids=["listed", "stated"])
"""Whether the ids are brought here for the gallery, as those of few documents are."""
EMPTIED = "every document that this index had when it was opened was deleted by another process meanwhile"


def unlisted(listed: bool, patch: pytest.MonkeyPatch) -> None:
    if not listed:
        patch.setattr(storage, "LISTED", 5)


@SERVERS
@pytest.mark.parametrize(
    ("listed", "before", "same_ids"),
    [(True, "opened", True), (True, "searched", True), (True, "searched", False), (False, "searched", True)],
)
def test_a_collection_that_is_made_anew(
    same_ids: bool, before: str, listed: bool, mine: Mine, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlisted(listed, monkeypatch)
    if before == "searched":
        assert mine.answers(mine.index, kept=mine.some(0, 30))
    storage.forget(storage.fact_of(mine.index.settings, read_index(mine.folder).content["index"]))
    ids = mine.ids[:30] if same_ids else [f"other{n:02}" for n in range(30)]
    others = dense("image", random_dense("image", 30, 7).vectors, ids)
    mine.at.build(others, "dense", mine.folder.with_name("other"), collection="mine")
    asked: list[Callable[[], Any]] = [
        lambda: mine.index.search(mine.queries, 5),
        lambda: mine.index.select(mine.ids[:2]),
        lambda: mine.index.search_among(mine.queries, mine.documents.ids[:3], 2),
        lambda: mine.index.search(mine.queries, 5),  # once more
    ]
    for ask in asked:
        with refused(EngineError, "mine", code="not-one-index-folder") as no:
            ask()
        assert "deleted and made anew" in str(no.value)


@SERVERS
@LISTED
def test_a_collection_that_is_deleted(listed: bool, mine: Mine, monkeypatch: pytest.MonkeyPatch) -> None:
    unlisted(listed, monkeypatch)
    mine.index.search(mine.queries, 3)
    mine.index._storage.state.engine.destroy()
    with pytest.raises(EngineError, match="does not exist") as no:
        mine.index.search(mine.queries, 3)
    assert "build the index again" in str(no.value)


@pytest.mark.parametrize("place", ["qdrant", "milvus"])
def test_a_server_that_was_restored_from_a_backup_is_refused(mine: Mine) -> None:
    """Its documents of later changes would be taken for left-overs, and removed by the next change."""
    index, engine = mine.index, mine.index._storage.state.engine
    before = engine.read_mark()
    index.add(mine.some(30))
    engine.write_mark(before)
    older = "older than this index's folder: it knows of 1 changes, the folder of 2"
    asked = (mine.open, lambda: index.delete(mine.ids[:1]), lambda: index.search(mine.queries, 3))
    for ask in asked:
        with pytest.raises(EngineError, match=older) as no:
            ask()
        assert "restored from a backup" in str(no.value)


@SERVERS
@pytest.mark.parametrize(
    ("listed", "before", "after"),
    [(True, "opened", "nothing"), (True, "searched", "others"), (False, "opened", "others")],
)
def test_documents_that_were_all_deleted_elsewhere(
    after: str, before: str, listed: bool, mine: Mine, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlisted(listed, monkeypatch)
    elsewhere = mine.open()
    if before == "searched":
        mine.index.search(mine.queries, 3)
    elsewhere.delete(mine.ids[:30])
    if after == "others":
        elsewhere.add(mine.some(30))
    for ask in (
        lambda: mine.index.search(mine.queries, 3),
        lambda: mine.index.search_among(mine.queries, mine.documents.ids[:3], 2),
    ):
        with pytest.raises(EngineError, match=rf"mine.*{EMPTIED}") as no:
            ask()
        assert "open the index again, and see what it holds now" in str(no.value)
    if after == "others":
        assert mine.answers(mine.open(), kept=mine.some(30))


@SERVERS
@LISTED
def test_sparse_documents_of_which_none_is_found(
    listed: bool, at: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That no document shares a word with the query is an answer, whatever was added elsewhere."""
    unlisted(listed, monkeypatch)
    documents = sparse("image", np.eye(20, TERMS))
    queries = sparse("text", np.eye(TERMS)[30:32])  # words that no document has
    index = at.build(documents.select(documents.ids[:10]), "sparse", tmp_path / "index")
    elsewhere = open_index(tmp_path / "index")
    elsewhere.add(documents.select(documents.ids[10:]))
    assert len(index.search(queries, 3).indices) == 0
    elsewhere.delete(documents.ids[:10])
    with pytest.raises(EngineError, match=EMPTIED):
        index.search(queries, 3)


@SERVERS
@LISTED
def test_both_forms_in_one_collection(listed: bool, at: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    unlisted(listed, monkeypatch)
    both = random_dense("image", 20, 1), sparse("image", np.eye(20, TERMS) + 0.1)
    queries = random_dense("text", 2, 2), sparse("text", np.eye(2, TERMS))
    kind, where = at.kinds["dense"], {"collection": "both", **at.settings}
    index = HybridCollection.build(*both, tmp_path / "index", engine=kind, **where)
    HybridCollection.load(tmp_path / "index").delete(both[0].ids)
    with pytest.raises(EngineError, match=EMPTIED):
        index.search(*queries, 3)
    index._storage.state.engine.destroy()  # type: ignore[attr-defined]
    HybridCollection.build(*both, tmp_path / "other", engine=kind, **where)
    with refused(EngineError, code="not-one-index-folder"):
        index.search(*queries, 3)


@SERVERS
def test_an_index_that_was_emptied_here_and_filled_elsewhere(mine: Mine) -> None:
    mine.index.delete(mine.ids[:30])
    mine.open().add(mine.some(30))
    assert len(mine.index.ids) == 0 and len(mine.open().ids) == 10
