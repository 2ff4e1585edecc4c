"""LTD: a caption's vector should still hold what a sentence encoder knows of the caption."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from visir.errors import ConfigurationError
from visir.training.objectives.base import VectorPairs
from visir.training.objectives.joins import JoinSettings
from visir.training.objectives.similarity import precise
from visir.training.sides import Count, Positive


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
