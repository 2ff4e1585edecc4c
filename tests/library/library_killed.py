"""Run as a script: make and update a library again and again, killed (SIGKILL) at every step.

usage: python library_killed.py FOLDER [CHANGE…]    (all changes unless some are named)

For n = 1, 2, … a forked process makes one change and is killed at its n-th event, until it gets to the end: an event is
anything done to files in FOLDER, and every SQL statement. After each kill the library must open (or, where it was being
made, be no library yet), be as it was before the change or as it is after it, down to the vectors, and take the same
change again, with nothing left over. Prints how many kills each change survived.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from photos_with_fields import DIGIKAM, LIGHTROOM, packet

from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.library import LibraryError, update
from visir.library.check import check
from visir.library.layout import LIBRARY, LibraryCard, thumbnail_name
from visir.library.product_words import texts_of
from visir.library.snapshot import LibrarySnapshot
from visir.library.watch import remove
from visir.retrieval.text.index import TextIndex
from visir.storage import MANIFEST, Manifest, changing, scratch, sweep
from visir.storage.disk import files_below

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}
scratch._EMPTY_SECONDS = 0
os.fsync = lambda _: None  # a kill loses nothing that was written; only a power cut does, and this takes minutes


def main(root: Path, only: list[str]) -> None:
    photos, library = root / "photos", root / "library"
    start, end = root.parent / f"{root.name}-start", root.parent / f"{root.name}-end"
    changes: dict[str, tuple[Callable[[], None], Callable[[Path], object]]] = {
        "make": (lambda: None, lambda at: update(photos, at, model="pixels")),
        "add": (lambda: draw(photos, range(8, 11)), lambda at: update(None, at)),
        "delete": (lambda: (photos / "a" / "3.png").unlink(), lambda at: update(None, at)),
        "everything": (lambda: shuffle(photos), lambda at: update(None, at)),
        "remove": (lambda: None, lambda at: remove(at, [first_item(start)])),
        "make products": (lambda: None, lambda at: update(photos / "shop.csv", at, model="pixels")),
        "products": (lambda: write_shop(photos, changed=True), lambda at: update(None, at)),
        "make worded products": (lambda: None, lambda at: update(photos / "shop.csv", at, model="none")),
        "worded products": (lambda: write_shop(photos, changed=True), lambda at: update(None, at)),
        "a model for worded products": (lambda: None, lambda at: update(None, at, model="bow")),
        "another model and photos": (lambda: shuffle(photos), lambda at: update(None, at, model="colours")),
        "files beside photos": (lambda: write_beside(photos), lambda at: update(None, at)),
        "another language for products": (lambda: None, lambda at: update(None, at, language="none")),
    }
    for name in only or changes:
        prepare, change = changes[name]
        shutil.rmtree(root, ignore_errors=True)
        (photos / "a").mkdir(parents=True)
        draw(photos, range(8))
        place = photos
        if name.endswith("products"):
            write_shop(photos)
            place = photos / "shop.csv"
        made = not name.startswith("make")
        for at in (start, end):
            shutil.rmtree(at, ignore_errors=True)
        if made:
            update(place, start, model="none" if "worded" in name else "pixels")
            before = state(start)
            shutil.copytree(start, end)
        prepare()
        change(end)
        after = state(end)
        kills = 0
        while True:
            shutil.rmtree(library, ignore_errors=True)
            if made:
                shutil.copytree(start, library)
            if not killed(lambda change=change: change(library), library, kills + 1):
                break
            kills += 1
            try:
                found = state(library)
            except LibraryError as fault:
                assert not made, f"{name}, kill {kills}: {fault}"
            else:
                assert found in ((before, after) if made else (after,)), f"{name}, kill {kills}"
            if name != "remove" or state(library) != after:
                change(library)
            assert state(library) == after, f"{name}, kill {kills}, and again"
            assert check(library) == [], f"{name}, kill {kills}: {check(library)}"
            if name == "remove":
                update(None, library)  # what a killed removal left is put right by an update
            with changing(library, LIBRARY, busy="wait", resume=True) as cleared:
                cleared.abandon()
            sweep(library.parent)
            assert strangers(library) == [], f"{name}, kill {kills}: {strangers(library)} is left over"
            assert sorted(path.name for path in root.iterdir()) == ["library", "photos"], f"{name}, kill {kills}"
        assert kills > 20, f"{name}: only {kills} events; is the hook still in the right place?"
        print(f"{name}: {kills}", flush=True)


def strangers(library: Path) -> list[str]:
    """What lies in a library and is no part of it."""
    with LibrarySnapshot.open(library) as opened:
        items = [item for (item,) in opened.database.rows("SELECT id FROM items WHERE thumbnail IS NOT NULL")]
    known = {MANIFEST, *Manifest.read(library).files, *map(thumbnail_name, items)}
    for name in map(LibraryCard.read(library).place, LibraryCard.read(library).indexes):
        known |= {f"{name}/{file}" for file in (MANIFEST, *Manifest.read(library / name).files)}
    return [name for name in files_below(library) if name not in known]


def draw(photos: Path, numbers: Any) -> None:
    collection = open_collection("scenes:12?size=64")
    reader = ImageReader(collection)
    for number in numbers:
        reader.open(number).save(photos / ("a" if number % 2 else ".") / f"{number}.png")


def shuffle(photos: Path) -> None:
    """Add, change, move, copy, delete and break photos, all at once."""
    draw(photos, range(8, 10))
    shutil.copy(photos / "8.png", photos / "0.png")
    (photos / "a" / "1.png").rename(photos / "moved.png")
    shutil.copy(photos / "2.png", photos / "copy.png")
    (photos / "a" / "3.png").unlink()
    (photos / "4.png").write_bytes(b"no picture")


def write_shop(photos: Path, *, changed: bool = False) -> None:
    """A table of products; changed: a price, a title, a picture, one that is new, one that is gone."""
    rows = [
        "id;title;price;brand;image",
        "p0;A;9,90;Acme;0.png|a/1.png",
        "p1;B;5,00;Acme;2.png",
        "p2;C;7,50;Zeta;a/3.png",
    ]
    if changed:
        rows[1:] = ["p0;A;8,90;Acme;0.png|a/1.png", "p1;B2;5,00;Acme;4.png", "p3;D;1,00;Zeta;6.png|gone.png"]
        (photos / "6.png").rename(photos / "moved.png")
        (photos / "6.png").write_bytes((photos / "moved.png").read_bytes())
    (photos / "shop.csv").write_text("\n".join(rows))


def write_beside(photos: Path) -> None:
    """What photo programs write beside two photos."""
    (photos / "0.xmp").write_bytes(packet(DIGIKAM))
    (photos / "a" / "1.png.xmp").write_bytes(packet(LIGHTROOM))


def first_item(folder: Path) -> str:
    with LibrarySnapshot.open(folder) as library:
        return str(library.indexes["dense"].ids[0].as_py())


def state(folder: Path) -> object:
    """Everything that a search, or a look at the library, could tell."""
    with LibrarySnapshot.open(folder) as library:
        rows = library.database.rows
        items = [one for (one,) in rows("SELECT id FROM items ORDER BY id")]
        vectors = {name: np.asarray(index.select(items).vectors).tobytes() for name, index in library.indexes.items()}
        words = None if library.words is None else contents(library.words.index)
        if library.words is not None:
            anew = TextIndex.build(*texts_of(library.database, library.card), language=library.words.index.language)
            assert words == contents(anew), "the words are not those of the database"
        return (
            items,
            vectors,
            words,
            rows("SELECT path, item FROM files ORDER BY path"),
            rows("SELECT path, reason FROM broken ORDER BY path"),
            [library.thumbnail(one) for one in items],
            sorted(rows("SELECT item, name, value FROM fields"), key=str),
            rows("SELECT id, item, text FROM captions ORDER BY id"),
            rows("SELECT item, part, mark, fields FROM extracted ORDER BY item, part"),
        )


def contents(index: TextIndex) -> object:
    """Everything in an index of words."""
    arrays = (index.postings.starts, index.postings.documents, index.postings.counts, index.postings.lengths)
    return (
        index.ids.to_pylist(), index.digests.tobytes(), index.fields, index.postings.words, index.terms,
        index.language.name, [(array.dtype.str, array.shape, array.tobytes()) for array in arrays],
    )  # fmt: skip


def killed(work: Callable[[], object], root: Path, at: int) -> bool:
    """Do `work` in a process that is killed at its `at`-th event; whether there were so many."""
    child = os.fork()
    if child == 0:
        try:
            _count(root, at)
            work()
        except BaseException as fault:
            print(repr(fault), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the change failed"
    return os.WIFSIGNALED(status)


def _count(root: Path, at: int) -> None:
    seen = 0

    def event() -> None:
        nonlocal seen
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(name: str, arguments: tuple[object, ...]) -> None:
        if name in EVENTS and str(root) in " ".join(map(str, arguments[:2])):
            event()

    def statement(frame: object, name: str, called: object) -> None:
        # SQLite writes without the interpreter: what can be seen of it is that it is asked to.
        if name == "c_call" and isinstance(getattr(called, "__self__", None), sqlite3.Connection):
            event()

    sys.addaudithook(hook)
    sys.setprofile(statement)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
