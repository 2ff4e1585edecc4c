"""Mapped arrays: pages go back, values stay."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from visir.files import expect_single_rows, release
from visir.records import Embeddings


def _mapped_kib() -> int:
    match = re.search(r"RssFile:\s+(\d+)", Path("/proc/self/status").read_text())
    assert match
    return int(match[1])


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_pages_that_were_read_are_given_back(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.ones((40_000, 128), np.float32))  # 20 MB
    vectors = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    before = _mapped_kib()
    assert vectors[10:].sum() == 39_990 * 128
    assert _mapped_kib() - before > 15_000
    release(vectors[10:])
    assert _mapped_kib() - before < 5_000
    expect_single_rows(vectors)
    Embeddings.of([str(n) for n in range(40_000)], vectors)  # looks at every value
    assert _mapped_kib() - before < 5_000
    assert vectors[39_999].tolist() == [1] * 128


def test_what_was_written_into_a_private_map_stays(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.zeros((1000, 8), np.float32))
    for mode in ("c", "r+"):
        vectors = np.load(tmp_path / "vectors.npy", mmap_mode=mode)  # type: ignore[call-overload]
        vectors[:] = 7
        release(vectors)
        assert (vectors == 7).all()
    release(np.zeros(3))
    release(None)
