"""Ctrl-C at any moment from the first import on: one line, status 130, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import visir

PRESS = "import os, signal; os.kill(os.getpid(), signal.SIGINT); [0 for _ in range(1000)]"
AT_IMPORT = """
import atexit, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what started the tests may ignore it: work in the background
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            {press}
sys.meta_path.insert(0, Press())
{first}
"""


@pytest.mark.parametrize("name", ["visir.cli.main", "visir.cli.verbs", "visir.collections.formats"])
@pytest.mark.parametrize("press", [PRESS, f"exec({PRESS!r})"], ids=["in-code", "in-a-text-that-is-run"])
@pytest.mark.parametrize("first", ["", f"atexit.register(lambda: exec({PRESS!r}))"], ids=["once", "again-at-the-end"])
def test_ctrl_c_while_modules_are_imported(name: str, press: str, first: str, tmp_path: Path) -> None:
    """A text that is run, as of a data class: there CPython ends by the signal, whatever status it is told."""
    (tmp_path / "sitecustomize.py").write_text(AT_IMPORT.format(name=name, press=press, first=first))
    path = os.pathsep.join([str(tmp_path), str(Path(visir.__file__).parents[1])])
    ended = subprocess.run(
        [sys.executable, "-m", "visir", "data", "formats"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.strip() == "visir: stopped; the same command goes on, or begins again"
