"""Folders of adapters in peft's own format: written, read, and put over the model they were trained over."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from visir.encoders.base import Encoder
from visir.encoders.families import ADAPTER_FILE, family_of
from visir.encoders.loading import load
from visir.encoders.models.foreign import check_configurations
from visir.encoders.models.model_files import ModelFiles
from visir.encoders.models.transformers_refusals import COLPALI_ENGINE
from visir.encoders.own_code import check_code
from visir.encoders.towers.adapted_backbone import AdaptedBackbone
from visir.encoders.towers.adapters import adapter_state, inject, load_adapter_state, other_model, own_part, pattern_of
from visir.encoders.towers.pretrained_tower import Tunable
from visir.encoders.weights import hash_file, save_weights
from visir.errors import EncoderError, require
from visir.files import read_json
from visir.fingerprint import hash_json
from visir.options import split_options

WEIGHTS_FILE = "adapter_model.safetensors"
OPTIONS = ("base",)
_BASE = "visir_base"
"""Metadata of the file of weights: the hash over the weights of the base."""


def write_adapter(folder: Path, backbones: Sequence[AdaptedBackbone]) -> None:
    """Write the adapters of one or both towers of a model as one folder of peft's."""
    # `PeftModel.from_pretrained(MODEL, folder)` reads it over the whole model.
    card = backbones[0].base.card
    config = backbones[0].config
    names = [name for backbone in backbones for name in _adapted_names(backbone)]
    content = json.loads(json.dumps(config.to_dict(), default=_plain))
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
        tensors |= adapter_state(backbone.root)
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


def fill_adapters(backbones: Sequence[AdaptedBackbone], tensors: Mapping[str, Tensor], where: str, base: str) -> None:
    """Put the weights of a folder into the towers that were adapted with its configuration."""
    roots = [backbone.root for backbone in backbones]
    _fill(roots, tensors, where, base)


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


def _adapted_names(backbone: AdaptedBackbone) -> list[str]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [
        name
        for name, module in backbone.root.named_modules()
        if isinstance(module, BaseTunerLayer) and ".base_layer" not in name
    ]


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else str(value)
