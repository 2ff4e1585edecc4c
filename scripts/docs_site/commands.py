"""The reference of the command line: one page for every verb of `visir --help`, printed from the verbs themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_origin

FOLDER = "reference/commands"


def pages() -> dict[str, str]:
    """Path → Markdown of every page; the first one lists the verbs."""
    from typer.main import get_command

    from visir.cli.main import app

    verbs: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    shown = {name: verb for name, verb in verbs.items() if not verb.hidden}
    made = {f"{FOLDER}/index.md": _index(shown)}
    for name, verb in shown.items():
        made[f"{FOLDER}/visir-{name}.md"] = "\n\n".join(_page(f"visir {name}", verb, level=1)) + "\n"
    return made


def _index(verbs: dict[str, Any]) -> str:
    rows: dict[str, list[str]] = {}
    for name, verb in verbs.items():
        panel = getattr(verb, "rich_help_panel", None)
        title = panel if isinstance(panel, str) else "Commands"
        rows.setdefault(title, []).append(f"| [`visir {name}`](visir-{name}.md) | {_cell(_first(verb))} |")
    tables = "\n\n".join(
        f"## {title}\n\n| command | what it does |\n|---|---|\n" + "\n".join(lines) for title, lines in rows.items()
    )
    return (
        "# Command line\n\n"
        "Every command prints its options with `--help`. `visir --install-completion` completes names in your shell.\n\n"
        f"{tables}\n"
    )


def _page(path: str, verb: Any, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {path}"
    help_text = inspect.cleandoc(verb.help or "").replace("\b\n", "")
    yield help_text
    subverbs = {name: one for name, one in getattr(verb, "commands", {}).items() if not one.hidden}
    yield f"```text\n{path} {_usage(verb, bool(subverbs))}\n```"
    arguments = [one for one in verb.params if one.param_type_name == "argument" and not getattr(one, "hidden", False)]
    options = [one for one in verb.params if one.param_type_name == "option" and not one.hidden]
    options = [one for one in options if not {"--help", "--install-completion", "--show-completion"} & set(one.opts)]
    if arguments:
        yield _table(("argument", "what it is"), [(f"`{_name(one)}`", _about(one)) for one in arguments])
    if options:
        yield _table(
            ("option", "value", "what it does", "default"),
            [(_flags(one), _kind(one), _about(one), _default(one)) for one in options],
        )
    for name, one in subverbs.items():
        yield from _page(f"{path} {name}", one, level=min(level + 1, 3))


def _usage(verb: Any, is_group: bool) -> str:
    words = [
        _name(one) + ("..." if one.nargs == -1 else "") for one in verb.params if one.param_type_name == "argument"
    ]
    return " ".join([*words, "COMMAND"] if is_group else [*words, "[OPTIONS]"])


def _first(verb: Any) -> str:
    return inspect.cleandoc(verb.help or "").split("\n\n")[0].replace("\n", " ")


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name).strip("{}[]").upper()


def _about(parameter: Any) -> str:
    text = (getattr(parameter, "help", "") or "").replace("\n", " ").strip()
    return text + (" Repeatable." if getattr(parameter, "multiple", False) and "repeatable" not in text.lower() else "")


def _flags(option: Any) -> str:
    return ", ".join(f"`{flag}`" for flag in [*sorted(option.opts, key=len, reverse=True), *option.secondary_opts])


def _kind(option: Any) -> str:
    if option.is_flag:
        return ""
    kind = getattr(option, "type", option)  # typer keeps the bounds at the option since 0.29
    name = option.metavar or _type_name(option)
    bounds = [f"{sign} {value:g}" for sign, value in (("≥", kind.min), ("≤", kind.max)) if value is not None]
    return " ".join([name.strip("<>"), ", ".join(bounds)]).strip()


def _type_name(option: Any) -> str:
    if hasattr(option, "type_descriptor"):
        annotation = option.type_descriptor.annotation
        if get_origin(annotation) is list:
            annotation = get_args(annotation)[0]
        choices = getattr(annotation, "__members__", None) or getattr(annotation, "__args__", None)
        if choices:
            return ", ".join(f"`{getattr(one, 'value', one)}`" for one in choices)
        names = {"str": "text", "int": "number", "float": "number", "Path": "path"}
        name = getattr(annotation, "__name__", str(annotation))
        return names.get(name, name)
    return str(option.type.name)


def _default(option: Any) -> str:
    if option.required:
        return "required"
    shown = option.default
    if shown is None or callable(shown) or shown in ("", (), []) or "Sentinel" in type(shown).__name__:
        return ""
    if getattr(option, "is_flag", False):
        return "on" if shown and option.secondary_opts else ""
    return f"`{getattr(shown, 'value', shown)}`"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(tuple(map(_cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
