"""What people rely on without saying it: defaults of functions, options and recipes; sentences.

    python scripts/snapshots.py          # write tests/snapshots/*.txt anew; read what changed with `git diff`

A default that changes by accident changes results, and no other test may notice. Sentences (errors, notes,
help) are read here as prose, and no other test repeats them. `tests/test_snapshots.py` compares.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import sentences
from sources import ROOT, module_of, python_files

FOLDER = ROOT / "tests" / "snapshots"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def public_packages() -> list[str]:
    """The packages that say what is for others: those with `__all__`."""
    files = (path for path in python_files() if path.name == "__init__.py")
    return [module_of(path) for path in files if "__all__ =" in path.read_text(encoding="utf-8")]


def signatures() -> Iterator[str]:
    """Every public function, and the methods and fields of every public class, with their defaults."""
    seen: set[int] = set()
    for package in public_packages():
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if id(value) in seen or not getattr(value, "__module__", "").startswith("visir"):
                continue
            seen.add(id(value))
            if inspect.isclass(value):
                yield from _class(f"{package}.{name}", value)
            elif callable(value):
                yield f"{package}.{name}{_parameters(value)}"


def _class(name: str, value: type) -> Iterator[str]:
    if is_dataclass(value):
        shown = [f"{field.name}{_default(field.default, field.default_factory)}" for field in fields(value)]
        yield f"{name}: {', '.join(shown)}"
    elif "__init__" in vars(value):
        yield f"{name}{_parameters(value)}"
    else:
        yield name
    for member, held in sorted(vars(value).items()):
        if member.startswith("_"):
            continue
        function = held.__func__ if isinstance(held, (classmethod, staticmethod)) else held
        if inspect.isfunction(function):
            yield f"{name}.{member}{_parameters(function, skip=0 if isinstance(held, staticmethod) else 1)}"


def _default(value: Any, factory: Any) -> str:
    if value is not MISSING:
        return f"={_shown(value)}"
    return "" if factory is MISSING else f"={getattr(factory, '__name__', 'factory')}()"


def _parameters(function: Callable[..., Any], skip: int = 0) -> str:
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    plain = [
        parameter.replace(annotation=parameter.empty, default=_Shown(parameter.default))
        if parameter.default is not parameter.empty
        else parameter.replace(annotation=parameter.empty)
        for parameter in parameters
    ]
    return str(inspect.Signature(plain))


class _Shown:
    """A default as it is printed."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return _shown(self.value)


def _shown(value: Any) -> str:
    if callable(value):
        return str(getattr(value, "__qualname__", value))
    if isinstance(value, Path):
        return f"Path({value.name!r})"
    return _ADDRESS.sub("", repr(value))


def options() -> Iterator[str]:
    """Every verb with its arguments and options: names, type and range, whether it is a flag, default."""
    import typer

    from visir.cli.main import app

    def walk(command: Any, path: str) -> Iterator[str]:
        below = getattr(command, "commands", None)
        for name, inner in sorted((below or {}).items()):
            yield from walk(inner, f"{path} {name}")
        if below is None:
            for parameter in command.params:
                names = "/".join(parameter.opts + parameter.secondary_opts)
                kind = "flag" if getattr(parameter, "is_flag", False) else parameter.param_type_name
                taken = parameter.type_descriptor.annotation
                kind += "" if kind == "flag" else f" {getattr(taken, '__name__', taken)}"
                ends = parameter.min, parameter.max
                kind += f" {ends[0]}…{ends[1]}" if ends != (None, None) else ""
                many = ", several" if parameter.multiple or parameter.nargs != 1 else ""
                default = "required" if parameter.required else _shown(parameter.default)
                yield f"{path} {names}: {kind}{many}, {default}"

    yield from walk(typer.main.get_command(app), "visir")


def recipes() -> Iterator[str]:
    """What each setting of a recipe is where nothing is said of it."""
    from visir.products.model import CategoriesRecipe
    from visir.sparse.recipe import SparseRecipe
    from visir.training.recipe import Recipe
    from visir.training.settings import Settings

    kinds: set[Any] = set()
    waiting: list[Any] = [Recipe, SparseRecipe, CategoriesRecipe]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)  # of unions and of what is annotated
        if inspect.isclass(kind) and issubclass(kind, Settings) and kind not in kinds:
            kinds.add(kind)
            waiting += [field.annotation for field in kind.model_fields.values()]
    for kind in sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__)):
        for name, field in kind.model_fields.items():
            value = None if field.is_required() else field.get_default(call_default_factory=True)
            shown = type(value).__name__ if isinstance(value, Settings) else _shown(value)
            yield f"{kind.__qualname__}.{name}{': required' if field.is_required() else f' = {shown}'}"


def passed_on() -> Iterator[str]:
    """Where the value of each option of each verb arrives."""
    from passed_on import lines, verbs
    from visir.cli.main import app

    for path, function in verbs(app):
        yield from lines(path, function)


def messages() -> Iterator[str]:
    """Every sentence of errors, warnings, notes and help: to be read as prose."""
    import typer

    from visir.cli.main import app

    yield from sentences.Source().lines()
    yield "# help"
    texts: set[str] = set()
    waiting: list[Any] = [typer.main.get_command(app)]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        texts |= {command.help or "", *(getattr(parameter, "help", None) or "" for parameter in command.params)}
    yield from sorted(text.strip().replace("\n", "\\n") for text in texts if text.strip())


SNAPSHOTS: dict[str, Callable[[], Iterator[str]]] = {
    "signatures": signatures,
    "options": options,
    "recipes": recipes,
    "passed-on": passed_on,
    "messages": messages,
}


def main() -> None:
    """Write them anew."""
    FOLDER.mkdir(exist_ok=True)
    for name, lines in SNAPSHOTS.items():
        text = "".join(f"{line}\n" for line in lines())
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
        print(f"{name}: {text.count(chr(10)):,} lines", file=sys.stderr)


if __name__ == "__main__":
    main()
