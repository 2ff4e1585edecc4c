"""Run as a script: one verb of `acts.py` under faults, with files of a stranger around.

usage: python faulty.py FOLDER ACT [FAULT[:POINTS]…]    (all faults, at all points, unless some are named)

    FAULT     kill        kill -9 at the n-th operation on files, for n = 1, 2, …
              full        the disk is full from the n-th operation on
              read-only   nothing can be written
              two         two processes do the same at once
              reader      another process reads all the while
              states      over what is finished, damaged, or changed by the user, with and without --replace
    POINTS    so many values of n, evenly spread; by default all

After each fault the stranger's files must be as they were, what was there before must be whole, and the same command
must do its work, with the same result as without the fault and nothing left over. Prints how many points held.
The C library's calls are counted (`shim.c`), so that what SQLite, DuckDB and Arrow do is seen too.
"""

from __future__ import annotations

import contextlib
import ctypes
import fnmatch
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from acts import ACTS, Act

HERE = Path(__file__).parent
COUNT, KILL, FULL, READ_ONLY = 1, 2, 3, 4
PRELOADED = "LD_PRELOAD"

STRANGERS = {
    "work/thesis.tex": "chapter one",
    "captions/notes.txt": "mine",
    "dense/photo.jpg": "a picture",
    "sparse/data.bin": "numbers",
    "thumbnails/small.webp": "small",
    "cells/1.json": "{}",
    "segments/0.bin": "mine",
    ".gitconfig.old": "[user]",
    ".out.old": "old",
    "out.old": "old",
    "out.tmp": "temporary",
    ".out.tmp": "temporary",
    ".out.lock": "lock",
    ".visir-out-0123abcd/mine.txt": "not a scratch folder of visir",
    ".visir-claims": "not a log",
    "out.old-1/deep/er/file": "deep",
}
"""Files of the user's beside the output, under names that programs like to use for their own."""
INSIDE = {"mine.txt": "1", "work/thesis.tex": "2", ".new-mine": "3", "dense/mine.npy": "4", "a.old": "5"}
"""Files that the user put into a finished folder."""


class Fault(AssertionError):
    """What was promised did not hold."""


def main(root: Path, name: str, chosen: list[str]) -> None:
    from visir.storage import scratch

    scratch._EMPTY_SECONDS = 0
    trial = Trial(root, ACTS[name])
    faults = {
        "kill": trial.kills,
        "full": trial.full_disks,
        "read-only": trial.read_only,
        "two": trial.two_writers,
        "reader": trial.live_reader,
        "states": trial.states,
    }
    failed = False
    for choice in chosen or faults:
        kind, _, points = choice.partition(":")
        try:
            held = faults[kind](int(points) if points else None)
        except Fault as fault:
            failed = True
            print(f"{name}: {kind}: FAULT: {fault}", flush=True)
        else:
            print(f"{name}: {kind}: {held}", flush=True)
    sys.exit(int(failed))


