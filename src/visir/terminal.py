"""Text of other people on a terminal, such as file names and captions: it is shown, and commands nothing.

A terminal obeys control characters: a file's name can move the cursor, retitle the window, write into the clipboard, or
turn the text around it so that "gpj.exe" reads "exe.jpg". Everything that visir prints goes through this one place:
`protect` wraps standard output and error, `visir.console.Console` does the same for tables and bars. They show such
characters as JSON writes them, "\\u001b", so that JSON that is printed stays JSON, of the same value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

_UNSAFE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line end; C1, which some terminals obey too
    r"\u2028\u2029"  # ends of lines to some
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # directions of writing
    r"\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff"  # bytes of a file's name that are no Unicode
)
_RESET = "\x1b[0m"
_IN_TEXT = re.compile(f"[{_UNSAFE}]")
_IN_LINE = re.compile(rf"[\t\n{_UNSAFE}]")


def safe(text: str) -> str:
    """Text that commands nothing: control characters, directions and half characters as escapes; lines stay lines."""
    return _IN_TEXT.sub(_escaped, text)


def one_line(text: str) -> str:
    """The same for a name, which is on one line: tabs and line ends are escaped too."""
    return _IN_LINE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


class SafeStream:
    """A text stream that what is written passes through `safe`."""

    # `rich_proxied_file` is where Rich writes, and `trusted` whoever makes escape sequences on purpose: both see to it
    # themselves that no text of others is in them unescaped.

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write text. Carriage returns that it begins with are those of a bar, which only goes over its own line."""
        if text == _RESET:  # colorama, which other packages bring, says so at the end: nothing is to be reset
            return len(text)
        rest = text.lstrip("\r")
        self.rich_proxied_file.write(text[: len(text) - len(rest)] + safe(rest))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def protect() -> None:
    """From here on nothing that this process prints commands the terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, SafeStream):
            setattr(sys, name, SafeStream(stream))


def trusted(stream: TextIO) -> TextIO:
    """Where escape sequences of one's own are written."""
    return getattr(stream, "rich_proxied_file", stream)
