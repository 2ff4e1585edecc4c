"""Synonym Noun: nouns become others that mean the same."""

from __future__ import annotations

from visir.robustness.language.tagset import is_noun
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.synonyms import released, synonyms

SYNONYM_NOUN = Perturbation(
    name="synonym_noun",
    title="Synonym Noun",
    family="synonyms",
    level="word",
    change=synonyms("n", is_noun),
    about="A noun, drawn, becomes the first other word of its first sense in WordNet, in its form and capitals.",
    paper=released(lambda tag: tag.startswith("NN")),
    paper_about="the first noun; any sense of any part of speech; not inflected; tokens joined by spaces",
    severity="words",
    needs_words=True,
)
