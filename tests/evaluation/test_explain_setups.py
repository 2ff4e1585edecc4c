"""The wrong set-ups of the benchmark on vectors that are drawn: named where they can be, and never falsely."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluation_toys import embed, make_collection

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from explain_setups import SETUPS, run

FOLDER = (
    "nothing is wrong", "first caption", "share of the right ones", "all right ones", "mean over folds",
    "directions swapped", "fractions for percent", "captions shuffled", "ranks from 0", "ties average",
)  # fmt: skip
RIGHT = ("first", "among several")
VECTORS = ("val for test", "dot for cosine")


@pytest.mark.nightly
def test_wrong_set_ups_are_named_and_never_falsely() -> None:
    images, captions = 600, 5
    collection = make_collection(images, captions)
    splits = np.repeat(["test", "val", "train"], images // 3).tolist()
    collection = replace(collection, images=collection.images.set_column(3, "split", [splits]))
    random = np.random.default_rng(4)
    vectors = random.normal(size=(images, 64)) + 0.4
    texts = np.repeat(vectors, captions, axis=0) + 2.2 * random.normal(size=(images * captions, 64))
    texts *= random.uniform(0.5, 2, (len(texts), 1))
    vectors *= random.uniform(0.5, 2, (images, 1))
    pair = (embed("image", collection.images["id"].to_pylist(), vectors),
            embed("text", collection.captions["id"].to_pylist(), texts))  # fmt: skip
    for names, way in ((FOLDER, "folder"), (VECTORS, "vectors")):
        setups = [setup for setup in SETUPS if setup.name in names]
        outcomes = run(setups, (collection, *pair), ways=[way], show=lambda line: None)
        assert {name: ways[way] for name, ways in outcomes.items() if ways[way] not in RIGHT} == {}
