"""`visir train`: what is printed, what is written, how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from manifests import content_of
from visir.cli.train import EpochLines, train
from visir.cli.verbs import verb
from visir.encoders import load
from visir.errors import ConfigurationError
from visir.files import read_json
from visir.training.shipped import shipped_recipes
from visir.training.trained import Epoch

app = typer.Typer()
app.command("train")(verb(train))

RECIPE = """# visir train small.toml
name = "small"
dimension = 8

[data]
collection = "scenes:60?size=64"

[image]
tower = "frozen"
encoder = "pixels"

[text]
tower = "frozen"
encoder = "bow:64"

[optimiser]
epochs = 2
batch = 32
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def test_trains_and_tells_epochs_folder_and_curves(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(app, [str(recipe), "--set", "optimiser.epochs=3", "--out", str(out)])
    assert done.exit_code == 0, done.exception
    lines = done.output.splitlines()
    assert lines[0].split() == ["epoch", "loss", "τ", "val", "rsum", "captions/s", "left"]
    assert [line.split()[0] for line in lines[1:4]] == ["1/3", "2/3", "3/3"]
    assert lines[-2:] == [f"checkpoint: {out}", f"curves:     {out / 'training.html'}"]
    assert load(out).dimension == 8
    assert "of 3</p>" in (out / "training.html").read_text()


def test_ctrl_c_says_how_to_go_on_and_so_it_does(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(lines: EpochLines, epoch: Epoch) -> list[str]:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(EpochLines, "of", interrupted)
        stopped = CliRunner().invoke(app, [str(recipe), "--out", str(out)])
    assert stopped.exit_code == 130
    assert f"the same command with --resume goes on from {out / 'state.safetensors'}" in stopped.output
    done = CliRunner().invoke(app, [str(recipe), "--out", str(out), "--resume"])
    assert done.exit_code == 0 and "2/2" in done.output and "1/2" not in done.output


def test_dry_run_prints_the_plan_and_writes_nothing(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(app, [str(recipe), "--dry-run", "--out", str(out)])
    assert done.exit_code == 0, done.exception
    assert 'false_negatives = "masked"' in done.output  # the resolved recipe, defaults and all
    assert "train: 48 images, 240 captions" in done.output
    assert "steps: 8 an epoch, 16 in 2 epochs" in done.output
    assert "text head: 520 parameters trained" in done.output  # 64 · 8 + 8
    assert "objective: 0 parameters trained, 1 held fixed" in done.output  # the temperature
    assert "activations of a step" in done.output
    assert not out.exists()


def test_faults_reach_the_caller(recipe: Path) -> None:
    done = CliRunner().invoke(app, [str(recipe), "--set", "optimiser.epoch=3", "--set", "selection.keep=best"])
    assert isinstance(done.exception, ConfigurationError)
    assert "did you mean 'epochs'?" in str(done.exception) and "selection.keep" in str(done.exception)
    assert "which recipe?" in str(CliRunner().invoke(app, []).exception)


def test_without_torch_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import visir.errors

    monkeypatch.setattr(visir.errors, "find_spec", lambda name: None)
    ran = CliRunner().invoke(app, ["scenes-heads"])
    assert "training needs the package 'torch'" in str(ran.exception)
    assert "pip install 'visir[torch]'" in str(ran.exception)


def test_the_recipes_are_listed_without_torch() -> None:
    code = (
        "import sys; sys.argv = ['visir', 'train', '--list']\n"
        "from visir.cli.main import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "Your own data: name it with --data" and lines[1].split()[0] == "clip-finetune"
    assert "  22 recipes: visir train ltd --list" in lines
    listed = {line.split()[0] for line in lines if line.startswith("  ") and not line.split()[0].isdecimal()}
    assert listed <= set(shipped_recipes()) and len(listed) == 28, listed


def point(number: int, rsum: float, **losses: float) -> Epoch:
    facts = {"temperature": 0.05, "ltd multiplier": 100.0, "itd multiplier": 12.25}
    return Epoch(number, {"loss": 12.5, **losses}, facts, {"rsum": rsum}, 60.0, 12345.6)


def test_lines_fit_a_hundred_columns_and_star_the_best() -> None:
    lines = EpochLines(100)
    said = [line for n, rsum in ((1, 300.0), (2, 299.0), (3, 301.5))
            for line in lines.of(point(n, rsum, contrastive=2.5, ltd=0.25, itd=107.125))]  # fmt: skip
    assert said[0].split()[:7] == ["epoch", "loss", "contrastive", "ltd", "ltd", "λ", "itd"]
    assert len(said) == 4 and max(map(len, said)) <= 100 and len(set(map(len, said))) == 1
    assert said[1].split() == ["1/100", "12.500", "2.500", "0.250", "100.00", "107.125", "12.25", "0.0500", "300.0*",
                               "12,346", "99", "min"]  # fmt: skip
    assert "299.0 " in said[2] and "301.5*" in said[3]


def test_a_lone_contrastive_loss_is_said_once() -> None:
    head, line = EpochLines(2).of(point(1, 1.0, contrastive=12.5))
    assert "contrastive" not in head and line.split()[1] == "12.500"


def test_tensorboard_has_every_point_once_after_a_resumption(recipe: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from visir.training.checkpoint import TensorBoard
    from visir.training.recipe import read_recipe
    from visir.training.run import train as run

    out, read = tmp_path / "out", read_recipe(recipe)

    def stop(epoch: Epoch) -> None:
        board(epoch)
        raise KeyboardInterrupt

    with TensorBoard(out) as board, pytest.raises(KeyboardInterrupt):
        run(read, out=out, report=stop)
    assert len(list((out / "tensorboard").iterdir())) == 1
    with TensorBoard(out) as board:
        run(read, out=out, resume=True, report=board)
    events = EventAccumulator(str(out / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    # 240 captions in batches of 32: 8 steps an epoch, two epochs.
    assert [one.step for one in events.Scalars("step/loss")] == list(range(1, 17))
    assert [one.step for one in events.Scalars("validation/rsum")] == [8, 16]
    curve = read_json(out / "curve.json")
    rsums = [one.value for one in events.Scalars("validation/rsum")]
    assert rsums == pytest.approx([one["validation"]["rsum"] for one in curve], rel=1e-6)


@pytest.mark.nightly
def test_torchrun_trains_with_two_processes_and_one_writes(recipe: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    out = tmp_path / "out"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, "-m", "visir", "train", str(recipe), "--out", str(out)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checkpoint: ") == 1 and done.stdout.count(" 2/2") == 1
    assert content_of(out)["facts"]["processes"] == 2
    assert load(out).dimension == 8


def test_a_finished_training_is_gone_on_with_and_keeps_its_page(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for more in ([], ["--resume"]):
        done = CliRunner().invoke(app, [str(recipe), "--out", str(out), *more], catch_exceptions=False)
        assert done.exit_code == 0 and (out / "training.html").is_file()
        (out / "training.html").unlink() if more else None
    done = CliRunner().invoke(app, [str(recipe), "--out", str(out), "--resume"], catch_exceptions=False)
    assert done.exit_code == 0 and (out / "training.html").is_file()
