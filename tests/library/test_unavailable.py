"""Pictures that are away and not gone, folders that cannot be read, links to themselves, and watching on."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from library_toys import draw

from refusals import refused
from visir.collections import open_collection
from visir.collections.readers import locate
from visir.collections.streams import InputFiles
from visir.errors import CollectionError
from visir.library.layout import LibraryError
from visir.library.snapshot import LibrarySnapshot
from visir.library.updating import update
from visir.library.watch import _folders, watch


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Photos 0 to 5, the odd ones in a subfolder, and a library of them."""
    draw(tmp_path / "photos", range(6))
    update(tmp_path / "photos", tmp_path / "library", model="pixels")
    return tmp_path


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A folder on another disk than the temporary ones."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("there is no second file system here")
    made = Path(tempfile.mkdtemp(dir=shared))
    yield made
    shutil.rmtree(made)


def files(library: Path) -> set[str]:
    with LibrarySnapshot.open(library) as opened:
        return {path for (path,) in opened.database.rows("SELECT path FROM files")}


def test_a_link_to_itself_is_passed_over_and_said(place: Path) -> None:
    (place / "photos" / "self.png").symlink_to("self.png")
    (place / "photos" / "odd" / "round").symlink_to("round")
    unread: dict[str, str] = {}
    assert len(list(locate.walk(place / "photos", unread=unread))) == 6
    assert unread == {one: os.strerror(errno.ELOOP) for one in ("odd/round", "self.png")}
    assert "2 passed over that cannot be read: odd/round (" in open_collection(place / "photos").source
    (place / "photos" / "0.png").unlink()
    assert update(None, place / "library").deleted == 1  # the library is not frozen
    assert len(files(place / "library")) == 5


