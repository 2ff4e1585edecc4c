"""What the four typing errors share: where they strike, and in which case."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from visir.errors import VisirError, nearest
from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Change, Perturbation
from visir.robustness.perturbations.released import neighbour, nth, repeated
from visir.robustness.random_stream import RandomStream

# Which letters lie side by side on a keyboard.

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


# Nearby Character: the finger strikes the key beside the letter.


def on(keyboard: str) -> Change:
    """The change on a keyboard: `severity` letters become one that touches them there, in the same case."""
    # Letters that the keyboard does not have (é on "qwerty") are no candidates.
    near = neighbours(keyboard)
    fits = on_keys(near)

    def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
        text = caption.text
        for place in places(random, text, fits, severity):
            text = text[:place] + random.choice(near[text[place]]) + text[place + 1 :]
        return text

    return change


_WORDS = re.compile(r"\w+")


@repeated
def paper(text: str, numbers: random.Random) -> str:
    """`typo`'s nearby_char: any word character, digits too; é, which has no neighbour, stays."""
    place = nth(_WORDS, text, numbers)
    if place is None:
        return text
    other = neighbour(text[place], numbers)
    return text[:place] + (other.upper() if text[place].isupper() else other.lower()) + text[place + 1 :]


NEARBY_CHAR = Perturbation(
    name="nearby_char",
    title="Nearby Character",
    family="typos",
    level="word",
    change=on("qwerty"),
    about="A letter, drawn, becomes one that lies beside it on the keyboard, in the same case.",
    paper=paper,
    paper_about="seed 42 for every caption; digits too",
    severity="characters",
    on=on,
)
