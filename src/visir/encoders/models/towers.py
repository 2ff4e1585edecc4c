"""Two trained towers as one encoder: `load("path/to/checkpoint")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image

from visir.encoders.base import Encoder
from visir.encoders.devices import COMPILED, pick_device
from visir.encoders.forms import one_each
from visir.encoders.inputs import Pixels
from visir.encoders.intake import Embedded
from visir.encoders.models.compiled_towers import CompiledTowers
from visir.encoders.models.forward import inference, no_vectors, to_vectors
from visir.encoders.models.pretrained_towers import dtype_on_card, of_torch
from visir.encoders.models.text_side import TextSide, side_of_tower, text_side_of
from visir.encoders.models.trained_tower import pretrained_tower_of
from visir.encoders.models.with_whole import WithWhole
from visir.encoders.towers.base import Tower, own_backbone, to_device
from visir.encoders.towers.pretrained_tower import PretrainedTower
from visir.encoders.towers.set_tower import SetTower
from visir.errors import EncoderError
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality, Role, TokenVectors

KIND = "towers"
SIDES: tuple[Modality, Modality] = ("image", "text")
_BLOCK = 8192


class TowersEncoder(Encoder):
    """An image tower and a text tower that were trained together."""

    # A side whose tower has a backbone encodes by itself. A side without one has a frozen encoder (`base_encoders`),
    # whose vectors are what is kept in the store, so evaluating another checkpoint over the same base encoder encodes
    # nothing again; `project` is then a matrix product.
    # Where both frozen encoders give several vectors for each input, so do the towers (form "multi-vector"): a head
    # brings each vector into the common space by itself, where it has length 1, and pairs are scored with MaxSim.

    batch_size = 128

    def __init__(
        self,
        towers: Mapping[Modality, Tower],
        base_encoders: Mapping[Modality, Encoder | None],
        *,
        name: str = KIND,
        device: str | None = None,
        dtype: str = "float32",
        weights: str | None = None,
        temperature: float | None = None,
        bias: float | None = None,
        prompts: Sequence[str] = (),
    ) -> None:
        for side in SIDES:
            _check_fit(side, towers[side], base_encoders.get(side))
        outputs = [towers[side].head.spec.outputs for side in SIDES]
        if outputs[0] != outputs[1]:
            raise EncoderError(
                f"{name}: the towers end in different dimensions, {outputs[0]} and {outputs[1]}.",
                code="towers-end-different-dimensions",
            )
        torch_device, torch_dtype = of_torch(device, dtype)
        self.device = pick_device(torch_device)
        self._compiled = CompiledTowers(self.pretrained_tower) if device == COMPILED else None
        self.base_encoders = {side: base_encoders.get(side) for side in SIDES}
        for tower in towers.values():
            tower.to(self.device, getattr(torch, torch_dtype) if tower.backbone is not None else torch.float32).eval()
        self.towers = dict(towers)
        if all(isinstance(tower, SetTower) for tower in towers.values()):
            self.form = "multi-vector"
        self._temperature, self._bias, self.prompts = temperature, bias, tuple(prompts)
        self.dimension = outputs[0]
        self.modalities = frozenset(SIDES)
        frozen = {side: encoder.card for side, encoder in self.base_encoders.items() if encoder is not None}
        self.distinguishes_roles = any(
            encoder is not None and encoder.distinguishes_roles for encoder in self.base_encoders.values()
        )
        own = [side for side in SIDES if side not in frozen]
        self.card = EncoderCard(
            name=name,
            family=KIND,
            weights=weights and hash_json({KIND: weights, **{s: card.fingerprint for s, card in frozen.items()}}),
            image_preprocessing=self._preprocessing("image"),
            text_preprocessing=self._preprocessing("text") | ({"prompts": list(prompts)} if prompts else {}),
            dtype=dtype_on_card(device, dtype) if own else frozen["image"].dtype,
        )
        if device == COMPILED and not any(COMPILED in card.dtype for card in (self.card, *frozen.values())):
            pick_device(device)  # heads over frozen encoders of which none is compiled

    def _preprocessing(self, side: Modality) -> dict[str, Any]:
        backbone, base_encoder = self.towers[side].backbone, self.base_encoders[side]
        if backbone is not None:
            return backbone.preprocessing()
        assert base_encoder is not None
        return base_encoder.card.image_preprocessing if side == "image" else base_encoder.card.text_preprocessing

    def base_encoder(self, modality: Modality) -> Encoder | None:
        """The frozen encoder whose vectors are kept, of one modality."""
        # None when its tower has a backbone; when texts stand in prompts; and when vectors repeat that of the whole
        # item.
        if (modality == "text" and self.prompts) or isinstance(self.base_encoders[modality], WithWhole):
            return None
        return self.base_encoders[modality]

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, inputs) vectors of the frozen encoder to (n, dimension), in blocks so that memory stays bounded."""
        if self.base_encoders[modality] is None:
            return super().project(modality, vectors)
        result = np.empty((len(vectors), self.dimension), dtype=np.float32)
        with inference():
            for start in range(0, len(vectors), _BLOCK):
                block = torch.from_numpy(np.array(vectors[start : start + _BLOCK], dtype=np.float32))
                result[start : start + len(block)] = to_vectors(self.towers[modality].project(block.to(self.device)))
        return result

    def for_role(self, role: Role) -> TowersEncoder:
        """The same towers over their frozen encoders in this role."""
        if not self.distinguishes_roles:
            return self
        encoder = copy(self)
        encoder.base_encoders = {side: base and base.for_role(role) for side, base in self.base_encoders.items()}
        return encoder

    def preprocess(self, image: Image) -> Pixels:
        """What the backbone, or the frozen encoder, takes."""
        backbone, base_encoder = self.towers["image"].backbone, self.base_encoders["image"]
        prepared: Pixels = (
            base_encoder.preprocess(image) if base_encoder is not None else own_backbone(backbone).prepare(image)
        )
        return prepared

    def embed_images(self, batch: Sequence[Pixels]) -> Embedded:
        """(n, dimension); or the vectors of each."""
        base_encoder = self.base_encoders["image"]
        if base_encoder is not None:
            return self._projected("image", base_encoder.embed_images(batch))
        return self._embed("image", batch)

    def embed_texts(self, texts: Sequence[str]) -> Embedded:
        """(n, dimension), or the vectors of each; in prompts, the mean over them of vectors of length 1."""
        if not self.prompts:
            return self._embed_as_they_are(texts)
        total = np.zeros((len(texts), self.dimension), np.float32)
        for prompt in self.prompts:
            vectors = one_each(self._embed_as_they_are([prompt.replace("{}", text) for text in texts]), self.card.name)
            total += vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return total / np.float32(len(self.prompts))

    def _embed_as_they_are(self, texts: Sequence[str]) -> Embedded:
        base_encoder = self.base_encoders["text"]
        if base_encoder is not None:
            return self._projected("text", base_encoder.embed_texts(texts))
        backbone = own_backbone(self.towers["text"].backbone)
        return self._embed("text", [backbone.prepare(text) for text in texts])

    def embed_texts_alike(self, texts: Sequence[str]) -> Embedded:
        """The same of texts that are of one length for the frozen encoder of texts."""
        base_encoder = self.base_encoders["text"]
        if base_encoder is not None:
            return self._projected("text", base_encoder.embed_texts_alike(texts))
        return self.embed_texts(texts)

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """What each vector of a text stands for, as the frozen encoder of texts says it."""
        pieces: list[list[str]] = self._frozen("text").text_pieces(texts, role)
        return pieces

    def image_regions(self, image: Image) -> NDArray[np.float64]:
        """(t, 4) where each vector of an image looks, as the frozen encoder of images says it."""
        regions: NDArray[np.float64] = self._frozen("image").image_regions(image)
        return regions

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) words or tokens, as the text tower's backbone, or the frozen encoder of texts, counts them."""
        base_encoder = self.base_encoders["text"]
        if self.prompts:
            return None
        if base_encoder is not None:
            return base_encoder.text_lengths(texts)
        backbone = own_backbone(self.towers["text"].backbone)
        return np.array([len(backbone.prepare(text)) for text in texts], np.int64)

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the text tower's backbone, or the frozen encoder of texts, does it."""
        base_encoder = self.base_encoders["text"]
        return (own_backbone(self.towers["text"].backbone) if base_encoder is None else base_encoder).truncate(
            texts, ending
        )

    def pretrained_tower(self, modality: Modality) -> PretrainedTower:
        """One tower as a tower to be tuned further, sharing its weights with this encoder."""
        base_encoder = self.base_encoders[modality]
        if base_encoder is not None:
            raise EncoderError(
                f"{self.card.name}: its {modality} side is a head over a frozen encoder, {base_encoder.card.name}; "
                "there is no network in it to tune.",
                hint=f'tower = "frozen" trains another head over {base_encoder.card.name}',
                code="side-head-over-frozen",
            )
        return pretrained_tower_of(self.towers[modality])

    def text_side(self) -> TextSide | None:
        """See `visir.encoders.models.text_side`: the tower's, or that of the frozen encoder with the head behind it."""
        base_encoder = self.base_encoders["text"]
        if self.prompts:
            return None
        if base_encoder is None:
            return side_of_tower(self.pretrained_tower("text"))
        side = text_side_of(base_encoder)
        return None if side is None else side.then(self.towers["text"].head)

    def own_temperature(self) -> float | None:
        """The temperature that the objective stood at when the towers were kept; None for an objective without one."""
        return self._temperature

    def own_bias(self) -> float | None:
        """The bias that the sigmoid loss stood at; None for an objective without one."""
        return self._bias

    def _frozen(self, modality: Modality) -> Any:
        encoder = self.base_encoders[modality]
        if encoder is None:
            raise EncoderError(f"{self.card.name}: a network makes one vector for each {modality}; nothing tells more.")
        return encoder

    def _projected(self, modality: Modality, vectors: Embedded) -> Embedded:
        if isinstance(vectors, TokenVectors):
            return TokenVectors(self.project(modality, vectors.vectors), vectors.offsets)
        return self.project(modality, vectors)

    def _embed(self, side: Modality, prepared: Sequence[Any]) -> NDArray[np.float32]:
        if not len(prepared):
            return no_vectors(self.dimension)
        tower = self.towers[side]
        inputs = own_backbone(tower.backbone).collate(prepared)
        if self._compiled is not None:
            return self._compiled.vectors(side, self.card, inputs)
        with inference():
            return to_vectors(tower(to_device(inputs, self.device)))


