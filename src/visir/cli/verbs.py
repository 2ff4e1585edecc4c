"""A verb from a function, whose signature and docstring say everything; groups of verbs, and how their help looks.

A parameter is an option, or an argument where `argument` says so. Its type and its default stand in the signature; how
it is typed, where the name does not tell, in its annotation or in the shared table (`visir.cli.options.OPTIONS`); what
it means in `Args:` of the docstring, or in that table. With `calls` a verb has the parameters of the function that it
calls too, whose file is read and not imported, so that `--help` stays instant.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from visir.cli.options import OPTIONS, OUTPUT, VerbOption, argument, front, single_or_all
from visir.plugins import Verb, load_target
from visir.terminal import safe, trusted

if TYPE_CHECKING:
    from rich.text import Text

F = TypeVar("F", bound=Callable[..., Any])
_ROOT = Path(__file__).parents[1]
_QUOTED = re.compile(r'"([\w@:./+-]+)"')
"""A name that is typed as it is: without its quotes, unless another of them has a space."""
_ONLY = inspect.Parameter.KEYWORD_ONLY
_PRINTED = {"latex": (Path | None, None), "as_json": (bool, False), "quiet": (bool, False)}
"""What every verb has, and `--latex` if it reports: types and defaults."""


def examples(*lines: str) -> Callable[[F], F]:
    """Give a verb examples, which its help shows and a test reads with the verb's own parser."""

    def given(function: F) -> F:
        function.examples = lines  # type: ignore[attr-defined]
        return function

    return given


def worded(texts: Mapping[str, str]) -> Callable[[F], F]:
    """Give a verb what parameters mean from a table that others read too; its own `Args:` go before."""

    def given(function: F) -> F:
        function.texts = texts  # type: ignore[attr-defined]
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
    """The function as Typer takes it, with `--json`, `--quiet` and maybe `--latex`."""
    if getattr(function, "is_verb", False):
        return function
    if is_study(function):
        function = _study(function)
    made = getattr(function, "made", lambda item: item)(function)
    parameters = _parameters(made)
    is_quiet = getattr(function, "streams", False)
    added = [] if is_quiet else [name for name in _PRINTED if name != "latex" or getattr(function, "reports", False)]

    @functools.wraps(made)
    def run(**options: Any) -> Any:
        from visir.cli.output import printing

        if is_quiet:
            return made(**options)
        printed = {name: options.pop(name) for name in added}
        with printing(**printed, replace=options.get("replace", False)):
            return made(**options)

    parameters += [_shown(name, *_PRINTED[name]) for name in added]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    run.__doc__ = help_text(function.__doc__ or "", getattr(function, "examples", ()))
    run.is_verb = True  # type: ignore[attr-defined]
    return run


def is_study(function: Callable[..., Any]) -> bool:
    """Whether a function says that it returns a report (`visir.reports.StudyReport`): then it is a verb as it is."""
    returned = getattr(function, "__annotations__", {}).get("return", "")
    return (returned if isinstance(returned, str) else getattr(returned, "__name__", "")).endswith("StudyReport")


