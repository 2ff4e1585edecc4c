"""Expansion control against Algorithm 1 in plain loops; the schedule's values; coins by place."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_toys import PIECES, batch, recipe

from visir.sparse.expansion import Expansion, ExpansionSample, SampledPer, Variant, allowed, bernoulli
from visir.sparse.recipe import read_sparse_recipe
from visir.splitmix import seed_of, splitmix64
from visir.training import find_recipe


def test_probabilities_rise_to_one_in_the_last_epoch() -> None:
    plan = Expansion("caption+word", 5)
    assert [plan.caption_probability(epoch) for epoch in range(5)] == [0.0, 0.25, 0.5, 0.75, 1.0]
    df = torch.tensor([0.0, 0.4, 1.0], dtype=torch.float64)
    # 1 - df (1 - t): the first epoch 1, 0.6, 0; the middle 1, 0.8, 0.5; the last all 1
    assert [plan.word_probabilities(epoch, df).tolist() for epoch in (0, 2, 4)] == [
        pytest.approx([1.0, 0.6, 0.0]),
        pytest.approx([1.0, 0.8, 0.5]),
        [1.0, 1.0, 1.0],
    ]


def test_the_other_variants_and_a_single_epoch() -> None:
    assert [Expansion("none", 9).caption_probability(epoch) for epoch in (0, 8)] == [0.0, 0.0]
    assert [Expansion("free", 9).caption_probability(epoch) for epoch in (0, 8)] == [1.0, 1.0]
    assert Expansion("caption", 1).caption_probability(0) == 1.0


@pytest.mark.parametrize(("captions", "words"), product(("none", "all", "some"), (False, True)))
def test_expand_is_algorithm_1(captions: str, words: bool) -> None:
    rng = np.random.default_rng(5)
    own, size = batch(6)[2], len(PIECES)
    e_c = {"none": np.zeros(6, bool), "all": np.ones(6, bool), "some": rng.random(6) < 0.5}[captions]
    e_v = rng.random(size) < 0.5 if words else np.ones(size, bool)
    found = allowed(own, ExpansionSample(torch.from_numpy(e_c), torch.from_numpy(e_v) if words else None), size)
    for i in range(6):
        for k in range(size):
            factor = int(e_v[k])  # the branch "else": a caption's own word is subject to its word's coin too
            if k not in own[i].tolist():
                factor *= int(e_c[i])
            assert found[i, k] == bool(factor)


@settings(deadline=None)
@given(seed=st.integers(0, 2**64 - 1), places=st.lists(st.integers(0, 2**40), min_size=1, max_size=20))
def test_coins_are_splitmix_at_their_places(seed: int, places: list[int]) -> None:
    numbers = splitmix64(np.uint64(seed), np.array(places)) >> np.uint64(11)
    for p in (0.0, 0.3, 1.0):
        expected = numbers.astype(np.float64) * 2.0**-53 < p
        assert bernoulli(seed, torch.tensor(places), p).tolist() == expected.tolist()


def test_coins_of_one_probability_each() -> None:
    seed, places = int(seed_of(3)), torch.arange(40_000)
    p = torch.cat([torch.zeros(10_000), torch.full((10_000,), 0.2), torch.full((10_000,), 0.9), torch.ones(10_000)])
    shares = bernoulli(seed, places, p.double()).double().reshape(4, -1).mean(dim=1).tolist()
    assert shares[0] == 0 and shares[3] == 1
    # standard errors 0.004 and 0.003
    assert shares[1] == pytest.approx(0.2, abs=0.015) and shares[2] == pytest.approx(0.9, abs=0.012)


def drawn(plan: Expansion, epoch: int, step: int, rows: list[int]) -> ExpansionSample:
    return plan.draw(epoch, step, torch.tensor(rows), torch.full((len(PIECES),), 0.5, dtype=torch.float64))


def test_a_captions_coin_depends_on_its_row_not_on_its_batch() -> None:
    plan = Expansion("caption", 3, "caption", seed=4)
    many = drawn(plan, 1, 0, list(range(200))).captions
    assert 60 < int(many.sum()) < 140
    assert drawn(plan, 1, 7, [150, 3]).captions.tolist() == [many[150], many[3]]
    assert not torch.equal(many, drawn(Expansion("caption", 3, "caption", seed=5), 1, 0, list(range(200))).captions)


@pytest.mark.parametrize("variant", ["caption", "caption+word"])
def test_one_coin_decides_for_a_whole_batch(variant: Variant) -> None:
    # Algorithm 1 draws E_C before it calls EXPAND, whose loop over the captions has no index on it.
    plan = Expansion(variant, 3)
    sums = [int(drawn(plan, 1, step, list(range(10))).captions.sum()) for step in range(60)]
    assert set(sums) == {0, 10}


@pytest.mark.parametrize(("variant", "per"), product(("none", "free", "caption"), ("caption", "batch")))
def test_word_coins_are_drawn_for_caption_word_alone_and_anew_in_each_step(variant: Variant, per: SampledPer) -> None:
    assert drawn(Expansion(variant, 3, per), 1, 0, [1]).words is None
    plan = Expansion("caption+word", 3, per)
    one, other = drawn(plan, 1, 0, [1]).words, drawn(plan, 1, 1, [1]).words
    assert one is not None and other is not None and not torch.equal(one, other)


def test_recipes_draw_per_batch_and_per_caption_by_name() -> None:
    settings = recipe()
    assert settings.expansion.sampled_per == "batch"
    assert recipe(expansion={"sampled_per": "caption"}).expansion.sampled_per == "caption"
    for name in ("sparse", "sparse-scenes", "d2s-f30k-blip-caption-1e-3"):
        assert read_sparse_recipe(find_recipe(name, "sparsify")).expansion.sampled_per == "batch"
