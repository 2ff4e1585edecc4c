"""Draws of evaluations and of stress studies, against the values themselves and against other resamplings."""

from __future__ import annotations

import numpy as np
import pytest

from visir.evaluation.evaluate import evaluate
from visir.evaluation.published import PublishedRow
from visir.evaluation.stress.effect import GROUPS, jaccard
from visir.records import Collection, Embeddings, EncoderCard, Result
from visir.stats.means import mean_interval
from visir_papers.draws import unit_means
from visir_papers.published_values import query_draws, values_of


def evaluated(seed: int, noise: float, *, alike: bool = False) -> Result:
    """200 images with three captions each; vectors that are right but for noise, which captions can share."""
    rng = np.random.default_rng(seed)
    images = [f"i{number:03d}" for number in range(200)]
    captions = [f"{image}#{number}" for image in images for number in range(3)]
    collection = Collection.build(
        "toy",
        images={"id": images},
        captions={"id": captions, "text": captions, "image_id": np.repeat(images, 3).tolist()},
    )
    base = rng.normal(size=(200, 16))
    off = np.repeat(rng.normal(size=(200, 16)), 3, axis=0) if alike else rng.normal(size=(600, 16))
    said = np.repeat(base, 3, axis=0) + noise * off
    card = EncoderCard("unit", "imported")
    pair = tuple(
        Embeddings(kind, ids, (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), card)  # type: ignore[arg-type]
        for kind, ids, rows in (("image", images, base), ("text", captions, said))
    )
    return evaluate(collection, pair, depth=10).result


def test_draws_surround_the_values_that_they_are_of() -> None:
    result = evaluated(0, 1.5)
    values, draws = values_of(result.aggregates, None), query_draws(result, None)
    assert set(draws) == set(values) and "both rsum" in draws
    for label, value in values.items():
        assert draws[label].mean() == pytest.approx(value, abs=3 * draws[label].std() / 1000**0.5 + 1e-9), label
    np.testing.assert_allclose(draws["both rsum"], draws["i2t rsum"] + draws["t2i rsum"])
    np.testing.assert_allclose(draws["i2t rsum"], sum(draws[f"i2t R@{k}"] for k in (1, 5, 10)))
    hits = 100 * result.values("t2i", "hit@1")
    low, high = mean_interval(hits, np.repeat(np.arange(200), 3))
    assert tuple(np.quantile(draws["t2i R@1"], [0.025, 0.975])) == (
        pytest.approx(low, abs=1),
        pytest.approx(high, abs=1),
    )


def test_captions_are_drawn_with_their_image() -> None:
    # Three captions with one vector: an image has all of them right, or none. 200 images are drawn, not 600 captions.
    result = evaluated(0, 1.5, alike=True)
    draws = query_draws(result, None)
    right = result.mean("t2i", "hit@1")
    assert 0.2 < right < 0.8
    assert draws["t2i R@1"].std() == pytest.approx(100 * (right * (1 - right) / 200) ** 0.5, rel=0.1)


def test_draws_of_two_systems_on_the_same_images_are_paired() -> None:
    first, second = (query_draws(evaluated(0, noise), None)["t2i R@1"] for noise in (1.5, 1.6))
    assert np.corrcoef(first, second)[0, 1] > 0.5
    assert (first - second).std() < (first - np.random.default_rng(0).permutation(second)).std()


def test_draws_have_the_units_of_the_published_row() -> None:
    row = PublishedRow("ours", {"i2t": {"R@1": 50.0, "R-P": 0.4}})
    draws = query_draws(evaluated(0, 1.5), row)
    assert set(draws) == {"i2t R@1", "i2t R-P"}
    assert draws["i2t R@1"].mean() > 1 > draws["i2t R-P"].mean()


def test_the_similarity_of_drawn_sets_is_that_of_the_draw() -> None:
    """Every caption on its own: the weighted shares of `jaccard_draws` are those of sets that are really drawn."""
    from types import SimpleNamespace

    from visir_papers.experiments.stress import jaccard_draws, rsum_draws

    rng = np.random.default_rng(0)
    before = rng.choice([0.0, 100, 200, 300], size=60)
    after = {name: rng.choice([0.0, 100, 200, 300], size=60) for name in ("typo", "synonym", "order")}
    ids = [f"c{number:02d}" for number in range(60)]
    effects = [
        SimpleNamespace(name=name, before=before, after=values, outcome=SimpleNamespace(task="t2i"),
                        queries=SimpleNamespace(to_pylist=lambda: ids))
        for name, values in after.items()
    ]  # fmt: skip
    study = SimpleNamespace(effects=effects, images={caption: caption for caption in ids})
    draws = jaccard_draws(study)  # type: ignore[arg-type]
    times = unit_means(ids, {caption: np.eye(60)[:, place] for place, caption in enumerate(ids)})
    for number in range(3):
        drawn = np.repeat(np.arange(60), [round(60 * times[caption][number]) for caption in ids])
        assert len(drawn) == 60
        again = jaccard({name: (values - before)[drawn] for name, values in after.items()})
        for group in GROUPS:
            assert draws[group][number] == pytest.approx(again.mean(group))
    rsums = rsum_draws(study)  # type: ignore[arg-type]
    assert rsums["typo"][number] == pytest.approx(after["typo"][drawn].mean())
    assert set(rsums) == {"rsum", *after}
