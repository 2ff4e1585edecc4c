"""Everything that `import visir` offers is there, documented, typed, and costs nothing before it is used."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import pydoc
import subprocess
import sys
import typing
from types import ModuleType

import pytest

import visir

HEAVY = ("torch", "pandas", "matplotlib", "sklearn", "transformers", "pyarrow", "PIL", "numba", "duckdb", "rich")
NAMES = sorted(set(visir.__all__) - {"__version__"})
WITHOUT_EXAMPLE = {"load_cross_encoder", "sparsify", "words"}
"""They need a model or a tokenizer, and minutes; the tutorial on words runs the latter two."""


def test_the_surface_is_seen() -> None:
    assert set(visir.__all__) <= set(dir(visir))
    assert visir.__all__ == sorted(visir.__all__, key=lambda name: (not name[0].isupper(), name))
    with pytest.raises(AttributeError, match="module 'visir' has no attribute 'serach'"):
        _ = visir.serach  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_in_the_guide_and_explained(name: str) -> None:
    thing = getattr(visir, name)
    guide = pydoc.plain(pydoc.render_doc(visir)).partition("\nDATA")[0]
    assert name in guide, f"help(visir) does not say {name}: write it into the docstring of visir/__init__.py"
    text = inspect.getdoc(thing) or ""
    assert text, f"visir.{name} has no docstring"
    if not isinstance(thing, ModuleType) and name not in WITHOUT_EXAMPLE:
        assert ">>> " in text, f"the docstring of visir.{name} has no example"


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isfunction(getattr(visir, name))])
def test_each_function_is_typed(name: str) -> None:
    signature = inspect.signature(getattr(visir, name))
    bare = [one.name for one in signature.parameters.values() if one.annotation is inspect.Parameter.empty]
    assert bare == [] and signature.return_annotation is not inspect.Signature.empty


def test_type_checkers_see_what_is_imported_late() -> None:
    """Names stand once, in the block for type checkers: what they read there is what is imported."""
    block = next(node for node in ast.parse(inspect.getsource(visir)).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: (node.module, alias.name) for node in imports for alias in node.names}
    assert {name for name, (_, own) in seen.items() if name == own} == set(visir.__all__)
    assert typing.TYPE_CHECKING is False
    for name, (module, _) in seen.items():
        value = getattr(visir, name)
        assert value is getattr(importlib.import_module(module or ""), name)


def test_importing_visir_imports_nothing_heavy() -> None:
    code = f"import sys, visir; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_importing_visir_is_instant() -> None:
    """At most 150 ms, the best of three: less than NumPy takes."""
    code = "import time; start = time.perf_counter(); import visir; print(time.perf_counter() - start)"
    took = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(took) < 0.15


def test_no_module_hides_a_public_name() -> None:
    """A module that is imported becomes an attribute of its package, before any name that is imported late."""
    hidden = []
    for info in pkgutil.walk_packages(visir.__path__, "visir."):
        names = _late_names(info.name) if info.ispkg else {}
        hidden += [f"{info.name}.{name}" for name, module in names.items() if _hides(info.name, name, module)]
    assert hidden == []


def _late_names(package: str) -> dict[str, str]:
    late = getattr(importlib.import_module(package), "__getattr__", None)
    return dict(inspect.getclosurevars(late).nonlocals["modules"]) if late else {}


def _hides(package: str, name: str, module: str) -> bool:
    """Folders of data are no modules: nothing imports them."""
    full = f"{package}.{name}"
    spec = None if module == full else importlib.util.find_spec(full)
    return spec is not None and spec.origin is not None


def test_what_became_a_package_of_its_own_says_so() -> None:
    for code in ("import visir; visir.papers", "from visir import papers"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "pip install visir-papers, then import visir_papers" in done.stderr
    assert "papers" not in dir(visir)
