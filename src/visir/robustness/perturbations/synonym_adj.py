"""Synonym Adjective: adjectives become others that mean the same."""

from __future__ import annotations

from visir.robustness.language.tagset import is_adjective
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.synonyms import released, synonyms

SYNONYM_ADJ = Perturbation(
    name="synonym_adj",
    title="Synonym Adjective",
    family="synonyms",
    level="word",
    change=synonyms("a", is_adjective),
    about="An adjective, drawn, becomes the first other word of its first sense in WordNet, in its form and capitals.",
    paper=released(lambda tag: tag.startswith("JJ")),
    paper_about="the first adjective; any sense of any part of speech; not inflected; tokens joined by spaces",
    severity="words",
    needs_words=True,
)
