"""A verb from a function: its signature and its docstring say everything.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from visir.cli.options import OPTIONS, VerbOption, front, single_or_all

F = TypeVar("F", bound=Callable[..., Any])
_ROOT = Path(__file__).parents[1]
_FIRST = re.compile(r"(?:.*?\.(?= |$)(?: Default: .*?\.(?= |$))?|.*)")
"""The first sentence of a text, and behind it what is the default."""
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
    parameters = _parameters(function)
    is_quiet = getattr(function, "streams", False)
    added = [] if is_quiet else [name for name in _PRINTED if name != "latex" or getattr(function, "reports", False)]

    @functools.wraps(function)
    def run(**options: Any) -> Any:
        from visir.cli.output import printing

        if is_quiet:
            return function(**options)
        printed = {name: options.pop(name) for name in added}
        with printing(**printed, replace=options.get("replace", False)):
            return function(**options)

    parameters += [_shown(name, *_PRINTED[name]) for name in added]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    run.__doc__ = help_text(function.__doc__ or "", getattr(function, "examples", ()))
    run.is_verb = True  # type: ignore[attr-defined]
    return run


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
    if how is not None or (not more and getattr(kind, "__name__", "") != "Context"):
        annotation = (how or OPTIONS.get(name) or VerbOption()).annotation(name, kind, about, default)
    return inspect.Parameter(name, _ONLY, default=default, annotation=annotation)


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
    """What `Args:` says of each argument, as plain prose: its first sentence, or the `whole`, as a verb says it."""
    part = re.search(r"\nArgs:\n(.*?)(?:\n\n\w+:|\Z)", doc, re.S)
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \*{0,2}\w+: |\Z)", part[1] + "\n" if part else "", re.S | re.M)
    said = {name: " ".join(text.split()) for name, text in entries}
    return said if whole else {name: _FIRST.match(text.replace("`", ""))[0] for name, text in said.items()}  # type: ignore[index]


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


def calls(
    target: str, *, leave: str = "", also: str = "", **differ: VerbOption
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb of what calls "module:function": where it says `call`, the function's own parameters stand.

    `leave` are parameters that the command line has not, `also` shared options of what the function passes on,
    and `differ` says where names or types differ. The verb's `Args:` say what differs in words.
    """
    known = {name: item for name, item in parameters_of(target).items() if name not in leave.split()}
    assert differ.keys() <= known.keys(), f"{target} has no {', '.join(differ.keys() - known.keys())}"
    python_names = {differ[name].name or name if name in differ else name: name for name in (*known, *also.split())}
    unset = frozenset(also.split())
    anything = {shown for shown, name in python_names.items() if name in known and known[name].annotation == "Any"}

    def verb_of(function: Callable[..., None]) -> Callable[..., None]:
        texts = _texts(inspect.getdoc(function) or "", whole=True)

        def run(**options: Any) -> None:
            given = {
                name: single_or_all(value) if shown in anything and isinstance(value, list) else value
                for shown, name in python_names.items()
                for value in [options.pop(shown)]
            }
            function(call=Call(target, given, unset), **options)

        made = [
            _made(shown, known.get(name), differ.get(name), texts.get(shown, ""))
            for shown, name in python_names.items()
        ]
        return _with_options(function, run, "call", made)

    return verb_of


def _made(name: str, item: _Parameter | None, how: VerbOption | None, about: str) -> inspect.Parameter:
    """A parameter of the function as an option; `item` is None where it is a shared option of what it passes on."""
    shared, own = OPTIONS.get(name, VerbOption()), how or VerbOption()
    if own.is_argument or own.names:
        used = own
    else:
        used = replace(shared, kind=own.kind or shared.kind, more={**shared.more, **own.more})
    kind = used.kind or (_kind(item.annotation) if item is not None else str)
    default: Any = own.default
    if default is ...:
        default = item.default if item is not None else False if kind is bool else None
    default = str(default) if kind is str and isinstance(default, int) else default
    words = about or own.about or shared.about or (item.about if item is not None else "")
    annotation: Any = Annotated[kind | None if default is None else kind, used]  # type: ignore[valid-type]
    return _shown(name, annotation, inspect.Parameter.empty if default is ... else default, words)


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
    """Make a verb that serves: where it says `asked`, the options of every service stand, with these defaults."""
    made = [item.replace(default=defaults.get(item.name, item.default)) for item in _parameters(front)]

    def verb_of(function: Callable[..., None]) -> Callable[..., None]:
        def run(**options: Any) -> None:
            function(front=front(**{item.name: options.pop(item.name) for item in made}), **options)

        return _with_options(function, run, "front", made)

    return verb_of
