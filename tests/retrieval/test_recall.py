"""A wanted recall: the effort is chosen when an index is built, checked on other questions, and kept with the index."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError
from visir.fingerprint import hash_json
from visir.records import Embeddings, EncoderCard, MultiVectorEmbeddings, SparseEmbeddings, Vocabulary
from visir.retrieval.dense import Hnsw
from visir.retrieval.index import IndexFolderError, exceeds
from visir.retrieval.kinds import build_index, open_index

CARD = EncoderCard("generated", "imported")


def made(form: str, side: Any, rows: int, seed: int) -> Any:
    """Vectors around the same few topics, whatever the seed."""
    topics, random = np.random.default_rng(0).normal(size=(40, 24)), np.random.default_rng(seed)
    matrix = (topics[random.integers(0, 40, rows)] + random.normal(scale=0.8, size=(rows, 24))).astype(np.float32)
    ids = [f"{side[0]}{row:05}" for row in range(rows)]
    if form == "dense":
        return Embeddings(side, ids, matrix, CARD)
    if form == "sparse":
        words = Vocabulary("w", pa.array([f"w{n}" for n in range(24)]), np.ones(24, np.bool_))
        return SparseEmbeddings.from_scipy(side, ids, csr_array(np.maximum(matrix, 0)), words, CARD)
    return (
        MultiVectorEmbeddings(side, pa.array(ids), np.arange(0, rows + 1, 2), matrix, CARD)
        if rows % 2
        else (MultiVectorEmbeddings(side, pa.array(ids[: rows // 2]), np.arange(0, rows + 1, 2), matrix, CARD))
    )


def changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what the manifest of an index says, with a right checksum."""
    values = json.loads((folder / "visir.json").read_text())
    values.pop("checksum")
    change(values["content"])
    (folder / "visir.json").write_text(json.dumps({**values, "checksum": hash_json(values)}))


KINDS = [
    ("dense", "hnsw", "exact", {"m": 4, "ef_construction": 20}, "ef_search"),
    ("dense", "ivf", "exact", {"piece": 8}, "probes"),
    ("sparse", "inverted", "inverted", {}, "budget"),
    ("multi-vector", "maxsim-ivf", "maxsim", {}, "candidates"),
]


@pytest.mark.parametrize(("form", "kind", "exact", "options", "effort"), KINDS)
def test_a_wanted_recall_is_found_by_questions_that_nobody_measured(
    form: str, kind: str, exact: str, options: dict[str, Any], effort: str, tmp_path: Path
) -> None:
    documents, given, others = made(form, "image", 4_000, 1), made(form, "text", 600, 2), made(form, "text", 200, 3)
    truth = build_index(documents, exact).search(others, 10)
    for name, queries in (("given", given), ("drawn", None)):
        folder = tmp_path / name
        index = build_index(documents, kind, folder, recall=0.9, queries=queries, **options)
        found = index.search(others, 10)
        share = np.mean([len({*found.top(q)} & {*truth.top(q)}) / len(truth.top(q)) for q in found])
        assert share >= 0.85
        details = index.info().details
        assert abs(details["recall found"] - share) < 0.1
        assert details["recall from"] == ("given" if queries is not None else "the documents")
        assert details["recall"] == 0.9
        assert found.provenance["recall_found"] == details["recall found"]
        again = open_index(folder)
        assert again.info().details == details
        assert again.search(others, 10).indices.tolist() == found.indices.tolist()
        assert "recall_found" not in again.search(others, 10, **{effort: 500}).provenance


def test_a_share_that_is_too_small_passes_in_one_of_twenty_indexes_at_most() -> None:
    """Questions are a sample: what they find by luck is not what others find."""
    random = np.random.default_rng(0)

    def passed(share: float, questions: int) -> float:
        # Some questions are harder than others, so their shares spread more than independent misses do.
        hard = random.random((2_000, questions)) < 0.2
        found = random.binomial(10, np.where(hard, 5 * share - 4, 1.0)) / 10
        return float(np.mean([exceeds(row, 0.99) for row in found]))

    assert passed(0.9895, 1_000) <= 0.05 and passed(0.9895, 200) <= 0.05
    assert passed(0.985, 1_000) <= 0.001
    assert passed(0.995, 1_000) >= 0.99
    assert not exceeds(np.ones(20), 0.99) and exceeds(np.ones(100), 0.99) and exceeds(np.ones(5), 1.0)


def test_documents_of_a_graph_ask_as_strangers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node finds its own neighbours at once: measured over a graph that holds the questions, recall is too high."""
    random = np.random.default_rng(4).normal(size=(3_300, 32)).astype(np.float32)
    documents = Embeddings("image", [f"i{row:05}" for row in range(3_000)], random[:3_000], CARD)
    others = Embeddings("text", [f"t{row:05}" for row in range(300)], random[3_000:], CARD)
    truth = build_index(documents, "exact").search(others, 10)
    shares = []
    for knows in (True, False):
        monkeypatch.setattr(Hnsw, "knows_its_rows", knows)
        index = build_index(documents, "hnsw", m=6, ef_construction=40, recall=0.9)
        found, details = index.search(others, 10), index.info().details
        shares.append(np.mean([len({*found.top(q)} & {*truth.top(q)}) / 10 for q in found]))
        assert (abs(details["recall found"] - shares[-1]) < 0.04) == knows
        assert (details["recall from"], details["recall documents"]) == ("the documents", 3_000)
    assert shares[0] >= 0.88 > shares[1]


def test_more_recall_takes_more_effort() -> None:
    documents, queries = made("dense", "image", 4_000, 1), made("dense", "text", 400, 2)
    efforts = [
        build_index(documents, "hnsw", m=4, ef_construction=20, recall=wanted, queries=queries).settings.ef_search  # type: ignore[attr-defined]
        for wanted in (0.3, 0.9, 0.999)
    ]
    assert efforts == sorted(efforts) and efforts[0] < efforts[2]


def test_an_index_without_a_wanted_recall_says_nothing(tmp_path: Path) -> None:
    index = build_index(made("dense", "image", 200, 1), "hnsw", tmp_path / "index")
    assert not [name for name in index.info().details if name.startswith("recall ")]
    changed(tmp_path / "index", lambda content: content["settings"].pop("recall"))  # a folder of older code
    assert open_index(tmp_path / "index").info().documents == 200


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    documents = made("dense", "image", 300, 1)
    with refused(EmbeddingError, 10, 5, code="recall-questions"):
        build_index(documents, "hnsw", recall=0.9, queries=made("dense", "text", 5, 2))
    with refused(ConfigurationError, 1.5, hint=False):
        build_index(documents, "hnsw", recall=1.5)
    with refused(ConfigurationError, "recall", hint=False):
        build_index(documents, "exact", recall=0.9)
    index = build_index(documents, "hnsw", recall=0.9)
    with refused(ConfigurationError, "recall"):
        index.search(documents.select(documents.ids[:2]), recall=0.5)


def test_a_forged_recall_is_damage(tmp_path: Path) -> None:
    build_index(made("dense", "image", 300, 1), "hnsw", tmp_path / "index", recall=0.9)
    changed(tmp_path / "index", lambda content: content["recall"].pop("found"))
    with refused(IndexFolderError, "recall"):
        open_index(tmp_path / "index")
