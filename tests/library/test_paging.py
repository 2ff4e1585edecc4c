"""Pages of a search are parts of one list: nothing twice, nothing missing, whoever answers and whatever their size."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

import visir
from visir.library.query import Query
from visir.library.search import DEEPEST_LIST, STEPS, fused_step, lists_in_steps
from visir.library.searcher import Searcher
from visir.library.updating import update
from visir.records import Embeddings, EncoderCard, Gallery, MultiVectorEmbeddings, Run, SparseEmbeddings, Vocabulary
from visir.retrieval.filtered import FilteredIndex
from visir.retrieval.fusion import fuse
from visir.retrieval.kinds import build_index

DOCUMENTS = 1500
COARSE: dict[str, dict[str, Any]] = {
    "hnsw": {"m": 2, "ef_construction": 2, "ef_search": 1},
    "ivf": {"lists": 40, "piece": 12, "probes": 1, "rescore": 1},
    "maxsim-ivf": {"probes": 1, "candidates": 10},
    "inverted": {"budget": 300},
}
"""Approximate kinds, with settings under which a deeper search has another beginning."""


CARD = EncoderCard("test", "imported")
WORDS = Vocabulary("test", pa.array([f"w{term}" for term in range(40)]), np.ones(40, np.bool_))


def _ids(role: str, n: int) -> pa.StringArray:
    return pa.array([f"{role[0]}{number:04}" for number in range(n)], pa.string())


def _dense(role: Any, n: int, draw: np.random.Generator) -> Embeddings:
    return Embeddings(role, _ids(role, n), draw.standard_normal((n, 12)).astype(np.float32), CARD)


def _sparse(role: Any, n: int, draw: np.random.Generator) -> SparseEmbeddings:
    weights = (draw.random((n, 40)) < 0.3) * np.exp(draw.standard_normal((n, 40)))
    return SparseEmbeddings.from_scipy(role, _ids(role, n), csr_array(weights), WORDS, CARD)


def _several(role: Any, n: int, draw: np.random.Generator) -> MultiVectorEmbeddings:
    vectors = draw.standard_normal((3 * n, 12)).astype(np.float32)
    return MultiVectorEmbeddings(role, _ids(role, n), 3 * np.arange(n + 1, dtype=np.int64), vectors, CARD)


VECTORS: dict[str, Callable[[Any, int, np.random.Generator], Any]] = {
    "hnsw": _dense,
    "ivf": _dense,
    "maxsim-ivf": _several,
    "inverted": _sparse,
}


@pytest.mark.parametrize("kind", VECTORS)
@pytest.mark.parametrize("among", ["all", "some"])
def test_a_longer_list_of_an_approximate_kind_begins_with_every_shorter_one(
    kind: str, among: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({"inverted": "numpy"}.get(kind, "faiss"))
    draw = np.random.default_rng(0)
    queries, documents = VECTORS[kind]("text", 6, draw), VECTORS[kind]("image", DOCUMENTS, draw)
    index: Any = build_index(documents, kind, **COARSE[kind])
    if among == "some":
        monkeypatch.setattr("visir.retrieval.filtered.SCANNED", 10)
        monkeypatch.setattr("visir.retrieval.filtered.SELECTED", 10)
        index = FilteredIndex(index, [item for item in documents.ids.to_pylist() if draw.random() < 0.6])
    whole = lists_in_steps(index.search, queries, DEEPEST_LIST)
    steps = {step: index.search(queries, step) for step in STEPS}
    for query, listed in whole.items():
        items = [item for item, _ in listed]
        assert len(set(items)) == len(items)
        assert listed[: STEPS[0]] == steps[STEPS[0]].answer(query)[: len(listed)]
        assert set(items) >= set(steps[STEPS[-1]].top(query, STEPS[-1]))  # what is found deeper is on some page
    for depth in (1, 12, STEPS[0] - 1, STEPS[0], STEPS[0] + 1, 300, 1001):
        lists = lists_in_steps(index.search, queries, depth)
        assert all(len(lists[query]) >= min(depth, len(whole[query])) for query in whole)
        assert all(whole[query][: len(listed)] == listed for query, listed in lists.items())
        alone = lists_in_steps(index.search, queries.select(["t0003"]), depth)
        assert alone["t0003"] == lists["t0003"]  # whoever else is answered


def test_a_graph_that_is_asked_deeper_begins_otherwise() -> None:
    """Without steps pages would not fit together: the test above can fail."""
    pytest.importorskip("faiss")
    draw = np.random.default_rng(0)
    queries, index = _dense("text", 6, draw), build_index(_dense("image", DOCUMENTS, draw), "hnsw", **COARSE["hnsw"])
    first, deep = index.search(queries, 12), index.search(queries, 300)
    assert any(first.answer(query) != deep.answer(query)[:12] for query in first)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 10**6), step=st.sampled_from([3, 8, 40]), alike=st.booleans(), data=st.data())
def test_a_first_step_of_joined_lists_is_settled(seed: int, step: int, alike: bool, data: st.DataObject) -> None:
    """Against the fusion of whole lists: what is behind, how far scores are off, and where the order is the same."""
    draw = np.random.default_rng(seed)
    gallery = Gallery.of("image", [f"d{number:03}" for number in range(120)])
    first = draw.permutation(gallery.ids.to_pylist()).tolist()
    second = sorted(first, key=lambda item: first.index(item) + 6 * draw.random()) if alike else draw.permutation(first)
    whole = {"a": first[: data.draw(st.integers(1, 120))], "b": list(second)[: data.draw(st.integers(1, 120))]}

    def joined(depth: int) -> list[tuple[str, float]]:
        runs = {
            name: Run.ranked(name, "t2i", ["q"] * len(listed[:depth]), listed[:depth], -np.arange(len(listed[:depth])),
                             gallery)
            for name, listed in whole.items()
        }  # fmt: skip
        return fuse(runs, depth=240).answer("q")

    deep, ends = joined(120), {name: listed[:step] for name, listed in whole.items()}
    settled = fused_step(joined(step), map(len, ends.values()), step)
    if all(len(listed) < step - 1 for listed in whole.values()):
        assert settled == deep  # nothing was left out
    scores = dict(deep)
    for item in set(scores) - {item for listed in ends.values() for item in listed}:
        assert all(scores[item] < score for _, score in settled)
    most = {
        item: score + sum(item not in own for own in ends.values()) / (60 + step + 1) for item, score in joined(step)
    }
    for item, score in settled:
        assert score <= scores[item] + 1e-12 and scores[item] <= most[item] + 1e-12
    for place, (item, score) in enumerate(settled):  # as far as no deeper list can change the order
        later = [most[other] for other in most if other not in {before for before, _ in settled[: place + 1]}]
        if most[item] > score or max(later, default=0.0) >= score:
            break
        assert deep[place] == (item, score)


def _encoded(texts: list[str]) -> NDArray[np.float32]:
    """(n, 16) A vector for each word, summed."""
    rows = [sum(np.random.default_rng([*word.encode()]).standard_normal(16) for word in text.split()) for text in texts]
    return np.array(rows, np.float32)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 products with words, and their vectors in a coarse graph."""
    pytest.importorskip("faiss")
    made, draw = tmp_path_factory.mktemp("paged"), random.Random(0)
    words = ["red", "blue", "green", "dress", "shoe", "hat", "long", "short", "warm", "light", "new", "old"]
    with (made / "shop.csv").open("w", newline="", encoding="utf-8") as stream:
        lines = csv.writer(stream)
        lines.writerow(["id", "title", "category", "price", "brand"])
        for number in range(400):
            title = " ".join([*draw.sample(words, 4), f"n{number}"])
            lines.writerow([f"p{number}", title, draw.choice(["Clothes", "Sale"]), f"{number}.50", draw.choice("AB")])
    encoder = visir.Encoder.wrap("words of the shop", text=_encoded, version="1")
    update(made / "shop.csv", made / "shop.visir", model=encoder.card.name, kind="hnsw", settings=COARSE["hnsw"],
           loaded={encoder.card.name: encoder})  # fmt: skip
    return made / "shop.visir"


