"""Settings in TOML: read over what they extend, all faults at once, with place and nearest name; and written back."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from visir.display import listing
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.files import parse_toml, read_text

EXTENDS = "extends"
"""The key that names the file from which another one begins."""


NONE = "none"
"""How TOML, which has no null, says that an optional key or section is not wanted."""


Kind = type[BaseModel]
Where = tuple[str, ...]
FindBase = Callable[[str, Path], Path]
"""The file that `extends = NAME` in another file means."""


# What a settings class declares at a place: its keys, its choices, its kinds.


class Spot(NamedTuple):
    """A place in a settings class, as a fault's location leads to it."""

    # The keys from the top, as a recipe writes them: without the tags that pydantic puts between them.
    where: Where
    siblings: tuple[str, ...]  # the keys that the section declares in which the last of them stands
    choices: tuple[str, ...]  # the values of the last key, when it has a list of them


def locate(kind: Kind, location: Sequence[str | int]) -> Spot:
    """Follow a location of pydantic's (`("image", "frozen", "encodr")`) from the top of `kind`."""
    spot = Spot((), (), ())
    inside: Kind | None = kind
    rest = iter(location)
    for part in rest:
        where = (*spot.where, str(part))
        if inside is None:
            # Below a single value: an index in a list is worth telling, the branch of a union of types is not.
            spot = spot._replace(where=where) if isinstance(part, int) else spot
            continue
        spot = Spot(where, tuple(inside.model_fields), ())
        declared = inside.model_fields.get(str(part))
        if declared is None:
            break
        if declared.discriminator is None:
            inside, choices = section_of(declared), _literals(declared.annotation)
        else:
            key = str(declared.discriminator)
            kinds = {tag: each for each in members(declared) for tag in _literals(each.model_fields[key].annotation)}
            tag = next(rest, None)
            inside, choices = None if tag is None else kinds[str(tag)], tuple(kinds)
        spot = spot._replace(choices=choices)
    return spot


def section_of(declared: FieldInfo) -> Kind | None:
    """The settings class of a key that is a section of one kind; None for a single value or a choice of kinds."""
    kinds = members(declared)
    return kinds[0] if len(kinds) == 1 else None


def members(declared: FieldInfo) -> tuple[Kind, ...]:
    """The settings classes that a key may hold: none for a single value, several for a choice of kinds."""
    options = get_args(declared.annotation) if _is_union(declared.annotation) else (declared.annotation,)
    return tuple(option for option in options if isinstance(option, type) and issubclass(option, BaseModel))


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


# Layers of settings: the file that is extended, the file, the changes; and where each key was written.


@dataclass(frozen=True)
class Change:
    """One key that is set over what a recipe says."""

    where: Where  # the key: ("optimiser", "epochs")
    value: Any  # its value
    place: str  # how the person wrote it, for messages: "--set optimiser.epochs=5", "epochs=5"

    @classmethod
    def parse(cls, text: str) -> Change:
        """A change as "section.key=value"; the value is read as TOML, and where it is none, as a plain string."""
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"--set {text}: not of the form key=value.", hint="e.g. --set optimiser.epochs=5")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            parsed = value.strip()
        return cls(tuple(part.strip() for part in name.split(".")), parsed, f"--set {text}")


class Layers(NamedTuple):
    """Values put together from several files and changes, and for each key the place it came from."""

    values: Mapping[str, Any]
    origin: Mapping[Where, str]

    def under(self, above: Layers, kind: Kind | None) -> Layers:
        """Both, where what `above` says wins, and what it does not mention stays."""
        values = _merged(self.values, above.values, kind)
        origin = {**self.origin, **above.origin}
        # A section that was replaced takes the places of its keys with it.
        return Layers(values, {where: place for where, place in origin.items() if _holds(values, where)})


def _merged(below: Mapping[str, Any], above: Mapping[str, Any], kind: Kind | None) -> dict[str, Any]:
    """`above` laid over `below`, key by key; `kind` is the settings class of this section, where there is one."""
    # A section whose kind changes (another `tower`) is replaced as a whole: settings of a ResNet say nothing of a small
    # CNN. One that is new and does not say its kind is of the default kind (an objective's `name`).
    merged = dict(below)
    for key, value in above.items():
        if isinstance(value, Mapping):
            declared = None if kind is None else kind.model_fields.get(key)
            tag = None if declared is None else declared.discriminator
            was = below.get(key)
            if not isinstance(was, Mapping) or (tag and value.get(tag, was.get(tag)) != was.get(tag)):
                default = tag and getattr(declared.default, str(tag), None)  # type: ignore[union-attr]
                was = {tag: default} if default else {}
            value = _merged(was, value, None if declared is None else section_of(declared))
        merged[key] = value
    return merged


def _holds(values: Any, where: Where) -> bool:
    for key in where:
        if not isinstance(values, Mapping) or key not in values:
            return False
        values = values[key]
    return True


