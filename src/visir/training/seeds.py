"""Where torch's randomness of a step comes from: its place in the training, never what ran before."""

from __future__ import annotations

import numpy as np
import torch


def seed_step(seed: int, epoch: int, step: int, batch: int = 0, process: int = 0, chunk: int = 0) -> None:
    """Seed torch's generators (of every device) for one forward pass, so that its dropout can be drawn again.

    All counts are from 0: `step` within the epoch, `batch` within the step (accumulation), `chunk` within this
    process's share of the batch. A training that goes on in the middle of an epoch, and the second pass over a chunk,
    see the masks that they would have seen.
    """
    entropy = np.random.SeedSequence([seed, epoch, step, batch, process, chunk])
    # All the places at once: neighbouring seeds and steps share no streams. Torch takes 63 bits.
    torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> np.uint64(1)))
