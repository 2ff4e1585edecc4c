"""Names of a package that are imported when first used, so that importing the package stays instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: `where` maps each public name to the module that defines it."""

    def __getattr__(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(where[name]), name)

    return __getattr__