def _check_fit(side: Modality, tower: Tower, base_encoder: Encoder | None) -> None:
    width = tower.inputs
    if (tower.backbone is None) == (base_encoder is None):
        raise EncoderError(
            f"the {side} tower needs either a backbone or a frozen encoder, and not both.",
            code="tower-needs-either-backbone",
        )
    if isinstance(tower, SetTower) != (base_encoder is not None and base_encoder.form == "multi-vector"):
        raise EncoderError(f"the {side} tower and the frozen encoder below it differ in how many vectors they give.")
    if tower.backbone is not None:
        if tower.backbone.modality != side:
            raise EncoderError(
                f"a backbone of kind {tower.backbone.kind!r} reads no {side}s; it cannot be the {side} tower.",
                code="backbone-kind-reads-no",
            )
        if tower.backbone.outputs != width:
            raise EncoderError(
                f"the {side} backbone gives {tower.backbone.outputs} dimensions; its head takes {width}.",
                code="backbone-gives-dimensions",
            )
    elif base_encoder is not None:
        if side not in base_encoder.modalities:
            raise EncoderError(
                f"{base_encoder.card.name} encodes no {side}s; it cannot be the {side} base encoder.",
                code="encoder-encodes-no",
            )
        if base_encoder.dimension != width:
            raise EncoderError(
                f"{base_encoder.card.name} gives {base_encoder.dimension} dimensions; the {side} head takes {width}.",
                code="gives-dimensions",
            )
