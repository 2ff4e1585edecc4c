"""Every sentence of visir's errors, warnings, notes and help, read from the source, as templates.

`python scripts/snapshots.py` writes them to `tests/snapshots/messages.txt`, without names of modules and numbers of
lines: moving code changes nothing there. In a template `{…}` is a value, `'…'` a quoted one, `{a|b}` one of two
wordings; ` → ` stands before the next action, `[code]` before the sentence.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sources import module_of, python_files

GAP = "{…}"
QUOTED = "'…'"
ANY = "error of the caller's class"
"""The class of faults that the caller names: `error(…)`."""
PARTS = "parts of messages, notes and warnings"
_SAYS = {
    "add",
    "append",
    "cannot",
    "clear",
    "count",
    "echo",
    "fault",
    "lacks",
    "line",
    "note",
    "print",
    "refuse",
    "reject",
}
_SAYS |= {"reject_row", "say", "section", "told", "warn", "without"}
"""Functions and methods whose texts people read."""
_SAYS_KEYWORDS = frozenset(["busy", "elsewhere", "hint", "obtain", "purpose", "reason", "remedy", "waiting"])
_WORD = re.compile(r"(?<![\w{])[A-Za-z][a-z]*(?![\w}])")
_CODE = re.compile(r"SELECT |CREATE |INSERT |UPDATE |DELETE |<[a-z/!]|\(\?|\\[sdw]|^visir\.[\w.:]+$")


@dataclass(frozen=True)
class Site:
    """A place in the source that makes an error."""

    path: Path
    call: ast.Call
    kind: str
    message: str
    hint: str
    code: str

    @property
    def text(self) -> str:
        """Message and next action, as the snapshot has them."""
        return f"{self.message} → {self.hint}" if self.hint else self.message


@dataclass
class Module:
    """A file of the source."""

    path: Path
    tree: ast.Module
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    _assigned: dict[ast.AST | None, dict[str, list[ast.expr | None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def above(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The nearest function, or class, that a node stands in."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, kinds):
                return node
        return None

    def assigned(self, node: ast.AST) -> dict[str, list[ast.expr | None]]:
        """What each name of the function around a node is set to; None is anything."""
        function = self.above(node, ast.FunctionDef, ast.AsyncFunctionDef)
        if function not in self._assigned:
            self._assigned[function] = self._assignments(function)
        return self._assigned[function]

    def _assignments(self, function: ast.AST | None) -> dict[str, list[ast.expr | None]]:
        values: dict[str, list[ast.expr | None]] = defaultdict(list)
        for inner in ast.walk(function) if function is not None else ():
            if isinstance(inner, ast.Assign):
                for target in inner.targets:
                    _assign(target, inner.value, values)
            elif isinstance(inner, ast.AnnAssign | ast.NamedExpr) and isinstance(inner.target, ast.Name):
                values[inner.target.id].append(inner.value)
            elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
                values[inner.target.id].append(None)
            elif isinstance(inner, ast.arg):
                values[inner.arg].append(None)
            elif isinstance(inner, ast.For | ast.comprehension):
                _assign(inner.target, None, values)
        return values


def _assign(target: ast.expr, value: ast.expr | None, values: dict[str, list[ast.expr | None]]) -> None:
    if isinstance(target, ast.Name):
        values[target.id].append(value)
    elif isinstance(target, ast.Tuple):
        parts: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(parts):
            parts = list(value.elts)
        for inner, part in zip(target.elts, parts, strict=True):
            _assign(inner, part, values)


class Source:
    """All files of the source, and what they say."""

    def __init__(self) -> None:
        self.modules = {path: _module(path) for path in python_files()}
        self._named = {module_of(path): module for path, module in self.modules.items()}
        self.kinds = self._family()
        self._taken: set[ast.AST] = set()
        self.sites = tuple(self._sites())

    def _family(self) -> dict[str, str]:
        """`VisirError` and every class below it, with the class above."""
        bases = {
            node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
            for module in self.modules.values()
            for node in module.nodes
            if isinstance(node, ast.ClassDef)
        }
        family = {"VisirError": ""}
        while new := {
            name: base for name, above in bases.items() if name not in family for base in above if base in family
        }:
            family |= new
        return family

    def lineage(self, kind: str) -> Iterator[str]:
        """A class and those above it."""
        while kind:
            yield kind
            kind = self.kinds.get(kind, "")

    def _sites(self) -> Iterator[Site]:
        for path, module in self.modules.items():
            for node in module.nodes:
                if isinstance(node, ast.Call) and node.args:
                    yield from self._site(path, module, node)

    def _site(self, path: Path, module: Module, node: ast.Call) -> Iterator[Site]:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        argument, after = node.args[0], ""
        if name == "raise_faults" and len(node.args) > 1:
            name = argument.id if isinstance(argument, ast.Name) else "error"
            argument, after = node.args[1], f" ({GAP} {{fault|faults}}):\\n{GAP}"
        elif name == "__init__" and not isinstance(argument, ast.Name):
            above = module.above(node, ast.ClassDef)
            name = above.name if isinstance(above, ast.ClassDef) else ""
        elif name == "MissingPackageError" or (name == "error" and len(node.args) > 1):
            return
        if name == "error" or (after and name not in self.kinds):
            name = ANY
        elif name not in self.kinds:
            return
        message = self.template(argument, module) + after
        if name == ANY and not _prose(message, 1):
            return
        self._taken.update(ast.walk(node))
        hint = self.template(keywords["hint"], module) if "hint" in keywords else ""
        given = keywords.get("code")
        code = given.value if isinstance(given, ast.Constant) else ""  # else that of another fault, passed on
        yield Site(path, node, name, message, hint, str(code))

    def template(self, node: ast.expr, module: Module, depth: int = 0) -> str:
        """An expression as a sentence with gaps."""
        if isinstance(node, ast.Constant):
            return node.value.replace("\n", "\\n") if isinstance(node.value, str) else GAP
        if isinstance(node, ast.JoinedStr):
            return "".join(self._piece(part, module, depth) for part in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.template(node.left, module, depth) + self.template(node.right, module, depth)
        if isinstance(node, ast.IfExp):
            return _either([self.template(node.body, module, depth), self.template(node.orelse, module, depth)])
        if isinstance(node, ast.BoolOp):
            return _either([self.template(value, module, depth) for value in node.values])
        if isinstance(node, ast.Name) and depth < 3:
            return self._name(node, module, depth)
        return GAP

    def _piece(self, part: ast.expr, module: Module, depth: int) -> str:
        if not isinstance(part, ast.FormattedValue):
            return self.template(part, module, depth)
        if part.conversion == ord("r"):
            return QUOTED
        return GAP if part.format_spec is not None else self.template(part.value, module, depth + 1)

    def _name(self, node: ast.Name, module: Module, depth: int) -> str:
        values = module.assigned(node).get(node.id)
        if values:
            for value in values:
                if value is not None and not isinstance(value, ast.Call):
                    self._taken.update(ast.walk(value))
            return _either([GAP if value is None else self.template(value, module, depth + 1) for value in values])
        if node.id in module.constants:
            return self.template(module.constants[node.id], module, depth + 1)
        if node.id in module.imports:
            origin, name = module.imports[node.id]
            there = self._named.get(origin)
            if there is not None and name in there.constants:
                return self.template(there.constants[name], there, depth + 1)
        return GAP

    def parts(self) -> Iterator[str]:
        """Sentences that stand in no error of their own: pieces of messages, notes, warnings."""
        for module in self.modules.values():
            for node in module.nodes:
                if isinstance(node, ast.JoinedStr | ast.Constant) and node not in self._taken:
                    if isinstance(module.parents[node], ast.JoinedStr | ast.FormattedValue | ast.Expr):
                        continue
                    text = self.template(node, module) if isinstance(getattr(node, "value", ""), str) else ""
                    if _prose(text, 3) and not _CODE.search(text) and _is_said(node, module):
                        yield text

    def lines(self) -> Iterator[str]:
        """The snapshot: a class and its sentences, sorted, each once."""
        groups: dict[str, set[str]] = defaultdict(set)
        for site in self.sites:
            groups[site.kind].add(f"[{site.code}] {site.text}" if site.code else site.text)
        groups[PARTS] = set(self.parts())
        for kind in sorted(groups, key=lambda kind: (kind == PARTS, kind == ANY, kind)):
            yield f"# {kind}"
            yield from sorted(groups[kind], key=lambda line: (re.sub(r"^\[[^]]*\] ", "", line), line))


def _module(path: Path) -> Module:
    module = Module(path, ast.parse(path.read_text(encoding="utf-8")))
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            module.imports |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            module.constants[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            module.constants[node.target.id] = node.value
    return module


def _either(texts: list[str]) -> str:
    """One of several wordings."""
    texts = list(dict.fromkeys(texts))
    if len(texts) == 1:
        return texts[0]
    joined = "|".join("…" if text == GAP else text for text in texts)
    return GAP if not any(_prose(text, 1) for text in texts) else f"{{{joined}}}"


def _prose(text: str, words: int) -> bool:
    return len(_WORD.findall(text.replace(GAP, " "))) >= words


def _is_said(node: ast.AST, module: Module) -> bool:
    """Whether a text is given to what people read, or returned."""
    while node in module.parents:
        below, node = node, module.parents[node]
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            return name in _SAYS or name.endswith("error")
        if isinstance(node, ast.keyword):
            return node.arg in _SAYS_KEYWORDS
        if isinstance(node, ast.Return | ast.Yield):
            return True
        if isinstance(node, ast.stmt | ast.Compare | ast.Subscript | ast.Dict):
            return isinstance(node, ast.Assign | ast.AugAssign) and _is_named_as_said(node) and below is node.value
    return False


def _is_named_as_said(node: ast.Assign | ast.AugAssign) -> bool:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
    return re.search(r"hint|note|reason|why|text|message|fault|line", name.lower()) is not None


def literals(template: str) -> list[str]:
    """The fixed parts of a template, in order: what stands between values and wordings."""
    parts, depth = [""], 0
    text = template.replace(QUOTED, GAP)
    for index, letter in enumerate(text):
        if letter == "{" and (depth or text.startswith(GAP, index) or _closes(text, index)):
            depth += 1
            if depth == 1:
                parts.append("")
        elif letter == "}" and depth:
            depth -= 1
        elif not depth:
            parts[-1] += letter
    return [part.replace("\\n", "\n") for part in parts]


def _closes(text: str, index: int) -> bool:
    """Whether a brace opens wordings: `{a|b}`."""
    depth = 0
    for end in range(index, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return "|" in text[index:end]
    return False


def spans(template: str, text: str) -> list[tuple[int, int]] | None:
    """Where the fixed parts of a template stand in a text; None if the text is no such sentence."""
    parts = literals(template)
    if not text.startswith(parts[0]) or (len(parts) == 1 and text != parts[0]):
        return None
    places, at = [(0, len(parts[0]))], len(parts[0])
    for part in parts[1:-1]:
        place = text.find(part, at)
        if place < 0:
            return None
        places.append((place, at := place + len(part)))
    if len(parts) > 1:
        last = len(text) - len(parts[-1])
        if last < at or not text.endswith(parts[-1]):
            return None
        places.append((last, len(text)))
    return places


def read(lines: list[str]) -> Mapping[str, list[str]]:
    """The templates of the snapshot, by class, without codes."""
    groups: dict[str, list[str]] = defaultdict(list)
    kind = ""
    for line in lines:
        if line.startswith("# "):
            kind = line[2:]
        else:
            groups[kind].append(re.sub(r"^\[[^]]*\] ", "", line))
    return groups
