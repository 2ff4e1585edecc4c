"""Run as a script: one verb is killed (SIGKILL) at a step, something else happens to the library, then it is updated.

usage: python two_verbs.py FOLDER [--points N] [--first NAME]… [--second NAME]… [--table FILE]

For each step (a call that changes the disk, counted by tests/faults/shim.c) of each first verb, and each second one:
the first is killed, the second is done, an update follows. Then the library must be as one made anew from its source:
the same ids, vectors, words, files, thumbnails; or the update must name an action, which is done, loses nothing and
leads there. What is the user's, beside and inside, must be as it was. Prints a line a pair: how many points ended right
at once, how many by an advice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "faults")]
from faulty import COUNT, KILL, PRELOADED, compiled, put, shim, spread  # noqa: E402
from library_killed import draw, first_item, shuffle, state, write_shop  # noqa: E402

from visir.errors import VisirError  # noqa: E402
from visir.library import update  # noqa: E402
from visir.library.check import check  # noqa: E402
from visir.library.layout import is_library  # noqa: E402
from visir.library.snapshot import LibrarySnapshot  # noqa: E402
from visir.library.watch import remove  # noqa: E402
from visir.storage import scratch  # noqa: E402
from visir.storage.manifest import LOG  # noqa: E402

BESIDE = {"thesis.tex": "1", "work/thesis.tex": "2", "library.old/a": "3"}
INSIDE = {"mine.txt": "4", "work/thesis.tex": "5", "thumbnails/ab/mine.webp": "6", "dense-mine/a.npy": "7"}
"""What the user put beside the library, and into it, before anything happens."""


class Wrong(AssertionError):
    """A library that is not right, or an advice that does not lead there."""


@dataclass
class World:
    """A place with photos and a library.

    Attributes:
        root: All of it lies below.
        source: What the library is made of, below `photos`.
        model: Its model.
        out: Items that the user took out for good.
        lost: Whether records of what a killed verb began are gone: what it began may then be left over.
    """

    root: Path
    source: str = "."
    model: str = "pixels"
    out: set[str] = field(default_factory=set)
    lost: bool = False

    @property
    def photos(self) -> Path:
        return self.root / "place" / "photos"

    @property
    def library(self) -> Path:
        return self.root / "place" / "library"

    @property
    def backup(self) -> Path:
        return self.root / "template" / "library"

    def make(self, folder: Path | None = None) -> None:
        update(self.photos / self.source, folder or self.library, model=self.model)


First = tuple[Callable[[World], None], Callable[[World], object]]
"""What happens to the photos, and the verb that is killed."""


def nothing(world: World) -> None:
    """The photos stay as they are."""


def add(world: World) -> None:
    draw(world.photos, range(8, 10))


def delete(world: World) -> None:
    (world.photos / "a" / "5.png").unlink()


def take_out(world: World) -> None:
    with LibrarySnapshot.open(world.library) as opened:  # the index may hold what is to go
        item = str(opened.database.value("SELECT min(id) FROM items"))
    remove(world.library, [item])
    world.out.add(item)


def watch(world: World) -> None:
    """What `watch` does at a change; its thread is the system's."""
    from threading import Event

    from visir.library.watch import watch as watching

    stop = Event()

    def changed() -> None:
        update(None, world.library)
        stop.set()

    watching(world.library, changed, settle=0.05, stop=stop)


FIRST: dict[str, First] = {
    "make": (nothing, World.make),
    "add": (add, lambda world: update(None, world.library)),
    "update": (lambda world: shuffle(world.photos), lambda world: update(None, world.library)),
    "remove": (nothing, lambda world: remove(world.library, [first_item(world.library)])),
    "watch": (add, watch),
    "another kind": (nothing, lambda world: update(None, world.library, kind="hnsw")),
    "products: make": (nothing, World.make),
    "products: update": (
        lambda world: write_shop(world.photos, changed=True), lambda world: update(None, world.library)
    ),
    "words: a model": (nothing, lambda world: update(None, world.library, model="bow")),
}  # fmt: skip
BEGINS = ("make", "products: make")


