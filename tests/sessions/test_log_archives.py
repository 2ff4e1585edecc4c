"""Logs in tars that were cut, hold links, or go on behind their end: none is read in part without a word."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from cut_tars import ADDS_THE_MARK, CUTS, NO_END, cut_tar, linked_tar, tar_of
from refusals import refused
from verbs import say
from visir.errors import VisirError
from visir.sessions import LogCounts, LogMapping, sessionise
from visir.sessions.cli.train import make as make_verb
from visir.sessions.table_labels import remarks_of
from visir.storage import Scratch, sweep
from visir.storage.claims import release

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")

MAPPING = LogMapping(
    "toy",
    "csv",
    raw={name: (name,) for name in ("visitor", "time", "what")},
    events={"visitor": "visitor", "time": "time", "action": "what"},
    unit="s",
    actions={"page": "page"},
)


def log(rows: int) -> bytes:
    return b"visitor,time,what\n" + b"".join(b"v%d,%d,page\n" % (k, k) for k in range(rows))


LOGS = {"a.csv": log(100), "b.csv": log(50), "c.csv": log(30)}


def sessions_of(path: Path) -> LogCounts:
    return sessionise(path, MAPPING, path.parent / "out")


@pytest.mark.parametrize("name", CUTS)
def test_an_archive_that_was_cut_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(cut_tar(name, LOGS))
    with pytest.raises(
        VisirError, match=rf"{re.escape(name)}: no archive that can be unpacked: {CUTS[name]}"
    ) as caught:
        sessions_of(tmp_path / name)
    hint = f"fetch it again and compare its size; where it breaks: tar -tf {re.escape(name)}"
    assert re.search(ADDS_THE_MARK if CUTS[name] == NO_END else hint, caught.value.hint or "")
    assert [path.name for path in tmp_path.iterdir()] == [name]  # no folder, and nothing that was unpacked


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_links_are_no_logs_and_are_named(tmp_path: Path, ending: str) -> None:
    data = linked_tar(LOGS | {"read me": b""}, "hard.csv", ".hidden.csv")
    (tmp_path / f"log.{ending}").write_bytes(gzip.compress(data) if ending == "tar.gz" else data)
    counts = sessions_of(tmp_path / f"log.{ending}")
    assert (counts.read, counts.passed_over) == (180, ("hard.csv (a link)", "read me"))
    written = json.loads((tmp_path / "out" / "counts.json").read_text())["counts"]
    assert remarks_of(written)[-1] == (
        "2 files of another format, or links in archives passed over: hard.csv (a link), read me."
    )


def test_the_verb_tells_of_links(tmp_path: Path) -> None:
    events = b'{"visitor": "ann", "time": 0, "action": "page"}\n'
    (tmp_path / "log.tar").write_bytes(linked_tar({"a.json": events}, "hard.json", "soft.json"))
    mapping = tmp_path / "own.toml"
    mapping.write_text(
        'format = "json"\nunit = "s"\n[raw]\nvisitor = "visitor"\ntime = "time"\naction = "action"\n'
        '[events]\nvisitor = "visitor"\ntime = "time"\naction = "action"\n[actions]\npage = "page"\n'
    )
    done = say(make_verb, tmp_path / "log.tar", "--mapping", mapping, "--out", tmp_path / "out")
    assert done.status == 0, done.text
    shown = " ".join(done.text.split())
    assert "files passed over" in shown and "of another format, or links in archives: hard.json (a link)" in shown


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_what_goes_on_behind_its_end_is_refused(tmp_path: Path, pack: type[bytes]) -> None:
    """As `cat monday.tar tuesday.tar` makes it, or the same of compressed ones."""
    for joined in (
        pack(tar_of(LOGS) + tar_of({"d.csv": log(9)})),
        pack(tar_of(LOGS)) + pack(tar_of({"d.csv": log(9)})),
        pack(tar_of(LOGS) + bytes(3 * 2**20) + tar_of({"d.csv": log(9)})),
    ):
        (tmp_path / "log.tar").write_bytes(joined)
        with refused(VisirError, "log.tar", code="goes-behind-mark-end"):
            sessions_of(tmp_path / "log.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["log.tar"]


def test_an_archive_without_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "none.tar").write_bytes(bytes(10_240))
    with pytest.raises(VisirError, match=rf"{tmp_path}/none\.tar: no file in it\.\n.*is it the right archive"):
        sessions_of(tmp_path / "none.tar")
    links = linked_tar({"a.csv": log(9)}, "b.csv", "c.csv")[
        1024:
    ]  # without the first: 512 bytes of header, 512 of data
    assert links[:5] == b"b.csv"
    (tmp_path / "links.tar").write_bytes(links)
    with refused(VisirError, "links.tar", "but 2 links", code="visir-no-file", hint="--dereference"):
        sessions_of(tmp_path / "links.tar")


def test_two_archives_of_one_name_are_two_logs(tmp_path: Path) -> None:
    """Monday's and Tuesday's `log.tar`, with files of one name: 100 rows and 9."""
    for day, rows in (("monday", 100), ("tuesday", 9)):
        (tmp_path / day).mkdir()
        (tmp_path / day / "log.tar").write_bytes(tar_of({"a.csv": log(rows)}))
    both = [tmp_path / "monday" / "log.tar", tmp_path / "tuesday" / "log.tar"]
    assert sessionise(both, MAPPING, tmp_path / "out").read == 109


def tar_named(*names: str) -> bytes:
    """A tar of small files of these names, and of folders where a name ends in "/"."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in names:
            about = tarfile.TarInfo(name.rstrip("/"))
            about.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            about.mode = 0o755 if name.endswith("/") else 0o644
            about.size = 0 if name.endswith("/") else 3
            tar.addfile(about, io.BytesIO(b"abc"))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["ok.csv", f"{'x' * 300}.csv"], f"its member {'x' * 100}… cannot be unpacked: File name too long."),
        (["ok.csv", "y/" * 2_100 + "a.csv"], f"its member {'y/' * 50}… cannot be unpacked: File name too long."),
        (["ok.csv", "a.csv", "a.csv/b.csv"], "its member a.csv/b.csv cannot be unpacked: File exists."),
        (["ok.csv", "a.csv/", "a.csv"], "its member a.csv cannot be unpacked: Is a directory."),
        (["ok.csv", "a.csv/b.csv", "a.csv"], "its member a.csv cannot be unpacked: Is a directory."),
        (["ok.csv", "a\udce9.csv"], r"its member a\udce9.csv cannot be unpacked: Invalid or incomplete multibyte"),
        (["ok.csv", f"\n{'x' * 300}"], rf"its member \u000a{'x' * 99}… cannot be unpacked: File name too long."),
    ],
)
def test_a_member_that_no_file_can_be_called_leaves_nothing(tmp_path: Path, names: list[str], said: str) -> None:
    (tmp_path / "log.tar").write_bytes(tar_named(*names))
    with refused(VisirError, code="member-cannot-unpacked") as caught:
        sessions_of(tmp_path / "log.tar")
    assert caught.value.message.startswith(f"{tmp_path / 'log.tar'}: {said}")
    assert [path.name for path in tmp_path.iterdir()] == ["log.tar"]


