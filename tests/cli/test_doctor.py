"""`visir doctor` end to end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from rich.console import Console
from typer.testing import CliRunner

from visir.cli import doctor
from visir.cli.main import app


def test_doctor_says_what_is_there_and_fails_for_a_model_asked_for_that_does_not_load() -> None:
    good = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert good.exit_code == 0, good.output
    assert "pyarrow" in good.output
    assert "torch devices" in good.output
    assert "pixels" in good.output
    bad = CliRunner().invoke(app, ["doctor", "--load", "/nowhere/at/all"], env={"COLUMNS": "200"})
    assert bad.exit_code == 1
    assert "no:" in bad.output


def test_doctor_says_what_concerns_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def machine() -> str:
        console = Console(width=200)
        with console.capture() as captured:
            console.print(doctor._machine())
        return captured.get()

    monkeypatch.chdir(tmp_path)  # where no developer's ../shared/data is
    monkeypatch.delenv("VISIR_DATA", raising=False)
    assert "cache" in machine() and "VISIR_DATA" not in machine()
    monkeypatch.setenv("VISIR_DATA", str(tmp_path / "gone"))
    assert f"{tmp_path}/gone (not there)" in machine()
    monkeypatch.setenv("VISIR_DATA", str(tmp_path))
    assert f"{tmp_path} (there)" in machine()
    names = [name for name, _ in doctor._smallest_extras(map(Requirement, ["pyarrow", *_REQUIRED]))]
    assert [str(name.name) for name in names] == ["pyarrow", "faiss-cpu"]


_REQUIRED = [
    f"{package}; extra == '{extra}'"
    for package, extra in (
        ("moto", "ci"), ("twine", "ci"), ("ruff", "dev"), ("pytest", "test"), ("mkdocs", "docs"), ("faiss-cpu", "hnsw")
    )
]  # fmt: skip

_HELP_OF_ALL_VERBS = """
import sys
import typer
from typer.testing import CliRunner
from visir.cli.main import app

heavy = ("torch", "numpy", "pyarrow", "transformers", "sentence_transformers", "numba", "pandas", "duckdb")


def paths(command, path=()):
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from paths(child, (*path, name))


verbs = list(paths(typer.main.get_command(app)))
for path in verbs:
    assert CliRunner().invoke(app, [*path, "--help"]).exit_code == 0, path
    imported = [module for module in heavy if module in sys.modules]
    assert not imported, (path, imported)
print(len(verbs))
"""


def test_help_imports_nothing_heavy() -> None:
    # The promise is half a second; time varies with the machine, so what is asserted is the cause: no heavy import.
    start = time.perf_counter()
    out = subprocess.run([sys.executable, "-c", _HELP_OF_ALL_VERBS], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr[-500:]
    assert int(out.stdout) > 60
    assert time.perf_counter() - start < 60
