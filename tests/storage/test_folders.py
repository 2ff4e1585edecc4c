"""Folders that visir makes: what counts, what survives, and what is never touched."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from visir.errors import VisirError
from visir.storage import (
    MANIFEST,
    ContentStore,
    FolderError,
    FolderKind,
    Manifest,
    Scratch,
    changing,
    new_file,
    new_folder,
    remove_folder,
    sweep,
    write_new,
)
from visir.storage.claims import Claims
from visir.storage.manifest import LOG
from visir.storage.removal import files_below, remove_files

BOX = FolderKind("box", "a box", remedy="make a box")
LID = FolderKind("lid", "a lid")
BUSY = FolderError("busy")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content, but for visir's own manifest and log."""
    return {
        name: (folder / name).read_bytes() for name in files_below(folder) if Path(name).name not in (MANIFEST, LOG)
    }


def make(folder: Path, **files: str) -> None:
    with new_folder(folder, BOX) as change:
        for name, text in files.items():
            change.file(name).write_text(text)


# Removal


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "photo.jpg").write_text("mine")
    (inside / "folder").symlink_to(outside, target_is_directory=True)
    (inside / "file").symlink_to(outside / "photo.jpg")
    assert remove_files(inside, ["folder/photo.jpg", "file", "gone"]) == ["folder/photo.jpg", "file"]
    assert (outside / "photo.jpg").read_text() == "mine"
    assert (inside / "file").is_symlink()


@pytest.mark.parametrize("name", ["../photo.jpg", "/etc/passwd", "a/../../photo.jpg", ""])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no name below"):
        remove_files(tmp_path, [name])


