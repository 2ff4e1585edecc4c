"""The store: found again, never mistaken, never half-valid."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from encoder_toys import Means, photos
from PIL import Image

from refusals import refused
from visir.collections.images import ImageReader
from visir.encoders import Store, encode, encode_detailed
from visir.encoders import store as content
from visir.encoders.store import VECTORS, Chunk, Chunks, inside_entry, write_entry
from visir.errors import CollectionError, EmbeddingError, EncoderError, VisirError
from visir.records import Collection, EncoderCard
from visir.storage import SharedFolder, changing

HERE = Path(__file__).parent


def entry_files(store: Store) -> dict[str, bytes]:
    found = [path for path in store.root.rglob("*") if path.is_file()]
    return {path.name: path.read_bytes() for path in found if path.name in ("vectors.npy", "ids.parquet")}


def test_what_was_encoded_is_found_and_memory_mapped(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 10), Store(tmp_path / "store")
    first, again = Means(), Means()
    made = encode_detailed(first, collection.items("image"), store=store)
    found = encode_detailed(again, collection.items("image"), store=store)
    assert first.seen == [4, 4, 2]
    assert again.seen == []
    assert (made.computed, found.computed, found.resumed) == (10, 0, 0)
    assert isinstance(found.embeddings.vectors, np.memmap)
    assert found.embeddings.vectors[3].tolist() == [3, 6, 9]  # the colour (i, 2i, 3i) of photo 3
    assert found.embeddings.ids.to_pylist() == collection.images["id"].to_pylist()
    folder = made.folder
    assert folder is not None
    assert sorted(path.name for path in folder.iterdir()) == ["ids.parquet", "vectors.npy", "visir.json"]
    card = json.loads((folder / "visir.json").read_text())["content"]
    assert (card["count"], card["dimension"], card["modality"], card["broken"]) == (10, 3, "image", {})
    assert np.load(folder / "vectors.npy").shape == (10, 3)  # a plain NPY for anyone else


def test_the_default_store_is_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "elsewhere"))
    folder = encode_detailed(Means(), photos(tmp_path / "photos", 2).items("image")).folder
    assert folder is not None
    assert folder.is_relative_to(tmp_path / "elsewhere" / "embeddings")


def test_key_depends_on_everything_that_changes_vectors_and_on_nothing_else(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 4), Store(tmp_path / "store")
    card = EncoderCard("m", "toy", weights="w", image_preprocessing={"size": 8}, text_preprocessing={"template": ""})

    def key(side: str = "image", of: Collection = collection, **changes: object) -> str:
        return store.key(EncoderCard(**{**card.to_dict(), **changes}), of.items(side))  # type: ignore[arg-type]

    differing = [
        key(),
        key(weights="v"),
        key(dtype="bfloat16"),
        key(revision="r2"),
        key(image_preprocessing={"size": 9}),
        key("text"),
        key("text", text_preprocessing={"template": "a photo of {}"}),
        key(of=collection.keep_images(np.array([True, True, True, False]))),
        key(weights=None),
        key(weights=None, name="another"),
    ]
    assert len(set(differing)) == len(differing)
    assert key(name="another path to it") == key()  # the weights say which model it is
    assert key(text_preprocessing={"template": "x"}) == key()  # texts are not images
    backwards = Collection("other name", collection.images.take(pa.array([3, 2, 1, 0])), collection.captions,
                           root=collection.root)  # fmt: skip
    assert key(of=backwards) == key()


def test_a_changed_photo_is_another_input(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 4), Store(tmp_path / "store")
    before = encode(Means(), collection, "image", store=store).vectors[1].tolist()
    photos(tmp_path / "new", 8)
    shutil.copy(tmp_path / "new" / "p007.png", tmp_path / "photos" / "p001.png")
    after = encode(Means(), collection, "image", store=store).vectors[1].tolist()
    assert (before, after) == ([1, 2, 3], [7, 14, 21])


def test_other_photos_of_the_same_names_sizes_and_times_are_other_inputs(tmp_path: Path) -> None:
    """Reproducible archives and tools that copy with whole seconds make such folders, and such tars."""
    vectors = []
    for name, colour in (("a", "red"), ("b", "blue")):
        folder = tmp_path / name / "photos"
        folder.mkdir(parents=True)
        Image.new("RGB", (8, 8), colour).save(folder / "x.bmp")
        os.utime(folder / "x.bmp", (1e9, 1e9))
        with tarfile.open(tmp_path / name / "photos.tar", "w") as tar:
            tar.add(folder / "x.bmp", "x.bmp")
        os.utime(tmp_path / name / "photos.tar", (1e9, 1e9))
        vectors += [
            encode(Means(), str(source), store=Store(tmp_path / "store")).vectors[0].tolist()
            for source in (folder, tmp_path / name / "photos.tar")
        ]
    assert vectors == [[255, 0, 0], [255, 0, 0], [0, 0, 255], [0, 0, 255]]


def test_a_photo_that_changes_while_it_is_encoded_is_not_kept(tmp_path: Path) -> None:
    collection, store, encoder = photos(tmp_path / "photos", 4), Store(tmp_path / "store"), Means()
    photos(tmp_path / "new", 8)
    embed = encoder.embed_images

    def embed_images(batch: Sequence[Any]) -> Any:
        shutil.copy(tmp_path / "new" / "p007.png", tmp_path / "photos" / "p001.png")
        return embed(batch)

    encoder.embed_images = embed_images  # type: ignore[method-assign]
    with refused(CollectionError, code="pictures-changed-while-encoded"):
        encode(encoder, collection, "image", store=store)
    assert encode(encoder, collection, "image", store=store).vectors[1].tolist() == [7, 14, 21]


def test_a_copy_elsewhere_is_the_same_input(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 4), Store(tmp_path / "store")
    shutil.copytree(tmp_path / "photos", tmp_path / "copy", copy_function=shutil.copy)  # without the times
    copied = replace(collection, root=tmp_path / "copy")
    assert store.key(Means().card, copied.items("image")) == store.key(Means().card, collection.items("image"))


def test_hashes_of_many_files_are_remembered_until_one_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items, reads = photos(tmp_path / "photos", 4).items("image"), list[int]()
    stored = ImageReader.stored
    monkeypatch.setattr(ImageReader, "stored", lambda reader, row: (reads.append(row), stored(reader, row))[1])
    monkeypatch.setattr(content, "_MANY", 1)
    monkeypatch.setattr(content, "_SETTLED", 0)
    first = content.image_contents(items)
    assert content.image_contents(items) == first and sorted(reads) == [0, 1, 2, 3]
    path = tmp_path / "photos" / "p001.png"
    status = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    differs = [a != b for a, b in zip(first.to_pylist(), content.image_contents(items).to_pylist(), strict=True)]
    assert differs == [False, True, False, False]
    monkeypatch.setattr(content, "_SETTLED", 10**18)  # just written: its times may not tell the next change
    path.write_bytes(path.read_bytes()[::-1])
    reads.clear()
    assert content.image_contents(items) == content.image_contents(items) == first and len(reads) == 8


def test_hashes_that_are_known_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = photos(tmp_path / "photos", 2).items("image")
    whole = content.image_contents(items).to_pylist()
    known = dict(zip(items.ids.to_pylist(), whole, strict=True))
    monkeypatch.setattr(ImageReader, "stored", None)
    assert content.image_contents(items, known).to_pylist() == whole


def test_photos_in_a_zip_are_known_by_their_checksums(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 3)
    store = Store(tmp_path / "store")
    keys = []
    for name in ("a.zip", "b.zip"):
        archive = shutil.make_archive(str(tmp_path / name.removesuffix(".zip")), "zip", tmp_path / "photos")
        images = {
            "id": ["x", "y", "z"],
            "path": ["p000.png", "p001.png", "p002.png"],
            "archive": [Path(archive).name] * 3,
        }
        zipped = Collection.build("zipped", images=images, root=tmp_path)
        keys.append(store.key(Means().card, zipped.items("image")))
        os.utime(tmp_path / "photos" / "p000.png")  # another time of change, the same bytes
    assert keys[0] == keys[1]


def test_entries_are_returned_in_the_order_asked_for(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 5), Store(tmp_path / "store")
    encode(Means(), collection, "image", store=store)
    order = pa.array([4, 0, 3, 1, 2])
    shuffled = Collection("shuffled", collection.images.take(order), collection.captions, root=collection.root)
    encoder = Means()
    found = encode(encoder, shuffled, "image", store=store)
    assert encoder.seen == []
    assert found.vectors[:, 0].tolist() == [4, 0, 3, 1, 2]
    assert found.ids.to_pylist() == ["p004", "p000", "p003", "p001", "p002"]


def test_a_damaged_entry_is_noticed_and_encoded_again(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 5), Store(tmp_path / "store")
    folder = encode_detailed(Means(), collection.items("image"), store=store).folder
    assert folder is not None
    sound = (folder / "vectors.npy").read_bytes()
    data = bytearray(sound)
    data[-1] ^= 1
    (folder / "vectors.npy").write_bytes(data)
    with pytest.warns(UserWarning, match=r"damaged \(vectors.npy is not as it was written\)"):
        again = encode_detailed(Means(), collection.items("image"), store=store)
    assert again.computed == 5
    assert (folder / "vectors.npy").read_bytes() == sound
    aside = folder.with_name(f"{folder.name}.damaged-1")
    assert (aside / "vectors.npy").read_bytes() == data  # not as visir wrote it, so not visir's to remove


CHILD = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from encoder_toys import Means, photos
from visir.encoders import Store, encode_detailed, store
store._FLUSH_SECONDS = 0.0
collection = photos_at = None
from visir.records import Collection
import pyarrow.parquet as pq
collection = Collection("photos", pq.read_table({images!r}), pq.read_table({captions!r}), root=Path({root!r}))
print("ready", flush=True)
done = encode_detailed(Means(pause={pause}), collection.items({side!r}), store=Store({store!r}))
print(done.computed, done.resumed, flush=True)
"""


