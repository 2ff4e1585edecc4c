"""How a function becomes a verb: its options, `--json` and `--quiet`, examples in the help, groups of verbs."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from visir.cli.options import FRONT, SHARED, single_or_all
from visir.terminal import safe, trusted

if TYPE_CHECKING:
    from rich.text import Text


# A heading between lines of text.


def heading(text: str) -> None:
    """Print a line in bold, where the output is a terminal."""
    typer.secho(safe(text), file=trusted(sys.stdout), bold=True)


# The names of verbs: in which order and under which heading they are listed, and what is said to an unknown one.

GROUPS = {
    "find": "Find",
    "measure": "Measure",
    "train": "Train",
    "analyse": "Analyse",
    "applications": "Applications",
    "set-up": "Set up and look around",
}
"""The groups of `visir --help` in their order, with their headings."""

APART = {"papers": "visir-papers"}
"""Verbs of distributions of their own → how pip calls them."""

FIRST_PAGE = """visir {version}: image-text search and its measurement.

Three commands to begin with:

  visir demo                                   see everything once
  visir library make ~/Photos --model MODEL    make your photos searchable
  visir evaluate COLLECTION --model MODEL      measure a model

Which models there are:                        visir models
What is installed, which models work here:     visir doctor
All commands:                                  visir --help
Help for one of them:                          visir evaluate --help
"""


class VerbGroup(TyperGroup):
    """Verbs in the order in which they were registered; an unknown one is answered with the nearest."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names: group by group, in the order of registration."""
        headings = list(GROUPS.values())
        known = dict.fromkeys(self.commands)

        def place(name: str) -> int:
            heading = getattr(self.commands[name], "rich_help_panel", None)
            return headings.index(heading) if heading in headings else len(headings)

        return sorted(known, key=place)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: commands under their headings."""

        listed: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            listed.setdefault(heading, []).append((name, (command.help or "").partition("\n\n")[0]))
        print_help(self, ctx, listed)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb that is named. A place in its stead is answered with what can be done with a place."""
        from difflib import get_close_matches

        from visir.errors import ConfigurationError

        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            name, called = args[0], ctx.command_path.replace("python -m ", "")
            if name in APART and ctx.parent is None:
                raise ConfigurationError(
                    f"visir {name} is a package of its own.",
                    hint=f"pip install {APART[name]}",
                    code="package-of-its-own",
                )
            if Path(name).exists() or "/" in name:
                raise ConfigurationError(f"{name!r} is a place, not a command.", hint=_for_place(name))
            close = get_close_matches(name, self.list_commands(ctx), n=1, cutoff=0.5)
            meant = _deeper(ctx.find_root().command, name) or (f"{called} {close[0]}" if close else "")
            hint = f"did you mean: {meant}? All commands: {called} --help" if meant else f"{called} --help lists them"
            raise ConfigurationError(f"there is no command {called} {name}.", hint=hint)
        return super().resolve_command(ctx, args)


def _deeper(root: Any, name: str) -> str:
    """The same name somewhere else: "library make" for "make"."""
    for first, command in root.commands.items():
        if name == first:
            return f"visir {first}"
        if name in getattr(command, "commands", {}):
            return f"visir {first} {name}"
    return ""


def _for_place(name: str) -> str:
    place = name if " " not in name else f"'{name}'"
    return (
        f"visir search {place} 'a dog' --model MODEL searches it once; visir library make {place} --model MODEL makes "
        f"it searchable for good; visir data inspect {place} says what it holds"
    )


# How help looks: what a command does, examples, and its options in two columns that fit a narrow terminal.

_LEFT = 28
"""Columns of the names; a longer name has a line of its own."""
_WIDEST = 110
"""Longer lines are hard to read."""
OPTIONS, OUTPUT = "Options", "Output"


