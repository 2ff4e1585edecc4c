"""Two trained towers as one encoder: `load("path/to/checkpoint")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from visir.encoders.base import Encoder, Pixels
from visir.encoders.checkpoints import load_part, read_description, save_part, write_description
from visir.encoders.devices import pick_device
from visir.encoders.models.forward import inference, no_vectors, to_vectors
from visir.encoders.towers.base import Body, Tower, to_device
from visir.encoders.towers.head import Head, HeadSpec
from visir.encoders.towers.kinds import body_class
from visir.encoders.weights import hash_file
from visir.errors import EncoderError
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality

KIND = "towers"
WEIGHTS_FILE = "towers.safetensors"
SIDES: tuple[Modality, Modality] = ("image", "text")
_BLOCK = 8192
_AGAIN = "copy the whole checkpoint again"


class TowersEncoder(Encoder):
    """An image tower and a text tower that were trained together.

    A side whose tower has a body encodes by itself. A side without one has a frozen encoder (`backbones`), whose
    vectors are what is kept in the store, so evaluating another checkpoint over the same backbone encodes nothing
    again; `project` is then a matrix product.

    - `dtype`: the arithmetic of the bodies and their heads; a head over a frozen encoder computes in float32
    - `weights`: a hash over everything that was loaded; None for towers that were never written to a file
    """

    batch_size = 128

    def __init__(
        self,
        towers: Mapping[Modality, Tower],
        backbones: Mapping[Modality, Encoder | None],
        *,
        name: str = KIND,
        device: str | None = None,
        dtype: str = "float32",
        weights: str | None = None,
    ) -> None:
        for side in SIDES:
            _refuse_misfit(side, towers[side], backbones.get(side))
        outputs = [towers[side].head.spec.outputs for side in SIDES]
        if outputs[0] != outputs[1]:
            raise EncoderError(f"{name}: the towers end in different dimensions, {outputs[0]} and {outputs[1]}.")
        self.device = pick_device(device)
        self.backbones = {side: backbones.get(side) for side in SIDES}
        for tower in towers.values():
            tower.to(self.device, getattr(torch, dtype) if tower.body is not None else torch.float32).eval()
        self.towers = dict(towers)
        self.dimension = outputs[0]
        self.modalities = frozenset(SIDES)
        frozen = {side: one.card for side, one in self.backbones.items() if one is not None}
        own = [side for side in SIDES if side not in frozen]
        self.card = EncoderCard(
            name=name,
            family=KIND,
            weights=weights and hash_json({KIND: weights, **{s: card.fingerprint for s, card in frozen.items()}}),
            image_preprocessing=self._preprocessing("image"),
            text_preprocessing=self._preprocessing("text"),
            dtype=dtype if own else frozen["image"].dtype,
        )

    def _preprocessing(self, side: Modality) -> dict[str, Any]:
        body, backbone = self.towers[side].body, self.backbones[side]
        if body is not None:
            return body.preprocessing()
        assert backbone is not None
        return backbone.card.image_preprocessing if side == "image" else backbone.card.text_preprocessing

    def backbone(self, modality: Modality) -> Encoder | None:
        """The frozen encoder of one modality; None when its tower has a body."""
        return self.backbones[modality]

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, inputs) vectors of the frozen encoder to (n, dimension), in blocks so that memory stays bounded."""
        if self.backbones[modality] is None:
            return super().project(modality, vectors)
        result = np.empty((len(vectors), self.dimension), dtype=np.float32)
        with inference():
            for start in range(0, len(vectors), _BLOCK):
                block = torch.from_numpy(np.array(vectors[start : start + _BLOCK], dtype=np.float32))
                result[start : start + len(block)] = to_vectors(self.towers[modality](block.to(self.device)))
        return result

    def preprocess(self, image: Image) -> Pixels:
        """What the body, or the frozen encoder, takes."""
        body, backbone = self.towers["image"].body, self.backbones["image"]
        prepared: Pixels = backbone.preprocess(image) if backbone is not None else _own(body).prepare(image)
        return prepared

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension)."""
        backbone = self.backbones["image"]
        if backbone is not None:
            return self.project("image", backbone.embed_images(batch))
        return self._embed("image", batch)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension)."""
        backbone = self.backbones["text"]
        if backbone is not None:
            return self.project("text", backbone.embed_texts(texts))
        body = _own(self.towers["text"].body)
        return self._embed("text", [body.prepare(text) for text in texts])

    def _embed(self, side: Modality, prepared: Sequence[Any]) -> NDArray[np.float32]:
        if not len(prepared):
            return no_vectors(self.dimension)
        tower = self.towers[side]
        with inference():
            return to_vectors(tower(to_device(_own(tower.body).collate(prepared), self.device)))


