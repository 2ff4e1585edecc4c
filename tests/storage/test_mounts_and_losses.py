"""Places that cannot be moved, disks that refuse at the end, records that are lost, and what must be on disk first."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from folder_toys import BOX, BUSY, make, tree

from refusals import refused
from visir.storage import (
    MANIFEST,
    ContentStore,
    FileRecord,
    FolderError,
    Manifest,
    SharedFolder,
    changing,
    claims,
    new_folder,
    remove_folder,
)
from visir.storage.disk import files_below, remove_files
from visir.storage.manifest import LOG
from visir.storage.scratch import check_new_file, check_new_folder, new_file, write_new

# Folders and files that are mounted


@pytest.fixture
def unmovable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path, int], None]]:
    """Makes renames to or from a path fail as the system does where something is mounted there."""
    paths: dict[str, int] = {}

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
        def renamed(source: Any, target: Any, **options: Any) -> Any:
            for path in (source, target):
                if (number := paths.get(os.path.realpath(path))) is not None:
                    raise OSError(number, os.strerror(number), os.fspath(path))
            return call(source, target, **options)

        return renamed

    monkeypatch.setattr(os, "rename", refusing(os.rename))
    monkeypatch.setattr(os, "replace", refusing(os.replace))
    monkeypatch.setattr("visir.storage.scratch.exchange", lambda first, second: False)
    yield lambda path, number: paths.update({str(path): number})


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV, errno.EPERM])
def test_a_folder_that_cannot_be_moved_is_filled(
    tmp_path: Path, unmovable: Callable[[Path, int], None], number: int
) -> None:
    target = tmp_path / "box"
    target.mkdir(mode=0o750)
    unmovable(target, number)
    make(target, one="1", two="2")
    assert tree(target) == {"one": b"1", "two": b"2"} and Manifest.read(target, BOX).faults(target) == []
    assert sorted(path.name for path in target.iterdir()) == ["one", "two", MANIFEST]
    assert target.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["box"]


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV, errno.EPERM])
def test_replacing_in_a_folder_that_cannot_be_moved_keeps_what_is_the_users(
    tmp_path: Path, unmovable: Callable[[Path, int], None], number: int
) -> None:
    target = tmp_path / "box"
    make(target, one="1", two="old")
    (target / "mine").write_text("mine")
    (target / "three").write_text("mine, and called as the new one's")
    (tmp_path / "outside").mkdir()
    (target / "parts").symlink_to(tmp_path / "outside")
    unmovable(target, number)
    with (
        pytest.warns(UserWarning, match=r"old-1: visir did not write it"),
        new_folder(target, BOX, replace=True) as new,
    ):
        for name in ("two", "three", "parts/four"):
            new.file(name).write_text("new")
    assert (target / "parts.old-1").readlink() == tmp_path / "outside"
    (target / "parts.old-1").unlink()
    assert tree(target) == {
        "mine": b"mine",
        "parts/four": b"new",
        "three": b"new",
        "three.old-1": b"mine, and called as the new one's",
        "two": b"new",
    }
    assert [*(tmp_path / "outside").iterdir()] == []
    assert Manifest.read(target, BOX).faults(target) == []


def test_a_filling_that_was_killed_is_finished_by_the_next_writer(
    tmp_path: Path, unmovable: Callable[[Path, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1, 6):
        target = tmp_path / f"box-{at}"
        make(target, one="1", two="old")
        (target / "mine").write_text("mine")
        unmovable(target, errno.EBUSY)
        child = os.fork()
        if child == 0:
            calls = 0

            def killed(self: Path, place: Path, *, target: Path = target, at: int = at) -> Path:
                nonlocal calls
                calls += target in (place.parent, self.parent)
                if calls == at + 1:
                    os._exit(9)
                os.rename(self, place)  # noqa: PTH104 - what is patched is Path's
                return place

            monkeypatch.setattr(Path, "rename", killed)
            with new_folder(target, BOX, replace=True) as new:
                for name in ("two", "three"):
                    new.file(name).write_text("new")
            os._exit(0)
        os.waitpid(child, 0)
        make(tmp_path / "neighbour-of" / "x")
        with refused(FolderError, code="exists-already-folder-kind"):
            make(target, other="")
        make(tmp_path / f"next-{at}", a="")  # the next writer beside it
        manifest = Manifest.read(target, BOX)
        assert manifest.faults(target) == []
        assert sorted(manifest.files) in (["one", "two"], ["three", "two"])
        assert (target / "mine").read_text() == "mine"
        shutil.rmtree(tmp_path / "neighbour-of")


def test_what_is_finished_is_kept_where_it_can_take_no_place(
    tmp_path: Path, unmovable: Callable[[Path, int], None]
) -> None:
    unmovable(tmp_path / "box", errno.EIO)
    with refused(FolderError, "Input/output error", code="cannot-put") as caught:
        make(tmp_path / "box", one="1")
    place = Path(caught.value.message.partition("all of it is in ")[2].rstrip("."))
    assert tree(place) == {"one": b"1"} and Manifest.read(place, BOX).faults(place) == []
    make(tmp_path / "neighbour", one="1")  # the next writer clears nothing of it away
    assert tree(place) == {"one": b"1"}


def test_a_file_that_is_mounted_is_written_over(tmp_path: Path, unmovable: Callable[[Path, int], None]) -> None:
    target = tmp_path / "run.json"
    target.write_text("what was there, and was longer")
    inode = target.stat().st_ino
    unmovable(target, errno.EBUSY)
    write_new(target, b"new", replace=True)
    assert target.read_text() == "new" and target.stat().st_ino == inode
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_file_that_can_take_no_place_is_kept(tmp_path: Path, unmovable: Callable[[Path, int], None]) -> None:
    target = tmp_path / "run.json"
    target.write_text("old")
    unmovable(target, errno.EIO)
    with refused(FolderError, code="cannot-put") as caught:
        write_new(target, b"new", replace=True)
    place = Path(caught.value.message.partition("all of it is in ")[2].rstrip("."))
    assert place.read_text() == "new" and target.read_text() == "old"


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0o555)
    if os.access(tmp_path / "closed", os.W_OK):  # root may write everywhere
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / "closed")
    for check in (
        lambda: check_new_folder(tmp_path / "closed" / "box", BOX),
        lambda: check_new_file(tmp_path / "closed" / "run"),
    ):
        with refused(FolderError, "closed", code="cannot-written"):
            check()


MOUNTED = """
set -e
mount -t tmpfs tmpfs {root}/disk
mount --bind {root}/host {root}/bound
mount --bind {root}/host.json {root}/run.json
mount -t tmpfs -o ro tmpfs {root}/closed
cd {root}
"$@"
"""


def test_real_mounts(tmp_path: Path) -> None:
    for name in ("disk", "bound", "host", "closed"):
        (tmp_path / name).mkdir()
    for name in ("host.json", "run.json"):
        (tmp_path / name).write_text("old")
    mounting = ["unshare", "-m", "bash", "-c", MOUNTED.format(root=tmp_path), "-"]
    if shutil.which("unshare") is None or subprocess.run([*mounting, "true"], capture_output=True).returncode:
        pytest.skip("this user may mount nothing here")
    inner = Path(__file__).with_name("on_mounts.py")
    done = subprocess.run([*mounting, sys.executable, inner], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert tree(tmp_path / "host") == {"mine": b"mine", "two": b"2"}
    assert (tmp_path / "host.json").read_text() == "new"
    assert not [*tmp_path.glob(".visir*")]


# Records that are lost, or come while they are looked for


def test_a_folder_that_another_writer_begins_meanwhile_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two looks, at the log and at the folder, another writer begins its file."""
    (tmp_path / LOG).touch()
    listed = claims.files_below

    def slow(folder: Path) -> list[str]:
        names = listed(folder)
        _begin_a_file(tmp_path)
        return names

    monkeypatch.setattr(claims, "files_below", slow)
    assert claims.is_begun(tmp_path)
    monkeypatch.setattr(claims, "files_below", listed)
    read = Path.read_bytes

    def slow_read(path: Path) -> bytes:
        data = read(path)
        _begin_a_file(tmp_path, "part-2")
        return data

    for name in files_below(tmp_path):
        (tmp_path / name).unlink()
    (tmp_path / LOG).touch()
    monkeypatch.setattr(Path, "read_bytes", slow_read)
    assert claims.is_begun(tmp_path)


