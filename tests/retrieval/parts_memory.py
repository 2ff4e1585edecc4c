"""Run as a script: how much memory an index of a folder of parts takes while it is built, in MB. SOURCE PARTS INDEX."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from visir.encoders import Encoder, Parts, encode_parts
from visir.records import vectors as embeddings
from visir.retrieval import build_index

embeddings._BLOCK = 4096  # rows that are checked at once: 65,536 would be a third of these vectors


def image(pictures: list[Any]) -> Any:
    return np.random.default_rng(len(pictures)).standard_normal((len(pictures), 512), np.float32)


def highest() -> int:
    """The highest resident set so far, mapped pages included, in bytes."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


source, parts, index = sys.argv[1:]
encode_parts(Encoder.wrap("wide", image=image, version="1"), source, parts, batch_size=500)
few = next(iter(Parts(parts)))
build_index(few, "exact", f"{index}-few")  # what is imported and compiled once
del few
Path("/proc/self/clear_refs").write_text("5")
before = highest()
built = build_index(Parts(parts), "exact", index)
vectors = sum(path.stat().st_size for path in Path(index).rglob("vectors.npy"))
print(round((highest() - before) / 1e6), round(vectors / 1e6), len(built.ids))  # type: ignore[attr-defined]
