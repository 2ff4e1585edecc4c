"""The kinds of bodies by name. A new one is one file and one line here."""

from __future__ import annotations

from visir.registry import Registry

BODIES: Registry[str] = Registry("kind of body")
"""Kind to "module:class"; imported when asked for, because a ResNet needs torchvision and a GRU does not."""

BODIES.add("resnet", "visir.encoders.towers.resnet:ResNetBody")
BODIES.add("small-cnn", "visir.encoders.towers.small_cnn:SmallCNNBody")
BODIES.add("gru", "visir.encoders.towers.gru:GRUBody")
BODIES.add("pretrained", "visir.encoders.towers.pretrained:PretrainedBody")
