"""Many trials, several side by side; what is finished is kept, what was interrupted goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from visir.errors import VisirError
from visir.files import json_bytes
from visir.progress import Progress
from visir.storage import put
from visir.studies.trial import TRIAL, TRIAL_FILE, Trial
from visir.threads import usable_cores

if TYPE_CHECKING:
    from visir.studies.sparse_trial import SparseTrial

LOG_FILE = "log.txt"


def run_trials(trials: Sequence[Trial] | Sequence[SparseTrial], out: Path, *, jobs: int | None = None) -> None:
    """Carry out every unfinished trial in a process of its own, `jobs` side by side (default: one per core).

    Each has one thread, so that its figures do not depend on how many run beside it, and small models lose nothing by
    it. What each says is in its `log.txt`. Trials that share the vectors of a frozen encoder wait for each other while
    one of them encodes.

    Raises `VisirError` for the trials that failed, after all others are done, and before anything runs for a folder
    that holds another trial.
    """
    waiting = [one for one in trials if not one.is_finished(out)]
    if not waiting:
        return
    faults: list[str] = []

    def start(trial: Trial | SparseTrial) -> None:
        folder = trial.folder(out)
        put(folder, TRIAL, {TRIAL_FILE: json_bytes(trial.to_dict())}, keep=[LOG_FILE])
        with (folder / LOG_FILE).open("ab") as stream:
            done = subprocess.run(
                [sys.executable, "-m", trial.module, str(out), str(folder)],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            said = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            faults.append(f"{trial.name}: {' '.join(said)} (see {folder / LOG_FILE})")

    with Progress("trials", len(waiting), "trials") as advance, ThreadPoolExecutor(jobs or usable_cores()) as pool:
        for _ in pool.map(start, waiting):
            advance()
    if faults:
        raise VisirError("not all trials ended well:\n  " + "\n  ".join(faults), hint="the same command goes on")
