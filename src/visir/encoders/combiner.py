"""The combiner: a small network that makes one vector of the vectors of a text and an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import (
    COPY_AGAIN,
    Layout,
    check_base_encoder,
    load_modules,
    load_part,
    read_description,
    save_modules,
    save_part,
)
from visir.encoders.composed import OPTION, ReadsApart
from visir.encoders.devices import pick_device
from visir.encoders.forms import as_dense
from visir.encoders.models.precision import in_blocks
from visir.encoders.towers.base import Head, HeadSpec, Inputs, Tower
from visir.errors import EncoderError
from visir.files import hash_file
from visir.fingerprint import hash_json
from visir.records import Embeddings, EncoderCard, Modality, Role, Vectors


@dataclass(frozen=True)
class CombinerSpec:
    """The shape of a combiner."""

    image: HeadSpec  # the head over the vectors of images; those of the documents go through it too
    text: HeadSpec  # the head over the vectors of texts; it ends in the same space
    projection: int  # the width to which each of the two is projected
    hidden: int  # the width of the hidden layers over both
    dropout: float  # in training

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CombinerSpec:
        """From what `to_dict` gave, read back from JSON."""
        heads = {side: HeadSpec.from_dict(values[side]) for side in ("image", "text")}
        return cls(**{**values, **heads})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class Combiner(Tower):
    """The combiner of Baldrati et al., "Effective conditioned and composed image retrieval combining CLIP-based
    features" (CVPR 2022), section 3.2."""

    # With unit vectors t of the text and v of the image, in the space of the documents, and p = [P_t t; P_v v], ReLU
    # after each projection:
    #     λ = sigmoid(G₂ relu(G₁ p)),   vector = O relu(H p) + λ t + (1 − λ) v
    # So it begins near a weighted sum, with a weight of its own for each query, and learns what to add. Differences: t
    # and v have length 1 here, which makes it independent of the lengths that a model gives; and where texts and images
    # are of two spaces, heads bring them into one.
    # Takes a batch as {"text": (n, d_t), "image": (n, d_v)}. `head` is the head of images, which is the tower of the
    # documents.

    def __init__(self, spec: CombinerSpec) -> None:
        super().__init__(None, Head(spec.image))
        self.shape = spec
        self.text_head = Head(spec.text)
        width, joined = spec.image.outputs, 2 * spec.projection
        self.text_projection = nn.Linear(width, spec.projection)
        self.image_projection = nn.Linear(width, spec.projection)
        self.hidden = nn.Linear(joined, spec.hidden)
        self.output = nn.Linear(spec.hidden, width)
        self.gate = nn.Sequential(
            nn.Linear(joined, spec.hidden), nn.ReLU(), nn.Dropout(spec.dropout), nn.Linear(spec.hidden, 1), nn.Sigmoid()
        )
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) vectors of n texts with images; not normalised."""
        assert not isinstance(inputs, Tensor), "a text and an image come by name"
        text = functional.normalize(self.text_head(inputs["text"]), dim=-1)
        image = functional.normalize(self.head(inputs["image"]), dim=-1)
        both = [
            self.dropout(functional.relu(projection(side)))
            for projection, side in ((self.text_projection, text), (self.image_projection, image))
        ]
        joined = torch.cat(both, dim=-1)
        share = self.gate(joined)
        added = self.output(self.dropout(functional.relu(self.hidden(joined))))
        vectors: Tensor = added + share * text + (1 - share) * image
        return vectors


# A trained combiner over frozen encoders, as an encoder of texts, images, and both.

KIND = "combiner"
SIDES: tuple[Modality, Modality] = ("image", "text")


class CombinerEncoder(ReadsApart):
    """Texts with images through the combiner; images and texts alone through its heads, in the same space."""

    # The store keeps the vectors of the frozen encoders, so another combiner encodes nothing again.

    reads: tuple[Modality, ...] = ("text", "image")
    batch_size = 128

    def __init__(
        self,
        combiner: Combiner,
        base_encoders: Mapping[Modality, Encoder],
        *,
        name: str = KIND,
        device: str | None = None,
        weights: str | None = None,
    ) -> None:
        for side, head in (("image", combiner.shape.image), ("text", combiner.shape.text)):
            width = base_encoders[side].dimension  # type: ignore[index]
            if head.inputs != width:
                raise EncoderError(
                    f"{name}: its {side} head takes {head.inputs} values; the encoder of {side}s gives {width}.",
                    hint="name the encoder that it was trained over",
                    code="head-takes-values",
                )
        self.device = pick_device(device)
        self.combiner = combiner.to(self.device).eval()
        self.base_encoders = dict(base_encoders)
        self.dimension = combiner.shape.image.outputs
        self.modalities = frozenset({"image", "text", "text+image"})
        self.distinguishes_roles = any(encoder.distinguishes_roles for encoder in self.base_encoders.values())
        cards = {side: encoder.card for side, encoder in self.base_encoders.items()}
        self.card = EncoderCard(
            name=name,
            family=KIND,
            weights=weights and hash_json({KIND: weights, **{side: card.fingerprint for side, card in cards.items()}}),
            image_preprocessing=cards["image"].image_preprocessing,
            text_preprocessing={**cards["text"].text_preprocessing, OPTION: KIND},
            dtype=cards["image"].dtype,
        )

    def encoder_of(self, part: Modality) -> Encoder:
        """See `ReadsApart`."""
        return self.base_encoders[part]

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """(n, dimension) vectors of texts, or of images, from those of their frozen encoder."""
        head = self.combiner.head if modality == "image" else self.combiner.text_head
        return in_blocks(lambda rows: head(rows(vectors)), len(vectors), self.dimension, self.device)

    def join(
        self,
        ids: pa.StringArray,
        vectors: Mapping[Modality, Vectors],
        rows: Mapping[Modality, NDArray[np.int64]],
        role: Role,
    ) -> Vectors:
        """See `ReadsApart`. An item that has one of the two alone has the vector of that."""
        dense = {side: np.asarray(as_dense(part).vectors) for side, part in vectors.items()}
        joined = np.zeros((len(ids), self.dimension), np.float32)
        whole = all(side in rows for side in SIDES)
        both = np.flatnonzero(np.all([rows[side] >= 0 for side in SIDES], axis=0)) if whole else np.empty(0, np.int64)
        if len(both):
            sides = {side: dense[side][rows[side][both]] for side in SIDES}
            joined[both] = in_blocks(
                lambda rows: self.combiner({side: rows(own) for side, own in sides.items()}),
                len(both),
                self.dimension,
                self.device,
            )
        for side, own in rows.items():
            others = [rows[other] < 0 for other in rows if other != side]
            alone = np.flatnonzero((own >= 0) & (np.all(others, axis=0) if others else True))
            joined[alone] = self.project(side, dense[side][own[alone]])
        return Embeddings("text+image", ids, joined, self.card)


# Checkpoints of combiners: a folder written, and read back to the same vectors.

WEIGHTS_FILE = "combiner.safetensors"

LAYOUT = Layout.of(KIND, (WEIGHTS_FILE,), tuple(f"{side}_base_encoder" for side in SIDES))


def write_files(folder: Path, encoder: CombinerEncoder, *, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the files of a checkpoint into a folder."""
    save_modules({"": encoder.combiner}, folder / WEIGHTS_FILE)
    content: dict[str, Any] = {"combiner": encoder.combiner.shape.to_dict(), "facts": dict(facts or {})}
    image, text = (encoder.base_encoders[side] for side in SIDES)
    for side, base in (("image", image), ("text", text)):
        entry = {} if side == "text" and text is image else save_part(base, folder, f"{side}_base_encoder")
        content[side] = {"base_encoder": entry, "card": base.card.to_dict()}
    return content


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> CombinerEncoder:
    """Read what `write_files` wrote."""
    description = read_description(folder)
    base_encoders: dict[Modality, Encoder] = {}
    try:
        spec = CombinerSpec.from_dict(description["combiner"])
        for side in SIDES:
            entry = description[side]["base_encoder"]
            base = load_part(folder, entry, device, dtype) if entry else base_encoders["image"]
            check_base_encoder(folder, description[side]["card"], base.card, side)
            base_encoders[side] = base
    except (KeyError, TypeError) as fault:
        raise EncoderError(f"{folder}: it does not describe a combiner: {fault}", hint=COPY_AGAIN) from fault
    combiner = Combiner(spec)
    load_modules(folder / WEIGHTS_FILE, {"": combiner})
    weights = hash_json({"file": hash_file(folder / WEIGHTS_FILE), "spec": spec.to_dict()})
    return CombinerEncoder(combiner, base_encoders, name=str(folder), device=device, weights=weights)
