"""What each token of a text stands for, as text that people can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_PARTIAL = "\N{REPLACEMENT CHARACTER}"


def token_pieces(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The text of each token: " dog" (with the space before it), "##ning", "[MASK]"."""
    # A character that several tokens spell byte by byte (Chinese, emoji) is the text of each of them.
    pieces = [str(tokenizer.decode([token])) for token in ids]
    start = 0
    while start < len(pieces):
        stop = start + 1
        if _PARTIAL in pieces[start]:
            while stop < len(pieces) and _PARTIAL in tokenizer.decode(list(ids[start:stop])):
                stop += 1
            together = str(tokenizer.decode(list(ids[start:stop])))
            if _PARTIAL not in together:
                pieces[start:stop] = [together] * (stop - start)
            else:  # the text itself has this character, or is cut within one
                stop = start + 1
        start = stop
    return pieces
