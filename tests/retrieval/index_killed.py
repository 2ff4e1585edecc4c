"""Run as a script: change an index again and again, killed (SIGKILL) at every step that touches its folder.

usage: python index_killed.py KIND FOLDER [CHANGE…]    (all changes unless some are named)

For n = 1, 2, … a forked process makes one change and is killed at its n-th event on files in
FOLDER, until it gets to the end. After each kill the index must load, answer as before the change or as after it, and
take the same change again, with nothing left over. Prints how many kills each change survived.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from index_data import same_run, vectors

from visir.retrieval.index import IndexFolderError, changing_index, read_index
from visir.retrieval.kinds import KINDS, build_index, open_index
from visir.storage import MANIFEST, scratch, sweep
from visir.storage.disk import files_below

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "shutil.rmtree"}
scratch._EMPTY_SECONDS = 0
os.fsync = lambda _: None  # a kill loses nothing that was written; only a power cut does, and this takes minutes


def main(kind: str, root: Path, only: list[str]) -> None:
    form = KINDS.get(kind).vectors
    documents, queries = vectors(form, "image", 60, 1), vectors(form, "text", 7, 2)
    ids = documents.ids.to_pylist()
    index, start, end = root / "index", root.parent / f"{root.name}-start", root.parent / f"{root.name}-end"
    changes: dict[str, Callable[[Path], object]] = {
        "build": lambda at: build_index(documents.select(ids[:30]), kind, at),
        "add few": lambda at: open_index(at).add(documents.select(ids[30:33])),
        "add many": lambda at: open_index(at).add(documents.select(ids[30:])),
        "delete few": lambda at: open_index(at).delete(ids[:5]),
        "delete most": lambda at: open_index(at).delete(ids[:20]),
    }
    changes["build"](start)
    for name in only or changes:
        change = changes[name]

        def fresh(at: Path, name: str = name) -> None:
            shutil.rmtree(at, ignore_errors=True)
            if name != "build":
                shutil.copytree(start, at)

        def check(change: Callable[[Path], object] = change, name: str = name) -> None:
            """After the kill."""
            after = open_index(end).search(queries, 10)
            try:
                found = open_index(index).search(queries, 10)
            except IndexFolderError:
                assert name == "build" and not index.exists()
                change(index)
            else:
                if not same_run(found, after):
                    assert name != "build" and same_run(found, open_index(start).search(queries, 10))
                    change(index)
            assert same_run(open_index(index).search(queries, 10), after)
            with changing_index(index, read_index(index).generation):
                pass  # the next writer clears what was left
            sweep(root)
            assert sorted(files_below(index)) == sorted([*read_index(index).files, MANIFEST]), "something is left over"
            assert [path.name for path in root.iterdir()] == ["index"], "something is left beside the index"

        fresh(end)
        change(end)
        kills, at = 0, 1
        while True:
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir()
            fresh(index)
            if not killed(lambda change=change: change(index), root, at):
                break
            kills += 1
            check()
            at += 1
        assert kills > 5, f"{name}: only {kills} events; is the hook still in the right place?"
        print(f"{name}: {kills}", flush=True)


def killed(work: Callable[[], object], root: Path, at: int) -> bool:
    """Do `work` in a process that is killed at its `at`-th event under `root`; whether there were so many."""

    def hooked() -> None:
        seen = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal seen
            if event in EVENTS and str(root) in " ".join(map(str, arguments[:2])):
                seen += 1
                if seen == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()

    status = forked(hooked)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the change failed"
    return os.WIFSIGNALED(status)


def forked(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as fault:
            print(repr(fault), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
