"""The folder that a training writes into: taken by one process, never over something else, finished in one step."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError

from visir.encoders.families import CHECKPOINT_FILE
from visir.errors import VisirError
from visir.files import atomic_folder, write_bytes, write_json
from visir.locks import locked_or
from visir.training.curve import Epoch
from visir.training.state import STATE_FILE, is_unfinished
from visir.training.step_log import STEPS_FILE

RECIPE_FILE = "recipe.toml"
CURVE_FILE = "curve.json"
LOCK_FILE = "training.lock"
"""Held while a training goes on; gone from a finished checkpoint."""

_BEGUN = frozenset({RECIPE_FILE, STEPS_FILE, LOCK_FILE})
"""What a training that has not kept a state yet may have left; besides unfinished files."""


def refuse_taken(out: Path, resume: bool, begun: frozenset[str] = frozenset()) -> None:
    """Raise `VisirError` when `out` holds something that a training must not write over.

    `begun`: names of further files that this kind of training leaves before it has kept a state.
    """
    if (out / STATE_FILE).is_file():
        if not resume:
            raise VisirError(
                f"{out} holds an interrupted training.", hint="go on with --resume, or remove the folder, or --out DIR"
            )
    elif (out / CHECKPOINT_FILE).is_file():
        raise VisirError(f"{out} holds a finished checkpoint.", hint="train into another folder: --out DIR")
    elif out.exists() and not out.is_dir():
        raise VisirError(f"{out} is a file, not a folder.", hint="train into a folder: --out DIR")
    elif out.exists() and {one.name for one in out.iterdir() if not is_unfinished(one)} - _BEGUN - begun:
        raise VisirError(f"{out} exists and is not a training's folder.", hint="train into another one: --out DIR")


def begin(out: Path, recipe: str, resume: bool, held: ExitStack, begun: frozenset[str] = frozenset()) -> None:
    """Take the folder for as long as `held` is open, and keep the recipe's text; nothing is written before."""
    another = VisirError(
        f"{out}: another process is training into this folder.", hint="wait for it, or stop it, or --out DIR"
    )
    held.enter_context(locked_or(out / LOCK_FILE, another))
    refuse_taken(out, resume, begun)  # again: preparation takes time, and another process may have come and gone
    if not (out / STATE_FILE).is_file():  # a state goes with the recipe that it was begun with
        write_bytes(out / RECIPE_FILE, recipe.encode())


@contextmanager
def finishing(out: Path, recipe: str, curve: Sequence[Epoch]) -> Iterator[Path]:
    """A temporary folder that replaces `out` at the end; recipe, curve and steps are put into it beside the rest."""
    try:
        with atomic_folder(out, replace=True) as folder:
            yield folder
            write_bytes(folder / RECIPE_FILE, recipe.encode())
            write_json(folder / CURVE_FILE, [asdict(epoch) for epoch in curve])
            shutil.copyfile(out / STEPS_FILE, folder / STEPS_FILE)
    except (OSError, SafetensorError) as fault:
        raise VisirError(
            f"{out}: training is done, but the checkpoint could not be written ({fault}); its last state is whole.",
            hint="make room; the same command with --resume then writes it and trains nothing again",
        ) from fault
