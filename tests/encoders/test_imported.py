"""Vectors made elsewhere: read, checked, and given to the right inputs."""

from __future__ import annotations

import csv
import io
import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusals import refused
from visir.encoders import encode, encode_detailed, load
from visir.encoders.models.vector_files import export
from visir.errors import EmbeddingError, EncoderError, VisirError
from visir.records import Collection, Embeddings, EncoderCard

IMAGES = np.arange(6, dtype=np.float32).reshape(3, 2)
TEXTS = np.arange(8, dtype=np.float32).reshape(4, 2) + 10


@pytest.fixture
def collection() -> Collection:
    return Collection.build(
        "three",
        images={"id": ["a", "b", "c"], "split": ["train", "test", "test"]},
        captions={"id": ["a0", "b0", "b1", "c0"], "text": list("wxyz"), "image_id": ["a", "b", "b", "c"]},
    )


def test_npz_without_ids_goes_by_the_order_of_the_collection(tmp_path: Path, collection: Collection) -> None:
    np.savez(tmp_path / "v.npz", image=IMAGES.astype(np.float16), text=TEXTS)
    encoder = load(f"npz:{tmp_path / 'v.npz'}")
    assert encoder.modalities == {"image", "text"}
    assert encoder.card.weights is not None
    images = encode(encoder, collection, "image")
    assert images.ids.to_pylist() == ["a", "b", "c"]
    assert images.vectors.tolist() == IMAGES.tolist()
    assert encode(encoder, collection, "text").ids.to_pylist() == ["a0", "b0", "b1", "c0"]
    with refused(EmbeddingError, "3", "image", "2", "images", code="vectors-without-ids-collection") as caught:
        encode(encoder, collection.split("test"), "image")
    assert "import ids too (image_ids)" in caught.value.hint


def test_npz_with_ids_goes_by_ids(tmp_path: Path, collection: Collection) -> None:
    np.savez(tmp_path / "v.npz", images=IMAGES, image_ids=np.array(["c", "a", "b"]))
    encoder = load(f"npz:{tmp_path / 'v.npz'}")
    assert encode(encoder, collection, "image").vectors.tolist() == [[2, 3], [4, 5], [0, 1]]
    assert encode(encoder, collection.split("test"), "image").vectors.tolist() == [[4, 5], [0, 1]]
    with refused(EncoderError, "text", "image", code="holds-no-vectors-vectors", hint=False):
        encode(encoder, collection, "text")
    with refused(EncoderError, "text", code="holds-imported-vectors"):
        encoder.encode_texts(["x"])


def test_inputs_without_a_vector_are_named_with_what_the_ids_look_like(tmp_path: Path, collection: Collection) -> None:
    np.savez(tmp_path / "v.npz", image=IMAGES, image_ids=np.array(["c.jpg", "a", "b.jpg"]))
    with refused(EmbeddingError, "2", "3", "images", "three", "b", "c", code="no-vector") as caught:
        encode(load(f"npz:{tmp_path / 'v.npz'}"), collection, "image")
    assert "the ids imported are such as 'c.jpg', 'a', 'b.jpg'" in caught.value.hint


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        ({"image": IMAGES, "image_ids": np.array(["a", "b", "a"])}, "ids repeat: 'a'"),
        ({"image": IMAGES, "image_ids": np.array(["a", "b"])}, "2 ids for 3 vectors"),
        ({"image": IMAGES * np.array([1, np.nan], np.float32), "image_ids": np.array(["a", "b", "c"])},
         "NaN or infinite values in the vectors of 'a', 'b', 'c'"),
        ({"image": IMAGES, "text": TEXTS[:, :1]}, "the vectors differ in dimension (image 2, text 1)"),
        ({"image": IMAGES[0]}, "must be an (n, d) matrix of floats"),
        ({"image": IMAGES.astype(int)}, "must be an (n, d) matrix of floats, not int64"),
        ({"vectors": IMAGES}, "no array has a name that says which modality it is; there are vectors"),
        ({"image": IMAGES, "img": IMAGES}, "both 'image' and 'img' could be the image vectors"),
        ({"image": IMAGES, "image_ids": np.array(["a", "b", "c"], dtype=object)}, "only pickle can read"),
    ],
)  # fmt: skip
def test_malformed_npz(tmp_path: Path, arrays: dict[str, np.ndarray], fault: str) -> None:
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(EmbeddingError) as caught:
        load(f"npz:{tmp_path / 'v.npz'}")
    assert fault in str(caught.value)


def test_nan_without_ids_is_found_when_the_collection_gives_them(tmp_path: Path, collection: Collection) -> None:
    bad = IMAGES.copy()
    bad[1, 0] = np.nan
    np.savez(tmp_path / "v.npz", image=bad)
    with refused(EmbeddingError, "b", code="nan-infinite-values-vectors"):
        encode(load(f"npz:{tmp_path / 'v.npz'}"), collection, "image")


def test_keys_of_an_npz_can_be_named(tmp_path: Path, collection: Collection) -> None:
    np.savez(tmp_path / "v.npz", v_i=IMAGES, v_t=TEXTS)
    encoder = load(f"npz:{tmp_path / 'v.npz'}?image=v_i&text=v_t")
    assert encode(encoder, collection, "text").vectors.tolist() == TEXTS.tolist()
    with refused(EmbeddingError, "v_x", code="no-array"):
        load(f"npz:{tmp_path / 'v.npz'}?image=v_x")
    with refused(EmbeddingError, "unknown option", "imag"):
        load(f"npz:{tmp_path / 'v.npz'}?imag=v_i")


def test_files_that_are_not_there_or_not_what_they_say(tmp_path: Path) -> None:
    for name in ("npz:none.npz", "npy:none", "parquet:none.parquet"):
        with pytest.raises(EmbeddingError, match=r"none.*: no such (file|folder)"):
            load(name)
    for kind in ("npz", "parquet"):
        (tmp_path / f"v.{kind}").write_text("hello")
        with pytest.raises(EmbeddingError, match="not a readable"):
            load(f"{kind}:{tmp_path}/v.{kind}")
    with refused(EmbeddingError, code="neither-image-npy-nor"):
        load(f"npy:{tmp_path}")


@pytest.mark.parametrize("kind", ["txt", "csv", "parquet"])
def test_npy_with_ids_beside_it(tmp_path: Path, collection: Collection, kind: str) -> None:
    np.save(tmp_path / "image.npy", IMAGES)
    ids = tmp_path / f"image.ids.{kind}"
    if kind == "txt":
        ids.write_text("c\na\nb\n")
    elif kind == "csv":
        ids.write_text("row,id\n0,c\n1,a\n2,b\n")
    else:
        pq.write_table(pa.table({"id": ["c", "a", "b"], "row": [0, 1, 2]}), ids)
    assert encode(load(f"npy:{tmp_path}"), collection, "image").vectors.tolist() == [[2, 3], [4, 5], [0, 1]]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 2), pa.large_list(pa.float64())])
def test_parquet_with_a_list_column(tmp_path: Path, collection: Collection, kind: pa.DataType) -> None:
    vectors = pa.array([*IMAGES.tolist(), *TEXTS.tolist()], kind)
    ids = ["c", "a", "b", "a0", "b0", "b1", "c0"]
    modality = ["image"] * 3 + ["text"] * 4
    pq.write_table(pa.table({"id": ids, "modality": modality, "vector": vectors}), tmp_path / "v.parquet")
    encoder = load(f"parquet:{tmp_path / 'v.parquet'}")
    assert encode(encoder, collection, "image").vectors.tolist() == [[2, 3], [4, 5], [0, 1]]
    assert encode(encoder, collection, "text").vectors.tolist() == TEXTS.tolist()


def test_parquet_faults(tmp_path: Path) -> None:
    file = tmp_path / "v.parquet"
    pq.write_table(pa.table({"image_id": ["a", "b", "c"], "vector": [[1.0, 2.0], [3.0], [1.0, 2.0]]}), file)
    with refused(EmbeddingError, "2", "b", code="most-vectors-values", hint=False):
        load(f"parquet:{file}")
    pq.write_table(pa.table({"id": ["a"], "vector": [[1.0]]}), file)
    with refused(EmbeddingError, code="nothing-says-whether-vectors"):
        load(f"parquet:{file}")
    pq.write_table(pa.table({"id": ["a"], "modality": ["sound"], "vector": [[1.0]]}), file)
    with refused(EmbeddingError, code="column-modality-holds"):
        load(f"parquet:{file}")


def test_exported_vectors_come_back_with_the_card_of_their_encoder(tmp_path: Path, collection: Collection) -> None:
    card = EncoderCard("some/model", "toy", revision="r", weights="w", text_preprocessing={"template": "{}"})
    made = {
        "image": Embeddings("image", collection.images["id"], IMAGES, card),
        "text": Embeddings("text", collection.captions["id"], TEXTS, card),
    }
    folder = tmp_path / "out"
    export(folder, made)  # type: ignore[arg-type]
    again = load(folder)
    assert again.card == card
    done = encode_detailed(again, collection.split("test").items("text"))
    assert done.folder is None
    assert done.embeddings.vectors.tolist() == TEXTS[1:].tolist()
    with refused(VisirError, code="exists-already-folder-kind"):
        export(tmp_path / "out", made)  # type: ignore[arg-type]


def test_real_clip_vectors_give_the_known_figures(data_dir: Path) -> None:
    """1,126 products, one description each: R@1/5/10 79.5/97.6/99.6 and 80.5/97.0/99.2, in plain NumPy."""
    folder = data_dir / "clip_embeddings"
    with lzma.open(folder / "shopsphere_1126_descriptions.csv.xz", "rt", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(io.StringIO(stream.read())))
    ids = [f"{n:04}" for n in range(len(rows))]
    shop = Collection.build(
        "shop",
        images={"id": ids, "path": [row["image_path"] for row in rows]},
        captions={"id": ids, "text": [row["description"] for row in rows], "image_id": ids},
    )
    encoder = load(f"npz:{folder / 'shopsphere_1126_clip_f16.npz'}")
    images, texts = (encode(encoder, shop, side).normalise().vectors for side in ("image", "text"))  # type: ignore[arg-type]
    scores = images @ texts.T
    for table, expected in ((scores, (79.5, 97.6, 99.6)), (scores.T, (80.5, 97.0, 99.2))):
        rank = (table > np.diag(table)[:, None]).sum(axis=1)
        assert [round(100 * float((rank < k).mean()), 1) for k in (1, 5, 10)] == list(expected)
