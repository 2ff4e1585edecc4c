"""Messages on wrong settings: the place, the value there, and the nearest right one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from pydantic import BaseModel, ValidationError

from visir.errors import nearest
from visir.training.schema import Spot, locate

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
