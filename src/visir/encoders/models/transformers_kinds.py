"""What a `config.json` describes: which class of `transformers` reads it, and which inputs that class has vectors for.

Nothing here is a list of models. A class is a dual encoder because it has `get_image_features` and
`get_text_features`; a tower because of what its forward pass takes and gives.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from visir.encoders.models.tower_families import FAMILIES as TOWERS
from visir.encoders.models.towers import FAMILIES
from visir.records import Modality

TIMM = "timm_wrapper"
_MAKERS = ("get_image_features", "get_text_features")


@dataclass(frozen=True)
class ModelKind:
    """A class of `transformers`, and what visir reads with it."""

    model_type: str  # what `config.json` says
    model_class: type[Any]  # the class that is loaded
    modalities: frozenset[Modality]  # what it makes vectors of
    # Weights of this class that the class in `config.json` does not save: the checkpoint cannot have them.
    missing: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        """The name of the class."""
        return self.model_class.__name__

    @property
    def is_foreign(self) -> bool:
        """Whether the class is code that came with the model."""
        return self.model_class.__module__.startswith("transformers_modules")


def model_type_of(config: Mapping[str, Any]) -> str | None:
    """The type of model; a folder of timm has none, and is read by the wrapper of `transformers`."""
    if config.get("model_type"):
        return str(config["model_type"])
    return TIMM if "architecture" in config and "pretrained_cfg" in config else None


def is_native(model_type: str | None) -> bool:
    """Whether `transformers` itself has the type: then no code that comes with a model is needed."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES


def kind_of(config: Mapping[str, Any], folder: Path) -> ModelKind | None:
    """What visir can read in a model with this configuration, by its type; None when that is nothing."""
    model_type = model_type_of(config)
    if model_type is None:
        return None
    classes = list(dict.fromkeys(_classes(config, model_type)))
    for name, model_class in classes:
        if name in FAMILIES or _is_dual(model_class):
            missing = _missing(model_class, classes[0][1], folder)
            return ModelKind(model_type, model_class, frozenset({"image", "text"}), missing)
    for name, model_class in classes:
        modality = _tower_modality(name, model_class, model_type)
        if modality is not None:
            return ModelKind(model_type, model_class, frozenset({modality}))
    return None


def trusted_kind(config: Mapping[str, Any], folder: Path) -> ModelKind | None:
    """The same for a model whose class comes with it; runs its code."""
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    place = config.get("auto_map", {}).get("AutoModel")
    if place is None:
        return None
    model_class = get_class_from_dynamic_module(place, str(folder))
    if not _is_dual(model_class):
        return None
    return ModelKind(str(config.get("model_type")), model_class, frozenset({"image", "text"}))


def dual_class_of(model_type: str) -> str | None:
    """The dual encoder that a text tower comes from: "CLIPModel" of "clip_text_model"."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name

    module = model_type_to_module_name(model_type)
    for other in CONFIG_MAPPING_NAMES:
        if model_type_to_module_name(other) == module:
            for name, model_class in _mapped(other):
                if _is_dual(model_class):
                    return name
    return None


def _classes(config: Mapping[str, Any], model_type: str) -> Iterator[tuple[str, type[Any]]]:
    """The classes that may read the model, the likeliest first: what was saved, what is described, what is mapped."""
    import transformers

    saved = [name for name in config.get("architectures") or [] if hasattr(transformers, name)]
    mapped = list(_mapped(model_type))
    for name in saved:
        yield name, getattr(transformers, name)
    for _, model_class in mapped:
        for name in FAMILIES:
            described = getattr(sys.modules[model_class.__module__], name, None)
            if described is not None and described.config_class.model_type == model_type:
                yield name, described
    yield from mapped


def _mapped(model_type: str) -> Iterator[tuple[str, type[Any]]]:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    names = MODEL_MAPPING_NAMES.get(model_type, ())
    for name in (names,) if isinstance(names, str) else names:
        if hasattr(transformers, name):
            yield name, getattr(transformers, name)


def _is_dual(model_class: type[Any]) -> bool:
    """Whether it gives one vector for an image and one for a text: BLIP-2's language model does not."""
    if not all(hasattr(model_class, name) for name in _MAKERS):
        return False
    return "labels" not in inspect.signature(model_class.get_text_features).parameters


def _tower_modality(name: str, model_class: type[Any], model_type: str) -> Modality | None:
    """What a model with one tower takes; None when it is none, or gives no vector."""
    source = ""
    with suppress(OSError, TypeError):
        source = inspect.getsource(model_class.forward)
    takes = inspect.signature(model_class.forward).parameters
    whole = name.endswith(("Model", "WithProjection"))  # not ForImageClassification and the like
    pooled = "pooler_output" in source or "image_embeds=" in source or "text_embeds=" in source
    if not whole or not (pooled or model_type in TOWERS):
        return None
    if "pixel_values" in takes and "input_ids" not in takes:
        return None if "pixel_values_videos" in takes else "image"
    if "input_ids" in takes and "pixel_values" not in takes and dual_class_of(model_type) is not None:
        return "text"
    return None


def _missing(model_class: type[Any], saved: type[Any], folder: Path) -> tuple[str, ...]:
    """Weights of `model_class` that `saved`, the class in `config.json`, does not have; both are only drawn up."""
    # A captioning model is saved without projections: that is known before its weights are fetched.
    if saved is model_class:
        return ()
    with suppress(Exception), torch.device("meta"):  # what cannot be drawn up is compared when the weights are there
        config = model_class.config_class.from_pretrained(folder)
        wanted, there = model_class(config).state_dict(), saved(config).state_dict()
        prefix = f"{model_class.base_model_prefix}."
        bare = {key.removeprefix(prefix) for key in there}
        optional = getattr(model_class, "_keys_to_ignore_on_load_missing", None) or ()
        return tuple(key for key in wanted if key.removeprefix(prefix) not in bare and key not in optional)
    return ()
