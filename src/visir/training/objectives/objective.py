"""The objective of a dual encoder: a contrastive loss and auxiliary ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from visir.errors import ConfigurationError, raise_faults
from visir.training.objectives.base import (
    Constraint,
    Dual,
    JoinSettings,
    Losses,
    OwnScale,
    Temperature,
    VectorPairs,
    precise,
)
from visir.training.objectives.infonce import Contrastive
from visir.training.settings import Settings
from visir.training.sides import Count, Positive

# LTD: a caption's vector should still hold what a sentence encoder knows of the caption.


class LTDSettings(JoinSettings):
    """Latent target decoding; see `LTD`, and `JoinSettings` for the two ways in which it joins.

    Attributes:
        target: The sentence encoder whose vectors of the captions are decoded, as `visir.load` takes it.
        bound: The constraint's η, a mean of 1 − cosine.
        hidden: Width of the decoder's two hidden layers.
        shortcuts: Whether the targets know the synthetic shortcuts at the captions' ends. By default they do not: a
            decoder that has to say the shortcut again rewards what LTD is to prevent. The thesis's released code
            encodes the caption with its shortcut; with `true`, so does this: batch by batch, where numbers are new in
            every epoch (`shortcuts.shuffles = 0`), as it does too.
    """

    target: str = "st:all-MiniLM-L6-v2"
    bound: Positive = 0.2
    hidden: Count = 1024
    shortcuts: bool = False


class LTD(nn.Module):
    """Decodes the caption's latent target from its vector z_C with a three-layer ReLU network (LTD, eq. 5 and 6).

        ỹ = W₃ relu(W₂ relu(W₁ z_C + b₁) + b₂) + b₃        L_rec = mean over captions of 1 − cos(ỹ, y)

    y, (n, t), is the caption's vector from a sentence encoder that stays as it is, and ỹ only has to point its way. In
    [0, 2]; an untrained decoder begins at about 1. Equation 5 has no biases; the released code does, and so has this.

    z_C is the unit vector that is also contrasted, (n, d). The decoder is not used after training. Unlike a decoder of
    words it cannot fall back on a language model, which is the paper's point.
    """

    def __init__(self, dimension: int, target_width: int, settings: LTDSettings) -> None:
        super().__init__()
        layers = [
            nn.Linear(dimension, settings.hidden),
            nn.Linear(settings.hidden, settings.hidden),
            nn.Linear(settings.hidden, target_width),
        ]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)  # as released; PyTorch's default begins with smaller weights
        self.decoder = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The reconstruction loss of a batch, a scalar."""
        if pairs.targets is None:
            raise ConfigurationError(
                "LTD: this batch has no latent targets.",
                hint="give `TrainingExamples.targets`, one vector per caption",
                code="batch-no-latent-targets",
            )
        decoded = precise(self.decoder(pairs.positives))
        return 1 - functional.cosine_similarity(decoded, pairs.targets.to(decoded.dtype), dim=1).mean()


# ITD: a caption's vector should be enough to say the caption again, word by word.

_PADDING = 0


class ITDSettings(JoinSettings):
    """Input target decoding; see `ITD`, and `JoinSettings` for the two ways in which it joins.

    Attributes:
        bound: The constraint's η in nats per caption.
        words: Width of the decoder's word embeddings.
        min_count: Rarer words of the training captions become the unknown word.
        normalise_over: What the softmax runs over: the "vocabulary", as eq. 4 has it, or the "positions" of a caption,
            as the released code does, to which the published η = 6 belongs.
    """

    bound: Positive = 6.0
    words: Count = 300
    min_count: Count = 1
    normalise_over: Literal["vocabulary", "positions"] = "vocabulary"


