"""A head narrowed to the terms that may be active, trained, and put back."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from sparse_toys import CAR, DOG, PIECES, TREE, head, packed, planted, recipe, train

from visir.sparse.run import SparseExamples, VocabularyPruning, padded, validate


def said_only(pairs: SparseExamples, words: tuple[int, ...]) -> SparseExamples:
    """The same vectors; captions keep those of their terms that are among `words`."""
    kept = [np.array([term for term in pairs.terms.of(row) if term in words], int) for row in range(len(pairs))]
    terms = packed(kept)
    frequencies = torch.from_numpy(terms.frequencies(len(PIECES)))
    own = torch.from_numpy(padded(terms, len(PIECES)))
    return dataclasses.replace(pairs, own=own, terms=terms, frequencies=frequencies)


TRAIN, VALIDATION = planted(60, seed=1), planted(40, seed=2)
FEW = said_only(TRAIN, (DOG, CAR, TREE))


def test_which_terms_are_kept() -> None:
    model = head(inputs=10)
    # Terms 0 to 4 are special or never used; all fourteen words are said in TRAIN, three of them in FEW.
    assert VocabularyPruning.of("all", model, FEW).terms.tolist() == list(range(5, 19))
    assert VocabularyPruning.of(1, model, TRAIN).terms.tolist() == list(range(5, 19))
    assert VocabularyPruning.of(1, model, FEW).terms.tolist() == [DOG, CAR, TREE]


def test_a_narrow_head_says_the_same_of_what_it_keeps() -> None:
    model = head(inputs=10)
    pruning = VocabularyPruning.of(1, model, FEW)
    narrow = pruning.prune(model)
    torch.testing.assert_close(narrow(VALIDATION.images), model(VALIDATION.images)[:, [DOG, CAR, TREE]])
    with torch.no_grad():  # a copy: what is trained leaves the fresh head as it is
        narrow.words.fill_(7.0)
        narrow.project.weight.fill_(7.0)
        narrow.norm.weight.fill_(7.0)
    assert all((one != 7.0).all() for one in model.parameters())


def test_own_terms_are_numbered_anew_and_unkept_ones_left_out() -> None:
    pruning = VocabularyPruning.of(1, head(inputs=10), FEW)
    pairs = pruning.prune_examples(VALIDATION)
    names = [DOG, CAR, TREE]
    for row in range(len(pairs)):
        expected = [term for term in VALIDATION.terms.of(row).tolist() if term in names]
        assert [names[term] for term in pairs.terms.of(row).tolist()] == expected
        assert [names[term] for term in pairs.own[row].tolist() if term < 3] == expected
        assert all(term <= 3 for term in pairs.own[row].tolist())
    assert pairs.frequencies.tolist() == VALIDATION.frequencies[names].tolist()


@pytest.mark.parametrize("variant", ["none", "caption", "free"])
def test_all_terms_narrowed_train_as_the_whole_head_does(variant: str) -> None:
    """Exact up to rounding: rows that are never active have no gradient. (Word coins are drawn by a term's place among
    those that are trained, so "caption+word" draws others.)"""
    settings = recipe(expansion={"variant": variant}, optimiser={"epochs": 3})
    model = head(inputs=10)
    pruning = VocabularyPruning.of("all", model, TRAIN)
    narrow = train(settings, pruning.prune(model), pruning.prune_examples(TRAIN), pruning.prune_examples(VALIDATION))
    found = pruning.restore(narrow.learner.head, model)
    whole = train(settings, head(inputs=10), TRAIN, VALIDATION)
    for (name, one), other in zip(found.named_parameters(), whole.learner.head.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, msg=name)
    for one, other in zip(narrow.curve, whole.curve, strict=True):
        assert one.losses["loss"] == pytest.approx(other.losses["loss"], rel=1e-4)


def test_what_was_not_kept_is_never_said() -> None:
    model = head(inputs=10)
    pruning = VocabularyPruning.of(1, model, FEW)
    fitted = train(
        recipe(optimiser={"epochs": 2}), pruning.prune(model), pruning.prune_examples(FEW), pruning.prune_examples(FEW)
    )
    wide = pruning.restore(fitted.learner.head, model)
    weights = wide(VALIDATION.texts)
    assert weights.shape[1] == len(PIECES) and wide.usable.equal(model.usable)
    never = [term for term in range(len(PIECES)) if term not in (DOG, CAR, TREE)]
    unlearnt = [term for term in never if model.usable[term]]
    assert (wide.bias[unlearnt] == -1).all() and (wide.words[unlearnt] == 0).all()  # a logit of -1: far from a weight
    assert (weights[:, never] == 0).all() and (weights[:, [DOG, CAR, TREE]] > 0).any()
    torch.testing.assert_close(weights[:, [DOG, CAR, TREE]], fitted.learner.head(VALIDATION.texts))
    # What it finds is what the narrow head found.
    narrow = validate(fitted.learner.head, pruning.prune_examples(VALIDATION), "free")
    assert validate(wide, VALIDATION, "free") == pytest.approx(narrow)