def child(collection: Collection, store: Store, tmp_path: Path, *, side: str = "image", pause: float) -> list[str]:
    import pyarrow.parquet as pq

    images, captions = tmp_path / "images.parquet", tmp_path / "captions.parquet"
    pq.write_table(collection.images, images)
    pq.write_table(collection.captions, captions)
    code = CHILD.format(here=str(HERE), images=str(images), captions=str(captions), root=str(collection.root),
                        store=str(store.root), pause=pause, side=side)  # fmt: skip
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("side", ["image", "text"])
def test_a_killed_encode_goes_on_and_ends_with_identical_bytes(tmp_path: Path, side: str) -> None:
    collection = photos(tmp_path / "photos", 100, captions=2)
    whole, killed = Store(tmp_path / "whole"), Store(tmp_path / "killed")
    encode(Means(), collection, side, store=whole)  # type: ignore[arg-type]
    process = subprocess.Popen(child(collection, killed, tmp_path, side=side, pause=0.05))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if len(list(killed.root.rglob("*.npz"))) >= 3:
            break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not entry_files(killed)
    resumed = encode_detailed(Means(), collection.items(side), store=killed)  # type: ignore[arg-type]
    total = 100 if side == "image" else 200
    assert resumed.resumed >= 3
    assert resumed.computed == total - resumed.resumed
    assert entry_files(killed) == entry_files(whole)
    assert not list(killed.root.rglob("*.npz"))