def _study(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns a report as a verb: what has no default is an argument; `--out` writes its folder."""
    from visir.errors import VisirError

    texts = _texts(inspect.getdoc(function) or "")
    own = {name: item for name, item in inspect.signature(function).parameters.items() if item.kind not in _ANY_NUMBER}
    if taken := own.keys() & {"out", "replace", *_PRINTED}:
        raise VisirError(
            f"{function.__name__}: the parameter {min(taken)!r} is one that every verb has.", hint="name it otherwise"
        )

    def run(out: Path | None = None, replace: bool = False, **given: Any) -> None:
        from visir.cli import output
        from visir.reports.report import REPORT, StudyReport
        from visir.storage import check_new_folder

        if out is not None:
            check_new_folder(out, REPORT, replace=replace)
        values = {name: single_or_all(value) if name in anything else value for name, value in given.items()}
        values = {name: value for name, value in values.items() if value is not None or name not in unset}
        first = [values.pop(name) for name, item in own.items() if item.kind is item.POSITIONAL_ONLY]
        described = function(*first, **values)
        if not isinstance(described, StudyReport):
            raise VisirError(f"{function.__name__} returned no StudyReport but a {type(described).__name__}.")
        output.finish(described, described.to_dict(), out)

    anything = {name for name, item in own.items() if _annotated(item) == "Any"}
    made: list[inspect.Parameter] = []
    unset: set[str] = set()
    for name, item in own.items():
        kind = _study_kind(_annotated(item))
        about = texts.get(name, "")
        if item.default is item.empty:
            how: Any = VerbOption(is_argument=True, more={"metavar": name.upper()})
            made.append(item.replace(kind=_ONLY, annotation=how.annotation(name, kind, about, ...)))
        else:
            how = OPTIONS.get(name, VerbOption())
            default = item.default
            if default is None or not _is_typed(default, kind):  # the function has its own, of a type of its own
                kind, default = kind | None, None
                unset.add(name)
            annotation = _as_option(how).annotation(name, kind, about, default)
            made.append(item.replace(kind=_ONLY, annotation=annotation, default=default))
    output_options = [
        _shown("out", Path | None, None, "Where to write: a new folder for the page, its tables and its data.")
    ]
    output_options.append(_shown("replace", bool, False))
    run.__signature__ = inspect.Signature([*made, *output_options])  # type: ignore[attr-defined]
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
    vars(run).update({**vars(function), "reports": True})
    return run


def _annotated(item: inspect.Parameter) -> str:
    """The annotation of a parameter, as its file has it."""
    named = item.annotation
    if isinstance(named, type) and not get_args(named):
        return "" if named is item.empty else named.__name__
    return named if isinstance(named, str) else inspect.formatannotation(named)


_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _study_kind(annotation: str) -> Any:
    """The type of a parameter of a report's function, as a command line takes it; of lists of numbers too."""
    words = [word for word in re.findall(r"\w+", annotation) if word not in ("None", "Optional", "typing")]
    lists: dict[str, Any] = {"int": list[int], "float": list[float], "Path": list[Path]}
    if len(words) == 2 and words[0] in ("list", "Sequence", "Iterable") and words[1] in lists:
        return lists[words[1]]
    return _kind(" ".join(words) if "Optional" in annotation else annotation)


def _is_typed(default: Any, kind: Any) -> bool:
    """Whether a default is what the command line would make of it."""
    if of := get_args(kind):
        return isinstance(default, list) and all(isinstance(item, of[0]) for item in default)
    return isinstance(default, kind) and (kind is bool or not isinstance(default, bool))


def _as_option(how: VerbOption) -> VerbOption:
    """What is an argument of other verbs is an option of one that has a default for it."""
    return replace(how, is_argument=False, more={}) if how.is_argument else how


def help_text(doc: str, lines: Sequence[str]) -> str:
    """A docstring as the help of a verb: the first paragraph, the examples, the rest; each paragraph is one line."""
    about = inspect.cleandoc(doc).partition("\n\nArgs:\n")[0]
    paragraphs = [" ".join(item.split()) for item in about.split("\n\n")]
    shown = ["\n".join(f"$ {item}" for item in lines)] if lines else []
    return "\n\n".join([paragraphs[0], *shown, *paragraphs[1:]])


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function as Typer takes them."""
    texts = {**getattr(function, "texts", {}), **_texts(inspect.getdoc(function) or "", whole=True)}
    own = inspect.signature(function, eval_str=True).parameters
    if not function.__module__.startswith("visir."):  # a verb of another package says everything in Typer's way
        return [item.replace(kind=_ONLY) for item in own.values()]
    return [_shown(name, item.annotation, item.default, texts.get(name, "")) for name, item in own.items()]


def _shown(name: str, annotation: Any, default: Any, about: str = "") -> inspect.Parameter:
    """A parameter with what its annotation or the shared table says; an annotation for Typer stays as it is."""
    kind, *more = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    how = next((item for item in more if isinstance(item, VerbOption)), None)
    if how is not None:
        annotation = how.annotation(name, kind, about, default)
    elif not more and getattr(kind, "__name__", "") != "Context":
        annotation = _by_name(name, kind, about, default is False)
    return inspect.Parameter(name, _ONLY, default=default, annotation=annotation)


@cache
def _by_name(name: str, kind: Any, about: str, is_off: bool) -> Any:
    """What Typer wants to know of a parameter that its name tells; most verbs have some of the same."""
    return OPTIONS.get(name, VerbOption()).annotation(name, kind, about, False if is_off else None)


# What a function says of its parameters, read from its file.


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


def _texts(doc: str, whole: bool = False) -> dict[str, str]:
    """What `Args:` says of each argument: its first sentence, names without quotes; or the whole, as a verb says it."""
    texts: dict[str, str] = {}
    name = ""
    for line in doc.partition("\nArgs:\n")[2].split("\n"):
        if line and not line.startswith("    "):
            break  # the next section
        if line[4:5].strip():
            name, _, text = line[4:].partition(": ")
            texts[name] = text
        elif line:
            texts[name] += f" {line.strip()}"
    return texts if whole else {name: _first(text) for name, text in texts.items()}


def _first(text: str) -> str:
    """The first sentence, and behind it what is the default."""
    first, *more = re.split(r"(?<=\.) ", text.replace("`", ""), maxsplit=2)
    first = " ".join([first, *(item for item in more[:1] if item.startswith("Default: "))])
    return first if re.search(r'"\w+ \w+"', first) else _QUOTED.sub(r"\1", first)


def _kind(annotation: str) -> Any:
    """The type as a command line takes it: a switch, a number, several texts, or a text."""
    words = set(re.findall(r"\w+", annotation))
    if words & {"Sequence", "Iterable", "list", "tuple"}:
        return list[str]
    if words & {"Path", "PathLike"} and words <= {"Path", "PathLike", "str", "None"}:
        return Path  # what takes other things too is named by a text: "generated:2000", "s3://bucket/shop.csv"
    number: dict[str, Any] = {"bool": bool, "int": int, "float": float}
    return next((kind for name, kind in number.items() if words <= {name, "None"} and name in words), str)


# A verb that calls a function of visir.


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

    def study(
        self, report: Callable[[Any], Any], kind: Any, out: Path | None, replace: bool = False, **other: Any
    ) -> None:
        """Call it for a record that has a report: see before that its folder may be written, write it, print it."""
        from visir.cli import output
        from visir.storage import check_new_folder

        if out is not None:
            check_new_folder(out, kind, replace=replace)
        record = self(**other)
        output.finish(report(record), record.to_dict(), out)


def calls(target: str, *, leave: str = "", also: str = "", **differ: VerbOption) -> Callable[[F], F]:
    """Make a verb of what calls "module:function": where it says `call`, the function's own parameters stand.

    `leave` are parameters that the command line has not, `also` shared options of what the function passes on,
    and `differ` says where names or types differ. The verb's `Args:` say what differs in words.
    """

    def made(function: Callable[..., None]) -> Callable[..., None]:
        known = {name: item for name, item in parameters_of(target).items() if name not in leave.split()}
        assert differ.keys() <= known.keys(), f"{target} has no {', '.join(differ.keys() - known.keys())}"
        python_names = {differ[name].name or name if name in differ else name: name for name in (*known, *also.split())}
        unset = frozenset(also.split())
        anything = {shown for shown, name in python_names.items() if name in known and known[name].annotation == "Any"}
        texts = _texts(inspect.getdoc(function) or "", whole=True)

        def run(**options: Any) -> None:
            given = {
                name: single_or_all(value) if shown in anything and isinstance(value, list) else value
                for shown, name in python_names.items()
                for value in [options.pop(shown)]
            }
            function(call=Call(target, given, unset), **options)

        rows = [
            _made(shown, known.get(name), differ.get(name), texts.get(shown, ""))
            for shown, name in python_names.items()
        ]
        return _with_options(function, run, "call", rows)

    return _later(made)


def _later(made: Callable[..., Any]) -> Callable[[F], F]:
    """Note how a verb is made of a function: that waits until somebody looks at the verb."""

    def noted(function: F) -> F:
        function.made = made  # type: ignore[attr-defined]
        return function

    return noted


def _made(name: str, item: _Parameter | None, how: VerbOption | None, about: str) -> inspect.Parameter:
    """A parameter of the function as an option; `item` is None where it is a shared option of what it passes on."""
    used = own = how or VerbOption()
    if not (own.is_argument or own.names):
        used = OPTIONS.get(name, VerbOption())
        if own.kind or own.more:
            used = replace(used, kind=own.kind or used.kind, more={**used.more, **own.more})
    kind = used.kind or (_kind(item.annotation) if item is not None else str)
    default: Any = own.default
    if default is ...:
        default = item.default if item is not None else False if kind is bool else None
    default = str(default) if kind is str and isinstance(default, int) else default
    words = about or own.about or used.about or (item.about if item is not None else "")
    annotation = used.annotation(name, kind | None if default is None else kind, words, default)
    default = inspect.Parameter.empty if default is ... else default
    return inspect.Parameter(name, _ONLY, default=default, annotation=annotation)


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


def serves(**defaults: Any) -> Callable[[F], F]:
    """Make a verb that serves: where it says `front`, the options of every service stand, with these defaults."""

    def made(function: Callable[..., None]) -> Callable[..., None]:
        rows = [item.replace(default=defaults.get(item.name, item.default)) for item in _parameters(front)]

        def run(**options: Any) -> None:
            function(front=front(**{item.name: options.pop(item.name) for item in rows}), **options)

        return _with_options(function, run, "front", rows)

    return _later(made)


# A heading between lines of text.


def heading(text: str) -> None:
    """Print a line in bold, where the output is a terminal."""
    typer.secho(safe(text), file=trusted(sys.stdout), bold=True)


# The names of verbs: in which order and under which heading they are listed, and what is said to an unknown one.

GROUPS = {
    "find": "Find",
    "measure": "Measure",
    "train": "Train",
    "analyse": "Research",
    "shop": "Shops",
    "applications": "More",
    "set-up": "Set up and look around",
}
"""The groups of verbs in their order, with their headings."""

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
The command for a purpose:                     visir help photos
"""

SHELVES = {
    "research": (
        GROUPS["analyse"],
        "Vectors and indexes, classes, probes, captions, shortcuts, sparse heads.",
    ),
    "shop": (GROUPS["shop"], "Catalogues, and logs of visits."),
}
"""Groups that `visir --help` lists as one line, `visir NAME` as a whole: their headings, and what they are for.

`visir research classify` and `visir classify` are the same.
"""


FORMER = {
    "library search": "search",
    "serve": "library serve",
    "token": "library token",
    "categories": "products",
    "intent": "sessions",
    "study": "papers",
}
"""Earlier spellings of commands, which are listed nowhere and still work → the command."""
FORMER_OPTIONS = {"force": "replace"}
"""Earlier spellings of options, which work in every command that has the option."""


class Commands(Mapping[str, Any]):
    """Commands by name: each is imported, and built with all its options, when somebody looks at it."""

    def __init__(self, verbs: Mapping[str, Any]) -> None:
        self.verbs = verbs
        """A function, a `typer.Typer`, or a `visir.plugins.Verb` that names one of the two."""
        self._built: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.verbs)

    def __len__(self) -> int:
        return len(self.verbs)

    def __contains__(self, name: object) -> bool:
        return name in self.verbs

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _command(name, self.target(name), self.heading(name))
        return self._built[name]

    def target(self, name: str) -> Any:
        """The function, or the group."""
        held = self.verbs[name]
        return load_target(held.target) if isinstance(held, Verb) else held

    def heading(self, name: str) -> str | None:
        """The heading under which a verb stands."""
        held = self.verbs[name]
        return GROUPS[held.group] if isinstance(held, Verb) else None

    def about(self, name: str) -> str:
        """What a verb does, in a line; its options are not looked at."""
        target = self.target(name)
        about = self[name].help if isinstance(target, typer.Typer) else help_text(target.__doc__ or "", ())
        return str(about or "").partition("\n\n")[0]

    def only(self, heading: str) -> Commands:
        """Those under a heading."""
        return Commands({name: held for name, held in self.verbs.items() if self.heading(name) == heading})


