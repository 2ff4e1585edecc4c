"""Heads: small trained networks over two frozen encoders, which bring their vectors into one space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from visir.encoders.base import Encoder, Pixels
from visir.encoders.checkpoints import load_part, read_description, save_part, write_description
from visir.encoders.devices import pick_device
from visir.encoders.weights import hash_file
from visir.errors import EncoderError
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality

WEIGHTS_FILE = "heads.safetensors"
_SIDES: tuple[Modality, Modality] = ("image", "text")
_BLOCK = 8192


@dataclass(frozen=True)
class HeadSpec:
    """The shape of one head.

    - `inputs`, `outputs`: dimensions of the frozen vectors and of the shared space
    - `hidden`: widths of the hidden layers; () is a linear head
    - `shortcut`: a linear map from the inputs straight to the outputs, added to what the hidden layers give: the head
      begins as a linear one and learns what is left. Without hidden layers it would be the same map twice, and is
      refused.
    - `scaling`: what happens to the frozen vectors first: "unit" divides by their length, "standard" subtracts the mean
      and divides by the standard deviation of the training vectors (`Head.fit_scaling`; kept with the weights), "none"
    - `dropout`: on the inputs of every layer, in training only
    """

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = ()
    shortcut: bool = False
    scaling: Literal["unit", "standard", "none"] = "unit"
    dropout: float = 0.0


class Head(nn.Module):
    """A linear map, or an MLP with layer norm and GELU after each hidden layer: (n, inputs) to (n, outputs).

    The result is not normalised.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.spec = spec
        self.register_buffer("mean", torch.zeros(spec.inputs))
        self.register_buffer("deviation", torch.ones(spec.inputs))
        if spec.shortcut and not spec.hidden:
            raise EncoderError("a head without hidden layers has no use for a shortcut.", hint="leave one of them out")
        self.dropout = nn.Dropout(spec.dropout)
        widths = [spec.inputs, *spec.hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.LayerNorm(after), nn.GELU(), nn.Dropout(spec.dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], spec.outputs))
        self.shortcut = nn.Linear(spec.inputs, spec.outputs) if spec.shortcut else None

    def fit_scaling(self, vectors: NDArray[Any]) -> None:
        """Take mean and standard deviation from the (n, inputs) training vectors; needed for scaling "standard".

        A dimension whose deviation is below the root mean square of all deviations is divided by that instead. Full
        standardising would blow up what hardly ever varies (a rare word's place in a bag of words) into the loudest
        input of all, and divide a constant by zero.
        """
        deviation = vectors.std(axis=0, dtype=np.float64)
        usual = float(np.sqrt(np.mean(deviation**2)))
        deviation = np.maximum(deviation, usual) if usual > 0 else np.ones_like(deviation)
        self.mean.copy_(torch.from_numpy(vectors.mean(axis=0, dtype=np.float64)))
        self.deviation.copy_(torch.from_numpy(deviation))

    def forward(self, vectors: Tensor) -> Tensor:
        """(n, inputs) frozen vectors to (n, outputs). A zero vector (an empty text) stays zero under "unit"."""
        if self.spec.scaling == "unit":
            vectors = nn.functional.normalize(vectors, dim=-1)
        elif self.spec.scaling == "standard":
            vectors = (vectors - self.mean) / self.deviation
        vectors = self.dropout(vectors)
        result: Tensor = self.layers(vectors)
        return result if self.shortcut is None else result + self.shortcut(vectors)