def test_two_writers_encode_once(tmp_path: Path) -> None:
    collection, store = photos(tmp_path / "photos", 20), Store(tmp_path / "store")
    command = child(collection, store, tmp_path, pause=0.5)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    assert sorted(out.split("\n")[1] for out, _ in said) == ["0 0", "20 0"]
    assert any("another process is encoding the same; waiting for it" in err for _, err in said)


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="RLIMIT_FSIZE is POSIX")
@pytest.mark.parametrize(("limit", "kept"), [(500, "; 0 of 100 are kept"), (1300, "; all vectors are kept")])
def test_a_full_disk_leaves_nothing_half_valid_and_is_resumed(tmp_path: Path, limit: int, kept: str) -> None:
    """100 vectors of 12 bytes and the header need 1,328 bytes, and a chunk of four of them more than 500."""
    collection, store = photos(tmp_path / "photos", 100), Store(tmp_path / "store")
    command = child(collection, store, tmp_path, pause=0.0)
    command[2] = FULL.format(limit=limit) + command[2]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode != 0
    assert f"cannot be written (File too large){kept}" in failed.stderr
    assert "run the same again: it goes on from there" in failed.stderr
    assert "Traceback" in failed.stderr  # only the command line hides it
    assert not list(store.root.rglob("visir.json"))
    resumed = encode_detailed(Means(), collection.items("image"), store=store)
    assert resumed.computed == (100 if limit == 500 else 0)
    assert resumed.computed + resumed.resumed == 100
    whole = Store(tmp_path / "whole")
    encode(Means(), collection, "image", store=whole)
    assert entry_files(store) == entry_files(whole)


