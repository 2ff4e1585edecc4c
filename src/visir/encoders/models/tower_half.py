"""A trained tower as a half, so that what visir trained can be tuned further like any other model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from visir.encoders.models.halves import no_checkpointing
from visir.encoders.towers.base import Body, Inputs, Tower, own_body
from visir.encoders.towers.half import Half
from visir.encoders.towers.head import Head, HeadSpec
from visir.encoders.towers.kinds import body_class
from visir.encoders.towers.pretrained import PretrainedBody
from visir.records import Modality
from visir.storage import Scratch
from visir.storage.removal import files_below


class TowerHalf(Half):
    """A tower with a body: its head is tuned with it."""

    family: ClassVar[str] = "towers"
    network: Tower

    def __init__(self, tower: Tower) -> None:
        self.network = tower
        self.modality, self.outputs = self._body.modality, tower.head.spec.outputs

    @property
    def _body(self) -> Body:
        # Looked up, because a copy of this half has a network of its own.
        return own_body(self.network.body)

    def prepare(self, items: Sequence[Any]) -> list[Any]:
        """As the body does it."""
        return [self._body.prepare(item) for item in items]

    def prepare_sized(self, items: Sequence[Any]) -> list[Any]:
        """As the body does it."""
        return [self._body.prepare_sized(item) for item in items]

    def room_for(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the body does it."""
        return self._body.room_for(texts, ending)

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """As the body does it."""
        return self._body.collate(prepared)

    def values(self) -> dict[str, Any]:
        """As on the card of the encoder it was taken from."""
        return self._body.preprocessing()

    def spec(self) -> dict[str, Any]:
        """The shapes of body and head."""
        return describe_tower(self.network)

    def files(self) -> dict[str, bytes]:
        """What the body saves beside its weights: a vocabulary, a tokenizer."""
        with Scratch.temporary("body") as scratch:
            folder = scratch.folder("files")
            self._body.save(folder)
            scratch.written("files")
            return {name: (folder / name).read_bytes() for name in files_below(folder)}

    def checkpoint_gradients(self) -> None:
        """Compute activations again, in a body that can: one that was a half itself."""
        if not isinstance(self._body, PretrainedBody):
            raise no_checkpointing(f"a tower of kind {self._body.kind!r}")
        self._body.source.checkpoint_gradients()


def half_of(tower: Tower) -> Half:
    """The half that `tower` is; it must have a body. Of a tuned half without a head, that half again."""
    if isinstance(tower.body, PretrainedBody) and tower.head.spec.identity:
        return tower.body.source
    return TowerHalf(tower)


def describe_tower(tower: Tower) -> dict[str, Any]:
    """Plain values from which `build_tower` builds the same architecture."""
    body = own_body(tower.body)
    return {"head": tower.head.spec.to_dict(), "body": {"kind": body.kind, **body.spec()}}


def build_tower(folder: Path, entry: Mapping[str, Any]) -> Tower:
    """The tower that `describe_tower` described, its weights still to be put in; `folder` is what its body saved."""
    spec = dict(entry["body"])
    body = body_class(spec.pop("kind")).load(folder, spec)
    return Tower(body, Head(HeadSpec.from_dict(entry["head"])))


def load_half(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> Half:
    """The half with random weights, from the `files` of a half that lie in `folder`."""
    with torch.random.fork_rng(devices=[]):
        return TowerHalf(build_tower(folder, spec))
