"""Rich's console, through which no text of others commands the terminal (`visir.terminal`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console as RichConsole
from rich.segment import Segment

from visir.terminal import safe


class Console(RichConsole):
    """As Rich's own."""

    # Rich makes segments of text and style, and only then escape sequences of the styles: here, in between, what is
    # text is made safe.

    @property
    def file(self) -> IO[str]:
        """Where is written: below all streams that make text safe, of which a bar puts one above the other."""
        file = super().file
        while hasattr(file, "rich_proxied_file"):
            file = file.rich_proxied_file
        return file

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else Segment(safe(segment.text), segment.style) for segment in buffer
        )
