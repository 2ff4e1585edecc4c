"""Names with options: `openai/clip-vit-base-patch32?template=a photo of {}&max_length=64`."""

from __future__ import annotations

from collections.abc import Sequence

from visir.errors import EncoderError, nearest, raise_faults


def split_options(name: str, known: Sequence[str]) -> tuple[str, dict[str, str]]:
    """A name without its options, and the options as written.

    Options follow a question mark as `key=value`, joined by `&`; a value is taken as it stands (spaces, braces and
    equals signs included; nothing is percent-decoded). They are part of the name on purpose: what changes the vectors
    is then in every place where the name is. Raises `EncoderError` listing every fault: an option that is not in
    `known` (with the nearest one), one without a value, one given twice.
    """
    bare, _, tail = name.partition("?")
    options: dict[str, str] = {}
    faults = []
    for part in filter(None, tail.split("&")):
        key, equals, value = part.partition("=")
        if key not in known:
            faults.append(f"unknown option {key!r}: {nearest(key, known)}")
        elif not equals or not value:
            faults.append(f"{key!r} has no value; write {key}=VALUE")
        elif key in options:
            faults.append(f"{key!r} is given twice")
        options[key] = value
    raise_faults(EncoderError, f"{name}: faults in the options after '?'", faults, hint="NAME?key=value&key=value")
    return bare, options


def positive_number(name: str, options: dict[str, str], key: str) -> int | None:
    """The option `key` as a positive whole number; None when it is not given."""
    if key not in options:
        return None
    if not options[key].isdecimal() or int(options[key]) < 1:
        raise EncoderError(f"{name}: {key}={options[key]!r} is not a positive whole number.", hint=f"e.g. {key}=64")
    return int(options[key])


def one_of(name: str, options: dict[str, str], key: str, choices: Sequence[str]) -> str:
    """The option `key`, which must be one of `choices`; the first of them when it is not given."""
    value = options.get(key, choices[0])
    if value not in choices:
        raise EncoderError(f"{name}: {key}={value!r} is not known.", hint=nearest(value, choices))
    return value


def template_of(name: str, options: dict[str, str]) -> str:
    """The option `template`, in which one `{}` stands for the text; "{}" when it is not given."""
    template = options.get("template", "{}")
    if template.count("{}") != 1:
        raise EncoderError(
            f"{name}: the template {template!r} must hold {{}} exactly once: the place of the text.",
            hint="e.g. template=a photo of {}",
        )
    return template