def test_removing_takes_folders_that_are_empty_and_no_others(tmp_path: Path) -> None:
    for name in ("a/b/mine", "a/yours", "c/mine"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert remove_files(tmp_path, ["a/b/mine", "c/mine"]) == []
    assert files_below(tmp_path) == ["a/yours"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


# New folders


def test_a_new_folder_appears_complete(tmp_path: Path) -> None:
    target = tmp_path / "box"
    with new_folder(target, BOX) as change:
        change.file("parts/one").write_text("1")
        change.file("notes", counts=False).write_text("not to stay")
        change.content = {"size": 3}
        assert not target.exists()
    manifest = Manifest.read(target, BOX)
    assert (manifest.content, manifest.generation, sorted(manifest.files)) == ({"size": 3}, 1, ["parts/one"])
    assert manifest.faults(target) == []
    assert tree(target) == {"parts/one": b"1"}
    assert [path.name for path in tmp_path.iterdir()] == ["box"]  # and nothing beside it


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_folder(tmp_path / "box", BOX) as change:
        change.file("one").write_text("1")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_of_the_users_is_refused(tmp_path: Path, replace: bool) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/work").mkdir()
    (tmp_path / "photos/work/thesis.tex").write_text("mine")
    with (
        pytest.raises(FolderError, match=r"files that visir did not write \(work/thesis.tex\)"),
        new_folder(tmp_path / "photos", BOX, replace=replace),
    ):
        pass
    assert tree(tmp_path) == {"photos/work/thesis.tex": b"mine"}


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    make(tmp_path / "box", one="1")
    assert tree(tmp_path / "box") == {"one": b"1"}


def test_replacing_wants_force_and_the_same_kind(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1")
    with pytest.raises(FolderError, match="exists already") as refused, new_folder(tmp_path / "box", BOX):
        pass
    assert "--force" in refused.value.hint
    with pytest.raises(FolderError, match="kind 'box', not a lid"), new_folder(tmp_path / "box", LID, replace=True):
        pass
    with new_folder(tmp_path / "box", BOX, replace=True) as change:
        change.file("two").write_text("2")
        assert tree(tmp_path / "box") == {"one": b"1"}  # the old one counts to the end
    assert tree(tmp_path / "box") == {"two": b"2"}
    assert [path.name for path in tmp_path.iterdir()] == ["box"]


def test_replacing_refuses_what_the_user_has_changed(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1")
    (tmp_path / "box/one").write_text("mine")
    with (
        pytest.raises(FolderError, match=r"changed since visir wrote them \(one\)"),
        new_folder(tmp_path / "box", BOX, replace=True),
    ):
        pass
    assert tree(tmp_path / "box") == {"one": b"mine"}


def test_what_the_user_added_stays_when_a_folder_is_replaced(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1")
    (tmp_path / "box/notes").mkdir()
    (tmp_path / "box/notes/thesis.tex").write_text("mine")
    (tmp_path / "box/two").write_text("mine, and called as the new one's")
    with (
        pytest.warns(UserWarning, match=r"box\.old-1: files that visir did not write"),
        new_folder(tmp_path / "box", BOX, replace=True) as change,
    ):
        change.file("two").write_text("2")
        (tmp_path / "box/late.tex").write_text("mine")
    assert tree(tmp_path / "box") == {"late.tex": b"mine", "notes/thesis.tex": b"mine", "two": b"2"}
    assert tree(tmp_path / "box.old-1") == {"two": b"mine, and called as the new one's"}


def test_a_folder_through_a_link_is_the_folder_it_names(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "box").symlink_to(tmp_path / "disk/box")
    make(tmp_path / "box", one="1")
    assert (tmp_path / "box").is_symlink()
    assert tree(tmp_path / "disk/box") == {"one": b"1"}


# Changes


def test_a_change_counts_from_its_commit(tmp_path: Path) -> None:
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        change.file("part-1").write_text("1")
        change.content["parts"] = 1
    with changing(tmp_path / "box", BOX, busy=BUSY) as change:
        change.file("part-2").write_text("2")
        change.drop("part-1")
        assert tree(tmp_path / "box") == {"part-1": b"1", "part-2": b"2"}
    manifest = Manifest.read(tmp_path / "box", BOX)
    assert (manifest.generation, dict(manifest.content)) == (2, {"parts": 1})
    assert tree(tmp_path / "box") == {"part-2": b"2"}
    assert not (tmp_path / "box" / LOG).exists()


def test_an_error_takes_back_what_was_begun(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1")
    with pytest.raises(RuntimeError), changing(tmp_path / "box", BOX, busy=BUSY) as change:
        change.file("two").write_text("2")
        change.drop("one")
        raise RuntimeError
    assert tree(tmp_path / "box") == {"one": b"1"}


def test_what_is_resumed_is_kept_through_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), changing(tmp_path / "box", BOX, busy=BUSY, resume=True) as change:
        change.file("state").write_text("half")
        raise RuntimeError
    assert tree(tmp_path / "box") == {"state": b"half"}
    with changing(tmp_path / "box", BOX, busy=BUSY, resume=True) as change:
        assert change.file("state", counts=False).read_text() == "half"
        change.file("result").write_text("whole")
    assert tree(tmp_path / "box") == {"result": b"whole"}


def test_a_file_of_the_users_is_not_written_over(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1")
    (tmp_path / "box/part-2").write_text("mine")
    with (
        pytest.raises(FolderError, match="part-2: is there already, and visir did not write it"),
        changing(tmp_path / "box", BOX, busy=BUSY) as change,
    ):
        change.file("part-2")
    (tmp_path / "box/one").write_text("changed by hand")
    with (
        pytest.raises(FolderError, match="one: was changed since visir wrote it"),
        changing(tmp_path / "box", BOX, busy=BUSY) as change,
    ):
        change.write("one", b"new")
    assert tree(tmp_path / "box") == {"one": b"changed by hand", "part-2": b"mine"}


def test_a_copy_without_times_is_still_known(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1")
    shutil.copytree(tmp_path / "box", tmp_path / "copy", copy_function=shutil.copyfile)
    os.utime(tmp_path / "copy/one", (0, 0))
    with changing(tmp_path / "copy", BOX, busy=BUSY) as change:
        change.write("one", b"2")
    assert tree(tmp_path / "copy") == {"one": b"2"}


def test_a_folder_of_the_users_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.jpg").write_text("mine")
    with (
        pytest.raises(FolderError, match=r"holds files that visir did not write \(a.jpg\), and no box"),
        changing(tmp_path / "photos", BOX, busy=BUSY),
    ):
        pass
    assert files_below(tmp_path / "photos") == ["a.jpg"]


def test_a_mistyped_place_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new/below", "empty"):
        with pytest.raises(RuntimeError), changing(tmp_path / name, BOX, busy=BUSY):
            raise RuntimeError
    assert files_below(tmp_path) == []
    assert (tmp_path / "empty").is_dir()
    assert not (tmp_path / "new/below").exists()


def test_of_two_writers_one_is_busy_and_harms_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "box"
    with changing(folder, BOX, busy=BUSY) as change:
        change.file("one").write_text("1")
        with pytest.raises(FolderError, match="busy"), changing(folder, BOX, busy=BUSY):
            pass
        assert (folder / "one").is_file()
    assert tree(folder) == {"one": b"1"}


def test_a_writer_that_waits_finds_the_newest(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1")
    begun, go = threading.Event(), threading.Event()

    def first() -> None:
        with changing(tmp_path / "box", BOX, busy="wait") as change:
            begun.set()
            assert go.wait(10)
            change.file("two").write_text("2")

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(10)
    threading.Timer(0.2, go.set).start()
    with changing(tmp_path / "box", BOX, busy="wait") as change:
        assert sorted(change.manifest.files) == ["one", "two"]
    thread.join()
    with (
        pytest.raises(FolderError, match="another process has changed this box since"),
        changing(tmp_path / "box", BOX, busy=BUSY, generation=1),
    ):
        pass


def test_many_first_writers_lose_nothing(tmp_path: Path) -> None:
    faults: list[Exception] = []

    def write(number: int) -> None:
        try:
            with changing(tmp_path / "box", BOX, busy="wait") as change:
                change.file(f"part-{number}").write_text(str(number))
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sorted(tree(tmp_path / "box")) == sorted(f"part-{number}" for number in range(12))


# Manifests


def test_a_manifest_that_was_changed_by_hand_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1")
    path = tmp_path / "box" / MANIFEST
    path.write_text(path.read_text().replace('"one"', '"two"'))
    with pytest.raises(FolderError, match="not as visir wrote it") as refused:
        Manifest.read(tmp_path / "box", BOX)
    assert refused.value.hint == "make a box"
    with pytest.raises(FolderError, match="not as visir wrote it"):
        remove_folder(tmp_path / "box")
    assert (tmp_path / "box/one").is_file()


def test_newer_and_other_folders_are_refused(tmp_path: Path) -> None:
    newer = FolderKind("box", "a box", version=2)
    with new_folder(tmp_path / "new", newer) as change:
        change.file("one").write_text("1")
    with pytest.raises(FolderError, match=r"newer visir \(box, version 2; this one reads 1\)"):
        Manifest.read(tmp_path / "new", BOX)
    with pytest.raises(FolderError, match="kind 'box', not a lid"):
        Manifest.read(tmp_path / "new", LID)
    with pytest.raises(FolderError, match="no such folder"):
        Manifest.read(tmp_path / "gone", BOX)
    with pytest.raises(FolderError, match=r"holds no box \(no visir.json\)"):
        Manifest.read(tmp_path, BOX)


def test_faults_name_what_is_missing_cut_or_altered(tmp_path: Path) -> None:
    make(tmp_path / "box", gone="1", cut="22", altered="333", whole="4444")
    folder = tmp_path / "box"
    (folder / "gone").unlink()
    (folder / "cut").write_text("2")
    (folder / "altered").write_text("334")
    faults = Manifest.read(folder, BOX).faults(folder)
    assert sorted(faults) == [
        "altered is not as it was written",
        "cut has 1 bytes, 2 were written",
        "gone is missing",
    ]
    # Sizes are always looked at; of 5 bytes the smallest files are hashed.
    assert "altered is not as it was written" not in Manifest.read(folder, BOX).faults(folder, most=2)


# Removing a folder


def test_a_folder_goes_with_what_visir_wrote_and_no_more(tmp_path: Path) -> None:
    make(tmp_path / "box", one="1", two="2")
    (tmp_path / "box/mine").write_text("mine")
    (tmp_path / "box/two").write_text("mine too")
    assert remove_folder(tmp_path / "box") == ["mine", "two"]
    assert tree(tmp_path / "box") == {"mine": b"mine", "two": b"mine too"}
    make(tmp_path / "other", one="1")
    assert remove_folder(tmp_path / "other") == []
    assert not (tmp_path / "other").exists()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.jpg").write_text("mine")
    assert remove_folder(tmp_path / "photos") == ["a.jpg"]


# Single files


def test_a_file_of_the_users_is_replaced_only_when_asked(tmp_path: Path) -> None:
    write_new(tmp_path / "run.trec", b"1")
    with pytest.raises(FolderError, match="exists already") as refused:
        write_new(tmp_path / "run.trec", b"2")
    assert "--force" in refused.value.hint
    assert (tmp_path / "run.trec").read_bytes() == b"1"
    write_new(tmp_path / "run.trec", b"2", replace=True)
    assert (tmp_path / "run.trec").read_bytes() == b"2"
    assert [path.name for path in tmp_path.iterdir()] == ["run.trec"]


def test_a_file_that_comes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="exists already"), new_file(tmp_path / "run.trec") as path:
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
            pytest.raises(FolderError, match="visir did not write it"),
            changing(tmp_path / "box", BOX, busy="wait") as change,
        ):
            change.file(name).write_bytes(b"2")
        with (
            pytest.raises(FolderError, match="visir did not write it"),
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
