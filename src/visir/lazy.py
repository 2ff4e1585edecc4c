"""Names of a package that are imported when first used, so that importing the package stays instant."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_BLOCK = re.compile(r"^if TYPE_CHECKING:\n((?:[ ].*\n|\n)+)", re.MULTILINE)
_IMPORT = re.compile(r"from (\S+) import (\([^)]*\)|.*)")
_NAME = re.compile(r"(\w+) as \1\b")


def lazy(
    package: str, *, apart: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package that says its public names for type checkers alone."""
    # They stand once, as `from visir.training.run import train as train` under `if TYPE_CHECKING:`: what type checkers
    # and editors read is what is imported here when it is first used.
    # `apart`: names that became distributions of their own → how pip calls them.
    source: str = sys.modules[package].__loader__.get_source(package)  # type: ignore[union-attr]
    block = _BLOCK.search(source)
    modules = {
        name: module for module, names in _IMPORT.findall(block[1] if block else "") for name in _NAME.findall(names)
    }
    names = sorted(modules, key=lambda name: (not name[0].isupper(), name))

    def __getattr__(name: str) -> Any:
        if apart is not None and name in apart:
            from visir.errors import VisirError  # no AttributeError: `from visir import papers` would not show it

            raise VisirError(
                f"{package}.{name} is a package of its own.",
                hint=f"pip install {apart[name]}, then import {apart[name].replace('-', '_')}",
                code="package-of-its-own",
            )
        if name not in modules:
            if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
                return import_module(f"{package}.{name}")  # `import visir`, then `visir.library.update(…)`
            near = get_close_matches(name, modules, 1)
            meant = f". Did you mean: {near[0]!r}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{meant}")
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(modules[name]), name)

    def __dir__() -> list[str]:
        special = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*special, *names})

    return __getattr__, __dir__, names