def copied(world: World) -> None:
    """`cp -a` elsewhere, from where it is used on."""
    aside = world.library.with_name("library.aside")
    world.library.rename(aside)
    subprocess.run(["cp", "-a", aside, world.library], check=True)
    shutil.rmtree(aside)
    world.lost = True


def without(chosen: Callable[[Path], bool], world: World) -> None:
    """Files of the library that go: a cleaner, or a tool that copies no such files."""
    for path in sorted(world.library.rglob("*"), reverse=True):
        if chosen(path.relative_to(world.library)) and path.is_file():
            path.unlink()
    world.lost = True


def without_empty(world: World) -> None:
    for path in sorted(world.library.rglob("*"), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()


def restored(world: World) -> None:
    """The backup from before is laid over what is there now."""
    if world.backup.is_dir():
        subprocess.run(["cp", "-a", "--remove-destination", f"{world.backup}/.", world.library], check=True)
    world.lost = True


def cleaned(world: World) -> None:
    """`git clean` of a library that was committed before: what is new goes, what was changed stays so."""
    for path in sorted(world.library.rglob("*"), reverse=True):
        if path.is_file() and not (world.backup / path.relative_to(world.library)).exists():
            path.unlink()
    without_empty(world)
    world.lost = True


def touched(world: World) -> None:
    """A copy without times, by another user."""
    for path in (world.root / "place").rglob("*"):
        os.utime(path, (10**9, 10**9), follow_symlinks=False)
        if os.geteuid() == 0:
            os.chown(path, 1234, 1234, follow_symlinks=False)
    world.lost = True  # a scratch folder of somebody else is theirs


def renamed(world: World) -> None:
    """Photos under names of another case, and of another form of Unicode."""
    if world.source == ".":
        for path in [*world.photos.glob("*.png")]:
            name = unicodedata.normalize("NFD", f"Ä{path.stem}").upper()
            path.rename(path.with_name(f"{name}.PNG"))


def as_before(world: World) -> None:
    """The photos are put back as they were before the first verb."""
    shutil.rmtree(world.photos)
    shutil.copytree(world.root / "template" / "photos", world.photos)


def checked(world: World) -> None:
    if is_library(world.library):
        check(world.library)


SECOND: dict[str, Callable[[World], None]] = {
    "update": lambda world: again(world),
    "make": lambda world: again(world, World.make),
    "add": lambda world: (draw(world.photos, range(10, 12)), again(world))[1],
    "delete": lambda world: (delete(world) if world.source == "." else None, again(world))[1],
    "remove": take_out,
    "check": checked,
    "watch": watch,
    "copy": copied,
    "restore": restored,
    "no lock": lambda world: without(lambda path: path.name == LOG, world),
    "no dot files": lambda world: without(lambda path: path.name.startswith("."), world),
    "no empty folders": without_empty,
    "no database": lambda world: without(lambda path: path.suffix == ".sqlite", world),
    "git clean": cleaned,
    "other times": touched,
    "other names": renamed,
    "photos as before": as_before,
}  # fmt: skip
NEEDS_LIBRARY = ("remove", "watch")


def again(world: World, verb: Callable[[World], object] | None = None) -> int:
    """Update, or make where there is none; follow what an error advises. How many advices it took."""
    for advices in range(4):
        try:
            if verb is not None:
                verb(world)
            elif is_library(world.library):
                update(None, world.library)
            else:
                world.make()
        except VisirError as fault:
            follow(world, fault)
            verb = None
        else:
            return advices
    raise Wrong("the fourth advice, and still not right")


def follow(world: World, fault: VisirError) -> None:
    """Do what an error says, as a user would; nothing may be deleted."""
    message, hint = fault.message, fault.hint or ""
    aside = world.root / f"moved-{len([*world.root.glob('moved-*')])}"
    if (part := re.search(r"move (.+) out of \S+ and run", hint)) is not None:
        names = [part[1]]
        if part[1] == "the part that is named":
            names = re.findall(r"(?m)^\s*(?:[-·•]\s*)?([\w.-]+)(?:/\S*)? (?:is|has|lacks|cannot)\b", message)
            names = names or re.findall(r"([\w.-]+)(?:/\S*)? (?:is missing|has \d|lacks|is not as)", message)
        if not names:
            raise Wrong(f"the advice names nothing: {fault}")
        for name in names:
            if (world.library / name).exists():
                aside.mkdir(exist_ok=True)
                (world.library / name).rename(aside / name)
    elif "move it away" in hint:
        path = Path(message.partition(": ")[0])
        if not path.exists():
            raise Wrong(f"what is to be moved away is not there: {fault}")
        aside.mkdir()
        path.rename(aside / path.name)
    elif "leave --model out to update it" in hint:
        update(None, world.library)
    elif "name a new folder" in hint or "visir library make PLACE" in hint:
        if "again: it goes on" in hint:
            world.make()
            return
        world.library.rename(aside)
        (world.root / "named").mkdir(exist_ok=True)
        world.make()  # a new folder of the same name
    else:
        raise Wrong(f"no advice that could be followed: {message} → {hint}")


class Trial:
    """A first verb, with the place as it is before it, killed at every step that is chosen."""

    def __init__(self, root: Path, name: str) -> None:
        self.name, (self.prepare, self.verb) = name, FIRST[name]
        shutil.rmtree(root, ignore_errors=True)
        (root / "place" / "photos" / "a").mkdir(parents=True)
        self.root = root
        self.world = self._world()
        draw(self.world.photos, range(6))
        if name.startswith(("products", "words")):
            draw(self.world.photos, range(8))
            write_shop(self.world.photos)
        if name not in BEGINS:
            self.world.make()
            put(self.world.library, INSIDE)
        put(root / "place", BESIDE)
        shutil.copytree(root / "place", root / "template", symlinks=True)
        self.expected: dict[object, object] = {}
        self._fresh()
        self.operations = self._counted()

    def _world(self) -> World:
        products = self.name.startswith(("products", "words"))
        return World(self.root, "shop.csv" if products else ".", "none" if self.name.startswith("words") else "pixels")

    def second(self, name: str, points: int | None) -> Counter[str]:
        """How many points ended right at once, and by an advice."""
        ended: Counter[str] = Counter()
        for at in spread(self.operations, points):
            self._fresh(of_work=at % 2 == 0)
            self._killed(at)
            where = f"{self.name} killed at {at} of {self.operations}, then {name}"
            if name in NEEDS_LIBRARY and not is_library(self.world.library):
                continue
            try:
                advices = self._second(name) + again(self.world)
                self._check(where)
            except Wrong as fault:
                raise Wrong(f"{where}: {fault}") from fault
            ended["advice" if advices else "right"] += 1
        return ended

    def _second(self, name: str) -> int:
        try:
            return int(SECOND[name](self.world) or 0)
        except VisirError as fault:
            if name not in NEEDS_LIBRARY:
                raise
            follow(self.world, fault)
            return 1

    def _check(self, where: str) -> None:
        world = self.world
        for path, content in {world.root / "place" / name: text for name, text in BESIDE.items()}.items():
            if not path.is_file() or path.read_text() != content:
                raise Wrong(f"{path} of the user is gone or changed")
        if self.name not in BEGINS:
            places = [world.library, *world.root.glob("moved-*"), *world.root.glob("moved-*/*")]
            for name, content in self.inside.items():
                every = [place / name for place in places] + [place / Path(name).name for place in places]
                if not any(path.is_file() and path.read_text() == content for path in every):
                    raise Wrong(f"{name} of the user in the library is gone or changed")
        faults = check(world.library)
        if faults:
            raise Wrong(f"the check says {faults}")
        removed = {row for (row,) in self._rows("SELECT DISTINCT item FROM removed")}
        if not removed >= world.out:
            raise Wrong(f"what was taken out for good is forgotten: {world.out - removed}")
        if state(world.library) != self._anew(removed):
            raise Wrong("not as one that is made anew")
        if not world.lost and not world.root.joinpath("moved-0").exists():
            self._check_nothing_left()

    def _check_nothing_left(self) -> None:
        from library_killed import strangers

        mine = set(INSIDE) if self.name not in BEGINS else set()
        left = [name for name in strangers(self.world.library) if name not in mine]
        if left:
            raise Wrong(f"left over: {left}")

    def _anew(self, removed: set[str]) -> object:
        world = self.world
        key = (
            tuple(sorted((str(path), path.read_bytes()) for path in world.photos.rglob("*") if path.is_file())),
            tuple(sorted(removed)),
            self._model(),
        )
        if key not in self.expected:
            anew = self.root / "anew"
            shutil.rmtree(anew, ignore_errors=True)
            update(world.photos / world.source, anew, model=self._model() or "none")
            with LibrarySnapshot.open(anew) as opened:
                there = removed & set(opened.ids())
            if there:
                remove(anew, there)
            self.expected[key] = state(anew)
        return self.expected[key]

    def _rows(self, statement: str) -> list[tuple[str, ...]]:
        with LibrarySnapshot.open(self.world.library) as opened:
            return opened.database.rows(statement)

    def _model(self) -> str:
        with LibrarySnapshot.open(self.world.library) as opened:
            return opened.model

    def _fresh(self, of_work: bool = False) -> None:
        """The place as it was before; `of_work`: with a file of the user's in `work/`, so that visir takes another."""
        for path in [self.root / "place", *self.root.glob("moved-*")]:
            shutil.rmtree(path)
        shutil.copytree(self.root / "template", self.root / "place", symlinks=True)
        self.world = self._world()
        self.inside = {name: text for name, text in INSIDE.items() if of_work or not name.startswith("work/")}
        if not of_work and self.name not in BEGINS:
            shutil.rmtree(self.world.library / "work")
        self.prepare(self.world)

    def _counted(self) -> int:
        reader, writer = os.pipe()
        self._forked(COUNT, 0, lambda: os.write(writer, str(shim().faults_operations()).encode()))
        os.close(writer)
        return int(os.read(reader, 100))

    def _killed(self, at: int) -> None:
        if not os.WIFSIGNALED(status := self._forked(KILL, at)) and os.WEXITSTATUS(status):
            raise Wrong(f"{self.name} fails at {at}")

    def _forked(self, kind: int, at: int, then: Callable[[], object] = lambda: None) -> int:
        child = os.fork()
        if child:
            return os.waitpid(child, 0)[1]
        code = 1
        try:
            shim().faults_arm(os.fsencode(self.world.library), kind, at, 0)
            self.verb(self.world)
            then()
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)


