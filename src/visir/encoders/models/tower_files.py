"""Checkpoints of two towers: a folder written, and read back to the same vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import Layout, load_part, read_description, save_part
from visir.encoders.families import CHECKPOINT_FILE
from visir.encoders.models.towers import KIND, SIDES, TowersEncoder
from visir.encoders.models.trained_tower import build_tower, describe_tower
from visir.encoders.towers.base import Head, HeadSpec, SetTower, Tower, own_backbone
from visir.encoders.weights import hash_file, save_weights
from visir.errors import EncoderError
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality
from visir.storage.disk import remove_empty_folders

WEIGHTS_FILE = "towers.safetensors"
_AGAIN = "copy the whole checkpoint again"


LAYOUT = Layout.of(
    KIND, (WEIGHTS_FILE,), tuple(f"{side}_{part}" for side in SIDES for part in ("base_encoder", "backbone"))
)


def write_towers(folder: str | Path, encoder: TowersEncoder, *, facts: Mapping[str, Any] | None = None) -> Path:
    """Write a checkpoint into a new folder."""
    # It holds `visir.json` (shapes, the names and cards of frozen encoders, `facts` about the training),
    # `towers.safetensors`, and a folder for each backbone or frozen encoder that has more than weights (a vocabulary, a
    # tokeniser, a bag of words).
    return LAYOUT.write(folder, lambda path: write_files(path, encoder, facts=facts))


def write_files(folder: Path, encoder: TowersEncoder, *, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the files of a checkpoint into a folder; what `visir.json` is to say."""
    save_weights(_tensors(encoder.towers), folder / WEIGHTS_FILE)
    content: dict[str, Any] = {}
    for side in SIDES:
        tower, base_encoder = encoder.towers[side], encoder.base_encoders[side]
        if base_encoder is not None:
            whole = tower.whole if isinstance(tower, SetTower) else None
            content[side] = {
                "head": tower.head.spec.to_dict(),
                **({} if whole is None else {"whole": whole.spec.to_dict()}),
                "base_encoder": save_part(base_encoder, folder, f"{side}_base_encoder"),
                "card": base_encoder.card.to_dict(),
            }
        else:
            content[side] = describe_tower(tower)
            part = _backbone_folder(folder, side)
            part.mkdir(exist_ok=True)
            own_backbone(tower.backbone).save(part)
            remove_empty_folders(part)
    return {**content, "prompts": list(encoder.prompts), "facts": dict(facts or {})}


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> TowersEncoder:
    """Read what `write_towers` wrote."""
    description = read_description(folder)
    tensors = _read_weights(folder / WEIGHTS_FILE)
    towers: dict[Modality, Tower] = {}
    base_encoders: dict[Modality, Encoder | None] = {}
    for side in SIDES:
        try:
            towers[side], base_encoders[side] = _build(folder, side, description[side], device, dtype)
        except (KeyError, TypeError) as fault:
            raise EncoderError(
                f"{folder / CHECKPOINT_FILE}: its entry {side!r} does not describe a tower: {fault}",
                hint=_AGAIN,
                code="entry-not-describe-tower",
            ) from fault
        state = {key.removeprefix(f"{side}."): value for key, value in tensors.items() if key.startswith(f"{side}.")}
        try:
            towers[side].load_state_dict(state)
        except RuntimeError as fault:
            raise EncoderError(
                f"{folder / WEIGHTS_FILE}: does not fit {folder / CHECKPOINT_FILE}: {fault}",
                hint=_AGAIN,
                code="not-fit",
            ) from fault
    return TowersEncoder(
        towers,
        base_encoders,
        name=str(folder),
        device=device,
        dtype=dtype,
        weights=_hash(folder, description),
        temperature=description["facts"].get("objective", {}).get("temperature"),
        bias=description["facts"].get("objective", {}).get("bias"),
        prompts=description.get("prompts", ()),
    )


def _build(
    folder: Path, side: Modality, entry: Mapping[str, Any], device: str | None, dtype: str
) -> tuple[Tower, Encoder | None]:
    """The architecture of one side, and its frozen encoder if it has one."""
    if "base_encoder" not in entry:
        return build_tower(_backbone_folder(folder, side), entry), None
    base_encoder = load_part(folder, entry["base_encoder"], device, dtype)
    check_base_encoder(folder, side, entry["card"], base_encoder.card)
    head = Head(HeadSpec.from_dict(entry["head"]))
    whole = Head(HeadSpec.from_dict(entry["whole"])) if "whole" in entry else None
    return SetTower(head, whole) if base_encoder.form == "multi-vector" else Tower(None, head), base_encoder


def _hash(folder: Path, description: Mapping[str, Any]) -> str:
    """Over weights, words and shapes: the same weights under another pooling or activation are another model."""
    files = [folder / WEIGHTS_FILE]
    for side in SIDES:
        files += sorted(file for file in _backbone_folder(folder, side).rglob("*") if file.is_file())
    shapes = {side: [description[side].get(part) for part in ("head", "whole", "backbone")] for side in SIDES}
    return hash_json(
        {
            "files": {file.relative_to(folder).as_posix(): hash_file(file) for file in files},
            "shapes": shapes,
            "prompts": description.get("prompts", ()),
        }
    )


def _backbone_folder(folder: Path, side: Modality) -> Path:
    return folder / f"{side}_backbone"


def _tensors(towers: Mapping[Modality, Tower]) -> dict[str, Tensor]:
    """Every tensor of both towers under its own name and in memory of its own: safetensors keeps no ties."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for side in SIDES:
        for name, tensor in towers[side].state_dict().items():
            copied = tensor.detach().cpu().contiguous()
            if copied.untyped_storage().data_ptr() in seen:
                copied = copied.clone()
            seen.add(copied.untyped_storage().data_ptr())
            tensors[f"{side}.{name}"] = copied
    return tensors


def _read_weights(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise EncoderError(f"{path}: missing.", hint="was the whole checkpoint copied?")
    try:
        tensors: dict[str, Tensor] = load_file(str(path))
    except SafetensorError as fault:
        raise EncoderError(f"{path}: cannot be read: {fault}", hint=_AGAIN, code="cannot-read") from fault
    return tensors


def check_base_encoder(folder: Path, side: Modality, trained: dict[str, Any], card: EncoderCard) -> None:
    """Refuse an encoder that is not the one that a head, or an adapter, was trained over."""
    now = card.to_dict()
    differing = [
        f"{field}: trained with {trained[field]!r}, found {now[field]!r}"
        for field in EncoderCard.from_dict(trained).differences(card, side)
    ]
    if differing:
        raise EncoderError(
            f"{folder}: the {side} base encoder {card.name!r} is not the one this tower was trained over: "
            + "; ".join(differing),
            hint="restore that base encoder, or train again",
            code="base-encoder-not-one",
        )
