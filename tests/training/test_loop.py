"""The loop: what is planted is learnt, every option does what it says, and what cannot be computed is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from planted import IMAGE, TEXT, objective, planted, recipe, towers
from torch import Tensor, nn

from refusals import refused
from visir.encoders.models.towers import TowersEncoder
from visir.encoders.towers.base import Backbone, Head, HeadSpec, Inputs, Tower, TowerReader
from visir.encoders.towers.gru import GRUBackbone, WordVocabulary
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.encoders.towers.resnet import ResNetBackbone
from visir.errors import ConfigurationError, EncoderError
from visir.records import Modality
from visir.training.inputs import EpochRandom, TrainingExamples, VectorSource
from visir.training.learner import DualEncoder
from visir.training.loop import FitResult, TrainingError, fit
from visir.training.optimiser import BatchStatistics, build_optimiser
from visir.training.processes import Processes, Share, steps_of_epoch, steps_per_epoch
from visir.training.recipe import Optimiser, Recipe
from visir.training.trained import STEPS_FILE, read_steps

TRAIN, VALIDATION = planted(120, seed=1, views=2), planted(60, seed=2)
MLP = {"hidden": (32,), "dropout": 0.2}
SHORT = {"epochs": 3, "batch": 64, "rate": 0.01}


def trained(settings: Recipe, train: TrainingExamples = TRAIN, **options: Any) -> FitResult[DualEncoder]:
    return fit(settings, DualEncoder(towers(**MLP), objective(settings)), train, VALIDATION, **options)


def same_bits(one: FitResult[DualEncoder], other: FitResult[DualEncoder]) -> bool:
    pairs = [
        (value, other.learner.towers[side].state_dict()[name])
        for side, tower in one.learner.towers.items()
        for name, value in tower.state_dict().items()
    ]
    return all(torch.equal(a, b) for a, b in pairs) and losses(one) == losses(other)


def losses(fitted: FitResult[DualEncoder]) -> list[tuple[dict[str, float], dict[str, float]]]:
    return [(epoch.losses, epoch.validation) for epoch in fitted.curve]


def test_a_planted_linear_map_is_learnt() -> None:
    settings = recipe()
    fitted = fit(settings, DualEncoder(towers(), objective(settings)), planted(300, seed=1), VALIDATION)
    found = fitted.curve[fitted.chosen - 1].validation
    assert found["i2t hit@1"] == found["t2i hit@1"] == 100.0
    assert found["rsum"] == 600.0
    # The first epoch to get there is kept, not a later equal one.
    assert fitted.chosen == 1 + [epoch.validation["rsum"] for epoch in fitted.curve].index(600.0)
    assert not any(tower.training for tower in fitted.learner.towers.values())


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    settings = recipe(optimiser=SHORT)
    one = trained(settings)
    torch.rand(3)  # whatever else draws from torch's generator meanwhile
    assert same_bits(one, trained(settings))
    assert not same_bits(one, trained(recipe(optimiser=SHORT, seed=1)))


def test_the_seed_of_a_training_is_that_of_its_dropout() -> None:
    # Pairs that are all alike: no order of them makes a difference, only what is dropped does.
    one = np.ones((1, 40, IMAGE), np.float32), np.ones((1, 40, TEXT), np.float32)
    alike = TrainingExamples(*map(VectorSource, one), np.arange(40), [f"c{row}" for row in range(40)], {})

    def curve(seed: int, dropout: float) -> list[float]:
        settings = recipe(optimiser={"epochs": 2, "batch": 40}, seed=seed)
        learner = DualEncoder(towers(hidden=(32,), dropout=dropout), objective(settings))
        return [epoch.losses["loss"] for epoch in fit(settings, learner, alike, VALIDATION).curve]

    assert curve(1, 0.0) == pytest.approx(curve(2, 0.0))
    assert curve(1, 0.5) == curve(1, 0.5)
    assert abs(curve(1, 0.5)[0] - curve(2, 0.5)[0]) > 1e-3
    assert curve(1, 0.5)[0] != pytest.approx(curve(0, 0.5)[0])


def test_training_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    trained(recipe(optimiser={"epochs": 1}))
    assert torch.equal(torch.rand(1), expected)


def test_an_epoch_reports_means_over_its_captions(tmp_path: Path) -> None:
    settings = recipe(optimiser={**SHORT, "batch": 50}, auxiliary={"ltd": {"hidden": 8}})
    fitted = trained(settings, planted(120, seed=1, targets=True), folder=tmp_path)
    steps = list(read_steps(tmp_path / STEPS_FILE))
    assert [one.step for one in steps] == list(range(1, 16)) and [one.epoch for one in steps] == [1] * 5 + [2] * 5 + [
        3
    ] * 5
    for epoch in fitted.curve:
        own = [one for one in steps if one.epoch == epoch.epoch]
        for name in ("loss", "contrastive", "ltd"):  # 240 captions in 5 batches of 48
            assert epoch.losses[name] == pytest.approx(sum(one.losses[name] for one in own) / 5)
    # λ before its first step is 1; an epoch tells what it came to.
    assert steps[0].facts["ltd multiplier"] == 1.0
    assert steps[5].facts["ltd multiplier"] == fitted.curve[0].facts["ltd multiplier"] != 1.0
    loss = steps[0].losses
    assert loss["loss"] == pytest.approx(loss["contrastive"] + 1.0 * (loss["ltd"] / 0.2 - 1))


def test_steps_take_every_batch_once_and_chunks_every_caption() -> None:
    steps = steps_of_epoch(100, 8, 3, seed=0, epoch=4)  # 13 batches in 5 steps
    assert [len(batches) for batches in steps] == [3, 3, 3, 2, 2] and len(steps) == steps_per_epoch(100, 8, 3)
    rows = [share for batches in steps for share in batches]
    assert sorted(np.concatenate(rows).tolist()) == list(range(100))
    shares = [Share.of(rows[0], process=rank, processes=3, chunk=2) for rank in range(3)]
    assert np.array_equal(np.concatenate([part for share in shares for part in share.chunks]), rows[0])
    assert shares[0].sizes == (3, 3, 2) and [len(part) for part in shares[0].chunks] == [2, 1]
    nobody = Share.of(rows[0][:1], process=2, processes=3)
    assert nobody.own == 0 and nobody.chunks[0].tolist() == rows[0][:1].tolist() and nobody.sizes == (1, 0, 0)


def test_accumulation_is_the_mean_gradient_of_batches_that_contrast_within_themselves() -> None:
    # The negative cosine has no negatives, so two batches of 60 accumulated are one batch of 120: the same weights.
    first, second = (
        fit_linear({"batch": batch, "accumulate": n}, {"name": "cosine"}) for batch, n in ((120, 1), (60, 2))
    )
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-6)
    # InfoNCE does: over the union it is another loss.
    apart, union = fit_linear({"batch": 60, "accumulate": 2}), fit_linear({"batch": 120})
    assert float((apart - union).abs().max()) > 1e-4


def fit_linear(optimiser: dict[str, Any], loss: dict[str, Any] | None = None) -> Tensor:
    settings = recipe(optimiser={**SHORT, **optimiser}, objective=loss or {"name": "infonce"})
    fitted = fit(settings, DualEncoder(towers(), objective(settings)), TRAIN, VALIDATION)
    return torch.cat([one.detach().flatten() for one in fitted.learner.towers["image"].parameters()])


@pytest.mark.parametrize("name", ["adamw", "adam", "adamp"])
def test_every_optimiser_learns(name: str) -> None:
    fitted = trained(recipe(optimiser={**SHORT, "name": name, "epochs": 4, "decay": 0.0}))
    assert fitted.curve[-1].losses["loss"] < 0.5 * fitted.curve[0].losses["loss"]


def test_groups_have_their_side_s_rate_and_only_matrices_decay() -> None:
    settings = Optimiser(rate=0.01, decay=0.1)
    parts: dict[str, nn.Module] = {**towers(hidden=(8,)), "objective": nn.ParameterList([torch.tensor(1.0)])}
    optimiser = build_optimiser(parts, settings, {"text": 0.5})
    found = [(group["peak"], group["weight_decay"], len(group["params"])) for group in optimiser.param_groups]
    # A hidden layer and an output layer: two matrices; two biases and the layer norm's two vectors.
    assert found == [(0.01, 0.1, 2), (0.01, 0.0, 4), (0.5, 0.1, 2), (0.5, 0.0, 4), (0.01, 0.0, 1)]
    # What two parts share is moved once, at the first one's rate.
    shared = build_optimiser({"image": parts["image"], "text": parts["image"]}, settings, {"text": 0.5})
    assert [group["peak"] for group in shared.param_groups] == [0.01, 0.01]


def test_a_side_of_almost_no_rate_stays_almost_where_it_was() -> None:
    before = towers(**MLP)["text"].head.state_dict()
    after = trained(recipe(optimiser=SHORT, text={"rate": 1e-12}, selection={"keep": "last"})).learner.towers
    assert float((after["text"].head.state_dict()["layers.0.weight"] - before["layers.0.weight"]).abs().max()) < 1e-6
    moved = after["image"].head.state_dict()["layers.0.weight"] - towers(**MLP)["image"].head.layers[0].weight
    assert float(moved.detach().abs().max()) > 1e-3


def test_clipping_scales_down_what_is_too_long_and_nothing_else(tmp_path: Path) -> None:
    free = trained(recipe(optimiser={**SHORT, "clip": None}))
    assert same_bits(free, trained(recipe(optimiser={**SHORT, "clip": 1e6})))
    assert not same_bits(free, trained(recipe(optimiser={**SHORT, "clip": 1e-3})))


def test_patience_stops_early_and_last_keeps_the_last() -> None:
    settings = {"epochs": 12, "batch": 64, "rate": 0.01}
    early = trained(recipe(optimiser=settings, selection={"patience": 2}))
    assert len(early.curve) == early.chosen + 2 < 12
    last = trained(recipe(optimiser=settings, selection={"keep": "last"}))
    assert last.chosen == len(last.curve) == 12 and last.facts == last.curve[-1].facts
    assert not same_bits(early, last)


def test_the_average_is_validated_and_kept_and_training_goes_on_without_it() -> None:
    plain, averaged = (
        trained(recipe(optimiser=SHORT, selection={"keep": "last"}, averaging={"snapshots": count, "share": 1.0}))
        for count in (0, 4)
    )
    # The same steps were made …
    assert [epoch.losses for epoch in plain.curve] == [epoch.losses for epoch in averaged.curve]
    # … but other weights kept: of one snapshot, after the last step, they are the plain ones.
    assert not same_bits(plain, averaged)
    one = trained(recipe(optimiser=SHORT, selection={"keep": "last"}, averaging={"snapshots": 1}))
    assert same_bits(plain, one)


class Trunk(Backbone):
    """A "pretrained" network of vectors, batch norm and all, with one layer that is not."""

    kind: ClassVar[str] = "trunk"
    outputs = 12

    def __init__(self, modality: Modality, inputs: int) -> None:
        super().__init__(TowerReader(self.kind, modality, list, lambda prepared: torch.stack(list(prepared)), dict))
        self.trunk = nn.Sequential(nn.Linear(inputs, 12), nn.BatchNorm1d(12), nn.Dropout(0.5))
        self.fresh = nn.Linear(12, 12)

    def forward(self, inputs: Inputs) -> Tensor:
        result: Tensor = self.fresh(self.trunk(inputs))
        return result

    def spec(self) -> dict[str, Any]:
        return {"modality": self.modality, "inputs": self.trunk[0].in_features}

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        return cls(spec["modality"], spec["inputs"])

    def pretrained_modules(self) -> Sequence[nn.Module]:
        return [self.trunk]


def trunks() -> dict[Modality, Tower]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {
            "image": Tower(Trunk("image", IMAGE), Head(HeadSpec(12, 16))),
            "text": Tower(Trunk("text", TEXT), Head(HeadSpec(12, 16))),
        }


def test_what_came_trained_is_frozen_in_the_first_phase_and_tuned_in_the_second(tmp_path: Path) -> None:
    settings = recipe(optimiser=SHORT, schedule={"frozen_epochs": 2, "warmup": 0}, selection={"keep": "last"})
    sides = trunks()
    before = {name: one.clone() for name, one in sides["image"].state_dict().items()}
    frozen: list[bool] = []
    trained_too: list[bool] = []

    def look(_: object) -> None:
        now = sides["image"].state_dict()
        frozen.append(all(torch.equal(now[name], before[name]) for name in now if ".trunk." in name))
        trained_too.append(not torch.equal(now["backbone.fresh.weight"], before["backbone.fresh.weight"]))

    fit(settings, DualEncoder(sides, objective(settings)), TRAIN, VALIDATION, folder=tmp_path, report=look)
    assert frozen == [True, True, False]  # weights and statistics of batch norm alike
    assert trained_too == [True, True, True]
    assert all(one.requires_grad for one in sides["image"].parameters())
    rates = [one.learning_rate for one in read_steps(tmp_path / STEPS_FILE)]
    assert rates[0] == 0.01 and rates[8] == pytest.approx(0.001)  # 4 steps an epoch; tuned at a tenth


def test_frozen_throughout_it_is_never_tuned() -> None:
    settings = recipe(optimiser=SHORT, schedule={"frozen_epochs": 3})
    after = (
        fit(settings, DualEncoder(trunks(), objective(settings)), TRAIN, VALIDATION)
        .learner.towers["image"]
        .state_dict()
    )
    assert all(torch.equal(one, after[name]) for name, one in trunks()["image"].state_dict().items() if "trunk" in name)


def test_batch_norm_is_refused_where_it_would_see_part_of_the_batch() -> None:
    def refusal(settings: Recipe, processes: Processes, captions: int = 240) -> str:
        with pytest.raises(ConfigurationError) as caught:
            BatchStatistics(nn.ModuleDict(dict(trunks())), settings, processes, captions)
        return str(caught.value)

    alone, pair = Processes(0, 1, torch.device("cpu")), Processes(0, 2, torch.device("cpu"))
    chunked = recipe(optimiser={"chunk": 16})
    text = refusal(chunked, alone)
    assert (
        "image.backbone.trunk.1" in text and "16 captions instead of 64" in text and "leave optimiser.chunk out" in text
    )
    assert "in 2 processes on the CPU" in refusal(recipe(), pair)
    several = Processes(0, 64, torch.device("cuda", 0))
    assert "batches of at least 64 captions" in refusal(recipe(), several, 240)
    with refused(ConfigurationError, code="towers-batch-norm-statistics"):
        fit(chunked, DualEncoder(trunks(), objective(chunked)), TRAIN, VALIDATION)
    # A batch norm that never sees a batch may stand.
    BatchStatistics(nn.ModuleDict(dict(trunks())), recipe(schedule={"frozen_epochs": 12}), pair, 240)
    BatchStatistics(nn.ModuleDict(dict(trunks())), recipe(optimiser={"chunk": 64}), alone, 240)


def test_batch_norm_that_keeps_its_running_statistics_may_be_cut_into_chunks() -> None:
    # A ResNet that visir trained, tuned further: as CLIP's, its statistics stay.
    backbone = ResNetBackbone(depth=18, weights="random", size=32)
    text = Tower(GRUBackbone(WordVocabulary.fit(["a dog"]), words=4, hidden=4), Head(HeadSpec(8, 6)))
    sides: dict[Modality, Tower] = {"image": Tower(backbone, Head(HeadSpec(backbone.outputs, 6))), "text": text}
    settings, alone = recipe(optimiser={"chunk": 20}), Processes(0, 1, torch.device("cpu"))
    with refused(ConfigurationError, code="towers-batch-norm-statistics"):
        BatchStatistics(nn.ModuleDict(dict(sides)), settings, alone, 240)
    half = PretrainedBackbone.of(TowersEncoder(sides, {}, device="cpu"), "image")
    further = Tower(half, Head(HeadSpec(6, 6, identity=True)))
    BatchStatistics(nn.ModuleDict({"image": further, "text": text}), settings, alone, 240)


def test_synchronised_batch_norms_take_the_place_of_plain_ones_and_give_it_back() -> None:
    sides = nn.ModuleDict(dict(trunks()))
    plain = [one for one in sides.modules() if isinstance(one, nn.BatchNorm1d)]
    statistics = BatchStatistics(sides, recipe(), Processes(0, 2, torch.device("cuda", 0)), 240)
    assert sum(isinstance(one, nn.SyncBatchNorm) for one in sides.modules()) == 2
    assert not any(isinstance(one, nn.BatchNorm1d) for one in sides.modules())
    statistics.release()
    assert [one for one in sides.modules() if isinstance(one, nn.BatchNorm1d)] == plain


def test_bfloat16_trains_and_float16_needs_cuda() -> None:
    exact, half = (
        trained(recipe(optimiser={**SHORT, "epochs": 4}, precision=name)) for name in ("float32", "bfloat16")
    )
    assert half.curve[-1].losses["loss"] == pytest.approx(exact.curve[-1].losses["loss"], rel=0.1)
    assert half.curve[0].losses["loss"] != exact.curve[0].losses["loss"]
    assert all(one.dtype == torch.float32 for tower in half.learner.towers.values() for one in tower.parameters())
    with refused(ConfigurationError, code="float16-needs-cuda-trains"):
        trained(recipe(precision="float16"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_and_auto_takes_what_is() -> None:
    with refused(EncoderError, "cuda:1", code="device-cannot-used", hint=("there", "cpu")):
        trained(recipe(device="cuda:1"))
    assert Processes.join("auto").device == torch.device("cpu")


class Broken(VectorSource):
    """One vector of which is NaN in the second epoch."""

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> Tensor:
        vectors = super().batch(rows, draw, keys)
        if draw is not None and draw.epoch == 1:
            vectors[rows == 7] = torch.nan
        return vectors


@pytest.mark.parametrize("optimiser", [{}, {"chunk": 20}, {"accumulate": 2}])
def test_nan_stops_naming_the_captions_before_the_weights_are_touched(
    tmp_path: Path, optimiser: dict[str, int]
) -> None:
    texts = np.random.default_rng(0).normal(size=(1, len(TRAIN), TEXT)).astype(np.float32)
    broken = replace(TRAIN, positives=Broken(texts))
    settings = recipe(optimiser={**SHORT, "batch": 60, **optimiser})
    sides = towers(**MLP)
    complaint = r"the loss is nan in epoch 2, step [1234] \(learning rate .*captions of the batch: 'c"
    with pytest.raises(TrainingError, match=complaint) as caught:
        fit(settings, DualEncoder(sides, objective(settings)), broken, VALIDATION, folder=tmp_path)
    # With accumulation too it is the one batch, not all of the step's.
    assert "c7" in caught.value.ids and len(caught.value.ids) == 60
    assert "… (60 in all)" in str(caught.value) and "lower optimiser.rate" in str(caught.value)
    assert all(bool(one.isfinite().all()) for tower in sides.values() for one in tower.parameters())


class Steep(nn.Module):
    """A head whose values are sound and whose gradient is not: the square root at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(TEXT, 16)

    def forward(self, vectors: Tensor) -> Tensor:
        result: Tensor = self.layer(vectors)
        return result + (result[:, :1] * 0.0).abs().sqrt()


def test_a_gradient_that_is_not_finite_stops_too() -> None:
    sides = towers()
    sides["text"].head = Steep()  # type: ignore[assignment]
    with pytest.raises(
        TrainingError, match="the loss is finite, but the length of its gradient is nan in epoch 1"
    ) as one:
        fit(recipe(), DualEncoder(sides, objective(recipe())), TRAIN, VALIDATION)
    assert len(one.value.ids) == 60
    assert all(bool(weight.isfinite().all()) for weight in sides["text"].parameters())
