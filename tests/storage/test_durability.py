"""What a power cut leaves: files are on disk before they take their places, and their folders after that."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folder_toys import BOX, BUSY, make, tree

from visir.encoders.pairs import pair_store
from visir.records import EncoderCard
from visir.storage import MANIFEST, ContentStore, FolderError, SharedFolder, changing, claims, new_folder
from visir.storage.disk import files_below, to_disk
from visir.storage.manifest import LOG
from visir.storage.scratch import PREFIX, new_file, sweep


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The calls of fsync, rename and link, in order, with the paths below the test's folder: "disk box", "to box"."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc")
    found: list[str] = []
    fsync = os.fsync

    def name_of(path: Path) -> str:
        return path.relative_to(tmp_path).as_posix()

    def synchronised(descriptor: int) -> None:
        found.append(f"disk {name_of(Path(f'/proc/self/fd/{descriptor}').readlink())}")
        fsync(descriptor)

    def moved(call: Callable[..., Any]) -> Callable[..., Any]:
        def moving(source: Any, target: Any, **options: Any) -> Any:
            found.append(f"to {name_of(Path(target))}")
            return call(source, target, **options)

        return moving

    monkeypatch.setattr(os, "fsync", synchronised)
    for name in ("replace", "rename", "link"):
        monkeypatch.setattr(os, name, moved(getattr(os, name)))
    return found


def in_order(calls: list[str], *wanted: str) -> bool:
    """Whether these calls were made, in this order, whatever was between them."""
    rest = iter(calls)
    return all(call in rest for call in wanted)


def test_a_change_is_on_disk_before_the_manifest_names_it(tmp_path: Path, calls: list[str]) -> None:
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        change.file("sub/deep/one").write_text("1")
        change.write("two", b"2")
        assert in_order(calls, "disk box/.new-two", "to box/two")
        calls.clear()
    assert calls == [
        "disk box/sub/deep/one",
        "disk box/two",
        "disk box/sub/deep",
        "disk box/sub",
        f"disk box/.new-{MANIFEST}",
        f"to box/{MANIFEST}",
        "disk box",
    ]


def test_what_was_on_disk_is_not_waited_for_again(tmp_path: Path, calls: list[str]) -> None:
    make(tmp_path / "box", one="1")
    calls.clear()
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        change.file("two").write_text("2")
    assert "disk box/one" not in calls and "disk box/two" in calls


@pytest.mark.parametrize("before", ["nothing", "a box"])
def test_a_new_folder_and_all_in_it_are_on_disk_before_it_appears(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setattr("visir.storage.scratch.exchange", lambda first, second: False)
    target = tmp_path / "box"
    if before == "a box":
        make(target, old="0")
    calls.clear()
    with new_folder(target, BOX, replace=True) as change:
        change.file("sub/one").write_text("1")
        new = change.folder.relative_to(tmp_path).as_posix()
    assert in_order(calls, f"disk {new}/sub/one", f"to {new}/{MANIFEST}", f"disk {new}/sub", "to box", "disk .")
    assert f"disk {new}" in calls[: calls.index("to box")] and tree(target) == {"sub/one": b"1"}


def test_a_folder_that_is_filled_counts_when_its_files_are_there(tmp_path: Path, calls: list[str]) -> None:
    (tmp_path / "box").mkdir()
    make(tmp_path / "box", one="1")
    assert in_order(calls, "to box/one", f"to box/{MANIFEST}", "disk box") and calls[-1] == "disk box"
    assert any(call.startswith("disk box/.visir") and call.endswith("/one") for call in calls)


@pytest.mark.parametrize("replace", [False, True])
def test_a_new_file_is_on_disk_before_it_takes_its_name(tmp_path: Path, calls: list[str], replace: bool) -> None:
    (tmp_path / "run.json").write_text("{}") if replace else None
    with new_file(tmp_path / "run.json", replace=replace) as path:
        path.write_text("[]")
    assert in_order(calls, f"disk {path.relative_to(tmp_path).as_posix()}", "to run.json", "disk .")


def test_a_file_that_all_see_is_on_disk_before_it_appears(tmp_path: Path, calls: list[str]) -> None:
    (tmp_path / "local").write_text("part")
    assert SharedFolder(tmp_path / "shared").publish(tmp_path / "local", "parts/1", "me")
    assert in_order(calls, "disk shared/parts/.new-me", "to shared/parts/1")


def test_what_is_about_to_be_done_elsewhere_is_written_down_first(tmp_path: Path, calls: list[str]) -> None:
    with claims.Claims.take(tmp_path, busy=BUSY) as log:
        log.note(swap="box")
        assert calls == [f"disk {LOG}"]


def test_scores_are_on_disk_when_they_are_flushed(tmp_path: Path, calls: list[str]) -> None:
    card = EncoderCard("by hand", "example", revision="1")
    keys = np.array([1, 2], np.uint64)
    with pair_store(card, tmp_path) as store:
        store.append(keys, keys, np.array([0.25, 0.5], np.float32))
        calls.clear()
        store.flush()
        assert [call.rpartition("/")[2] for call in calls] == ["pairs.bin"]
        store.flush()
        assert len(calls) == 1
    with pair_store(card, tmp_path) as store:
        assert store.find(keys, keys).tolist() == [0.25, 0.5]


def test_a_folder_that_may_not_be_read_stops_nothing_and_a_file_does(tmp_path: Path, monkeypatch: Any) -> None:
    def refused(path: Any, flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "open", refused)
    to_disk(tmp_path)
    with pytest.raises(PermissionError):
        to_disk(tmp_path / "file")


# What a writer leaves, and whose it is


def test_who_may_read_a_folder_may_read_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box").chmod(0o755)
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        change.file("one").write_text("1")
        (tmp_path / "box" / "one").chmod(0o600)  # as some libraries write
    modes = {name: (tmp_path / "box" / name).stat().st_mode & 0o777 for name in ("one", MANIFEST)}
    assert modes == {"one": 0o644, MANIFEST: 0o644}


def test_what_a_killed_writer_left_in_an_entry_goes_when_it_is_found(tmp_path: Path) -> None:
    store = ContentStore(BOX, tmp_path)
    with store.writing("a" * 32, waiting="wait") as change:
        change.file("one").write_text("1")
    entry = store.path("a" * 32)
    with claims.Claims.take(entry, busy=BUSY) as log:
        log.add("two")
        (entry / "two").write_text("begun")
    assert store.find("a" * 32) is not None
    assert tree(entry) == {"one": b"1"} and not (entry / LOG).exists()


def test_what_another_user_left_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    with claims.Claims.take(left, busy=BUSY) as log:
        log.add("part")
        (left / "part").write_text("begun")
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert sweep(tmp_path) == [] and (left / "part").is_file()
    monkeypatch.setattr(os, "getuid", lambda: user)
    assert sweep(tmp_path) == [] and not left.exists()


# Writers at once


def test_a_folder_that_another_writer_begins_is_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause between the looks at the log and at the folder: another writer begins, and ends, its file there."""
    ready, go_on, faults = threading.Event(), threading.Event(), list[BaseException]()

    def paused(folder: Path) -> list[str]:
        if threading.current_thread() is not threading.main_thread() and not ready.is_set():
            ready.set()
            assert go_on.wait(10)
        return files_below(folder)

    monkeypatch.setattr("visir.storage.claims.files_below", paused)
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / LOG).touch()

    def second() -> None:
        try:
            with changing(tmp_path / "box", BOX, busy="wait") as change:
                change.file("part-2").write_text("2")
        except FolderError as fault:
            faults.append(fault)

    other = threading.Thread(target=second)
    other.start()
    assert ready.wait(10)
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        change.file("part-1").write_text("1")
        go_on.set()  # part-1 is begun, and counts for nothing yet
        while not _waits(other):
            time.sleep(0.001)
    other.join(10)
    assert faults == [] and tree(tmp_path / "box") == {"part-1": b"1", "part-2": b"2"}


def _waits(thread: threading.Thread) -> bool:
    """Whether a thread has come to the lock, or has ended."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "hold":
            return True
        frame = frame.f_back
    return not thread.is_alive()