def test_a_cache_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    encoder = Means()
    with refused(VisirError, "Not a directory", code="cannot-made") as caught:
        encode(encoder, photos(tmp_path / "photos", 2), "image", store=Store(tmp_path / "file"))
    assert "VISIR_CACHE=FOLDER" in caught.value.hint
    assert encoder.seen == []


@contextmanager
def chunks_in(folder: Path, ids: Sequence[int] = range(10), key: str = "k") -> Iterator[tuple[Any, Chunks]]:
    with changing(folder, VECTORS, busy="wait", resume=True) as change:
        with Chunks(inside_entry(change), pa.array([f"i{n}" for n in ids]), key) as chunks:
            yield change, chunks
        if not change.manifest.files:
            change.abandon()


def fill(folder: Path) -> None:
    """Inputs 0–3 and 4–7 (of which i5 is broken) on disk in two chunks, then stopped."""
    with chunks_in(folder) as (_, chunks):
        chunks.append(4, np.arange(8, dtype=np.float32).reshape(4, 2), {})
        chunks.flush()
        chunks.append(8, np.full((3, 2), 7, dtype=np.float32), {"i5": "torn"})
        chunks.flush()


def test_what_is_safely_on_disk_is_gone_on_from(tmp_path: Path) -> None:
    fill(tmp_path)
    with chunks_in(tmp_path) as (change, chunks):
        chunks.remove_damaged()
        assert chunks.missing(range(10)) == [range(8, 10)] and chunks.missing(range(2, 6)) == []
        assert chunks.broken(range(10)) == {"i5": "torn"} and chunks.broken(range(4)) == {}
        chunks.begin(8)
        chunks.append(10, np.ones((2, 2), dtype=np.float32), {})
        write_entry(change, chunks._ids, chunks.parts(), chunks.form, {})
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [7, 7], [7, 7], [7, 7], [1, 1], [1, 1]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids.parquet", "vectors.npy", "visir.json"]


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        ("cut", [range(4, 10)]),
        ("changed byte", [range(4, 10)]),
        ("another stop in its name", [range(4, 10)]),
        ("first gone", [range(4), range(8, 10)]),
        ("half a file beside", [range(8, 10)]),
        ("another key", [range(10)]),
        ("another order", [range(10)]),
    ],
)
def test_only_chunks_that_are_as_they_were_written_count(tmp_path: Path, damage: str, left: list[range]) -> None:
    fill(tmp_path)
    first, second = sorted(tmp_path.rglob("*.npz"))
    data = second.read_bytes()
    if damage == "cut":
        second.write_bytes(data[:-3])
    elif damage == "changed byte":
        second.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    elif damage == "another stop in its name":
        second.rename(second.with_name(second.name.replace("0000000004-0000000008", "0000000008-0000000009")))
    elif damage == "first gone":
        first.unlink()
    elif damage == "half a file beside":
        second.with_name(f".{second.name}").write_bytes(data[:100])
    ids = range(9, -1, -1) if damage == "another order" else range(10)
    with chunks_in(tmp_path, ids, "another" if damage == "another key" else "k") as (_, chunks):
        chunks.remove_damaged()
        assert chunks.missing(range(10)) == left


