"""Nearby Character: the finger strikes the key beside the letter."""

from __future__ import annotations

import random
import re

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Change, Perturbation
from visir.robustness.perturbations.keyboards import neighbours
from visir.robustness.perturbations.released import neighbour, nth, repeated
from visir.robustness.perturbations.typos import on_keys, places
from visir.robustness.random_stream import RandomStream


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
