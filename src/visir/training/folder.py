"""The folder that a training writes into: taken by one process, never over something else, finished in one step.

While it goes on there are `recipe.toml`, `steps.jsonl` and, from the first epoch on, `state.safetensors`. At its end
the checkpoint is written beside them; it counts when `visir.json` is there, and then the state goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from visir.encoders.checkpoints import Layout
from visir.errors import VisirError
from visir.storage import MANIFEST, FolderChange, FolderKind, changing
from visir.storage.claims import Claims, hold, is_begun, release
from visir.storage.disk import files_below, system_error
from visir.storage.manifest import LOG
from visir.training.trained import STEPS_FILE, Epoch

RECIPE_FILE = "recipe.toml"
CURVE_FILE = "curve.json"
STATE_FILE = "state.safetensors"
_SAVING = "saving"
"""Where safetensors writes the state, under a name of its own first."""
_ANOTHER = '--out DIR (out="DIR" in Python)'
_SAFETENSORS = ".tmp??????"


class TrainingFolder:
    """A folder that this process trains into."""

    def __init__(self, path: Path, change: FolderChange | None) -> None:
        self.path = path
        self._change = change
        if change is not None:
            change.clear(_SAVING)  # what a kill in the middle of a save leaves

    @property
    def state(self) -> Path:
        """Where the state of an interrupted training lies."""
        return self.path / STATE_FILE

    @property
    def steps(self) -> Path:
        """Where the log of steps lies, for the process that writes it."""
        return self._writing.file(STEPS_FILE)

    @contextmanager
    def saving(self) -> Iterator[Path]:
        """A path that becomes the state in one step."""
        self._writing.subfolder(_SAVING, _SAFETENSORS)
        with self._writing.replacing(STATE_FILE, counts=False, through=_SAVING) as path:
            yield path

    def write(self, name: str, data: bytes) -> None:
        """Write a file that is gone when the training is done."""
        self._writing.write(name, data, counts=False)

    def begin(self, recipe: str) -> None:
        """Keep the recipe's text; a state goes with the recipe that it was begun with."""
        if not self.state.is_file():
            self._writing.write(RECIPE_FILE, recipe.encode(), counts=False)

    def expect(self, name: str, pattern: str) -> None:
        """Somebody else (TensorBoard) writes files of this pattern into a subfolder; they belong to the checkpoint."""
        self._writing.expect(name, pattern)

    def finish(
        self,
        layout: Layout,
        write: Callable[[Path], Mapping[str, Any]],
        recipe: str,
        curve: Sequence[Epoch],
        *,
        subfolders: Mapping[str, str] | None = None,
    ) -> None:
        """Make the folder a checkpoint."""
        change = self._writing
        try:
            layout.claim(change)
            content = write(change.folder)
            layout.count(change)
            change.write(RECIPE_FILE, recipe.encode())
            change.write_json(CURVE_FILE, [asdict(epoch) for epoch in curve])
            for name, pattern in (subfolders or {}).items():
                change.written(name, pattern)
            change.commit(content)
        except Exception as fault:
            if system_error(fault) is None:
                raise
            raise VisirError(
                f"{self.path}: training is done, but the checkpoint could not be written ({fault}); its last state is "
                "whole.",
                hint="make room; the same command with --resume then writes it and trains nothing again",
                code="training-done-checkpoint-could",
            ) from fault

    @property
    def _writing(self) -> FolderChange:
        assert self._change is not None, "only the first process writes"
        return self._change


def check_free(out: Path, resume: bool) -> None:
    """Raise `VisirError` when `out` holds something that a training must not write over."""
    if out.exists() and not out.is_dir():
        raise VisirError(
            f"{out} is a file, not a folder.", hint=f"train into a folder: {_ANOTHER}", code="file-not-folder"
        )
    if (out / MANIFEST).is_file():
        raise VisirError(
            f"{out} holds a finished checkpoint.",
            hint=f'use it: visir.load("{out}"); or train into another folder: {_ANOTHER}',
            code="holds-finished-checkpoint",
        )
    if out.exists() and any(out.iterdir()) and not is_begun(out, trusted=resume) and not _is_state(out):
        names = ", ".join(files_below(out)[:3])
        raise VisirError(
            f"{out} exists and is not a training's folder: it holds {names}.",
            hint=f"train into another: {_ANOTHER}",
            code="not-a-trainings-folder",
        )
    if (out / STATE_FILE).is_file() and not resume:
        raise VisirError(
            f"{out} holds an interrupted training.",
            hint=f"go on with --resume (resume=True in Python), or train into another folder: {_ANOTHER}",
            code="holds-interrupted-training",
        )


def _is_state(out: Path) -> bool:
    """Whether the folder has a state that a training of visir wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(out / STATE_FILE), framework="np") as stored:
            return "notes" in (stored.metadata() or {})
    except (OSError, SafetensorError):
        return False


@contextmanager
def open_training_folder(out: Path, layout: Layout, resume: bool) -> Iterator[TrainingFolder]:
    """Take the folder; nobody else trains into it meanwhile. What was written stays, whatever ends the block."""
    another = VisirError(
        f"{out}: another process is training into this folder.",
        hint="wait for it, or stop it, or --out DIR",
        code="another-process-training-folder",
    )
    check_free(out, resume)
    if resume and not is_begun(out, trusted=True) and _is_state(out):
        with Claims.take(out, busy=another) as claims:  # a cleaner, or a copy without hidden files, took the log
            claims.add(*(name for name in (STATE_FILE, RECIPE_FILE, STEPS_FILE) if (out / name).is_file()))
    with changing(out, layout.kind, busy=another, resume=True, trusted=resume) as change:
        if change.manifest.generation:  # preparation takes time, and another process may have come and gone
            check_free(out, resume)
        if (out / STATE_FILE).is_file() and not resume:
            check_free(out, resume)
        yield TrainingFolder(out, change)
        if not change.manifest.generation:
            change.abandon()


def wait_until_free(out: Path, waiting: str) -> None:
    """Wait for another process that trains into this folder; `waiting` is the message meanwhile."""
    if (out / LOG).is_file():
        release(hold(out / LOG, waiting))


@contextmanager
def writing_into(folder: TrainingFolder | Path | None, *, first: bool = True) -> Iterator[TrainingFolder | None]:
    """The folder as `fit` takes it: one that is taken already, one to be taken, or none."""
    if folder is None or isinstance(folder, TrainingFolder):
        yield folder
    elif not first:
        yield TrainingFolder(folder, None)
    else:
        busy = VisirError(
            f"{folder}: another process is training into this folder.", code="another-process-training-folder"
        )
        with changing(folder, FolderKind("training", "a training"), busy=busy, resume=True) as change:
            yield TrainingFolder(folder, change)
            change.abandon()