def _command(name: str, target: Any, heading: str | None) -> Any:
    """What the parser takes: a group, or a verb with its options."""
    made: Any
    if isinstance(target, typer.Typer):
        made = typer.main.get_group(prepare(target))
    else:
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name, cls=VerbCommand)(verb(target))
        made = typer.main.get_command(alone)
    made.name, made.rich_help_panel = name, heading
    return made


class VerbGroup(TyperGroup):
    """Verbs in their order; an unknown one is answered with the nearest."""

    verbs: Mapping[str, Any] = {}
    """Of a group that `group` made: what `Commands` takes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if self.verbs:
            self.commands: Any = Commands(self.verbs)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, without a look at what they call."""
        return [*self.commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command of this group; by an earlier name one from anywhere."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        path, above = [cmd_name], ctx
        while above.parent is not None:
            path, above = [above.info_name, *path], above.parent
        command: Any = above.command
        for name in FORMER.get(" ".join(path), "").split():
            command = command.commands.get(name) if command is not None else None
        return None if command is above.command else command

    def listed(self) -> dict[str, list[tuple[str, str]]]:
        """Heading → the names that the help lists, each with what it does."""
        return {"Commands": [(name, _line(self.commands, name)) for name in self.commands]}

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The names that begin so: no verb is built for it."""
        from typer._click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=_line(self.commands, name)) for name in names]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: commands under their headings."""
        print_help(self, ctx, self.listed())

    def meant(self, name: str, ctx: Any) -> str:
        """What somebody may have meant who typed an unknown name: a command line, or ""."""
        from difflib import get_close_matches

        close = get_close_matches(name, self.list_commands(ctx), n=1, cutoff=0.5)
        called = ctx.command_path.replace("python -m ", "")
        return _deeper(ctx.find_root().command, name) or (f"{called} {close[0]}" if close else "")

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb that is named. A place in its stead is answered with what can be done with a place."""
        from visir.errors import ConfigurationError

        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            name, called = args[0], ctx.command_path.replace("python -m ", "")
            if Path(name).exists() or "/" in name:
                raise ConfigurationError(f"{name!r} is a place, not a command.", hint=_for_place(name))
            meant = self.meant(name, ctx)
            hint = f"did you mean: {meant}? All commands: {called} --help" if meant else f"{called} --help lists them"
            raise ConfigurationError(f"there is no command {called} {name}.", hint=hint)
        return super().resolve_command(ctx, args)


class FirstGroup(VerbGroup):
    """`visir` itself: its verbs stand under headings, and some of them on shelves."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs, heading by heading, then the shelves."""
        return [*self.commands, *SHELVES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb, or a group of those that stand here."""
        if cmd_name in self.commands or cmd_name not in SHELVES:
            return super().get_command(ctx, cmd_name)
        title, about = SHELVES[cmd_name]
        return VerbGroup(name=cmd_name, commands=self.commands.only(title), help=about, no_args_is_help=True)

    def listed(self) -> dict[str, list[tuple[str, str]]]:
        """The verbs under their headings, a shelf in place of its verbs; the last line tells of `help` and `demo`."""
        shelves = {title: name for name, (title, _) in SHELVES.items()}
        rows: dict[str, list[tuple[str, str]]] = {}
        for name in self.commands:
            heading = self.commands.heading(name)
            if heading in shelves:
                line = (shelves[heading], SHELVES[shelves[heading]][1])
                if line not in rows.setdefault(GROUPS["applications"], []):
                    rows[GROUPS["applications"]].append(line)
            elif name not in ("help", "demo"):
                rows.setdefault(heading, []).append((name, self.commands.about(name)))
        return rows

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, and how a command is found that it does not list."""
        super().format_help(ctx, formatter)
        typer.echo("Everything once: visir demo. The command for a purpose: visir help WORD")

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb that is named; one of a package that is not installed is answered with its name."""
        from visir.errors import ConfigurationError

        if args and args[0] in APART and args[0] not in self.commands:
            raise ConfigurationError(
                f"visir {args[0]} is a package of its own.",
                hint=f"pip install {APART[args[0]]}",
                code="package-of-its-own",
            )
        return super().resolve_command(ctx, args)


def _line(commands: Mapping[str, Any], name: str) -> str:
    """What a command does; `commands` may be those of a group that another package made."""
    if isinstance(commands, Commands):
        return commands.about(name) if name in commands else SHELVES[name][1]
    return (commands[name].help or "").partition("\n\n")[0]


def every_verb(command: Any, path: str = "visir") -> Iterator[tuple[str, Any]]:
    """Every verb below a command, by the line that calls it."""
    for name, below in getattr(command, "commands", {}).items():
        yield f"{path} {name}", below
        yield from every_verb(below, f"{path} {name}")


@examples("visir help prices", "visir help --json nearest neighbours")
def find_verbs(context: typer.Context, words: Annotated[list[str], argument("WORD…")]) -> None:
    """Find the command for a purpose.

    Lists the commands in whose name, help or options all these words stand, or words for the same; those that have them
    in their name first. Where no command has all words, those that have most of them.

    Args:
        words: Any words: a purpose (photos), an option (rerank), a part of a name.
    """
    from visir.cli import output
    from visir.errors import ConfigurationError

    wanted = {word for text in words for word in _words_of(text)}
    wanted = wanted - _SMALL or wanted
    matching: list[tuple[int, int, str, str]] = []
    for path, command in every_verb(context.find_root().command):
        about, _, more = (command.help or "").partition("\n\n")
        options = " ".join(f"{' '.join(item.opts)} {getattr(item, 'help', '') or ''}" for item in command.params)
        purposes = f"{path} {PURPOSES.get(path.removeprefix('visir '), '')}"
        texts = (path, purposes, f"{purposes} {about}", f"{purposes} {about} {more} {options}")
        missing = [_missing(wanted, text) for text in texts]
        matching.append((missing[-1], missing.index(missing[-1]), path, about))
    fewest = min(missing for missing, *_ in matching)
    if fewest == len(wanted):
        raise ConfigurationError(f"no command has {' and '.join(words)} in its help.", hint="visir --help lists them")
    best = sorted((entry for entry in matching if entry[0] == fewest), key=itemgetter(1))
    if fewest:
        output.note(f"no command has all of: {' '.join(words)}; these have most")
    output.answer([{"command": path, "about": about} for *_, path, about in best])
    for *_, path, about in best[:_MATCHING]:
        output.line(f"{path}: {about}")
    if len(best) > _MATCHING:
        output.note(f"… and {len(best) - _MATCHING} more; another word finds fewer")


def _missing(wanted: set[str], text: str) -> int:
    """How many words stand nowhere in a text, at the beginning of a word."""
    there = _words_of(text)
    return sum(not any(word.startswith(typed.rstrip("s")) for word in there) for typed in wanted)


def _words_of(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


_SMALL = _words_of(
    "a an and are at by can do find for from how i in is it me my of on or our the to want what which with"
)
PURPOSES = {
    "search": "find photos pictures similar text-to-image",
    "library make": "album gallery phone folder index photos screenshots",
    "library serve": "server website web page docker api http browser phone",
    "library duplicates": "copies twins same photos delete",
    "evaluate": "benchmark score accuracy recall map ndcg mrr rsum test",
    "compare": "significance significant p-value confidence interval bootstrap t-test difference better ranx",
    "explain": "reproduce replication protocol paper mismatch",
    "stress": "robustness robust noise blur typos brittleness corruptions perturbations rotation jpeg",
    "report": "page html pdf notebook jupyter latex table open show results",
    "publish": "leaderboard ranking website github pages share site static",
    "train": "fine-tune finetune learn lora adapter gpu objective loss",
    "encode": "embeddings vectors features gpu many machines",
    "classify": "tags labels zero-shot few-shot categories",
    "models": "huggingface hub clip siglip download",
    "doctor": "gpu cuda plugin install speed latency packages broken",
    "demo": "tutorial example first begin start",
    "index build": "faiss hnsw ann approximate nearest neighbours qdrant milvus postgresql pgvector",
    "sparsify": "splade sparse words interpretable",
    "sessions ab-test": "a/b experiment conversion online",
    "sessions predict": "purchase intent conversion buy",
    "sessions train": "purchase intent conversion buy model",
    "sessions make": "log clickstream events visits basket",
    "products search": "shop catalogue buy barcode",
    "products infer": "landing pages categories recommend",
}
"""What else people call the purpose of a verb."""
_MATCHING = 12


def _deeper(root: Any, name: str) -> str:
    """The same name somewhere else: "library make" for "make"."""
    if name in root.commands:
        return f"visir {name}"
    groups = ((first, getattr(command, "commands", {})) for first, command in root.commands.items())
    return next((f"visir {first} {name}" for first, below in groups if name in below), "")


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
_OPTIONS = "Options"


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
    first, *others = [part for part in (command.help or "").split("\n\n") if part] or [""]
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
    panels: dict[str, list[Any]] = {"Arguments": [], _OPTIONS: []}
    for item in parameters:
        if getattr(item, "hidden", False):
            continue
        own = "Arguments" if item.param_type_name == "argument" else _OPTIONS
        is_help = "--help" in item.opts or item.name in ("install_completion", "show_completion")
        panels.setdefault(OUTPUT if is_help else getattr(item, "rich_help_panel", None) or own, []).append(item)
    printed = panels.pop(OUTPUT, [])
    heading = OUTPUT if any(panels.values()) else _OPTIONS
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


def group(name: str, about: str, verbs: Mapping[str, Any], kind: type[VerbGroup] = VerbGroup) -> typer.Typer:
    """A group of verbs: `visir NAME VERB`. A verb is a function, another group, or a `visir.plugins.Verb`."""
    made = typer.Typer(
        name=name, help=about, cls=type(kind.__name__, (kind,), {"verbs": verbs}), no_args_is_help=True,
        pretty_exceptions_enable=False, context_settings={
            "help_option_names": ["-h", "--help"],
            "token_normalize_func": lambda name: FORMER_OPTIONS.get(name, name),
        },
    )  # fmt: skip
    made.callback(help=about)(_nothing)
    return made


def _nothing() -> None:
    """Nothing is done by the name of a group alone."""


def prepare(target: typer.Typer) -> typer.Typer:
    """A group, also one of another package that says everything in Typer's way, with verbs of visir's kind."""
    if isinstance(target.info.cls, type) and issubclass(target.info.cls, VerbGroup):
        return target
    for command in target.registered_commands:
        if command.callback is not None:
            command.callback, command.cls = verb(command.callback), VerbCommand
    if not target.registered_callback or not isinstance(target.info.cls, type) or target.info.cls is TyperGroup:
        target.info.cls = VerbGroup
    for below in target.registered_groups:
        if below.typer_instance is not None:
            prepare(below.typer_instance)
    return target
