"""Where torch's randomness of a step comes from: its place in the training, never what ran before."""

from __future__ import annotations

import numpy as np
import torch

_CPU = torch.device("cpu")


def seed_step(
    seed: int, epoch: int, step: int, batch: int = 0, process: int = 0, chunk: int = 0, *, device: torch.device = _CPU
) -> None:
    """Seed torch's generators (the CPU's and that of `device`) for one forward pass, whose dropout can be drawn
    again."""
    # All counts are from 0: `step` within the epoch, `batch` within the step (accumulation), `chunk` within this
    # process's share of the batch. A training that goes on in the middle of an epoch, and the second pass over a chunk,
    # see the masks that they would have seen.
    entropy = np.random.SeedSequence([seed, epoch, step, batch, process, chunk])
    # All the places at once: neighbouring seeds and steps share no streams. Torch takes 63 bits.
    number = int(entropy.generate_state(1, np.uint64)[0] >> np.uint64(1))
    if device.type == "cpu":
        # torch.manual_seed would also note, with a stack trace, what to tell CUDA should it ever begin: 4 ms a step.
        torch.default_generator.manual_seed(number)
    else:
        torch.manual_seed(number)
