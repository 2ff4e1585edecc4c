"""Checkpoints of combiners: a folder written, and read back to the same vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import Layout, load_part, read_description, save_part
from visir.encoders.composed.combiner import KIND, SIDES, Combiner, CombinerEncoder, CombinerSpec
from visir.encoders.models.tower_files import check_base_encoder
from visir.encoders.weights import hash_file, save_weights
from visir.errors import EncoderError
from visir.fingerprint import hash_json
from visir.records import Modality

WEIGHTS_FILE = "combiner.safetensors"
_AGAIN = "copy the whole checkpoint again"

LAYOUT = Layout.of(KIND, (WEIGHTS_FILE,), tuple(f"{side}_base_encoder" for side in SIDES))


def write_files(folder: Path, encoder: CombinerEncoder, *, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the files of a checkpoint into a folder."""
    state = encoder.combiner.state_dict()
    save_weights({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}, folder / WEIGHTS_FILE)
    content: dict[str, Any] = {"combiner": encoder.combiner.spec.to_dict(), "facts": dict(facts or {})}
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
            check_base_encoder(folder, side, description[side]["card"], base.card)
            base_encoders[side] = base
    except (KeyError, TypeError) as fault:
        raise EncoderError(f"{folder}: it does not describe a combiner: {fault}", hint=_AGAIN) from fault
    combiner = Combiner(spec)
    try:
        combiner.load_state_dict(load_file(str(folder / WEIGHTS_FILE)))
    except (OSError, SafetensorError, RuntimeError) as fault:
        raise EncoderError(
            f"{folder / WEIGHTS_FILE}: cannot be read: {fault}", hint=_AGAIN, code="cannot-read"
        ) from fault
    weights = hash_json({"file": hash_file(folder / WEIGHTS_FILE), "spec": spec.to_dict()})
    return CombinerEncoder(combiner, base_encoders, name=str(folder), device=device, weights=weights)
