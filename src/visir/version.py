"""The version of visir: that of the installed package, which its build takes from the last tag."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str


@cache
def installed_version() -> str:
    """The version, e.g. "0.2.0"; "0+unknown" for sources that were never installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and most commands do not need it

    try:
        return version("visir")
    except PackageNotFoundError:
        return "0+unknown"


def __getattr__(name: str) -> str:
    if name == "__version__":
        return installed_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