def _refused(folder: str, why: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading this folder fails, as it does for a user who may not (tests may run as root), or on a failing disk."""
    real = os.scandir

    def scandir(path: object = ".") -> object:
        if str(path).endswith(folder):
            raise OSError(why, os.strerror(why), str(path))
        return real(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", scandir)


@pytest.mark.parametrize("why", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ENOTCONN])
def test_photos_of_a_folder_that_cannot_be_read_are_kept(
    place: Path, why: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "photos" / "0.png").unlink()
    with monkeypatch.context() as patch:
        _refused("photos/odd", why, patch)
        did = update(None, place / "library")
        assert (did.deleted, dict(did.unavailable)) == (1, {"odd": os.strerror(why)})
        assert "1 passed over" in open_collection(place / "photos").source
        assert update(None, place / "library").same
        _refused("photos", why, patch)
        with refused(CollectionError, code="cannot-looked"):
            open_collection(f"photos:{place / 'photos'}")
    assert len(files(place / "library")) == 5
    shutil.rmtree(place / "photos" / "odd")
    assert update(None, place / "library").deleted == 3  # gone is gone


def test_an_unmounted_disk_leaves_an_empty_folder(place: Path, other_disk: Path) -> None:
    """And a link that leads nowhere. Its photos are kept; those of a folder that was emptied are not."""
    usb, shelf = place / "photos" / "usb", place / "photos" / "shelf"
    draw(other_disk, range(6, 10))
    usb.symlink_to(other_disk)  # as a mount looks to who only asks for its files and its device
    shutil.copytree(place / "photos" / "odd", shelf)
    assert update(None, place / "library").items == 10
    usb.unlink()
    usb.mkdir()
    for path in shelf.iterdir():
        path.unlink()
    for _ in range(2):
        did = update(None, place / "library")
        assert did.items == 10 and dict(did.unavailable) == dict.fromkeys(("usb", "usb/odd"), "its disk is not there")
    assert not [path for path in files(place / "library") if path.startswith("shelf")]
    usb.rmdir()
    usb.symlink_to(place / "nowhere")
    assert set(update(None, place / "library").unavailable.values()) == {"a link that leads nowhere"}
    usb.unlink()
    usb.symlink_to(other_disk)
    did = update(None, place / "library")
    assert did.same and not did.unavailable and did.items == 10
    usb.unlink()
    assert update(None, place / "library").items == 6  # without link or folder nothing says that it may come back


def test_a_picture_behind_a_link_that_leads_nowhere_is_said_and_kept(place: Path) -> None:
    """As git-annex leaves pictures that are not fetched; links to single files on a disk that is away."""
    link, target = place / "photos" / "linked.png", place / "elsewhere" / "linked.png"
    link.symlink_to(target)
    assert "1 passed over that cannot be read: linked.png (a link" in open_collection(place / "photos").source
    assert update(None, place / "library").items == 6
    draw(place / "elsewhere", [7])
    next((place / "elsewhere").rglob("*.png")).rename(target)
    assert update(None, place / "library").items == 7
    target.rename(place / "away.png")
    for _ in range(2):
        did = update(None, place / "library")
        assert did.items == 7 and dict(did.unavailable) == {"linked.png": "a link that leads nowhere"}
    (place / "away.png").rename(target)
    did = update(None, place / "library")
    assert did.same and not did.unavailable
    link.unlink()
    assert update(None, place / "library").items == 6


def until(true: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < 60, "it did not come true"
        time.sleep(0.05)


def test_watching_survives_faults_and_a_place_that_is_away(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("watchfiles")
    monkeypatch.setattr("visir.library.watch.LOOK", 0.2)
    monkeypatch.setattr("visir.library.watch.FIRST", 0.2)
    photos, library, said, stop = place / "photos", place / "library", [], threading.Event()
    faults = [ZeroDivisionError("nobody expected this"), OSError(errno.ENOSPC, "No space left on device")]

    def changed() -> None:
        if faults:
            raise faults.pop()
        update(None, library)

    thread = threading.Thread(
        target=watch, args=(library, changed), kwargs={"settle": 0.1, "stop": stop, "callback": said.append}
    )
    thread.start()
    try:
        time.sleep(0.5)
        (photos / "0.png").unlink()
        until(lambda: len(files(library)) == 5)  # after both faults, without a further change
        assert len(said) == 2 and "nobody expected this" in said[1]
        photos.rename(place / "away")
        until(lambda: any("is away" in one for one in said))
        photos.mkdir()  # the empty folder that an unmounted disk leaves
        until(lambda: any("is empty" in one for one in said))
        assert len(files(library)) == 5
        photos.rmdir()
        (place / "away").rename(photos)
        time.sleep(1)
        (photos / "2.png").unlink()
        until(lambda: len(files(library)) == 4)
        assert len(said) == len(set(said)) or len(said) < 8  # each said once while it lasts
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


@pytest.mark.skipif(not Path("/proc/self/mountinfo").is_file(), reason="this system draws no files of itself")
def test_a_link_to_what_the_system_draws_is_not_followed(place: Path) -> None:
    """There is no end to it, and by /proc/self/root the whole disk is in it."""
    (place / "photos" / "odd" / "proc").symlink_to("/proc")
    (place / "photos" / "me").symlink_to("/proc/self/task")
    unread, folders = dict[str, str](), list[str]()
    assert len(list(locate.walk(place / "photos", unread=unread, folders=folders))) == 6
    assert unread.keys() == {"odd/proc", "me"} and folders == [str(place / "photos"), str(place / "photos" / "odd")]
    assert _folders(place / "photos", place / "library") == folders
    report = update(None, place / "library")
    assert report.items == 6 and "2 passed over that cannot be read: me (a link to what" in report.remarks[0]


def test_watching_goes_on_in_folders_that_are_new(place: Path, other_disk: Path) -> None:
    pytest.importorskip("watchfiles")
    photos, library, stop = place / "photos", place / "library", threading.Event()
    draw(other_disk, [6])
    (photos / "usb").symlink_to(other_disk)
    (photos / "proc").symlink_to("/proc")
    thread = threading.Thread(
        target=watch, args=(library, lambda: update(None, library)), kwargs={"settle": 0.1, "stop": stop}
    )
    thread.start()
    try:
        until(lambda: len(files(library)) == 7)
        began = time.process_time()
        time.sleep(2)
        assert time.process_time() - began < 0.5
        draw(other_disk, [8])  # through a link
        until(lambda: len(files(library)) == 8)
        (photos / "new" / "deep").mkdir(parents=True)
        time.sleep(1)
        shutil.copy(photos / "0.png", photos / "new" / "deep" / "again.png")
        until(lambda: "new/deep/again.png" in files(library))
        shutil.copy(photos / "0.png", photos / "new" / "more.png")
        until(lambda: "new/more.png" in files(library))
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


@pytest.mark.skipif(os.name == "nt", reason="its names are longer")
def test_a_path_deeper_than_the_system_allows_is_told(place: Path) -> None:
    here = Path.cwd()
    try:
        os.chdir(place / "photos")
        for _ in range(25):
            Path("d" * 200).mkdir()
            os.chdir("d" * 200)
        (Path("deep.png")).write_bytes((place / "photos" / "0.png").read_bytes())
    finally:
        os.chdir(here)
    report = update(None, place / "library")
    (remark,) = report.remarks
    assert report.items == 6 and remark.startswith("1 passed over") and "File name too long" in remark
    assert len(remark) < 250
    with refused(CollectionError, code="cannot-looked"):
        InputFiles(place / "photos")


def test_a_place_that_is_gone_or_empty_is_told_with_the_ways_on(place: Path) -> None:
    photos, library = place / "photos", place / "library"
    before = files(library)
    photos.rename(place / "moved")
    for away in ("is not there", "is empty"):
        with pytest.raises(LibraryError, match=f"{photos}: {away}: moved, .* as it was.\n  → mount the disk.* --out"):
            update(None, library)
        assert files(library) == before
        photos.mkdir(exist_ok=True)
    with refused(LibraryError, code="empty-folder"):
        update(photos, library)
    assert update(place / "moved", library).unchanged == 6  # as the hint says
    assert files(library) == before
