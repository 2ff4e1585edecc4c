"""The arithmetic is what the card says, whatever another library has allowed, and is put back afterwards."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

ALLOWED = (
    "pass",
    "b.cuda.matmul.allow_tf32 = True",
    "b.cudnn.allow_tf32 = False",
    "torch.set_float32_matmul_precision('medium')",
    "b.fp32_precision = 'tf32'",
    "b.cudnn.fp32_precision = 'tf32'",
    "b.cudnn.conv.fp32_precision = 'tf32'; b.cudnn.rnn.fp32_precision = 'ieee'",
    "b.fp32_precision = 'tf32'; b.cudnn.conv.fp32_precision = 'ieee'",
    "b.mkldnn.matmul.fp32_precision = 'bf16'; b.cudnn.benchmark = True",
    "b.cuda.matmul.allow_tf32 = True; b.fp32_precision = 'ieee'",
)
SCRIPT = """
import torch
from torch import backends as b
from visir.encoders.models.precision import inference

PARTS = (b.cuda.matmul, b.cudnn.conv, b.cudnn.rnn, b.mkldnn.matmul, b.mkldnn.conv, b.mkldnn.rnn)

def legacy():
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # both ways were mixed
        return "mixed"

def modes():
    return [part.fp32_precision for part in PARTS] + [b.cudnn.benchmark, b.cudnn.deterministic, b.cudnn.enabled]

{allowed}
before, said = modes(), legacy()
for turn in range(3):
    with inference():
        inside = modes()
        assert set(inside[:6]) <= {{"none", "ieee"}}, inside
        assert inside[6:] == [False, True, True], inside
    assert modes() == before, (turn, before, modes())
    assert legacy() == said, (turn, said, legacy())

"""


@pytest.mark.parametrize("allowed", ALLOWED)
def test_float32_is_full_inside_and_restored(allowed: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(allowed=allowed)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_the_last_thread_restores() -> None:
    from visir.encoders.models.precision import full_precision

    conv = torch.backends.cudnn.conv
    before = conv.fp32_precision
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with full_precision():
            entered.set()
            leave.wait(10)

    with full_precision():
        thread = threading.Thread(target=other)
        thread.start()
        assert entered.wait(10)
    assert conv.fp32_precision in ("none", "ieee")  # the other thread still computes
    leave.set()
    thread.join()
    assert conv.fp32_precision == before
