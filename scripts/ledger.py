"""The size of the house: lines by package and kind, and how many files a call passes through.

    python scripts/ledger.py              # tables of the packages (a second)
    python scripts/ledger.py --calls      # also six calls, each traced in a process of its own (a minute)
    python scripts/ledger.py --json FILE  # the same as values

A fact about a line is read from the syntax tree: an import, a docstring, a signature, blank, a comment, or logic (all
other code). Strings that name a module of visir ("visir.x.y", "module:Class") count as imports.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sources import PACKAGES, ROOT, module_of, python_files

SOURCE = ROOT / "src"
GROUPS = {
    "core": ("core",),
    "stats": ("stats",),
    "storage": ("storage",),
    "records": ("records",),
    "collections": ("collections",),
    "encoders": ("encoders",),
    "training + sparse": ("training", "sparse", "recipes"),
    "robustness + shortcuts": ("robustness", "shortcuts"),
    "retrieval": ("retrieval",),
    "evaluation": ("evaluation",),
    "reports": ("reports",),
    "cli": ("cli",),
    "library": ("library", "serving"),
    "sessions": ("sessions",),
    "products": ("products",),
    "studies": ("studies",),
}
"""Rows of the table, and the folders of each; modules beside the folders are of the core."""
APART = {"visir_papers": "papers (own distribution)"}
"""Rows below the sum of visir: distributions of their own."""
CALLS = {
    "load": "visir.load(clip)",
    "encode": "visir.encode('pixels', 'scenes:8?size=64')",
    "search": "visir.search('scenes:30?size=64', 'colours', 'a red house')",
    "evaluate": "visir.evaluate('scenes:30?size=64', 'colours')",
    "train": "visir.train('scenes-heads', 'scenes:50?size=64', out='heads', epochs=1, batch=32)",
    "index": "build_index(vectors, 'exact', 'x.index').search(vectors, 3)",
}
"""What is traced. Each is called twice: a file counts that the second call enters."""
_MODULE = re.compile(r"visir(?:_papers)?(?:\.\w+)+")


@dataclass
class Size:
    """Lines of some files, by what they are."""

    files: int = 0
    lines: int = 0
    logic: int = 0
    imports: int = 0
    docstrings: int = 0
    internal_docstrings: int = 0
    signatures: int = 0
    blank: int = 0
    comments: int = 0
    one_importer: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def import_share(self) -> float:
        """Percent of the lines that are imports."""
        return 100 * self.imports / max(1, self.lines)


def group_of(module: str) -> str:
    """The row of the table to which a module belongs."""
    package, _, rest = module.partition(".")
    if package in APART:
        return APART[package]
    folder = rest.partition(".")[0] if rest else ""
    return next((name for name, folders in GROUPS.items() if folder in folders), "core")


def exported(trees: dict[str, ast.Module]) -> set[str]:
    """The names in `__all__` of packages, and those that are lazy: imported under another's name for type checkers."""
    packages = {module.rpartition(".")[0] for module in trees} | {package.name for package in PACKAGES}
    names: set[str] = set()
    for module in packages & trees.keys():
        for node in trees[module].body:
            if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
                elements = getattr(node.value, "elts", ())
                names |= {str(element.value) for element in elements if isinstance(element, ast.Constant)}
            if isinstance(node, ast.If):
                imports = (child for child in node.body if isinstance(child, ast.ImportFrom))
                names |= {alias.asname for child in imports for alias in child.names if alias.asname}
    return names


def size_of(path: Path, tree: ast.Module, text: str, public: set[str]) -> Size:
    """The lines of one file."""
    kinds: dict[int, str] = {}
    internal = 0

    def mark(kind: str, first: int, last: int) -> None:
        for line in range(first, last + 1):
            kinds.setdefault(line, kind)

    def walk(node: ast.AST, *, is_public: bool) -> None:
        nonlocal internal
        for child in ast.iter_child_nodes(node):
            inside = is_public
            for_types = isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"
            if isinstance(child, ast.stmt) and (isinstance(child, ast.Import | ast.ImportFrom) or for_types):
                mark("imports", child.lineno, child.end_lineno or child.lineno)
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                hidden = child.name.startswith("_") and not child.name.startswith("__")
                inside = not hidden and (is_public if isinstance(node, ast.ClassDef) else child.name in public)
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                body = child.body[0]
                start = min([body.lineno, *(mark.lineno for mark in getattr(body, "decorator_list", ()))])
                mark("signatures", first, max(child.lineno, start - 1))
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                mark("docstrings", child.lineno, child.end_lineno or child.lineno)
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not is_public:
                    internal += (child.end_lineno or child.lineno) - child.lineno + 1
            walk(child, is_public=inside)

    walk(tree, is_public=False)
    lines = text.splitlines()
    comments = {number for number, line in enumerate(lines, 1) if line.lstrip().startswith("#")}
    count = Counter(
        "docstrings" if kinds.get(number) == "docstrings"
        else "blank" if not line.strip()
        else "comments" if number in comments
        else kinds.get(number, "logic")
        for number, line in enumerate(lines, 1)
    )  # fmt: skip
    return Size(
        1, len(lines), count["logic"], count["imports"], count["docstrings"], internal, count["signatures"],
        count["blank"], count["comments"], 0,
    )  # fmt: skip


