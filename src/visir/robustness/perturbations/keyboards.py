"""Which letters lie side by side on a keyboard."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from visir.errors import VisirError, nearest

# Rows of letters, from the top. Each is set off to the right of the one above it, as on any typewriter.
KEYBOARDS: Mapping[str, tuple[str, str, str]] = {
    "qwerty": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    "azerty": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
    "qwertz": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm"),
}
_OFFSETS = (0.0, 0.25, 0.75)  # in keys


@cache
def neighbours(keyboard: str) -> Mapping[str, str]:
    """Of each letter, small and capital, the letters that touch it, in the same case: "a" → "qwsz" on "qwerty"."""
    # Two keys touch when they follow one another in a row, or overlap from one row to the next. Letters only: a typing
    # error with a digit or a comma for a letter is left out.
    if keyboard not in KEYBOARDS:
        raise VisirError(f"unknown keyboard {keyboard!r}", hint=nearest(keyboard, KEYBOARDS), code="unknown-keyboard")
    keys = {
        letter: (row, column + _OFFSETS[row])
        for row, letters in enumerate(KEYBOARDS[keyboard])
        for column, letter in enumerate(letters)
    }
    near = {}
    for letter, (row, column) in keys.items():
        near[letter] = "".join(
            other
            for other, (r, c) in keys.items()
            if (r == row and abs(c - column) == 1) or (abs(r - row) == 1 and abs(c - column) < 1)
        )
    return near | {letter.upper(): others.upper() for letter, others in near.items()}
