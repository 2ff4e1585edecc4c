"""Zips, tars, Arrow and Parquet files as places of pictures, whole and damaged."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toys import jpeg

from refusals import refused
from visir.collections import archives
from visir.collections.archives import ParquetArchive, TarArchive, ZipArchive, open_archive
from visir.errors import CollectionError, ImageError

MEMBERS = {"a/b.txt": b"hello " * 100, "é 雪 🐕.bin": bytes(range(256)), "empty": b""}


@pytest.mark.parametrize("name", ["x.zip", "x.tar"])
def test_members_come_back(write, name: str) -> None:
    opened = open_archive(write(name, MEMBERS))
    assert sorted(opened.names()) == sorted(MEMBERS)
    assert {member: opened.read(member) for member in MEMBERS} == MEMBERS
    with refused(ImageError, name, "other", code="no-member", hint=False):
        opened.read("other")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_compressions(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as made:
        for member, data in MEMBERS.items():
            made.writestr(member, data)
    opened = ZipArchive(tmp_path / "x.zip")
    assert {member: opened.read(member) for member in MEMBERS} == MEMBERS


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_zip_member_is_named(tmp_path: Path, method: int) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("picture.jpg", jpeg("red", (300, 300)))
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ImageError, match=r"x\.zip: 'picture\.jpg' is damaged"):
        ZipArchive(path).read("picture.jpg")


def test_a_truncated_zip_is_refused(write) -> None:
    path = write("x.zip", MEMBERS)
    path.write_bytes(path.read_bytes()[:-30])
    with refused(CollectionError, "x.zip", code="not-readable-zip"):
        open_archive(path)


def test_a_truncated_tar_names_where(write) -> None:
    path = write("x.tar", {"first": b"1" * 600, "second": b"2" * 6000})
    path.write_bytes(path.read_bytes()[:4000])
    with refused(CollectionError, "x.tar", "second", code="archive-truncated-within"):
        list(open_archive(path).names())


def test_a_compressed_tar_says_what_to_do(write) -> None:
    plain = write("x.tar", MEMBERS)
    packed = write("y.tar", gzip.compress(plain.read_bytes()))
    with refused(CollectionError, "y.tar", code="compressed-tar"):
        TarArchive(packed)
    with refused(CollectionError, code="not-archive-read", hint="decompress it first"):
        open_archive(write("z.tar.gz", b""))
    with refused(CollectionError, "z.rar", code="not-archive-read", hint=("supported", ".zip", ".tar")):
        open_archive(write("z.rar", b""))


def test_the_index_of_a_large_tar_is_kept(write, monkeypatch) -> None:
    monkeypatch.setattr(archives, "KEEP_INDEX_FROM", 3)
    path = write("x.tar", MEMBERS)
    first = TarArchive(path).index
    monkeypatch.setattr(TarArchive, "_scan", lambda self: pytest.fail("scanned again"))
    assert TarArchive(path).index == first
    assert TarArchive(path).read("a/b.txt") == MEMBERS["a/b.txt"]


def test_a_changed_tar_is_indexed_again(write, monkeypatch) -> None:
    monkeypatch.setattr(archives, "KEEP_INDEX_FROM", 1)
    assert list(TarArchive(write("x.tar", {"old": b"1"})).names()) == ["old"]
    assert list(TarArchive(write("x.tar", {"new": b"1", "newer": b"2"})).names()) == ["new", "newer"]


def test_parquet_over_several_row_groups(tmp_path: Path) -> None:
    pictures = [jpeg(f"#{n:02x}0000") for n in range(10)]
    table = pa.table({"image": [{"bytes": one, "path": f"{n}.jpg"} for n, one in enumerate(pictures)], "k": range(10)})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=3)
    opened = ParquetArchive(tmp_path / "x.parquet")
    assert list(opened.names()) == [f"image#{n}" for n in range(10)]
    assert [opened.read(f"image#{n}") for n in (9, 0, 4, 3)] == [pictures[n] for n in (9, 0, 4, 3)]
    for wrong in ("image#10", "other#0", "image"):
        with pytest.raises(ImageError, match="no member"):
            opened.read(wrong)


def test_a_null_picture_in_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": pa.array([None], pa.binary())}), tmp_path / "x.parquet")
    with refused(ImageError, "image#0", code="is-null", hint=False):
        open_archive(tmp_path / "x.parquet").read("image#0")


def test_a_missing_archive(tmp_path: Path) -> None:
    with refused(CollectionError, "x.zip", code="no-such-archive"):
        open_archive(tmp_path / "x.zip")


def lying(path: Path, name: str, told: int) -> None:
    """Write into a zip's directory, and beside the member, that it has so many bytes."""
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as opened:
        member = opened.getinfo(name)
        central = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, central + 24, told)
    struct.pack_into("<I", data, member.header_offset + 22, told)
    path.write_bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_is_unpacked_no_further_than_was_told(tmp_path: Path, method: int) -> None:
    """3 MB of zip took 6.5 GB: its member was unpacked whole before its size was looked at."""
    told_by = r"x\.zip: 'bomb\.jpg' has 150,000,000 bytes packed into [\d,]+, more than 200"
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("bomb.jpg", bytes(150_000_000))
    with pytest.raises(ImageError, match=told_by):
        ZipArchive(path).read("bomb.jpg")
    for told in (0, 1000):
        lying(path, "bomb.jpg", told)
        opened = ZipArchive(path)
        tracemalloc.start()
        with pytest.raises(ImageError, match=r"x\.zip: 'bomb\.jpg' (is damaged|cannot be read)"):
            opened.read("bomb.jpg")
        assert tracemalloc.get_traced_memory()[1] < (90 if method == zipfile.ZIP_LZMA else 3) * 10**6
        tracemalloc.stop()


