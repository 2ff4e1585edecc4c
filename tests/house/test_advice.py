"""Every option, verb and name that a message tells people to use exists, where they read it."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from visir.cli.main import app

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "visir"
SOURCES = (SOURCE, ROOT / "papers" / "src" / "visir_papers")
GAP = "…"
"""What stands in a message in place of a value."""
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
COMMAND = re.compile(r"\bvisir ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)")
DOTTED = re.compile(r"(?<![\w./-])visir(?:\.[A-Za-z_]\w*)+")
METHOD = re.compile(r"(?<![\w.])([A-Z][A-Za-z]+)\.([a-z_]\w*)\b")
KEYWORD = re.compile(r"(?<![\w\"'?&.{$…-])([a-z][a-z_]*)=(?![=])")
FILES = ("json", "toml", "db", "html", "yaml", "git", "svg")
"""Endings of files that are called visir: no names in Python."""
FOREIGN = re.compile(
    r"\b(pip|git|docker|iconv|hf|torchrun|accelerate|uv|createdb|tar|torch\.\w+|torchvision\.\w+)\b"
    r"|var\(|</?\w|^--plot"
)
"""Other programs, whose options are their own; pages and their colours."""
OTHERS = {
    "layers_pattern": "of a LoRA configuration, as peft names it",
    "code_revision": "an option in the name of a model, ?code_revision=COMMIT",
    "query_image_column": "columns of a task, of any part and content",
    "document_image_column": "likewise",
    "streaming": "of datasets.load_dataset",
    "partition": "of a data set of torchvision",
    "dcg": "of a measure, nDCG(dcg='log2')",
    "val": "a share of a rule of splits",
    "dev": "likewise",
    "exp": "a formula",
    "charset": "of HTTP",
    "realm": "of HTTP",
    "dir": "of pages",
    "class": "of pages",
    "max": "of pages",
    "transform": "of figures",
    "statement_timeout": "of PostgreSQL",
    "plan_cache_mode": "of PostgreSQL",
    "trusted_schema": "of SQLite",
    "journal_mode": "of SQLite",
    "synchronous": "of SQLite",
}
"""Names before "=" that are no arguments of ours, and whose they are."""


class Message(NamedTuple):
    """A text for people, and its place."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


@cache
def trees() -> dict[Path, ast.Module]:
    paths = (path for source in SOURCES for path in sorted(source.rglob("*.py")))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@cache
def messages() -> tuple[Message, ...]:
    """Texts with a space that are no docstrings: what people may read."""
    return tuple(
        Message(path, line, text) for path, tree in trees().items() for line, text in _texts(tree) if " " in text
    )


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    text = _written(node)
    if text is not None:
        yield getattr(node, "lineno", 0), text
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):  # a docstring
            yield from _texts(child)


def _written(node: ast.AST) -> str | None:
    """The text of a string, a gap in place of each value; None for what is no string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_written(part) or GAP for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _written(node.left), _written(node.right)
        return None if left is None and right is None else (left or GAP) + (right or GAP)
    return None


@cache
def commands() -> dict[str, Any]:
    """Every verb, and every group, by its words."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        yield " ".join(words), command
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, (*words, name))

    return dict(below(typer.main.get_command(app), ()))


def is_group(command: Any) -> bool:
    return hasattr(command, "commands")


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def module_of(path: Path) -> str:
    source = next(source for source in SOURCES if path.is_relative_to(source))
    return ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports() -> dict[str, set[str]]:
    """What each module of visir imports, anywhere in it; a name in a string counts."""
    modules = {module_of(path) for path in trees()}
    graph: dict[str, set[str]] = {}
    for path, tree in trees().items():
        names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value.partition(":")[0])
        graph[module_of(path)] = names & modules
    return graph


@cache
def reached(module: str) -> frozenset[str]:
    seen, waiting = {module}, [module]
    while waiting:
        new = imports().get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return frozenset(seen)


@cache
def options_around(module: str) -> frozenset[str]:
    """The options of the verbs in a module; where there is none, of all verbs whose code comes to it."""
    verbs = [command for command in commands().values() if not is_group(command)]
    by_module = [(inspect.unwrap(command.callback).__module__, options_of(command)) for command in verbs]
    own = [options for name, options in by_module if name == module]
    around = own or [options for name, options in by_module if module in reached(name)]
    return frozenset().union(*(around or [options for _, options in by_module]))


def verb_of(words: str) -> str | None:
    """The verb or group that words begin with, "library make" of "library make it"; None for prose."""
    return next((name for name in (words, words.partition(" ")[0]) if name in commands()), None)


