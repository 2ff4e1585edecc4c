"""What a verb passes on: its function runs, and everything of visir outside the command line only notes its calls.

Each import of such a part gives a `Recorder` instead: it can be called, entered, gone through, unpacked and compared,
and gives recorders of its own. So a verb runs from its first line to its last in about a millisecond, whatever it is;
conditions on recorders go one way and the other in several runs. An option is passed on where its value, which no other
has, stands in a call; of a flag, where a call differs with it.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import importlib
import inspect
import io
import pkgutil
import re
import sys
import time
import types
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import typer

import visir
import visir_papers
from visir.cli.options import OPTIONS
from visir.cli.verbs import every_verb

CLI = re.compile(r"visir(_papers)?\.(\w+\.)?cli(\.|$)")
REAL = ("visir.options", "visir.display", "visir.terminal", "visir.library.query", "visir.errors")
"""What turns texts into values, and kinds of errors: as they are, but that no check of `visir.errors` stops a verb."""
CHECKS = ("require", "raise_faults", "nearest", "is_installed")

Call = tuple[str, dict[str, Any], tuple[str, int]]
"""A function's name, what it was called with, and the file and line that calls it."""
Passed = tuple[str, str, str, tuple[str, int]]
"""A function's name, a keyword or the number of an argument, its value, and the file and line."""
LUCK = 6
"""How many ways the conditions go: all yes, all no, and mixtures."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
NOWHERE = "nowhere"
WAY = "another way"
"""Where a flag only decides what is called."""


class Recorder(str):
    """Stands for anything of the library, and is a text too; `truth` says how a condition on it goes."""

    _name: str
    _calls: list[Call]
    _truth: Callable[[str], bool]

    @classmethod
    def of(cls, name: str, calls: list[Call], truth: Callable[[str], bool]) -> Recorder:
        """One for what is called so; it notes in `calls`."""
        made = cls("recorder")
        vars(made).update(_name=name, _calls=calls, _truth=truth)
        return made

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattribute__(name)
        if name == "keys":  # `**` of a recorder
            return tuple
        if self._name.count(".") > 8:  # a verb that goes down into the parts of parts comes to an end
            return None
        return Recorder.of(f"{self._name}.{name}", self._calls, self._truth)

    def __setattr__(self, name: str, value: Any) -> None:
        self._note(f"{self._name}.{name}", {"=": value})

    def _note(self, name: str, given: dict[str, Any]) -> None:
        frame: Any = sys._getframe(2)
        while frame.f_code.co_filename.endswith("visir/cli/verbs.py"):  # the line of the verb is what counts
            frame = frame.f_back
        self._calls.append((name, given, (frame.f_code.co_filename, frame.f_lineno)))

    def __call__(self, /, *values: Any, **named: Any) -> Any:  # noqa: D102
        given = {**{str(number): value for number, value in enumerate(values)}, **named}
        self._note(self._name, {name: _whole(value) for name, value in given.items()})
        return Recorder.of(f"{self._name}()", self._calls, self._truth)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        return iter([self] * _parts_at(frame.f_code, frame.f_lasti))

    def __bool__(self) -> bool:
        return self._truth(self._name)

    def _compare(self, other: Any) -> bool:
        return self._truth(self._name)

    def __hash__(self) -> int:
        return hash(self._name)

    def _same(self, *_: Any) -> Recorder:
        return self

    def __format__(self, spec: str) -> str:
        return "recorder"

    def __setitem__(self, name: Any, value: Any) -> None:
        self._note(self._name, {"[]": [name, value]})

    def __exit__(self, *_: object) -> None:
        pass

    def __len__(self) -> int:
        return 1 + self._truth(self._name)

    def __index__(self) -> int:
        return 1

    def __getitem__(self, place: Any) -> Recorder:
        self._note(self._name, {"[]": place})
        return self

    def __float__(self) -> float:
        return 1.0

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __instancecheck__ = _compare
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _same
    __or__ = __enter__ = _same
    __int__ = __index__
    __fspath__ = str.__str__
    __version__ = "0"


@cache
def _parts_at(code: types.CodeType, place: int) -> int:
    """How many parts a step of a function takes a value apart into; one where it goes through it."""
    step = next(step for step in dis.get_instructions(code) if step.offset == place)
    return int(step.arg or 0) if step.opname == "UNPACK_SEQUENCE" else 1


def _whole(value: Any) -> Any:
    """A value with what is still to come of it."""
    return list(value) if isinstance(value, (types.GeneratorType, map, filter, zip)) else value


class _Fault(Exception):
    """Stands for a kind of error of the library."""

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values)


def verbs(app: typer.Typer) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every verb with the function that it is, without `--json` and `--quiet`."""
    for path, command in every_verb(typer.main.get_command(app)):
        if not hasattr(command, "commands") and command.name != "doctor":  # it asks the machine, and takes seconds
            yield path, inspect.unwrap(command.callback)


