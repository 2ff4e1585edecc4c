"""Folders that visir makes: what counts, what survives, and what is never touched."""

import os
import shutil
import threading
from pathlib import Path

import pytest
from folder_toys import BOX, BUSY, LID, make, tree

from refusals import refused
from visir.storage import (
    MANIFEST,
    FolderError,
    FolderKind,
    Manifest,
    changing,
    new_folder,
    new_plain_folder,
    remove_folder,
)
from visir.storage.disk import files_below, remove_files
from visir.storage.manifest import LOG

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
        pytest.raises(FolderError, match=r"files that visir did not write, or no longer knows \(work/thesis.tex\)"),
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
    with refused(FolderError, code="exists-already-folder-kind") as caught, new_folder(tmp_path / "box", BOX):
        pass
    assert "--replace" in caught.value.hint
    with (
        refused(FolderError, "box", "lid", code="folder-of-another-kind"),
        new_folder(tmp_path / "box", LID, replace=True),
    ):
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
        refused(FolderError, "one", code="holds-files-changed-since"),
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
        refused(FolderError, "part-2", code="already-visir-not-write"),
        changing(tmp_path / "box", BOX, busy=BUSY) as change,
    ):
        change.file("part-2")
    (tmp_path / "box/one").write_text("changed by hand")
    with (
        refused(FolderError, "one", code="changed-since-visir-wrote"),
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
        pytest.raises(FolderError, match=r"visir did not write, or no longer knows \(a.jpg\), and no box"),
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


def test_empty_subfolders_of_work_that_came_to_nothing_go_too(tmp_path: Path) -> None:
    for place in (tmp_path / "new", tmp_path):  # one that is made, and one that was there
        with pytest.raises(KeyboardInterrupt), changing(place, BOX, busy=BUSY, resume=True) as change:
            change.subfolder("chunks/inner", "*.npz")
            raise KeyboardInterrupt
        assert list(tmp_path.iterdir()) == []


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
        refused(FolderError, "box", code="another-process-changed-since"),
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
    with pytest.raises(FolderError, match="not as visir wrote it") as caught:
        Manifest.read(tmp_path / "box", BOX)
    assert caught.value.hint == "make a box"
    with pytest.raises(FolderError, match="not as visir wrote it"):
        remove_folder(tmp_path / "box")
    assert (tmp_path / "box/one").is_file()


def test_newer_and_other_folders_are_refused(tmp_path: Path) -> None:
    newer = FolderKind("box", "a box", version=2)
    with new_folder(tmp_path / "new", newer) as change:
        change.file("one").write_text("1")
    with refused(FolderError, "newer", "box", "2", "1", code="written-visir-version-one"):
        Manifest.read(tmp_path / "new", BOX)
    with refused(FolderError, "box", "lid", code="work-of-another-kind"):
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
    # Sizes are always looked at, whatever is hashed.
    faults = Manifest.read(folder, BOX).faults(folder, hashed=lambda name: name != "altered")
    assert sorted(faults) == ["cut has 1 bytes, 2 were written", "gone is missing"]


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


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_comes_into_the_place_of_a_plain_folder_meanwhile_stays(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    mine = target / "mine" if kind == "folder" else target
    with pytest.raises(FolderError, match="out: "), new_plain_folder(target) as folder:
        (folder / "weights").write_text("visir's")
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("mine")
    assert mine.read_text() == "mine"
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {mine}


def test_a_plain_folder_takes_the_place_of_an_empty_one_alone(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with new_plain_folder(tmp_path / "empty") as folder:
        (folder / "weights").write_text("visir's")
    assert [path.name for path in (tmp_path / "empty").iterdir()] == ["weights"]
    (tmp_path / "beside").write_text("mine")
    for target in (tmp_path / "empty", tmp_path, tmp_path / "beside"):
        with pytest.raises(FolderError), new_plain_folder(target):
            pytest.fail("it was let in")
    with pytest.raises(KeyboardInterrupt), new_plain_folder(tmp_path / "other") as folder:
        (folder / "weights").write_text("half of it")
        raise KeyboardInterrupt
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside", "empty"]


def test_a_writer_that_comes_second_with_the_very_same_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box, rename = tmp_path / "box", Path.rename

    def late(path: Path, target: Path) -> Path:
        if Path(target) == box:
            shutil.copytree(path, box)  # the other writer is a moment ahead
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", late)
    with new_folder(box, BOX) as change:
        change.write("a.txt", b"the same")
    assert (box / "a.txt").read_bytes() == b"the same" and [path.name for path in tmp_path.iterdir()] == ["box"]
