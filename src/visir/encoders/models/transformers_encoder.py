"""Models of `transformers` as encoders: images and texts through two towers, or one of them through one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from visir.encoders.devices import COMPILED, pick_device
from visir.encoders.models.dual_families import family_of_class
from visir.encoders.models.image_processors import BACKENDS
from visir.encoders.models.model_files import ModelFiles, loading
from visir.encoders.models.model_names import one_of, positive_number, template_of
from visir.encoders.models.pretrained_towers import PretrainedTowersEncoder, bias_of, dtype_on_card, of_torch
from visir.encoders.models.tower_families import POOLINGS
from visir.encoders.models.transformers_kinds import ModelKind
from visir.encoders.models.transformers_towers import DualImageTower, DualTextTower, check_tower, reading_of
from visir.encoders.models.transformers_weights import load_model
from visir.encoders.towers.pretrained_tower import PretrainedTower
from visir.errors import EncoderError
from visir.records import EncoderCard, Modality

Towers = dict[Modality, PretrainedTower]


def load(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> PretrainedTowersEncoder:
    """Load the model of this kind that lies in `files`."""
    torch_device, torch_dtype = of_torch(device, dtype)
    card, model, towers, picked = load_towers(name, kind, files, options, device=torch_device, dtype=torch_dtype)
    own = family_of_class(kind.class_name).temperature(model) if len(kind.modalities) > 1 else None
    card = replace(card, dtype=dtype_on_card(device, dtype))
    device = COMPILED if device == COMPILED else picked
    return PretrainedTowersEncoder(card, towers, device=device, temperature=own, bias=bias_of(model))


def load_towers(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> tuple[EncoderCard, Any, Towers, str]:
    """Card, whole model, its towers, and the device that they are on."""
    device = pick_device(device)
    checks = _checked(name, kind, options)
    with loading(name, code=kind.is_foreign), files.code_held() if kind.is_foreign else nullcontext():
        model = _load_model(name, kind, files, dtype, checks["pooling"]).to(device)
        towers: Towers = {}
        if "image" in kind.modalities:
            towers["image"] = image = DualImageTower(
                kind,
                model,
                files.folder,
                processor=checks["processor"],
                pooling=checks["pooling"],
                patches=checks["patches"],
            )
            check_tower(name, image, files.folder, model.config, device)
            image.find_outputs(device)
        if "text" in kind.modalities:
            towers["text"] = text = DualTextTower(
                kind, model, files.folder, template=checks["template"], max_length=checks["max_length"]
            )
            text.find_outputs(device)
        if kind.is_foreign:
            files.check_code(model)
        lengths = {tower.outputs for tower in towers.values()}
        if len(lengths) > 1:
            raise EncoderError(
                f"{name}: its image vectors and text vectors have {' and '.join(map(str, sorted(lengths)))} values: "
                "they cannot be compared with one another.",
                hint="this class gives features from below a common space",
            )
        card = EncoderCard(
            name=name,
            family=f"transformers-{kind.model_type}",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing=towers["image"].values() if "image" in towers else {},
            text_preprocessing=towers["text"].values() if "text" in towers else {},
            dtype=dtype,
            code_revisions=files.code_revisions if kind.is_foreign else {},
        )
    return card, model, towers, device


def _checked(name: str, kind: ModelKind, options: dict[str, str]) -> dict[str, Any]:
    """The values of the options; those that this kind could only ignore are refused."""
    single = len(kind.modalities) == 1
    useless = {
        "processor": "image" not in kind.modalities,
        "patches": "image" not in kind.modalities,
        "pooling": not single or "image" not in kind.modalities,
        "template": "text" not in kind.modalities,
        "max_length": "text" not in kind.modalities,
    }
    for option in options:
        if useless.get(option):
            takes = " and ".join(f"{modality}s" for modality in sorted(kind.modalities))
            raise EncoderError(
                f"{name}: {option} says nothing to a {kind.class_name}, which makes vectors of {takes}.",
                hint=f"leave {option} out",
                code="says-nothing-makes-vectors",
            )
    return {
        "processor": one_of(name, options, "processor", BACKENDS) if "processor" in options else None,
        "pooling": one_of(name, options, "pooling", POOLINGS) if "pooling" in options else None,
        "patches": positive_number(name, options, "patches"),
        "template": template_of(name, options),
        "max_length": positive_number(name, options, "max_length"),
    }


def _load_model(name: str, kind: ModelKind, files: ModelFiles, dtype: str, pooling: str | None) -> Any:
    """The model; weights that no tower uses may be missing: a pooler that nobody reads."""
    config = kind.model_class.config_class.from_pretrained(
        files.folder, **({"trust_remote_code": True} if kind.is_foreign else {})
    )
    files.hash_ahead()
    unused = [part for modality in kind.modalities for part in reading_of(kind, config, modality, pooling).unused]
    return load_model(name, kind.model_class, files, dtype, unused=unused, code=kind.is_foreign)
