"""Checkpoints of adapters: the adapters alone, in peft's format, over a base that is named with its hash."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import Layout, load_part, read_description, read_weights, save_weights
from visir.encoders.devices import check_code
from visir.encoders.families import ADAPTER_FILE, CHECKPOINT_FILE, family_of
from visir.encoders.loading import load
from visir.encoders.models import towers as tower_files
from visir.encoders.models.hub import ModelFiles, check_configurations
from visir.encoders.models.refusals import COLPALI_ENGINE
from visir.encoders.models.towers import (
    SIDES,
    TowersEncoder,
    check_base_encoder,
    describe_head,
    encoder_of,
    fill,
    tensors_of,
)
from visir.encoders.towers.adapters import adapted_names, adapter_state, fill_adapters, inject, other_model, pattern_of
from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone, Tunable, merged_tower
from visir.errors import EncoderError, require
from visir.files import hash_file, read_json
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
    names = [name for backbone in backbones for name in adapted_names(backbone.base_module())]
    config = copy(config)
    config.base_model_name_or_path, config.revision = card.name, card.revision
    config.target_modules, config.inference_mode = pattern_of(names), True
    config.save_pretrained(str(folder))
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


def read_adapter(folder: Path) -> tuple[dict[str, Tensor], str]:
    """The weights under peft's names, and the hash over the weights of the base where it was noted."""
    pickled = (folder / "adapter_model.bin").is_file()
    hint = "it was saved as a pickle, which can run code: load it in peft and save it again" if pickled else ""
    tensors, facts = read_weights(folder / WEIGHTS_FILE, "folder", hint)
    return tensors, facts.get(_BASE, "")


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
    tensors, noted = read_adapter(folder)
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
    if any(map(adapted_names, roots)):
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
    fill_adapters(touched, tensors, bare, base_name)
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
    save_weights(tensors_of({side: encoder.towers[side].head for side in SIDES}), folder / HEADS_FILE)
    adapted = _adapted(encoder.towers)
    bases = {side: backbone.adapter.base for side, backbone in adapted.items() if backbone.adapter}
    together = len(adapted) == len(SIDES) and bases["image"] is bases["text"]
    content: dict[str, Any] = {}
    for side in SIDES:
        base = bases[side] if side in bases else encoder.base_encoders[side]
        assert base is not None, "a side is adapted, or a head over a frozen encoder"
        content[side] = describe_head(encoder.towers[side], base, folder, side)
        if side in adapted:
            content[side]["adapter"] = BOTH if together else f"{side}_adapter"
    for name in {str(content[side]["adapter"]) for side in adapted}:
        write_adapter(folder / name, [adapted[side] for side in adapted if content[side]["adapter"] == name])
    return {**content, "prompts": list(encoder.prompts), "facts": dict(facts or {})}


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> TowersEncoder:
    """Read what `write_files` wrote, and the base models that it names."""
    description = read_description(folder)
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
        base_encoders[side] = None if is_adapted else base
    fill(folder / HEADS_FILE, {side: tower.head for side, tower in towers.items()})
    names = {str(description[side]["adapter"]) for side in SIDES if "adapter" in description[side]}
    for name in sorted(names):
        adapted = {side: each for side, each in _adapted(towers).items() if description[side].get("adapter") == name}
        tensors, _ = read_adapter(folder / name)
        base_name = next(each.adapter.base.card.name for each in adapted.values() if each.adapter)
        fill_adapters([each.base_module() for each in adapted.values()], tensors, str(folder / name), base_name)
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
