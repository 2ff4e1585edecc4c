"""Ranks over candidates of other splits, beside a count one by one: copies of images, and equal scores."""

from __future__ import annotations

import numpy as np
import pytest

import visir
from visir.evaluation.explaining.bench import Bench
from visir.evaluation.explaining.material import Material
from visir.evaluation.explaining.reading import Reading
from visir.evaluation.explaining.similarities import scores
from visir.records import Collection, Embeddings

IMAGES, DIMENSIONS = 60, 16
_RNG = np.random.default_rng(0)
IDS = [f"i{number:02d}" for number in _RNG.permutation(IMAGES)]
SPLIT = np.where(_RNG.random(IMAGES) < 0.5, "test", "val")
OWNER = np.repeat(np.arange(IMAGES), _RNG.integers(1, 5, IMAGES))
NTH = np.concatenate([np.arange(count) for count in np.bincount(OWNER)])
IMAGE_CODES = np.sign(_RNG.normal(size=(IMAGES, DIMENSIONS)))
TEXT_CODES = np.sign(IMAGE_CODES[OWNER] + 1.5 * _RNG.normal(size=(len(OWNER), DIMENSIONS)))
TEXT_IDS = [f"{IDS[owner]}#{nth}" for owner, nth in zip(OWNER, NTH, strict=True)]
COLLECTION = Collection.build(
    "codes",
    images={"id": IDS, "split": SPLIT.tolist()},
    captions={"id": TEXT_IDS, "text": TEXT_IDS, "image_id": [IDS[owner] for owner in OWNER]},
)
VECTORS = (Embeddings.of(IDS, IMAGE_CODES), Embeddings.of(TEXT_IDS, TEXT_CODES, modality="text"))


def _one_by_one(queries_of: str, candidates_of: tuple[str, ...], copies: str | None) -> list[int]:
    """The rank of the right image of each caption: equal scores by id, each copy of an image one candidate."""
    candidates = [image for image in range(IMAGES) if SPLIT[image] in candidates_of]
    ranks = []
    for caption in np.flatnonzero(SPLIT[OWNER] == queries_of):
        score = IMAGE_CODES @ TEXT_CODES[caption]
        own = OWNER[caption]
        counts = np.bincount(OWNER) if copies else np.ones(IMAGES, int)
        before = sum(counts[i] for i in candidates if (-score[i], IDS[i]) < (-score[own], IDS[own]))
        ranks.append(before + 1 + {"own": NTH[caption], "last": counts[own] - 1}.get(copies or "", 0))
    return ranks


@pytest.mark.parametrize("copies", [None, "any", "own", "last"])
@pytest.mark.parametrize(
    ("choices", "queries_of", "candidates_of"),
    [({}, "test", ("test",)), ({"split": "val"}, "val", ("val",)), ({"gallery": "with val"}, "test", ("test", "val"))],
)
def test_copies_and_equal_scores(
    choices: dict[str, str], queries_of: str, candidates_of: tuple[str, ...], copies: str | None
) -> None:
    result = visir.evaluate(COLLECTION, VECTORS, split="test")
    reading = Reading.of(**choices, **({"copies": copies} if copies else {}))
    ranks = Bench(Material.of(result, VECTORS, COLLECTION)).ranks("t2i", reading)
    assert ranks.lowest.tolist() == ranks.highest.tolist() == _one_by_one(queries_of, candidates_of, copies)


def test_signs_of_equally_many_alike_have_one_score() -> None:
    rng = np.random.default_rng(1)
    images, texts = (rng.normal(size=(count, 37)).astype(np.float32) for count in (300, 40))
    alike = np.sign(texts).astype(int) @ np.sign(images).astype(int).T
    assert scores(images, texts, "signs", "t2i").tolist() == alike.tolist()
