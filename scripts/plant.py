"""Can the tests fail? Faults of the kinds that a refactoring makes are planted, one at a time, and must be noticed.

    python scripts/plant.py                 # all of tests/planted.toml (some minutes)
    python scripts/plant.py noise ranks     # those whose name holds one of these words

A fault is a text of one file that is replaced by another. It is planted in a copy of `src` and `papers/src`, never in
the tree; then the tests that should notice it run. A fault that survives, or whose text is no longer in its file, is a
failure. Files are named from `src/visir` on; "papers/NAME" is one of `papers/src/visir_papers`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAPERS = "papers/"


def place_of(file: str, folder: Path) -> Path:
    """Where a file of a fault lies, below a folder with `src` and `papers/src`."""
    if file.startswith(PAPERS):
        return folder / "papers" / "src" / "visir_papers" / file.removeprefix(PAPERS)
    return folder / "src" / "visir" / file


def survives(fault: dict[str, Any], folder: Path) -> str | None:
    """Why a fault counts as unnoticed; None where a test failed."""
    path = place_of(fault["file"], folder)
    if not path.is_file():
        return f"there is no {fault['file']}"
    sound = path.read_text(encoding="utf-8")
    if sound.count(fault["old"]) != 1:
        return f"its text stands {sound.count(fault['old'])} times in {fault['file']}"
    path.write_text(sound.replace(fault["old"], fault["new"]), encoding="utf-8")
    sources = [str(folder / "src"), str(folder / "papers" / "src")]
    # What was there stays behind them: it may say where visir-papers is installed.
    paths = os.pathsep.join([*sources, *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *fault["tests"]],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.write_text(sound, encoding="utf-8")
    if done.returncode == 1:
        return None
    return "no test failed" if done.returncode == 0 else f"the tests did not run: {done.stdout[-500:]}"


def main() -> int:
    """Plant them, print what happened, and return how many were not noticed."""
    faults = tomllib.loads((ROOT / "tests" / "planted.toml").read_text(encoding="utf-8"))["fault"]
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("words", nargs="*", metavar="WORD", help="faults whose name holds one of these words")
    words = options.parse_args().words
    chosen = [fault for fault in faults if not words or any(word in fault["name"] for word in words)]
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in ("src", "papers/src"):
            shutil.copytree(ROOT / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        for fault in chosen:
            reason = survives(fault, Path(folder))
            unnoticed += reason is not None
            print(f"{'noticed ' if reason is None else 'SURVIVED'}  {fault['name']}{f': {reason}' if reason else ''}")
    print(f"{unnoticed} of {len(chosen)} survived")
    return min(unnoticed, 100)


if __name__ == "__main__":
    raise SystemExit(main())
