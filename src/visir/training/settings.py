"""Settings read from TOML: every fault at once, with its place and the nearest known name; and written back as TOML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from visir.display import listing
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.training.layers import Change, FindBase, Where, read_layers
from visir.training.schema import KindKey, Spot, allows_none, kind_key, locate

# Messages on wrong settings: the place, the value there, and the nearest right one.

_TAGS = ("union_tag_invalid", "union_tag_not_found")
_WORDS = {"tuple_type": "a list is wanted, as in [1, 2]"}
"""For what pydantic says in Python's words."""
_NO_SECTION = ("model_type", "model_attributes_type")


def explain_faults(kind: type[BaseModel], fault: ValidationError, origin: Mapping[tuple[str, ...], str]) -> list[str]:
    """One line per fault; `origin` says where each key was written ("line 7", "--set optimiser.epohcs=3")."""
    located = [(locate(kind, error["loc"]), error) for error in fault.errors()]
    # A list without the elements that are faults themselves is then "too short"; they are reported already.
    located = [
        (spot, error)
        for spot, error in located
        if error["type"] != "too_short" or not any(other.where[:-1] == spot.where for other, _ in located)
    ]
    # A value that may be of several types ("a number or 'own'") fails once for each: one fault, not several.
    return [
        _explained(spot, [error for _, error in same], origin)
        for spot, same in ((spot, list(group)) for spot, group in groupby(located, key=lambda pair: pair[0]))
    ]


def _explained(spot: Spot, errors: Sequence[Any], origin: Mapping[tuple[str, ...], str]) -> str:
    error, where, dotted = errors[0], spot.where, ".".join(spot.where)
    value = error["input"]
    if error["type"] in _TAGS:
        key = error["ctx"]["discriminator"].strip("'")
        where = (*where, key)
        if error["type"] == "union_tag_invalid":
            message = f"{dotted}.{key}: unknown {key} {error['ctx']['tag']!r}: {nearest(str(value[key]), spot.choices)}"
        else:
            message = f"the key '{dotted}.{key}' is missing: one of {', '.join(spot.choices)}"
    elif error["type"] == "extra_forbidden":
        message = f"unknown key {dotted!r}: {nearest(where[-1], spot.siblings)}"
    elif error["type"] == "missing":
        message = f"the key {dotted!r} is missing"
    elif error["type"] == "literal_error" and isinstance(value, str):
        message = f"{dotted}: {value!r} is none of its values: {nearest(value, spot.choices)}"
    elif error["type"] in _NO_SECTION:
        message = f"{dotted} is a section, not a single value (found {value!r}): {dotted}.KEY = …"
    else:
        message = f"{dotted}: {'; or '.join(_messages(errors))} (found {value!r})"
    place = next(_places(where, origin), "")
    return f"{place}: {message}" if place else message


def _messages(errors: Sequence[Any]) -> list[str]:
    return [_WORDS.get(error["type"], error["msg"].removeprefix("Value error, ")) for error in errors]


def _places(where: tuple[str, ...], origin: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    """Where to look: at the key itself; at the first key written under it, of a section that should not be there; at
    the nearest enclosing one, of an element of a list."""
    if where in origin:
        yield origin[where]
    yield from (place for key, place in origin.items() if key[: len(where)] == where)
    for n in range(len(where), 0, -1):
        if where[:n] in origin:
            yield origin[where[:n]]


NONE = "none"
"""How TOML, which has no null, says that an optional key or section is not wanted."""


class Settings(BaseModel):
    """A group of settings: immutable, and a key that is not declared is a fault."""

    # "none" for a key that may be None means None: `clip = "none"`, `ltd = "none"`.

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __repr__(self) -> str:
        return listing(self, {name: getattr(self, name) for name in type(self).model_fields})

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


class HasSettings(Protocol):
    """Settings as far as they are written out."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """All of them as plain values (pydantic's)."""
        ...


def _beside(name: str, path: Path) -> Path:
    return path.parent / name


def read_settings(
    kind: type[S],
    source: str | Path | Mapping[str, Any] | Settings,
    changes: Sequence[str | Change] = (),
    *,
    find_base: FindBase = _beside,
    own: Sequence[str] = (),
) -> S:
    """The settings in a TOML file over those it `extends`, with `changes` on top."""
    if isinstance(source, kind) and not changes:
        return source
    given = source.model_dump(mode="json") if isinstance(source, Settings) else source

    def kind_of(where: Where) -> KindKey | None:
        return kind_key(kind, where)

    layers = read_layers(given, changes, find_base=find_base, kind_of=kind_of, own=own)
    try:
        return kind.model_validate(layers.values)
    except ValidationError as fault:
        faults = explain_faults(kind, fault, layers.origin)
    title = f"{given}" if isinstance(given, (str, Path)) else f"recipe {layers.values.get('name', '')}".strip()
    hint = "the keys and their defaults: docs/reference/recipe-settings.md"
    raise_faults(ConfigurationError, title, faults, hint=hint)
    raise AssertionError("a validation error without an error")


def with_new_keys(settings: HasSettings, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that an earlier version wrote out, with the defaults of the keys that it did not have yet."""
    # A new key's default is what was done before the key was there, so such settings are those of the same training.
    if not isinstance(settings, BaseModel):
        return dict(stored)
    try:
        return type(settings).model_validate(stored).model_dump(mode="json")
    except ValidationError:
        return dict(stored)


def to_toml(settings: HasSettings, comment: str) -> str:
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