def test_a_member_has_a_limit(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBER", 500)
    for name in ("x.zip", "x.tar"):
        opened = open_archive(write(name, MEMBERS))
        assert opened.read("empty") == b""
        with refused(ImageError, "a/b.txt", "600 bytes", "over the limit of 500", code="decompression-bomb"):
            opened.read("a/b.txt")


def test_text_that_repeats_itself_is_no_bomb(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    text = b"".join(b"a dog runs on the beach %d\n" % at for at in range(700_000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        made.writestr("captions.txt", text)
        made.writestr("blank.bmp", bytes(10_000_000))  # small enough, whatever it packs to
    assert ZipArchive(path).read("captions.txt") == text
    assert len(ZipArchive(path).read("blank.bmp")) == 10_000_000


def test_a_zip_of_bombs_is_a_source_with_broken_pictures(tmp_path: Path) -> None:
    """The bombs are named, the picture between them is found, and the memory stays flat."""
    from visir.library import update

    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("good.png", jpeg("red", (64, 64), "PNG"))
        for at in range(4):
            with made.open(f"{at}.jpg", "w", force_zip64=True) as stream:
                for _ in range(80):
                    stream.write(bytes([at]) * 2**20)
    done = update(tmp_path / "x.zip", tmp_path / "library", model="pixels")
    assert done.added == 1 and len(done.broken) == 4
    assert "more than 200 to 1 (a decompression bomb?)" in str(done.broken)


def test_names_of_a_tar_that_are_no_utf_8(tmp_path: Path) -> None:
    import io
    import tarfile

    from visir.collections import open_collection
    from visir.collections.images import ImageReader

    with tarfile.open(tmp_path / "old.tar", "w", encoding="latin-1", format=tarfile.GNU_FORMAT) as tar:
        for name in ("café.jpg", "café.txt"):
            data = jpeg() if name.endswith("jpg") else b"a cup"
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    for format in ("photos", "webdataset"):
        collection = open_collection(tmp_path / "old.tar", format=format)
        assert collection.images["path"].to_pylist() == ["caf\\udce9.jpg"]
        assert ImageReader(collection).open(0).size == (12, 8)
