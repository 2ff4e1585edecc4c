"""What lies in a folder need not be visir's, whatever it is called and whatever it says of itself."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest

from refusals import refused
from visir.errors import VisirError
from visir.storage import (
    FolderError,
    FolderKind,
    Manifest,
    changing,
    new_folder,
    remove_folder,
    remove_own_folders,
    scratch,
    sweep,
)
from visir.storage.claims import _packed
from visir.storage.manifest import LOG

BOX = FolderKind("box", "a box")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_EMPTY_SECONDS", 0)


def box(path: Path, **files: bytes) -> Path:
    with new_folder(path, BOX) as change:
        for name, data in (files or {"data": b"1"}).items():
            change.write(name, data)
    return path


def evil_log(folder: Path, *entries: dict[str, Any]) -> None:
    """A log of claims as an archive may bring it: every line with its right digest."""
    folder.mkdir(exist_ok=True)
    lines = [{"visir": 1, "inode": 12345}, *entries]
    (folder / LOG).write_bytes(b"".join(_packed(entry) for entry in lines))


@pytest.mark.parametrize(
    "entry",
    [
        {"folders": "../mine"},
        {"folders": "/"},
        {"folders": 5},
        {"claim": "../mine/x"},
        {"claim": "**/*"},
        {"claim": 7},
        {"swap": ".."},
        {"swap": 5},
        {"swap": "mine", "manifest": ""},
        {"folder": "../mine"},
        {"making": 3},
    ],
    ids=str,
)
def test_a_log_from_elsewhere_commands_nothing(tmp_path: Path, entry: dict[str, Any]) -> None:
    box(tmp_path / "mine", x=b"mine")
    evil_log(tmp_path / ".visir-x-00000000", entry)
    (tmp_path / ".visir-x-00000000" / "old").mkdir()
    (tmp_path / ".visir-x-00000000" / "old" / "planted").write_text("planted")
    (tmp_path / ".visir-x-00000000" / "thesis").write_text("mine")
    with pytest.warns(UserWarning, match="visir-x-00000000"):
        box(tmp_path / "out")
    assert (tmp_path / "mine" / "x").read_bytes() == b"mine" and Manifest.read(tmp_path / "mine").faults(
        tmp_path / "mine"
    ) == []
    assert (tmp_path / ".visir-x-00000000" / "thesis").read_text() == "mine"
    assert not (tmp_path.parent / "planted").exists()


def test_a_folder_with_a_log_from_elsewhere_is_the_users(tmp_path: Path) -> None:
    evil_log(tmp_path / "u", {"claim": "**/*"}, {"claim": "thesis"})
    (tmp_path / "u" / "thesis").write_text("mine")
    with (
        refused(FolderError, code="holds-files-visir-not"),
        changing(tmp_path / "u", BOX, busy="wait") as change,
    ):
        change.write("data", b"1")
    assert (tmp_path / "u" / "thesis").read_text() == "mine"


@pytest.mark.parametrize("content", ["", "my own notes\n"])
def test_a_file_of_the_users_that_is_called_like_the_log(tmp_path: Path, content: str) -> None:
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / LOG).write_text(content)
    (tmp_path / "u" / "thesis").write_text("mine")
    box(tmp_path / "made")
    (tmp_path / "made" / LOG).write_text("my own notes")
    for folder in ("u", "made"):
        with pytest.raises(FolderError), changing(tmp_path / folder, BOX, busy="wait") as change:
            change.write("other", b"1")
    assert (tmp_path / "u" / LOG).read_text() == content and (tmp_path / "u" / "thesis").read_text() == "mine"
    assert (tmp_path / "made" / LOG).read_text() == "my own notes"


def test_a_log_that_is_a_link_or_a_pipe_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("mine")
    made = box(tmp_path / "made")
    (made / LOG).symlink_to(tmp_path / "thesis")
    with pytest.raises(VisirError), changing(made, BOX, busy="wait") as change:
        change.write("other", b"1")
    assert (tmp_path / "thesis").read_text() == "mine"
    (made / LOG).unlink()
    os.mkfifo(made / LOG)
    with pytest.raises(VisirError, match="no plain file"), changing(made, BOX, busy="wait") as change:
        change.write("other", b"1")
    (tmp_path / ".visir-x-00000000").mkdir()
    os.mkfifo(tmp_path / ".visir-x-00000000" / LOG)
    sweep(tmp_path)  # returns


def test_a_folder_that_was_copied_while_it_was_written_is_gone_on_with_when_asked(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), changing(tmp_path / "a", BOX, busy="wait", resume=True) as change:
        change.file("half").write_bytes(b"1")
        raise KeyboardInterrupt
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with (
        refused(FolderError, code="holds-files-visir-not"),
        changing(tmp_path / "b", BOX, busy="wait", resume=True),
    ):
        pass
    with changing(tmp_path / "b", BOX, busy="wait", resume=True, trusted=True) as change:
        assert change.file("half").read_bytes() == b"1"
    assert Manifest.read(tmp_path / "b").faults(tmp_path / "b") == []


# A folder that is replaced


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError])
def test_an_interrupted_replacement_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool, at: int, fault: type[BaseException]
) -> None:
    box(tmp_path / "box", data=b"old", gone=b"old")
    (tmp_path / "box" / "mine").write_text("mine")
    (tmp_path / "box" / "empty").mkdir()
    rename, calls = Path.rename, 0
    if not exchanges:
        monkeypatch.setattr(scratch, "exchange", lambda first, second: False)

    def failing(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == at:
            raise fault
        return rename(self, target)

    with pytest.raises(fault), monkeypatch.context() as patch:
        patch.setattr(Path, "rename", failing)
        with new_folder(tmp_path / "box", BOX, replace=True) as change:
            change.write("data", b"new")
        raise fault  # where there are fewer renames
    (tmp_path / "x").mkdir()
    box(tmp_path / "x" / "other")
    box(tmp_path / "neighbour")  # the next writer here
    assert (tmp_path / "box" / "data").read_bytes() in (b"old", b"new")
    assert Manifest.read(tmp_path / "box").faults(tmp_path / "box") == []
    assert (tmp_path / "box" / "mine").read_text() == "mine" and (tmp_path / "box" / "empty").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["box", "neighbour", "x"]


def test_two_folders_are_kept_when_a_third_took_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the exchange, between its two renames, somebody makes a folder of that name."""
    box(tmp_path / "box", data=b"old")
    monkeypatch.setattr(scratch, "exchange", lambda first, second: False)
    rename = Path.rename

    def meanwhile(self: Path, target: Path) -> Path:
        done = rename(self, target)
        if target.name == "old":
            (tmp_path / "box").mkdir()
            (tmp_path / "box" / "thesis").write_text("mine")
        return done

    with monkeypatch.context() as patch, pytest.raises(FolderError) if False else pytest.raises(OSError):
        patch.setattr(Path, "rename", meanwhile)
        with pytest.warns(UserWarning), new_folder(tmp_path / "box", BOX, replace=True) as change:
            change.write("data", b"new")
    contents = sorted(path.read_bytes() for path in tmp_path.rglob("data") if not path.is_relative_to(tmp_path / "box"))
    assert contents == [b"new", b"old"] and (tmp_path / "box" / "thesis").read_text() == "mine"


