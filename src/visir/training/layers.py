"""Layers of settings: the file that is extended, the file, the changes; and where each key was written."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError
from visir.files import read_text
from visir.training.schema import KindKey

EXTENDS = "extends"
"""The key that names the file from which another one begins."""

Where = tuple[str, ...]
FindBase = Callable[[str, Path], Path]
"""The file that `extends = NAME` in another file means."""
KindOf = Callable[[Where], KindKey | None]
"""The key that decides what kind of thing a section describes (`tower`) and its default, or None."""


@dataclass(frozen=True)
class Change:
    """One key that is set over what a recipe says."""

    where: Where  # the key: ("optimiser", "epochs")
    value: Any  # its value
    place: str  # how the person wrote it, for messages: "--set optimiser.epochs=5", "epochs=5"

    @classmethod
    def parse(cls, text: str) -> Change:
        """A change as a text, "section.key=value"; the value is read as TOML, and where it is none, as a plain
        string."""
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"--set {text}: not of the form key=value.", hint="e.g. --set optimiser.epochs=5")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value.strip()
        return cls(tuple(part.strip() for part in name.split(".")), parsed, f"--set {text}")


@dataclass
class Layers:
    """Values put together from several files and changes, and for each key the place it came from."""

    values: dict[str, Any] = field(default_factory=dict)
    origin: dict[Where, str] = field(default_factory=dict)

    def cover(self, over: Layers, kind_of: KindOf) -> None:
        """Lay `over` on top: what it says wins, what it does not mention stays."""
        # A section whose kind changes (another `tower`) is replaced as a whole: settings of a ResNet say nothing of a
        # small CNN. One that is new and does not say its kind is of the default kind.
        _merge(self, over, self.values, over.values, (), kind_of)
        self.origin.update(over.origin)

    def forget(self, where: Where) -> None:
        """Drop the places of everything under `where`."""
        self.origin = {key: place for key, place in self.origin.items() if key[: len(where)] != where}


def read_layers(
    source: str | Path | Mapping[str, Any],
    changes: Sequence[str | Change],
    *,
    find_base: FindBase,
    kind_of: KindOf,
    own: Sequence[str] = (),
) -> Layers:
    """The values of a recipe over those it extends, with `changes` on top."""
    if isinstance(source, Mapping):
        layers = _extended(Path(), Layers(deepcopy(dict(source))), "recipe", (), find_base, kind_of, own)
    else:
        layers = _read(Path(source), find_base, kind_of, own, ())
    layers.cover(_changes(changes), kind_of)
    return layers


def _read(path: Path, find_base: FindBase, kind_of: KindOf, own: Sequence[str], above: tuple[Path, ...]) -> Layers:
    chain = (*above, path.resolve())
    if path.resolve() in above:
        raise ConfigurationError(
            f"{above[0]}: recipes extend each other in a circle: {' → '.join(path.name for path in chain)}",
            hint=f"take `{EXTENDS}` out of one of them",
            code="recipes-extend-each-other",
        )
    text = read_text(path)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        if path.suffix != ".toml":
            raise ConfigurationError(
                f"{path}: this is no recipe: recipes are TOML files, or names (--list).",
                hint=f"pictures and captions to learn from: --data {path}",
                code="no-recipe",
            ) from fault
        raise ConfigurationError(
            f"{path}: not valid TOML: {fault}", hint="mend that line", code="not-valid-toml"
        ) from fault
    file = f"{path}, " if above else ""
    this = Layers(values, {where: f"{file}line {line}" for where, line in _lines(text)})
    place = f"{path}, {this.origin.pop((EXTENDS,), '').removeprefix(file)}"
    return _extended(path, this, place, chain, find_base, kind_of, own)


def _extended(
    path: Path,
    this: Layers,
    place: str,
    chain: tuple[Path, ...],
    find_base: FindBase,
    kind_of: KindOf,
    own: Sequence[str],
) -> Layers:
    """What is read over what it extends; `place` is where it says so."""
    base = this.values.pop(EXTENDS, None)
    if base is None:
        layers = Layers()
        layers.cover(this, kind_of)
        return layers
    if not isinstance(base, str):
        raise ConfigurationError(
            f"{place}: {EXTENDS} is {base!r}, not the name or path of a recipe.", code="extends-not-name-path"
        )
    try:
        base_path = find_base(base, path)
    except ConfigurationError as fault:
        raise ConfigurationError(f"{place}: {EXTENDS}: {fault.message}", hint=fault.hint, code=fault.code) from fault
    layers = _read(base_path, find_base, kind_of, own, chain)
    for key in own:
        layers.values.pop(key, None)
        layers.forget((key,))
    layers.cover(this, kind_of)
    return layers


def _merge(
    layers: Layers, over: Layers, below: dict[str, Any], above: Mapping[str, Any], at: Where, kind_of: KindOf
) -> None:
    for key, value in above.items():
        where, was = (*at, key), below.get(key)
        if not isinstance(value, Mapping):
            layers.forget(where)
            below[key] = value
            continue
        kind = kind_of(where)
        if not isinstance(was, dict) or (kind and value.get(kind.key, was.get(kind.key)) != was.get(kind.key)):
            layers.forget(where)
            below[key] = was = {} if kind is None or kind.default is None else {kind.key: kind.default}
        _merge(layers, over, was, value, where, kind_of)


def _changes(changes: Sequence[str | Change]) -> Layers:
    layers = Layers()
    for change in changes:
        change = Change.parse(change) if isinstance(change, str) else change
        _put(layers.values, change)
        layers.origin[change.where] = change.place
    return layers


def _put(values: dict[str, Any], change: Change) -> None:
    for part in change.where[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ConfigurationError(
                f"{change.place}: {part!r} is a single value, not a section.", code="single-value-not-section"
            )
    values[change.where[-1]] = deepcopy(change.value)


def _lines(text: str) -> Iterator[tuple[Where, int]]:
    """Where each key of a TOML text stands: ((section, key), line). Good enough to point at a fault."""
    section: Where = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([\w.\- ]+)\]", line):
            section = tuple(part.strip() for part in header[1].split("."))
            yield section, number
        elif key := re.match(r"\s*([\w.\-]+)\s*=", line):
            yield (*section, *key[1].split(".")), number