class VerbCommand(TyperCommand):
    """A verb with visir's help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        print_help(self, ctx)


def print_help(command: Any, context: Any, commands: dict[str, list[tuple[str, str]]] | None = None) -> None:
    """Print what a command does, how it is called, and its options."""
    from rich.text import Text

    from visir.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, _WIDEST)
    first, *others = [part for part in (command.help or "").split("\n\n") if part]
    console.print(Text(f"\n{first}\n", style="bold"))
    usage = [context.command_path.replace("python -m ", "")]
    if commands is not None:
        usage.append("COMMAND …")
    else:
        listed = command.get_params(context)
        usage += [*(_argument(item) for item in listed if item.param_type_name == "argument"), "[OPTIONS]"]
    console.print(Text(f"Usage: {' '.join(usage)}"))
    for part in others:
        console.print()
        if part.startswith("$ "):
            console.print(Text("Examples:", style="bold"))
            console.print(Text("\n".join(f"  {line}" for line in part.split("\n"))), soft_wrap=True)
        else:
            for line in Text(part).wrap(console, console.width - 1):
                line.rstrip()
                console.print(line, soft_wrap=True)
    commands = commands or {}
    for heading, rows in commands.items():
        widest = 4 + max(len(name) for below in commands.values() for name, _ in below)
        _section(console, heading, [(Text(name, style="cyan"), Text(about)) for name, about in rows], widest)
    for heading, parameters in _panels(command.get_params(context)):
        _section(console, heading, [(_names(item), _about(item)) for item in parameters])
    console.print()


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    if not name.endswith(("…", "...")) and parameter.nargs == -1:
        name += "…"
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _panels(parameters: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """The headings with their options: arguments, what has no heading, headings as they come, what is printed."""
    panels: dict[str, list[Any]] = {"Arguments": [], OPTIONS: []}
    for item in parameters:
        if getattr(item, "hidden", False):
            continue
        own = "Arguments" if item.param_type_name == "argument" else OPTIONS
        is_help = "--help" in item.opts or item.name in ("install_completion", "show_completion")
        panels.setdefault(OUTPUT if is_help else getattr(item, "rich_help_panel", None) or own, []).append(item)
    printed = panels.pop(OUTPUT, [])
    heading = OUTPUT if any(panels.values()) else OPTIONS
    yield from ((name, listed) for name, listed in [*panels.items(), (heading, printed)] if listed)


def _names(parameter: Any) -> Text:
    from rich.text import Text

    if parameter.param_type_name == "argument":
        return Text(_argument(parameter), style="cyan")
    short = [name for name in parameter.opts if not name.startswith("--")]
    long = [name for name in parameter.opts if name.startswith("--")]
    shown = ", ".join([*short, *long])
    if parameter.secondary_opts:
        shown += " / " + ", ".join(parameter.secondary_opts)
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper().replace('_', '-')}"
    return Text(("" if short else "    ") + shown, style="cyan").append(value, style="not bold dim")


def _about(parameter: Any) -> Text:
    from rich.text import Text

    text = Text(" ".join((getattr(parameter, "help", None) or "").split()))
    default = parameter.default
    shown = getattr(parameter, "show_default", True)
    if parameter.required and parameter.param_type_name != "argument":
        text.append(" (required)", style="dim")
    elif shown and not callable(default) and default not in (None, False, True, "", (), []):
        text.append(f" (default: {default})", style="dim")
    return text


def _section(console: Any, heading: str, rows: Iterable[tuple[Text, Text]], width: int = _LEFT) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(f"\n{heading}:", style="bold"))
    for left, right in rows:
        lines = right.wrap(console, max(console.width - width - 2, 30))
        if left.cell_len > width - 2:
            console.print(Text("  ").append(left))
            lead: Iterator[Text] = iter(())
        else:
            lead = iter([Text("  ").append(left)])
        for item in lines:
            start = next(lead, Text(""))
            start.pad_right(width + 2 - start.cell_len)
            item.rstrip()
            console.print(start.append(item), soft_wrap=True)
        for start in lead:
            console.print(Padding(start, 0))


F = TypeVar("F", bound=Callable[..., Any])

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, and nothing else.", rich_help_panel="Output")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, and no notes beside the result.", rich_help_panel="Output")
]
LatexOption = Annotated[
    Path | None,
    typer.Option("--latex", metavar="FILE", help="Write the tables as LaTeX too: FILE.tex.", rich_help_panel="Output"),
]
_LATEX = inspect.Parameter("latex", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=LatexOption)
_PRINTED = {
    "as_json": inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
    "quiet": inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=QuietOption),
}


def examples(*lines: str) -> Callable[[F], F]:
    """Give a verb examples, which its help shows and a test reads with the verb's own parser."""

    def given(function: F) -> F:
        function.examples = lines  # type: ignore[attr-defined]
        return function

    return given


def streams(function: F) -> F:
    """Mark a verb that prints while it runs, or runs other verbs: it has no `--json` and no `--quiet`."""
    function.streams = True  # type: ignore[attr-defined]
    return function


def reports(function: F) -> F:
    """Mark a verb whose tables a paper may want: it has `--latex`."""
    function.reports = True  # type: ignore[attr-defined]
    return function


def verb(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with `--json`, `--quiet` and maybe `--latex`, and with a help that fits the terminal's width."""
    if getattr(function, "is_verb", False):
        return function
    own = inspect.signature(function, eval_str=True).parameters

    @functools.wraps(function)
    def run(**options: Any) -> Any:
        from visir.cli.output import printing

        if getattr(function, "streams", False):
            return function(**options)
        latex = {"latex": options.pop("latex"), "replace": options.get("replace", False)} if "latex" in added else {}
        with printing(options.pop("as_json"), options.pop("quiet"), **latex):
            return function(**options)

    added = {} if getattr(function, "streams", False) else {n: item for n, item in _PRINTED.items() if n not in own}
    if getattr(function, "reports", False):
        added = {"latex": _LATEX} | added
    parameters = {name: item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, item in own.items()} | added
    run.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {name: item.annotation for name, item in parameters.items()}
    run.__doc__ = help_text(function.__doc__ or "", getattr(function, "examples", ()))
    run.is_verb = True  # type: ignore[attr-defined]
    return run


def help_text(doc: str, lines: Sequence[str]) -> str:
    """A docstring as the help of a verb: the first paragraph, the examples, the rest; each paragraph is one line."""
    paragraphs = [" ".join(item.split()) for item in inspect.cleandoc(doc).split("\n\n")]
    shown = ["\n".join(f"$ {item}" for item in lines)] if lines else []
    return "\n\n".join([paragraphs[0], *shown, *paragraphs[1:]])


def group(name: str, about: str, verbs: dict[str, Callable[..., Any]]) -> typer.Typer:
    """A group of verbs: `visir NAME VERB`."""

    made = typer.Typer(name=name, help=about, cls=VerbGroup, no_args_is_help=True)
    made.callback(help=about)(_nothing)
    for verb_name, function in verbs.items():
        made.command(verb_name, cls=VerbCommand)(verb(function))
    return made


def _nothing() -> None:
    """Nothing is done by the name of a group alone."""


def prepare(target: typer.Typer) -> typer.Typer:
    """Make verbs of all functions of a group, also of one from another package."""
    from typer.core import TyperGroup

    for command in target.registered_commands:
        if command.callback is not None:
            command.callback, command.cls = verb(command.callback), VerbCommand
    if not target.registered_callback or not isinstance(target.info.cls, type) or target.info.cls is TyperGroup:
        target.info.cls = VerbGroup
    for below in target.registered_groups:
        if below.typer_instance is not None:
            prepare(below.typer_instance)
    return target


# A verb from a function: options, types, defaults and texts come from its signature and its `Args:`. Its file is read,
# not imported, so `--help` stays instant; it is imported when the verb runs.

_ROOT = Path(__file__).parents[1]
_ONLY = inspect.Parameter.KEYWORD_ONLY


@dataclass(frozen=True)
class VerbOption:
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
           **more: Any) -> VerbOption:  # fmt: skip
    """An option whose words, names or type differ from the function's."""
    return VerbOption(about, names, to, kind, default, panel=panel, more=more)


