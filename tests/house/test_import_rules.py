"""The rules of docs/background/architecture.md: who may import whom. Imports in functions and for types count, too."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import visir
from visir.plugins import BUILT_IN, PARTS, load_target, part

SOURCE = Path(visir.__file__).parents[1]
ROOT = Path(__file__).parents[2]
ROAD = (
    *(
        "stats",
        "storage",
        "serving",
        "records",
        "collections",
        "shortcuts",
        "robustness",
        "encoders",
        "training",
        "sparse",
    ),
    *("retrieval", "evaluation", "studies", "reports", "cli"),
)
SLICES = tuple(BUILT_IN)
BESIDE = ("serving",)  # what applications share beside the road


def modules() -> dict[str, Path]:
    found = {}
    for path in (SOURCE / "visir").rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: Mapping[str, Path]) -> set[str]:
    """Modules of visir that a file imports; of `from visir.reports import plots` both the package and the module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found & known.keys()


MODULES = modules()


@cache
def graph() -> dict[str, set[str]]:
    """Module to those that it imports. Six seconds, and so not at import: each worker collects all tests."""
    return {name: imports(path, MODULES) - {name} for name, path in MODULES.items()}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def edges() -> Iterator[tuple[str, str]]:
    """Every import from one room into another; `visir` itself, which is its version and lazy names, is none."""
    for module, imported in graph().items():
        yield from ((module, other) for other in imported if room(other) != room(module) and room(module))


def test_the_road_imports_no_application() -> None:
    assert [f"{a} imports {b}" for a, b in edges() if room(b) in SLICES and room(a) not in SLICES] == []


def test_applications_do_not_import_one_another() -> None:
    assert [f"{a} imports {b}" for a, b in edges() if room(a) in SLICES and room(b) in SLICES] == []


def test_a_room_knows_only_rooms_before_it() -> None:
    place = {name: at for at, name in enumerate(ROAD)}
    rooms = {path.name for path in (SOURCE / "visir").iterdir() if (path / "__init__.py").is_file()}
    assert rooms == {*ROAD, *SLICES, *BESIDE}, "a new room needs a place on the road, or is an application"
    assert [f"{a} imports {b}" for a, b in edges() if place.get(room(b), -1) > place.get(room(a), len(ROAD))] == []


def test_small_tools_know_no_room_but_storage() -> None:
    rooms = {*ROAD, *SLICES} - {"storage"}
    known = [f"{a} imports {b}" for a, b in edges() if room(a) not in {*ROAD, *SLICES} and room(b) in rooms]
    assert known == ["visir.__main__ imports visir.cli.start"]


def test_the_picture_of_the_road_shows_every_room() -> None:
    page = (ROOT / "docs" / "background" / "architecture.md").read_text(encoding="utf-8")
    picture = page.split("```")[1]
    assert [name for name in (*ROAD, *SLICES) if name not in picture] == []
    rows = [name for name in (*ROAD, *SLICES) if f"\n| `{name}/` |" not in page]
    assert rows == [], "each room has a row of the table"


def test_the_table_of_applications_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert list(project["entry-points"]["visir.plugins"].items()) == list(BUILT_IN.items())


@pytest.mark.parametrize("name", PARTS)
def test_what_rooms_above_give_is_there(name: str) -> None:
    assert part(name) is not None


def test_only_one_file_names_what_stands_above_it() -> None:
    place = {name: at for at, name in enumerate((*ROAD, *SLICES))}
    named = {
        f"{name}: {node.value}"
        for name, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if name != "visir.wiring" and re.fullmatch(r"visir(\.\w+){2,}(:[\w.]+)?|visir\.\w+:[\w.]+", node.value)
        if place.get(room(node.value.partition(":")[0]), -1) > place.get(room(name), -1)
    }
    assert not named, "name it in visir/wiring.py, and ask visir.plugins for the part"


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_an_application_registers_is_there(name: str) -> None:
    application = load_target(BUILT_IN[name])
    assert application.name == name
    for verb in application.verbs:
        assert callable(load_target(verb.target)), verb
    for what, module in application.views.items():
        assert module.startswith(f"visir.{name}.") and load_target(module), what


def lazy_packages() -> dict[str, set[str]]:
    """The packages whose names are imported when first used → these names."""
    found = {}
    for name, path in MODULES.items():
        text = path.read_text(encoding="utf-8")
        if path.name == "__init__.py" and re.search(r"__getattr__, __dir__, __all__ = lazy\(", text):
            found[name] = set(__import__(name, fromlist=["__all__"]).__all__)
    return found


@pytest.mark.parametrize(("package", "names"), lazy_packages().items(), ids=list(lazy_packages()))
def test_no_module_hides_a_public_name_of_its_package(package: str, names: set[str]) -> None:
    """Importing `visir.a.b` makes `b` an attribute of `visir.a`: a function of that name would be gone from then on."""
    modules = {name.removeprefix(f"{package}.") for name in MODULES if name.startswith(f"{package}.")}
    meant = {"products", "sessions", "shortcuts", "stats"} if package == "visir" else set()
    hidden = sorted(names & modules - meant)
    assert not hidden, f"{package}: give these modules, or these names, another name: {hidden}"


def test_parquet_files_are_read_by_one_function() -> None:
    """pyarrow's own imports pandas, and reads streams in threads that abort a process that ends."""
    calls = [
        name for name, path in MODULES.items() if re.search(r"(?<!>>> )\bpq\.read_table\(", path.read_text("utf-8"))
    ]
    assert calls == ["visir.parquet"], "use visir.parquet.read_table"
