"""What can happen to a library: kills, full disks, half copies, two writers, flipped bytes."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_toys import SCENES, draw, head_over, vectors_of_scenes

from refusals import refused
from visir.errors import VisirError
from visir.library import LibraryError, update
from visir.library.check import check
from visir.library.layout import LIBRARY, LibraryCard
from visir.library.snapshot import LibrarySnapshot
from visir.library.watch import remove
from visir.storage import MANIFEST, Manifest, changing

SCRIPT = Path(__file__).with_name("library_killed.py")
CHANGES = (
    "make", "add", "delete", "everything", "make products", "products", "make worded products", "worded products",
    "a model for worded products", "another language for products", "another model and photos",
)  # fmt: skip


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    draw(tmp_path / "photos", range(6))
    return tmp_path / "photos"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """With everything a library can have: dense and sparse indexes, captions, fields, thumbnails, deleted rows."""
    pytest.importorskip("tokenizers")
    model = vectors_of_scenes(tmp_path)
    at = tmp_path / "library"
    update(SCENES, at, model=model, head=head_over(model, tmp_path))
    with LibrarySnapshot.open(at) as opened:
        remove(at, opened.indexes["dense"].ids[:2].to_pylist())
    return at


def said(at: Path) -> Any:
    """Everything that a search, or a look at the library, could tell; of the thumbnails only those that are shown."""
    with LibrarySnapshot.open(at) as opened:
        ids = opened.indexes["dense"].ids.to_pylist()
        sparse, captions = opened.indexes["sparse"].documents(), opened.captions
        assert captions is not None
        everything = captions.documents()
        return (
            opened.name,
            opened.model,
            opened.head,
            opened.items(ids),
            [np.asarray(index.documents().ids).tolist() for index in (*opened.indexes.values(), captions)],
            np.asarray(opened.indexes["dense"].documents().vectors).tobytes(),
            np.asarray(everything.vectors).tobytes(),
            [np.asarray(getattr(sparse, name)).tobytes() for name in ("offsets", "terms", "values")],
            sparse.vocabulary.fingerprint,
            opened.database.rows("SELECT * FROM fields ORDER BY item, name, value"),
            {one: opened.thumbnail(one) for one in ids},
        )


@pytest.mark.parametrize(
    "changes",
    [["remove"], *(pytest.param([one], marks=pytest.mark.nightly) for one in CHANGES)],
    ids=lambda one: one[0],
)
def test_a_kill_at_any_moment_loses_nothing(changes: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "killed"), *changes],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == changes


def test_a_flipped_byte_is_found_or_changes_nothing(library: Path) -> None:
    """Every file, some 40 places in each: opening refuses the library, or everything it says is as before."""
    before, found, harmless = said(library), 0, 0
    files = [path for path in sorted(library.rglob("*")) if path.is_file()]
    rng = np.random.default_rng(0)
    for path in files:
        if path.suffix == ".webp" and path != next(one for one in files if one.suffix == ".webp"):
            continue  # thumbnails are all alike
        whole = path.read_bytes()
        places = range(len(whole)) if len(whole) < 40 else np.unique(rng.integers(0, len(whole), 40)).tolist()
        for place in places:
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << int(rng.integers(8)))]) + whole[place + 1 :])
            try:
                now = said(library)
            except LibraryError as fault:
                assert str(library) in str(fault) and "→" in str(fault)
                found += 1
            else:
                if path.suffix == ".webp":
                    assert now[:-1] == before[:-1]
                    item = path.stem
                    assert now[-1][item] is None, "a damaged thumbnail is not shown"
                    assert any(item in one for one in check(library))
                    found += 1
                else:
                    assert now == before, f"{path.name}, byte {place}: silently another answer"
                    harmless += 1
            finally:
                path.write_bytes(whole)
    assert said(library) == before and found > 300
    print(f"{found} found, {harmless} harmless")


def test_damage_beyond_what_opening_reads_is_found_by_check_and_by_the_next_update(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.retrieval.index.LATE", 1)  # a large array,
    monkeypatch.setattr("visir.storage.folder.MOST", 0)  # and too large to be hashed beside its use
    (path,) = (library / "dense").glob("part-*/vectors.npy")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    LibrarySnapshot.open(library).close()
    assert check(library) == [f"{path.relative_to(library).as_posix()} is not as it was written"]
    with LibrarySnapshot.open(library) as opened:
        one = opened.indexes["dense"].ids[0].as_py()
    with refused(LibraryError, code="library-damaged"):
        remove(library, [one])  # copying from a damaged part would give the damage a new checksum
    shutil.rmtree(library / "dense")
    update(None, library)
    assert check(library) == []


def test_a_library_that_was_half_copied(library: Path, tmp_path: Path) -> None:
    """Each file left out, and each cut in the middle."""
    before, copy = said(library), tmp_path / "copy"
    for path in [one for one in sorted(library.rglob("*")) if one.is_file()]:
        if path.suffix == ".webp" and path.stem != before[3][0].id:
            continue
        for cut in (None, path.stat().st_size // 2):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(library, copy)
            there = copy / path.relative_to(library)
            if cut is None:
                there.unlink()
            else:
                os.truncate(there, cut)
            if path.suffix == ".webp":
                assert said(copy)[-1][path.stem] is None and check(copy)
                continue
            with pytest.raises(VisirError) as caught:
                said(copy)
            assert str(copy) in str(caught.value) and "→" in str(caught.value)


def test_a_copy_of_two_states_is_found(photos: Path, tmp_path: Path) -> None:
    """A folder copied while it was updated: some files of before, some of after."""
    at, old = tmp_path / "library", tmp_path / "old"
    update(photos, at, model="pixels")
    shutil.copytree(at, old)
    draw(photos, range(6, 9))
    update(None, at)
    for names in (("dense",), ("visir.json",), ("visir.json", "items-1.sqlite", "words-1")):
        mixed = tmp_path / f"mixed-{'-'.join(names)}"
        shutil.copytree(at, mixed)
        for name in names:
            there = mixed / name
            if there.is_dir():
                shutil.rmtree(there)
            shutil.copytree(old / name, there) if there.suffix == "" else shutil.copy(old / name, there)
        if len(names) == 3:  # an older state of the library with newer indexes, as a kill before the commit leaves it
            with LibrarySnapshot.open(mixed) as opened:
                assert len(opened) == 6
            assert update(None, mixed).items == 9 and check(mixed) == []
            continue
        with pytest.raises(LibraryError, match=r"items-1.sqlite is missing|lacks 3 of 9 items"):
            LibrarySnapshot.open(mixed)


def test_two_writers(photos: Path, tmp_path: Path) -> None:
    at = tmp_path / "library"
    update(photos, at, model="pixels")
    with changing(at, LIBRARY, busy=""):
        for writer in (lambda: update(None, at), lambda: remove(at, ["0"])):
            with refused(LibraryError, code="being-updated") as busy:
                writer()
            assert busy.value.hint == "when it is done, run the same again"
        assert len(LibrarySnapshot.open(at)) == 6  # readers do not wait
    draw(photos, range(6, 10))
    code = "import sys; from visir.library import update; update(None, sys.argv[1])"
    both = [subprocess.Popen([sys.executable, "-c", code, str(at)], stderr=subprocess.PIPE, text=True) for _ in "ab"]
    ends = [(one.wait(), one.stderr.read() if one.stderr else "") for one in both]
    assert any(status == 0 for status, _ in ends)
    assert all(status == 0 or "another process is updating" in text for status, text in ends)
    assert len(LibrarySnapshot.open(at)) == 10 and check(at) == []


def test_readers_see_one_state_or_the_other_while_it_is_updated(photos: Path, tmp_path: Path) -> None:
    at = tmp_path / "library"
    update(photos, at, model="pixels")
    seen, faults, over = set(), [], threading.Event()

    def look() -> None:
        while not over.is_set():
            try:
                with LibrarySnapshot.open(at) as opened:
                    seen.add(len(opened.existing(opened.indexes["dense"].ids.to_pylist())))
            except Exception as fault:
                faults.append(fault)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(6, 12):
        draw(photos, [number])
        update(None, at)
    over.set()
    reader.join()
    assert not faults and seen <= set(range(6, 13))


def limited(code: str, *arguments: object, most: int) -> subprocess.CompletedProcess[str]:
    """Run Python where no file may grow beyond `most` bytes, as on a disk that is full."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, preexec_fn=limit,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", "")},
    )  # fmt: skip


