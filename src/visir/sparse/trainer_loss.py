"""The loss of sparse heads (D2S) as `SparseEncoderTrainer` of sentence-transformers takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from visir.errors import ConfigurationError
from visir.sparse.expansion import Expansion, allowed
from visir.sparse.loss import SparseLoss, batch_scores, eta_at
from visir.sparse.recipe import ExpansionSettings, LossSettings
from visir.training.losses import Losses
from visir.training.trainer_losses import Features, TrainerLoss, check_finite, checked, citation_of


class D2SLoss(TrainerLoss):
    """Sparse scores that rank as dense ones do, with few and light terms (thesis eq. 3.7), under expansion control.

    The sections of a recipe of `visir.sparsify` say how: `loss` and `expansion`. The mathematics is that of
    `visir.sparsify`. A data set has the columns anchor and positive, and as its label (n, 2, d) numbers: the dense
    vectors of both by the teacher, whatever it is.

    A caption's own terms are its tokens: the model's dimensions are its tokenizer's words, as SPLADE's are. The anchors
    (images, say) are always expanded. One process trains.

    Args:
        model: A `SparseEncoder`.
        loss: `LossSettings`, or as a dictionary: {"eta": 1e-3, "temperature": 0.001}.
        expansion: `ExpansionSettings`, or as a dictionary: {"variant": "caption"}; here "free" when it is left out, as
            sentence-transformers' own losses are.
        frequencies: (|V|,) the share of the training captions that have each term, which "caption+word" needs.
        seed: Of the draws of expansion.

    Raises:
        ConfigurationError: The settings have faults; or something is missing that they need.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossSettings | Mapping[str, Any] | None = None,
        expansion: ExpansionSettings | Mapping[str, Any] | None = None,
        *,
        frequencies: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        from sentence_transformers import MultiVectorEncoder, SentenceTransformer

        if isinstance(model, (SentenceTransformer, MultiVectorEncoder)):
            raise ConfigurationError(
                f"{type(model).__name__}: D2S trains the weights of words, which a SparseEncoder gives.",
                hint="SparseEncoder(MODEL) of sentence-transformers",
                code="loss-of-other-vectors",
            )
        self.settings: LossSettings = checked(LossSettings, loss or {}, "loss")
        self.expansion: ExpansionSettings = checked(ExpansionSettings, expansion or {"variant": "free"}, "expansion")
        if self.expansion.variant == "caption+word" and frequencies is None:
            raise ConfigurationError(
                'expansion.variant = "caption+word" needs the share of the captions that have each term.',
                hint="give frequencies: load_tokenizer(MODEL).terms(captions).frequencies(size) as a tensor",
                code="expansion-without-frequencies",
            )
        self.frequencies, self.seed = frequencies, seed
        self._loss = SparseLoss(self.settings.temperature, self.settings.balance)
        self._epochs = self._steps = 1
        self._epoch = self._step = 0

    @property
    def is_scheduled(self) -> bool:
        """See `TrainerLoss.is_scheduled`: η rises, and captions are expanded more and more."""
        return self.settings.warmup > 0 or self.expansion.variant not in ("none", "free")

    def begin(self, epochs: int, steps: int) -> None:
        """See `TrainerLoss.begin`."""
        self._epochs, self._steps = epochs, steps

    def at_step(self, epoch: int, step: int) -> None:
        """See `TrainerLoss.at_step`."""
        super().at_step(epoch, step)
        self._epoch, self._step = epoch, step

    @property
    def eta(self) -> float:
        """η at this step."""
        now, steps = self._epoch * self._steps + self._step, self._epochs * self._steps
        return eta_at(self.settings.eta, now, steps, self.settings.warmup)

    def facts(self) -> Mapping[str, float]:
        """See `TrainerLoss.facts`: η and p_c."""
        return {"eta": self.eta, "p_c": self._expand.caption_probability(self._epoch)}

    @property
    def _expand(self) -> Expansion:
        return Expansion(self.expansion.variant, self._epochs, self.expansion.sampled_per, self.seed)

    def losses(self, vectors: Sequence[Tensor], labels: Tensor | None, features: Sequence[Features]) -> Losses:
        """See `TrainerLoss.losses`."""
        self.check_alone()
        if len(vectors) > 2:
            raise ConfigurationError(
                f"{len(vectors)} columns of inputs: D2S ranks the pairs of a batch as the teacher does, and takes no "
                "negatives.",
                hint='dataset.select_columns(["anchor", "positive", "label"])',
                code="loss-without-negatives",
            )
        anchors, positives = vectors
        if labels is None or labels.shape[:2] != (len(anchors), 2) or labels.ndim != 3:
            raise ConfigurationError(
                f"labels of shape {None if labels is None else tuple(labels.shape)}; wanted: ({len(anchors)}, 2, d), "
                "the teacher's vectors of anchor and positive.",
                hint='data["label"] = [[anchor, positive] for anchor, positive in zip(…)], each a list of d numbers',
                code="labels-of-another-shape",
            )
        check_finite(labels)
        if self.expansion.variant != "free":
            positives = positives * self._allowed(features, positives)
        scores = batch_scores(anchors, positives)
        total, parts = self._loss(scores, labels[:, 0], labels[:, 1], self.eta)
        return Losses(total, {**parts, "image terms": scores.image_terms, "text terms": scores.text_terms})

    def _allowed(self, features: Sequence[Features], positives: Tensor) -> Tensor:
        """(n, |V|) the terms that each caption may have."""
        ids = features[1].get("input_ids") if features else None
        if ids is None:
            raise ConfigurationError(
                f'expansion.variant = "{self.expansion.variant}" needs the tokens of the positives; there are none.',
                hint='expansion={"variant": "free"}',
                code="expansion-without-tokens",
            )
        size = positives.shape[1]
        own = ids.masked_fill(features[1]["attention_mask"] == 0, size)
        # Places of their own in the epoch for each step, and for each batch of a step that accumulates several.
        place = self._step + len(self._parts) * self._steps
        rows = torch.arange(len(own), device=own.device) + place * len(own)
        frequencies = positives.new_zeros(size) if self.frequencies is None else self.frequencies.to(positives.device)
        return allowed(own, self._expand.draw(self._epoch, self._step, rows, frequencies), size)

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        return {"loss": self.settings.model_dump(mode="json"), "expansion": self.expansion.model_dump(mode="json")}

    @property
    def citation(self) -> str:
        """BibTeX of the paper, for the model card."""
        return citation_of(["nguyen2024multimodal"])
