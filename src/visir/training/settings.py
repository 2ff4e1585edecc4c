"""Settings read from TOML: every fault at once, with its place and the nearest known name; and written back as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from visir.errors import ConfigurationError, raise_faults
from visir.training.faults import explain_faults
from visir.training.layers import FindBase, Where, read_layers
from visir.training.schema import KindKey, allows_none, kind_key

NONE = "none"
"""How TOML, which has no null, says that an optional key or section is not wanted."""


class Settings(BaseModel):
    """A group of settings: immutable, and a key that is not declared is a fault.

    "none" for a key that may be None means None: `clip = "none"`, `ltd = "none"`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _none_is_none(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {
            key: None if value == NONE and allows_none(cls.model_fields.get(key)) else value
            for key, value in values.items()
        }


S = TypeVar("S", bound=Settings)


def _beside(name: str, path: Path) -> Path:
    return path.parent / name


def read_settings(
    kind: type[S],
    path: str | Path,
    changes: Sequence[str] = (),
    *,
    find_base: FindBase = _beside,
    own: Sequence[str] = (),
) -> S:
    """The settings in a TOML file over those it `extends`, `changes` ("section.key=value", as after `--set`) on top.

    A value in a change is read as TOML (`0.1`, `true`, `["a", "b"]`) and, where it is none, as a plain string. Raises
    `ConfigurationError` that lists every fault: unknown keys with the nearest known one, values of the wrong type or
    out of range, and where each of them stands (line of the file or of its base, or the change).
    """

    def kind_of(where: Where) -> KindKey | None:
        return kind_key(kind, where)

    layers = read_layers(path, changes, find_base=find_base, kind_of=kind_of, own=own)
    try:
        return kind.model_validate(layers.values)
    except ValidationError as fault:
        faults = explain_faults(kind, fault, layers.origin)
    raise_faults(
        ConfigurationError, f"{path}", faults, hint="the keys and their defaults: docs/reference/recipe-settings.md"
    )
    raise AssertionError("a validation error without an error")


def to_toml(settings: Settings, comment: str) -> str:
    """The settings as TOML, every default written out, opening with `comment`; what is None is written as "none"."""
    lines = [f"# {comment}", ""]
    _write(lines, settings.model_dump(mode="json"), ())
    return "\n".join(lines) + "\n"


def _write(lines: list[str], values: Mapping[str, Any], section: Where) -> None:
    if section:
        lines += ["", f"[{'.'.join(section)}]"]
    # TOML reads every plain key after a section header as part of that section, so plain keys come first.
    lines += [f"{key} = {_literal(value)}" for key, value in values.items() if not isinstance(value, Mapping)]
    for key, value in values.items():
        if isinstance(value, Mapping):
            _write(lines, value, (*section, key))


def _literal(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    # Strings, numbers and booleans are written alike in JSON and TOML.
    return json.dumps(NONE if value is None else value, ensure_ascii=False)
