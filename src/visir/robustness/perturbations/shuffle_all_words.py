"""Shuffle All Words: all words in another order."""

from __future__ import annotations

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.order import any_order, with_words, words_at, written_words
from visir.robustness.random_stream import RandomStream


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Any other order of the written words, all equally likely; punctuation stays where it is."""
    spans = written_words(caption.text)
    words = words_at(caption.text, spans)
    return with_words(caption.text, spans, random.shuffled(words)) if words else caption.text


def paper(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """What lies between single spaces, punctuation attached ("hat."), in any order. Which orders were drawn is lost."""
    return " ".join(any_order(caption.text.split(" "), random))


SHUFFLE_ALL_WORDS = Perturbation(
    name="shuffle_all_words",
    title="Shuffle All Words",
    family="word order",
    level="sentence",
    change=change,
    about="All words in another order, drawn; punctuation stays where it is.",
    paper=paper,
    paper_about="punctuation moves with its word; the order may be the original one",
)
