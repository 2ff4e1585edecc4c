"""With every part set up, a skip for want of a part fails the run; a skip that is listed does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest
pytest.importorskip("json")

def test_that_runs(): pass

@pytest.mark.skipif(True, reason={reason!r})
def test_that_skips(): pass
"""
CONFTEST = f"""
import sys
sys.path.append({str(Path(__file__).parent)!r})
from complete import MissingParts

def pytest_configure(config):
    config.pluginmanager.register(MissingParts())
"""


def run(folder: Path, tests: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(tests)
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(folder)],
                          cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)  # fmt: skip


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "with workers"])
def test_a_missing_part_fails_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, TESTS.format(reason="hadolint is not installed"), *options)
    assert done.returncode == 1, done.stdout
    assert "hadolint is not installed" in done.stdout and "python scripts/parts.py" in done.stdout


def test_a_module_that_skips_whole_fails_the_run_too(tmp_path: Path) -> None:
    done = run(tmp_path, "import pytest\npytest.importorskip('no_such_package')\n", "-n", "1")
    assert done.returncode != 0 and "no_such_package" in done.stdout


@pytest.mark.parametrize(("tests", "fixed"), [("complete", "True"), ("", "False")])
def test_drawn_examples_are_the_same_ones_where_every_part_is_set_up(tests: str, fixed: str) -> None:
    asked = "import conftest, hypothesis; print(hypothesis.settings.default.derandomize)"
    done = subprocess.run([sys.executable, "-c", asked], cwd=Path(__file__).parent, text=True, capture_output=True,
                          env={**os.environ, "VISIR_TESTS": tests}, check=True)  # fmt: skip
    assert done.stdout.strip() == fixed


@pytest.mark.parametrize("reason", ["needs CUDA", "no real data at /nowhere (set VISIR_DATA)"])
def test_what_is_listed_may_skip(tmp_path: Path, reason: str) -> None:
    assert run(tmp_path, TESTS.format(reason=reason)).returncode == 0


def test_parts_that_a_machine_cannot_have_are_named(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS.format(reason="no Chromium here"), VISIR_TESTS_WITHOUT="Chromium|Java")
    assert done.returncode == 0, done.stdout