def _searcher(folder: Path) -> Searcher:
    from visir.library.snapshot import LibrarySnapshot

    encoder = visir.Encoder.wrap("words of the shop", text=_encoded, version="1")
    return Searcher(LibrarySnapshot.open(folder), loaded={encoder.card.name: encoder})


@pytest.mark.parametrize("by", ["words", "vectors", "both", "joined by ranks", "like"])
@pytest.mark.parametrize("where", [(), ("price < 330",), ("brand = A",)])
def test_pages_of_a_library_are_one_list(shop: Path, by: str, where: tuple[str, ...]) -> None:
    searcher, draw = _searcher(shop), random.Random(f"{by} {where}")
    item = searcher.library.ids()[draw.randrange(400)]
    ask: dict[str, Any] = {"like": item} if by == "like" else {"text": "red hat warm", "by": by}
    if by == "joined by ranks":
        ask |= {"by": "both", "fusion": "rrf"}
    whole = searcher.find(Query(**ask, where=where, k=1000))
    assert len({hit.id for hit in whole.hits}) == len(whole.hits)
    if by in ("vectors", "like"):
        assert len(whole.hits) == whole.total  # the graph's list ends with the last item
    for sizes in ((7,), (1, 40, 100), (128,), (127, 1)):
        pages, offset = [], 0
        while offset is not None:
            page = _searcher(shop) if draw.random() < 0.2 else searcher  # another worker, or after a restart
            answer = page.find(Query(**ask, where=where, k=sizes[len(pages) % len(sizes)], offset=offset))
            assert answer.total == whole.total
            pages.append(answer.hits)
            offset = answer.next_offset
        assert tuple(hit for hits in pages for hit in hits) == whole.hits
    assert [hit.rank for hit in whole.hits] == list(range(1, len(whole.hits) + 1))


def test_joined_lists_are_as_deep_as_the_page_needs(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searcher, depths = _searcher(shop), []
    index = searcher.library.indexes["dense"]
    search = index.search

    def counted(queries: Any, k: int) -> Run:
        depths.append(k)
        return search(queries, k)

    monkeypatch.setattr(index, "search", counted)
    for offset, expected in ((0, [128]), (20, [128]), (150, [128, 1002])):
        searcher.find(text="red hat warm", by="both", fusion="rrf", k=10, offset=offset)
        assert depths == expected
        depths.clear()
    searcher.find(text="red hat warm", by="both", fusion="weighted", k=10)
    assert depths == [1002]  # its scores are not bounded by ranks
