"""Studies that write themselves into a folder, as `visir … --out` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from visir.plugins import load_target


class Saved:
    """A study that can be written into a folder. What writes it is in a later room, so it is named, not imported."""

    _writer: ClassVar[str] = ""

    def __init_subclass__(cls, *, writer: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if writer:
            cls._writer = writer

    def save(self, folder: str | Path) -> Path:
        """Write every number, the tables and a page into a folder, complete or not at all."""
        load_target(self._writer)(self, Path(folder))
        return Path(folder)
