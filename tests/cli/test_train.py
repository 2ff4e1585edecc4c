"""`visir train`: what is printed, what is written, how it fails."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from visir.cli.train import train
from visir.encoders import load
from visir.errors import ConfigurationError

app = typer.Typer()
app.command("train")(train)

RECIPE = """# visir train small.toml
name = "small"

[data]
collection = "scenes:60?size=64"

[backbones]
image = "pixels"
text = "bow:64"

[model]
dimension = 8

[optimiser]
epochs = 2
batch = 32
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def test_trains_and_tells_epochs_and_folder(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(app, [str(recipe), "--set", "optimiser.epochs=3", "--out", str(out)])
    assert done.exit_code == 0, done.exception
    lines = done.output.splitlines()
    assert [line.split()[1] for line in lines[:3]] == ["1/3", "2/3", "3/3"]
    assert all("val rsum" in line and "captions/s" in line and "s left" in line for line in lines[:3])
    assert lines[-1] == f"checkpoint: {out}"
    assert load(out).dimension == 8


def test_dry_run_prints_the_plan_and_writes_nothing(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(app, [str(recipe), "--dry-run", "--out", str(out)])
    assert done.exit_code == 0, done.exception
    assert 'siblings = "apart"' in done.output  # the resolved recipe, defaults and all
    assert "train: 48 images, 240 captions" in done.output
    assert "steps: 16 (2 epochs)" in done.output
    assert "text head: 64 → 8, 520 parameters" in done.output
    assert not out.exists()


def test_faults_reach_the_caller(recipe: Path) -> None:
    done = CliRunner().invoke(app, [str(recipe), "--set", "optimiser.epoch=3", "--set", "selection.keep=best"])
    assert isinstance(done.exception, ConfigurationError)
    assert "did you mean 'epochs'?" in str(done.exception) and "selection.keep" in str(done.exception)


def test_without_torch_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import visir.errors

    monkeypatch.setattr(visir.errors, "find_spec", lambda name: None)
    ran = CliRunner().invoke(app, ["scenes-heads"])
    assert "training heads needs the package 'torch'" in str(ran.exception)
    assert "pip install 'visir[torch]'" in str(ran.exception)
