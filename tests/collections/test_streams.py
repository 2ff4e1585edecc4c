"""Tars that are streamed have the pictures that `tarfile` finds in them, whichever program wrote them."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusals import refused
from visir.collections.streams import InputFiles
from visir.errors import CollectionError

NAMES = [
    "a.png",
    "x" * 96 + ".png",  # fills the field of the name: no zero byte ends it
    "y" * 120 + ".png",
    "f" * 60 + "/" + "g" * 60 + ".png",
    "ÄÖ/日本.png",
    "dots/a.b.c.png",
]
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def pictures(path: Path) -> dict[str, bytes]:
    [file] = (inputs := InputFiles(path)).files
    return {picture.where.removeprefix(f"{path}: "): picture.data for picture in inputs.pictures(file)}  # type: ignore[misc]


def referee(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        members = [member for member in tar if member.isreg() and member.name.endswith(".png")]
        return {member.name: tar.extractfile(member).read() for member in members}  # type: ignore[union-attr]


@pytest.mark.parametrize("format", FORMATS)
def test_headers_of_every_format(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=FORMATS[format]) as tar:
        for number, name in enumerate(NAMES):
            if format == "ustar" and len(name) == 124 and "/" not in name:
                continue  # too long for it
            about = tarfile.TarInfo(name)
            about.size, about.mtime, about.uname = 500 * number + 3, 1.5 if format == "pax" else 1, "somebody"
            tar.addfile(about, io.BytesIO(bytes([number]) * about.size))
        for kind, name in ((tarfile.DIRTYPE, "folder.png"), (tarfile.SYMTYPE, "s.png"), (tarfile.LNKTYPE, "l.png")):
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, "a.png"
            tar.addfile(about)
    assert pictures(path) == referee(path)
    assert len(pictures(path)) == (5 if format == "ustar" else 6)


@pytest.mark.parametrize("options", [["--format=v7"], ["--format=oldgnu"], ["--format=gnu", "--sparse"], ["--posix"]])
def test_what_tar_itself_writes(tmp_path: Path, options: list[str]) -> None:
    tar = shutil.which("tar")
    if tar is None:
        pytest.skip("there is no tar here")
    (tmp_path / "a.png").write_bytes(b"12345")
    with (tmp_path / "hole.png").open("wb") as stream:
        stream.truncate(1_000_000)
        stream.seek(500_000)
        stream.write(b"in the middle")
    subprocess.run([tar, *options, "-cf", "x.tar", "a.png", "hole.png"], cwd=tmp_path, check=True)
    assert pictures(tmp_path / "x.tar") == referee(tmp_path / "x.tar")
    assert len(pictures(tmp_path / "x.tar")["hole.png"]) == 1_000_000


@pytest.mark.parametrize("at", [0, 50, 126, 150, 260, 400])
def test_a_changed_byte_of_a_header_is_noticed(tmp_path: Path, at: int) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("a.png", "b.png", "c.png"):
            about = tarfile.TarInfo(name)
            about.size = 10
            tar.addfile(about, io.BytesIO(b"0123456789"))
    data = bytearray(path.read_bytes())
    data[2 * 512 + at] ^= 1  # of the second header: after one header and one block of content
    path.write_bytes(data)
    with refused(CollectionError, code="damaged-truncated"):
        pictures(path)


def repaired(header: bytearray) -> bytearray:
    """The header with the checksum that it should have."""
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 8 * ord(" "))
    return header


def test_a_size_may_fill_its_field(tmp_path: Path) -> None:
    """Some programs write twelve digits, and no zero byte behind them."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("a.png", "b.png"):
            about = tarfile.TarInfo(name)
            about.size = 600
            tar.addfile(about, io.BytesIO(name.encode() * 120))
    data = bytearray(path.read_bytes())
    for start in (0, 3 * 512):
        data[start + 124 : start + 136] = b"%012o" % 600
        data[start : start + 512] = repaired(data[start : start + 512])
    path.write_bytes(data)
    assert pictures(path) == referee(path) == {"a.png": b"a.png" * 120, "b.png": b"b.png" * 120}


