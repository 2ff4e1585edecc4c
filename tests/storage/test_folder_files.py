"""Files, scratch folders, stores, links and names in folders that visir makes."""

import os
import threading
import time
from pathlib import Path

import pytest
from folder_toys import BOX, tree

from refusals import refused
from visir.errors import VisirError
from visir.storage import (
    Cells,
    ContentStore,
    FolderError,
    FolderKind,
    Manifest,
    Scratch,
    changing,
    new_file,
    new_folder,
    sweep,
    write_new,
)
from visir.storage.claims import Claims
from visir.storage.disk import files_below
from visir.storage.manifest import LOG


def test_a_file_of_the_users_is_replaced_only_when_asked(tmp_path: Path) -> None:
    write_new(tmp_path / "run.trec", b"1")
    with refused(FolderError, code="exists-already") as caught:
        write_new(tmp_path / "run.trec", b"2")
    assert "--replace" in caught.value.hint
    assert (tmp_path / "run.trec").read_bytes() == b"1"
    write_new(tmp_path / "run.trec", b"2", replace=True)
    assert (tmp_path / "run.trec").read_bytes() == b"2"
    assert [path.name for path in tmp_path.iterdir()] == ["run.trec"]


def test_a_file_that_comes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    with refused(FolderError, code="exists-already"), new_file(tmp_path / "run.trec") as path:
        path.write_bytes(b"mine")
        (tmp_path / "run.trec").write_text("theirs")
    assert tree(tmp_path) == {"run.trec": b"theirs"}