def test_an_empty_folder_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "log.tar").write_bytes(tar_of({"a.csv": log(9)})[:1024] + tar_named("caf\udce9/"))
    assert sessions_of(tmp_path / "log.tar").read == 9
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log.tar", "out"]


def test_zeros_without_end_are_not_read_on(tmp_path: Path) -> None:
    """80 MiB of zeros, in 64 bytes or so: the first 64 MiB may be padding."""
    (tmp_path / "log.tar.bz2").write_bytes(bz2.compress(tar_of(LOGS)) + bz2.compress(bytes(8 * 2**20)) * 10)
    with pytest.raises(
        VisirError, match=r"unpacked: more than 67,108,864 bytes, .* follow the mark of its end"
    ) as caught:
        sessions_of(tmp_path / "log.tar.bz2")
    assert "unpack it by hand with tar --ignore-zeros, and pack it again" in (caught.value.hint or "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["log.tar.bz2"]


def test_a_claimed_name_that_is_too_long_is_swept(tmp_path: Path) -> None:
    """As a version that claimed such a name before the system had refused it has left it, when it was killed."""
    scratch = Scratch.beside(tmp_path / "out")
    scratch.file("unpacked/ok.csv").write_bytes(b"abc")
    scratch.claims.add(f"unpacked/{'x' * 300}.csv", "y/" * 2_100 + "a.csv")
    release(scratch.claims._stream)
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("zeros", [0, 3 * 2**20])
def test_a_compressed_archive_is_read_to_its_end(tmp_path: Path, zeros: int) -> None:
    """However many zeros it is filled up with (tar's --blocking-factor)."""
    packed = bytearray(gzip.compress(tar_of(LOGS) + bytes(zeros)))
    (tmp_path / "log.tar.gz").write_bytes(packed)
    assert sessions_of(tmp_path / "log.tar.gz").read == 180
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "log.tar.gz").write_bytes(packed[:-4])
    with refused(VisirError, "ended before the end-of-stream marker"):
        sessions_of(tmp_path / "log.tar.gz")
    packed[-8] ^= 1
    (tmp_path / "log.tar.gz").write_bytes(packed)
    with refused(VisirError, "CRC check failed"):
        sessions_of(tmp_path / "log.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["log.tar.gz"]


def test_what_macos_keeps_of_a_file_is_no_log(tmp_path: Path) -> None:
    fork = b"\0\x05\x16\x07\0\x02\0\0Mac OS X        "
    (tmp_path / "log.tar").write_bytes(tar_of({"._a.csv": fork, "x/._b.csv": fork, "._read me": fork, "a.csv": log(9)}))
    counts = sessions_of(tmp_path / "log.tar")
    kept = "(what macOS keeps of a file)"
    assert (counts.read, counts.malformed) == (9, 0)
    assert counts.passed_over == (f"._a.csv {kept}", f"x/._b.csv {kept}")
