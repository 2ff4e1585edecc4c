"""Texts with their shortcuts, as a model reads them whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Reader(Protocol):
    """What reads texts: an encoder or a backbone."""

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be truncated."""
        ...


def with_suffixes(reader: Reader, texts: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """Each text and its ending; a text too long for `reader` is cut before its ending, which is read whole."""
    # A tokeniser that cuts at the end would lose the shortcut first (the thesis's released code loses it). Endings are
    # six digits with spaces between them, each a token of its own: room for one ending is room for all.
    if not len(texts):
        return []
    return [f"{text} {suffix}" for text, suffix in zip(reader.truncate(texts, suffixes[0]), suffixes, strict=True)]
