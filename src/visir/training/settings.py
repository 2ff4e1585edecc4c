"""Settings read from TOML: every fault at once, with its line and the nearest known name; and written back as TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.files import read_bytes


class Settings(BaseModel):
    """A group of settings: immutable, and a key that is not declared is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True)


S = TypeVar("S", bound=Settings)


def read_settings(kind: type[S], path: str | Path, changes: Sequence[str] = ()) -> S:
    """The settings in a TOML file, with `changes` ("section.key=value", as after `--set`) put over it.

    A value in a change is read as TOML (`0.1`, `true`, `["a", "b"]`) and, where it is none, as a plain string. Raises
    `ConfigurationError` that lists every fault: unknown keys with the nearest known one, values of the wrong type or
    out of range, and where each of them stands (line of the file, or the change).
    """
    text = read_bytes(path).decode("utf-8")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigurationError(f"{path}: not valid TOML: {fault}") from fault
    origin = {where: f"line {line}" for where, line in _lines(text)}
    for change in changes:
        where, value = _parse_change(change)
        _put(values, where, value, change)
        origin[where] = f"--set {change}"
    try:
        return kind.model_validate(values)
    except ValidationError as fault:
        faults = [_explain(kind, error, origin) for error in fault.errors()]
    raise_faults(ConfigurationError, f"{path}", faults, hint="the keys and their defaults: docs/training-heads.md")
    raise AssertionError("a validation error without an error")


def to_toml(settings: Settings, comment: str) -> str:
    """The settings as TOML, every default written out, opening with `comment`; keys that are None are left out."""
    lines = [f"# {comment}", ""]
    _write(lines, settings.model_dump(mode="json"), ())
    return "\n".join(lines) + "\n"


def _write(lines: list[str], values: Mapping[str, Any], section: tuple[str, ...]) -> None:
    if section:
        lines += ["", f"[{'.'.join(section)}]"]
    # TOML reads every plain key after a section header as part of that section, so plain keys come first.
    lines += [f"{key} = {_literal(one)}" for key, one in values.items() if one is not None and not _is_table(one)]
    for key, one in values.items():
        if _is_table(one):
            _write(lines, one, (*section, key))


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _literal(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers and booleans are written alike in JSON and TOML


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Where each key of a TOML text stands: ((section, key), line). Good enough to point at a fault."""
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([\w.\- ]+)\]", line):
            section = tuple(part.strip() for part in header[1].split("."))
            yield section, number
        elif key := re.match(r"\s*([\w.\-]+)\s*=", line):
            yield (*section, *key[1].split(".")), number


def _parse_change(change: str) -> tuple[tuple[str, ...], Any]:
    name, equals, value = change.partition("=")
    if not equals or not name.strip():
        raise ConfigurationError(f"--set {change}: not of the form key=value.", hint="e.g. --set optimiser.epochs=5")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return tuple(part.strip() for part in name.split(".")), parsed


def _put(values: dict[str, Any], where: tuple[str, ...], value: Any, change: str) -> None:
    for part in where[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ConfigurationError(f"--set {change}: {part!r} is a single value, not a section.")
    values[where[-1]] = value


def _explain(kind: type[Settings], error: Any, origin: Mapping[tuple[str, ...], str]) -> str:
    where = tuple(str(part) for part in error["loc"])
    # A fault in a list is located by its index; the nearest enclosing key that the file names is the place to look.
    place = next((origin[where[:n]] for n in range(len(where), 0, -1) if where[:n] in origin), "")
    dotted = ".".join(where)
    if error["type"] == "extra_forbidden":
        what = f"unknown key {dotted!r}: {nearest(where[-1], _fields(kind, where[:-1]))}"
    elif error["type"] == "missing":
        what = f"the key {dotted!r} is missing"
    elif error["type"] == "literal_error" and isinstance(error["input"], str):
        known = [str(one) for one in get_args(_annotation(kind, where))]
        what = f"{dotted}: {error['input']!r} is none of its values: {nearest(error['input'], known)}"
    else:
        what = f"{dotted}: {error['msg'].removeprefix('Value error, ')} (found {error['input']!r})"
    return f"{place}: {what}" if place else what


def _fields(kind: type[Settings], where: tuple[str, ...]) -> list[str]:
    for part in where:
        kind = kind.model_fields[part].annotation  # type: ignore[assignment]
    return list(kind.model_fields)


def _annotation(kind: type[Settings], where: tuple[str, ...]) -> Any:
    for part in where[:-1]:
        kind = kind.model_fields[part].annotation  # type: ignore[assignment]
    return kind.model_fields[where[-1]].annotation
