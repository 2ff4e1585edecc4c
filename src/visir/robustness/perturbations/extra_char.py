"""Extra Character: the finger strikes a key beside the letter as well."""

from __future__ import annotations

import random
import re

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Change, Perturbation
from visir.robustness.perturbations.released import neighbour, nth, repeated
from visir.robustness.perturbations.typos import neighbours, on_keys, places
from visir.robustness.random_stream import RandomStream


def on(keyboard: str) -> Change:
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


_WORDS = re.compile(r"\w+")


@repeated
def paper(text: str, numbers: random.Random) -> str:
    """`typo`'s extra_char: before any word character, digits too; é, which has no neighbour, is doubled."""
    place = nth(_WORDS, text, numbers)
    return text if place is None else text[:place] + neighbour(text[place], numbers) + text[place:]


EXTRA_CHAR = Perturbation(
    name="extra_char",
    title="Extra Character",
    family="typos",
    level="word",
    change=on("qwerty"),
    about="Before or behind a letter, drawn, stands one more that lies beside it on the keyboard.",
    paper=paper,
    paper_about="seed 42 for every caption; always before it; digits too",
    severity="characters",
    on=on,
)
