"""A tower of a loaded encoder that stays as it is, with small adapters that are trained beside its weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import nn

from visir.encoders.base import Encoder
from visir.encoders.towers.adapters import AdapterSpec, inject, merge, pattern_of
from visir.encoders.towers.base import Tower
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.errors import EncoderError
from visir.records import Modality


class AdaptedBackbone(PretrainedBackbone):
    """The image tower or the text tower of an encoder with adapters of `peft`; nothing else in it is trained."""

    kind: ClassVar[str] = "adapted"

    def __init__(
        self, encoder: Encoder, modality: Modality, config: Any, *, checkpointing: bool = False, where: str = "adapter"
    ) -> None:
        super().__init__(encoder, modality, checkpointing=checkpointing)
        self.base = encoder
        self.network.requires_grad_(False)
        if isinstance(config, AdapterSpec):
            config = config.config(pattern_of(config.chosen(self.root)))
        self.config = config
        inject(self.root, config, where)

    @property
    def root(self) -> nn.Module:
        """The part of the network to which peft's names are relative: the model as its own library has it."""
        return self.source.base_module()

    def pretrained_modules(self) -> Sequence[nn.Module]:
        """None: what came trained is fixed for good."""
        return ()

    def merged(self) -> PretrainedBackbone:
        """A tower with the adapters added to its weights."""
        source = copy.deepcopy(self.source)
        merge(source.base_module())
        backbone = PretrainedBackbone.__new__(PretrainedBackbone)
        backbone._take(source)
        backbone._files = self._files
        return backbone

    def save(self, folder: Path) -> None:
        """Nothing: the base has its own files, and adapters are written by `adapter_files`."""

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """Not by itself: an adapter needs its base."""
        raise EncoderError(f"{folder}: an adapter is read with its base model.")


def merged_tower(tower: Tower) -> Tower:
    """A tower without adapters, of the same vectors; the tower itself where it has none."""
    if not isinstance(tower.backbone, AdaptedBackbone):
        return tower
    return Tower(tower.backbone.merged(), copy.deepcopy(tower.head))
