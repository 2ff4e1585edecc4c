"""No code of visir outside `visir.storage` removes a file, takes another's place or leaves a temporary file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import visir

SOURCE = Path(visir.__file__).parent
METHODS = {"unlink", "rmdir", "rename", "renames", "write_text"}
"""Of a path. `write_text` among them, as it leaves half a file when killed; `write_bytes` is for claimed files."""
FUNCTIONS = {
    *("os.remove", "os.unlink", "os.rmdir", "os.removedirs", "os.rename", "os.renames", "os.replace", "os.truncate"),
    *("shutil.rmtree", "shutil.move", "shutil.copytree", "shutil.copy", "shutil.copy2"),
    *("tempfile.mkdtemp", "tempfile.mkstemp", "tempfile.NamedTemporaryFile", "tempfile.TemporaryDirectory"),
    *("tempfile.TemporaryFile", "tempfile.mktemp", "tempfile.SpooledTemporaryFile"),
}
ALLOWED = {
    "reports/export.py": "writes into the folder that `new_plain_folder` is about to put in its place",
    "library/updating.py": "moves the folder of an index inside its library; visir made both",
    "sessions/spark.py": "moves what a worker wrote in a scratch folder to the claimed names beside it",
}


def faults_in(code: str) -> Iterator[str]:
    """Calls that remove or replace files, as source text."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"os", "shutil", "tempfile"}:
            yield from (
                f"from {node.module} import {alias.name}"
                for alias in node.names
                if f"{node.module}.{alias.name}" in FUNCTIONS
            )
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, called = node.func.attr, ast.unparse(node.func)
        # `Path.replace` has one argument; `str.replace` two or three, and `dataclasses.replace` keywords.
        replaces = name == "replace" and len(node.args) == 1 and not node.keywords
        if called in FUNCTIONS or replaces or name in METHODS:
            yield ast.unparse(node)


def test_only_the_storage_room_removes_and_replaces() -> None:
    names = [path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py"))]
    faults = [
        f"{name}: {call}"
        for name in names
        if not name.startswith("storage/") and name not in ALLOWED
        for call in faults_in((SOURCE / name).read_text(encoding="utf-8"))
    ]
    assert {"__init__.py", "library/updating.py", "records/run.py"} <= {*names} and faults == [], "use visir.storage"


def test_what_is_allowed_is_needed() -> None:
    for name in ALLOWED:
        assert list(faults_in((SOURCE / name).read_text(encoding="utf-8"))), f"{name} needs no exception any more"


@pytest.mark.parametrize(
    "code",
    [
        "path.unlink()",
        "path.with_name('x').rmdir()",
        "shutil.rmtree(folder)",
        "os.replace(a, b)",
        "temporary.replace(path)",
        "a.rename(b)",
        "path.write_text('x')",
        "from shutil import rmtree",
        "with tempfile.TemporaryDirectory() as folder: pass",
    ],
)
def test_each_way_is_noticed(code: str) -> None:
    assert list(faults_in(code))


@pytest.mark.parametrize("code", ["text.replace('a', 'b')", "replace(record, name='x')", "names.remove(name)"])
def test_what_touches_no_file_is_not(code: str) -> None:
    assert not list(faults_in(code))
