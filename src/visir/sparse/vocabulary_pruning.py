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
from visir.sparse.recipe import TermsKept
from visir.sparse.vocabulary import TextTerms


@dataclass(frozen=True, eq=False)
class VocabularyPruning:
    """`kept` (U,) int64, ascending: which terms of the vocabulary are trained; term kept[j] is term j in between."""

    kept: Tensor

    @classmethod
    def of(cls, which: TermsKept, head: SparseHead, train: SparseExamples) -> VocabularyPruning:
        """ "all" usable terms, or those of them that so many training captions have.

        Raises `ConfigurationError` when that leaves none.
        """
        kept = head.usable.cpu()
        if which != "all":
            captions = np.bincount(train.terms.terms, minlength=len(kept))
            kept = kept & torch.from_numpy(captions >= which)
            if not kept.any():
                most = f"the most frequent term is in {captions.max(initial=0):,} of {len(train.terms):,} captions"
                raise ConfigurationError(f"head.terms = {which}: {most}.", hint="ask for fewer captions of each term")
        return cls(torch.nonzero(kept)[:, 0])

    @torch.no_grad()
    def narrow(self, head: SparseHead) -> SparseHead:
        """The head with the kept rows of W2 alone."""
        norm = (head.norm.weight, head.norm.bias)
        words = WordEmbeddings(head.words[self.kept], head.bias[self.kept], norm, "")
        made = SparseHead(head.inputs, words, np.ones(len(self.kept), bool))
        made.project.load_state_dict(head.project.state_dict())
        return made.to(head.words.dtype)

    def pairs(self, pairs: SparseExamples) -> SparseExamples:
        """The same pairs; a caption's own terms that are not kept are left out, as no vector can say them."""
        size, kept = len(pairs.frequencies), self.kept.numpy()
        numbers = np.full(size, -1, np.int32)
        numbers[kept] = np.arange(len(kept), dtype=np.int32)
        found = numbers[pairs.terms.terms]
        below = np.concatenate([[0], np.cumsum(found >= 0)])
        terms = TextTerms(below[pairs.terms.offsets], found[found >= 0])
        device = pairs.own.device
        return replace(
            pairs,
            own=torch.from_numpy(padded(terms, len(kept))).to(device),
            terms=terms,
            frequencies=pairs.frequencies[self.kept.to(device)],
        )

    @torch.no_grad()
    def widen(self, trained: SparseHead, fresh: SparseHead) -> SparseHead:
        """A head of the whole vocabulary with the trained rows in their places; `fresh` is what `narrow` began from.

        A usable term that was not kept has a row of zeros and the bias -1: its logit is -1 for every vector, its weight
        0. Rows of special tokens, which are masked in any case, stay as they were.
        """
        words, bias = fresh.words.detach().cpu().clone(), fresh.bias.detach().cpu().clone()
        never = fresh.usable.cpu().clone()
        never[self.kept] = False
        words[never], bias[never] = 0.0, -1.0
        words[self.kept], bias[self.kept] = trained.words.cpu(), trained.bias.cpu()
        norm = (trained.norm.weight.cpu(), trained.norm.bias.cpu())
        made = SparseHead(trained.inputs, WordEmbeddings(words, bias, norm, ""), fresh.usable.cpu().numpy())
        made.project.load_state_dict(trained.project.state_dict())
        return made.to(words.dtype)
