"""Options as text: `NAME?key=value&key=value`, and NAME=VALUE on the command line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.files import is_there


def parse_pairs(
    pairs: Iterable[str],
    title: str,
    *,
    known: Collection[str] | None = None,
    allow_empty: bool = True,
    error: type[VisirError] = ConfigurationError,
    hint: str = "",
) -> dict[str, str]:
    """The names and values of some texts NAME=VALUE."""
    options: dict[str, str] = {}
    faults = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if known is not None and name not in known:
            faults.append(f"unknown option {name!r}: {nearest(name, known)}")
        elif not equals or not (value or allow_empty):
            faults.append(f"{name!r} has no value; write {name}=VALUE")
        elif name in options:
            faults.append(f"{name!r} is given twice")
        options[name] = value
    raise_faults(error, title, faults, hint=hint)
    return options


def split_options(
    name: str,
    known: Collection[str] | None = None,
    *,
    allow_empty: bool = False,
    error: type[VisirError] = ConfigurationError,
) -> tuple[str, dict[str, str]]:
    """A name without its options, and the options as written."""
    # Options follow a question mark (see `split_mark`) as `key=value`, joined by `&`; a value is taken as it stands
    # (spaces, braces and equals signs included; nothing is percent-decoded). They are part of the name on purpose: what
    # changes the vectors is then in every place where the name is.
    bare, tail = split_mark(name)
    return bare, parse_pairs(
        filter(None, tail.split("&")),
        f"{name}: faults in the options after '?'",
        known=known,
        allow_empty=allow_empty,
        error=error,
        hint="NAME?key=value&key=value",
    )


def split_mark(name: str) -> tuple[str, str]:
    """A name and the text of its options, split at the question mark between them."""
    # That is the first one, unless what stands before a later one, or the whole name, is a file or folder: a question
    # mark may stand in a path ("holidays?/model").
    marks = [position for position, letter in enumerate(name) if letter == "?"]
    for mark in (*marks, len(name)) if marks else ():
        if any(path and is_there(path) for path in (name[:mark], name[:mark].partition(":")[2])):
            return name[:mark], name[mark + 1 :]
    for mark in marks:
        if re.match("[^=/]*(=|$)", name[mark + 1 :]):
            return name[:mark], name[mark + 1 :]
    return name, ""


def with_option(name: str, option: str, value: str) -> str:
    """A name with one more option."""
    return f"{name}{'&' if split_mark(name)[1] else '?'}{option}={value}"
