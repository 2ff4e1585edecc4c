"""A training over the terms that may be active: the other rows of W2 are neither multiplied nor moved.

A head has a row of W2 for every entry of its vocabulary, and checkpoints keep them all, so that term i is dimension i
wherever it is met. While it is trained, rows that can never be active would cost their share of every product, of the
gradient and of AdamW, and their weights are 0 in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from visir.errors import ConfigurationError
from visir.sparse.examples import SparseExamples, padded
from visir.sparse.head import SparseHead
from visir.sparse.language_model import WordEmbeddings
from visir.sparse.recipe import TermChoice
from visir.sparse.vocabulary import TextTerms


@dataclass(frozen=True, eq=False)
class VocabularyPruning:
    """Which terms of a vocabulary are trained."""

    terms: Tensor  # (U,) int64, ascending; term `terms[j]` of the vocabulary is term j of the pruned head

    @classmethod
    def of(cls, which: TermChoice, head: SparseHead, train: SparseExamples) -> VocabularyPruning:
        """Choose the terms."""
        chosen = head.usable.cpu()
        if which != "all":
            captions = np.bincount(train.terms.terms, minlength=len(chosen))
            chosen = chosen & torch.from_numpy(captions >= which)
            if not chosen.any():
                most = f"the most frequent term is in {captions.max(initial=0):,} of {len(train.terms):,} captions"
                raise ConfigurationError(f"head.terms = {which}: {most}.", hint="ask for fewer captions of each term")
        return cls(torch.nonzero(chosen)[:, 0])

    @torch.no_grad()
    def prune(self, head: SparseHead) -> SparseHead:
        """The head with the rows of W2 of these terms alone."""
        norm = (head.norm.weight, head.norm.bias)
        words = WordEmbeddings(head.words[self.terms], head.bias[self.terms], norm, "")
        pruned = SparseHead(head.inputs, words, np.ones(len(self.terms), bool))
        pruned.project.load_state_dict(head.project.state_dict())
        return pruned.to(head.words.dtype)

    def prune_examples(self, examples: SparseExamples) -> SparseExamples:
        """The same examples without the captions' own terms that are not trained: no vector can say them."""
        chosen = self.terms.numpy()
        numbers = np.full(len(examples.frequencies), -1, np.int32)
        numbers[chosen] = np.arange(len(chosen), dtype=np.int32)
        renumbered = numbers[examples.terms.terms]
        below = np.concatenate([[0], np.cumsum(renumbered >= 0)])
        terms = TextTerms(below[examples.terms.offsets], renumbered[renumbered >= 0])
        device = examples.own.device
        return replace(
            examples,
            own=torch.from_numpy(padded(terms, len(chosen))).to(device),
            terms=terms,
            frequencies=examples.frequencies[self.terms.to(device)],
        )

    @torch.no_grad()
    def restore(self, trained: SparseHead, fresh: SparseHead) -> SparseHead:
        """A head of the whole vocabulary with the trained rows in their places; `fresh` is what `prune` began from."""
        # A usable term that was not trained has a row of zeros and the bias -1: its logit is -1 for every vector, its
        # weight 0. Rows of special tokens, which are masked in any case, stay as they were.
        words, bias = fresh.words.detach().cpu().clone(), fresh.bias.detach().cpu().clone()
        never = fresh.usable.cpu().clone()
        never[self.terms] = False
        words[never], bias[never] = 0.0, -1.0
        words[self.terms], bias[self.terms] = trained.words.cpu(), trained.bias.cpu()
        norm = (trained.norm.weight.cpu(), trained.norm.bias.cpu())
        restored = SparseHead(trained.inputs, WordEmbeddings(words, bias, norm, ""), fresh.usable.cpu().numpy())
        restored.project.load_state_dict(trained.project.state_dict())
        return restored.to(words.dtype)