def write_towers(folder: Path, encoder: TowersEncoder, *, facts: Mapping[str, Any] | None = None) -> None:
    """Write a checkpoint into an existing, empty `folder` (make it atomic with `visir.files.atomic_folder`).

    `visir.json` (shapes, the names and cards of frozen encoders, `facts` about the training), `towers.safetensors`, and
    a folder for each body or frozen encoder that has more than weights (a vocabulary, a tokeniser, a bag of words).
    """
    save_file(_tensors(encoder.towers), str(folder / WEIGHTS_FILE))
    content: dict[str, Any] = {}
    for side in SIDES:
        tower, backbone = encoder.towers[side], encoder.backbones[side]
        content[side] = {"head": tower.head.spec.to_dict()}
        if backbone is not None:
            content[side]["backbone"] = save_part(backbone, folder, f"{side}_backbone")
            content[side]["card"] = backbone.card.to_dict()
        else:
            body = _own(tower.body)
            content[side]["body"] = {"kind": body.kind, **body.spec()}
            part = _body_folder(folder, side)
            part.mkdir()
            body.save(part)
            if not any(part.iterdir()):
                part.rmdir()
    write_description(folder, KIND, {**content, "facts": dict(facts or {})})


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> TowersEncoder:
    """Read what `write_towers` wrote.

    Raises `EncoderError` when a file is missing or damaged, and when a frozen encoder is not the one the head was
    trained over (its weights or its preprocessing differ): the vectors would look right and mean nothing.
    """
    description = read_description(folder)
    tensors = _read_weights(folder / WEIGHTS_FILE)
    backbones: dict[Modality, Encoder | None] = {}
    towers: dict[Modality, Tower] = {}
    parts: dict[str, str] = {}
    for side in SIDES:
        entry = description[side]
        body = None
        if "backbone" in entry:
            found = load_part(folder, entry["backbone"], device, dtype)
            _refuse_another(folder, side, entry["card"], found.card)
            backbones[side] = found
        else:
            part = _body_folder(folder, side)
            body = body_class(entry["body"]["kind"]).load(
                part, {key: value for key, value in entry["body"].items() if key != "kind"}
            )
            parts |= {one.relative_to(folder).as_posix(): hash_file(one) for one in part.rglob("*") if one.is_file()}
        tower = Tower(body, Head(HeadSpec.from_dict(entry["head"])))
        state = {key.removeprefix(f"{side}."): value for key, value in tensors.items() if key.startswith(f"{side}.")}
        try:
            tower.load_state_dict(state)
        except RuntimeError as fault:
            raise EncoderError(
                f"{folder / WEIGHTS_FILE}: does not fit {folder / 'visir.json'}: {fault}", hint=_AGAIN
            ) from fault
        towers[side] = tower
    # The shapes enter, because the same weights under another pooling or activation are another model.
    shapes = {side: {key: description[side].get(key) for key in ("head", "body")} for side in SIDES}
    weights = hash_json({"tensors": hash_file(folder / WEIGHTS_FILE), "parts": parts, "shapes": shapes})
    return TowersEncoder(towers, backbones, name=str(folder), device=device, dtype=dtype, weights=weights)


def _body_folder(folder: Path, side: Modality) -> Path:
    return folder / f"{side}_body"


def _own(body: Body | None) -> Body:
    assert body is not None, "a tower without a body has a frozen encoder"
    return body


def _tensors(towers: Mapping[Modality, Tower]) -> dict[str, Tensor]:
    """Every tensor of both towers under its own name and in memory of its own: safetensors keeps no ties."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for side in SIDES:
        for name, tensor in towers[side].state_dict().items():
            kept = tensor.detach().cpu().contiguous()
            if kept.untyped_storage().data_ptr() in seen:
                kept = kept.clone()
            seen.add(kept.untyped_storage().data_ptr())
            found[f"{side}.{name}"] = kept
    return found


def _read_weights(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise EncoderError(f"{path}: missing.", hint="was the whole checkpoint copied?")
    try:
        found: dict[str, Tensor] = load_file(str(path))
    except SafetensorError as fault:
        raise EncoderError(f"{path}: cannot be read: {fault}", hint=_AGAIN) from fault
    return found


def _refuse_misfit(side: Modality, tower: Tower, backbone: Encoder | None) -> None:
    width = tower.head.spec.inputs
    if (tower.body is None) == (backbone is None):
        raise EncoderError(f"the {side} tower needs either a body or a frozen encoder, and not both.")
    if tower.body is not None:
        if tower.body.modality != side:
            raise EncoderError(f"a body of kind {tower.body.kind!r} reads no {side}s; it cannot be the {side} tower.")
        if tower.body.outputs != width:
            raise EncoderError(f"the {side} body gives {tower.body.outputs} dimensions; its head takes {width}.")
    elif backbone is not None:
        if side not in backbone.modalities:
            raise EncoderError(f"{backbone.card.name} encodes no {side}s; it cannot be the {side} backbone.")
        if backbone.dimension != width:
            raise EncoderError(
                f"{backbone.card.name} gives {backbone.dimension} dimensions; the {side} head takes {width}."
            )


def _refuse_another(folder: Path, side: Modality, trained: dict[str, Any], found: EncoderCard) -> None:
    fields = ("weights", f"{side}_preprocessing")
    now = found.to_dict()
    differing = [f"{field}: trained with {trained[field]!r}, found {now[field]!r}" for field in fields
                 if trained[field] != now[field]]  # fmt: skip
    if differing:
        raise EncoderError(
            f"{folder}: the {side} backbone {found.name!r} is not the one this tower was trained over: "
            + "; ".join(differing),
            hint="restore that backbone, or train again",
        )
