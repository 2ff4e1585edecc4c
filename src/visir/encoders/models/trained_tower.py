"""A trained tower as a tower, so that what visir trained can be tuned further like any other model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from visir.encoders.models.pretrained_towers import no_checkpointing
from visir.encoders.models.text_inputs import TextInputs
from visir.encoders.towers.adapted_backbone import merged_tower
from visir.encoders.towers.base import Backbone, Head, HeadSpec, Inputs, Tower, own_backbone
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone, PretrainedTower
from visir.encoders.truncation import TextLimit
from visir.records import Modality
from visir.registry import Registry
from visir.storage import Scratch
from visir.storage.disk import files_below

if TYPE_CHECKING:
    from visir.encoders.towers.base import Backbone


# The kinds of backbones by name. A new one is one file and one line here.

BACKBONES: Registry[str] = Registry("kind of backbone")
"""Kind to "module:class"; imported when asked for, because a ResNet needs torchvision and a GRU does not."""

BACKBONES.add("resnet", "visir.encoders.towers.resnet:ResNetBackbone")
BACKBONES.add("small-cnn", "visir.encoders.towers.resnet:SmallCNNBackbone")
BACKBONES.add("gru", "visir.encoders.towers.gru:GRUBackbone")
BACKBONES.add("pretrained", "visir.encoders.towers.pretrained_backbone:PretrainedBackbone")


def backbone_class(kind: str) -> type[Backbone]:
    """The class of a kind; raises `VisirError` with the nearest kind for an unknown one."""
    module, _, name = BACKBONES.get(kind).partition(":")
    backbone: type[Backbone] = getattr(import_module(module), name)
    return backbone


class TrainedTower(PretrainedTower):
    """A tower with a backbone: its head is tuned with it."""

    family: ClassVar[str] = "towers"
    network: Tower

    def __init__(self, tower: Tower) -> None:
        self.network = tower
        self.modality, self.outputs = self._backbone.modality, tower.head.spec.outputs

    @property
    def _backbone(self) -> Backbone:
        # Looked up, because a copy of this tower has a network of its own.
        return own_backbone(self.network.backbone)

    def prepare(self, items: Sequence[Any]) -> list[Any]:
        """As the backbone does it."""
        return [self._backbone.prepare(item) for item in items]

    def prepare_sized(self, items: Sequence[Any]) -> list[Any]:
        """As the backbone does it."""
        return [self._backbone.prepare_sized(item) for item in items]

    def text_limit(self) -> TextLimit | None:
        """As the backbone reads."""
        return self._backbone.text_limit()

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the backbone does it."""
        return self._backbone.truncate(texts, ending)

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """As the backbone does it."""
        return self._backbone.collate(prepared)

    def text_inputs(self) -> TextInputs | None:
        """As the tower that the backbone is made of, where it is of one."""
        return self._backbone.source.text_inputs() if isinstance(self._backbone, PretrainedBackbone) else None

    def values(self) -> dict[str, Any]:
        """As on the card of the encoder it was taken from."""
        return self._backbone.preprocessing()

    def spec(self) -> dict[str, Any]:
        """The shapes of backbone and head."""
        return describe_tower(self.network)

    def files(self) -> dict[str, bytes]:
        """What the backbone saves beside its weights: a vocabulary, a tokenizer."""
        with Scratch.temporary("backbone") as scratch:
            folder = scratch.folder("files")
            self._backbone.save(folder)
            scratch.written("files")
            return {name: (folder / name).read_bytes() for name in files_below(folder)}

    def checkpoint_gradients(self) -> None:
        """Compute activations again, in a backbone that can: one that was a tower itself."""
        if not isinstance(self._backbone, PretrainedBackbone):
            raise no_checkpointing(f"a tower of kind {self._backbone.kind!r}")
        self._backbone.source.checkpoint_gradients()


def pretrained_tower_of(tower: Tower) -> PretrainedTower:
    """The tower that `tower` is; it must have a backbone."""
    # Of a tuned tower without a head, that tower again; adapters are merged into a copy.
    tower = merged_tower(tower)
    if isinstance(tower.backbone, PretrainedBackbone) and tower.head.spec.identity:
        return tower.backbone.source
    return TrainedTower(tower)


def describe_tower(tower: Tower) -> dict[str, Any]:
    """Plain values from which `build_tower` builds the same architecture."""
    backbone = own_backbone(tower.backbone)
    return {"head": tower.head.spec.to_dict(), "backbone": {"kind": backbone.kind, **backbone.spec()}}


def build_tower(folder: Path, entry: Mapping[str, Any]) -> Tower:
    """The tower that `describe_tower` described, without its weights; `folder` has what its backbone saved."""
    spec = dict(entry["backbone"])
    backbone = backbone_class(spec.pop("kind")).load(folder, spec)
    return Tower(backbone, Head(HeadSpec.from_dict(entry["head"])))


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedTower:
    """The tower with random weights, from the `files` of a tower that lie in `folder`."""
    with torch.random.fork_rng(devices=[]):
        return TrainedTower(build_tower(folder, spec))