def main(arguments: argparse.Namespace) -> int:
    scratch._EMPTY_SECONDS = 0
    warnings.simplefilter("ignore")
    os.environ["VISIR_CACHE"] = str(arguments.folder / "cache")
    table: dict[str, dict[str, str]] = {}
    wrong = 0
    for first in arguments.first or FIRST:
        trial = Trial(arguments.folder / "trial", first)
        table[first] = {}
        for second in arguments.second or SECOND:
            try:
                ended = trial.second(second, arguments.points)
            except Exception as fault:  # the next pairs are of interest too
                if not isinstance(fault, Wrong) and arguments.raises:
                    raise
                wrong += 1
                table[first][second] = "WRONG"
                print(f"{first}, {second}: WRONG: {type(fault).__name__} {fault}", flush=True)
                continue
            cell = f"{ended['right']}" + (f" + {ended['advice']} advised" if ended["advice"] else "")
            table[first][second] = cell if sum(ended.values()) else "–"
            print(f"{first}, {second}: {table[first][second]} (of {trial.operations} steps)", flush=True)
    if arguments.table:
        arguments.table.write_text("\n".join(rows_of(table)) + "\n")
    return int(wrong > 0)


def rows_of(table: dict[str, dict[str, str]]) -> Iterator[str]:
    """The table in Markdown: first verbs as columns."""
    yield "| then, and an update | " + " | ".join(f"{first} killed" for first in table) + " |"
    yield "|---|" + "---|" * len(table)
    for second in SECOND:
        if any(second in cells for cells in table.values()):
            yield f"| {second} | " + " | ".join(cells.get(second, "") for cells in table.values()) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=int)
    parser.add_argument("--first", action="append")
    parser.add_argument("--second", action="append")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--raises", action="store_true")
    given = parser.parse_args()
    library = compiled()
    if library is None:
        sys.exit("no C compiler here, or no Linux")
    if os.environ.get(PRELOADED) != str(library):
        preloaded = {**os.environ, PRELOADED: str(library), "OMP_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], preloaded)
    sys.exit(main(given))
