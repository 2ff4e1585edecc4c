"""Two verbs after a kill, and what the user decided: nothing is forgotten, and no advice is a dead end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from library_toys import draw

from visir.library import LibraryError, update
from visir.library.layout import LIBRARY, WORK, LibraryCard
from visir.library.snapshot import LibrarySnapshot
from visir.library.watch import remove
from visir.storage import Manifest, changing
from visir.storage.manifest import LOG

sys.path.append(str(Path(__file__).parent.parent / "faults"))
from faulty import compiled

SCRIPT = Path(__file__).with_name("two_verbs.py")


def pairs(folder: Path, *arguments: str, timeout: int = 600) -> str:
    if compiled() is None:
        pytest.skip("needs a C compiler, and Linux")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


@pytest.mark.parametrize(
    ("first", "seconds"),
    [
        ("make", ["no lock"]),
        ("add", ["delete", "remove", "copy", "restore"]),
        ("update", ["no database", "git clean"]),
        ("remove", ["restore", "photos as before"]),
    ],
)
def test_a_second_verb_after_a_kill_ends_right(tmp_path: Path, first: str, seconds: list[str]) -> None:
    pytest.importorskip("watchfiles")
    chosen = [word for second in seconds for word in ("--second", second)]
    printed = pairs(tmp_path / "pairs", "--points", "3", "--first", first, *chosen)
    assert len(printed.splitlines()) == len(seconds)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "first",
    [
        "make",
        "add",
        "update",
        "remove",
        "watch",
        "another kind",
        "products: make",
        "products: update",
        "words: a model",
    ],
)
def test_every_second_verb_after_a_kill_at_every_step_ends_right(tmp_path: Path, first: str) -> None:
    pytest.importorskip("watchfiles")
    print(pairs(tmp_path / "pairs", "--first", first, timeout=7200))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    draw(tmp_path / "photos", range(6))
    return tmp_path / "photos"


@pytest.fixture
def library(tmp_path: Path, photos: Path) -> Path:
    update(photos, tmp_path / "library", model="pixels")
    return tmp_path / "library"


def stopped_while_encoding(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that ends, as by a kill, when a store of vectors is begun."""

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("visir.encoders.encoding.write_entry", killed)
        update(None, library)
    assert any((library / WORK / "vectors").rglob("*.npz"))


def ids_of(library: Path) -> set[str]:
    with LibrarySnapshot.open(library) as opened:
        return set(opened.ids())


def test_an_update_goes_on_though_another_verb_came_between(
    library: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(photos, range(6, 9))
    stopped_while_encoding(library, monkeypatch)
    gone = min(ids_of(library))
    remove(library, [gone])
    assert (library / LOG).is_file()  # it is the only record of what the update has begun
    assert update(None, library).items == 8
    assert gone not in ids_of(library)
    assert not (library / WORK).exists() and not (library / LOG).exists()


@pytest.mark.parametrize("loss", ["log", "copy"])
def test_work_that_no_record_names_is_left_alone(
    library: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    draw(photos, range(6, 9))
    stopped_while_encoding(library, monkeypatch)
    if loss == "copy":
        shutil.copytree(library, library.with_name("copy"))
        library = library.with_name("copy")
    else:
        for path in library.rglob(LOG):
            path.unlink()
    left = {path: path.read_bytes() for path in (library / WORK).rglob("*") if path.is_file()}
    with pytest.warns(UserWarning, match="work: no record says that visir made it; it is left alone"):
        assert update(None, library).items == 9
    assert {path: path.read_bytes() for path in left if path.name != LOG} == {
        path: data for path, data in left.items() if path.name != LOG
    }
    assert not (library / f"{WORK}-2").exists()
    assert update(None, library).same


def test_what_was_taken_out_stays_out_when_the_database_is_made_anew(library: Path, tmp_path: Path) -> None:
    gone = min(ids_of(library))
    remove(library, [gone])
    card = LibraryCard.read(library)
    database = library / card.database
    database.write_bytes(database.read_bytes()[:-100])
    with pytest.raises(LibraryError) as refused:
        ids_of(library)
    assert "out of" in refused.value.hint and "visir library update" in refused.value.hint
    database.rename(tmp_path / "damaged.sqlite")  # as the advice says
    assert update(None, library).items == 5
    assert gone not in ids_of(library)
    (library / LibraryCard.read(library).decisions).rename(tmp_path / "decisions.json")  # the database has them too
    assert update(None, library).items == 5
    assert gone not in ids_of(library)
    assert LibraryCard.read(library).decisions in Manifest.read(library, LIBRARY).files


def test_a_library_of_an_older_visir_gets_its_decisions_written(library: Path, tmp_path: Path) -> None:
    gone = min(ids_of(library))
    remove(library, [gone])
    with changing(library, LIBRARY, busy="wait") as change:  # as it was before there was such a file
        change.drop(LibraryCard.read(library).decisions)
        change.commit({name: value for name, value in change.content.items() if name != "decisions"})
    assert LibraryCard.read(library).decisions == ""
    assert update(None, library).items == 5
    (library / LibraryCard.read(library).database).rename(tmp_path / "gone.sqlite")
    assert update(None, library).items == 5
    assert gone not in ids_of(library)


def test_a_thumbnail_that_a_killed_removal_was_to_remove_stays_where_its_picture_is_back(
    library: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = (photos / "0.png").read_bytes()
    (photos / "0.png").unlink()

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("visir.storage.claims.Claims.remove_claimed", killed)
        update(None, library)
    (photos / "0.png").write_bytes(picture)
    assert update(None, library).items == 6
    with LibrarySnapshot.open(library) as opened:
        assert all(opened.thumbnail(item) for item in opened.ids())
