"""Resuming: after a kill at any moment the same losses and the same weights, bit for bit."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from planted import objective, planted, recipe, towers
from safetensors import SafetensorError
from safetensors.torch import load_file

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.storage.disk import files_below
from visir.storage.manifest import LOG
from visir.training.learner import DualEncoder
from visir.training.loop import FitResult, fit, is_full, load_state, save_state, writing_into
from visir.training.recipe import Recipe
from visir.training.trained import STATE_FILE, STEPS_FILE, Epoch, Step, StepLog, read_steps

TRAIN, VALIDATION = planted(80, seed=1, views=2, targets=True), planted(30, seed=2)
EVERYTHING: dict[str, Any] = {
    "objective": {"name": "infonce", "learn_temperature": True},
    "auxiliary": {"ltd": {"hidden": 16}},
    "averaging": {"snapshots": 3, "share": 0.8},
    "optimiser": {"epochs": 4, "batch": 20, "chunk": 6, "accumulate": 2, "rate": 0.01},
    "selection": {"keep": "last"},
}


def run(settings: Recipe, folder: Path | None = None, **options: Any) -> FitResult[DualEncoder]:
    sides = towers(hidden=(32,), dropout=0.2)
    return fit(settings, DualEncoder(sides, objective(settings)), TRAIN, VALIDATION, folder=folder, **options)


def same_bits(one: FitResult[DualEncoder], other: FitResult[DualEncoder]) -> bool:
    pairs = [
        (value, other.learner.towers[side].state_dict()[name])
        for side, tower in one.learner.towers.items()
        for name, value in tower.state_dict().items()
    ]
    curves = [[(e.losses, e.facts, e.validation) for e in fitted.curve] for fitted in (one, other)]
    return all(torch.equal(a, b) for a, b in pairs) and curves[0] == curves[1] and one.chosen == other.chosen


class Interrupted(Exception):
    pass


def interrupt_at(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the next training after so many steps have been logged."""
    write = StepLog.write

    def stop(log: StepLog, step: Step) -> None:
        if step.step > steps:
            raise Interrupted
        write(log, step)

    monkeypatch.setattr(StepLog, "write", stop)


