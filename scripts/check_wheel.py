"""Install the wheel alone, without extras, in a new environment, and measure something with it.

    python scripts/check_wheel.py dist

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


def main(folder: Path) -> None:
    """Install and use the one wheel of a folder."""
    (wheel,) = folder.glob("*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        venv.create(home / "venv", with_pip=True)
        programs = home / "venv" / ("Scripts" if os.name == "nt" else "bin")
        python = programs / "python"
        before = size(home)
        started = time.monotonic()
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; installed in {time.monotonic() - started:.0f} s, ")
        print(f"with what it needs {(size(home) - before) / 1e6:.0f} MB")
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        clean |= {"VISIR_CACHE": str(home / "cache"), "PYTHONUTF8": "1"}
        for command in (["--version"], ["--help"], ["data", "formats"], ["doctor"]):
            subprocess.run([programs / "visir", *command], check=True, cwd=home, env=clean, stdout=subprocess.DEVNULL)
        started = time.monotonic()
        subprocess.run([python, "-c", USE], check=True, cwd=home, env=clean)
        print(f"an evaluation with vectors, from a cold start: {time.monotonic() - started:.1f} s")


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