def _begin_a_file(folder: Path, name: str = "part-1") -> None:
    with claims.Claims.take(folder, busy=BUSY) as log:
        log.add(name)
        (folder / name).write_text("begun")


def test_an_entry_of_a_store_that_no_record_names_is_put_aside(tmp_path: Path) -> None:
    store = ContentStore(BOX, tmp_path)
    with pytest.raises(KeyboardInterrupt), store.writing("abcd", waiting="wait") as change:
        change.file("half").write_text("half")
        raise KeyboardInterrupt
    (store.path("abcd") / LOG).unlink()  # as a cleaner of temporary files does
    with pytest.warns(UserWarning, match=r"abcd\.damaged-1"), store.writing("abcd", waiting="wait") as change:
        change.file("whole").write_text("whole")
    assert store.find("abcd") is not None
    assert tree(store.path("abcd").with_name("abcd.damaged-1")) == {"half": b"half"}


def test_what_no_record_names_keeps_its_name(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1")
    (tmp_path / "box" / "part-2").mkdir()
    (tmp_path / "box" / "part-2" / "data").write_text("of a newer state, over which a backup was laid")
    (tmp_path / "box" / "work").mkdir()
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        assert change.free_number(2, "part-{}", "built-{}") == 3
        with pytest.warns(UserWarning, match="work: no record says"):
            assert change.work_folder("work").name == "work-2"
        assert change.work_folder("work").name == "work-2"
        (tmp_path / "box" / "work-2").mkdir()
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        assert change.works("work") == ["work-2"]
        (tmp_path / "box" / "work-2").rmdir()
        change.settle()
    assert sorted(path.name for path in (tmp_path / "box").iterdir()) == ["one", "part-2", MANIFEST, "work"]


def test_what_was_to_go_with_a_change_that_never_counted_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "box", one="1")
    (tmp_path / "box" / "thumbnail").write_text("known by another record")
    replace = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if target.name == MANIFEST:
            raise KeyboardInterrupt
        return replace(self, target)

    with (
        monkeypatch.context() as patch,
        pytest.raises(KeyboardInterrupt),
        changing(tmp_path / "box", BOX, busy=BUSY, resume=True) as change,
    ):
        patch.setattr(Path, "replace", killed)
        change.drop("one")
        change.commit({}, removing=["thumbnail"])
    with changing(tmp_path / "box", BOX, busy=BUSY, resume=True) as change:
        change.commit({"another": "change, of the same generation"})
    assert sorted(tree(tmp_path / "box")) == ["one", "thumbnail"]


