"""Adapters of peft over a model: a folder with `adapter_config.json`, of visir's making or of anybody's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from visir.encoders.base import Encoder
from visir.encoders.devices import check_code
from visir.encoders.families import ADAPTER_FILE, family_of
from visir.encoders.loading import load
from visir.encoders.models.hub import ModelFiles
from visir.encoders.models.refusals import COLPALI_ENGINE
from visir.encoders.towers.adapters import (
    ADAPTER_WEIGHTS,
    adapted_names,
    fill_adapters,
    inject,
    other_model,
    read_adapter,
    read_config,
)
from visir.encoders.towers.pretrained_backbone import Tunable
from visir.errors import EncoderError
from visir.files import hash_file, read_json
from visir.fingerprint import hash_json
from visir.options import split_options

OPTIONS = ("base",)


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
        "adapter": hash_file(folder / ADAPTER_WEIGHTS),
        "config": read_json(folder / ADAPTER_FILE),
    }
    encoder.card = replace(card, name=name, weights=card.weights and hash_json(made_of))
    return encoder
