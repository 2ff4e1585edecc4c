"""Times of searches, and the share of the exact answer that a search finds."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from visir.records import Embeddings, EncoderCard
from visir.retrieval.kinds import build_index
from visir_papers.experiments.stress import best_of, kth_scores, share_found


def test_the_share_is_by_scores() -> None:
    """Documents 3, 2, 2, 1 on a line and one query: of the best two the second scores 2, and so does the third."""
    card = EncoderCard("toy", "imported")
    vectors = np.array([[3.0], [2.0], [2.0], [1.0]], np.float32)
    index = build_index(Embeddings("image", pa.array([*"abcd"]), vectors, card), "exact", similarity="dot")
    queries = Embeddings("text", pa.array(["q"]), np.ones((1, 1), np.float32), card)
    least = kth_scores(index.search(queries, 2), 2)
    assert least.tolist() == [2.0]
    assert share_found(index.search(queries, 2), least) == 1
    # Without a: b and c, both at least 2. Without a and b: c and d, of which one is.
    index.delete(["a"])
    assert share_found(index.search(queries, 2), least) == 1
    index.delete(["b"])
    assert share_found(index.search(queries, 2), least) == 0.5


def test_the_best_of_several_times() -> None:
    pauses = iter((0.03, 0.0, 0.02))

    def work() -> str:
        end = time.process_time() + next(pauses)
        while time.process_time() < end:
            pass
        return "done"

    seconds, found = best_of(work)
    assert found == "done"
    assert seconds == pytest.approx(0, abs=0.01)
