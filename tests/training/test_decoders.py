"""LTD and ITD against their equations in loops: values and the gradients of vectors and of every weight."""

from __future__ import annotations

import cmath
import itertools
import math

import numpy as np
import pytest
import torch
from equations import dot, gradient, pairs, unit
from torch.func import functional_call

from refusals import refused
from visir.errors import ConfigurationError
from visir.training.objective import ITD, LTD, ITDSettings, LTDSettings


def affine(weights, biases, vector):
    return [dot(row, vector) + bias for row, bias in zip(weights, biases, strict=True)]


def relu(vector):
    return [one if one.real > 0 else 0.0 for one in vector]


def ltd_reference(texts, targets, w1, b1, w2, b2, w3, b3):
    """Latent target decoding, eq. 5 (with biases) and 6."""
    total = 0.0
    for text, target in zip(texts, targets, strict=True):
        decoded = affine(w3, b3, relu(affine(w2, b2, relu(affine(w1, b1, text)))))
        total += 1 - dot(decoded, target) / cmath.sqrt(dot(decoded, decoded)) / cmath.sqrt(dot(target, target))
    return total / len(texts)


def sigmoid(x):
    return 1 / (1 + cmath.exp(-x))


def itd_reference(captions, texts, words, w_input, w_state, b_input, b_state, w_out, b_out):
    """Latent target decoding, eq. 4, by a GRU (Cho et al. 2014; gates in PyTorch's order: reset, update, new)."""
    d, total = len(texts[0]), 0.0
    for caption, text in zip(captions, texts, strict=True):
        state = text
        for before, said in itertools.pairwise(caption):
            of_word, of_state = affine(w_input, b_input, words[before]), affine(w_state, b_state, state)
            reset = [sigmoid(of_word[k] + of_state[k]) for k in range(d)]
            update = [sigmoid(of_word[d + k] + of_state[d + k]) for k in range(d)]
            new = [cmath.tanh(of_word[2 * d + k] + reset[k] * of_state[2 * d + k]) for k in range(d)]
            state = [(1 - update[k]) * new[k] + update[k] * state[k] for k in range(d)]
            logits = affine(w_out, b_out, state)
            total -= logits[said] - cmath.log(sum(cmath.exp(one) for one in logits))
    return total / len(captions)


def itd_positions_reference(captions, texts, words, w_input, w_state, b_input, b_state, w_out, b_out):
    """The released loss: each word's logits at all positions of the batch's longest caption are normalised."""
    d, longest, total = len(texts[0]), max(map(len, captions)), 0.0
    for caption, text in zip(captions, texts, strict=True):
        state, states = text, []
        for read in caption:  # the end token too
            of_word, of_state = affine(w_input, b_input, words[read]), affine(w_state, b_state, state)
            reset = [sigmoid(of_word[k] + of_state[k]) for k in range(d)]
            update = [sigmoid(of_word[d + k] + of_state[d + k]) for k in range(d)]
            new = [cmath.tanh(of_word[2 * d + k] + reset[k] * of_state[2 * d + k]) for k in range(d)]
            state = [(1 - update[k]) * new[k] + update[k] * state[k] for k in range(d)]
            states.append(state)
        states += [[0.0] * d] * (longest - len(caption))
        logits = [affine(w_out, b_out, state) for state in states]
        for position, said in enumerate(caption[1:]):
            total -= logits[position][said] - cmath.log(sum(cmath.exp(one[said]) for one in logits))
    return total / len(captions)


def check(module, reference, loss, *arrays):
    """Value and gradients by `arrays` and by every weight of the module, in the order of its parameters."""
    weights = dict(module.named_parameters())
    values = [one.detach().numpy() for one in weights.values()]
    leaves = [torch.tensor(one, requires_grad=True) for one in arrays]
    value = loss(*leaves)
    value.backward()
    expected = reference(*(one.tolist() for one in (*arrays, *values)))
    assert float(value.detach()) == pytest.approx(expected.real, rel=0, abs=1e-9)
    slopes = gradient(reference, *arrays, *values)
    for tensor, slope in zip([*leaves, *weights.values()], slopes, strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), slope, rtol=0, atol=1e-9)


def test_ltd_is_the_equation():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    module = LTD(3, 4, LTDSettings(hidden=5)).double()
    images, texts = unit(rng, 6, 3), unit(rng, 6, 3)
    targets = rng.normal(size=(6, 4))  # of any length: only their direction counts
    check(
        module,
        lambda t, *weights: ltd_reference(t, targets.tolist(), *weights),
        lambda t: module(pairs(images, t, targets=targets)),
        texts,
    )


@pytest.mark.parametrize(("over", "reference"), [("vocabulary", itd_reference), ("positions", itd_positions_reference)])
def test_itd_is_the_equation(over, reference):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    module = ITD(3, 7, ITDSettings(words=2, normalise_over=over)).double()
    captions = [[2, 4, 6, 5, 3], [2, 3], [2, 1, 4, 3]]
    padded = np.zeros((3, 5), np.int64)
    for row, caption in enumerate(captions):
        padded[row, : len(caption)] = caption
    images, texts = unit(rng, 3, 3), unit(rng, 3, 3)
    check(
        module,
        lambda t, *weights: reference(captions, t, *weights),
        lambda t: module(pairs(images, t, tokens=padded)),
        texts,
    )