@pytest.mark.parametrize(
    "most", [200, 20_000, *(pytest.param(one, marks=pytest.mark.nightly) for one in (3_000, 50_000, 60_000))]
)
def test_a_disk_that_is_full(most: int, photos: Path, tmp_path: Path) -> None:
    """No file grows beyond the limit: journals, vectors, thumbnails, the database or the manifest fail in turn."""
    at = tmp_path / "library"
    update(photos, at, model="pixels")
    before = LibrarySnapshot.open(at).indexes["dense"].ids.to_pylist()
    draw(photos, range(6, 12))
    code = """
import sys
from visir.errors import VisirError
from visir.library import update
try:
    update(None, sys.argv[1])
except VisirError as fault:
    print(fault); sys.exit(2)
"""
    done = limited(code, at, most=most)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "→" in done.stdout and "make room" in done.stdout, done.stdout
    with LibrarySnapshot.open(at) as opened:
        assert sorted(opened.existing(opened.indexes["dense"].ids.to_pylist())) == before
    assert update(None, at).items == 12 and check(at) == []


@pytest.mark.nightly
def test_killed_from_outside_again_and_again(photos: Path, tmp_path: Path) -> None:
    """Kills at any time, not only where Python touches a file: the work goes on, and ends."""
    at = tmp_path / "library"
    code = "import sys; from visir.library import update; update(sys.argv[1], sys.argv[2], model='pixels')"
    draw(photos, range(12))
    wait, kills = 0.3, 0
    while True:
        child = subprocess.Popen([sys.executable, "-c", code, str(photos), str(at)], stderr=subprocess.DEVNULL)
        time.sleep(wait)
        if child.poll() is not None:
            assert child.returncode == 0
            break
        child.kill()
        child.wait()
        kills, wait = kills + 1, wait * 1.2
    assert kills and update(None, at).items == 12 and check(at) == []


