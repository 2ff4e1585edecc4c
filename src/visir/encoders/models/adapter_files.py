"""Checkpoints of adapters: the adapters alone, in peft's format, over a base that is named with its hash."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import Layout, load_part, read_description, save_part
from visir.encoders.devices import check_code
from visir.encoders.families import ADAPTER_FILE, CHECKPOINT_FILE, family_of
from visir.encoders.loading import load
from visir.encoders.models import towers as tower_files
from visir.encoders.models.foreign import check_configurations
from visir.encoders.models.hub import ModelFiles
from visir.encoders.models.towers import SIDES, TowersEncoder, check_base_encoder, encoder_of
from visir.encoders.models.transformers_kinds import COLPALI_ENGINE
from visir.encoders.towers.adapters import adapter_state, inject, load_adapter_state, other_model, own_part, pattern_of
from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone, Tunable, merged_tower
from visir.encoders.weights import hash_file, save_weights
from visir.errors import EncoderError, require
from visir.files import read_json
from visir.fingerprint import hash_json
from visir.options import split_options
from visir.records import Modality
from visir.storage.disk import below

# Folders of adapters in peft's own format: written, read, and put over the model they were trained over.

WEIGHTS_FILE = "adapter_model.safetensors"
OPTIONS = ("base",)
_BASE = "visir_base"
"""Metadata of the file of weights: the hash over the weights of the base."""


def write_adapter(folder: Path, backbones: Sequence[PretrainedBackbone]) -> None:
    """Write the adapters of one or both towers of a model as one folder of peft's."""
    # `PeftModel.from_pretrained(MODEL, folder)` reads it over the whole model.
    assert backbones[0].adapter is not None
    base, config = backbones[0].adapter
    card = base.card
    names = [name for backbone in backbones for name in _adapted_names(backbone)]
    content = json.loads(
        json.dumps(config.to_dict(), default=lambda value: sorted(value) if isinstance(value, set) else str(value))
    )
    content |= {
        "base_model_name_or_path": card.name,
        "revision": card.revision,
        "inference_mode": True,
        "target_modules": pattern_of(names),
    }
    folder.mkdir(exist_ok=True)
    (folder / ADAPTER_FILE).write_bytes(json.dumps(content, indent=2, sort_keys=True).encode())
    tensors: dict[str, Tensor] = {}
    for backbone in backbones:
        tensors |= adapter_state(backbone.base_module())
    save_weights(tensors, folder / WEIGHTS_FILE, metadata={_BASE: card.weights or ""})


def read_config(folder: Path) -> Any:
    """The configuration of an adapter folder, as peft's own object."""
    require("peft", extra="train", purpose="adapters (LoRA and its kin)")
    import peft

    check_configurations([folder], base_elsewhere=True)
    try:
        return peft.PeftConfig.from_pretrained(str(folder))
    except Exception as fault:  # peft raises what comes: KeyError, TypeError, ValueError
        raise EncoderError(f"{folder / ADAPTER_FILE}: cannot be read by peft: {fault!r}") from fault


def read_weights(folder: Path) -> tuple[dict[str, Tensor], str]:
    """The weights under peft's names, and the hash over the weights of the base where it was noted."""
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        pickled = (folder / "adapter_model.bin").is_file()
        hint = "it was saved as a pickle, which can run code: load it in peft and save it again" if pickled else ""
        raise EncoderError(f"{path}: missing.", hint=hint or "was the whole folder copied?")
    try:
        with safe_open(str(path), framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a mapping)
            return tensors, (stored.metadata() or {}).get(_BASE, "")
    except SafetensorError as fault:
        raise EncoderError(
            f"{path}: cannot be read: {fault}", hint="copy the whole folder again", code="cannot-read"
        ) from fault


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """A model with an adapter of peft over it: a folder with `adapter_config.json`; see `load_adapter`."""
    bare, _ = split_options(name, OPTIONS, error=EncoderError)
    return load_adapter(name, ModelFiles(Path(bare), None), device, dtype)


