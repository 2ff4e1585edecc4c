"""Processor time of a training step, validation figures and a hash of the weights: run it in two versions, in turns.

    python benchmarks/training_steps.py [--seed 0] [--clip FOLDER]

InfoNCE and LTD as a dual loss (a small CNN and a GRU with heads, from nothing), D2S over what InfoNCE trained, and with
`--clip` the tuning of a CLIP (`benchmarks/random_models.py clip-vit-base-patch32 FOLDER --small`), on 400 generated
scenes: 25 steps of 64 pairs an epoch. A step is the median epoch after the first, its validation included, over 25.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import visir

DATA, STEPS, BATCH = "scenes:400?size=64", 25, 64


def measured(name: str, train: Callable[..., Any], out: Path, **given: Any) -> None:
    """Train, and print a row."""
    marks: list[float] = []
    run = train(data=DATA, out=out, batch=BATCH, report=lambda _: marks.append(time.process_time()), **given)
    step = 1000 * statistics.median(end - begin for begin, end in pairwise(marks)) / STEPS
    files = sorted(out.glob("*.safetensors"))
    weights = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    print(f"{name}: {step:.1f} ms a step; weights {weights}; {run.validation}", flush=True)


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clip")
    options = parser.parse_args()
    torch.set_num_threads(1)
    small, seed = {"image.width": 8}, options.seed
    dual = {**small, "auxiliary.ltd.join": "dual", "auxiliary.ltd.beta": 1.0}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        measured("InfoNCE", visir.train, out / "infonce", recipe="scenes-vse", epochs=4, seed=seed, set=small)
        measured("LTD", visir.train, out / "ltd", recipe="scenes-vse", epochs=4, seed=seed, set=dual)
        dense = str(out / "infonce")
        measured("D2S", visir.sparsify, out / "d2s", model=dense, recipe="sparse-scenes", epochs=6, seed=seed)
        if options.clip:
            clip = {"model": options.clip, "recipe": "clip-finetune", "epochs": 4}
            measured("CLIP", visir.train, out / "clip", seed=seed, **clip)


if __name__ == "__main__":
    main()
