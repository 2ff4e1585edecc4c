"""Shuffle within Trigrams: three words at a time, each three in another order."""

from __future__ import annotations

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.order import any_order, trigrams, with_words, words_at, written_words
from visir.robustness.perturbations.released import nltk_tokens
from visir.robustness.random_stream import RandomStream


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Each three written words, from the left, in another order; so every trigram that can differ does."""
    spans = written_words(caption.text)
    words = [word for group in trigrams(words_at(caption.text, spans)) for word in random.shuffled(group)]
    return with_words(caption.text, spans, words)


def paper(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Each three of NLTK's tokens in any order, their own too, joined by spaces. Which orders were drawn is lost."""
    groups = trigrams(nltk_tokens(caption.text)[1])
    return " ".join(token for group in groups for token in any_order(group, random))


SHUFFLE_WITHIN_TRIGRAMS = Perturbation(
    name="shuffle_within_trigrams",
    title="Shuffle Within Trigrams",
    family="word order",
    level="sentence",
    change=change,
    about="Each three words, from the left, in another order; punctuation stays where it is.",
    paper=paper,
    paper_about="punctuation counts as a word; tokens joined by spaces; the order may be the original one",
)
