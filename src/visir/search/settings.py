"""Settings of an index as data: a frozen dataclass whose fields say what they do and what is allowed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from typing import Any, TypeVar

from visir.errors import ConfigurationError, nearest, raise_faults

T = TypeVar("T")


def setting(
    default: Any,
    about: str,
    *,
    least: float | None = None,
    most: float | None = None,
    among: tuple[str, ...] = (),
    search: bool = False,
) -> Any:
    """A field of a settings dataclass: its default (whose type is the setting's), what it does, what is allowed.

    Text is one of `among`, or anything where none are named.

    `search`: whether only the search depends on it, so that it can be chosen anew for every search.
    """
    allowed = {"least": least, "most": most, "among": among}
    return field(default=default, metadata={"about": about, "search": search, **allowed})


def settings_of(kind: str, type_: type[T], given: Mapping[str, Any]) -> T:
    """An instance of `type_` with these values; text, as the command line gives it, is read as the default's type.

    Raises `ConfigurationError` that lists every fault: unknown names (with the nearest), values that cannot be read or
    are out of range.
    """
    known = {field.name: field for field in fields(type_)}  # type: ignore[arg-type]
    values, faults = {}, []
    for name, value in given.items():
        if name not in known:
            faults.append(f"unknown setting {name!r} ({nearest(name, known)})")
            continue
        values[name], fault = _read(value, known[name].default, known[name].metadata)
        if fault:
            faults.append(f"{name}: {fault}, not {value!r}")
    raise_faults(ConfigurationError, f"the settings of an index of kind {kind!r}", faults)
    return type_(**values)


def searching(kind: str, settings: T, given: Mapping[str, Any]) -> T:
    """The settings of one search: the index's own, with those given. What the index was built with cannot be given."""
    every = fields(settings)  # type: ignore[arg-type]
    faults = [
        f"{setting.name}: is fixed when the index is built"
        for setting in every
        if setting.name in given and not setting.metadata["search"]
    ]
    raise_faults(ConfigurationError, f"search in an index of kind {kind!r}", faults, hint="build another index")
    return settings_of(
        kind, type(settings), {**{setting.name: getattr(settings, setting.name) for setting in every}, **given}
    )


def described(type_: type[Any]) -> list[tuple[str, Any, str]]:
    """(name, default, what it does) of every setting."""
    return [
        (field.name, field.default, field.metadata["about"]) for field in fields(type_) if field.default is not MISSING
    ]


def _read(value: Any, default: Any, allowed: Mapping[str, Any]) -> tuple[Any, str]:
    """The value and "", or the value and what it should have been."""
    if isinstance(default, str):
        if value in allowed["among"] or (not allowed["among"] and isinstance(value, str)):
            return value, ""
        return value, " or ".join(allowed["among"]) or "text"
    what = "a whole number" if isinstance(default, int) else "a number"
    with contextlib.suppress(ValueError, TypeError):
        read = type(default)(value)
        if float(read) == float(value) and not isinstance(value, bool):
            low, high = allowed["least"], allowed["most"]
            if (low is None or read >= low) and (high is None or read <= high):
                return read, ""
            bounds = [f"from {low:g}" if low is not None else "", f"up to {high:g}" if high is not None else ""]
            return value, " ".join([what, *filter(None, bounds)])
    return value, what
