"""Every example runs, in an empty folder, and prints what it says: in docstrings, and for internals in files beside."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import visir
import visir_papers

SOURCES = (Path(visir.__file__).parent, Path(visir_papers.__file__).parent)
WITH_EXAMPLES = {
    ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")
    for source in SOURCES
    for path in source.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
}
OF_INTERNALS = sorted((Path(__file__).parent / "examples").glob("*.txt"))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_there_are_examples() -> None:
    assert WITH_EXAMPLES and OF_INTERNALS


@pytest.mark.parametrize("name", sorted(WITH_EXAMPLES))
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's examples share nothing; they may write into the folder in which they run."""
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert outcome.attempted and not outcome.failed


@pytest.mark.parametrize("path", OF_INTERNALS, ids=lambda path: path.stem)
def test_examples_of_internals_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two empty lines part the examples of one function from those of the next, which share nothing with them."""
    runner, parser = doctest.DocTestRunner(optionflags=FLAGS), doctest.DocTestParser()
    line = 0
    for number, block in enumerate(path.read_text(encoding="utf-8").split("\n\n\n")):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        runner.run(parser.get_doctest(block, {}, block.partition("\n")[0], str(path), line))
        line += block.count("\n") + 3
    assert runner.tries and not runner.failures