class ITD(nn.Module):
    """Decodes the caption's words from its vector z_C with a one-layer GRU (latent target decoding, eq. 4, section 4).

    z_C, the unit vector that is also contrasted, is the GRU's initial state, so the state is as wide as the common
    space; it reads the word before (teacher forcing; embeddings of its own, from scratch) and gives a distribution over
    the vocabulary:

        L_rec = mean over captions of  −Σ_t log p(x_t | x_1 … x_{t−1}, z_C)

    x_0 is the start token, the last x_t the end token; padding counts nothing. In nats *per caption*: a sum over its
    tokens, as eq. 4 is and as the released code does, so a caption of 12 tokens over 9,000 words begins at about
    12 · ln 9000 = 109. A mean per token would meet the paper's bound η = 6 nearly at once (e⁶ is 403 words).

    The published bound does not carry over. The released decoder normalises its log-softmax over the *positions* of a
    caption instead of over the vocabulary (`dim=1` of (n, L, V)), so its "6" is not a likelihood of words. As one, 6
    nats are half a nat per token of a 12-token caption, far below any language model: z_C must spell the caption out,
    and until it does, λ climbs. Look at the reconstruction loss of a dual run before choosing a bound.

    `normalise_over = "positions"` is the released loss. With l_tw the logit of word w at position t (after the start
    token and t words):

        L_rec = mean over captions of  −Σ_t ( l_t,x(t+1) − log Σ_s exp l_s,x(t+1) )

    s runs over the L positions of the longest caption of the batch. Positions behind a caption's end have the state 0,
    and count: the loss of a caption depends on the others of its batch (with several processes, on those of its
    process, so that they do not compute what one process would). It asks *where* in the caption a word stands,
    not which word stands there: a decoder that gives all positions one logit has (tokens) · log L, of 12 tokens and
    L = 20 about 36. Here the decoder reads the words that the caption has; the released one reads and decodes them
    after a tenth is replaced and a tenth dropped.
    """

    def __init__(self, dimension: int, vocabulary_size: int, settings: ITDSettings) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, settings.words, padding_idx=_PADDING)
        self.gru = nn.GRU(settings.words, dimension, batch_first=True)
        self.vocabulary = nn.Linear(dimension, vocabulary_size)
        self._over_positions = settings.normalise_over == "positions"

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The reconstruction loss of a batch, a scalar."""
        if pairs.tokens is None:
            raise ConfigurationError(
                "ITD: this batch has no caption tokens.",
                hint="give `TrainingExamples.tokens`, padded word ids per caption",
                code="batch-no-caption-tokens",
            )
        if self._over_positions:
            return self._by_position(pairs.tokens, pairs.positives)
        inputs, targets = pairs.tokens[:, :-1], pairs.tokens[:, 1:]
        lengths = (targets != _PADDING).sum(1).cpu()  # where the packing wants them
        # Packed, padding gets no state and no softmax over the vocabulary, which is most of the work. Both packs have
        # the same order.
        states, _ = self.gru(_packed(self.words(inputs), lengths), pairs.positives[None].contiguous())
        logits = precise(self.vocabulary(states.data))
        return functional.cross_entropy(logits, _packed(targets, lengths).data, reduction="sum") / len(targets)

    def _by_position(self, tokens: Tensor, texts: Tensor) -> Tensor:
        lengths = (tokens != _PADDING).sum(1).cpu()
        tokens = tokens[:, : int(lengths.max())]
        states, _ = self.gru(_packed(self.words(tokens), lengths), texts[None].contiguous())
        hidden, _ = pad_packed_sequence(states, batch_first=True)  # (n, L, d), 0 behind the end
        targets = tokens[:, 1:]
        # Only the logits of the words that are said: (n, L, d) times (n, d, L - 1), position by word.
        logits = torch.baddbmm(
            self.vocabulary.bias[targets][:, None], hidden, self.vocabulary.weight[targets].transpose(1, 2)
        )
        scores = functional.log_softmax(precise(logits), dim=1).diagonal(dim1=1, dim2=2)
        return -(scores * (targets != _PADDING)).sum() / len(targets)


def _packed(padded: Tensor, lengths: Tensor) -> PackedSequence:
    return pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)


class Auxiliary(Settings):
    """Auxiliary losses beside the contrastive one: none, one or both."""

    ltd: LTDSettings | None = None
    itd: ITDSettings | None = None


class Objective(nn.Module):
    """L = contrastive + Σ over the auxiliary losses of β · L_rec or λ · (L_rec / η − 1)."""

    # `auxiliary` and `joins` have the same keys, which name the parts of the loss. Weights of decoders and a learnt
    # temperature are its parameters; multipliers are buffers. It is no part of the model that is kept.

    def __init__(
        self,
        contrastive: nn.Module,
        auxiliary: Mapping[str, nn.Module] | None = None,
        joins: Mapping[str, Dual | Constraint] | None = None,
        *,
        local_loss: bool = False,
    ) -> None:
        super().__init__()
        self.local_loss = local_loss
        self.contrastive = contrastive
        self.auxiliary = nn.ModuleDict(dict(auxiliary or {}))
        self.joins = nn.ModuleDict(dict(joins or {}))

    def forward(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """The loss of a batch."""
        # With several processes, `pairs` are those of this one and `everyone` those of all, whose vectors are each
        # other's negatives: the contrastive loss is of everyone, in every process alike (or of the process's own pairs
        # among everyone's, where `everyone.queries` says so), and each reconstruction loss is of `pairs` times
        # `weight`, which is (this process's share of the pairs) × (number of processes). So the mean of total and parts
        # over the processes is what one process with the whole batch computes.
        # The parts are "contrastive" and, for each auxiliary loss, `weight` · L_rec before β or λ, all detached.
        total: Tensor = self.contrastive(pairs if everyone is None else everyone)
        parts = {"contrastive": total.detach()}
        for name, reconstruct in self.auxiliary.items():
            reconstruction = weight * reconstruct(pairs)
            parts[name] = reconstruction.detach()
            total = total + self.joins[name](reconstruction)
        return Losses(total, parts)

    def ascend(self, parts: Mapping[str, float]) -> None:
        """Move every multiplier one step; call it after each update of the weights."""
        # `parts` are those of `forward`, averaged over the processes and the batches of the update, so that the
        # multiplier is the same in every process.
        for name, join in self.joins.items():
            if isinstance(join, Constraint):
                join.ascend(parts[name])

    def facts(self) -> dict[str, float | Tensor]:
        """What moves besides the weights, for the log: "temperature", "bias", "ltd multiplier", … when there."""
        # On a device other than the CPU they are tensors of their own there, which do not move on with the weights: to
        # read them would be to wait for the device.
        facts: dict[str, float | Tensor] = {}
        temperature, bias = getattr(self.contrastive, "temperature", None), getattr(self.contrastive, "bias", None)
        if isinstance(temperature, Temperature):
            facts["temperature"] = temperature.unread
        if isinstance(bias, Tensor):
            facts["bias"] = float(bias.detach()) if bias.device.type == "cpu" else bias.detach().clone()
        for name, join in self.joins.items():
            if isinstance(join, Constraint):
                facts[f"{name} multiplier"] = join.unread
        return facts


def build_objective(
    contrastive: Contrastive,
    auxiliary: Auxiliary,
    *,
    dimension: int,
    target_width: int | None,
    vocabulary: int | None,
    own_temperature: float | None,
    own_bias: float | None = None,
) -> Objective:
    """The objective that a recipe describes; decoders draw their first weights from torch's global generator."""
    faults = []
    if getattr(contrastive, "temperature", None) == "own" and own_temperature is None:
        faults.append(
            'objective.temperature = "own": this model comes without a temperature. Pretrained encoders with one are '
            "CLIP, AltCLIP, GroupViT, ALIGN, SigLIP and open_clip's models; BLIP, sentence encoders and networks from "
            "scratch have none. Give a number instead, e.g. 0.05 (LTD) or 0.07 (VSE++)."
        )
    if getattr(contrastive, "bias", None) == "own" and own_bias is None:
        faults.append(
            'objective.bias = "own": this model comes without a bias. SigLIP and its kin have one. Give a number '
            "instead, e.g. -10 (SigLIP begins with it)."
        )
    if auxiliary.ltd is not None and target_width is None:
        faults.append("auxiliary.ltd: there are no latent targets to decode; give `target_width` and the targets.")
    if auxiliary.itd is not None and vocabulary is None:
        faults.append("auxiliary.itd: there are no caption tokens to decode; give `vocabulary` and the tokens.")
    raise_faults(ConfigurationError, "objective", faults)
    modules: dict[str, nn.Module] = {}
    joins: dict[str, Dual | Constraint] = {}
    if auxiliary.ltd is not None and target_width is not None:
        modules["ltd"], joins["ltd"] = LTD(dimension, target_width, auxiliary.ltd), _join(auxiliary.ltd)
    if auxiliary.itd is not None and vocabulary is not None:
        modules["itd"], joins["itd"] = ITD(dimension, vocabulary, auxiliary.itd), _join(auxiliary.itd)
    local_loss = getattr(contrastive, "local_loss", False)
    return Objective(contrastive.build(OwnScale(own_temperature, own_bias)), modules, joins, local_loss=local_loss)


def _join(settings: JoinSettings) -> Dual | Constraint:
    return Dual(settings.beta) if settings.join == "dual" else Constraint(settings.bound, clamp=settings.clamp)
