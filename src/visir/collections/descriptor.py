"""What a reader says about itself, as data: `visir data formats` and the table in the docs are printed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visir.collections.draft import Draft
from visir.collections.judgements.judged import Judged
from visir.errors import CollectionError, nearest
from visir.records import Collection


@dataclass(frozen=True)
class Option:
    """A named choice of a reader. `parse` turns the command line's text into its value."""

    name: str
    about: str
    default: Any = None
    parse: Callable[[str], Any] = str


@dataclass(frozen=True)
class Described:
    """What formats of collections and of judgements have in common.

    - `name`: by which it is called in `format="…"` and in `"name:path"`
    - `layout`: the official distribution as it lies on disk
    - `reference`: where the format comes from
    - `sniff`: whether a path looks like it; must be quick and never raise
    """

    name: str
    title: str
    layout: str
    reference: str
    sniff: Callable[[Path], bool]
    options: tuple[Option, ...] = ()

    def resolve(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options with defaults filled in and text parsed; unknown ones raise with the nearest name."""
        known = {option.name: option for option in self.options}
        for name in options:
            if name not in known:
                hint = nearest(name, known) if known else f"{self.name} has no options"
                raise CollectionError(f"{self.name}: unknown option {name!r}", hint=hint)
        resolved = {option.name: option.default for option in self.options}
        for name, value in options.items():
            try:
                resolved[name] = known[name].parse(value) if isinstance(value, str) else value
            except ValueError:
                raise CollectionError(f"{self.name}: option {name}={value!r}: {known[name].about}") from None
        return resolved


@dataclass(frozen=True)
class Format(Described):
    """A layout of collections: `read(path, **options)` returns a `Draft`."""

    read: Callable[..., Draft | Collection] = None  # type: ignore[assignment]
    last: bool = False  # tried only when no file in the folder is a collection by itself


@dataclass(frozen=True)
class JudgementFormat(Described):
    """A layout of relevance judgements: `read(path, collection, **options)` returns `Judged` rows."""

    read: Callable[..., Judged] = None  # type: ignore[assignment]
    sets: str = ""  # the names of the sets that it adds


def one_of(*choices: str) -> Callable[[str], str]:
    """A parser that takes one of the given words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse
