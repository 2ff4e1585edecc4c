"""The packages of this repository: visir, and what is a distribution of its own beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (ROOT / "src" / "visir", ROOT / "papers" / "src" / "visir_papers")


def module_of(path: Path) -> str:
    """The dotted name of a file of one of them."""
    source = next(package.parent for package in PACKAGES if path.is_relative_to(package))
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def python_files() -> list[Path]:
    """All files of code, package by package."""
    return [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]
