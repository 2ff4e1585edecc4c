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
    """The names and values of some texts NAME=VALUE.

    Args:
        pairs: The texts. A value is taken as it stands, equals signs and spaces included.
        title: Where they stand, for errors: "--set".
        known: The names that there are; None leaves this to the caller.
        allow_empty: Whether a value may be empty ("NAME=").
        error: What is raised.
        hint: What to do about a fault.

    Raises:
        VisirError: Listing every fault: an unknown name (with the nearest one), a name without a value, a name twice.

    Example:
        >>> parse_pairs(["m=16", "ef-search=64"], "--set")
        {'m': '16', 'ef-search': '64'}
    """
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
    """A name without its options, and the options as written.

    Options follow a question mark (see `split_mark`) as `key=value`, joined by `&`; a value is taken as it stands
    (spaces, braces and equals signs included; nothing is percent-decoded). They are part of the name on purpose: what
    changes the vectors is then in every place where the name is.

    Args:
        name: The name with its options.
        known: The options that there are; None leaves this to the caller.
        allow_empty: Whether a value may be empty ("key=").
        error: What is raised.

    Raises:
        VisirError: Listing every fault: an unknown option (with the nearest one), one without a value, one given twice.

    Example:
        >>> split_options("ViT-B-32?pretrained=openai&precision=bf16")
        ('ViT-B-32', {'pretrained': 'openai', 'precision': 'bf16'})
    """
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
    """A name and the text of its options, split at the question mark between them.

    That is the first one, unless what stands before a later one, or the whole name, is a file or folder: a question
    mark may stand in a path ("holidays?/model").

    Example:
        >>> split_mark("ViT-B-32?pretrained=openai"), split_mark("ViT-B-32")
        (('ViT-B-32', 'pretrained=openai'), ('ViT-B-32', ''))
        >>> from pathlib import Path
        >>> Path("what?").mkdir()
        >>> split_mark("what?"), split_mark("st:what??prompt=query")
        (('what?', ''), ('st:what?', 'prompt=query'))
    """
    marks = [position for position, letter in enumerate(name) if letter == "?"]
    for mark in (*marks, len(name)) if marks else ():
        if any(path and is_there(path) for path in (name[:mark], name[:mark].partition(":")[2])):
            return name[:mark], name[mark + 1 :]
    for mark in marks:
        if re.match("[^=/]*(=|$)", name[mark + 1 :]):
            return name[:mark], name[mark + 1 :]
    return name, ""


def with_option(name: str, option: str, value: str) -> str:
    """A name with one more option.

    Example:
        >>> with_option("MODEL", "dimension", "64"), with_option("MODEL?prompt=query", "dimension", "64")
        ('MODEL?dimension=64', 'MODEL?prompt=query&dimension=64')
    """
    return f"{name}{'&' if split_mark(name)[1] else '?'}{option}={value}"
