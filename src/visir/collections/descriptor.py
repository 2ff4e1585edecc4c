"""What a reader says about itself, as data: `visir data formats` and the table in the docs are printed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visir.collections.judgements.judged import Judged
from visir.errors import CollectionError, nearest, raise_faults


@dataclass(frozen=True)
class Option:
    """A named choice of a reader."""

    name: str  # as it is written in `"PATH?name=value"`
    about: str  # what it chooses, in one line
    default: Any = None  # its value when it is not given
    parse: Callable[[str], Any] = str  # turns text into its value; raises `ValueError` for text that it does not take


@dataclass(frozen=True, kw_only=True)
class Format:
    """A layout of files that can be read: of collections, catalogues, judgements or tasks."""

    name: str  # by which it is called in `format="…"` and in `"name:path"`
    title: str  # its name for people
    layout: str  # the files as their makers distribute them
    reference: str  # where the format comes from
    sniff: Callable[[Path], bool]  # whether a path looks like it. It must be quick and never raise.
    # `read(path, **options)` returns a draft (`visir.collections.draft`), or what is read as it is.
    read: Callable[..., Any]
    options: tuple[Option, ...] = ()  # what can be chosen
    last: bool = False  # whether it is tried only when no file in a folder is a source by itself
    one_file: bool = False  # whether it is always a file, never a folder
    # What to do with a path that does not look like it, and could be read if its options were given: a line that works.
    # "" for any other path.
    advice: Callable[[Path], str] = lambda path: ""
    obtain: str = ""  # where its makers publish it, or a command that gets it; "" where people make it themselves

    def lacks(self, path: Path, *missing: str) -> CollectionError:
        """The error for a path that is not this layout."""
        return CollectionError(
            f"{path}: not the layout of {self.name}: {', '.join(missing)}.",
            hint="; ".join(filter(None, [f"layout: {self.layout}", f"get it: {self.obtain}" if self.obtain else ""])),
            code="not-layout",
        )

    def resolve(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options with defaults filled in and text parsed."""
        by_name = {option.name: option for option in self.options}
        resolved = {option.name: option.default for option in self.options}
        faults: list[tuple[str, str]] = []
        for name, value in options.items():
            if name not in by_name:
                hint = nearest(name, by_name) if by_name else f"{self.name} has no options"
                faults.append((f"unknown option {name!r}", hint))
                continue
            try:
                resolved[name] = by_name[name].parse(value) if isinstance(value, str) else value
            except ValueError:
                faults.append((f"option {name}={value!r}: {by_name[name].about}", ""))
        if len(faults) == 1:
            raise CollectionError(f"{self.name}: {faults[0][0]}", hint=faults[0][1])
        listed = [f"{fault}: {hint}" if hint else fault for fault, hint in faults]
        raise_faults(CollectionError, f"{self.name}: options", listed)
        return resolved


@dataclass(frozen=True, kw_only=True)
class JudgementFormat(Format):
    """A layout of relevance judgements: `read(path, collection, **options)` returns `Judged` rows."""

    read: Callable[..., Judged]
    sets: str = ""  # the names of the sets that it adds


def one_of(*choices: str) -> Callable[[str], str]:
    """A parser that takes one of the given words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse
