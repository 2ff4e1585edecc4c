"""Options as text: `NAME?key=value&key=value`."""

from __future__ import annotations

from collections.abc import Collection

from visir.errors import ConfigurationError, VisirError, nearest, raise_faults


def split_options(
    name: str, known: Collection[str] | None = None, *, error: type[VisirError] = ConfigurationError
) -> tuple[str, dict[str, str]]:
    """A name without its options, and the options as written.

    Options follow a question mark as `key=value`, joined by `&`; a value is taken as it stands (spaces, braces and
    equals signs included; nothing is percent-decoded). They are part of the name on purpose: what changes the vectors
    is then in every place where the name is.

    Args:
        name: The name with its options.
        known: The options that there are; None leaves this to the caller.
        error: What is raised.

    Raises:
        VisirError: Listing every fault: an unknown option (with the nearest one), one without a value, one given twice.
    """
    bare, _, tail = name.partition("?")
    options: dict[str, str] = {}
    faults = []
    for part in filter(None, tail.split("&")):
        key, equals, value = part.partition("=")
        if known is not None and key not in known:
            faults.append(f"unknown option {key!r}: {nearest(key, known)}")
        elif not equals or not value:
            faults.append(f"{key!r} has no value; write {key}=VALUE")
        elif key in options:
            faults.append(f"{key!r} is given twice")
        options[key] = value
    raise_faults(error, f"{name}: faults in the options after '?'", faults, hint="NAME?key=value&key=value")
    return bare, options
