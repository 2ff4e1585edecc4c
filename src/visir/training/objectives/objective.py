"""The objective of a dual encoder: a contrastive loss and auxiliary ones."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from visir.errors import ConfigurationError, raise_faults
from visir.training.objectives import Auxiliary, Contrastive
from visir.training.objectives.base import Constraint, Dual, JoinSettings, Losses, OwnScale, Temperature, VectorPairs
from visir.training.objectives.ltd import ITD, LTD


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