def load_adapter(name: str, files: ModelFiles, device: str | None, dtype: str) -> Encoder:
    """A model with an adapter of peft over it."""
    # The base is the one that the adapter names; `?base=NAME` names it in another way (a local folder, `st:NAME`,
    # `openclip:…`).
    bare, options = split_options(name, OPTIONS, error=EncoderError)
    if re.search("custom_text_proj|colpali_engine", json.dumps(read_json(files.folder / ADAPTER_FILE))):
        raise EncoderError(
            f"{bare}: an adapter of colpali-engine, over a late-interaction model in files of its own.",
            hint=COLPALI_ENGINE,
            code="adapter-colpali-engine-over-late-interaction",
        )
    config = read_config(files.folder)
    folder = files.with_adapter()
    tensors, noted = read_weights(folder)
    base_name = options.get("base") or config.base_model_name_or_path
    if not base_name or split_options(base_name, error=EncoderError)[0] == bare:  # or it would be loaded for ever
        raise EncoderError(f"{bare}: the adapter does not say over which model.", hint=f"{bare}?base=NAME")
    if not options.get("base"):
        check_code(base_name, bare, f"load {bare}?base={base_name}")
    family = family_of(base_name)
    own = getattr(config, "revision", None) if family.revisions and not options.get("base") else None
    try:
        encoder = load(
            base_name,
            device=device if family.devices else None,
            dtype=dtype if dtype in family.dtypes else "float32",
            revision=own,
        )
    except EncoderError as fault:
        raise EncoderError(
            f"{bare}: its base model could not be loaded: {fault.message}", hint=f"{fault.hint}; or {bare}?base=NAME"
        ) from fault
    if not isinstance(encoder, Tunable):
        raise EncoderError(
            f"{bare}: encoders of the family {encoder.card.family!r} take no adapters.",
            hint="merge it where it was trained (merge_and_unload of peft), save the whole model, and name that",
        )
    if noted and encoder.card.weights != noted:
        raise other_model(bare, base_name, [f"its weights have the hash {encoder.card.weights}, not {noted}"])
    roots = [encoder.pretrained_tower(modality).base_module() for modality in sorted(encoder.modalities)]
    if any(_is_adapted(root) for root in roots):
        raise EncoderError(
            f"{bare}: its base model {base_name!r} has adapters already; one adapter over another is not read.",
            hint="merge those into their own base (visir merge, or merge_and_unload of peft), and name the merged "
            f"model: {bare}?base=MERGED",
        )
    touched = []
    for root in roots:
        try:
            inject(root, config, str(files.folder / ADAPTER_FILE))
            touched.append(root)
        except ValueError:  # no module of this tower: the other one's
            continue
    _fill(touched, tensors, bare, base_name)
    for root in touched:
        root.eval()
    card = encoder.card
    made_of = {
        "base": card.weights,
        "adapter": hash_file(folder / WEIGHTS_FILE),
        "config": read_json(folder / ADAPTER_FILE),
    }
    encoder.card = replace(card, name=name, weights=card.weights and hash_json(made_of))
    return encoder


def _is_adapted(root: Any) -> bool:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return any(isinstance(module, BaseTunerLayer) for module in root.modules())


def _fill(roots: Sequence[Any], tensors: Mapping[str, Tensor], where: str, base: str) -> None:
    parts = [own_part(root, tensors) for root in roots]
    placed = {name for part in parts for name in part}
    lost = [name for name in tensors if name.removeprefix("base_model.model.") not in placed]
    if lost:
        raise other_model(where, base, [f"{name}: unknown to the model" for name in lost])
    for root, part in zip(roots, parts, strict=True):
        load_adapter_state(root, part, where, base)


def _adapted_names(backbone: PretrainedBackbone) -> list[str]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [
        name
        for name, module in backbone.base_module().named_modules()
        if isinstance(module, BaseTunerLayer) and ".base_layer" not in name
    ]


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
    adapted = _adapted(encoder.towers)
    bases = {side: backbone.adapter.base for side, backbone in adapted.items() if backbone.adapter}
    together = len(adapted) == len(SIDES) and bases["image"] is bases["text"]
    content: dict[str, Any] = {}
    for side in SIDES:
        base = bases[side] if side in bases else encoder.base_encoders[side]
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
            backbone = PretrainedBackbone.of(base, side, read_config(place), where=str(place / ADAPTER_FILE))
        towers[side] = Tower(backbone, Head(HeadSpec.from_dict(entry["head"])))
        own = {name.removeprefix(f"{side}."): tensor for name, tensor in heads.items() if name.startswith(f"{side}.")}
        towers[side].head.load_state_dict(own)
        base_encoders[side] = None if is_adapted else base
    names = {str(description[side]["adapter"]) for side in SIDES if "adapter" in description[side]}
    for name in sorted(names):
        adapted = {side: each for side, each in _adapted(towers).items() if description[side].get("adapter") == name}
        tensors, _ = read_weights(folder / name)
        base_name = next(each.adapter.base.card.name for each in adapted.values() if each.adapter)
        _fill([each.base_module() for each in adapted.values()], tensors, str(folder / name), base_name)
    # The settings count too: the same weights under another alpha are another adapter.
    files = [HEADS_FILE, *(f"{name}/{file}" for name in sorted(names) for file in (WEIGHTS_FILE, ADAPTER_FILE))]
    shapes = {side: [description[side]["head"], description[side]["card"]] for side in SIDES}
    return encoder_of(folder, description, towers, base_encoders, files, shapes, device, dtype)


def _adapted(towers: Mapping[Modality, Tower]) -> dict[Modality, PretrainedBackbone]:
    """The backbones that have adapters."""
    backbones = {side: towers[side].backbone for side in SIDES}
    return {side: each for side, each in backbones.items() if isinstance(each, PretrainedBackbone) and each.adapter}


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
