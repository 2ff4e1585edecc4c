"""Every example in a docstring runs, in an empty folder, and prints what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import visir

SOURCE = Path(visir.__file__).parent
WITH_EXAMPLES = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


def test_there_are_examples() -> None:
    assert WITH_EXAMPLES


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's examples share nothing; they may write into the folder in which they run."""
    monkeypatch.chdir(tmp_path)
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    outcome = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted and not outcome.failed