def test_a_folder_of_the_users_where_a_file_of_ours_was(tmp_path: Path) -> None:
    box(tmp_path / "box", data=b"old", table=b"old")
    (tmp_path / "box" / "table").unlink()
    (tmp_path / "box" / "table").mkdir()
    (tmp_path / "box" / "table" / "mine.txt").write_text("mine")
    with (
        pytest.warns(UserWarning, match=r"box\.old-1: files that visir did not write"),
        new_folder(tmp_path / "box", BOX, replace=True) as change,
    ):
        change.write("table", b"new")
    assert (tmp_path / "box.old-1" / "table" / "mine.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["box", "box.old-1"]


def test_a_private_folder_stays_private(tmp_path: Path) -> None:
    box(tmp_path / "box").chmod(0o700)
    with new_folder(tmp_path / "box", BOX, replace=True) as change:
        change.write("data", b"2")
    assert stat.S_IMODE((tmp_path / "box").stat().st_mode) == 0o700


def test_nobody_stands_in_a_folder_that_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box(tmp_path / "box")
    monkeypatch.chdir(tmp_path / "box")
    with (
        refused(FolderError, code="folder-you-replaced"),
        new_folder(".", BOX, replace=True) as change,
    ):
        change.write("data", b"2")
    assert (tmp_path / "box" / "data").read_bytes() == b"1"


# Folders inside a folder


def test_only_folders_that_a_change_made_go_with_it(tmp_path: Path) -> None:
    box(tmp_path / "elsewhere", x=b"mine")
    with changing(tmp_path / "library", BOX, busy="wait", resume=True) as change:
        change.write("data", b"1")
        own = change.own_folder("work/own")
        box(own / "deep" / "entry")
        box(tmp_path / "library" / "work" / "vectors", x=b"mine")
        (tmp_path / "library" / "work" / "link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
        with refused(FolderError, code="already-visir-not-make"):
            change.own_folder("work/vectors")
        change.commit()
        assert change.own_folders("work") == ["work/own"], "known until it is gone"
        remove_own_folders(change, "work")
        assert not own.exists()
    assert (tmp_path / "library" / "work" / "vectors" / "x").read_bytes() == b"mine"
    assert (tmp_path / "elsewhere" / "x").read_bytes() == b"mine"
    assert orjson.loads((tmp_path / "library" / "visir.json").read_bytes())["generation"] == 1


def test_a_folder_behind_a_link_stays(tmp_path: Path) -> None:
    box(tmp_path / "mine", x=b"mine")
    (tmp_path / "link").symlink_to("mine", target_is_directory=True)
    assert remove_folder(tmp_path / "link") == []
    assert (tmp_path / "mine" / "x").read_bytes() == b"mine" and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("version", ["x", None, 2])
def test_a_log_of_another_version_is_refused(tmp_path: Path, version: Any) -> None:
    made = box(tmp_path / "made")
    (made / LOG).write_bytes(_packed({"visir": version, "inode": 1}))
    (tmp_path / ".visir-x-00000000").mkdir()
    shutil.copy(made / LOG, tmp_path / ".visir-x-00000000")
    assert sweep(tmp_path) == [] and (tmp_path / ".visir-x-00000000" / LOG).is_file(), "it holds nobody else up"
    with refused(FolderError, code="newer-visir-work-folder"), changing(made, BOX, busy="wait") as change:
        change.write("other", b"1")


def test_a_scratch_folder_that_goes_while_it_is_looked_at_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that work side by side make and remove such folders in one place all the time."""
    (tmp_path / ".visir-x-00000000").mkdir()
    is_dir = Path.is_dir

    def removed_after(path: Path) -> bool:
        answer = is_dir(path)
        if path.name == ".visir-x-00000000":
            path.rmdir()  # its writer has finished
        return answer

    monkeypatch.setattr(Path, "is_dir", removed_after)
    assert sweep(tmp_path) == []
