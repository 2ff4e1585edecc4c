"""Adapters as a recipe writes them: small matrices beside the weights of a model that stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from visir.encoders.towers.adapters import AdapterSpec
from visir.training.settings import Settings
from visir.training.sides import Count, Positive, Share


class AdapterSettings(Settings):
    """An adapter of `peft` over every side whose tower is "pretrained"; the model's own weights stay as they are.

    Attributes:
        kind: "lora" (Hu et al. 2022), "dora" (Liu et al. 2024), "loha" (Hyeon-Woo et al. 2022), "lokr" (Yeh et al.
            2024) or "ia3" (Liu et al. 2022, which only scales).
        rank: Of the small matrices; peft's own (8) when left out.
        alpha: They are scaled by alpha / rank; peft's own (8) when left out.
        dropout: Within the adapter; peft's own (0) when left out.
        modules: Last parts of the names of modules, as peft's `target_modules`: ["q_proj", "v_proj"]. Empty: all
            matrices; and, with "lora", torch's own attention (open_clip's models have it) as a whole.
        options: Further settings of peft's class for this kind: { use_rslora = true }.
    """

    kind: Literal["lora", "dora", "loha", "lokr", "ia3"] = "lora"
    rank: Count | None = None
    alpha: Positive | None = None
    dropout: Share | None = None
    modules: tuple[str, ...] = ()
    options: Annotated[Mapping[str, Any], Field(default_factory=dict)]

    @property
    def spec(self) -> AdapterSpec:
        """What is put into a tower."""
        alpha = self.alpha if self.alpha is None or self.alpha != int(self.alpha) else int(self.alpha)
        return AdapterSpec(self.kind, self.rank, alpha, self.dropout, self.modules, dict(self.options))
