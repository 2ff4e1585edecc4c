"""Documents that follow the code stay true: every link into it names a file, and a name in that file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?:\.\./)+((?:src/visir|papers/src/visir_papers)/[\w./-]+)(?:#([\w.]+))?\)")
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if LINK.search(path.read_text(encoding="utf-8")))


def names(path: Path) -> set[str]:
    """The functions, classes, methods and assigned names of a file: "search", "Run.ranked", "TASKS"."""
    found: set[str] = set()

    def look(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                found.add(prefix + child.name)
                if isinstance(child, ast.ClassDef):
                    look(child, f"{prefix}{child.name}.")
            elif isinstance(child, (ast.Assign, ast.AnnAssign)):
                targets = child.targets if isinstance(child, ast.Assign) else [child.target]
                found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    look(ast.parse(path.read_text(encoding="utf-8")), "")
    return found


def test_some_pages_follow_the_code() -> None:
    assert "architecture.md" in {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_into_the_code_lead_somewhere(page: Path) -> None:
    wrong = []
    for place, name in LINK.findall(page.read_text(encoding="utf-8")):
        path = ROOT / place
        if not path.exists():
            wrong.append(f"{place}: no such file")
        elif name and name not in names(path):
            wrong.append(f"{place}: no {name}")
    assert not wrong


def test_functions_that_pages_print_are_there() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    printed = [name for page in pages for name in re.findall(r"<!-- source: ([\w.]+) -->", page)]
    assert "visir.training.loop.update" in printed
    for name in printed:
        module, _, function = name.rpartition(".")
        assert function in names(ROOT / "src" / f"{module.replace('.', '/')}.py"), name


def test_pages_that_the_code_names_are_there() -> None:
    folders = [ROOT / name for name in ("src", "papers", "benchmarks", "scripts", "examples", "deploy")]
    single = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml")]
    kinds = (".py", ".toml", ".json", ".md", ".yaml")
    wrong = [
        f"{path.relative_to(ROOT)}: {page}"
        for path in [*single, *(one for folder in folders for one in folder.rglob("*") if one.suffix in kinds)]
        for page in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
        if not (ROOT / page).is_file()
    ]
    assert not wrong


def test_a_subject_has_one_line_in_the_changes() -> None:
    """Two lines of a subject are what a merge leaves behind."""
    version = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    subjects = re.findall(r"^- (\*\*[^*]+\*\*)", version, flags=re.MULTILINE)
    assert subjects and [name for name in dict.fromkeys(subjects) if subjects.count(name) > 1] == []