class Trial:
    """One verb, with its files as they are before it (`template`) and what it makes of them (`reference`)."""

    def __init__(self, root: Path, act: Act) -> None:
        self.act, self.place, self.template = act, root / "place", root / "template"
        shutil.rmtree(root, ignore_errors=True)
        self.place.mkdir(parents=True)
        self.outside = root / "outside"
        self.outside.mkdir()
        (self.outside / "beloved.jpg").write_bytes(b"a picture")
        os.environ["VISIR_CACHE"] = str(self.place / "cache")
        os.chdir(self.place)
        act.files(self.place)
        for command in act.before:
            self._succeeds(command, "the command before")
        act.then(self.place)
        self.mine = put(self.place, STRANGERS)
        (self.place / "link").symlink_to(self.outside, target_is_directory=True)
        shutil.copytree(self.place, self.template, symlinks=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = run(act.command)  # in this process: what is forked from it has everything loaded
        assert status == 0, printed.getvalue()
        self.reference = self._content()
        assert self.reference, "the command writes nothing"
        (root / "shim").mkdir()
        self.operations = self._counted()

    def kills(self, points: int | None) -> int:
        for at in spread(self.operations, points):
            self._fresh()
            status = self._forked(self.act.command, KILL, at)
            if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
                raise Fault(f"operation {at}: failed: {self._printed()}")
            self._holds(f"killed at operation {at} of {self.operations}")
        return len(spread(self.operations, points))

    def full_disks(self, points: int | None) -> int:
        for at in spread(self.operations, points):
            self._fresh()
            status = self._forked(self.act.command, FULL, at)
            self._is_clean(status, f"disk full from operation {at} of {self.operations}")
            self._holds(f"disk full from operation {at} of {self.operations}")
        return len(spread(self.operations, points))

    def read_only(self, points: int | None) -> int:
        self._fresh()
        before = tree(self.place)
        status = self._forked(self.act.command, READ_ONLY, 0)
        self._is_clean(status, "read-only")
        if tree(self.place) != before:
            raise Fault("read-only, and something changed")
        self._holds("read-only")
        return 1

    def two_writers(self, points: int | None) -> int:
        """Each pause (in µs an operation) lets the two meet elsewhere."""
        pauses = (0, 20, 100, 300, 1000)[: points or 5]
        for pause in pauses:
            self._fresh()
            children = [self._started(self.act.command, COUNT, 0, pause * (1 + second)) for second in range(2)]
            statuses = [os.waitpid(child, 0)[1] for child in children]
            for status in statuses:
                self._is_clean(status, f"two writers, {pause} µs")
            if all(os.WEXITSTATUS(status) for status in statuses):
                raise Fault(f"two writers, {pause} µs: both failed: {self._printed()}")
            self._holds(f"two writers, {pause} µs")
        return len(pauses)

    def live_reader(self, points: int | None) -> int:
        self._fresh()
        child = self._started(self.act.command, COUNT, 0, 2_000_000 // max(self.operations, 100))
        looks = 0
        try:
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                self._check_whole("while it was written")
                looks += 1
        except Fault:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        if looks < 5:
            raise Fault(f"only {looks} looks")
        self._holds("with a reader")
        return looks

    def states(self, points: int | None) -> int:
        """The user's files in a finished folder stay, whatever is run over it, and whatever is wrong with it."""
        out = self.place / (self.act.out or "cache")
        damages: list[Callable[[], object]] = [lambda: None]
        if (self.place / self.act.out / "visir.json").is_file():
            damages += [
                lambda: (out / "visir.json").write_bytes((out / "visir.json").read_bytes()[:100]),
                lambda: (out / "visir.json").unlink(),
                lambda: (out / "visir.json").write_text("{}"),
            ]
        commands = [self.act.command, *([(*self.act.command, *self.act.force)] if self.act.force else [])]
        for damage in damages:
            for command in commands:
                self._fresh()
                self._succeeds(self.act.command, "first")
                mine = put(out, INSIDE) if out.is_dir() else {}
                damage()
                status = self._forked(command, COUNT, 0)
                self._is_clean(status, f"over a finished one: {command}")
                for path, content in mine.items():
                    aside = [old / path.relative_to(out) for old in out.parent.glob(f"{out.name}.old-*")]
                    if not any(place.is_file() and place.read_text() == content for place in (path, *aside)):
                        raise Fault(f"over a finished one: {command}: {path} is gone")
                self._check_strangers(f"over a finished one: {command}")
        return len(damages) * len(commands)

    def _holds(self, when: str) -> None:
        """After a fault: the stranger's files are there, what is there is whole, and the command does its work."""
        self._check_strangers(when)
        self._check_whole(when)
        status = self._forked(self.act.command, COUNT, 0)
        if status and self.act.again and "--resume" in self._printed():
            status = self._forked((*self.act.command, *self.act.again), COUNT, 0)
        if status:
            printed = self._printed()
            refused = any(part in printed for part in ("already", "finished", "--replace", "is gone"))
            if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) != 2 or not refused:
                raise Fault(f"{when}: the same command does not go on: {printed}")
        from visir.storage import FolderKind, recover, sweep
        from visir.storage.manifest import LOG, read_manifest

        sweep(self.place)  # as the next writer here does
        for path in [self.place / name for name in files(self.place) if Path(name).name == LOG]:
            if (manifest := read_manifest(path.parent)) is not None:
                recover(path.parent, FolderKind(manifest.kind, "a folder", version=manifest.version))
        self._check_strangers(f"{when}, and again")
        content = self._content()
        if content != self.reference:
            more, less = set(content) - set(self.reference), set(self.reference) - set(content)
            other = {name for name in content if content[name] != self.reference.get(name, content[name])}
            raise Fault(
                f"{when}, and again: not as without the fault: too much: {sorted(more)[:8]}; missing: "
                f"{sorted(less)[:8]}; other bytes: {sorted(other)[:8]}"
            )

    def _check_strangers(self, when: str) -> None:
        for path, content in self.mine.items():
            if not path.is_file() or path.read_text() != content:
                raise Fault(f"{when}: {path}, a file of the user's, is gone or changed")
        if (self.outside / "beloved.jpg").read_bytes() != b"a picture" or not (self.place / "link").is_symlink():
            raise Fault(f"{when}: a file behind a link is gone or changed")

    def _check_whole(self, when: str) -> None:
        """Every folder that visir made and that counts has all its files, as they were written."""
        from visir.storage import MANIFEST, FolderError, Manifest
        from visir.storage.manifest import LOG

        manifests = [self.place / name for name in files(self.place) if Path(name).name == MANIFEST]
        for path in manifests:
            above = [folder for folder in path.parent.parents if self.place in folder.parents]
            if any(folder.name.startswith(".visir-") or (folder / LOG).exists() for folder in above):
                continue  # part of something unfinished
            for _ in range(200):
                try:
                    data = path.read_bytes()
                    faults = Manifest.read(path.parent).faults(path.parent)
                except (OSError, FolderError) as fault:
                    data, faults = b"", [str(fault)]
                if not faults or not path.exists():
                    break
                if data == (path.read_bytes() if path.exists() else b""):
                    raise Fault(f"{when}: {path.parent}: {faults}")  # not because it was replaced meanwhile
            else:
                raise Fault(f"{when}: {path.parent} does not come to rest")

    def _content(self) -> dict[str, bytes | None]:
        """Every file in the place but the stranger's: from its name to its bytes, None for those that may differ."""
        names = {path.relative_to(self.place).as_posix() for path in self.mine}
        content: dict[str, bytes | None] = {}
        for name, data in tree(self.place).items():
            if name not in names and name != "link":
                inner = name.removeprefix(f"{self.act.out or 'cache'}/")
                if any(fnmatch.fnmatch(inner, pattern) for pattern in self.act.perhaps):
                    continue
                differs = name.startswith("cache/") or (inner == "visir.json" and self.act.volatile)
                differs = differs or any(fnmatch.fnmatch(inner, pattern) for pattern in self.act.volatile)
                content[self._known(name)] = None if differs else data
        return content

    def _known(self, name: str) -> str:
        """A name without what differs from run to run: the numbers of generations."""
        return re.sub(r"-\d+\.(npy|sqlite)$", r"-N.\1", name)

    def _fresh(self) -> None:
        os.chdir("/")
        shutil.rmtree(self.place)
        shutil.copytree(self.template, self.place, symlinks=True)
        os.chdir(self.place)

    def _counted(self) -> int:
        self._fresh()
        reader, writer = os.pipe()

        def tell() -> None:
            os.write(writer, str(shim().faults_operations()).encode())

        status = self._forked(self.act.command, COUNT, 0, then=tell)
        if status:
            raise Fault(f"the command itself fails: {self._printed()}")
        os.close(writer)
        return int(os.read(reader, 100))

    def _succeeds(self, command: tuple[str, ...], what: str) -> None:
        if self._forked(command, COUNT, 0):
            raise Fault(f"{what}: {command}: {self._printed()}")

    def _is_clean(self, status: int, when: str) -> None:
        """Whether it ended by itself: done, or with a message."""
        printed = self._printed()
        if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) not in (0, 2) or "Traceback" in printed:
            raise Fault(f"{when}: ends badly ({status}): {printed}")

    def _printed(self) -> str:
        return (self.place.parent / "printed.txt").read_text(errors="replace")[-3000:]

    def _started(
        self, command: tuple[str, ...], kind: int, at: int, pause: int = 0, then: Callable[[], None] | None = None
    ) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            printed = os.open(self.place.parent / "printed.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(printed, 1)
            os.dup2(printed, 2)
            shim().faults_arm(os.fsencode(self.place), kind, at, pause)
            code = run(command)
            if then is not None:
                then()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _forked(
        self, command: tuple[str, ...], kind: int, at: int, pause: int = 0, then: Callable[[], None] | None = None
    ) -> int:
        return os.waitpid(self._started(command, kind, at, pause, then), 0)[1]


def run(command: tuple[str, ...]) -> int:
    """Run a verb as the console script does; its exit status."""
    from visir.cli import main as console

    sys.argv = ["visir", *command]
    try:
        console.run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


def put(place: Path, files: dict[str, str]) -> dict[Path, str]:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    return {place / name: content for name, content in files.items()}


def tree(place: Path) -> dict[str, bytes]:
    return {name: (place / name).read_bytes() for name in sorted(files(place))}


def files(place: Path) -> Iterator[str]:
    for folder, _, names in os.walk(place):
        yield from (Path(folder, name).relative_to(place).as_posix() for name in names)


def spread(total: int, points: int | None) -> list[int]:
    """So many of 1 … total, evenly spread, the last one among them."""
    if points is None or points >= total:
        return list(range(1, total + 1))
    return sorted({max(1, round(total * (number + 1) / points)) for number in range(points)})


def shim() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.faults_arm.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    library.faults_operations.restype = ctypes.c_long
    return library


def compiled() -> Path | None:
    """`shim.c` as a library; None where there is no compiler, or no Linux."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        return None
    folder = Path(os.environ.get("TMPDIR", "/tmp"))
    target = folder / f"visir-test-shim-{os.getuid()}-{int((HERE / 'shim.c').stat().st_mtime)}.so"
    if not target.exists():
        built = target.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", built, HERE / "shim.c", "-ldl"], check=True)
        built.replace(target)
    return target


if __name__ == "__main__":
    library = compiled()
    if library is None:
        sys.exit("no C compiler here, or no Linux")
    if os.environ.get(PRELOADED) != str(library):
        os.execve(
            sys.executable,
            [sys.executable, *sys.argv],
            {**os.environ, PRELOADED: str(library), "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        )
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
