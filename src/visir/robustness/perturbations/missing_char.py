"""Missing Character: a letter is left out."""

from __future__ import annotations

import random
import re

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.released import nth, repeated
from visir.robustness.perturbations.typos import is_letter, places
from visir.robustness.random_stream import RandomStream


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """`severity` letters left out, of words of two letters or more."""
    # A word of one letter is no candidate: without it, a word is missing, not a character.
    text = caption.text
    for place in reversed(places(random, text, _fits, severity)):
        text = text[:place] + text[place + 1 :]
    return text


def _fits(text: str, place: int) -> bool:
    if not is_letter(text, place):
        return False
    return text[place + 1 : place + 2].isalpha() or text[max(place - 1, 0) : place].isalpha()


_WORDS = re.compile(r"\w+")
_TWO = re.compile(r"\w\W*\w")


@repeated
def paper(text: str, numbers: random.Random) -> str:
    """`typo`'s missing_char: any word character, digits and words of one letter too; one at least is left."""
    place = nth(_WORDS, text, numbers) if _TWO.search(text) else None
    return text if place is None else text[:place] + text[place + 1 :]


MISSING_CHAR = Perturbation(
    name="missing_char",
    title="Missing Character",
    family="typos",
    level="word",
    change=change,
    about="A letter, drawn, is left out of a word of two letters or more.",
    paper=paper,
    paper_about="seed 42 for every caption; digits and words of one letter too",
    severity="characters",
)
