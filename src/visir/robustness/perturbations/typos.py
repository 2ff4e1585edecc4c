"""What the four typing errors share: where they strike, and in which case."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence

from visir.robustness.random_stream import RandomStream

Fits = Callable[[str, int], bool]
"""(text, place) → whether the error can be made there."""

_TRIES = 6  # most characters of a caption are letters: drawing again is cheaper than listing all places


def places(random: RandomStream, text: str, fits: Fits, count: int) -> list[int]:
    """At most `count` places where `fits`, in rising order, no two of them side by side; fewer where there are
    fewer."""
    # All fitting places are equally likely. Errors that do not touch stay separate errors: no word of two letters loses
    # both, and no swap undoes another.
    length = len(text)
    if count == 1 and length:
        for _ in range(_TRIES):
            place = random.below(length)
            if fits(text, place):
                return [place]
    fitting = [place for place in range(length) if fits(text, place)]
    chosen: list[int] = []
    blocked: set[int] = set()
    for i in random.sample(len(fitting), len(fitting)) if count else ():
        place = fitting[i]
        if place not in blocked:
            chosen.append(place)
            blocked |= {place - 1, place, place + 1}
            if len(chosen) == count:
                break
    return sorted(chosen)


def is_letter(text: str, place: int) -> bool:
    """Whether a whole letter stands there: not a digit, and none that carries accents as characters of their own.

    (`re`'s \\w, which the released code takes, has digits and "_" in it: a 2 that becomes a 3 is not a misspelling, it
    is another picture.)
    """
    if not text[place].isalpha():
        return False
    return text.isascii() or place + 1 == len(text) or unicodedata.category(text[place + 1])[0] != "M"


def on_keys(near: Mapping[str, Sequence[str]]) -> Fits:
    """Letters that a keyboard has: `near` tells what lies beside each."""

    def fits(text: str, place: int) -> bool:
        return text[place] in near and is_letter(text, place)

    return fits


def cased_like(character: str, example: str) -> str:
    """The character in the case of `example`; as it is where that would take several characters (ß, ŉ)."""
    if example.isupper():
        other = character.upper()
    elif example.islower():
        other = character.lower()
    else:
        return character
    return other if len(other) == 1 else character
