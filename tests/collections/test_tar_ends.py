"""Tars that are cut or damaged between members: no road reads half of one in silence."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from toys import jpeg
from typer.testing import CliRunner

import visir
from refusals import refused
from visir.cli import data, index
from visir.collections.archives import TarArchive
from visir.collections.streams import InputFiles, PassedOver
from visir.collections.tars import PADDING, PIECE, TarHeaders, tar_notes
from visir.errors import CollectionError
from visir.library import cli as library

NAMES = ["a.jpg", "b.jpg", "c.jpg"]
NO_END = r"damaged or truncated \(the mark of its end is missing\)"
DAMAGED = r"damaged or truncated \(the header at byte [\d,]+ is damaged\)"
ADDS = r"copy it again; to a tar that was written without the mark, truncate -s \+1024 FILE\.tar adds it"


def tar(path: Path) -> list[tarfile.TarInfo]:
    """Write three pictures; where each is, and the zeros that follow the last."""
    with tarfile.open(path, "w") as made:
        for name, colour in zip(NAMES, ("red", "green", "blue"), strict=True):
            content = jpeg(colour)
            about = tarfile.TarInfo(name)
            about.size = len(content)
            made.addfile(about, io.BytesIO(content))
    with tarfile.open(path) as opened:
        return opened.getmembers()


def cut(path: Path, place: str) -> str:
    """Cut, or damage, such a tar at a place; what an error says of it."""
    second, third = tar(path)[1:]
    assert second.size % 512  # there is padding
    whole = path.read_bytes()
    end = third.offset_data + -(-third.size // 512) * 512
    assert not whole[end:].strip(b"\0")
    length, said = {
        "within a header": (third.offset + 300, NO_END),
        "behind a header": (third.offset_data, "truncated within 'c.jpg'"),
        "within the data": (second.offset_data + 100, "truncated within 'b.jpg'"),
        "at the end of a member": (second.offset_data + second.size, "unexpected end of data"),
        "at the end of the padding": (third.offset, NO_END),
        "before the mark of the end": (end, NO_END),
        "within the mark of the end": (end + 511, NO_END),
        "nowhere, a header is damaged": (len(whole), DAMAGED),
    }[place]
    content = bytearray(whole[:length])
    if said == DAMAGED:
        content[third.offset] ^= 1
    path.write_bytes(content)
    return said


PLACES = [
    "within a header",
    "behind a header",
    "within the data",
    "at the end of a member",
    "at the end of the padding",
    "before the mark of the end",
    "within the mark of the end",
    "nowhere, a header is damaged",
]


@pytest.mark.parametrize("layout", ["webdataset", "photos"])
@pytest.mark.parametrize("place", PLACES)
def test_a_tar_that_is_cut_is_refused_when_opened(tmp_path: Path, place: str, layout: str) -> None:
    path = tmp_path / "x.tar"
    said = cut(path, place)
    remedy = ADDS if said == NO_END else "copy it again"
    with pytest.raises(CollectionError, match=rf"x\.tar: .*{said}.*\n  → {remedy}$"):
        visir.open(path, format=layout)
    inputs = InputFiles(path)
    with refused(CollectionError, "x.tar", code="damaged-truncated"):
        list(inputs.pictures(inputs.files[0]))


@pytest.mark.parametrize("place", ["at the end of a member", "at the end of the padding", "before the mark of the end"])
def test_every_verb_refuses_it(tmp_path: Path, place: str) -> None:
    said = cut(tmp_path / "x.tar", place)
    shards = tmp_path / "shards"
    shards.mkdir()
    tar(shards / "00000.tar")
    (tmp_path / "x.tar").rename(shards / "00001.tar")
    for app, arguments in (
        (library.app, ["make", shards, "--model", "pixels", "--out", tmp_path / "made"]),
        (index.app, ["build", shards, "--model", "pixels", "--out", tmp_path / "index"]),
        (data.app, ["check", shards]),
    ):
        found = CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "400", "NO_COLOR": "1"})
        assert found.exit_code != 0
        assert re.search(rf"00001\.tar: .*{said}", f"{found.output}{found.exception}")


@pytest.mark.parametrize("zeros", [512, 1024, 7168])
def test_one_block_of_zeros_is_an_end(tmp_path: Path, zeros: int) -> None:
    path = tmp_path / "x.tar"
    last = tar(path)[-1]
    end = last.offset_data + -(-last.size // 512) * 512
    path.write_bytes(path.read_bytes()[:end] + bytes(zeros))
    assert list(TarArchive(path).names()) == NAMES
    inputs = InputFiles(path)
    assert [picture.id for picture in inputs.pictures(inputs.files[0])] == ["a", "b", "c"]


def test_what_the_error_says_makes_a_tar_without_the_mark_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    cut(path, "before the mark of the end")
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size + 1024)
    assert list(TarArchive(path).names()) == NAMES


def test_headers_of_links_and_long_names_are_no_end(tmp_path: Path) -> None:
    for format in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with tarfile.open(tmp_path / "x.tar", "w", format=format) as made:
            for name in (f"{'é' * 150}.jpg", "b.jpg"):
                about = tarfile.TarInfo(name)
                about.size = 3
                made.addfile(about, io.BytesIO(b"abc"))
            link = tarfile.TarInfo("c.jpg")
            link.type, link.linkname = tarfile.SYMTYPE, "b.jpg"
            made.addfile(link)
        opened = TarArchive(tmp_path / "x.tar")
        assert list(opened.names()) == [f"{'é' * 150}.jpg", "b.jpg"] and opened.links == ["c.jpg"]


@pytest.mark.parametrize("zeros", [0, 3 * 2**20])
def test_a_second_tar_is_noticed_behind_any_number_of_zeros(tmp_path: Path, zeros: int) -> None:
    path = tmp_path / "x.tar"
    tar(path)
    whole = path.read_bytes() + bytes(zeros)
    path.write_bytes(whole)
    first = TarArchive(path)
    assert list(first.names()) == NAMES and not first.goes_on
    path.write_bytes(whole + whole)
    both = TarArchive(path)
    assert list(both.names()) == NAMES and both.goes_on


class Watched(io.BytesIO):
    """Writes down how much is asked of it at once."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.most, self.got = 0, 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.most, self.got = max(self.most, len(data)), self.got + len(data)
        return data