def test_chunks_of_processes_with_other_batches_overlap_and_count_once(tmp_path: Path) -> None:
    place, ids = SharedFolder(tmp_path), pa.array([f"i{n}" for n in range(6)])
    for start, stop, gone in ((0, 4, "i1"), (2, 6, "i2")):
        chunks = Chunks(place, ids, "k")
        chunks.begin(start)
        rows = [row for row in range(start, stop) if f"i{row}" != gone]
        chunks.append(stop, np.array([[10 * start + row] for row in rows], np.float32), {gone: "torn"})
        chunks.flush()
    whole = Chunks(place, ids, "k")
    assert [(chunk.start, chunk.stop) for chunk in whole.chunks] == [(0, 4), (2, 6)] and not whole.missing(range(6))
    parts = [(vectors.ravel().tolist(), broken) for vectors, broken in whole.parts()]  # type: ignore[union-attr]
    assert parts == [([0, 2, 3], {"i1": "torn"}), ([24, 25], {})]
    assert Chunk.named(whole.chunks[0].name) == whole.chunks[0] and Chunk.named("notes.npz") is None


def test_nan_is_refused_with_its_ids_and_what_came_before_is_kept(tmp_path: Path) -> None:
    class Breaks(Means):
        stored_card = Means().stored_card  # as if its code were that of the sound one

        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            vectors = super().embed_images(batch)
            vectors[vectors[:, 0] == 6] = np.nan
            vectors[vectors[:, 0] == 7, 1] = np.inf
            return vectors

    collection, store = photos(tmp_path / "photos", 10), Store(tmp_path / "store")
    with pytest.raises(EmbeddingError, match=r"NaN or infinite values for 2 inputs: 'p006', 'p007'.*") as caught:
        encode(Breaks(), collection, "image", store=store)
    assert "encode in float32 or bfloat16" in caught.value.hint
    sound = Means()
    assert encode_detailed(sound, collection.items("image"), store=store).resumed == 4
    assert sound.seen == [4, 2]


def test_wrong_shape_from_an_encoder_is_refused(tmp_path: Path) -> None:
    class Short(Means):
        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            return super().embed_images(batch)[:-1]

    with refused(EncoderError, "means", "4", "images", "3", "3", code="returned-numbers-shape-expected"):
        encode(Short(), photos(tmp_path / "photos", 10), "image")


def test_nothing_to_encode_is_an_error(tmp_path: Path) -> None:
    with refused(VisirError, "texts", code="no-encode"):
        encode(Means(), Collection.build("bare", images={"id": ["a"]}), "text")


def test_vectors_of_an_encoder_without_a_version_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edit the code, run the cell again: the new vectors come out, and nothing stays behind."""
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))

    class Twice(Means):
        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            return 2 * super().embed_images(batch)

    collection = photos(tmp_path / "photos", 5)
    first = encode_detailed(Means(weights=None), collection.items("image"))
    changed = encode_detailed(Twice(weights=None), collection.items("image"))
    assert (changed.embeddings.vectors == 2 * first.embeddings.vectors).all()
    assert (first.folder, changed.folder, changed.computed) == (None, None, 5)
    assert changed.source.startswith("encoded at 20")
    assert not (tmp_path / "cache").exists()

    versioned = Means(weights=None)
    versioned.card = EncoderCard("means", "toy", revision="1")
    assert encode_detailed(versioned, collection.items("image")).computed == 5
    again = encode_detailed(versioned, collection.items("image"))
    assert again.computed == 0
    assert again.source.startswith("from the vector store, encoded at 20")
    assert again.embeddings.origin == f"from the vector store, encoded at {again.made}"
    some = again.embeddings.take(np.array([2]))
    assert some.origin == some.normalise().origin == again.embeddings.origin
