"""The kinds of bodies by name. A new one is one file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from visir.registry import Registry

if TYPE_CHECKING:
    from visir.encoders.towers.base import Body

BODIES: Registry[str] = Registry("kind of body")
"""Kind to "module:class"; imported when asked for, because a ResNet needs torchvision and a GRU does not."""

BODIES.add("resnet", "visir.encoders.towers.resnet:ResNetBody")
BODIES.add("small-cnn", "visir.encoders.towers.small_cnn:SmallCNNBody")
BODIES.add("gru", "visir.encoders.towers.gru:GRUBody")
BODIES.add("pretrained", "visir.encoders.towers.pretrained:PretrainedBody")


def body_class(kind: str) -> type[Body]:
    """The class of a kind; raises `VisirError` with the nearest kind for an unknown one."""
    module, _, name = BODIES.get(kind).partition(":")
    found: type[Body] = getattr(import_module(module), name)
    return found
