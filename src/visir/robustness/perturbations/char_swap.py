"""Character Swap: two letters that follow one another in a word change places."""

from __future__ import annotations

import random
import re

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.released import nth, repeated
from visir.robustness.perturbations.typos import cased_like, is_letter, places
from visir.robustness.random_stream import RandomStream


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """`severity` swaps of two different neighbouring letters; capitals stay where they are: "Happy" → "Ahppy"."""
    # Two equal letters are no candidates: swapping them would change nothing, and be counted as if it had.
    text = caption.text
    for place in places(random, text, _fits, severity):
        text = text[:place] + _swapped(text, place) + text[place + 2 :]
    return text


def _fits(text: str, place: int) -> bool:
    return (
        place + 1 < len(text)
        and is_letter(text, place)
        and is_letter(text, place + 1)
        and _swapped(text, place) != text[place : place + 2]
    )


def _swapped(text: str, place: int) -> str:
    first, second = text[place], text[place + 1]
    return cased_like(second, first) + cased_like(first, second)


_WORDS = re.compile(r"\w+")


@repeated
def paper(text: str, numbers: random.Random) -> str:
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
    change=change,
    about="Two neighbouring letters of a word, drawn, change places; capitals stay where they are.",
    paper=paper,
    paper_about="seed 42 for every caption; digits too; two equal letters may be swapped, which changes nothing",
    severity="characters",
)
