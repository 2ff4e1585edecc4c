"""`visir doctor` end to end."""

from __future__ import annotations

import subprocess
import sys
import time

from typer.testing import CliRunner

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


def test_help_imports_nothing_heavy() -> None:
    # The promise is half a second; time varies with the machine, so what is asserted is the cause: no heavy import.
    code = (
        "import sys; from visir.cli.main import app; from typer.testing import CliRunner; "
        "CliRunner().invoke(app, ['--help']); "
        "heavy = ('torch', 'numpy', 'pyarrow', 'transformers', 'numba', 'pandas', 'matplotlib'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    start = time.perf_counter()
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]", out.stdout
    assert time.perf_counter() - start < 10