def named_verb(text: str, start: int) -> Any | None:
    """The verb of the last command before a place of a text, if the place is in that command; None without one."""
    before = [(match.end(), verb) for match in COMMAND.finditer(text[:start]) if (verb := verb_of(match[1]))]
    if not before or re.search(r"[;:()`\n]|, |\. | (?:or|and) ", text[before[-1][0] : start]):
        return None
    command = commands()[before[-1][1]]
    return None if is_group(command) else command


def wrong_options(message: Message) -> list[str]:
    if FOREIGN.search(message.text):
        return []
    wrong = []
    for match in OPTION.finditer(message.text):
        verb = named_verb(message.text, match.start())
        known = options_around(module_of(message.path)) if verb is None else options_of(verb)
        if match[0] not in known:
            wrong.append(match[0] if verb is None else f"{match[0]} of visir {verb.name}")
    return wrong


def wrong_commands(message: Message) -> list[str]:
    """Commands of unknown verbs. What follows tells a command from prose: a place in capitals, or an option."""
    wrong = []
    for match in COMMAND.finditer(message.text):
        verb = verb_of(match[1])
        is_command = re.match(r" ?(?:[A-Z]{2}|--|`)", message.text[match.end() :]) is not None
        if is_command and (verb is None or is_group(commands()[verb])):
            wrong.append(f"visir {match[1]}")
    return wrong


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    value: Any = importlib.import_module("visir")
    path = "visir"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        if hasattr(value, part):  # first: a folder may have the name of a function
            value = getattr(value, part)
        elif part in getattr(value, "__annotations__", {}):
            return True
        else:
            try:
                value = importlib.import_module(path)
            except ImportError:
                return False
    return True


@cache
def members() -> dict[str, set[str]]:
    """What each class of visir has, by its name, with what it inherits from other classes of visir."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for node in (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        names = own.setdefault(node.name, set())
        above = (ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases)
        bases.setdefault(node.name, set()).update(above)
        for entry in node.body:
            if isinstance(entry, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names.add(entry.name)
            targets = getattr(entry, "targets", [getattr(entry, "target", None)])
            names |= {target.id for target in targets if isinstance(target, ast.Name)}

    def every(name: str) -> set[str]:
        return own.get(name, set()).union(*(every(base) for base in bases.get(name, ()) if base != name))

    return {name: every(name) for name in own}


def wrong_names(message: Message) -> list[str]:
    dotted = [match[0] for match in DOTTED.finditer(message.text) if match[0].rpartition(".")[2] not in FILES]
    methods = [match for match in METHOD.finditer(message.text) if match[1] in members()]
    return [
        *(name for name in dotted if not resolves(name)),
        *(match[0] for match in methods if match[2] not in members()[match[1]]),
    ]


@cache
def arguments() -> set[str]:
    """Every argument of every function, and every field of a record."""
    names: set[str] = set()
    for node in (node for tree in trees().values() for node in ast.walk(tree)):
        if isinstance(node, ast.arguments):
            names |= {argument.arg for argument in (*node.posonlyargs, *node.args, *node.kwonlyargs)}
        elif isinstance(node, ast.ClassDef):
            entries = (entry.target for entry in node.body if isinstance(entry, ast.AnnAssign))
            names |= {target.id for target in entries if isinstance(target, ast.Name)}
    return names


def wrong_keywords(message: Message) -> list[str]:
    if FOREIGN.search(message.text):
        return []
    names = [match[1] for match in KEYWORD.finditer(message.text)]
    return [f"{name}=" for name in names if name not in arguments() and name not in OTHERS]


@pytest.mark.parametrize("check", [wrong_options, wrong_commands, wrong_names, wrong_keywords])
def test_what_messages_name_exists(check: Callable[[Message], list[str]]) -> None:
    assert len(messages()) > 5_000
    wrong = [f"{message}: {name}" for message in messages() for name in check(message)]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(
    ("check", "text", "expected"),
    [
        (wrong_options, "say which: visir explain RESULT --system NAME", ["--system of visir explain"]),
        (wrong_options, "visir explain RESULT --as NAME, or visir compare FIRST SECOND --qrels FILE", []),
        (wrong_options, "name it with --formatt", ["--formatt"]),
        (wrong_commands, "run it again: visir evalute COLLECTION --model NAME", ["visir evalute"]),
        (wrong_commands, "visir does not know it; visir library make FOLDER makes it", []),
        (wrong_names, "visir.evaluated(…) or Gallery.statted(…)", ["visir.evaluated", "Gallery.statted"]),
        (wrong_names, "visir.evaluate(…) or Gallery.stated(…)", []),
        (wrong_keywords, "read it by score: orderedd='score'", ["orderedd="]),
    ],
)
def test_what_is_wrong_is_found(check: Callable[[Message], list[str]], text: str, expected: list[str]) -> None:
    assert check(Message(SOURCE / "cli" / "main.py", 1, text)) == expected
