"""Ranks over candidates of other splits, beside a count one by one: copies of images, and equal scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix

import visir
from refusals import refused
from visir.errors import VisirError
from visir.evaluation.explaining.readings import BY_NAME, Reading
from visir.evaluation.explaining.search import Bench
from visir.evaluation.explaining.world import Material, NotComputable
from visir.records import Collection, Embeddings, EncoderCard, SparseEmbeddings, Vocabulary, strings

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
    assert BY_NAME["similarity"]["signs"].do(texts, images, "t2i").tolist() == alike.tolist()


def test_of_a_run_from_elsewhere_the_candidates_are_those_of_the_result() -> None:
    ours = visir.evaluate(COLLECTION, VECTORS, split="test", depth=5).runs["t2i"]
    listed = {query: dict(ours[query]) for query in ours.queries.to_pylist()}
    result = visir.evaluate(COLLECTION, {"t2i": listed}, split="test", similarity="cosine")
    assert result.runs["t2i"].gallery.ids == ours.gallery.ids
    bench = Bench(Material.of(result, None, COLLECTION))
    images = int((SPLIT == "test").sum())
    assert bench.part("t2i", Reading()).sizes == (images,)
    ranks = bench.ranks("t2i", Reading())  # behind the end of a list of five, a rank is known within bounds only
    assert np.isinf(ranks.highest).any() and not np.isinf(ranks.lowest).any()
    printed = {"t2i R@1": f"{100 * result['t2i R@1']:.2f}", "t2i R@5": f"{100 * result['t2i R@5']:.2f}"}
    assert f"over all {images} images reproduces 2 of 2" in visir.explain(result, printed, source=COLLECTION).sentence
    at = Bench(Material.of(result, VECTORS, COLLECTION)).ranks("t2i", Reading.of(similarity="dot"))
    assert at.sizes == (images,) and at.lowest.tolist() == _one_by_one("test", ("test",), None)


def test_a_collection_without_splits_is_at_hand() -> None:
    whole = Collection.build("whole", images={"id": IDS}, captions=COLLECTION.captions.to_pydict())
    found = visir.explain(visir.evaluate(whole, VECTORS), {"t2i R@1": "12.34"}, source=whole, vectors=VECTORS)
    reasons = dict(found.not_computable)
    assert reasons["the val split"] == "the collection at hand has no split 'val'"
    assert found.verdict == "none" and "give the collection" not in found.sentence


def test_equal_scores_are_the_reason_and_not_the_depth() -> None:
    same = tuple(Embeddings.of(part.ids, np.ones((len(part), 4)), modality=part.modality) for part in VECTORS)
    found = visir.explain(
        visir.evaluate(COLLECTION, same, split="test"), {"t2i R@1": "12.34"}, source=COLLECTION, vectors=same
    )
    reason = dict(found.not_computable)["equal scores in any order, as numerical noise puts them"]
    assert reason.startswith("so many scores are equal") and "give the collection" not in found.sentence


def test_the_whole_collection_in_place_of_a_split() -> None:
    whole, own = visir.evaluate(COLLECTION, VECTORS), visir.evaluate(COLLECTION, VECTORS, split="test")
    printed = {f"{task} R@{k}": f"{100 * whole[f'{task} R@{k}']:.2f}" for task in ("t2i", "i2t") for k in (1, 5, 10)}
    found = visir.explain(own, printed, source=COLLECTION, vectors=VECTORS)
    assert found.verdict == "named" and found.best.reading["split"] == "all" and f"{IMAGES} images" in found.sentence
    back = visir.explain(whole, printed, source=COLLECTION, vectors=VECTORS)
    assert back.best.reading.departures == 0
    folder = dict(visir.explain(own, {"t2i R@1": "12.34"}).not_computable)
    assert "give the collection" in folder["the whole collection, all splits together"]


def test_the_mean_is_over_judged_queries() -> None:
    """Of a third of the captions, a second image is right as well; the others are not judged."""
    rng = np.random.default_rng(2)
    chosen = [caption for caption in np.flatnonzero(SPLIT[OWNER] == "test") if rng.random() < 0.4]
    others = rng.choice(np.flatnonzero(SPLIT == "test"), len(chosen))
    pairs = sorted({(TEXT_IDS[c], IDS[i]) for c, o in zip(chosen, others, strict=True) for i in (OWNER[c], o)})
    table = {
        "relevance": ["few"] * len(pairs),
        "task": ["both"] * len(pairs),
        "caption_id": [caption for caption, _ in pairs],
        "image_id": [image for _, image in pairs],
        "grade": pa.array(np.ones(len(pairs), np.float32)),
    }
    judged = COLLECTION.with_judgements(pa.table(table))
    result = visir.evaluate(judged, VECTORS, split="test", relevance="few")
    printed = {f"{task} R@{k}": f"{100 * result[f'{task} R@{k}']:.2f}" for task in ("t2i", "i2t") for k in (1, 5)}
    for more in ({}, {"source": judged, "vectors": VECTORS}):
        found = visir.explain(result, printed, **more)  # type: ignore[arg-type]
        assert found.best.reading.departures == 0 and found.best.reproduced == 4 and found.verdict == "named"
    bench = Bench(Material.of(result, VECTORS, judged))
    assert len(bench.part("t2i", Reading()).queries) == len(chosen)
    with pytest.raises(NotComputable, match="judgements of the result are of its own split"):
        bench.part("t2i", Reading.of(split="val"))


def test_images_without_captions_are_candidates_and_no_queries() -> None:
    lonely = [f"z{number}" for number in range(7)]
    more = Collection.build(
        "lonely",
        images={"id": [*IDS, *lonely], "split": [*SPLIT.tolist(), *["test"] * 7]},
        captions=COLLECTION.captions.to_pydict(),
    )
    vectors = (
        Embeddings.of([*IDS, *lonely], np.concatenate([IMAGE_CODES, -IMAGE_CODES[:7]])),
        VECTORS[1],
    )
    result = visir.evaluate(more, vectors, split="test")
    printed = {f"{task} R@{k}": f"{100 * result[f'{task} R@{k}']:.2f}" for task in ("t2i", "i2t") for k in (1, 5)}
    found = visir.explain(result, printed, source=more, vectors=vectors)
    assert found.best.reading.departures == 0 and found.best.reproduced == 4
    other = visir.explain(result, {"t2i R@1": "98.76", "i2t R@1": "98.76"}, source=more, vectors=vectors)
    assert other.verdict == "none"  # every reading is tried, those too that take captions for other images'


def test_a_second_stage_is_not_left_out() -> None:
    own = visir.evaluate(COLLECTION, VECTORS, split="test")
    first = Material.of(own)
    runs = {task: replace(run, provenance={**run.provenance, "rerank": "x"}) for task, run in first.runs.items()}
    with refused(VisirError, code="run-re-ranked"):
        visir.explain(replace(first, runs=runs), {"t2i R@1": "12.3"}, source=COLLECTION, vectors=VECTORS)


def _sparse(images: np.ndarray, texts: np.ndarray, split: str | None = None) -> tuple[SparseEmbeddings, ...]:
    """The positive parts of codes as weighted words, of a split or of the whole collection."""
    words = Vocabulary("words", strings([f"w{number}" for number in range(DIMENSIONS)]), np.ones(DIMENSIONS, bool))
    card = EncoderCard("sparse", "vectors")
    sides = (("image", IDS, images, SPLIT), ("text", TEXT_IDS, texts, SPLIT[OWNER]))
    return tuple(
        SparseEmbeddings.from_scipy(
            modality,  # type: ignore[arg-type]
            [ids[row] for row in np.flatnonzero((of == split) | (split is None))],
            csr_matrix(np.maximum(codes[(of == split) | (split is None)], 0)),
            words,
            card,
        )
        for modality, ids, codes, of in sides
    )


def test_sparse_vectors_of_the_split_and_of_another_model() -> None:
    whole = _sparse(IMAGE_CODES, TEXT_CODES)
    result, val = (visir.evaluate(COLLECTION, whole, split=split) for split in ("test", "val"))
    printed = {f"{task} R@{k}": f"{100 * val[f'{task} R@{k}']:.2f}" for task in ("t2i", "i2t") for k in (1, 5, 10)}
    assert visir.explain(result, printed, source=COLLECTION, vectors=whole).best.reading["split"] == "val"
    own = visir.explain(result, printed, source=COLLECTION, vectors=_sparse(IMAGE_CODES, TEXT_CODES, "test"))
    assert own.verdict == "none" and "are not at hand" in dict(own.not_computable)["the val split"]
    with refused(VisirError, code="best-answers-other-scores"):
        visir.explain(result, printed, source=COLLECTION, vectors=_sparse(3 * IMAGE_CODES, TEXT_CODES))
    with pytest.raises(VisirError, match="of its images are not at hand"):
        visir.explain(result, printed, source=COLLECTION, vectors=_sparse(IMAGE_CODES, TEXT_CODES, "val"))
