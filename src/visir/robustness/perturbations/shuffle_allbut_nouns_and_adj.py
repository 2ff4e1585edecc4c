"""Shuffle All Words But Nouns and Adjectives: these stay, all others change places."""

from __future__ import annotations

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.order import permuted
from visir.robustness.perturbations.released import released_order
from visir.robustness.random_stream import RandomStream


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Verbs, articles, prepositions and all else permuted among their own places; punctuation is no word, and stays."""
    return permuted(caption, random, ("other",))


def paper(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The same of spaCy's tokens, punctuation among them, joined by spaces. Which orders were drawn is lost."""
    return released_order(caption, random, [lambda tag: not tag.startswith(("NN", "JJ"))])


SHUFFLE_ALLBUT_NOUNS_AND_ADJ = Perturbation(
    name="shuffle_allbut_nouns_and_adj",
    title="Shuffle but N&A",
    family="word order",
    level="sentence",
    change=change,
    about="Nouns and adjectives stay; all other words change places with one another.",
    paper=paper,
    paper_about="punctuation is shuffled too; tokens joined by spaces; the order may be the original one",
    needs_words=True,
)