CASES = {
    "everything": EVERYTHING,
    "goes on from the average": {
        **EVERYTHING,
        "averaging": {"snapshots": 3, "share": 0.8, "continue_from": "average"},
        "schedule": {"per": "epoch"},
    },
    "adamp": {"optimiser": {"epochs": 3, "batch": 40, "name": "adamp", "rate": 0.01}},
    "adam, patience": {"optimiser": {"epochs": 5, "batch": 40, "name": "adam"}, "selection": {"patience": 1}},
    "bfloat16": {"optimiser": {"epochs": 2, "batch": 40}, "precision": "bfloat16"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("save_seconds", [0.0, 600.0])
def test_an_interrupted_training_resumes_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, save_seconds: float
) -> None:
    settings = recipe(**CASES[case])
    whole = run(settings, tmp_path / "whole")
    for steps in (2, 5, 7):
        with monkeypatch.context() as patch, pytest.raises(Interrupted):
            interrupt_at(steps, patch)
            run(settings, tmp_path / "parts", resume=True, save_seconds=save_seconds)
    told: list[Epoch] = []
    resumed = run(settings, tmp_path / "parts", resume=True, report=told.append)
    assert same_bits(whole, resumed)
    assert [epoch.epoch for epoch in told][-1] == len(whole.curve)
    assert (tmp_path / "parts" / STEPS_FILE).read_bytes() == (tmp_path / "whole" / STEPS_FILE).read_bytes()
    # A finished training resumes to itself, without another step.
    again = run(settings, tmp_path / "parts", resume=True, report=told.append)
    assert same_bits(whole, again) and told[-1].epoch == len(whole.curve)


def test_two_phases_resume_on_either_side_of_the_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from test_loop import trunks

    settings = recipe(
        optimiser={"epochs": 4, "batch": 40}, schedule={"frozen_epochs": 2}, selection={"keep": "last"}
    )  # 4 steps an epoch: the change is after step 8

    def run_trunks(folder: Path, **options: Any) -> FitResult[DualEncoder]:
        return fit(settings, DualEncoder(trunks(), objective(settings)), TRAIN, VALIDATION, folder=folder, **options)

    whole = run_trunks(tmp_path / "whole")
    for steps in (6, 8, 11):
        with monkeypatch.context() as patch, pytest.raises(Interrupted):
            interrupt_at(steps, patch)
            run_trunks(tmp_path / "parts", resume=True, save_seconds=0.0)
    assert same_bits(whole, run_trunks(tmp_path / "parts", resume=True))
    assert (tmp_path / "parts" / STEPS_FILE).read_bytes() == (tmp_path / "whole" / STEPS_FILE).read_bytes()


KILLER = """
import os, pathlib, random, signal, sys, time
sys.path[:0] = [sys.argv[2], str(pathlib.Path(sys.argv[2]).parent)]
from safetensors.torch import save_file
import torch._dynamo  # which every optimiser imports: once here rather than in each training forked off below
from test_resume import EVERYTHING, recipe, run
settings, folder = recipe(**EVERYTHING), pathlib.Path(sys.argv[1])

def train(folder, **options):
    child = os.fork()
    if child == 0:
        fitted = run(settings, folder, resume=True, **options)
        weights = {f"{s}.{n}": w.clone() for s, t in fitted.learner.towers.items() for n, w in t.state_dict().items()}
        save_file(weights, folder / "final.safetensors")
        os._exit(0)
    return child

unbroken = train(folder / "whole")
assert os.waitpid(unbroken, 0)[1] == 0
moments, kills = random.Random(int(sys.argv[3])), 0
while True:
    child = train(folder / "parts", save_seconds=moments.choice([0.0, 0.02]))
    # Later and later, so that even a slow machine gets on.
    deadline = time.monotonic() + moments.uniform(0.02, 0.15) * (1 + kills)
    while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.002)
    else:
        if time.monotonic() < deadline:
            break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    kills += 1
print(kills)
"""


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_training_killed_again_and_again_is_as_if_nothing_had_been(tmp_path: Path, seed: int) -> None:
    arguments = [sys.executable, "-c", KILLER, str(tmp_path), str(Path(__file__).parent), str(seed)]
    told = subprocess.run(arguments, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True, capture_output=True)
    assert int(told.stdout) >= 1  # some five; fewer where this process was kept waiting while the training went on
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert (parts / STEPS_FILE).read_bytes() == (whole / STEPS_FILE).read_bytes()
    assert len(list(read_steps(whole / STEPS_FILE))) == 4 * 4  # 160 captions: 8 batches, 4 steps, 4 epochs
    # What the kills in the middle of a save left behind is gone.
    assert files(parts) == ["final.safetensors", STATE_FILE, STEPS_FILE]
    one, other = load_file(whole / "final.safetensors"), load_file(parts / "final.safetensors")
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_state_of_another_training_is_refused_naming_every_difference(tmp_path: Path) -> None:
    run(recipe(optimiser={"epochs": 1}), tmp_path)
    other = recipe(seed=3, optimiser={"epochs": 2})
    with pytest.raises(ConfigurationError) as caught:
        fit(other, DualEncoder(towers(), objective(other)), TRAIN, planted(9, seed=4), folder=tmp_path, resume=True)
    text = str(caught.value)
    assert "recipe.seed: interrupted with 0, now 3" in text
    assert "recipe.optimiser.epochs: interrupted with 1, now 2" in text
    assert "examples.validation.seed: interrupted with 2, now 4" in text
    assert "(3 faults)" in text


def test_a_state_from_before_a_key_was_there_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions had no `objective.local_loss`; with another value than its default it is another training."""
    settings, local = recipe(), recipe(objective={"name": "infonce", "local_loss": True})
    whole = run(settings)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_at(5, patch)
        run(settings, tmp_path, save_seconds=0.0)
    tensors, notes = load_state(tmp_path / STATE_FILE)
    del notes["recipe"]["objective"]["local_loss"]
    with writing_into(tmp_path) as folder:
        save_state(folder, tensors, notes)
    with refused(ConfigurationError, "recipe.objective.local_loss", "interrupted with False", "now True"):
        run(local, tmp_path, resume=True)
    assert same_bits(whole, run(settings, tmp_path, resume=True))


def test_a_state_with_a_key_that_is_gone_is_refused(tmp_path: Path) -> None:
    settings = recipe(optimiser={"epochs": 1})
    run(settings, tmp_path)
    tensors, notes = load_state(tmp_path / STATE_FILE)
    notes["recipe"]["optimiser"]["momentum"] = 0.9
    with writing_into(tmp_path) as folder:
        save_state(folder, tensors, notes)
    with refused(ConfigurationError, "recipe.optimiser.momentum", "interrupted with 0.9", "now None"):
        run(settings, tmp_path, resume=True)


@pytest.mark.parametrize("what", ["scaler", "running", "a weight"])
def test_a_state_that_another_version_wrote_is_refused(tmp_path: Path, what: str) -> None:
    settings = recipe(optimiser={"epochs": 1})
    run(settings, tmp_path)
    tensors, notes = load_state(tmp_path / STATE_FILE)
    if what == "running":
        notes["running"]["beats"] = 1
    elif what == "scaler":
        del notes["scaler"]
    else:
        del tensors[next(name for name in tensors if name.startswith("now/"))]
    with writing_into(tmp_path) as folder:
        save_state(folder, tensors, notes)
    with refused(VisirError, "state.safetensors", code="state-of-another-version"):
        run(settings, tmp_path, resume=True)


def test_another_torch_is_told(tmp_path: Path) -> None:
    settings = recipe(optimiser={"epochs": 1})
    run(settings, tmp_path)
    tensors, notes = load_state(tmp_path / STATE_FILE)
    with writing_into(tmp_path) as folder:
        save_state(folder, tensors, {**notes, "torch": "1.13.0"})
    with pytest.warns(UserWarning, match=rf"begun with torch 1\.13\.0, goes on with {torch.__version__[:3]}"):
        run(settings, tmp_path, resume=True)
    with writing_into(tmp_path) as folder:  # earlier versions did not note it
        save_state(folder, tensors, {name: note for name, note in notes.items() if name != "torch"})
    run(settings, tmp_path, resume=True)


def test_a_log_of_steps_that_somebody_changed_is_refused(tmp_path: Path) -> None:
    settings = recipe(optimiser={"epochs": 1})
    run(settings, tmp_path)
    (tmp_path / STEPS_FILE).write_text("hello\n")
    with refused(VisirError, "steps.jsonl, line 1", code="log-of-steps-changed"):
        run(settings, tmp_path, resume=True)
    assert (tmp_path / STEPS_FILE).read_text() == "hello\n"


def test_without_resume_it_begins_anew(tmp_path: Path) -> None:
    settings = recipe(optimiser={"epochs": 2, "batch": 40})
    run(settings, tmp_path)
    before = (tmp_path / STEPS_FILE).read_bytes()
    (tmp_path / "saving").mkdir(exist_ok=True)
    (tmp_path / "saving" / f".new-{STATE_FILE}").touch()  # what a kill in the middle of a save leaves,
    (tmp_path / "saving" / ".tmpk1ll3d").touch()  # and safetensors, which writes under another name first
    (tmp_path / ".gitignore").touch()
    (tmp_path / ".tmpm1n3d.tex").touch()
    run(settings, tmp_path)
    assert files(tmp_path) == [".gitignore", ".tmpm1n3d.tex", STATE_FILE, STEPS_FILE]
    assert (tmp_path / STEPS_FILE).read_bytes() == before  # not appended to


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), None])
def test_a_full_disk_leaves_the_last_state_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: OSError | None
) -> None:
    settings = recipe(optimiser={"epochs": 3, "batch": 40})
    whole = run(settings)
    if fault is None:
        interrupted = _with_a_small_limit(tmp_path)
    else:
        interrupted = _with_a_broken_writer(tmp_path, monkeypatch, settings, fault)
    assert f"{STATE_FILE}: the state of the training could not be written (" in interrupted
    assert "the one written before is whole" in interrupted and "make room, then go on with --resume" in interrupted
    assert len(load_state(tmp_path / STATE_FILE)[1]["curve"]) == 1
    assert files(tmp_path) == [STATE_FILE, STEPS_FILE]
    assert same_bits(whole, run(settings, tmp_path, resume=True))


def _with_a_broken_writer(folder: Path, patch: pytest.MonkeyPatch, settings: Recipe, fault: OSError) -> str:
    def fill(_: Epoch) -> None:
        def half(tensors: object, filename: str, metadata: object) -> None:
            Path(filename).write_bytes(b"half")
            raise fault

        patch.setattr("visir.training.loop.save_file", half)

    with pytest.raises(VisirError) as caught:
        run(settings, folder, report=fill)
    patch.undo()
    return str(caught.value)


def files(folder: Path) -> list[str]:
    """What lies there beside the log of claims."""
    return [name for name in files_below(folder) if name != LOG]


LIMITED = """
import pathlib, resource, signal, sys
sys.path[:0] = [sys.argv[2], str(pathlib.Path(sys.argv[2]).parent)]
from test_resume import recipe, run
from visir.errors import VisirError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit then fails as one to a full disk does

def fill(epoch):
    size = (pathlib.Path(sys.argv[1]) / "state.safetensors").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, resource.RLIM_INFINITY))

