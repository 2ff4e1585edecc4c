"""Install the wheels of visir and visir-papers in new environments, without extras, and use them.

    python scripts/check_wheel.py dist

First visir alone: it measures, and `visir papers` says what to install. Then visir-papers, which brings visir with it.
Prints how long it takes and how large it is. Fails when the core needs a package that it does not declare.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

USE = """
import numpy as np
import visir

names = dir(visir)
collection = visir.open("scenes:40?size=64")
rng = np.random.default_rng(0)
images = rng.normal(size=(len(collection.images), 8)).astype("float32")
rows = {image: row for row, image in enumerate(collection.images["id"].to_pylist())}
owners = [rows[image] for image in collection.captions["image_id"].to_pylist()]
texts = images[owners] + rng.normal(scale=0.5, size=(len(owners), 8)).astype("float32")
evaluation = visir.evaluate(
    collection,
    vectors={"image": (collection.images["id"], images), "text": (collection.captions["id"], texts)},
)
print(evaluation)
assert 0.1 < evaluation.mean("t2i", "R@1") <= 1.0
"""
USE_PAPERS = """
import visir_papers
from visir.evaluation.published import load
from visir.training import find_recipe

assert len(visir_papers.studies()) == 42 and "thesis-table-3-2" in visir_papers.studies().to_markdown()
assert load("thesis-table-2-1").rows and find_recipe("vsepp-coco").is_file()
"""


class Environment:
    """A new virtual environment with one wheel."""

    def __init__(self, home: Path, wheel: Path) -> None:
        self.home = home
        venv.create(home / "venv", with_pip=True)
        self.programs = home / "venv" / ("Scripts" if os.name == "nt" else "bin")
        before, started = size(home), time.monotonic()
        pip = [str(self.programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--find-links", str(wheel.parent), str(wheel)], check=True)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; installed in {time.monotonic() - started:.0f} s, ")
        print(f"with what it needs {(size(home) - before) / 1e6:.0f} MB")

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of it; what it prints is kept."""
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        clean |= {"VISIR_CACHE": str(self.home / "cache"), "PYTHONUTF8": "1"}
        command = [str(self.programs / program), *arguments]
        return subprocess.run(command, cwd=self.home, env=clean, capture_output=True, text=True, check=False)

    def use(self, program: str, *arguments: str) -> str:
        """The same, for what must succeed; what it prints."""
        done = self.run(program, *arguments)
        if done.returncode:
            raise SystemExit(f"{program} {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def refuses(self, says: str, *arguments: str) -> None:
        """A command of visir that must end with a sentence and not with a traceback."""
        done = self.run("visir", *arguments)
        if done.returncode != 2 or says not in done.stderr or "Traceback" in done.stderr:
            raise SystemExit(f"visir {' '.join(arguments)} does not say {says!r}:\n{done.stdout}{done.stderr}")


def main(folder: Path) -> None:
    """Install and use the two wheels of a folder."""
    (core,), (papers,) = folder.glob("visir-*.whl"), folder.glob("visir_papers-*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        alone = Environment(Path(scratch), core)
        for command in (["--version"], ["--help"], ["data", "formats"], ["doctor"]):
            alone.use("visir", *command)
        alone.refuses("pip install visir-papers", "papers", "list")
        started = time.monotonic()
        print(alone.use("python", "-c", USE), end="")
        print(f"an evaluation with vectors, from a cold start: {time.monotonic() - started:.1f} s")
    with tempfile.TemporaryDirectory() as scratch:
        both = Environment(Path(scratch), papers)
        assert "thesis-table-3-2" in both.use("visir", "papers", "list")
        both.refuses("pip install 'visir[torch]'", "papers", "show", "thesis-table-3-2")
        both.use("python", "-c", USE_PAPERS)


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