class HeadsEncoder(Encoder):
    """Two frozen encoders and a trained head over each: `load("path/to/checkpoint")`.

    The vectors of the frozen encoders are what is kept in the store (`backbone`), so evaluating another checkpoint over
    the same backbones encodes nothing again; `project` is a matrix product.
    """

    def __init__(
        self,
        backbones: Mapping[Modality, Encoder],
        heads: Mapping[Modality, Head],
        *,
        name: str = "heads",
        device: str | None = None,
        weights: str | None = None,
    ) -> None:
        for side in _SIDES:
            _refuse_misfit(side, backbones[side], heads[side].spec)
        if heads["image"].spec.outputs != heads["text"].spec.outputs:
            outputs = " and ".join(str(heads[side].spec.outputs) for side in _SIDES)
            raise EncoderError(f"{name}: the heads end in different dimensions, {outputs}.")
        self.device = pick_device(device)
        self.backbones = dict(backbones)
        self.heads = {side: head.to(self.device).eval() for side, head in heads.items()}
        self.dimension = heads["image"].spec.outputs
        self.modalities = frozenset(_SIDES)
        cards = {side: backbones[side].card for side in _SIDES}
        self.card = EncoderCard(
            name=name,
            family="heads",
            weights=weights and hash_json({"heads": weights, **{s: c.fingerprint for s, c in cards.items()}}),
            image_preprocessing=cards["image"].image_preprocessing,
            text_preprocessing=cards["text"].text_preprocessing,
            dtype=cards["image"].dtype,
        )

    def backbone(self, modality: Modality) -> Encoder:
        """The frozen encoder of one modality."""
        return self.backbones[modality]

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, inputs) vectors of the frozen encoder to (n, dimension), in blocks so that memory stays bounded."""
        head = self.heads[modality]
        result = np.empty((len(vectors), self.dimension), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(vectors), _BLOCK):
                block = torch.from_numpy(np.array(vectors[start : start + _BLOCK], dtype=np.float32))
                result[start : start + len(block)] = head(block.to(self.device)).float().cpu().numpy()
        return result

    def preprocess(self, image: Image) -> Pixels:
        """What the image backbone does."""
        return self.backbones["image"].preprocess(image)

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension): backbone, then head."""
        return self.project("image", self.backbones["image"].embed_images(batch))

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension): backbone, then head."""
        return self.project("text", self.backbones["text"].embed_texts(texts))


def write_heads(folder: Path, encoder: HeadsEncoder, *, facts: Mapping[str, Any] | None = None) -> None:
    """Write a checkpoint into an existing, empty `folder` (make it atomic with `visir.files.atomic_folder`).

    `visir.json` (shapes, the names and cards of the backbones, `facts` about the training), `heads.safetensors`, and a
    folder per backbone that has a state of its own (a fitted bag of words).
    """
    tensors = {
        f"{side}.{name}": tensor.detach().cpu().contiguous()
        for side in _SIDES
        for name, tensor in encoder.heads[side].state_dict().items()
    }
    save_file(tensors, str(folder / WEIGHTS_FILE))
    content: dict[str, Any] = {}
    for side in _SIDES:
        backbone = encoder.backbones[side]
        content[side] = {
            "backbone": save_part(backbone, folder, f"{side}_backbone"),
            "card": backbone.card.to_dict(),
            "head": asdict(encoder.heads[side].spec),
        }
    write_description(folder, "heads", {**content, "facts": dict(facts or {})})


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> HeadsEncoder:
    """Read what `write_heads` wrote.

    Raises `EncoderError` when a backbone is not the one the heads were trained over (its weights or its preprocessing
    differ): the vectors would look right and mean nothing.
    """
    description = read_description(folder)
    weights = folder / WEIGHTS_FILE
    if not weights.is_file():
        raise EncoderError(f"{weights}: missing.", hint="was the whole checkpoint copied?")
    tensors = load_file(str(weights))
    backbones: dict[Modality, Encoder] = {}
    heads: dict[Modality, Head] = {}
    for side in _SIDES:
        part = description[side]
        backbones[side] = load_part(folder, part["backbone"], device, dtype)
        _refuse_another(folder, side, part["card"], backbones[side].card)
        head = Head(HeadSpec(**{**part["head"], "hidden": tuple(part["head"]["hidden"])}))
        state = {key.removeprefix(f"{side}."): value for key, value in tensors.items() if key.startswith(f"{side}.")}
        try:
            head.load_state_dict(state)
        except RuntimeError as fault:
            raise EncoderError(
                f"{weights}: does not fit {folder / 'visir.json'}: {fault}", hint="copy the whole checkpoint again"
            ) from fault
        heads[side] = head
    return HeadsEncoder(backbones, heads, name=str(folder), device=device, weights=hash_file(weights))


def _refuse_misfit(side: Modality, backbone: Encoder, spec: HeadSpec) -> None:
    if side not in backbone.modalities:
        raise EncoderError(f"{backbone.card.name} encodes no {side}s; it cannot be the {side} backbone.")
    if backbone.dimension != spec.inputs:
        raise EncoderError(
            f"{backbone.card.name} gives {backbone.dimension} dimensions; the {side} head takes {spec.inputs}."
        )


def _refuse_another(folder: Path, side: Modality, trained: dict[str, Any], found: EncoderCard) -> None:
    fields = ("weights", f"{side}_preprocessing")
    now = found.to_dict()
    differing = [f"{field}: trained with {trained[field]!r}, found {now[field]!r}" for field in fields
                 if trained[field] != now[field]]  # fmt: skip
    if differing:
        raise EncoderError(
            f"{folder}: the {side} backbone {found.name!r} is not the one these heads were trained over: "
            + "; ".join(differing),
            hint="restore that backbone, or train the heads again",
        )
