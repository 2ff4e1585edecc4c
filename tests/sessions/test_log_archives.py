"""Logs in tars that were cut, hold links, or go on behind their end: none is read in part without a word."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from cut_tars import ADDS_THE_MARK, CUTS, NO_END, cut_tar, linked_tar, tar_of
from verbs import say
from visir.errors import VisirError
from visir.sessions import LogCounts, LogMapping, sessionise
from visir.sessions.cli.make import make as make_verb
from visir.sessions.counts import remarks_of

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
    assert [one.name for one in tmp_path.iterdir()] == [name]  # no folder, and nothing that was unpacked


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
    ):
        (tmp_path / "log.tar").write_bytes(joined)
        with pytest.raises(
            VisirError, match=r"log\.tar: goes on behind the mark of its end, where it is not read\.\n.*--ignore-zeros"
        ):
            sessions_of(tmp_path / "log.tar")
    assert [one.name for one in tmp_path.iterdir()] == ["log.tar"]


def test_an_archive_without_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "none.tar").write_bytes(bytes(10_240))
    with pytest.raises(VisirError, match=rf"{tmp_path}/none\.tar: no file in it\.\n.*is it the right archive"):
        sessions_of(tmp_path / "none.tar")
    links = linked_tar({"a.csv": log(9)}, "b.csv", "c.csv")[
        1024:
    ]  # without the first: 512 bytes of header, 512 of data
    assert links[:5] == b"b.csv"
    (tmp_path / "links.tar").write_bytes(links)
    with pytest.raises(VisirError, match=r"links\.tar: no file in it but 2 links\.\n.*--dereference"):
        sessions_of(tmp_path / "links.tar")


def test_two_archives_of_one_name_are_two_logs(tmp_path: Path) -> None:
    """Monday's and Tuesday's `log.tar`, with files of one name: 100 rows and 9."""
    for day, rows in (("monday", 100), ("tuesday", 9)):
        (tmp_path / day).mkdir()
        (tmp_path / day / "log.tar").write_bytes(tar_of({"a.csv": log(rows)}))
    both = [tmp_path / "monday" / "log.tar", tmp_path / "tuesday" / "log.tar"]
    assert sessionise(both, MAPPING, tmp_path / "out").read == 109