def test_links_and_folders_are_no_files_to_write(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name, why in (("link", "symbolic link"), ("folder", "is a folder")):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(FolderError, match=why):
            write_new(tmp_path / name, b"2", replace=True)
    assert (tmp_path / "real").read_text() == "mine"


# Scratch


def test_scratch_keeps_what_it_did_not_claim(tmp_path: Path) -> None:
    with Scratch.beside(tmp_path / "out") as scratch:
        scratch.file("mine").write_text("1")
        scratch.folder("engine", "spill_*").joinpath("spill_1").write_text("1")
        (scratch.path / "engine/thesis.tex").write_text("yours")
    assert list(tree(scratch.path)) == ["engine/thesis.tex"]


def test_a_live_scratch_is_not_swept(tmp_path: Path) -> None:
    with Scratch.beside(tmp_path / "out") as scratch:
        path = scratch.file("mine")
        path.write_text("1")
        assert sweep(tmp_path) == []
        assert path.is_file()
    assert list(tmp_path.iterdir()) == []


def test_what_only_looks_like_scratch_stays(tmp_path: Path) -> None:
    for name in (".visir-out-12345678", ".visir-mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "photo.jpg").write_text("mine")
    (tmp_path / ".visir-mine" / LOG).write_text("photo.jpg\n")
    sweep(tmp_path)
    assert len(files_below(tmp_path)) == 3


# Stores


def test_a_file_that_is_known_by_its_size_is_read_when_it_was_changed_later(tmp_path: Path) -> None:
    store, key = ContentStore(BOX, tmp_path), "ab" * 16
    with store.writing(key, waiting="wait") as change:
        change.file("data").write_text("1")
    data, manifest = store.path(key) / "data", store.path(key) / "visir.json"
    assert data.stat().st_mtime_ns <= manifest.stat().st_mtime_ns
    later = manifest.stat().st_mtime_ns + 10**9
    os.utime(data, ns=(later, later))  # as a copied cache has it: the content is the same
    assert store.find(key, hashed=lambda name: False) is not None
    assert manifest.stat().st_mtime_ns == later  # and is not read again
    data.write_text("2")
    os.utime(data, ns=(later + 1, later + 1))
    with pytest.warns(UserWarning, match="damaged .data is not as it was written"):
        assert store.find(key, hashed=lambda name: False) is None


def test_a_store_finds_writes_and_puts_damaged_entries_aside(tmp_path: Path) -> None:
    store, key = ContentStore(BOX, tmp_path), "ab" * 16
    assert store.find(key) is None
    with store.writing(key, waiting="wait") as change:
        change.file("data").write_text("1")
        assert store.find(key) is None
    assert store.find(key) is not None
    (store.path(key) / "data").write_text("2")
    with pytest.warns(UserWarning, match="damaged .data is not as it was written"):
        assert store.find(key) is None
    assert (store.path(key).with_name(f"{key}.damaged-1") / "data").read_text() == "2"
    with store.writing(key, waiting="wait") as change:
        change.file("data").write_text("1")
    assert store.find(key) is not None
    store.remove(key)
    assert not store.path(key).exists()


def test_a_cell_counts_when_it_is_listed(tmp_path: Path) -> None:
    """What a killed writer, or somebody else, left beside it is no finished cell."""
    cells = Cells(tmp_path, BOX)
    assert cells.load("whole.json") is None and cells.names() == []
    cells.put({"whole.json": b'{"at": 1}', "whole.npy": b"-"})
    (tmp_path / "half.json").write_bytes(b'{"at": 2}')
    assert cells.load("whole.json") == {"at": 1} and cells.load("half.json") is None
    assert cells.names() == ["whole.json", "whole.npy"]
    (tmp_path / "whole.json").unlink()  # to have it made again
    assert cells.load("whole.json") is None and cells.names() == ["whole.npy"]


def test_errors_are_those_of_the_kind(tmp_path: Path) -> None:
    class BoxError(VisirError):
        pass

    with pytest.raises(BoxError, match="no such folder"):
        Manifest.read(tmp_path / "gone", FolderKind("box", "a box", error=BoxError))


def test_names_that_visir_would_take_for_itself_stay_the_users(tmp_path: Path) -> None:
    """A file, or a link to one, under the very name that a new file has before it takes its place."""
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    with new_folder(tmp_path / "box", BOX) as change:
        change.write("data", b"1")
    for name in (".new-visir.json", ".new-data", ".new1-data"):
        (tmp_path / "box" / name).write_text("mine")
    (tmp_path / "box" / ".new1-visir.json").symlink_to(outside)
    for value in (b"2", b"3"):
        with changing(tmp_path / "box", BOX, busy="wait") as change:
            change.write("data", value)
    assert (tmp_path / "box" / "data").read_bytes() == b"3" and Manifest.read(tmp_path / "box").generation == 3
    for name in (".new-visir.json", ".new-data", ".new1-data"):
        assert (tmp_path / "box" / name).read_text() == "mine"
    assert (tmp_path / "box" / ".new1-visir.json").is_symlink() and outside.read_text() == "mine"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """The user has put links into a folder of visir's: at a file's name, and at that of a subfolder."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("mine")
    with new_folder(tmp_path / "box", BOX) as change:
        change.write("data", b"1")
    (tmp_path / "box" / "part").symlink_to(tmp_path / "mine", target_is_directory=True)
    (tmp_path / "box" / "broken").symlink_to(tmp_path / "nothing")
    for name in ("part/x", "part/new", "broken"):
        with (
            refused(FolderError, code="already-visir-not-write"),
            changing(tmp_path / "box", BOX, busy="wait") as change,
        ):
            change.file(name).write_bytes(b"2")
        with (
            refused(FolderError, code="already-visir-not-write"),
            changing(tmp_path / "box", BOX, busy="wait") as change,
        ):
            change.write(name, b"2")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["x"]
    assert (tmp_path / "mine" / "x").read_text() == "mine" and not (tmp_path / "nothing").exists()


def test_a_file_is_written_again_and_again_through_a_subfolder(tmp_path: Path) -> None:
    with changing(tmp_path / "box", BOX, busy="wait") as change:
        change.subfolder("saving", "*.tmp")
        for value in (b"1", b"2", b"3"):
            with change.replacing("state", counts=False, through="saving") as path:
                path.write_bytes(value)
        assert (tmp_path / "box" / "state").read_bytes() == b"3"
        change.write("data", b"1")
    assert sorted(path.name for path in (tmp_path / "box").iterdir()) == ["data", "visir.json"]


def test_what_a_writer_left_after_its_commit_goes_with_the_next_that_resumes(tmp_path: Path) -> None:
    """Killed between the manifest and the removal of its notes; the next has nothing to do."""
    box = tmp_path / "box"
    with changing(box, BOX, busy="wait", resume=True) as change:
        change.write("data", b"1")
    with Claims.take(box, busy="wait") as claims:
        claims.add("journal")
        (box / "journal").write_text("half")
    with changing(box, BOX, busy="wait", resume=True):
        pass
    assert sorted(path.name for path in box.iterdir()) == ["data", "visir.json"]


@pytest.mark.parametrize("name", ["*", "photo?", "**/*"])
def test_a_name_with_stars_is_a_name_and_no_pattern(tmp_path: Path, name: str) -> None:
    """Dropping such a file, or being killed over it, removes that file and nothing that it would match."""
    box = tmp_path / "box"
    with changing(box, BOX, busy="wait") as change:
        change.write(name, b"1")
        change.write("data", b"2")
    (box / "photo1").write_text("mine")
    (box / "mine").mkdir()
    (box / "mine" / "photo").write_text("mine")
    with changing(box, BOX, busy="wait") as change:
        change.drop(name)
        change.commit()
    assert tree(box) == {"data": b"2", "photo1": b"mine", "mine/photo": b"mine"}
    with Claims.take(box, busy="wait") as claims:  # killed over it
        claims.add(name)
        (box / name).parent.mkdir(exist_ok=True)
        (box / name).write_text("half")
    with changing(box, BOX, busy="wait"):
        pass
    assert tree(box) == {"data": b"2", "photo1": b"mine", "mine/photo": b"mine"}


def test_a_pattern_counts_in_its_own_folder_alone(tmp_path: Path) -> None:
    """The folder's name may itself have a star."""
    with Claims.take(tmp_path, busy="wait") as claims:
        claims.add_patterns("a*", "spill_?/**/*.tmp")
        claims.add("a*/spill_1/x/y.tmp")  # as a name too: the log has both
    with Claims.take(tmp_path, busy="wait") as claims:
        assert len(claims) == 2
        assert "a*/spill_2/x/y.tmp" in claims and "a*/spill_2/y.tmp" in claims
        assert "ab/spill_2/y.tmp" not in claims and "spill_2/y.tmp" not in claims
        assert claims.facts() == []


def test_scratch_folders_are_made_while_others_look_for_dead_ones(tmp_path: Path) -> None:
    """A new one is there for a moment before its log is locked: whoever sweeps then takes it for a dead writer's."""
    until = time.monotonic() + 1.5
    faults: list[BaseException] = []

    def work() -> None:
        while time.monotonic() < until and not faults:
            try:
                with Scratch.beside(tmp_path / "run") as scratch:
                    scratch.file("a").write_bytes(b"1")
            except BaseException as fault:
                faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []
