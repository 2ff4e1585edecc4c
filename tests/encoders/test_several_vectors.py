"""Encoders of form "multi-vector": what they may return, and that all of it survives store, kills and shards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from encoder_toys import photos
from numpy.typing import NDArray
from PIL import Image

import visir
from patch_toys import COLOURS, Patches
from refusals import refused
from visir.encoders import Encoder, Store, encode_dense, encode_detailed
from visir.encoders.models.joined import JoinedTexts
from visir.encoders.shards import Shard, encode_shard, join_shards
from visir.encoders.store import VECTORS, Chunks, KeptForm, inside_entry, write_entry
from visir.errors import EmbeddingError, EncoderError
from visir.records import Collection, EncoderCard, Items, MultiVectorEmbeddings, TokenVectors
from visir.storage import changing

HERE = Path(__file__).parent.parent
TEXTS = Items.of_texts({"1": "a red boat", "2": "blue", "3": "two green dogs and rain"})
BY_HAND = [[COLOURS.get(word, (0.1, 0.1, 0.1)) for word in text] for text in (
    ["a", "red", "boat"], ["blue"], ["two", "green", "dogs", "and", "rain"])]  # fmt: skip


def words(texts: list[str]) -> list[NDArray[np.float64]]:
    return [np.array([[len(word), 1.0] for word in text.split()]) for text in texts]


def sets(vectors: Any) -> list[list[list[float]]]:
    return [vectors.row(index).tolist() for index in range(len(vectors))]


RETURNED: dict[str, Callable[[list[Any]], Any]] = {
    "arrays": lambda arrays: arrays,
    "tuple": tuple,
    "lists": lambda arrays: [array.tolist() for array in arrays],
    "tensors": lambda arrays: [torch.tensor(array).requires_grad_() for array in arrays],
    "bfloat16": lambda arrays: [torch.tensor(array).bfloat16() for array in arrays],
    "half": lambda arrays: [array.astype(np.float16) for array in arrays],
    "integers": lambda arrays: [array.astype(int) for array in arrays],
    "objects": lambda arrays: np.array([*arrays, None], object)[:-1],
    "nested": lambda arrays: torch.nested.nested_tensor([torch.tensor(array) for array in arrays]),
    "token vectors": TokenVectors.of,
    "generator": iter,
    "padded": lambda arrays: (
        np.stack([np.pad(array, ((0, 6 - len(array)), (0, 0)), constant_values=9) for array in arrays]),
        np.array([[place < len(array) for place in range(6)] for array in arrays]),
    ),
}


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
@pytest.mark.parametrize("size", [1, 2, 8])
def test_a_function_may_return_vectors_in_any_form(returned: Callable[[Any], Any], size: int) -> None:
    model = Encoder.wrap("mine", text=lambda texts: returned(words(texts)), form="multi-vector", batch_size=size)
    vectors = visir.encode(model, TEXTS)
    assert isinstance(vectors, MultiVectorEmbeddings) and vectors.dimension == model.dimension == 2
    assert sets(vectors) == [[[1, 1], [3, 1], [4, 1]], [[4, 1]], [[3, 1], [5, 1], [4, 1], [3, 1], [4, 1]]]
    assert vectors.offsets.tolist() == [0, 3, 4, 9]


def test_one_array_of_equally_many_vectors_is_taken() -> None:
    for returned in (np.ones((3, 5, 2)), torch.ones(3, 5, 2), np.ones((3, 5, 2)).tolist()):
        model = Encoder.wrap("mine", text=lambda texts, value=returned: value, form="multi-vector")
        assert model.encode_texts(["a", "b", "c"]).counts.tolist() == [5, 5, 5]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("returned", "message", "hint"),
    [
        (np.ones((3, 4)), r"numbers of the shape \(3, 4\); expected is a list of 3 arrays", 'say form = "dense"'),
        ([np.ones(4)] * 3, r"for number 1 of them numbers of the shape \(4,\)", 'say form = "dense"'),
        ([np.ones((2, 4))] * 2, "2 arrays; expected are 3", "in the order of the inputs"),
        (np.ones((2, 5, 4)), "2 arrays; expected are 3", "in the order of the inputs"),
        ([np.ones((2, 4)), np.ones((0, 4)), np.ones((1, 4))], "no vector for number 2 of them", "mean of its vectors"),
        ([np.ones((2, 4)), np.ones((2, 3)), np.ones((1, 4))], "vectors of 3 and 4 values", "the same length"),
        ([["a"], ["b"], ["c"]], "no set of vectors", r"of the shape \(t, d\) for each of the texts"),
        (None, "NoneType, which is no set of vectors", "return a list"),
        ((np.ones((3, 5, 4)), np.ones((3, 4))), "with a mask of the shape", r"\(n, t, d\) and their mask"),
        (np.ones((3, 1, 5, 4)), r"numbers of the shape \(3, 1, 5, 4\)", r"of the shape \(3, t, d\)"),
    ],
)
def test_other_shapes_are_refused_with_what_was_expected(returned: Any, message: str, hint: str) -> None:
    model = Encoder.wrap("mine", text=lambda texts: returned, form="multi-vector")
    with pytest.raises(EncoderError, match=f"^mine: for 3 texts it returned.*{message}") as caught:
        model.encode_texts(["a", "b", "c"])
    assert re.search(hint, caught.value.hint)


def test_several_vectors_from_a_dense_encoder_name_the_form() -> None:
    with pytest.raises(EncoderError) as caught:
        visir.encode(Encoder.wrap("mine", text=lambda texts: np.ones((len(texts), 5, 2)), batch_size=2), TEXTS)
    assert 'form="multi-vector"' in caught.value.hint
    with pytest.raises(EncoderError) as caught:
        Encoder.wrap("mine", text=words).encode_texts(["a", "red boat"])
    assert 'form="multi-vector"' in caught.value.hint


def test_the_form_of_own_functions_is_one_of_two() -> None:
    with refused(EncoderError, "multivector", code="form-no-form-functions") as caught:
        Encoder.wrap("mine", text=words, form="multivector")  # type: ignore[arg-type]
    assert 'form="multi-vector"' in caught.value.hint


def test_lengths_of_vectors_must_agree_over_batches() -> None:
    sizes = iter([2, 3])
    model = Encoder.wrap(
        "mine", text=lambda texts: np.ones((len(texts), 4, next(sizes))), form="multi-vector", batch_size=2
    )
    with refused(EncoderError, "text", "3", "2", code="vectors-values-expected") as caught:
        visir.encode(model, TEXTS)
    assert caught.value.hint == "let all vectors have the same length"


def test_a_class_needs_a_form_and_a_method_only() -> None:
    class Mine(Encoder):
        form = "multi-vector"

        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            return [np.asarray(image).mean(0) for image in batch]

    model = Mine()
    vectors = visir.encode(model, [Image.new("RGB", (size, 4), "red") for size in (2, 3)])
    assert isinstance(vectors, MultiVectorEmbeddings) and vectors.counts.tolist() == [2, 3]
    assert repr(model) == (
        "Encoder(Mine, images, several vectors of 3 dimensions, no version: its vectors are not kept)"
    )


def test_what_models_return_is_not_rounded_and_what_is_kept_is_float16() -> None:
    class Fine(Patches):
        def embed_texts(self, texts):  # type: ignore[no-untyped-def]
            return [np.full((2, 3), 1 / 3)] * len(texts)

    direct = Fine().encode_texts(["a"])
    assert isinstance(direct, TokenVectors) and direct.vectors.dtype == np.float32
    assert direct.vectors[0, 0] == np.float32(1 / 3)
    kept = visir.encode(Fine(weights=None), TEXTS)
    assert kept.vectors.dtype == np.float16 and kept.vectors[0, 0] == np.float16(1 / 3)  # type: ignore[union-attr]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_computed_found_and_computed_at_once_are_the_same_numbers(tmp_path: Path, dtype: str) -> None:
    class Fine(Patches):
        kept_dtype = dtype  # type: ignore[assignment]

    items = photos(tmp_path / "photos", 10).items("image")
    first = encode_detailed(Fine(), items, store=tmp_path / "store")
    again = encode_detailed(Fine(), items, store=tmp_path / "store")
    assert (first.computed, again.computed) == (10, 0)
    pictures = {name: Image.open(tmp_path / "photos" / f"{name}.png") for name in items.ids.to_pylist()}
    at_once = Fine().encode_inputs("image", pictures)
    for vectors in (first.embeddings, again.embeddings, at_once):
        assert isinstance(vectors, MultiVectorEmbeddings) and vectors.vectors.dtype == dtype
        assert np.array_equal(vectors.vectors, at_once.vectors)  # type: ignore[union-attr]
        assert vectors.offsets.tolist() == list(range(0, 44, 4))
    assert again.embeddings.origin.startswith("from the vector store")
    assert isinstance(again.embeddings.vectors, np.memmap)  # type: ignore[union-attr]


def test_entries_of_another_form_or_arithmetic_are_other_entries(tmp_path: Path) -> None:
    card, store = Patches().stored_card, Store(tmp_path)
    forms = [KeptForm(), KeptForm(True, "float16"), KeptForm(True, "float32")]
    assert len({store.key(card, TEXTS, None, form) for form in forms}) == 3

    def computed(form: Any, function: Any) -> int:
        model = Encoder.wrap("mine", text=function, version="1", form=form)
        return encode_detailed(model, TEXTS, store=store).computed

    def both(texts: list[str]) -> Any:
        return [np.ones((1, 2))] * len(texts)

    assert computed("multi-vector", both) == 3
    assert computed("multi-vector", both) == 0
    assert computed("dense", lambda texts: np.ones((len(texts), 2))) == 3


def test_texts_come_out_in_order_and_as_by_hand(tmp_path: Path) -> None:
    model = Patches()
    vectors = visir.encode(model, TEXTS, store=tmp_path)
    assert sets(vectors) == [np.float16(rows).tolist() for rows in BY_HAND]  # type: ignore[arg-type]
    many = Items.of_texts({str(n): " ".join(["red"] * (1 + 7 * n % 5)) for n in range(70)})
    assert visir.encode(Patches(), many, store=tmp_path).counts.tolist() == [1 + 7 * n % 5 for n in range(70)]  # type: ignore[union-attr]


def test_selected_and_reordered_items_are_found(tmp_path: Path) -> None:
    collection = photos(tmp_path / "photos", 9, captions=2)
    ids = collection.items("text").ids.to_pylist()
    whole = encode_detailed(Patches(), collection.items("text"), store=tmp_path / "store")
    turned = encode_detailed(Patches(), collection.items("text").select(ids[::-1]), store=tmp_path / "store")
    assert turned.computed == 0
    assert turned.embeddings.ids.to_pylist() == ids[::-1]
    assert all(np.array_equal(turned.embeddings[name], whole.embeddings[name]) for name in ids)  # type: ignore[index]


def test_broken_images_are_set_aside(tmp_path: Path) -> None:
    collection = photos(tmp_path / "photos", 9)
    (tmp_path / "photos" / "p003.png").write_bytes(b"torn")
    done = encode_detailed(Patches(), collection.items("image"), store=tmp_path / "store", skip_broken=True)
    assert list(done.broken) == ["p003"] and len(done.embeddings) == 8
    assert done.embeddings["p004"].shape == (4, 3)  # type: ignore[index]
    for number in range(9):
        (tmp_path / "photos" / f"p{number:03}.png").write_bytes(b"torn")
    with refused(visir.errors.ImageError, "9 images", code="nothing-usable", hint=False):
        encode_detailed(Patches(), collection.items("image"), store=tmp_path / "another", skip_broken=True)


def test_values_beyond_float16_are_refused_and_float32_keeps_them() -> None:
    large = Encoder.wrap("mine", text=lambda texts: np.full((len(texts), 2, 2), 1e6), form="multi-vector")
    with pytest.raises(EmbeddingError, match=r"float16 cannot hold the values of 3 inputs: '1', '2', '3'") as caught:
        visir.encode(large, TEXTS)
    assert 'kept_dtype = "float32"' in caught.value.hint
    with pytest.raises(EmbeddingError):
        large.encode_inputs("text", {"a": "b"})
    large.kept_dtype = "float32"
    assert visir.encode(large, TEXTS).vectors.max() == 1e6  # type: ignore[union-attr]
    nan = Encoder.wrap(
        "mine", text=lambda texts: [np.full((2, 2), np.nan if text == "blue" else 1) for text in texts],
        form="multi-vector",
    )  # fmt: skip
    with pytest.raises(EmbeddingError, match="mine returned NaN or infinite values for 1 input: '2'"):
        visir.encode(nan, TEXTS)
    with refused(EmbeddingError, "mine", "1 input", "blue", code="returned-nan-infinite-values") as caught:
        nan.encode_texts(["red", "blue"])
    assert "weights of the model are NaN or infinite: fetch or copy it again" in caught.value.hint


def test_a_model_of_late_interaction_is_refused_where_one_vector_is_needed() -> None:
    for call in (
        lambda: encode_dense(Patches(), TEXTS),
        lambda: JoinedTexts([visir.load("bow:8"), Two()]).embed_texts(["a"]),
    ):
        with pytest.raises(EncoderError, match=r"makes several vectors for each i.*; one for each is needed") as caught:
            call()
        assert "visir.encode, visir.search, visir.evaluate and visir index take such models" in caught.value.hint


class Two(Patches):
    dimension = 3
    modalities = frozenset({"text"})


class Turned(Encoder):
    """A head over `Patches`: every vector turned by one matrix."""

    form = "multi-vector"
    dimension = 2
    modalities = frozenset({"image", "text"})
    card = EncoderCard("turned", "toy", weights="t1")

    def __init__(self, base: Encoder) -> None:
        self.base = base

    def base_encoder(self, modality: Any) -> Encoder:
        return self.base

    def project(self, modality: Any, vectors: NDArray[Any]) -> NDArray[np.float32]:
        return np.asarray(vectors, np.float32) @ np.array([[0, 1], [1, 0], [0, 0]], np.float32)


def test_of_a_head_the_store_keeps_the_vectors_of_the_base(tmp_path: Path) -> None:
    base = Patches()
    first = encode_detailed(Turned(base), TEXTS, store=tmp_path)
    again = encode_detailed(Turned(base), TEXTS, store=tmp_path)
    assert (first.computed, again.computed) == (3, 0)
    assert again.embeddings["2"].tolist() == [[0, 0]] and again.embeddings["3"].shape == (5, 2)  # type: ignore[index]
    assert again.embeddings["1"][1].tolist() == [0, 1]  # type: ignore[index]


# -- kills, damage, shards


CHILD = """
import sys
sys.path.insert(0, {here!r})
import pyarrow.parquet as pq
from patch_toys import Patches
from visir.encoders import Store, encode_detailed, store
from visir.records import Collection
store._FLUSH_SECONDS = 0.0
images, captions = (pq.read_table(path).to_pydict() for path in ({images!r}, {captions!r}))
collection = Collection.build("photos", images=images, captions=captions, root={root!r})
encode_detailed(Patches(pause=0.05), collection.items({side!r}), store=Store({store!r}))
"""


def entry_files(store: Store) -> dict[str, bytes]:
    names = ("vectors.npy", "offsets.npy", "ids.parquet")
    return {path.name: path.read_bytes() for path in store.root.rglob("*") if path.name in names}


@pytest.mark.parametrize("side", ["image", "text"])
def test_a_killed_encode_goes_on_and_ends_with_identical_bytes(tmp_path: Path, side: Any) -> None:
    import pyarrow.parquet as pq

    collection = photos(tmp_path / "photos", 100, captions=2)
    whole, killed = Store(tmp_path / "whole"), Store(tmp_path / "killed")
    visir.encode(Patches(), collection, side, store=whole)
    images, captions = tmp_path / "images.parquet", tmp_path / "captions.parquet"
    pq.write_table(collection.images, images)
    pq.write_table(collection.captions, captions)
    code = CHILD.format(here=str(HERE), images=str(images), captions=str(captions), root=str(collection.root),
                        store=str(killed.root), side=side)  # fmt: skip
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if len(list(killed.root.rglob("*.npz"))) >= 2:
            break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not entry_files(killed)
    resumed = encode_detailed(Patches(), collection.items(side), store=killed)
    assert resumed.resumed > 0 and resumed.computed > 0
    assert resumed.computed + resumed.resumed == len(collection.items(side))
    assert entry_files(killed) == entry_files(whole)
    assert not list(killed.root.rglob("*.npz"))


def tokens(*counts: int) -> TokenVectors:
    return TokenVectors.of([np.full((count, 2), count, np.float32) for count in counts])


def test_chunks_of_several_vectors_become_an_entry(tmp_path: Path) -> None:
    ids, form = pa.array([f"i{n}" for n in range(10)]), KeptForm(True, "float16")
    with changing(tmp_path, VECTORS, busy="wait", resume=True) as change:
        chunks = Chunks(inside_entry(change), ids, "k", form)
        chunks.append(4, tokens(1, 2, 3, 4), {})
        chunks.flush()
        chunks.append(8, tokens(5, 1, 2), {"i5": "torn"})
        chunks.flush()
        change.abandon()
    with changing(tmp_path, VECTORS, busy="wait", resume=True) as change:
        others = KeptForm(), KeptForm(True, "float32")  # another form, another arithmetic: other chunks
        assert not any(Chunks(inside_entry(change), ids, "k", other).chunks for other in others)
        again = Chunks(inside_entry(change), ids, "k", form)
        again.remove_damaged()
        assert again.missing(range(10)) == [range(8, 10)] and again.broken(range(10)) == {"i5": "torn"}
        again.begin(8)
        again.append(10, tokens(2, 1), {})
        write_entry(change, ids, again.parts(), form, {})
    vectors, offsets = (np.load(tmp_path / f"{name}.npy") for name in ("vectors", "offsets"))
    assert vectors.shape == (21, 2) and vectors.dtype == np.float16
    assert offsets.tolist() == [0, 1, 3, 6, 10, 15, 16, 18, 20, 21]
    assert [vectors[start, 0] for start in offsets[:-1]] == np.diff(offsets).tolist()


def test_a_damaged_entry_is_noticed_and_encoded_again(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 6), Store(tmp_path / "store")
    for file in ("offsets.npy", "vectors.npy"):
        folder = encode_detailed(Patches(), collection.items("image"), store=store).folder
        assert folder is not None
        (folder / file).write_bytes((folder / file).read_bytes()[:-1])
        with pytest.warns(UserWarning, match="damaged"):
            assert encode_detailed(Patches(), collection.items("image"), store=store).computed == 6


@pytest.mark.parametrize("count", [1, 3, 7])
@pytest.mark.parametrize("place", [False, True])
def test_shards_join_to_the_bytes_of_one_process(tmp_path: Path, count: int, place: bool) -> None:
    collection = photos(tmp_path / "photos", 27, captions=3)
    (tmp_path / "photos" / "p003.png").write_bytes(b"torn")
    for side in ("image", "text"):
        items = collection.items(side)  # type: ignore[arg-type]
        one, shards = Store(tmp_path / "one"), Store(tmp_path / "shards")
        whole = encode_detailed(Patches(), items, store=one, skip_broken=True)
        where = tmp_path / "parts" if place else None
        for number in range(1, count + 1):
            encode_shard(Patches(), items, Shard(number, count), store=shards, place=where, skip_broken=True)
        entry = join_shards(Patches(), items, store=shards, place=where)
        assert whole.folder is not None
        for name in ("vectors.npy", "offsets.npy", "ids.parquet"):
            assert (entry.folder / name).read_bytes() == (whole.folder / name).read_bytes()
        found = encode_detailed(Patches(), items, store=shards, skip_broken=True)
        assert found.computed == 0 and found.folder == entry.folder


def test_collections_without_pictures_take_texts() -> None:
    collection = Collection.build("bare", images={"id": ["a"]}, captions={
        "id": ["1"], "text": ["red boat"], "image_id": ["a"]})  # fmt: skip
    assert visir.encode(Patches(weights=None), collection, "text").counts.tolist() == [2]  # type: ignore[union-attr]
