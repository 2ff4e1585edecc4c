"""Perturbations of captions: those of Table 4 in its order, then others.

A new one is a class in a file of its kind, its import, and its place in the tuple below.
"""

from visir.robustness.perturbations.base import PERTURBATIONS, Perturbation, find, names_in
from visir.robustness.perturbations.distractions import DISTRACTION_FALSE, DISTRACTION_TRUE
from visir.robustness.perturbations.meaning import NEGATION, SWAP_ATTRIBUTE, SWAP_RELATION
from visir.robustness.perturbations.order import (
    SHUFFLE_ALL_WORDS,
    SHUFFLE_ALLBUT_NOUNS_AND_ADJ,
    SHUFFLE_NOUNS_AND_ADJ,
    SHUFFLE_TRIGRAMS,
    SHUFFLE_WITHIN_TRIGRAMS,
)
from visir.robustness.perturbations.paraphrase import PARAPHRASE
from visir.robustness.perturbations.synonyms import SYNONYM_ADJ, SYNONYM_NOUN
from visir.robustness.perturbations.typos import CHAR_SWAP, EXTRA_CHAR, MISSING_CHAR, NEARBY_CHAR

__all__ = ["PERTURBATIONS", "Perturbation", "find", "names_in"]

for _one in (
    CHAR_SWAP,
    MISSING_CHAR,
    EXTRA_CHAR,
    NEARBY_CHAR,
    SYNONYM_NOUN,
    SYNONYM_ADJ,
    DISTRACTION_TRUE,
    DISTRACTION_FALSE,
    SHUFFLE_NOUNS_AND_ADJ,
    SHUFFLE_ALL_WORDS,
    SHUFFLE_ALLBUT_NOUNS_AND_ADJ,
    SHUFFLE_WITHIN_TRIGRAMS,
    SHUFFLE_TRIGRAMS,
    PARAPHRASE,
    NEGATION,
    SWAP_RELATION,
    SWAP_ATTRIBUTE,
):
    PERTURBATIONS.add(_one.name, _one)
