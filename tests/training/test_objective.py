"""Objectives put together: sums, shards, temperatures, what a recipe may ask for."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from equations import batch, cosines, dot, infonce, pairs

from visir.errors import ConfigurationError
from visir.training.losses import CosineSettings, InfoNCESettings, TripletSettings
from visir.training.objective import Auxiliary, IFMSettings, ITDSettings, LTDSettings, Objective, build_objective


def built(contrastive, **auxiliary) -> Objective:
    torch.manual_seed(0)
    return build_objective(
        contrastive, Auxiliary(**auxiliary), dimension=5, target_width=4, vocabulary=12, own_temperature=0.03
    ).double()


def examples(n=9):
    rng = np.random.default_rng(8)
    tokens = np.zeros((n, 8), np.int64)
    for row in range(n):
        words = rng.integers(4, 12, rng.integers(1, 6))
        tokens[row, : len(words) + 2] = [2, *words, 3]
    return pairs(*batch(8, n=n), targets=rng.normal(size=(n, 4)), tokens=tokens)


CONTRASTIVE = [InfoNCESettings(), TripletSettings(), TripletSettings(reduction="sum"), IFMSettings(), CosineSettings()]


def test_ltd_and_ifm_together():
    """IFM + λ (LTD / η − 1), with LTD's network as it is and the rest in loops."""
    objective = built(IFMSettings(temperature=0.1, epsilon=0.2), ltd=LTDSettings(hidden=6, bound=0.25))
    given = examples()
    losses = objective(given)
    score = cosines(given.anchors.tolist(), given.positives.tolist())
    plain = [[one / 0.1 for one in row] for row in score]
    moved = [[(one + (-0.2 if i == j else 0.2)) / 0.1 for j, one in enumerate(row)] for i, row in enumerate(score)]
    owners = given.anchor_rows.tolist()
    ifm = (infonce(plain, owners, "apart") + infonce(moved, owners, "apart")).real / 2
    decoded = objective.auxiliary["ltd"].decoder(given.positives).tolist()
    cosine = [dot(a, b) / (dot(a, a) * dot(b, b)) ** 0.5 for a, b in zip(decoded, given.targets.tolist(), strict=True)]
    reconstruction = 1 - sum(cosine) / len(cosine)
    assert float(losses.parts["contrastive"]) == pytest.approx(ifm, abs=1e-9)
    assert float(losses.parts["ltd"]) == pytest.approx(reconstruction, abs=1e-9)
    assert float(losses.total.detach()) == pytest.approx(ifm + 1.0 * (reconstruction / 0.25 - 1), abs=1e-9)  # λ is 1
    objective.ascend({name: float(part) for name, part in losses.parts.items()})
    multiplier = 1 + 0.005 * (reconstruction / 0.25 - 1)
    assert objective.facts() == {
        "temperature": pytest.approx(0.1, abs=1e-15),
        "ltd multiplier": pytest.approx(multiplier, abs=1e-12),
    }
    again = float(objective(given).total.detach())
    assert again == pytest.approx(ifm + multiplier * (reconstruction / 0.25 - 1), abs=1e-9)


def test_dual_losses_are_weighed_by_beta():
    objective = built(TripletSettings(), ltd=LTDSettings(join="dual", beta=0.5), itd=ITDSettings(join="dual", beta=2.0))
    losses = objective(examples())
    parts = {name: float(part) for name, part in losses.parts.items()}
    expected = parts["contrastive"] + 0.5 * parts["ltd"] + 2.0 * parts["itd"]
    assert float(losses.total.detach()) == pytest.approx(expected, abs=1e-12)
    assert objective.facts() == {}
    objective.ascend(parts)  # nothing to move
    assert float(objective(examples()).total.detach()) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("contrastive", CONTRASTIVE, ids=lambda one: one.name)
@pytest.mark.parametrize("join", ["dual", "constraint"])
def test_two_shards_averaged_are_the_whole(contrastive, join):
    """Shards of 3 and 6 pairs: value, parts, and the gradient of every vector and weight."""
    objective = built(contrastive, ltd=LTDSettings(join=join), itd=ITDSettings(join=join))
    whole = examples(9)

    def run(shards):
        images = whole.anchors.clone().requires_grad_()
        texts = whole.positives.clone().requires_grad_()
        objective.zero_grad()
        everyone = dataclasses.replace(whole, anchors=images, positives=texts)
        totals, parts = [], []
        for shard in shards:
            whole_columns = (getattr(everyone, field.name) for field in dataclasses.fields(whole))
            own = type(whole)(*(None if column is None else column[shard] for column in whole_columns))
            losses = objective(own, everyone, weight=len(own.anchor_rows) * len(shards) / 9)
            totals.append(losses.total)
            parts.append({name: float(part) for name, part in losses.parts.items()})
        total = sum(totals) / len(totals)
        total.backward()
        mean = {name: sum(one[name] for one in parts) / len(parts) for name in parts[0]}
        return total.detach(), mean, images.grad, texts.grad, [one.grad.clone() for one in objective.parameters()
                                                               if one.requires_grad]  # fmt: skip

    one, two = run([slice(0, 9)]), run([slice(0, 3), slice(3, 9)])
    torch.testing.assert_close(one[0], two[0], rtol=0, atol=1e-12)
    assert one[1] == pytest.approx(two[1], abs=1e-12)
    torch.testing.assert_close(one[2:], two[2:], rtol=0, atol=1e-12)
    plain = objective(whole)  # without `everyone` the pairs contrast among themselves
    torch.testing.assert_close(plain.total.detach(), one[0], rtol=0, atol=1e-12)


def test_the_multiplier_travels_with_the_state():
    objective, other = (built(InfoNCESettings(), ltd=LTDSettings(), itd=ITDSettings()) for _ in range(2))
    for step in range(5):
        objective.ascend({"ltd": 0.9 - 0.1 * step, "itd": 40.0})
    other.load_state_dict(objective.state_dict())
    for one in (objective, other):
        one.ascend({"ltd": 0.1, "itd": 3.0})
    assert objective.facts() == other.facts()
    assert objective.facts()["ltd multiplier"] != 1.0 != objective.facts()["itd multiplier"]


def test_own_temperature_and_what_is_not_there():
    assert built(InfoNCESettings(temperature="own")).facts() == {"temperature": pytest.approx(0.03, rel=1e-12)}
    with pytest.raises(ConfigurationError) as caught:
        build_objective(
            IFMSettings(temperature="own"),
            Auxiliary(ltd=LTDSettings(), itd=ITDSettings()),
            dimension=5,
            target_width=None,
            vocabulary=None,
            own_temperature=None,
        )
    text = str(caught.value)
    assert "3 faults" in text
    for part in ('temperature = "own"', "CLIP", "auxiliary.ltd: there are no latent targets", "auxiliary.itd"):
        assert part in text


def test_only_a_learnt_temperature_and_decoders_are_trained():
    def trained(objective):
        return {name.split(".")[0] for name, one in objective.named_parameters() if one.requires_grad}

    assert trained(built(InfoNCESettings())) == set()
    assert trained(built(InfoNCESettings(learn_temperature=True))) == {"contrastive"}
    assert trained(built(TripletSettings(), ltd=LTDSettings())) == {"auxiliary"}
