"""Zips, tars, Arrow and Parquet files as places of pictures, whole and damaged."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toys import jpeg

from visir.collections import archives
from visir.collections.archives import TarArchive, ZipArchive, open_archive
from visir.collections.cells import ParquetArchive
from visir.errors import CollectionError, ImageError

MEMBERS = {"a/b.txt": b"hello " * 100, "é 雪 🐕.bin": bytes(range(256)), "empty": b""}


@pytest.mark.parametrize("name", ["x.zip", "x.tar"])
def test_members_come_back(write, name: str) -> None:
    opened = open_archive(write(name, MEMBERS))
    assert sorted(opened.names()) == sorted(MEMBERS)
    assert {member: opened.read(member) for member in MEMBERS} == MEMBERS
    with pytest.raises(ImageError, match=f"{name}: no member 'other'"):
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
    with pytest.raises(CollectionError, match=r"x\.zip: not a readable zip.*\n  → is the download complete\?"):
        open_archive(path)


def test_a_truncated_tar_names_where(write) -> None:
    path = write("x.tar", {"first": b"1" * 600, "second": b"2" * 6000})
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(CollectionError, match=r"x\.tar: the archive is truncated within 'second'"):
        list(open_archive(path).names())


def test_a_compressed_tar_says_what_to_do(write) -> None:
    plain = write("x.tar", MEMBERS)
    packed = write("y.tar", gzip.compress(plain.read_bytes()))
    with pytest.raises(CollectionError, match=r"y\.tar: a compressed tar.*\n  → decompress it first"):
        TarArchive(packed)
    with pytest.raises(CollectionError, match=r"not an archive that can be read from\.\n  → decompress it first"):
        open_archive(write("z.tar.gz", b""))
    with pytest.raises(CollectionError, match=r"z\.rar: not an archive.*\n  → supported: \.zip, \.tar"):
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
    with pytest.raises(ImageError, match="'image#0' is null"):
        open_archive(tmp_path / "x.parquet").read("image#0")


def test_a_missing_archive(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"x\.zip: no such archive"):
        open_archive(tmp_path / "x.zip")
