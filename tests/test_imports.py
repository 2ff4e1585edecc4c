"""Files of visir import each other in one direction: no circles, late imports, those for types and strings included."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

import visir
import visir_papers

_MODULE = re.compile(r"\w+(\.\w+){2,}|\w+(\.\w+)+:[\w.]+")
"""What somebody imports by name: "package.room.module", "package.module:Name"; "package.room" is a group of plugins."""


def modules_of(package: Path) -> dict[str, ast.Module]:
    """The name and the syntax tree of every module below the folder of a package."""
    files = {".".join((package.name, *file.relative_to(package).with_suffix("").parts)): file
             for file in package.rglob("*.py")}  # fmt: skip
    return {name.removesuffix(".__init__"): ast.parse(file.read_text("utf-8")) for name, file in files.items()}


def imported_names(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[str]:
    """Every name that a module imports, wherever the import stands; of `from a import b` both `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            source = ".".join([*parents, *([node.module] if node.module else [])])
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE.fullmatch(node.value):
            yield node.value.partition(":")[0]


def circles(package: Path) -> set[frozenset[str]]:
    """The groups of modules that import each other: strongly connected components of two or more."""
    trees = modules_of(package)
    row_of = {module: row for row, module in enumerate(trees)}
    packages = {module.rpartition(".")[0] for module in trees}
    edges = np.zeros((len(trees), len(trees)), np.bool_)
    for module, tree in trees.items():
        for name in imported_names(tree, module, is_package=module in packages):
            if name in row_of:
                edges[row_of[module], row_of[name]] = True
    _, component_of = connected_components(csr_array(edges), connection="strong")
    groups: dict[int, set[str]] = {}
    for module, component in zip(trees, component_of.tolist(), strict=True):
        groups.setdefault(component, set()).add(module)
    return {frozenset(group) for group in groups.values() if len(group) > 1}


@pytest.mark.parametrize("package", [visir, visir_papers], ids=lambda package: package.__name__)
def test_files_import_each_other_in_one_direction(package: ModuleType) -> None:
    found = sorted(sorted(circle) for circle in circles(Path(str(package.__file__)).parent))
    assert not found, f"these files import each other; move what they share into a file below them: {found}"


def test_visir_names_nothing_of_what_stands_on_it() -> None:
    """Another distribution imports visir, and registers by entry points; a string that names it is an import too."""
    found = [
        f"{module}: {name}"
        for module, tree in modules_of(Path(visir.__file__).parent).items()
        for name in imported_names(tree, module, is_package=False)
        if name.partition(".")[0] == "visir_papers"
    ]
    assert found == []


def test_a_circle_is_found_however_it_is_imported(tmp_path: Path) -> None:
    package = tmp_path / "house"
    (package / "room").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "room/__init__.py": "def door():\n    from house.room.window import glass\n",
        "room/window.py": "from house.room import lock\n",
        "room/lock.py": "import numpy\n",
        "typed.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import late\n",
        "late.py": "def work():\n    import house.typed\n",
        "alone.py": "from house.late import work\nfrom .room.lock import key\n",
        "said.py": "TABLE = {'a': 'house.named:Thing'}\n",
        "named.py": "import house.said\n",
    }.items():
        (package / name).write_text(text)
    assert circles(package) == {
        frozenset({"house.typed", "house.late"}),
        frozenset({"house.room", "house.room.window"}),
        frozenset({"house.said", "house.named"}),
    }
