"""What the two distractions share: a statement that is always true, at the end of the caption."""

from __future__ import annotations

import re

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Change, Perturbation
from visir.robustness.random_stream import RandomStream

_ENDINGS = " \t\r\n.!?…"
_WORD = re.compile(r"\w")


def distraction(statement: str) -> Change:
    """The change that adds " and STATEMENT" before what ends the sentence: "A dog runs!" → "A dog runs and …!"."""
    # Full stops, exclamation and question marks and white space at the end stay where they are, and none is added. Only
    # a caption without a word cannot be distracted from. There is nothing to count: the severity does nothing.

    def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
        text = caption.text
        if not _WORD.search(text):
            return text
        end = len(text.rstrip(_ENDINGS))
        return f"{text[:end]} and {statement}{text[end:]}"

    return change


def released(statement: str) -> Change:
    """The released code: a last full stop goes, " and STATEMENT." comes, whatever stood there."""

    def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
        return f"{caption.text.removesuffix('.')} and {statement}."

    return change


# Distraction False is False: a statement that is always true is added.

DISTRACTION_FALSE = Perturbation(
    name="distraction_false",
    title="Distraction False is False",
    family="distractions",
    level="sentence",
    change=distraction("false is false"),
    about='"and false is false" is added before the caption\'s last full stop.',
    paper=released("false is false"),
    paper_about="a full stop is added where there was none",
)


# Distraction True is True: a statement that is always true is added.

DISTRACTION_TRUE = Perturbation(
    name="distraction_true",
    title="Distraction True is True",
    family="distractions",
    level="sentence",
    change=distraction("true is true"),
    about='"and true is true" is added before the caption\'s last full stop.',
    paper=released("true it true"),
    paper_about='"and true it true." (so written); a full stop is added where there was none',
)