@pytest.mark.parametrize("over", ["vocabulary", "positions"])
def test_more_padding_changes_nothing(over):
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    module = ITD(4, 9, ITDSettings(words=3, normalise_over=over)).double()
    images, texts = unit(rng, 2, 4), unit(rng, 2, 4)
    tokens = np.array([[2, 4, 5, 3], [2, 6, 3, 0]])
    value = module(pairs(images, texts, tokens=tokens))
    wider = module(pairs(images, texts, tokens=np.pad(tokens, ((0, 0), (0, 3)))))
    assert float(value.detach()) == pytest.approx(float(wider.detach()), abs=1e-12)


def test_itd_counts_nats_per_caption():
    # With all weights of the softmax zero every word has probability 1/9. A caption of 3 predicted tokens (two words
    # and the end) costs 3 log 9, one of 2 costs 2 log 9: the mean is 2.5 log 9.
    module = ITD(4, 9, ITDSettings(words=3)).double()
    zeros = {f"vocabulary.{name}": torch.zeros_like(one) for name, one in module.vocabulary.named_parameters()}
    texts = unit(np.random.default_rng(2), 2, 4)
    value = functional_call(module, zeros, (pairs(texts, texts, tokens=[[2, 4, 5, 3], [2, 6, 3, 0]]),))
    assert float(value.detach()) == pytest.approx(2.5 * math.log(9), abs=1e-12)


def test_itd_over_positions_by_hand():
    # All weights of the softmax zero: a word has the same logit at each of the 4 positions of the longest caption, so
    # probability 1/4, however many words there are. 3 predicted tokens cost 3 log 4, 2 cost 2 log 4: 2.5 log 4.
    module = ITD(4, 9, ITDSettings(words=3, normalise_over="positions")).double()
    still = {f"vocabulary.{name}": torch.zeros_like(one) for name, one in module.vocabulary.named_parameters()}
    texts = unit(np.random.default_rng(2), 2, 4)
    captions = [[2, 4, 5, 3], [2, 6, 3, 0]]
    value = functional_call(module, still, (pairs(texts, texts, tokens=captions),))
    assert float(value.detach()) == pytest.approx(2.5 * math.log(4), abs=1e-12)
    # A word that is likelier everywhere is no better: its bias is in every position, and cancels.
    still["vocabulary.bias"] = torch.tensor([0.0, 0, 0, 50, 50, 50, 50, 0, 0], dtype=torch.float64)
    value = functional_call(module, still, (pairs(texts, texts, tokens=captions),))
    assert float(value.detach()) == pytest.approx(2.5 * math.log(4), abs=1e-12)
    # The other captions of the batch count: with a longest caption of 6 positions, 1/6 instead of 1/4.
    longer = [[2, 4, 5, 3, 0, 0], [2, 6, 3, 0, 0, 0], [2, 4, 5, 6, 7, 3]]
    texts = unit(np.random.default_rng(2), 3, 4)
    value = functional_call(module, still, (pairs(texts, texts, tokens=longer),))
    assert float(value.detach()) == pytest.approx((3 + 2 + 5) / 3 * math.log(6), abs=1e-12)


def test_ltd_by_hand():
    # A decoder that gives (1, 0) whatever it is shown, beside targets at 0°, 90° and 180°: 1 − cosines are 0, 1 and 2.
    module = LTD(2, 2, LTDSettings(hidden=1)).double()
    fixed = {f"decoder.{name}": torch.zeros_like(one) for name, one in module.decoder.named_parameters()}
    fixed["decoder.4.bias"] = torch.tensor([1.0, 0.0], dtype=torch.float64)
    given = pairs(np.eye(3, 2), np.eye(3, 2), targets=np.array([[5.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
    assert float(functional_call(module, fixed, (given,)).detach()) == pytest.approx(1.0, abs=1e-12)


def test_a_decoder_learns_what_is_there():
    """Targets that are a linear view of the texts are decoded; targets that have nothing to do with them are not."""
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    texts = unit(rng, 256, 8)
    ends = []
    for targets in (texts @ rng.normal(size=(8, 6)), rng.normal(size=(256, 6))):
        module = LTD(8, 6, LTDSettings(hidden=16))
        optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
        given = pairs(texts.astype(np.float32), texts.astype(np.float32), targets=targets.astype(np.float32))
        for _ in range(300):
            optimiser.zero_grad()
            loss = module(given)
            loss.backward()
            optimiser.step()
        ends.append(float(loss.detach()))
    assert ends[0] < 0.05 < 0.3 < ends[1]


def test_missing_targets_and_tokens_are_named():
    texts = unit(np.random.default_rng(0), 2, 4)
    with refused(ConfigurationError, code="batch-no-latent-targets"):
        LTD(4, 3, LTDSettings())(pairs(texts, texts))
    with refused(ConfigurationError, code="batch-no-caption-tokens"):
        ITD(4, 9, ITDSettings())(pairs(texts, texts))