@cache
def _import_command_line() -> None:
    """Every module of it, as it is: what is first imported while calls are recorded would keep the recorders."""
    for package in (visir, visir_papers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if CLI.match(module.name):
                importlib.import_module(module.name)


@contextmanager
def recording(truth: Callable[[str], bool]) -> Iterator[list[Call]]:
    """The calls from the command line into the rest of visir, none of which is run."""
    _import_command_line()
    calls: list[Call] = []
    real_import = builtins.__import__

    def stand_for(name: str) -> Any:
        if name.endswith("Error"):
            return _Fault
        return Recorder.of(name, [] if name in CHECKS else calls, truth)

    def imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        asks = (globals or {}).get("__name__", "")
        if not CLI.match(asks) or not name.startswith("visir") or CLI.match(name + ".") or name in REAL[:-1]:
            return real_import(name, globals, locals, fromlist, level)
        if name == "visir" and fromlist and all(CLI.match(f"visir.{item}.") for item in fromlist):
            return real_import(name, globals, locals, fromlist, level)
        stand_in = types.SimpleNamespace(**{item: stand_for(item) for item in fromlist or ()})
        if name == "visir.errors":
            real = real_import(name, globals, locals, fromlist, level)
            vars(stand_in).update({item: getattr(real, item) for item in fromlist if item not in CHECKS})
        return stand_in if fromlist else stand_for("visir")

    from visir.cli import output

    silent: dict[str, Any] = {
        name: Recorder.of(name, [], truth)
        for name, value in vars(output).items()
        if inspect.isfunction(value) and value.__module__ == output.__name__
    }
    with patch.object(builtins, "__import__", imported), patch.multiple(output, **silent):
        yield calls


def shown(value: Any) -> str:
    """A value with all that is in it."""
    if inspect.isfunction(value):
        return f"{value.__name__}: {[shown(cell.cell_contents) for cell in value.__closure__ or ()]}"
    if isinstance(value, (list, tuple, set)):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}={shown(item)}' for name, item in value.items())}}}"
    return _ADDRESS.sub("", repr(value))


WITH: dict[str, tuple[str, ...]] = {
    "visir encode": tuple(
        f"collection model {more}" for more in ("", "out", "parts", "parts key_ids", "merge shards", "shard shards")
    ),
    "visir evaluate": ("model estimator rerank", "model out", "embeddings", "run", "model blind"),
    "visir submit": ("model", "run"),
    "visir compare": ("published", "published system", "qrels"),
    "visir explain": ("data model",),
    "visir stress": ("model", "model out", "runs", "command out"),
    "visir explain-vector": ("inputs", "data"),
    "visir train": ("recipe", "recipe out"),
    "visir sparsify": ("recipe", "recipe out"),
    "visir perturb": ("names",),
    "visir index build": ("model", "model out"),
    "visir index delete": ("ids",),
    "visir index search": ("text", "queries out", "image"),
    "visir library make": ("watch out", "out", "out model"),
    "visir products train": ("catalogue", "catalogue out"),
    "visir sessions make": ("preset", "mapping"),
}
"""Options without which others have no meaning: sets of them that are given beside each option, by verb."""

VALUES: dict[str, Any] = {
    "visir search to": "captions",
    "visir encode modality": "image",
    "visir encode role": "query",
    "visir encode shard": "1/3",
    "visir submit run": ["it2i=run_mark"],
    "visir profile out": Path("out_mark.html"),
    "visir granularity profile": "quick",
    "visir explain also": ["all"],
    "visir demo data": "flickr8k",
    "visir index build to": "image",
    "visir products judgements correction": "0.5,0.25",
}
"""Values of options that take only certain ones."""