def test_a_folder_that_is_made_again_after_a_killed_removal_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "box", one="1", two="2")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(claims.Claims, "remove_claimed", killed)
        remove_folder(tmp_path / "box")
    assert not (tmp_path / "box" / MANIFEST).exists()
    for _ in range(2):
        with changing(tmp_path / "box", BOX, busy=BUSY, resume=True) as change:
            if change.manifest.generation == 0:
                change.file("one").write_text("again")
    assert Manifest.read(tmp_path / "box", BOX).faults(tmp_path / "box") == []
    assert tree(tmp_path / "box") == {"one": b"again"}


# What must be on disk before something counts


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The calls of fsync, rename and link, in order, each with the name of what it is of."""
    calls: list[tuple[str, str]] = []
    fsync, replace, rename, link = os.fsync, os.replace, os.rename, os.link

    def synchronised(descriptor: int) -> None:
        calls.append(("fsync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        fsync(descriptor)

    def moved(call: Callable[..., Any]) -> Callable[..., Any]:
        def moving(source: Any, target: Any, **options: Any) -> Any:
            calls.append(("to", Path(target).name))
            return call(source, target, **options)

        return moving

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc")
    monkeypatch.setattr(os, "fsync", synchronised)
    for name, call in {"replace": replace, "rename": rename, "link": link}.items():
        monkeypatch.setattr(os, name, moved(call))
    return calls


def test_a_replaced_file_is_on_disk_before_it_takes_its_place(tmp_path: Path, recorded: list[tuple[str, str]]) -> None:
    make(tmp_path / "box", one="1")
    recorded.clear()
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        change.write("one", b"2")
        assert recorded == [("fsync", ".new-one"), ("to", "one")]


def test_every_file_is_on_disk_before_the_manifest_counts_and_the_folder_after(
    tmp_path: Path, recorded: list[tuple[str, str]]
) -> None:
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        change.file("one").write_text("1")
        change.file("two").write_text("2")
        recorded.clear()
        change.commit()
        counts = recorded.index(("to", MANIFEST))
        assert {("fsync", "one"), ("fsync", "two"), ("fsync", f".new-{MANIFEST}")} <= set(recorded[:counts])
        assert recorded[counts + 1] == ("fsync", "box")


def test_a_new_folder_and_a_new_file_are_on_disk_before_they_appear(
    tmp_path: Path, recorded: list[tuple[str, str]]
) -> None:
    make(tmp_path / "box", one="1")
    place = recorded.index(("to", "box"))
    assert {("fsync", "one"), ("fsync", "new"), ("fsync", f".new-{MANIFEST}")} <= set(recorded[:place])
    recorded.clear()
    with new_file(tmp_path / "run.json") as path:
        path.write_text("{}")
    assert recorded.index(("fsync", "new.json")) < recorded.index(("to", "run.json"))


def test_filled_folders_are_on_disk_before_the_manifest_counts(tmp_path: Path, recorded: list[tuple[str, str]]) -> None:
    (tmp_path / "box").mkdir()
    make(tmp_path / "box", one="1")
    assert recorded[-1] == ("fsync", "box")
    assert [call for call in recorded if call[0] == "to"][-2:] == [("to", "one"), ("to", MANIFEST)]


# What a manifest may name, who may make a folder, what a listing shows


@pytest.mark.parametrize("name", ["../photo.jpg", "/etc/passwd", "a/../../photo.jpg", ".."])
def test_a_manifest_that_names_what_lies_outside_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "photo.jpg").write_text("mine")
    (tmp_path / "box").mkdir()
    manifest = Manifest("box", files={name: FileRecord.of(tmp_path / "photo.jpg")})
    (tmp_path / "box" / MANIFEST).write_bytes(manifest.to_bytes())
    with pytest.raises(FolderError, match="no name below a folder"):
        Manifest.read(tmp_path / "box", BOX)
    assert (tmp_path / "photo.jpg").read_text() == "mine"


@pytest.mark.parametrize("there", [False, True])
def test_of_two_processes_one_makes_the_folder(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "box"
    if there:
        target.mkdir()
    with new_folder(target, BOX) as change:
        change.file("one").write_text("first")
        for _ in range(2):  # the refused one leaves nothing that lets the next through
            with refused(FolderError, code="another-process-making"):
                make(target, one="second")
    assert tree(target) == {"one": b"first"}


def test_a_file_is_listed_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SharedFolder(tmp_path)
    (tmp_path / "local").write_bytes(b"x" * 1000)
    seen: list[list[str]] = []
    copy = sys.modules["visir.storage.shared"]._copy

    def slowly(file: Path, path: Path) -> None:
        copy(file, path)
        seen.append(sorted(folder.listing("parts")))

    monkeypatch.setattr("visir.storage.shared._copy", slowly)
    assert folder.publish(tmp_path / "local", "parts/1", "me")
    assert seen == [[]] and sorted(folder.listing("parts")) == ["1"]


@pytest.mark.parametrize("depth", ["sub", "sub/deep"])
def test_a_link_that_comes_between_the_look_and_the_removal_is_not_followed(tmp_path: Path, depth: str) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / depth).mkdir(parents=True)
    (inside / depth / "photo.jpg").write_text("to go")
    outside.mkdir()
    (outside / "photo.jpg").write_text("mine")
    (outside / "deep").mkdir()
    (outside / "deep" / "photo.jpg").write_text("mine")

    def exchanged(name: str) -> bool:
        (inside / "sub").rename(tmp_path / "away")
        (inside / "sub").symlink_to(outside, target_is_directory=True)
        return True

    assert remove_files(inside, [f"{depth}/photo.jpg"], only=exchanged) == [f"{depth}/photo.jpg"]
    assert tree(outside) == {"deep/photo.jpg": b"mine", "photo.jpg": b"mine"}


def test_many_processes_make_one_folder_at_once(tmp_path: Path) -> None:
    caught: list[str] = []

    def writer(number: int) -> None:
        try:
            make(tmp_path / "box", one=str(number))
        except FolderError as fault:
            caught.append(fault.message)

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caught) <= 8
    assert not (tmp_path / "box").exists() or Manifest.read(tmp_path / "box").faults(tmp_path / "box") == []
    assert [*tmp_path.glob(".visir*")] == []
