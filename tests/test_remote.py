"""Places elsewhere: in memory, and on a server that speaks S3."""

from __future__ import annotations

import io
import tarfile
import time
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from PIL import Image

from refusals import refused
from s3_server import s3_server
from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.encoders import Store, encode, encode_detailed, load
from visir.encoders.models.vector_files import export
from visir.encoders.shards import Shard, encode_shard, join_shards
from visir.errors import EmbeddingError, VisirError
from visir.files import cache_directory
from visir.records import Collection
from visir.remote import RemoteFolder, is_url, local_copy, local_path


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True) if files.ls("/") else None


def picture(shade: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("s3://bucket/x", True),
        ("memory://a", True),
        ("hf://datasets/x", True),
        ("/data/x", False),
        ("C:\\data", False),
        ("c://data", False),  # one letter is a drive
        ("coco:captions.json", False),
        ("openai/clip-vit-base-patch32", False),
    ],
)
def test_what_is_an_address(text: str, answer: bool) -> None:
    assert is_url(text) is answer
    if not answer:
        assert local_path(text) == text


def test_a_file_is_copied_once_and_again_when_it_has_changed(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/photos/a.txt", b"one")
    first = local_copy("memory://photos/a.txt")
    assert first.name == "a.txt" and first.read_bytes() == b"one" and first.is_relative_to(cache_directory())
    stamp = first.stat().st_ino
    assert local_copy("memory://photos/a.txt") == first and first.stat().st_ino == stamp
    memory.pipe("/photos/a.txt", b"two")
    assert local_copy("memory://photos/a.txt").read_bytes() == b"two"
    assert first.read_bytes() == b"one"  # whoever reads it goes on


def test_folders_zips_and_tars_of_pictures_are_collections(memory: fsspec.AbstractFileSystem) -> None:
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a.png", picture(10))
        archive.writestr("b.png", picture(20))
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        for name, shade in (("a.png", 10), ("b.png", 20)):
            about = tarfile.TarInfo(name)
            about.size = len(picture(shade))
            tar.addfile(about, io.BytesIO(picture(shade)))
    memory.pipe("/box/photos/a.png", picture(10))
    memory.pipe("/box/photos/deep/b.png", picture(20))
    memory.pipe("/box/photos.zip", zipped.getvalue())
    memory.pipe("/box/photos.tar", tarred.getvalue())
    for spec in ("memory://box/photos", "photos:memory://box/photos", "memory://box/photos.zip",
                 "memory://box/photos.tar"):  # fmt: skip
        collection = open_collection(spec)
        reader = ImageReader(collection)
        shades = [reader.open(row).getpixel((0, 0)) for row in range(len(reader))]
        assert shades == [(10, 0, 0), (20, 0, 0)], spec
    annotations = "image,caption\na.png,a dark square\nb.png,a red square\n"
    memory.pipe("/box/captions.csv", annotations.encode())
    for images in ("memory://box/photos.zip", "memory://box/photos"):
        collection = open_collection("memory://box/captions.csv", images=images)
        assert ImageReader(collection).open(1).getpixel((0, 0)) == (20, 0, 0)
    by_query = open_collection("memory://box/captions.csv?images=memory://box/photos.tar")
    assert by_query.captions["text"].to_pylist() == ["a dark square", "a red square"]


def test_copies_on_two_machines_have_the_same_vectors(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marks go by size and time of change: a copy has the time of the original, whenever it was made."""
    memory.pipe("/photos/a.png", picture(10))
    keys = []
    for machine in ("one", "two"):
        monkeypatch.setenv("VISIR_CACHE", str(tmp_path / machine))
        keys.append(Store().key(load("pixels").card, open_collection("memory://photos").items("image")))
        time.sleep(0.02)
    assert keys[0] == keys[1]


def sharded(collection: Collection, place: str, tmp_path: Path) -> None:
    """Two machines that share nothing but `place`; a third joins."""
    for number in (1, 2):
        store = Store(tmp_path / f"machine {number}")
        done = encode_shard(
            load("pixels"), collection.items("image"), Shard(number, 2), place=place, store=store, batch_size=4
        )
        assert done.computed == len(done.rows) > 0 and done.finished == tuple(range(1, number + 1))
        assert not list(store.root.rglob("*.np?"))  # it is there, and not here
        again = encode_shard(
            load("pixels"), collection.items("image"), Shard(number, 2), place=place, store=store, batch_size=4
        )
        assert again.computed == 0
    third = Store(tmp_path / "machine 3")
    entry = join_shards(load("pixels"), collection.items("image"), place=place, store=third)
    one = encode_detailed(load("pixels"), collection.items("image"), store=Store(tmp_path / "one"), batch_size=4)
    assert one.folder is not None
    for name in ("vectors.npy", "ids.parquet"):
        assert (entry.folder / name).read_bytes() == (one.folder / name).read_bytes()
    assert join_shards(load("pixels"), collection.items("image"), place=place, store=third).folder == entry.folder


def exported(collection: Collection, place: str) -> None:
    made = encode(load("pixels"), collection, "image")
    export(place, {"image": made})
    with refused(VisirError, code="exists-already"):
        export(place, {"image": made})
    export(place, {"image": made}, replace=True)
    found = encode(load(place), collection, "image")
    assert np.array_equal(found.vectors, made.vectors) and found.ids.equals(made.ids)


def test_shards_and_vectors_elsewhere(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    collection = open_collection("scenes:20?size=64")
    sharded(collection, "memory://bucket/shards", tmp_path)
    exported(collection, "memory://bucket/vectors")


def test_faults_of_shards_elsewhere_name_them(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    collection, place = open_collection("scenes:20?size=64"), "memory://bucket/shards"
    sharded(collection, place, tmp_path)
    path = sorted(memory.glob("/bucket/shards/image-*/*.npz"))[1]
    data = bytearray(memory.cat_file(path))
    data[200] ^= 1
    memory.pipe(path, bytes(data))
    with refused(EmbeddingError, f"memory:/{path}", code="damaged", hint="delete it"):
        join_shards(load("pixels"), collection.items("image"), place=place, store=Store(tmp_path / "fourth"))
    memory.rm(path)
    with refused(EmbeddingError, "20", "image", "12", "8 to 20.", code="embedding-shards-missing"):
        join_shards(load("pixels"), collection.items("image"), place=place, store=Store(tmp_path / "fourth"))
    store = Store(tmp_path / "machine 2")
    assert encode_shard(
        load("pixels"), collection.items("image"), Shard(2, 2), place=place, store=store, batch_size=4
    ).computed
    join_shards(load("pixels"), collection.items("image"), place=place, store=Store(tmp_path / "fourth"))


def test_what_could_not_be_put_elsewhere_is_sent_and_not_made_again(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, store = open_collection("scenes:20?size=64").items("image"), Store(tmp_path / "store")
    pipe = type(memory).pipe_file

    def broken(self: Any, path: str, *others: Any, **options: Any) -> None:
        if path.endswith(".npz"):
            raise ConnectionResetError("peer went away")
        pipe(self, path, *others, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "pipe_file", broken)
        with refused(VisirError, "ConnectionResetError", "peer", code="cannot-reached"):
            encode_shard(load("pixels"), items, Shard(1, 2), place="memory://b/s", store=store, batch_size=4)
    done = encode_shard(load("pixels"), items, Shard(1, 2), place="memory://b/s", store=store, batch_size=4)
    assert (done.resumed, done.computed, done.finished) == (0, 0, (1,))
    assert len(RemoteFolder("memory://b/s").listing()) == 1 and not list((tmp_path / "store").rglob("*.npz"))


def test_addresses_that_lead_nowhere(memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(VisirError, "memory://nothing", code="no-such-file-no-folder"):
        open_collection("memory://nothing")
    with pytest.raises(VisirError, match=r"Protocol not known: nonsense(.|\n)*an address begins with"):
        local_copy("nonsense://x")
    assert RemoteFolder("memory://nothing").names() == []
    monkeypatch.setenv("VISIR_CACHE", "s3://bucket/cache")
    with refused(VisirError, "s3://bucket/cache", code="cache-takes-locks-memory-mapped"):
        cache_directory()
    if find_spec("gcsfs") is None:
        with refused(VisirError, hint="'visir[remote]' gcsfs"):
            RemoteFolder("gs://bucket")


def test_on_a_server_that_speaks_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server(monkeypatch) as files:
        files.mkdir("bucket")
        files.pipe("bucket/photos/a.png", picture(10))
        files.pipe("bucket/photos/b.png", picture(20))
        photos = open_collection("s3://bucket/photos")
        assert [ImageReader(photos).open(row).getpixel((0, 0)) for row in (0, 1)] == [(10, 0, 0), (20, 0, 0)]
        scenes = open_collection("scenes:20?size=64")
        sharded(scenes, "s3://bucket/shards", tmp_path)
        exported(scenes, "s3://bucket/vectors")
        with pytest.raises(VisirError, match=r"no such file|cannot be reached"):
            local_copy("s3://bucket/nothing")
        with refused(VisirError, code="cannot-reached"):
            RemoteFolder("s3://no-such-bucket-here").put(tmp_path, "x", ["y"])