def passed_on(path: str, function: Callable[..., Any]) -> dict[str, dict[str, int]]:
    """Option → the places ("function(keyword)") where its value arrives → by how many lines of code."""
    parameters = inspect.signature(function, eval_str=True).parameters
    unset = {name: item.default for name, item in parameters.items()}
    given = {name: _value(path, item, number) for number, (name, item) in enumerate(parameters.items())}
    least = {name: given[name] if unset[name] is inspect.Parameter.empty else unset[name] for name in given}
    most = {name: least[name] if isinstance(value, bool) else value for name, value in given.items()}
    sets = [least, most, *({**least, **{name: given[name] for name in names.split()}} for names in WITH.get(path, ()))]
    done: dict[str, set[Passed]] = {}

    def run(options: dict[str, Any], luck: int) -> set[Passed]:
        key = f"{luck} {options}"
        if key not in done:
            done[key] = _run(function, options, luck)
        return done[key]

    places: dict[str, dict[str, set[Any]]] = {name: defaultdict(set) for name in given}
    for name, options, luck in ((name, options, luck) for name in given for options in sets for luck in range(LUCK)):
        got, mark = run({**options, name: given[name]}, luck), _mark(given[name])
        if mark:
            for call, key, value, line in got:
                if mark in value or mark in key:
                    places[name][f"{call}({key})"].add(line)
        if not mark or isinstance(given[name], float):  # a flag; MiB that become bytes
            without = run({**options, name: unset[name]}, luck)
            both = {(call, key) for call, key, _, _ in got} & {(call, key) for call, key, _, _ in without}
            for call, key, _, line in got ^ without:
                if (call, key) in both:
                    places[name][f"{call}({key})"].add(line)
                elif not mark:
                    places[name][WAY].add("")
    return {name: {place: len(lines) for place, lines in found.items()} for name, found in places.items()}


def lines(path: str, function: Callable[..., Any]) -> Iterator[str]:
    """Every option of a verb with the places where its value arrives."""
    for name, places in passed_on(path, function).items():
        told = sorted(
            f"{place} x{count}" if count > 1 else place
            for place, count in places.items()
            if place != WAY or len(places) == 1
        )
        yield f"{path} {name}: {', '.join(told) or NOWHERE}"


def _value(path: str, parameter: inspect.Parameter, number: int) -> Any:
    """A value that no other option of the verb has."""
    name, kind = parameter.name, parameter.annotation
    more = getattr(kind, "__metadata__", ())
    kind = getattr(kind, "__origin__", kind) if more else kind
    more = more or (OPTIONS.get(name),)
    words = str(kind)
    if (chosen := VALUES.get(f"{path} {name}")) is not None:
        return chosen
    if "Literal" in words:
        return get_args(kind)[-1]
    if "bool" in words:
        return not parameter.default
    if "Context" in words:
        return Recorder.of("context", [], lambda _: True)
    value: Any = f"{name}_mark"
    if "int" in words or "float" in words:
        value = 70_000 + number + (0.5 if "float" in words else 0)
    elif "Path" in words:
        value = Path(value)
    elif any("NAME=" in str(getattr(item, "metavar", getattr(item, "more", ""))) for item in more):
        value = f"{value}=0.5"
    return [value] if "list" in words else value


def _mark(value: Any) -> str:
    """What of an option's value no other has; of a flag, and of one of a few words, there is nothing."""
    value = value[0] if isinstance(value, list) else value
    if isinstance(value, (int, float)) and value >= 70_000:
        return str(value)
    marked = re.search(r"\w+_mark", str(value))
    return marked[0] if marked else ""


def _run(function: Callable[..., Any], options: dict[str, Any], luck: int) -> set[Passed]:
    """Everything that the function passes on, until an error ends it: function, keyword, value."""

    def truth(name: str) -> bool:
        return luck == 0 or (luck > 1 and zlib.crc32(f"{luck} {name}".encode()) % 2 == 0)

    def context(value: Any) -> Any:
        return Recorder.of("context", calls, truth) if isinstance(value, Recorder) else value

    silent, nothing = io.StringIO(), io.TextIOWrapper(io.BytesIO())
    with (
        patch.object(sys, "stdin", nothing),
        patch.object(time, "monotonic", lambda: 0.0),  # two runs are to differ by what they are given alone
        recording(truth) as calls,
        contextlib.redirect_stdout(silent),
        contextlib.redirect_stderr(silent),
    ):
        with contextlib.suppress(Exception, SystemExit):
            function(**{name: context(value) for name, value in options.items()})
        return {
            (name, key, shown(value), line)
            for name, values, line in calls
            for key, value in {"": None, **values}.items()
        }
