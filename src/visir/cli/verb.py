"""A verb from a Python function: options, types, defaults and texts come from its signature and its `Args:`.

The function's file is read, not imported, so `--help` stays instant; it is imported when the verb runs.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli.options import SHARED, single_or_all

_ROOT = Path(__file__).parents[1]
_ONLY = inspect.Parameter.KEYWORD_ONLY


@dataclass(frozen=True)
class Option:
    """Where the command line differs from the function; what is not said comes from the function."""

    about: str = ""  # "" takes the text of SHARED, or else the first sentence of the docstring
    names: tuple[str, ...] = ()  # "--template", "-t"
    name: str = ""  # of the parameter, where the function has another
    kind: Any = None  # the type
    default: Any = ...
    argument: bool = False
    panel: str | None = None
    more: dict[str, Any] | None = None  # further settings of Typer

    def annotation(self, kind: Any) -> Any:
        """The type with everything that Typer wants to know."""
        make: Any = typer.Argument if self.argument else typer.Option
        extra = {"rich_help_panel": self.panel} | (self.more or {})
        return Annotated[kind, make(*self.names, help=self.about, **extra)]


def option(about: str = "", *names: str, to: str = "", kind: Any = None, default: Any = ..., panel: str | None = None,
           **more: Any) -> Option:  # fmt: skip
    """An option whose words, names or type differ from the function's."""
    return Option(about, names, to, kind, default, panel=panel, more=more)


def argument(metavar: str, about: str, *, to: str = "", kind: Any = None, **more: Any) -> Option:
    """A parameter without a name."""
    return Option(about, name=to, kind=kind, argument=True, more={"metavar": metavar, "show_default": False} | more)


@dataclass(frozen=True)
class _Parameter:
    """A parameter of the function, as its file has it."""

    annotation: str
    default: Any  # `...` where there is none
    is_positional: bool
    about: str


@cache
def parameters_of(target: str) -> dict[str, _Parameter]:
    """The parameters of "visir.module:function", without an import."""
    module, _, name = target.partition(":")
    text = _ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")
    begin = text.index(f"\ndef {name}(") + 1
    end = text.index('"""', text.index('"""', begin) + 3) + 3
    made = ast.parse(text[begin:end]).body[0]
    assert isinstance(made, ast.FunctionDef)
    about = _texts(ast.get_docstring(made) or "")
    plain, named = made.args.args, made.args.kwonlyargs
    defaults = [None] * (len(plain) - len(made.args.defaults)) + [*made.args.defaults]
    rows = [(item, value, True) for item, value in zip(plain, defaults, strict=True)]
    rows += [(item, value, False) for item, value in zip(named, made.args.kw_defaults, strict=True)]
    return {
        item.arg: _Parameter(
            ast.unparse(item.annotation) if item.annotation else "",
            ... if value is None else _literal(value),
            is_positional,
            about.get(item.arg, ""),
        )
        for item, value, is_positional in rows
    }


def _literal(value: ast.expr) -> Any:
    """A default; a name stands for itself, and the table of the verb says what it is."""
    try:
        return ast.literal_eval(value)
    except ValueError:
        return ast.unparse(value)


def _texts(doc: str) -> dict[str, str]:
    """What `Args:` says of each argument: its first sentence, as plain prose."""
    part = re.search(r"\nArgs:\n(.*?)(?:\n\n\w+:|\Z)", doc, re.S)
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \*{0,2}\w+: |\Z)", part[1] + "\n" if part else "", re.S | re.M)
    return {name: re.split(r"(?<=\.) ", " ".join(text.replace("`", "").split()))[0] for name, text in entries}


def _kind(annotation: str) -> Any:
    """The type as a command line takes it: a switch, a number, several texts, or a text."""
    words = set(re.findall(r"\w+", annotation))
    if words & {"Sequence", "Iterable", "list", "tuple"}:
        return list[str]
    if words & {"Path", "PathLike"}:
        return Path
    number: dict[str, Any] = {"bool": bool, "int": int, "float": float}
    return next((kind for name, kind in number.items() if words <= {name, "None"} and name in words), str)


class Call:
    """The function with what was given; it is imported when it is called."""

    def __init__(self, target: str, given: dict[str, Any], unset: frozenset[str]) -> None:
        self.target, self.given, self._unset = target, given, unset

    def __call__(self, only: str | None = None, **other: Any) -> Any:
        """Call it with what was given, or with `only` some of it; what is named here stands in its place."""
        module, _, name = self.target.partition(":")
        function = getattr(__import__(module, globals(), None, (name,), 0), name)
        known = parameters_of(self.target)
        values = {name: value for name, value in self.given.items() if only is None or name in only.split()} | other
        values = {name: value for name, value in values.items() if value is not None or name not in self._unset}
        first = []
        for item, about in known.items():
            if not about.is_positional or item not in values:
                break
            first.append(values.pop(item))
        return function(*first, **values)


def calls(
    target: str, *, leave: str = "", also: str = "", **differ: Option | str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb of what calls "module:function": where it says `call`, the function's own parameters stand.

    `leave` are parameters that the command line has not, `also` shared options of what the function passes on,
    and `differ` says where words, names or types differ: a text, or an `Option`.
    """
    known = {name: item for name, item in parameters_of(target).items() if name not in leave.split()}
    made: dict[str, inspect.Parameter] = {}
    python_names: dict[str, str] = {}
    for name in (*known, *also.split()):
        how = differ.pop(name, Option())
        how = Option(how) if isinstance(how, str) else how
        shown, item = how.name or name, known.get(name)
        default = how.default if how.default is not ... or item is None else item.default
        python_names[shown] = name
        if not (how.about or how.names or how.kind) and shown in SHARED:
            annotation = SHARED[shown]
            if item is None and how.default is ...:
                default = False if annotation.__origin__ is bool else None
        else:
            assert item is not None
            kind = how.kind or _kind(item.annotation)
            default = str(default) if kind is str and isinstance(default, int) else default
            how = how if how.about else Option(item.about, how.names, panel=how.panel, argument=how.argument,
                                               more=how.more)  # fmt: skip
            annotation = how.annotation(kind | None if default is None else kind)
        made[shown] = inspect.Parameter(
            shown, _ONLY, default=inspect.Parameter.empty if default is ... else default, annotation=annotation
        )
    assert not differ, f"{target} has no {', '.join(differ)}"
    unset = frozenset(also.split())
    anything = {shown for shown, name in python_names.items() if name in known and known[name].annotation == "Any"}

    def verb_of(function: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(function, eval_str=True).parameters

        def run(**options: Any) -> None:
            given = {
                python_names[name]: single_or_all(value) if name in anything and isinstance(value, list) else value
                for name, value in options.items()
                if name in made
            }
            function(call=Call(target, given, unset), **{n: value for n, value in options.items() if n in own})

        rows = [row for name, item in own.items() for row in (made.values() if name == "call" else [item])]
        run.__signature__ = inspect.Signature([row.replace(kind=_ONLY) for row in rows])  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
        vars(run).update(vars(function))
        return run

    return verb_of
