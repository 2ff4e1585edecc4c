"""Many trials, several side by side; finished ones stay, interrupted ones go on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from visir.errors import VisirError
from visir.files import json_bytes
from visir.progress import Progress
from visir.storage import put
from visir.studies.trial import TRIAL, TRIAL_FILE, TrainingTrial
from visir.threads import usable_cores

LOG_FILE = "log.txt"


def run_trials(trials: Sequence[TrainingTrial], out: Path, *, jobs: int | None = None) -> None:
    """Carry out every unfinished trial in a process of its own."""
    # Each has one thread, so that its figures do not depend on how many run beside it, and small models lose nothing by
    # it. What each prints is in its `log.txt`. Trials that share the vectors of a frozen encoder wait for each other
    # while one of them encodes.
    unfinished = [trial for trial in trials if not trial.is_finished(out)]
    if not unfinished:
        return
    faults: list[str] = []

    def start(trial: TrainingTrial) -> None:
        folder = trial.folder(out)
        put(folder, TRIAL, {TRIAL_FILE: json_bytes(trial.to_dict())}, keep=[LOG_FILE])
        kind = f"{type(trial).__module__}:{type(trial).__qualname__}"
        with (folder / LOG_FILE).open("ab") as stream:
            process = subprocess.run(
                [sys.executable, "-m", "visir.studies.trial", kind, str(out), str(folder)],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if process.returncode:
            last = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            faults.append(f"{trial.name}: {' '.join(last)} (see {folder / LOG_FILE})")

    with Progress("trials", len(unfinished), "trials") as advance, ThreadPoolExecutor(jobs or usable_cores()) as pool:
        for _ in pool.map(start, unfinished):
            advance()
    if faults:
        raise VisirError("not all trials ended well:\n  " + "\n  ".join(faults), hint="the same command goes on")
