"""Tutorials: Markdown pages whose code is run, and shown with what it gave.

A page in `docs/tutorials` is plain Markdown. Every block of Python or Bash is a cell (Jupytext's Markdown notebooks);
blocks of other languages are shown and not run. After the language, `tags=["hide"]` runs a cell without showing it, and
`tags=["raises-exception"]` shows its error. nbclient runs the page in the home of a stranger, whose files must be as
before afterwards. What came out is kept in `build/tutorials`, under the content of the page, of `src/visir` and the
versions of all packages: tests and site run each page once.

With `TUTORIALS=skip` in the environment the site shows the code without output.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from sources import PACKAGES, ROOT

FOLDER = ROOT / "docs" / "tutorials"
KEPT = ROOT / "build" / "tutorials"
STRANGERS_FILES = {
    "letters/to my sister.txt": b"Dear Ida,\n",
    "thesis.tex": b"\\documentclass{article}\n",
    "results/old numbers.csv": b"model,R@1\nmine,41.2\n",
    ".profile": b"export EDITOR=vi\n",
}
# Without it Jupytext takes the most frequent language of the page for the kernel's.
HEADER = """---
jupyter:
  kernelspec:
    name: python3
    display_name: Python 3
    language: python
---

"""
# `!command` does not fail in IPython when the command does; and text without colour codes is what a page shows.
PREAMBLE = """
def _checked(command, _shell=get_ipython(), _system=get_ipython().system):
    _system(command)
    if _shell.user_ns.get("_exit_code"):
        raise RuntimeError(f"exit status {_shell.user_ns['_exit_code']}: {command}")

get_ipython().system = _checked
del _checked

import os
for _name in ("FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR"):  # ipykernel sets them
    os.environ.pop(_name, None)
del os, _name
"""


def every_tutorial() -> list[Path]:
    """The pages that are run: all of the folder but its index."""
    return sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")


def notebook(path: Path) -> Any:
    """The page as a notebook without outputs."""
    import jupytext

    made = jupytext.reads(HEADER + path.read_text(encoding="utf-8"), fmt="md")
    made.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"
    return made


def as_ipynb(path: Path) -> str:
    """The page as the text of a notebook file."""
    import nbformat

    return str(nbformat.writes(notebook(path)))


def executed(path: Path) -> Any:
    """The page as a notebook with outputs: kept ones where nothing has changed, or run now."""
    import nbformat

    kept = KEPT / f"{path.stem}-{_state(path)}.ipynb"
    if not kept.is_file():
        made = run(path)
        KEPT.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        nbformat.write(made, part)
        part.replace(kept)
        for old in KEPT.glob(f"{path.stem}-{'?' * 16}.ipynb"):
            if old != kept:
                old.unlink()
    return nbformat.read(kept, as_version=4)


def run(path: Path) -> Any:
    """Run the page in the home of a stranger. An error in a cell is raised, and so is a file of hers that changed."""
    from nbclient import NotebookClient

    made = notebook(path)
    made.cells.insert(0, _preamble())
    base = Path(tempfile.mkdtemp(prefix="tutorial-"))
    try:
        home = base / "ana"
        for name, content in STRANGERS_FILES.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(content)
        client = NotebookClient(
            made,
            timeout=900,
            kernel_name="python3",
            resources={"metadata": {"path": str(home)}},
            store_widget_state=False,
        )
        client.execute(env=_environment(home))
        _check_strangers_files(home)
        del made.cells[0]
        _replace(made, str(home), "/home/ana")
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return made


def _preamble() -> Any:
    from nbformat.v4 import new_code_cell

    return new_code_cell(PREAMBLE)


def _environment(home: Path) -> dict[str, str]:
    """A home of its own, nothing from the network, the `visir` of this checkout."""
    matplotlib = ROOT / "build" / "matplotlib"
    matplotlib.mkdir(parents=True, exist_ok=True)
    path = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    hidden = {"VISIR_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "FORCE_COLOR"}
    return {
        **{name: value for name, value in os.environ.items() if name not in hidden},
        "HOME": str(home),
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": os.pathsep.join(str(package.parent) for package in PACKAGES),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLCONFIGDIR": str(matplotlib),
        "VISIR_CACHE": str(home.parent / "cache"),
        "IPYTHONDIR": str(home.parent / "ipython"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


def _check_strangers_files(home: Path) -> None:
    changed = [
        name
        for name, content in STRANGERS_FILES.items()
        if not (home / name).is_file() or (home / name).read_bytes() != content
    ]
    if changed:
        raise RuntimeError(f"the tutorial changed or removed files that were there before: {', '.join(changed)}")


def _replace(value: Any, old: str, new: str) -> Any:
    """Replace a text in all strings of the outputs, in place."""
    if isinstance(value, dict):
        for key in value:
            value[key] = _replace(value[key], old, new)
    elif isinstance(value, list):
        value[:] = [_replace(one, old, new) for one in value]
    elif isinstance(value, str):
        return value.replace(old, new)
    return value


def _state(path: Path) -> str:
    """A hash of all that the outputs depend on."""
    state = hashlib.sha256(path.read_bytes() + Path(__file__).read_bytes())
    for source in (path for package in PACKAGES for path in sorted(package.rglob("*"))):
        if source.is_file() and "__pycache__" not in source.parts:
            state.update(str(source.relative_to(ROOT)).encode() + source.read_bytes())
    packages = sorted({(one.name, one.version) for one in importlib.metadata.distributions()})
    state.update(repr((packages, sys.version, bool(os.environ.get("VISIR_DATA")))).encode())
    return state.hexdigest()[:16]
