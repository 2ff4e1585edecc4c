"""Probabilistic expansion control: which terms a caption may have in a step (thesis Algorithm 1, eq. 3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from visir.splitmix import seed_of

Variant = Literal["none", "free", "caption", "caption+word"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
SampledPer = Literal["batch", "caption"]

_CAPTIONS, _WORDS = 11, 12
"""Streams of random numbers; those of training's own draws have smaller numbers."""
_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, eq=False)
class ExpansionSample:
    """What was drawn for one batch."""

    captions: Tensor  # (B,) bool, E_C: whether a caption may have terms that are not its own
    words: Tensor | None = None  # (|V|,) bool, E_k^v: which terms a caption may have at all; None when all may


@dataclass(frozen=True)
class Expansion:
    """EXPAND of Algorithm 1, over a training of `epochs` epochs."""

    # - "none" (the tables' exp = 0): E_C is always 0. A caption has its own terms only.
    # - "free" (exp = 1): E_C is always 1.
    # - "caption" (exp = c): E_C ~ Ber(p_c); p_c rises by equal steps from 0 in the first epoch to 1 in the last.
    # - "caption+word" (exp = c + w): also E_k^v ~ Ber(p_k), one coin per term and batch; p_k rises by equal steps from
    #   1 - df_k in the first epoch to 1 in the last, with df_k the share of the training captions that have term k.
    # Images have no terms of their own: they are always expanded, as in the released code. (The algorithm writes EXPAND
    # for captions only, "textual query expansion".)
    # Readings, where the sources differ:
    # - A caption's *own* term is multiplied by E_k^v as well (Algorithm 1, the branch "else"): a frequent word such as
    #   "a" is dropped from most captions in the first epochs, own or not. The sentence "without expansion only the
    #   caption's own terms may be active" holds either way: a word coin only ever takes terms away.
    # - `per`: E_C is drawn once for a "batch" (default). Algorithm 1 draws it inside "for batch do", before EXPAND, and
    #   EXPAND has no index of the caption on it; the text says "we sample the values of E per batch"; the released code
    #   draws one coin for a batch. "caption" is the other reading: a coin for each caption, from "caption-level
    #   expansion". A batch then mixes both kinds, and an expanded caption of a young head has thirty times the terms of
    #   others: every image's softmax prefers it to the image's own caption, and the loss takes terms away from all.
    #   That leaves sparser and weaker vectors: 1,126 products (24 epochs, η 3e-3) have MRR@10 79.8 with 4.5 FLOPs, per
    #   batch 86.3 with 7.2. While η is small, as in a long warm-up, a short training may not recover at all. E_k^v is
    #   per batch in both.
    # - Eq. 3.6 adds 1/#epochs after each epoch, which leaves p_c at 1 - 1/#epochs in the last one; the text wants "a
    #   maximum value of one in the final epoch". The steps here are 1/(#epochs - 1), so that it is. A training of one
    #   epoch is its last. The released code lets 1 - p_c fall linearly over the first 95 % of the epochs instead.
    # What is drawn is a function of the seed, the epoch and the place (the caption's row, or step and term), whatever
    # was drawn before and on whichever device.

    variant: Variant
    epochs: int
    per: SampledPer = "batch"
    seed: int = 0

    def share(self, epoch: int) -> float:
        """How far the schedule has come in an epoch (from 0): 0 in the first, 1 in the last."""
        return 1.0 if self.epochs == 1 else epoch / (self.epochs - 1)

    def caption_probability(self, epoch: int) -> float:
        """p_c in an epoch (from 0)."""
        match self.variant:
            case "none":
                return 0.0
            case "free":
                return 1.0
            case _:
                return self.share(epoch)

    def word_probabilities(self, epoch: int, frequencies: Tensor) -> Tensor:
        """(|V|,) p_k in an epoch (from 0), from the terms' `frequencies` df (|V|,) in [0, 1]."""
        return 1.0 - frequencies * (1.0 - self.share(epoch))

    def draw(self, epoch: int, step: int, rows: Tensor, frequencies: Tensor) -> ExpansionSample:
        """The coins of a step: `rows` (B,) int64 are its captions, `step` (from 0) its place in the epoch."""
        positions = torch.full_like(rows, step) if self.per == "batch" else rows
        captions = bernoulli(self._seed(epoch, _CAPTIONS), positions, self.caption_probability(epoch))
        if self.variant != "caption+word":
            return ExpansionSample(captions)
        size = len(frequencies)
        positions = torch.arange(step * size, (step + 1) * size, device=rows.device)
        return ExpansionSample(
            captions, bernoulli(self._seed(epoch, _WORDS), positions, self.word_probabilities(epoch, frequencies))
        )

    def _seed(self, epoch: int, stream: int) -> int:
        return int(seed_of(self.seed, epoch, stream))


def bernoulli(seed: int, positions: Tensor, probability: float | Tensor) -> Tensor:
    """Bernoulli draws at `places` (int64) of a stream; `probability` is one number or one for each place (float64)."""
    # The numbers are those of `visir.splitmix`, computed where `places` are. They are compared as whole numbers of 53
    # bits, so that 0 is never, 1 is always, and all devices agree.
    state = (positions + 1) * _signed(_GAMMA) + _signed(seed)  # modulo 2^64: torch's integers wrap around
    state = (state ^ _shifted(state, 30)) * _signed(_FIRST)
    state = (state ^ _shifted(state, 27)) * _signed(_SECOND)
    drawn = _shifted(state ^ _shifted(state, 31), 11)
    if isinstance(probability, Tensor):
        return drawn < (probability * 2.0**53).round().to(torch.int64)
    return drawn < round(probability * 2.0**53)


def allowed(own: Tensor, drawn: ExpansionSample, size: int) -> Tensor:
    """(B, |V|) bool: the terms that EXPAND leaves each caption; `own` (B, L) int64 its terms, filled up with |V|."""
    mask = torch.zeros(len(own), size + 1, dtype=torch.bool, device=own.device)
    mask.scatter_(1, own, True)
    mask = mask[:, :size] | drawn.captions[:, None]
    return mask if drawn.words is None else mask & drawn.words


def _signed(number: int) -> int:
    """The same 64 bits as a signed number."""
    return number - (1 << 64) if number >> 63 else number


def _shifted(state: Tensor, by: int) -> Tensor:
    """To the right, zeros coming in from the left (torch's own shift repeats the sign)."""
    return (state >> by) & ((1 << (64 - by)) - 1)
