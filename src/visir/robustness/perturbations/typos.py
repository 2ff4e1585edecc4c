"""The four typing errors: where they strike, in which case, and what each does to a word."""

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


_WORDS = re.compile(r"\w+")
"""Where the released code strikes."""


# Character Swap: two letters that follow one another in a word change places.


def swap(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """`severity` swaps of two different neighbouring letters; capitals stay where they are: "Happy" → "Ahppy"."""
    # Two equal letters are no candidates: swapping them would change nothing, and be counted as if it had.
    text = caption.text
    for place in places(random, text, _can_swap, severity):
        text = text[:place] + _swapped(text, place) + text[place + 2 :]
    return text


def _can_swap(text: str, place: int) -> bool:
    return (
        place + 1 < len(text)
        and is_letter(text, place)
        and is_letter(text, place + 1)
        and _swapped(text, place) != text[place : place + 2]
    )


def _swapped(text: str, place: int) -> str:
    first, second = text[place], text[place + 1]
    return cased_like(second, first) + cased_like(first, second)


@repeated
def swap_released(text: str, numbers: random.Random) -> str:
    """`typo`'s char_swap: any two word characters, digits and equal letters too."""
    place = nth(_WORDS, text, numbers, room=1)
    if place is None:
        return text
    first, second = text[place], text[place + 1]
    swapped = (second.upper() if first.isupper() else second.lower()) + (
        first.upper() if second.isupper() else first.lower()
    )
    return text[:place] + swapped + text[place + 2 :]


CHAR_SWAP = Perturbation(
    name="char_swap",
    title="Character Swap",
    family="typos",
    level="word",
    change=swap,
    about="Two neighbouring letters of a word, drawn, change places; capitals stay where they are.",
    paper=swap_released,
    paper_about="seed 42 for every caption; digits too; two equal letters may be swapped, which changes nothing",
    severity="characters",
)


# Missing Character: a letter is left out.


def leave_out(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """`severity` letters left out, of words of two letters or more."""
    # A word of one letter is no candidate: without it, a word is missing, not a character.
    text = caption.text
    for place in reversed(places(random, text, _can_leave_out, severity)):
        text = text[:place] + text[place + 1 :]
    return text


def _can_leave_out(text: str, place: int) -> bool:
    if not is_letter(text, place):
        return False
    return text[place + 1 : place + 2].isalpha() or text[max(place - 1, 0) : place].isalpha()


_TWO = re.compile(r"\w\W*\w")


@repeated
def leave_out_released(text: str, numbers: random.Random) -> str:
    """`typo`'s missing_char: any word character, digits and words of one letter too; one at least is left."""
    place = nth(_WORDS, text, numbers) if _TWO.search(text) else None
    return text if place is None else text[:place] + text[place + 1 :]


MISSING_CHAR = Perturbation(
    name="missing_char",
    title="Missing Character",
    family="typos",
    level="word",
    change=leave_out,
    about="A letter, drawn, is left out of a word of two letters or more.",
    paper=leave_out_released,
    paper_about="seed 42 for every caption; digits and words of one letter too",
    severity="characters",
)


# Extra Character: the finger strikes a key beside the letter as well.


def strike_beside(keyboard: str) -> Change:
    """The change on a keyboard: before or behind `severity` letters stands one that touches it there, in its case."""
    near = neighbours(keyboard)
    fits = on_keys(near)

    def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
        text = caption.text
        for place in reversed(places(random, text, fits, severity)):
            extra = random.choice(near[text[place]])
            position = place + random.below(2)
            text = text[:position] + extra + text[position:]
        return text

    return change


@repeated
def strike_beside_released(text: str, numbers: random.Random) -> str:
    """`typo`'s extra_char: before any word character, digits too; é, which has no neighbour, is doubled."""
    place = nth(_WORDS, text, numbers)
    return text if place is None else text[:place] + neighbour(text[place], numbers) + text[place:]


EXTRA_CHAR = Perturbation(
    name="extra_char",
    title="Extra Character",
    family="typos",
    level="word",
    change=strike_beside("qwerty"),
    about="Before or behind a letter, drawn, stands one more that lies beside it on the keyboard.",
    paper=strike_beside_released,
    paper_about="seed 42 for every caption; always before it; digits too",
    severity="characters",
    on=strike_beside,
)


# Nearby Character: the finger strikes the key beside the letter.


def miss(keyboard: str) -> Change:
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


@repeated
def miss_released(text: str, numbers: random.Random) -> str:
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
    change=miss("qwerty"),
    about="A letter, drawn, becomes one that lies beside it on the keyboard, in the same case.",
    paper=miss_released,
    paper_about="seed 42 for every caption; digits too",
    severity="characters",
    on=miss,
)
