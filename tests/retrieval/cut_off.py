"""A change of an index on a server without transactions, cut off at every request that changes something there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from index_data import TRUTH, same_run, vectors

from visir.retrieval.index import read_index
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.remote.engine import EngineError


def cut_off_at_every_request(
    kind: str,
    form: str,
    change: str,
    url: str,
    fail_after: Callable[[int | None], None],
    count: Callable[[str], int],
    folder: Path,
) -> None:
    """Check that the index is as before the change until the mark is written, and as after it then; and that the next
    change removes what was left.

    Args:
        kind: The kind of index.
        form: The form of its vectors.
        change: "add" or "delete".
        url: The server.
        fail_after: Makes the server fail from the n-th further change on; None: no more.
        count: How many documents a collection holds on the server.
        folder: An empty folder.
    """
    documents, queries = vectors(form, "image", 40, 4), vectors(form, "text", 6, 5)
    ids = documents.ids.to_pylist()
    before, after = (ids[:30], ids) if change == "add" else (ids, ids[:30])
    truth = {n: build_index(documents.select(ids[:n]), TRUTH[form]).search(queries, 10) for n in (30, 40)}
    kills = left = 0
    while True:
        at = folder / f"index-{kills}"
        build_index(documents.select(before), kind, at, url=url, retries=0)
        mine, reader = open_index(at), open_index(at)
        fail_after(kills)
        try:
            mine.add(documents.select(ids[30:])) if change == "add" else mine.delete(ids[30:])
            done = True
        except EngineError as fault:
            assert "no answer, asked 1 times to" in str(fault)
            done = False
        finally:
            fail_after(None)
        found = open_index(at)  # as another process sees it
        name, size = found.settings.collection, len(after if done else before)
        assert found.info().documents == len(found.ids) == size and ("pending" in read_index(at).content) is not done
        assert same_run(found.search(queries, 10), truth[size])
        if not done or change == "add":
            assert same_run(reader.search(queries, 10), truth[len(before)])
        if done and count(name) == size:
            break
        left += count(name) > size
        found.delete(ids[:1])  # the next change, whatever it is, removes what was left
        assert count(name) == found.info().documents == size - 1
        found.add(documents.select(ids[:1]))
        if not done:
            found.add(documents.select(ids[30:])) if change == "add" else found.delete(ids[30:])
        assert same_run(open_index(at).search(queries, 10), truth[len(after)])
        assert count(name) == len(after) and "pending" not in read_index(at).content
        kills += 1
    assert kills >= 4, "too few requests; is a change still sent piece by piece?"
    assert left, "nothing was ever left"