def read_layers(
    source: str | Path | Mapping[str, Any],
    changes: Sequence[str | Change] = (),
    *,
    kind: Kind | None = None,
    find_base: FindBase,
    own: Sequence[str] = (),
) -> Layers:
    """The values of a recipe over those it extends, with `changes` on top; keys in `own` are not taken over."""
    if isinstance(source, Mapping):
        layers = _extended(Layers(source, {}), Path(), "recipe", (), kind, find_base, own)
    else:
        layers = _read(Path(source), (), kind, find_base, own)
    over: dict[str, Any] = {}
    origin: dict[Where, str] = {}
    for text in changes:
        change = Change.parse(text) if isinstance(text, str) else text
        section = over
        for part in change.where[:-1]:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise ConfigurationError(
                    f"{change.place}: {part!r} is a single value, not a section.", code="single-value-not-section"
                )
        section[change.where[-1]] = deepcopy(change.value)
        origin[change.where] = change.place
    return layers.under(Layers(over, origin), kind)


def _read(path: Path, above: tuple[Path, ...], kind: Kind | None, find_base: FindBase, own: Sequence[str]) -> Layers:
    """The values of a file, which those `above` extend."""
    chain = (*above, path.resolve())
    if path.resolve() in above:
        raise ConfigurationError(
            f"{above[0]}: recipes extend each other in a circle: {' → '.join(path.name for path in chain)}",
            hint=f"take `{EXTENDS}` out of one of them",
            code="recipes-extend-each-other",
        )
    text = read_text(path)
    try:
        values = parse_toml(text, path)
    except ConfigurationError as fault:
        if path.suffix == ".toml":
            raise
        raise ConfigurationError(
            f"{path}: this is no recipe: recipes are TOML files, or names (--list).",
            hint=f"pictures and captions to learn from: --data {path}",
            code="no-recipe",
        ) from fault
    lines = dict(_lines(text))
    origin = {where: f"{path}, line {line}" if above else f"line {line}" for where, line in lines.items()}
    place = f"{path}, line {lines.get((EXTENDS,), 1)}"
    return _extended(Layers(values, origin), path, place, chain, kind, find_base, own)


def _extended(
    this: Layers,
    path: Path,
    place: str,
    chain: tuple[Path, ...],
    kind: Kind | None,
    find_base: FindBase,
    own: Sequence[str],
) -> Layers:
    """What is read over what it extends; `place` is where it says so."""
    values = dict(this.values)
    base = values.pop(EXTENDS, None)
    if base is None:
        return Layers({}, {}).under(Layers(values, this.origin), kind)
    if not isinstance(base, str):
        raise ConfigurationError(
            f"{place}: {EXTENDS} is {base!r}, not the name or path of a recipe.", code="extends-not-name-path"
        )
    try:
        base_path = find_base(base, path)
    except ConfigurationError as fault:
        raise ConfigurationError(f"{place}: {EXTENDS}: {fault.message}", hint=fault.hint, code=fault.code) from fault
    below = _read(base_path, chain, kind, find_base, own)
    taken = {key: value for key, value in below.values.items() if key not in own}
    return Layers(taken, below.origin).under(Layers(values, this.origin), kind)


def _lines(text: str) -> Iterator[tuple[Where, int]]:
    """Where each key of a TOML text stands: ((section, key), line). Good enough to point at a fault."""
    section: Where = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([\w.\- ]+)\]", line):
            section = tuple(part.strip() for part in header[1].split("."))
            yield section, number
        elif key := re.match(r"\s*([\w.\-]+)\s*=", line):
            yield (*section, *key[1].split(".")), number


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
        messages = [_WORDS.get(error["type"], error["msg"].removeprefix("Value error, ")) for error in errors]
        message = f"{dotted}: {'; or '.join(messages)} (found {value!r})"
    place = next(_places(where, origin), "")
    return f"{place}: {message}" if place else message


def _places(where: tuple[str, ...], origin: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    """Where to look: at the key itself; at the first key written under it, of a section that should not be there; at
    the nearest enclosing one, of an element of a list."""
    if where in origin:
        yield origin[where]
    yield from (place for key, place in origin.items() if key[: len(where)] == where)
    for n in range(len(where), 0, -1):
        if where[:n] in origin:
            yield origin[where[:n]]


class Settings(BaseModel):
    """A group of settings: immutable, and a key that is not declared is a fault."""

    # "none" for a key that may be None means None: `clip = "none"`, `ltd = "none"`.

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __repr__(self) -> str:
        return listing(self, {name: getattr(self, name) for name in type(self).model_fields})

    @model_validator(mode="before")
    @classmethod
    def _none_is_none(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        absent = {
            name
            for name, declared in cls.model_fields.items()
            if values.get(name) == NONE and type(None) in get_args(declared.annotation)
        }
        return {key: None if key in absent else value for key, value in values.items()}


S = TypeVar("S", bound=Settings)


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

    layers = read_layers(given, changes, kind=kind, find_base=find_base, own=own)
    try:
        return kind.model_validate(layers.values)
    except ValidationError as fault:
        faults = explain_faults(kind, fault, layers.origin)
    title = f"{given}" if isinstance(given, (str, Path)) else f"recipe {layers.values.get('name', '')}".strip()
    hint = "the keys and their defaults: docs/reference/recipe-settings.md"
    raise_faults(ConfigurationError, title, faults, hint=hint)
    raise AssertionError("a validation error without an error")


def with_new_keys(settings: Settings, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that an earlier version wrote out, with the defaults of the keys that it did not have yet."""
    # A new key's default is what was done before the key was there, so such settings are those of the same training.
    try:
        return type(settings).model_validate(stored).model_dump(mode="json")
    except ValidationError:
        return dict(stored)


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


Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0.0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
"""What torch's generators take too."""