def test_a_manifest_that_is_newer_or_no_manifest(photos: Path, tmp_path: Path) -> None:
    at = tmp_path / "library"
    update(photos, at, model="pixels")
    data = (at / MANIFEST).read_bytes()
    for changed, fault in (
        (replace(Manifest.read(at), version=9).to_bytes(), "written by a newer visir"),
        (b"[]", "does not describe a folder that visir made"),
        (b"{", "not valid JSON"),
        (data.replace(b'"pixels"', b'"bow"', 1), "not as visir wrote it"),
        (Manifest("library", {"name": "x"}).to_bytes(), "does not describe a library"),
    ):
        (at / MANIFEST).write_bytes(changed)
        with pytest.raises(LibraryError, match=fault):
            LibrarySnapshot.open(at)
    (at / MANIFEST).unlink()
    with pytest.raises(LibraryError, match=r"holds no library \(no visir.json\)"):
        LibrarySnapshot.open(at)
    with refused(LibraryError, code="holds-files-visir-not"):
        update(photos, at, model="pixels")  # without its manifest nobody can tell whose it is
    (at / MANIFEST).write_bytes(data)
    assert LibraryCard.read(at).generation == 1 and check(at) == []


def test_one_hint_for_a_damaged_index_and_it_works(tmp_path: Path) -> None:
    draw(tmp_path / "photos", range(4))
    library = tmp_path / "library"
    update(tmp_path / "photos", library, model="pixels")
    next((library / "dense").glob("*/vectors.npy")).write_bytes(b"damaged")
    for use in (lambda: LibrarySnapshot.open(library), lambda: update(None, library)):
        with pytest.raises(LibraryError, match=rf"move .* out of {library} and run visir library update {library}: "):
            use()
    (library / "dense").rename(tmp_path / "aside")
    assert update(None, library).items == 4
    LibrarySnapshot.open(library).close()
