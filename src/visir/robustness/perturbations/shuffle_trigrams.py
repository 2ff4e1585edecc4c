"""Shuffle Trigrams: groups of three words in another order."""

from __future__ import annotations

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.order import any_order, trigrams, with_words, words_at, written_words
from visir.robustness.perturbations.released import nltk_tokens
from visir.robustness.random_stream import RandomStream


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The trigrams of the written words, from the left, in another order, each kept whole; the last may be shorter."""
    spans = written_words(caption.text)
    words = words_at(caption.text, spans)
    groups = trigrams(words)
    # Different groups may still read the same in any order: "la la la", "la". They do only if all words are equal.
    if all(group == groups[0] for group in groups) or all(word == words[0] for word in words):
        return caption.text
    while (order := [word for group in random.shuffled(groups) for word in group]) == words:
        pass
    return with_words(caption.text, spans, order)


def paper(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The trigrams of NLTK's tokens in any order, their own too, joined by spaces. Which orders were drawn is lost."""
    groups = trigrams(nltk_tokens(caption.text)[1])
    return " ".join(token for group in any_order(groups, random) for token in group)


SHUFFLE_TRIGRAMS = Perturbation(
    name="shuffle_trigrams",
    title="Shuffle Trigrams",
    family="word order",
    level="sentence",
    change=change,
    about="Groups of three words, from the left, in another order; punctuation stays where it is.",
    paper=paper,
    paper_about="punctuation counts as a word; tokens joined by spaces; the order may be the original one",
)
