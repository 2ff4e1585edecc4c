"""The study of chapter 3: its tests by SciPy, its tables and plots; and one real study, small."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from scipy.stats import pearsonr, ttest_rel

import visir
from refusals import refused
from sparse_study import (
    EFFECTS,
    SparseStudy,
    VariantResults,
    coactivation,
    cost_and_effect,
    deviation,
    effectiveness,
    faithfulness,
    overlap_histogram,
    sparse_trend_checks,
    study,
    trials_of,
)
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.results import Evaluation
from visir.records import Collection, Embeddings, EncoderCard, SparseEmbeddings, Vocabulary
from visir.reports.plots import to_svg
from visir.sparse.recipe import SparseRecipe
from visir.studies.trial import LOG_FILE
from visir_papers.experiments.train import DEPTH, MEASURES

IMAGES, SIZE = 40, 30
RECIPE: dict[str, Any] = {"name": "small", "encoder": "runs/none", "data": {"collection": "scenes:60?size=64"}}


def collection() -> Collection:
    ids = [f"i{at}" for at in range(IMAGES)]
    captions = {
        "id": [f"{one}#{n}" for one in ids for n in range(2)],
        "text": ["x"] * 2 * IMAGES,
        "image_id": [one for one in ids for _ in range(2)],
    }
    return Collection.build("toy", images={"id": ids}, captions=captions)


def evaluated(whole: Collection, noise: float, seed: int, sparse: bool) -> Evaluation:
    """Captions are their image with noise; the images are the same in every system."""
    same, rng = np.random.default_rng(0), np.random.default_rng(seed)
    images = same.random((IMAGES, SIZE)).astype(np.float32)
    texts = (np.repeat(images, 2, axis=0) + noise * rng.random((2 * IMAGES, SIZE))).astype(np.float32)
    words = Vocabulary("toy", pa.array([f"w{at}" for at in range(SIZE)]), np.ones(SIZE, bool))
    sides: list[Any] = []
    for modality, ids, matrix in (
        ("image", whole.images["id"], images),
        ("text", whole.captions["id"], texts),
    ):
        if sparse:
            some = csr_array(np.where(matrix > 0.6, matrix, 0))
            sides.append(SparseEmbeddings.from_scipy(modality, ids, some, words, EncoderCard("s", "sparse")))  # type: ignore[arg-type]
        else:
            sides.append(Embeddings(modality, ids, matrix, EncoderCard("dense", "imported")))  # type: ignore[arg-type]
    return visir.evaluate(whole, sides, measures=MEASURES, depth=DEPTH)


FLOPS: Mapping[str, float] = {"none": 2.0, "free": 90.0, "caption": 9.0}
EXACT: Mapping[str, float] = {"none": 0.3, "free": 0.02, "caption": 0.2}


@pytest.fixture(scope="module")
def found() -> SparseStudy:
    """Three variants, two seeds; what they say and cost is made up, what they find is searched."""
    whole = collection()
    models = {}
    for variant, noise in (("none", 4.0), ("caption", 1.5), ("free", 0.8)):
        rng = np.random.default_rng(len(variant))
        exact = [EXACT[variant] + 0.01 * rng.random(2 * IMAGES) for _ in range(2)]
        models[variant, 1e-3] = VariantResults(
            variant,
            1e-3,
            [evaluated(whole, noise, seed, sparse=True) for seed in (1, 2)],
            [
                {
                    "flops": FLOPS[variant] + seed,
                    "text terms": 5.0,
                    "image terms": 7.0,
                    "images": IMAGES,
                    "longest image lists": [["w0", 30]],
                    "static vectors": "toy table",
                }
                for seed in (0, 1)
            ],
            [pa.table({"exact@20": one, "semantic@20": one + 0.4}) for one in exact],
        )
    return SparseStudy("toy", evaluated(whole, 1.5, 3, sparse=False), models, [0, 1])


def test_significance_as_the_thesis_and_as_the_house(found: SparseStudy) -> None:
    for (key, measure), p in found.thesis_p.items():
        model = found.models[key]
        mean = np.mean([one.result.values("t2i", measure) for one in model.evaluations], axis=0)
        raw = ttest_rel(mean, found.dense.result.values("t2i", measure)).pvalue
        assert p == pytest.approx(min(1, 9 * raw)), (key, measure)  # three models, three measures
    # Images and trainings are samples too: never surer than captions alone, before correction.
    assert set(found.house_p) == set(found.thesis_p)
    assert found.house_p[("none", 1e-3), "mrr@10"] >= found.thesis_p[("none", 1e-3), "mrr@10"] / 9
    assert found.owners.tolist()[:4] == ["i0", "i0", "i1", "i1"]
    one, other = (found.models[variant, 1e-3].deviation("exact@20").mean(axis=0) for variant in ("caption", "free"))
    assert found.deviation_p(1e-3, "exact@20") == pytest.approx(ttest_rel(one, other).pvalue, abs=1e-12)


def test_one_seed_is_tested_over_images(found: SparseStudy) -> None:
    models = {
        key: VariantResults(one.variant, one.eta, one.evaluations[:1], one.costs[:1], one.captions[:1])
        for key, one in found.models.items()
    }
    single = SparseStudy("toy", found.dense, models, [0])
    assert all(0 < p <= 1 for p in single.house_p.values())
    assert effectiveness(single, None).texts()[1][4] == "2.0"  # no deviation of one


def test_faithfulness(found: SparseStudy) -> None:
    key = ("free", 1e-3)
    for name, rho in found.faithfulness(key).items():
        expected = [
            pearsonr(one.result.values("t2i", name), found.dense.result.values("t2i", name)).statistic
            for one in found.models[key].evaluations
        ]
        assert rho == pytest.approx(expected)
    assert found.overlap(key).shape == (2, 2 * IMAGES)


def test_tables_stand_beside_the_published_ones(found: SparseStudy) -> None:
    table = effectiveness(found)
    rows = {row[0]: row for row in table.texts()}
    assert rows["D2S (BLIP, η=1e-3)"][1:] == ["51.8", "79.3", "63.4", "11.5", "quoted"]
    dense = found.dense.result
    assert rows["dense"][1:] == [*(f"{100 * dense.mean('t2i', one):.1f}" for one in EFFECTS), "–", "visir"]
    ours = rows["D2S (η=1e-3, exp=1)"]
    assert ours[4] == "90.5 ± 0.7"  # 90 and 91: deviation √½
    assert rows["D2S (η=1e-3, exp=0)"][1].endswith("†‡")
    assert any("another collection, other encoders" in note for note in table.notes)
    assert {row[-1] for row in effectiveness(found, None).texts()} == {"visir"}
    assert coactivation(found, None).texts()[0][-2:] == ["75", "visir"]  # 30 of 40 images
    cells = {row[0]: row[1] for row in deviation(found, None).texts()}
    assert cells["D2S (η=1e-3, exp=c)"].endswith("†") and not cells["D2S (η=1e-3, exp=1)"].endswith("†")
    assert "Semantic@20 by toy table" in deviation(found).notes[1]
    assert any("83.0" in note for note in coactivation(found).notes)
    assert len(faithfulness(found, None).rows) == 3


def test_trend_checks_hold_or_do_not(found: SparseStudy) -> None:
    checks = {check.statement: (check.holds, check.numbers) for check in sparse_trend_checks(found)}
    assert checks["η=0.001: free costs most"] == (True, "FLOPs none 2.5, caption 9.5, free 90.5")
    assert checks["η=0.001: none finds least"][0] and checks["η=0.001: free says least"][0]
    swapped = SparseStudy("toy", found.dense, {**found.models, ("none", 1e-3): found.models["free", 1e-3]}, found.seeds)
    assert not {check.statement: check.holds for check in sparse_trend_checks(swapped)}["η=0.001: none costs least"]


def test_plots_are_the_same_bytes_and_name_what_they_show(found: SparseStudy) -> None:
    curves = {"none": [(1e-3, 2.0, 40.0), (1e-5, 3.0, 42.0)], "free": [(1e-3, 50.0, 50.0), (1e-5, 300.0, 55.0)]}
    svg = to_svg(cost_and_effect(curves, 57.0))
    assert svg == to_svg(cost_and_effect(curves, 57.0))
    assert all(f">{word}<" in svg for word in ("none", "free", "dense", "η=1e-3", "η=1e-5", "R@1, text to image, %"))
    shares = found.overlap(("free", 1e-3)).ravel()
    assert f"mean: {100 * shares.mean():.0f} %" in to_svg(overlap_histogram(shares))


def test_trials_of_a_recipe() -> None:
    recipe = SparseRecipe.model_validate(RECIPE)
    trials = trials_of(recipe, ("none", "caption"), (1e-3, 0.0), (0, 5))
    assert [one.name for one in trials[:2]] == ["none/eta0.001/seed0", "caption/eta0.001/seed0"]
    assert len({one.name for one in trials}) == 8
    last = trials[-1].recipe
    assert (last.expansion.variant, last.loss.eta, last.seed) == ("caption", 0.0, 5)
    with refused(ConfigurationError, "variant", "captions", meant="caption", hint=False) as fault:
        trials_of(recipe, ("captions",), (-1.0,), (0, 0))
    assert "η -1.0: 0 or more" in str(fault.value) and "seeds [0, 0]: at least one, each once" in str(fault.value)


@pytest.mark.nightly
def test_a_small_study_really(tmp_path: Path) -> None:
    whole = visir.open("scenes:60?size=64")
    rng = np.random.default_rng(0)
    ids = whole.images["id"].to_pylist()
    images = rng.standard_normal((len(ids), 16)).astype(np.float32)
    rows = [ids.index(one) for one in whole.captions["image_id"].to_pylist()]
    texts = images[rows] + 0.3 * rng.standard_normal((len(rows), 16)).astype(np.float32)
    names = {"image_ids": np.array(ids), "text_ids": np.array(whole.captions["id"].to_pylist())}
    np.savez(tmp_path / "v.npz", image=images, text=texts, **names)
    settings = {
        **RECIPE,
        "encoder": f"npz:{tmp_path / 'v.npz'}",
        "head": {"width": 16},
        "optimiser": {"epochs": 1, "batch": 64},
    }
    recipe = SparseRecipe.model_validate(settings)
    out = tmp_path / "out"
    one = study(recipe, out, variants=("none", "free"), etas=(1e-3,), seeds=(0,), jobs=1)
    # Without expansion a caption has words of its own only, so every active term counts for Exact@20.
    table = one.models["none", 1e-3].captions[0]
    assert table["exact@20"].to_numpy() == pytest.approx(np.minimum(table["terms"].to_numpy(), 20) / 20)
    assert one.models["none", 1e-3].cost("flops")[0] < one.models["free", 1e-3].cost("flops")[0]
    protocol = one.models["none", 1e-3].evaluations[0].result.protocol
    assert protocol.similarity == "dot" and "expansion own terms only" in protocol.text_preprocessing
    assert protocol.vocabulary.startswith("st:all-MiniLM-L6-v2 · 30,522 terms")
    # The encoder itself, through the door, is the same evaluation; and nothing is done again.
    encoder = visir.load(str(out / "none/eta0.001/seed0/checkpoint"))
    again = visir.evaluate(whole, encoder, split="test", measures=MEASURES, depth=DEPTH, name="none/eta0.001/seed0")
    assert again.result.aggregates == one.models["none", 1e-3].evaluations[0].result.aggregates
    assert again.result.protocol.fingerprint == protocol.fingerprint
    log = (out / "none/eta0.001/seed0" / LOG_FILE).stat().st_mtime_ns
    study(recipe, out, variants=("none", "free"), etas=(1e-3,), seeds=(0,), jobs=1)
    assert (out / "none/eta0.001/seed0" / LOG_FILE).stat().st_mtime_ns == log
    other = recipe.model_copy(update={"optimiser": recipe.optimiser.model_copy(update={"epochs": 2})})
    with pytest.raises(VisirError, match=r"holds another trial \(recipe.optimiser.epochs differ\)"):
        study(other, out, variants=("none",), etas=(1e-3,), seeds=(0,))
