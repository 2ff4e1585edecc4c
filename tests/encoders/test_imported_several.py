"""Several vectors for each id, made elsewhere: NPZ, NPY, Parquet, and what `visir encode --out` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encoder_toys import photos

import visir
from patch_toys import Patches
from visir.encoders import encode, load
from visir.encoders.models.vector_files import export
from visir.errors import EmbeddingError, VisirError
from visir.records import Collection, MultiVectorEmbeddings

VECTORS = np.arange(10, dtype=np.float32).reshape(5, 2)
OFFSETS = np.array([0, 2, 3, 5])
EACH = [[[0, 1], [2, 3]], [[4, 5]], [[6, 7], [8, 9]]]


@pytest.fixture
def collection() -> Collection:
    return Collection.build("three", images={"id": ["a", "b", "c"]})


def rows(name: str, collection: Collection) -> Any:
    vectors = encode(load(name), collection, "image")
    assert isinstance(vectors, MultiVectorEmbeddings) and load(name).form == "multi-vector"
    return [vectors[key].tolist() for key in collection.images["id"].to_pylist()]


def test_npz_with_offsets_or_three_axes(tmp_path: Path, collection: Collection) -> None:
    file = tmp_path / "v.npz"
    np.savez(file, image=VECTORS, image_offsets=OFFSETS)
    assert rows(f"npz:{file}", collection) == EACH
    np.savez(file, images=VECTORS.astype(np.float64), images_offsets=OFFSETS, image_ids=np.array(["c", "b", "a"]))
    assert rows(f"npz:{file}", collection) == EACH[::-1]
    np.savez(file, image=np.arange(12, dtype=np.float16).reshape(3, 2, 2))
    assert rows(f"npz:{file}", collection)[2] == [[8, 9], [10, 11]]


def test_a_folder_of_npy_and_lists_of_lists_in_parquet(tmp_path: Path, collection: Collection) -> None:
    np.save(tmp_path / "image.npy", VECTORS)
    np.save(tmp_path / "image.offsets.npy", OFFSETS)
    (tmp_path / "image.ids.txt").write_text("a\nb\nc\n")
    before = load(f"npy:{tmp_path}").card
    assert rows(f"npy:{tmp_path}", collection) == EACH
    np.save(tmp_path / "image.offsets.npy", np.array([0, 1, 2, 5]))
    assert load(f"npy:{tmp_path}").card.weights != before.weights
    given = MultiVectorEmbeddings.of(["a", "b", "c"], [np.array(part, np.float32) for part in EACH])
    for lists in (
        pa.array(EACH, pa.list_(pa.list_(pa.float32()))),
        given.to_arrow()["vectors"],
    ):
        pq.write_table(pa.table({"image_id": ["a", "b", "c"], "vectors": lists}), tmp_path / "v.parquet")
        assert rows(f"parquet:{tmp_path / 'v.parquet'}", collection) == EACH


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        ({"image": VECTORS, "image_offsets": np.array([0, 2, 3])}, "its offsets do not fit 5 vectors"),
        ({"image": VECTORS, "image_offsets": np.array([0, 3, 3, 5])}, "its offsets do not fit 5 vectors"),
        ({"image": VECTORS, "image_offsets": np.array([0.0, 5.0])}, "its offsets do not fit 5 vectors"),
        ({"image": VECTORS, "image_offsets": OFFSETS, "text": VECTORS}, "an image has several vectors, the other"),
        ({"image": VECTORS[None, None]}, "must be an (n, d) matrix of floats"),
        ({"image": VECTORS, "image_offsets": OFFSETS, "image_ids": np.array(["a", "b"])}, "do not fit 2 items"),
    ],
)
def test_faults_are_named(tmp_path: Path, arrays: dict[str, Any], fault: str) -> None:
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(EmbeddingError) as caught:
        load(f"npz:{tmp_path / 'v.npz'}")
    assert fault in str(caught.value)


def test_exported_vectors_come_back(tmp_path: Path) -> None:
    collection, model = photos(tmp_path / "photos", 5), Patches()
    made = {side: visir.encode(model, collection, side) for side in ("image", "text")}  # type: ignore[arg-type]
    export(tmp_path / "out", made)  # type: ignore[arg-type]
    again = load(tmp_path / "out")
    assert again.form == "multi-vector" and again.card == model.card and again.dimension == 3
    for side, vectors in made.items():
        found = visir.encode(again, collection, side)  # type: ignore[arg-type]
        assert np.array_equal(found.vectors, vectors.vectors) and found.vectors.dtype == np.float16  # type: ignore[union-attr]
        assert found.offsets.tolist() == vectors.offsets.tolist()  # type: ignore[union-attr]
    (tmp_path / "out" / "image.offsets.npy").unlink()
    with pytest.raises(VisirError):
        load(tmp_path / "out")
