"""A damaged `vocabulary.parquet`, in an index and in a sparse model: a sentence with its place, whatever is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manifests import seal

pytest.importorskip("tokenizers", reason="the extra sparse is not installed")
sys.path.insert(0, str(Path(__file__).parents[1] / "retrieval"))

from index_data import random_dense, random_sparse
from sparse_toys import head, tokenizer

from visir.encoders import load as load_encoder
from visir.errors import VisirError
from visir.retrieval.kinds import build_index, open_index
from visir.sparse.encoder import SparseEncoder, load_checkpoint, load_sparse, save_sparse, write_sparse

FILE = "vocabulary.parquet"


def an_index(folder: Path) -> Path:
    build_index(random_sparse("image", 20, 1), "inverted", folder)
    return next(folder.rglob(FILE))


def a_model(folder: Path) -> Path:
    file = folder.with_name("vectors.npz")
    vectors = {side: random_dense(side, 8, 1, 6) for side in ("image", "text")}
    ids = {f"{side}_ids": np.array(one.ids.to_pylist()) for side, one in vectors.items()}
    np.savez(file, **{side: one.vectors for side, one in vectors.items()}, **ids)
    dense = load_encoder(f"npz:{file}")
    write_sparse(folder, SparseEncoder(dense, head(), tokenizer(), variant="caption"), dense_name=f"npz:{file}")
    return folder / FILE


def embeddings(folder: Path) -> Path:
    save_sparse(folder, random_sparse("image", 20, 1))
    return folder / FILE


TABLES: dict[str, Any] = {
    "other columns": pa.table({"word": ["a"], "usable": [True]}),
    "no flags": pa.table({"term": ["a"]}),
    "numbers": pa.table({"term": [1, 2], "usable": [True, True]}),
    "flags of text": pa.table({"term": ["a", "b"], "usable": ["yes", "no"]}),
    "nulls": pa.table({"term": ["a", None], "usable": [True, None]}),
    "none": pa.table({"term": pa.array([], pa.string()), "usable": pa.array([], pa.bool_())}),
    "twice": pa.table({"term": ["a", "a"], "usable": [True, True]}),
    "bytes": pa.table({"term": pa.array([b"\xff\xfe", b"b"]), "usable": [True, True]}),
    "lists": pa.table({"term": [["a"], ["b"]], "usable": [True, True]}),
    "few": pa.table({"term": ["a", "b"], "usable": [True, True]}),
}


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (an_index, open_index),
        (a_model, lambda folder: load_checkpoint(folder, "cpu", "float32")),
        (embeddings, load_sparse),
    ],
    ids=["index", "model", "embeddings"],
)
def test_any_damage_is_a_sentence(make: Callable[[Path], Path], read: Callable[[Path], Any], tmp_path: Path) -> None:
    folder, rng = tmp_path / "made", np.random.default_rng(0)
    path = make(folder)
    whole = path.read_bytes()
    damaged = {"empty": b"", "text": b"no Parquet at all", "web page": b"<html>" * 100, "magic": whole[:4] + whole[-4:]}
    damaged |= {f"cut {part}": whole[: len(whole) * part // 10] for part in range(1, 10)}
    for number in range(120):
        bad = bytearray(whole)
        bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        damaged[f"flip {number}"] = bytes(bad)
    for name, table in TABLES.items():
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        damaged[name] = sink.getvalue().to_pybytes()
    refused = set()
    for name, data in damaged.items():
        path.write_bytes(data)
        seal(folder)
        try:
            read(folder)
        except VisirError as fault:
            refused.add(name)
            assert str(folder) in str(fault), (name, fault)
    certain = {name for name in damaged if not name.startswith("flip")}
    assert certain - refused == set()
    path.unlink()
    with pytest.raises(VisirError, match=FILE):
        read(folder)
