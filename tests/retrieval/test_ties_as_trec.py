"""Equal scores by falling id, as trec_eval orders them: every form of vectors, and runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from visir.records import Embeddings, EncoderCard, Gallery, MultiVectorEmbeddings, Qrels, Run
from visir.retrieval.exact import search
from visir.retrieval.ranks import ranks_of

CARD = EncoderCard("by hand", "example", revision="1")
IDS = [f"d{number:02d}" for number in range(30)]


@pytest.mark.parametrize("form", ["dense", "multi-vector"])
def test_ranks_of_ties(form: str) -> None:
    rng = np.random.default_rng(3)
    documents, queries = rng.integers(0, 2, (30, 3)) + 1.0, rng.integers(0, 2, (5, 3)) + 1.0
    names = [f"q{number}" for number in range(5)]

    def vectors(ids: list[str], matrix: np.ndarray) -> Embeddings | MultiVectorEmbeddings:
        rows = matrix.astype(np.float32)
        if form == "dense":
            return Embeddings("text", ids, rows, CARD)
        return MultiVectorEmbeddings("text", pa.array(ids), np.arange(len(ids) + 1), rows, CARD)

    pairs = [(query, document) for query in names for document in rng.choice(IDS, 4, replace=False)]
    qrels = Qrels.of([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    result = search(vectors(names, queries), vectors(IDS, documents), qrels=qrels, ties="trec", depth=30)
    assert result.ranks is not None
    for query in range(5):
        scored = dict(result.run.answer(names[query]))
        order = sorted(IDS, key=lambda document: (scored[document], document), reverse=True)
        expected = sorted(order.index(document) + 1 for name, document in pairs if name == names[query])
        part = slice(result.ranks.offsets[query], result.ranks.offsets[query + 1])
        assert result.ranks.ranks[part].tolist() == expected
    assert ranks_of(result.run, qrels, "trec").ranks.tolist() == result.ranks.ranks.tolist()


def test_a_run_with_ties() -> None:
    gallery = Gallery.of("text", ["a", "b", "c"])
    run = Run.ranked("toy", "t2t", ["q"] * 3, ["a", "b", "c"], [0.5, 0.5, 0.5], gallery)
    qrels = Qrels.of(["q"], ["a"])
    assert [ranks_of(run, qrels, ties).ranks.tolist() for ties in ("id", "trec")] == [[1], [3]]  # type: ignore[arg-type]
