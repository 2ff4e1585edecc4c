"""The values of options in names: `openai/clip-vit-base-patch32?template=a photo of {}&max_length=64`."""

from __future__ import annotations

from collections.abc import Sequence

from visir.errors import EncoderError, nearest


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
