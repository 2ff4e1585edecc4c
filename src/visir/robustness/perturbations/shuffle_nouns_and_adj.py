"""Shuffle Nouns and Adjectives: nouns change places with nouns, adjectives with adjectives."""

from __future__ import annotations

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.order import permuted
from visir.robustness.perturbations.released import released_order
from visir.robustness.random_stream import RandomStream


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Each class permuted among its own places, so that the sentence stays grammatical: "A red hat on a blue dog"."""
    return permuted(caption, random, ("noun", "adjective"))


def paper(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The same of spaCy's tokens, joined by spaces; the order may be its own. Which orders were drawn is lost."""
    return released_order(caption, random, [lambda tag: tag.startswith("NN"), lambda tag: tag.startswith("JJ")])


SHUFFLE_NOUNS_AND_ADJ = Perturbation(
    name="shuffle_nouns_and_adj",
    title="Shuffle N&A",
    family="word order",
    level="sentence",
    change=change,
    about="Nouns change places with nouns, adjectives with adjectives; all other words stay.",
    paper=paper,
    paper_about="tokens joined by spaces; the order may be the original one",
    needs_words=True,
)