try:
    run(recipe(optimiser={"epochs": 3, "batch": 40}), pathlib.Path(sys.argv[1]), report=fill)
except VisirError as fault:
    print(fault)
"""


def _with_a_small_limit(folder: Path) -> str:
    threads = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    arguments = [sys.executable, "-c", LIMITED, str(folder), str(Path(__file__).parent)]
    return subprocess.run(arguments, env=threads, check=True, capture_output=True, text=True).stdout


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    with writing_into(tmp_path) as folder:
        save_state(folder, {"now/weight": torch.ones(4)}, {"curve": []})
    path.write_bytes(path.read_bytes()[:-3])
    with refused(VisirError, "state.safetensors", code="state-training-damaged"):
        load_state(path)


def test_state_comes_back_whole_tied_weights_too(tmp_path: Path) -> None:
    path = tmp_path / STATE_FILE
    one = torch.arange(6.0)
    tensors = {"a": one, "tied": one, "view": one[2:], "b": torch.tensor(2.5, dtype=torch.float64)}
    with writing_into(tmp_path) as folder:
        save_state(folder, tensors, {"curve": [1, 0.1]})
    found, notes = load_state(path)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert found["b"].dtype == torch.float64 and notes == {"curve": [1, 0.1]}


def test_the_log_is_cut_back_to_the_state(tmp_path: Path) -> None:
    path = tmp_path / STEPS_FILE
    steps = [Step(number, 1, {"loss": 0.1 * number}, {}, 1e-3) for number in range(1, 6)]
    log = StepLog(path, 0)
    for step in steps:
        log.write(step)
    log.close()
    with path.open("ab") as stream:
        stream.write(b'{"step": 6, "ep')  # a line that a kill cut off
    assert list(read_steps(path)) == steps
    log = StepLog(path, 3)
    log.write(steps[4])
    log.close()
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3, 5]
    StepLog(path, 0).close()
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("fault", "room"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (SafetensorError("I/O error: File too large (os error 27)"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (SafetensorError("I/O error: Input/output error (os error 5)"), False),
    ],
)
def test_room_is_made_only_where_it_is_short(fault: Exception, room: bool) -> None:
    assert is_full(fault) == room


def test_a_state_with_an_altered_number_is_refused(tmp_path: Path) -> None:
    """No manifest names the state while a training goes on: it carries a hash of its own."""
    path = tmp_path / "state.safetensors"
    tensors = {
        "a": torch.ones(3),
        "b": torch.zeros(2, 2, dtype=torch.bfloat16),
        "c": torch.tensor(7),
        "d": torch.ones(0),
    }
    with writing_into(tmp_path) as folder:
        save_state(folder, tensors, {"step": 3})
    read, notes = load_state(path)
    assert notes == {"step": 3} and all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with refused(VisirError, code="state-training-damaged"):
        load_state(path)