def importers(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Module to the modules that import it, or name it in a string."""
    by: dict[str, set[str]] = defaultdict(set)
    packages = {module.rpartition(".")[0] for module in trees}

    def names(module: str, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                own = module.split(".") if module in packages else module.split(".")[:-1]
                source = ".".join(
                    [*(own[: len(own) - node.level + 1] if node.level else ()), *filter(None, [node.module])]
                )
                yield source
                yield from (f"{source}.{alias.name}" for alias in node.names)
            elif (
                isinstance(node, ast.Constant) and isinstance(node.value, str) and (match := _MODULE.match(node.value))
            ):
                yield match[0]

    for module, tree in trees.items():
        for name in names(module, tree):
            while name and name not in trees:
                name = name.rpartition(".")[0]
            if name and name != module:
                by[name].add(module)
    return by


def measure() -> dict[str, Size]:
    """The rows of the table: the packages of visir and their sum, then other distributions."""
    paths = python_files()
    texts = {module_of(path): path.read_text(encoding="utf-8") for path in paths}
    trees = {module: ast.parse(text) for module, text in texts.items()}
    public, by = exported(trees), importers(trees)
    rows = {name: Size() for name in (*GROUPS, "sum", *APART.values())}
    for path in paths:
        module = module_of(path)
        size = size_of(path, trees[module], texts[module], public)
        # A package's own list of lazy names is no reader of a file.
        readers = {reader for reader in by[module] if not texts[reader].count("= lazy(")}
        size.one_importer = int(path.name != "__init__.py" and len(readers) == 1)
        rows[group_of(module)] += size
    rows["sum"] = sum((rows[name] for name in GROUPS), Size())
    return rows


def calls() -> dict[str, dict[str, int]]:
    """For each call: files of visir entered by the second time it is made, functions, and modules imported."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"VISIR_CACHE": folder, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(SOURCE)}
        counts = {}
        for name, call in CALLS.items():
            done = subprocess.run(
                [sys.executable, "-W", "ignore", __file__, "--trace", call],
                capture_output=True, text=True, cwd=folder, env=environment, check=False,
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr[-2000:]}")
            counts[name] = json.loads(done.stdout.splitlines()[-1])
    return counts


def trace(call: str) -> dict[str, int]:
    """What one call enters and imports, in this process."""
    import shutil
    import threading

    import visir
    from visir.retrieval import build_index

    scope: dict[str, Any] = {"visir": visir, "build_index": build_index}
    if "clip" in call:
        sys.path.insert(0, str(SOURCE.parent / "tests" / "encoders"))
        from tiny_transformers import save  # type: ignore[import-not-found]

        save("clip", Path("clip"))
        scope["clip"] = "./clip"
    if "vectors" in call:
        scope["vectors"] = visir.encode("pixels", "scenes:50?size=64")
    entered: set[tuple[str, str, int]] = set()
    root = str(SOURCE / "visir")

    def note(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root) and code.co_name != "<module>":
            entered.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    for profile in (None, note):
        for made in ("heads", "x.index"):
            shutil.rmtree(made, ignore_errors=True)
        threading.setprofile(profile)
        sys.setprofile(profile)
        eval(call, scope)  # a call of the table above
        sys.setprofile(None)
    return {
        "files": len({file for file, _, _ in entered}),
        "functions": len(entered),
        "modules imported": sum(name.startswith("visir.") for name in sys.modules),
    }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", action="store_true", help="trace the six calls too")
    parser.add_argument("--json", type=Path, help="also write the values")
    parser.add_argument("--trace", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trace:
        print(json.dumps(trace(options.trace)))
        return
    rows = measure()
    print("| package | files | lines | logic | imports % | docstrings | of internals | one importer |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, size in rows.items():
        print(
            f"| {name} | {size.files:,} | {size.lines:,} | {size.logic:,} | {size.import_share:.1f} | "
            f"{size.docstrings:,} | {size.internal_docstrings:,} | {size.one_importer:,} |"
        )
    values: dict[str, Any] = {"packages": {name: asdict(size) for name, size in rows.items()}}
    if options.calls:
        values["calls"] = calls()
        print("\n| call | files entered | functions | modules imported |\n|---|---:|---:|---:|")
        for name, count in values["calls"].items():
            print(f"| {name} | " + " | ".join(f"{value:,}" for value in count.values()) + " |")
    if options.json:
        options.json.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
