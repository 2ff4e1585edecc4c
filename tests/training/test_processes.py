"""Two processes that gather their vectors train what one process trains on the union; and they stop together."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import two_processes
from safetensors.torch import load_file
from two_processes import CASES, LOCAL

from refusals import refused
from visir.errors import ConfigurationError
from visir.training.processes import Processes
from visir.training.trained import STATE_FILE, STEPS_FILE, read_steps

LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def launch(work: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCH, two_processes.__file__, work, str(folder)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left behind: one launch that fails, one that does everything else."""
    folder = tmp_path_factory.mktemp("processes")
    began = time.monotonic()
    failed = launch("fail", folder)
    assert failed.returncode != 0 and "the second process failed" in failed.stderr
    assert time.monotonic() - began < 900  # the first process did not wait half an hour, as gloo does
    done = launch("work", folder)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr
    return folder


@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one_with_the_union_batch(launched: Path, tmp_path: Path, case: str) -> None:
    expected = two_processes.weights(two_processes.run(case, tmp_path))
    one, other = (load_file(launched / f"{case}-{rank}.safetensors") for rank in range(2))
    assert all(torch.equal(one[name], other[name]) for name in expected)  # both processes keep the same, to the bit
    for name, weight in expected.items():
        torch.testing.assert_close(one[name], weight, rtol=1e-5, atol=1e-5)
    steps, union = (list(read_steps(folder / STEPS_FILE)) for folder in (launched / case, tmp_path))
    assert len(steps) == len(union) > 1
    for found, wanted in zip(steps, union, strict=True):
        assert found.losses == pytest.approx(wanted.losses, rel=1e-5, abs=1e-5)
        assert found.facts == pytest.approx(wanted.facts, rel=1e-5)


@pytest.mark.parametrize("name", LOCAL)
def test_local_losses_have_the_gradients_of_the_whole_batch_in_double_precision(launched: Path, name: str) -> None:
    case = f"{name}, local loss"
    expected = two_processes.gradients(case, Processes(0, 1, torch.device("cpu")))
    one, other = (load_file(launched / f"{case}-gradients-{rank}.safetensors") for rank in range(2))
    assert one.keys() == expected.keys() >= {"loss", "anchors", "positives"}
    for part, whole in expected.items():
        found = torch.cat([one[part], other[part]]) if part in ("anchors", "positives") else one[part]
        torch.testing.assert_close(found, whole, rtol=0, atol=1e-14)


def test_gradients_are_averaged_to_the_bit_while_the_backward_pass_runs(launched: Path) -> None:
    """Six buckets, from the last weight to the first: spare, four layers, and the scale in its own precision."""
    one, other = (load_file(launched / f"means-{rank}.safetensors") for rank in range(2))
    names = [name.removesuffix(" expected") for name in one if name.endswith(" expected")]
    assert len(names) == 9 + 9 + 11 + 7
    for name in names:
        assert torch.equal(one[f"{name} found"], one[f"{name} expected"])
        assert torch.equal(one[f"{name} found"], other[f"{name} found"])
    # The spare layer is waited for in the first update, and in the fourth again, because the third one used it.
    assert [int(one[f"sent {update}"]) for update in range(4)] == [0, 6, 6, 0]
    assert (launched / "twice-0.txt").read_text() == (launched / "twice-1.txt").read_text()
    assert "a part of its gradient after the gradient was sent" in (launched / "twice-0.txt").read_text()


def test_after_a_failure_of_one_process_both_go_on_exactly(launched: Path) -> None:
    one, other = (load_file(launched / f"{name}-0.safetensors") for name in ("constraint", "failed"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    logs = [(launched / name / STEPS_FILE).read_bytes() for name in ("constraint", "failed")]
    assert logs[0] == logs[1]


def test_nan_in_one_share_stops_both_naming_the_union(launched: Path) -> None:
    one, other = ((launched / f"nan-{rank}.txt").read_text() for rank in range(2))
    assert one == other
    assert one.startswith("TrainingError: the loss is nan in epoch 2, step ")
    assert "in all)" in one and int(one.split("… (")[1].split(" ")[0]) in (24, 25)


def test_a_full_disk_of_the_first_stops_both(launched: Path) -> None:
    one, other = ((launched / f"full-{rank}.txt").read_text() for rank in range(2))
    assert "could not be written" in one and "the one written before is whole" in one
    assert other.startswith("VisirError: the first of 2 processes stopped: ") and "could not be written" in other
    assert (launched / "full" / STATE_FILE).is_file()


def test_a_single_gpu_for_several_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with refused(ConfigurationError, "cuda:1", "2", code="one-device-for-many"):
        Processes.join("cuda:1")


def test_alone_there_is_nobody_to_meet() -> None:
    processes = Processes.join("cpu")
    assert processes == Processes(0, 1, torch.device("cpu")) and processes.is_first
    vectors = torch.ones(3, 2)
    assert processes.gather(vectors, [3]) is vectors and processes.run_on_first(lambda: 7) == 7
    assert not torch.distributed.is_initialized()


def test_a_process_that_accelerate_started_alone_says_so(tmp_path: Path) -> None:
    def told(count: int) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "program.py"
        program.write_text("from visir.threads import launched\nprint(launched())")
        command = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", str(count)]
        alone = {name: one for name, one in os.environ.items() if not name.startswith(("MASTER_", "ACCELERATE_"))}
        return subprocess.run([*command, str(program)], env=alone, capture_output=True, text=True, check=False)

    assert told(1).stdout == "(0, 1)\n"
    several = told(2)
    assert several.returncode != 0
    assert "accelerate launch was asked for several processes, but started this one alone" in several.stderr
    assert "torchrun --nproc-per-node" in several.stderr