def archive(kind: str) -> bytes:
    """Three pictures in a file of this kind."""
    stream = io.BytesIO()
    if kind == "parquet":
        pq.write_table(pa.table({"id": ["a", "b", "c"], "image": [b"1" * 999, None, b"3" * 999]}), stream)
    elif kind == "zip":
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
            for name in ("ä.png", "ö.png", "ü.png"):
                packed.writestr(name, name * 99)
    else:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for name in ("a.png", "b.png", "c.png"):
                about = tarfile.TarInfo(name)
                about.size = 10
                tar.addfile(about, io.BytesIO(b"0123456789"))
    pack = {"tar.gz": gzip.compress, "tar.xz": lzma.compress}.get(kind, bytes)
    return pack(stream.getvalue())


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "zip", "parquet"])
def test_whatever_is_damaged_the_file_is_named(tmp_path: Path, kind: str) -> None:
    """Readers raise all kinds of errors on such bytes: none may end a process that has other files to do."""
    whole, random = archive(kind), np.random.default_rng(1)
    path = tmp_path / f"a.{kind}"
    caught = 0
    for number in range(300):
        data = bytearray(whole)
        if number % 3 == 0:
            del data[int(random.integers(len(data))) :]
        for at in random.integers(len(data), size=4) if data else []:
            data[at] = int(random.integers(256))
        path.write_bytes(data)
        try:
            pictures(path)
        except CollectionError as fault:
            assert fault.message.startswith(f"{path}: ")
            caught += 1
    assert caught > 50


@pytest.mark.parametrize("length", [258, 300, 345, 400, 511])
def test_a_tar_may_end_within_a_header(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive("tar")[: 1024 + length])
    with pytest.raises(CollectionError, match=r"a\.tar: damaged or truncated \(the mark of its end is missing\)"):
        pictures(path)


@pytest.mark.parametrize(("at", "value"), [(148, b"9"), (134, b"8")])
def test_digits_that_are_none_of_this_base(tmp_path: Path, at: int, value: bytes) -> None:
    path = tmp_path / "a.tar"
    data = bytearray(archive("tar"))
    data[1024 + at : 1024 + at + 1] = value
    if at == 134:
        data[1024:1536] = repaired(data[1024:1536])
    path.write_bytes(data)
    with refused(CollectionError, "a.tar", code="damaged-truncated"):
        pictures(path)


def test_a_damaged_file_elsewhere_is_no_place_that_does_not_answer() -> None:
    """Else every process would try it again for half a minute, and then stop."""
    fsspec = pytest.importorskip("fsspec")
    data = bytearray(archive("parquet"))
    data[4:200] = bytes(196)
    fsspec.filesystem("memory").pipe("/damaged/a.parquet", bytes(data))
    [file] = (inputs := InputFiles("memory://damaged/a.parquet")).files
    with refused(CollectionError, "memory://", "a.parquet", code="damaged-truncated"):
        list(inputs.pictures(file))


def test_a_disk_that_fails_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = tmp_path / "a.tar"
    path.write_bytes(archive("tar"))
    monkeypatch.setattr(Path, "open", lambda self, mode: Failing(self))
    with refused(CollectionError, "a.tar", "Input/output error", code="cannot-read"):
        pictures(path)


@pytest.mark.parametrize(("kind", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_a_compressed_tar_may_be_several_streams(tmp_path: Path, kind: str, pack: Callable[[bytes], bytes]) -> None:
    """As pbzip2 and bgzip write them; `tar` and `gzip` read them too."""
    plain = archive("tar")
    path = tmp_path / f"a.tar.{kind}"
    path.write_bytes(b"".join(pack(plain[start : start + 700]) for start in range(0, len(plain), 700)))
    assert pictures(path) == referee(path)
    assert list(pictures(path)) == ["a.png", "b.png", "c.png"]


def test_a_wrong_checksum_of_a_stream_is_damage(tmp_path: Path) -> None:
    plain = archive("tar")
    first = bytearray(gzip.compress(plain[:700], compresslevel=0))
    first[200] ^= 1  # stored as it is: nothing but the checksum tells
    path = tmp_path / "a.tar.gz"
    path.write_bytes(bytes(first) + gzip.compress(plain[700:]))
    with refused(CollectionError, code="damaged-truncated"):
        pictures(path)
