"""Files stay small enough to read, and classes have names of their own."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import visir
import visir_papers

FILES = {
    path.relative_to(source.parent).as_posix(): path.read_text(encoding="utf-8")
    for source in (Path(visir.__file__).parent, Path(visir_papers.__file__).parent)
    for path in source.rglob("*.py")
}


def test_no_file_is_longer_than_a_thousand_lines() -> None:
    assert [name for name, text in FILES.items() if text.count("\n") > 1000] == []


def test_every_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, text in FILES.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_name_of_a_variable_is_one_that_says_nothing() -> None:
    """`one`, `found`, `said`, `asked`, `told`, `kept` say nothing of what they hold."""
    empty = {"one", "found", "said", "asked", "told", "kept"}
    places = []
    for name, text in FILES.items():
        for node in ast.walk(ast.parse(text)):
            bound = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None
            bound = node.arg if isinstance(node, ast.arg) else bound
            if bound in empty:
                places.append(f"{name}:{node.lineno}: {bound}")  # type: ignore[attr-defined]
    assert places == []
