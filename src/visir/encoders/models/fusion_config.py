"""The sizes of X-VLM and ALBEF: those of the published models, and how a configuration file changes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from visir.errors import EncoderError, raise_faults
from visir.files import read_json, read_text

BERT: Mapping[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "vocab_size": 30522,
    "pad_token_id": 0,
    "fusion_layer": 6,
}
"""BERT-base, its upper half given cross-attention, under the names of the authors' `config_bert.json`."""

_PARTS = ("vision_config", "text_config", "bert_config")


@dataclass(frozen=True)
class Sizes:
    """What decides the architecture beside the family; plain values."""

    image: int  # side of the square input in pixels
    vision: Mapping[str, Any]  # the image tower's own sizes, as the family names them
    text: Mapping[str, Any]  # BERT's, under the names of `BERT`; layers from `fusion_layer` on look at the image
    dimension: int = 256  # of the common space

    @property
    def vision_width(self) -> int:
        """The width of an image token."""
        return int(self.vision["vision_width"])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`."""
        return cls(**values)


def read_config(name: str, path: Path) -> dict[str, Any]:
    """A configuration file of the authors' kind: YAML or JSON of plain values."""
    # `vision_config`, `text_config` and `bert_config` may be paths of further files. These are relative to the folder
    # that the authors' code runs in, which is above the folder `configs`: they are looked for there and beside the
    # file.
    values = _mapping(name, path)
    faults = []
    for part in _PARTS:
        if not isinstance(values.get(part), str):
            continue
        if Path(values[part]).is_absolute() or ".." in Path(values[part]).parts:
            faults.append(f"{part}: {values[part]!r} lies elsewhere")
            continue
        tried = [folder / values[part] for folder in (path.parent, path.parent.parent)]
        file = next((candidate for candidate in tried if candidate.is_file()), None)
        if file is None:
            faults.append(f"{part}: none of {', '.join(map(str, tried))} is there")
        else:
            values[part] = _mapping(name, file)
    raise_faults(EncoderError, f"{name}: {path} names files that are not there", faults, hint="keep them beside it")
    return values


def scalars(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint's own configuration says by itself, without paths on the machine it was trained on."""
    return {key: value for key, value in config.items() if key not in _PARTS or isinstance(value, Mapping)}


def merged(name: str, part: str, defaults: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """`defaults` with those of their keys that the mapping `given` (the value of `part`) has; other keys are left."""
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise EncoderError(f"{name}: {part} is {values!r}, not a mapping.", hint="see the authors' configuration files")
    return {key: values.get(key, value) for key, value in defaults.items()}


def whole_numbers(name: str, values: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Raise one `EncoderError` for every one of `keys` that is there and is no positive whole number."""
    faults = [
        f"{key}: {values[key]!r} is not a positive whole number"
        for key in keys
        if key in values and not (type(values[key]) is int and values[key] > 0)
    ]
    raise_faults(EncoderError, f"{name}: faults in the configuration", faults)


def _mapping(name: str, path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise EncoderError(
            f"{name}: there is no configuration file {path}.",
            hint="config=FILE, YAML or JSON",
            code="no-configuration-file",
        )
    # YAML is not quite a superset: PyYAML reads JSON's 1e-12 as a text.
    values = read_json(path) if path.suffix == ".json" else _yaml(path)
    if not isinstance(values, dict):
        raise EncoderError(f"{path}: holds {type(values).__name__}, not keys and values.")
    return values


def _yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(read_text(path))
    except yaml.YAMLError as fault:
        raise EncoderError(f"{path}: not YAML: {str(fault).splitlines()[0]}", hint="plain values only") from fault
