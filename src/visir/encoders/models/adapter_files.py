"""Checkpoints of adapters: the adapters alone, in peft's format, over a base that is named with its hash."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import Layout, load_part, read_description, save_part
from visir.encoders.families import ADAPTER_FILE, CHECKPOINT_FILE
from visir.encoders.models import tower_files
from visir.encoders.models.adapter_folder import WEIGHTS_FILE, fill_adapters, read_config, read_weights, write_adapter
from visir.encoders.models.tower_files import check_base_encoder
from visir.encoders.models.towers import SIDES, TowersEncoder
from visir.encoders.towers.adapted_backbone import AdaptedBackbone, merged_tower
from visir.encoders.towers.base import Tower
from visir.encoders.towers.head import Head, HeadSpec
from visir.encoders.weights import hash_file, save_weights
from visir.errors import EncoderError
from visir.fingerprint import hash_json
from visir.records import Modality
from visir.storage.removal import below

KIND = "adapters"
HEADS_FILE = "heads.safetensors"
BOTH = "adapter"
"""The folder of the adapters of both towers, where they are of one model."""

LAYOUT = Layout.of(
    KIND,
    (HEADS_FILE,),
    (BOTH, *(f"{side}_{part}" for side in SIDES for part in ("adapter", "base_encoder"))),
)


def write_files(folder: Path, encoder: TowersEncoder, *, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the files of a checkpoint into a folder; what `visir.json` is to say."""
    heads = {f"{side}.{name}": tensor for side in SIDES
             for name, tensor in encoder.towers[side].head.state_dict().items()}  # fmt: skip
    save_weights(heads, folder / HEADS_FILE)
    adapted = {
        side: backbone for side in SIDES if isinstance(backbone := encoder.towers[side].backbone, AdaptedBackbone)
    }
    bases = {id(backbone.base) for backbone in adapted.values()}
    together = len(adapted) == len(SIDES) and len(bases) == 1
    content: dict[str, Any] = {}
    for side in SIDES:
        base = adapted[side].base if side in adapted else encoder.base_encoders[side]
        assert base is not None, "a side is adapted, or a head over a frozen encoder"
        content[side] = {
            "head": encoder.towers[side].head.spec.to_dict(),
            "base_encoder": save_part(base, folder, f"{side}_base_encoder"),
            "card": base.card.to_dict(),
        }
        if side in adapted:
            content[side]["adapter"] = BOTH if together else f"{side}_adapter"
    for name in {str(content[side]["adapter"]) for side in adapted}:
        write_adapter(folder / name, [adapted[side] for side in adapted if content[side]["adapter"] == name])
    return {**content, "prompts": list(encoder.prompts), "facts": dict(facts or {})}


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> TowersEncoder:
    """Read what `write_files` wrote, and the base models that it names."""
    description = read_description(folder)
    heads = load_file(str(folder / HEADS_FILE))
    loaded: dict[str, Encoder] = {}
    towers: dict[Modality, Tower] = {}
    base_encoders: dict[Modality, Encoder | None] = {}
    for side in SIDES:
        entry = description[side]
        is_adapted = "adapter" in entry
        # A base is adapted in float32, as it was trained; a frozen one computes as it is asked to.
        precision = "float32" if is_adapted else dtype
        key = f"{entry['base_encoder']} {precision}"
        if key not in loaded:
            loaded[key] = load_part(folder, entry["base_encoder"], device, precision)
        base = loaded[key]
        check_base_encoder(folder, side, entry["card"], base.card)
        backbone = None
        if is_adapted:
            place = below(folder, entry["adapter"])
            backbone = AdaptedBackbone(base, side, read_config(place), where=str(place / ADAPTER_FILE))
        towers[side] = Tower(backbone, Head(HeadSpec.from_dict(entry["head"])))
        own = {name.removeprefix(f"{side}."): tensor for name, tensor in heads.items() if name.startswith(f"{side}.")}
        towers[side].head.load_state_dict(own)
        base_encoders[side] = None if is_adapted else base
    names = {str(description[side]["adapter"]) for side in SIDES if "adapter" in description[side]}
    for name in sorted(names):
        sides = [side for side in SIDES if description[side].get("adapter") == name]
        backbones = [adapted for side in sides if isinstance(adapted := towers[side].backbone, AdaptedBackbone)]
        tensors, _ = read_weights(folder / name)
        fill_adapters(backbones, tensors, str(folder / name), backbones[0].base.card.name)
    # The settings count too: the same weights under another alpha are another adapter.
    files = [HEADS_FILE, *(f"{name}/{file}" for name in sorted(names) for file in (WEIGHTS_FILE, ADAPTER_FILE))]
    shapes = {side: [description[side]["head"], description[side]["card"]] for side in SIDES}
    objective = description["facts"].get("objective", {})
    return TowersEncoder(
        towers,
        base_encoders,
        name=str(folder),
        device=device,
        dtype=dtype,
        weights=hash_json(
            {
                "files": {name: hash_file(folder / name) for name in files},
                "shapes": shapes,
                "prompts": description.get("prompts", ()),
            }
        ),
        temperature=objective.get("temperature"),
        bias=objective.get("bias"),
        prompts=description.get("prompts", ()),
    )


def merge_checkpoint(folder: str | Path, out: str | Path) -> Path:
    """Write a checkpoint of whole towers, with the adapters of `folder` added to the weights of their base."""
    source = Path(folder)
    if not source.is_dir():
        raise EncoderError(
            f"{source}: no such folder.",
            hint="the folder that `visir train clip-lora --out FOLDER` made",
            code="no-such-folder",
        )
    if not (source / CHECKPOINT_FILE).is_file():
        raise EncoderError(
            f"{source}: visir train did not write this folder.",
            hint="merge takes the folder that `visir train clip-lora --out FOLDER` made; an adapter that was made "
            "elsewhere: merge_and_unload of peft",
        )
    if (Path(out) / CHECKPOINT_FILE).is_file():
        raise EncoderError(f"{out}: a model is there already.", hint="name a new folder: nothing is replaced")
    description = read_description(source)
    if description["kind"] != KIND:
        raise EncoderError(
            f"{source}: a checkpoint of kind {description['kind']!r}; only adapters are merged.",
            hint="it stands by itself already",
            code="checkpoint-kind-adapters-merged",
        )

    def write(path: Path) -> Mapping[str, Any]:
        encoder = load_checkpoint(source, "cpu", "float32")
        towers = {side: merged_tower(encoder.towers[side]) for side in SIDES}
        merged = TowersEncoder(towers, encoder.base_encoders, name=str(out), device="cpu", prompts=encoder.prompts)
        return tower_files.write_files(path, merged, facts={**description["facts"], "merged_from": str(source)})

    return tower_files.LAYOUT.write(out, write)  # a place that cannot be written is refused before models are read
