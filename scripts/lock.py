"""Lock files for the container: every package that goes into it, with its version and the hashes of its files.

    python scripts/lock.py                                    requirements/image.txt and build.txt, by what PyPI has now
    python scripts/lock.py --extras transformers,serve        for an image with other models
    python scripts/lock.py -- --torch-backend cpu             what follows "--" goes to uv

Needs `uv`. Nothing is installed. `tests/deploy/test_lock.py` says when a file no longer fits pyproject.toml.
"""

from __future__ import annotations

import argparse
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = "transformers,minilm,onnx,sparse,hnsw,serve,watch,qdrant"
"""What a service needs: models, their sparse heads, every kind of index, HTTP."""
PYTHON = "3.12"
"""That of the image (deploy/Containerfile)."""


def lock(target: Path, source: str, about: str, *arguments: str) -> None:
    """Write one lock file from requirements, one a line."""
    command = ["uv", "pip", "compile", "-", "--generate-hashes", "--universal", "--python-version", PYTHON]
    command += ["--no-config", "--no-header", "--no-annotate", "--quiet", *arguments]
    done = subprocess.run(command, input=source, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr}")
    target.write_text(f"# {about} Written by scripts/lock.py (make lock), not by hand.\n{done.stdout}")
    print(f"{target}: {sum('==' in line for line in done.stdout.splitlines())} packages")


def requirements(extras: str) -> list[str]:
    """What the core and these extras ask for; an extra of visir's own is what it consists of."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names, waiting = list(project["dependencies"]), extras.split(",")
    for extra in waiting:
        for line in project["optional-dependencies"][extra]:
            if line.startswith("visir["):
                waiting += [extra for extra in line[len("visir[") : -1].split(",") if extra not in waiting]
            else:
                names.append(line)
    return names


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default=EXTRAS)
    parser.add_argument("--build-only", action="store_true", help="write build.txt alone")
    parser.add_argument("uv", nargs="*", help="options of uv pip compile")
    arguments = parser.parse_args()
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    folder = ROOT / "requirements"
    if not arguments.build_only:
        image = "\n".join(requirements(arguments.extras))
        lock(folder / "image.txt", image, f"visir[{arguments.extras}].", *arguments.uv)
    lock(folder / "build.txt", "\n".join(build), "What builds visir itself.")


if __name__ == "__main__":
    main()
