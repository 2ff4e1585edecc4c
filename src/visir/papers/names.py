"""The names of the studies."""

from __future__ import annotations

import re
from pathlib import Path

TABLES = Path(__file__).parent / "tables"


def names() -> list[str]:
    """All studies, by document and number."""
    return sorted((path.stem for path in TABLES.glob("*.toml")), key=_by_number)


def _by_number(name: str) -> tuple[str, int, list[int]]:
    """Tables first, then figures, of each document and chapter."""
    numbers = [int(digits) for digits in re.findall(r"\d+", name)]
    chapter = numbers[:1] if name.startswith("thesis") else []
    return name.partition("-")[0], chapter[0] if chapter else 0, [int("figure" in name), *numbers]
