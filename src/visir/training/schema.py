"""What a settings class declares at a place: its keys, its choices, its kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Kind = type[BaseModel]


@dataclass(frozen=True)
class Spot:
    """A place in a settings class, as a fault's location leads to it."""

    # The keys from the top, as a recipe writes them: without the tags that pydantic puts between them.
    where: tuple[str, ...]
    siblings: tuple[str, ...]  # the keys that the section declares in which the last of them stands
    choices: tuple[str, ...]  # the values of the last key, when it has a list of them


def locate(kind: Kind, location: Sequence[str | int]) -> Spot:
    """Follow a location of pydantic's (`("image", "frozen", "encodr")`) from the top of `kind`."""
    where: list[str] = []
    siblings: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    inside: Kind | None = kind
    rest = list(location)
    while rest:
        part = rest.pop(0)
        if inside is None:
            # Below a single value: an index in a list is worth telling, the branch of a union of types is not.
            if isinstance(part, int):
                where.append(str(part))
            continue
        where.append(str(part))
        siblings, choices = tuple(inside.model_fields), ()
        declared = inside.model_fields.get(str(part))
        if declared is None:
            break
        key = _discriminator(declared)
        if key is not None:
            kinds = _kinds(declared, key)
            inside = kinds[str(rest.pop(0))] if rest else None
            choices = tuple(kinds)
        else:
            inside = section_of(declared)
            choices = _literals(declared.annotation)
    return Spot(tuple(where), siblings, choices)


class KindKey(NamedTuple):
    """The key that decides what kind of thing a section describes, and the kind when the section does not say."""

    key: str
    default: str | None


def kind_key(kind: Kind, where: Sequence[str]) -> KindKey | None:
    """What decides the kind of the section `where`, or None for any other place."""
    # ("tower", None) for "image", which has to be given; ("name", "infonce") for "objective", which has a default.
    inside: Kind | None = kind
    declared: FieldInfo | None = None
    for part in where:
        declared = None if inside is None else inside.model_fields.get(part)
        inside = None if declared is None else section_of(declared)
    key = None if declared is None else _discriminator(declared)
    if declared is None or key is None:
        return None
    return KindKey(key, getattr(declared.default, key, None))


def allows_none(declared: FieldInfo | None) -> bool:
    """Whether a key may be None."""
    return declared is not None and type(None) in get_args(declared.annotation)


def section_of(declared: FieldInfo) -> Kind | None:
    """The settings class of a key that is a section of one kind; None for a single value or a choice of kinds."""
    kinds = members(declared)
    return kinds[0] if len(kinds) == 1 else None


def members(declared: FieldInfo) -> tuple[Kind, ...]:
    """The settings classes that a key may hold: none for a single value, several for a choice of kinds."""
    options = get_args(declared.annotation) if _is_union(declared.annotation) else (declared.annotation,)
    return tuple(option for option in options if isinstance(option, type) and issubclass(option, BaseModel))


def _discriminator(declared: FieldInfo) -> str | None:
    return declared.discriminator if isinstance(declared.discriminator, str) else None


def _kinds(declared: FieldInfo, key: str) -> dict[str, Kind]:
    return {tag: section for section in members(declared) for tag in _literals(section.model_fields[key].annotation)}


def _literals(annotation: Any) -> tuple[str, ...]:
    """The strings that an annotation lists, in a `Literal`, as one branch of a union or as elements of a list."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    if _is_union(annotation) or get_origin(annotation) is tuple:
        return tuple(literal for branch in get_args(annotation) for literal in _literals(branch))
    return ()


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)