@pytest.mark.parametrize("kind", ["stream", "file"])
def test_what_is_behind_the_end_is_read_in_pieces(tmp_path: Path, kind: str) -> None:
    """Until it is known that it goes on: only a compressed one has a checksum at its end."""
    tar(tmp_path / "x.tar")
    whole = (tmp_path / "x.tar").read_bytes()
    source, headers = Watched(whole + bytes(5 * 2**20) + b"x" + bytes(5 * 2**20)), TarHeaders()
    with headers.open(source) if kind == "stream" else tarfile.open(fileobj=source, tarinfo=headers.kind) as opened:
        assert [member.name for member in opened] == NAMES
        assert headers.check_end(opened)
    assert source.most <= PIECE
    assert 5 * 2**20 < source.got < 8 * 2**20


def test_more_zeros_than_padding_count_as_more(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    tar(path)
    end = path.stat().st_size
    for zeros, more in ((PADDING // 2, False), (4 * PADDING, True)):
        with path.open("r+b") as stream:
            stream.truncate(end + zeros)  # without taking up the disk
        archive, inputs, passed = TarArchive(path), InputFiles(path), PassedOver()
        assert list(archive.names()) == NAMES and archive.goes_on is more
        assert len(list(inputs.pictures(inputs.files[0], passed))) == 3 and passed.goes_on is more
    source, headers = Watched(path.read_bytes()), TarHeaders()
    with headers.open(source) as opened:
        assert len(list(opened)) == 3 and headers.check_end(opened)
    assert source.got < PADDING + 3 * PIECE


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_tar_may_go_on_with_much_and_not_with_a_bomb(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Pictures hardly pack: behind the mark there may be any number of them, or 64 MiB of what packs to nothing."""
    path = tmp_path / "x.tar"
    tar(path)
    zeros = pack(bytes(8 * 2**20))
    for tail, more in ((b"", False), (7 * zeros, False), (pack(random.Random(0).randbytes(2**20)) + 9 * zeros, True)):
        headers = TarHeaders()
        with headers.open(io.BytesIO(pack(path.read_bytes()) + tail)) as opened:
            assert len(list(opened)) == 3 and headers.check_end(opened) is more
    bomb, headers = Watched(pack(path.read_bytes()) + 30 * zeros + b"no stream"), TarHeaders()
    with headers.open(bomb) as opened, pytest.raises(tarfile.ReadError, match=r"^more than 67,108,864 bytes, packed"):
        assert len(list(opened)) == 3 and headers.check_end(opened)


def test_a_link_of_two_lines_is_told_on_one() -> None:
    (note,) = tar_notes(["x.tar: a\nb.jpg"], [])
    assert note.startswith(r"1 link in tars passed over, e.g. x.tar: a\u000ab.jpg (")
    (note,) = tar_notes([], ["x\ny.tar"])
    assert r"e.g. x\u000ay.tar (" in note
