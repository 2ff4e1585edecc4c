"""The kinds of backbones by name. A new one is one file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from visir.registry import Registry

if TYPE_CHECKING:
    from visir.encoders.towers.base import Backbone

BACKBONES: Registry[str] = Registry("kind of backbone")
"""Kind to "module:class"; imported when asked for, because a ResNet needs torchvision and a GRU does not."""

BACKBONES.add("resnet", "visir.encoders.towers.resnet:ResNetBackbone")
BACKBONES.add("small-cnn", "visir.encoders.towers.small_cnn:SmallCNNBackbone")
BACKBONES.add("gru", "visir.encoders.towers.gru:GRUBackbone")
BACKBONES.add("pretrained", "visir.encoders.towers.pretrained_backbone:PretrainedBackbone")


def backbone_class(kind: str) -> type[Backbone]:
    """The class of a kind; raises `VisirError` with the nearest kind for an unknown one."""
    module, _, name = BACKBONES.get(kind).partition(":")
    backbone: type[Backbone] = getattr(import_module(module), name)
    return backbone
