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


def code_is_trusted(name: str, options: dict[str, str]) -> bool:
    """Whether the name says `?code=trusted`: the code that comes with the model may run."""
    if options.get("code", "trusted") != "trusted":
        raise EncoderError(
            f"{name}: code={options['code']!r} is not known.",
            hint="code=trusted runs the Python code that comes with the model; read it before",
        )
    return "code" in options


def refuse_code(name: str) -> EncoderError:
    """The error for a model that is nothing without the code that comes with it."""
    return EncoderError(
        f"{name}: this model needs Python code that comes with it, and nobody has said that it may run.",
        hint=f"read the *.py files in its repository; if you trust them: {name}{'&' if '?' in name else '?'}"
        "code=trusted (a revision then names the code that you have read)",
    )


def template_of(name: str, options: dict[str, str]) -> str:
    """The option `template`, in which one `{}` stands for the text; "{}" when it is not given."""
    template = options.get("template", "{}")
    if template.count("{}") != 1:
        raise EncoderError(
            f"{name}: the template {template!r} must hold {{}} exactly once: the place of the text.",
            hint="e.g. template=a photo of {}",
        )
    return template
