"""The objective of a training: a contrastive loss, and what is set against shortcuts beside it.

    L = contrastive + Σ join(L_rec)

| loss | of a pair i | source | beside the others |
|---|---|---|---|
| `IFM` | ½ InfoNCE(s) + ½ InfoNCE(s ± ε) | Robinson et al. 2021; thesis 4.E.3 | InfoNCE for ε = 0 |
| `LTD` | 1 − cos(decoder(z_C[i]), y_i) | LTD eq. 5, 6 | beside one of them: what the caption's y knows |
| `ITD` | −Σ_t log p(x_t ∣ x_<t, z_C[i]) | LTD eq. 4 | as LTD, for words in place of a latent target |

A contrastive loss alone learns what parts a caption from the others of its batch, and no more. IFM makes those others
nearer; LTD and ITD ask the caption's vector z_C for what else the caption says. They join as a second term (`Dual`, LTD
eq. 7) or as a constraint (`Constraint`, eq. 8 and 9). The contrastive losses are in `visir.training.losses`; a new
auxiliary one is a class and one key of `Auxiliary`. `visir.training.trainer_losses` gives all of them to the trainers
of sentence-transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from visir.errors import ConfigurationError, raise_faults
from visir.training.losses import (
    CosineSettings,
    FILIPSettings,
    InfoNCE,
    InfoNCESettings,
    Losses,
    MultiPositiveSettings,
    OwnScale,
    SigmoidSettings,
    Temperature,
    TripletSettings,
)
from visir.training.settings import Count, Positive, Settings
from visir.training.similarities import FalseNegatives, VectorPairs, candidates, precise

# IFM: InfoNCE made harder by a budget that perturbs every similarity against its label.


class IFMSettings(InfoNCESettings):
    """InfoNCE averaged with its perturbed self; see `IFM`. As `InfoNCESettings`, and

    Attributes:
        epsilon: The perturbation, in cosines.
    """

    name: Literal["ifm"] = "ifm"  # type: ignore[assignment]
    epsilon: Positive = 0.1

    def build(self, own: OwnScale) -> IFM:
        """The loss."""
        start = own.temperature_of(self.temperature)
        return IFM(start, self.epsilon, learnt=self.learn_temperature, false_negatives=self.false_negatives)


class IFM(InfoNCE):
    """Implicit feature modification (Robinson et al. 2021; thesis, appendix 4.E.3), averaged with InfoNCE.

    With s the cosines, before dividing by τ the positive loses ε and every negative gains it:

        S'_ii = (s_ii − ε) / τ        S'_ij = (s_ij + ε) / τ   (j ≠ i)
        L = ½ · InfoNCE(S') + ½ · InfoNCE(S)

    both of them symmetric, with the same τ (a learnt one gets the gradient of both) and the same `false_negatives`. S'
    is the worst that moving every candidate of a query by a vector of length ε can do. The order among negatives stays;
    what changes is how much weight a query gets that is already answered: every negative's odds are multiplied by
    exp(2 ε / τ), 55 times at τ 0.05 and ε 0.1, and 5·10⁸ times at τ 0.05 and ε 0.5, where S' no longer tells answered
    queries from unanswered ones. The thesis tries ε ∈ {0.05, 0.1, 0.2, 0.5, 1} at learnt temperatures.

    The appendix prints the image-to-text sum with the indices of the text-to-image one; the columns and rows are meant,
    as in its InfoNCE. Robinson et al. perturb positives and negatives by budgets of their own; the thesis by one.
    """

    def __init__(
        self,
        temperature: float = 0.05,
        epsilon: float = 0.1,
        *,
        learnt: bool = False,
        false_negatives: FalseNegatives = "masked",
    ) -> None:
        super().__init__(temperature, learnt=learnt, false_negatives=false_negatives)
        self.epsilon = epsilon

    def forward(self, pairs: VectorPairs) -> Tensor:
        """The loss of a batch, a scalar."""
        plain = candidates(pairs)
        against = [
            replace(of, scores=torch.where(of.right, of.scores - self.epsilon, of.scores + self.epsilon))
            for of in plain
        ]
        return (self.over(plain) + self.over(against)) / 2


Contrastive = Annotated[
    InfoNCESettings
    | TripletSettings
    | IFMSettings
    | SigmoidSettings
    | MultiPositiveSettings
    | CosineSettings
    | FILIPSettings,
    Field(discriminator="name"),
]
"""The contrastive losses; each builds its module from its settings."""


WITH_NEGATIVES = ("infonce", "ifm", "triplet", "sigmoid", "multi-positive")
"""Those that take hard negatives."""


# How a reconstruction loss joins the contrastive one: as a second term, or as a constraint.

Join = Literal["dual", "constraint"]


Clamp = Literal["reading", "step"]
"""Where a multiplier is put into [0, 100]: whenever it is read, or itself after every step. See `Constraint`."""


_RATE, _MOMENTUM, _DAMPENING = 5e-3, 0.9, 0.9


_FIRST, _CEILING = 1.0, 100.0


class JoinSettings(Settings):
    """How an auxiliary loss joins the contrastive one; see `Dual` and `Constraint`."""

    # As a "constraint" or as a "dual" loss; `bound` is the constraint's η, `beta` the dual loss's β.
    join: Join = "constraint"
    beta: Positive = 1.0
    bound: Positive
    clamp: Clamp = "reading"  # the constraint's λ is put into [0, 100] at "reading" (as published) or at each "step"


class Dual(nn.Module):
    """A second term: β · L_rec (latent target decoding, eq. 7)."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, reconstruction: Tensor) -> Tensor:
        """What is added to the contrastive loss."""
        return self.beta * reconstruction


class Constraint(nn.Module):
    """A constraint L_rec ≤ η by a Lagrange multiplier: λ · (L_rec / η − 1) (latent target decoding, eq. 8 and 9)."""

    # The weights descend, λ *ascends*: after every update of the weights, `ascend` moves the multiplier along its
    # gradient L_rec / η − 1 by SGD with rate 0.005, momentum 0.9 and dampening 0.9, from 1 on, exactly as
    # `torch.optim.SGD(…, maximize=True)` does (the first gradient enters its velocity undampened). λ ∈ [0, 100].
    # The paper says "bounded between 0 and 100"; there are two readings, and they train differently:
    # - `clamp="reading"` (default): the multiplier moves freely; λ is its value put into the interval where it is read.
    #   The released code does this, and the published trajectories show it: replayed over the published reconstruction
    #   losses (every 100th step, interpolated) it follows the published λ of η = 0.2 with correlation 0.9996, the other
    #   reading with 0.33. While a constraint is met the multiplier sinks far below zero, and λ stays 0 after L_rec has
    #   gone back above η until it has climbed out: in the published run with η = 0.2, λ is 0 for 95 % of training. In
    #   effect it is a curriculum, reconstruction first and contrast alone later.
    # - `clamp="step"`: the multiplier itself is put back after each step (projected ascent, what "bounded" says). λ
    #   answers within a step when L_rec goes above η, and L_rec is held at η to the end.
    # Multiplier, velocity and the number of steps are buffers in float64: they travel with `state_dict`.

    multiplier: Tensor
    velocity: Tensor
    steps: Tensor

    def __init__(self, bound: float, *, clamp: Clamp = "reading") -> None:
        super().__init__()
        self.bound = bound
        self.clamp = clamp
        self.register_buffer("multiplier", torch.tensor(_FIRST, dtype=torch.float64))
        self.register_buffer("velocity", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("steps", torch.tensor(0))

    @property
    def value(self) -> float:
        """λ as it stands now."""
        return float(self._bounded())

    @property
    def unread(self) -> float | Tensor:
        """`value`, or on a GPU a tensor of it."""
        return self.value if self.multiplier.device.type == "cpu" else self._bounded()

    def forward(self, reconstruction: Tensor) -> Tensor:
        """What is added to the contrastive loss; λ gets no gradient."""
        return self._bounded().to(reconstruction.dtype) * (reconstruction / self.bound - 1)

    def ascend(self, reconstruction: float) -> None:
        """One step of λ, on the reconstruction loss of the batch that the weights have just learnt from."""
        gradient = reconstruction / self.bound - 1
        moving = self.velocity.mul(_MOMENTUM).add(gradient, alpha=1 - _DAMPENING)
        self.velocity.copy_(torch.where(self.steps == 0, gradient, moving))
        self.multiplier.add_(self.velocity, alpha=_RATE)
        if self.clamp == "step":
            self.multiplier.clamp_(0.0, _CEILING)
        self.steps += 1

    def _bounded(self) -> Tensor:
        return self.multiplier.clamp(0.0, _CEILING)


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
                hint="one vector for each caption: `TrainingExamples.targets`; with sentence-transformers the "
                "column `label`",
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
