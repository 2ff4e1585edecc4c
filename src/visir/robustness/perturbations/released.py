"""What the paper profiles of typing errors share: the random numbers and the places of the released code.

The released code of the brittleness paper calls the package `typo` 0.1.7 (Ranvijay Kumar, MIT) with seed 42 for *every*
caption; that this is so is shown by the queries in the authors' logs, which come out the same, all of them. What is
written here is a function of our own that draws the same numbers from Python's Mersenne Twister in the same order.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Change
from visir.robustness.random_stream import RandomStream

SEED = 42

_OWN = threading.local()


def repeated(once: Callable[[str, random.Random], str]) -> Change:
    """The change that does `once` as often as the severity says, in numbers that begin anew with every caption."""
    # It heeds neither seed nor caption id: all captions of one length break at the same place.

    def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
        text, numbers = caption.text, _numbers()
        for _ in range(severity):
            text = once(text, numbers)
        return text

    return change


def nth(words: re.Pattern[str], text: str, numbers: random.Random, room: int = 0) -> int | None:
    """One of the places inside `words`, all equally likely, with `room` more characters of the word behind it."""
    spans = [(start, end - room) for start, end in (match.span() for match in words.finditer(text)) if end > start]
    count = sum(end - start for start, end in spans)
    if count == 0:
        return None
    left = numbers.randrange(count)
    for start, end in spans:
        if left < end - start:
            return start + left
        left -= end - start
    raise AssertionError("a number below the count lies in one of the spans")


# The neighbours as `typo` lists them, behind their key: the order decides what a drawn number means.
_LETTERS = (
    "aqwsz bvghn cxdfv dserfcx erdsw fdrtgvc gftyhbv hnbgyuj iokju jhuikmn kjiolm lkop mnjk "
    "nbhjm oiklp pol qaw redft sazxdew trfgy uyhji vcfgb wqasde xzsdc ytghu zasx"
)
_DIGITS = "012 14520 2014563 3256 478521 578946123 698523 7854 874569 9856"
LETTERS = {keys[0]: keys[1:] for keys in _LETTERS.split()}
DIGITS = {keys[0]: keys[1:] for keys in _DIGITS.split()}


def neighbour(character: str, numbers: random.Random) -> str:
    """A neighbour in the same case, of a digit now on the pad and now on the row; itself where it has none."""
    if character in DIGITS:
        pad = DIGITS[character]
        if numbers.randrange(2) == 0:  # `choice([True, False])` is True
            return pad[numbers.randrange(len(pad))]
        if character in "01":
            return {"0": "9", "1": "2"}[character]
        return str(int(character) + (1, -1)[numbers.randrange(2)])
    near = LETTERS.get(character.lower())
    if near is None:
        return character
    other = near[numbers.randrange(len(near))]
    return other.upper() if character.isupper() else other


def _numbers() -> random.Random:
    numbers: random.Random | None = getattr(_OWN, "numbers", None)
    if numbers is None:  # making one takes four times as long as setting one back
        numbers = _OWN.numbers = random.Random()
    numbers.seed(SEED)
    return numbers