def argument(metavar: str, about: str, *, to: str = "", kind: Any = None, **more: Any) -> VerbOption:
    """A parameter without a name."""
    return VerbOption(about, name=to, kind=kind, argument=True, more={"metavar": metavar, "show_default": False} | more)


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
    if words & {"Path", "PathLike"} and words <= {"Path", "PathLike", "str", "None"}:
        return Path  # what takes other things too is named by a text: "generated:2000", "s3://bucket/shop.csv"
    number: dict[str, Any] = {"bool": bool, "int": int, "float": float}
    return next((kind for name, kind in number.items() if words <= {name, "None"} and name in words), str)


class Call:
    """The function with what was given; it is imported when it is called."""

    def __init__(self, target: str, given: dict[str, Any], unset: frozenset[str]) -> None:
        self.target, self.given, self._unset = target, given, unset

    def __call__(self, only: str | None = None, /, *before: Any, **other: Any) -> Any:
        """Call it with what was given, or with `only` some of it; what is named here stands in its place.

        `before` are arguments of a function that takes any number of them.
        """
        module, _, name = self.target.partition(":")
        function = getattr(__import__(module, globals(), None, (name,), 0), name)
        known = parameters_of(self.target)
        values = {name: value for name, value in self.given.items() if only is None or name in only.split()} | other
        values = {name: value for name, value in values.items() if value is not None or name not in self._unset}
        first = [*before]
        for item, about in known.items():
            if not about.is_positional or item not in values:
                break
            first.append(values.pop(item))
        return function(*first, **values)


def calls(
    target: str, *, leave: str = "", also: str = "", **differ: VerbOption | str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb of what calls "module:function": where it says `call`, the function's own parameters stand.

    `leave` are parameters that the command line has not, `also` shared options of what the function passes on,
    and `differ` says where words, names or types differ: a text, or an `VerbOption`.
    """
    known = {name: item for name, item in parameters_of(target).items() if name not in leave.split()}
    made: dict[str, inspect.Parameter] = {}
    python_names: dict[str, str] = {}
    for name in (*known, *also.split()):
        how = differ.pop(name, VerbOption())
        how = VerbOption(how) if isinstance(how, str) else how
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
            how = how if how.about else VerbOption(item.about, how.names, panel=how.panel, argument=how.argument,
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

        return _with_options(function, run, "call", made.values())

    return verb_of


def _with_options(
    function: Callable[..., None], run: Callable[..., None], place: str, made: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """`run` as the verb that `function` is, with the options that stand in the place of one of its parameters."""
    own = inspect.signature(function, eval_str=True).parameters
    rows = [row for name, item in own.items() for row in (made if name == place else [item])]
    run.__signature__ = inspect.Signature([row.replace(kind=_ONLY) for row in rows])  # type: ignore[attr-defined]
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
    vars(run).update(vars(function))
    return run


def serves(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb that serves: where it says `front`, the options of every service stand, with these defaults.

    It gets them by the names of `visir.serving.settings.FrontSettings`, beside host, port, open_to_all and log_form.
    """
    made = [
        inspect.Parameter(name, _ONLY, default=defaults.get(name, default), annotation=kind)
        for name, (kind, default) in FRONT.items()
    ]

    def verb_of(function: Callable[..., None]) -> Callable[..., None]:
        def run(**options: Any) -> None:
            front = {name: options.pop(name) for name in FRONT}
            front["hosts"], front["origins"] = (tuple(front.pop(f"allow_{name}") or ()) for name in ("host", "origin"))
            front["body"] = int(front.pop("max_body") * 2**20)
            function(front=front, **options)

        return _with_options(function, run, "front", made)

    return verb_of
