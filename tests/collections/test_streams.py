"""Tars that are streamed have the pictures that `tarfile` finds in them, whichever program wrote them."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

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
    with pytest.raises(CollectionError, match="damaged or truncated"):
        pictures(path)
