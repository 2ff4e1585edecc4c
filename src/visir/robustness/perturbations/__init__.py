"""Perturbations of captions: those of Table 4 in its order, then others.

A new one is a class in a file of its kind, its import, and its place in the tuple below.
"""

from visir.robustness.perturbations.base import PERTURBATIONS, Perturbation, find, names_in
from visir.robustness.perturbations.char_swap import CHAR_SWAP
from visir.robustness.perturbations.distractions import DISTRACTION_FALSE, DISTRACTION_TRUE
from visir.robustness.perturbations.extra_char import EXTRA_CHAR
from visir.robustness.perturbations.missing_char import MISSING_CHAR
from visir.robustness.perturbations.order import SHUFFLE_ALL_WORDS
from visir.robustness.perturbations.paraphrase import PARAPHRASE
from visir.robustness.perturbations.phrases import NEGATION
from visir.robustness.perturbations.shuffle_allbut_nouns_and_adj import SHUFFLE_ALLBUT_NOUNS_AND_ADJ
from visir.robustness.perturbations.shuffle_nouns_and_adj import SHUFFLE_NOUNS_AND_ADJ
from visir.robustness.perturbations.shuffle_trigrams import SHUFFLE_TRIGRAMS
from visir.robustness.perturbations.shuffle_within_trigrams import SHUFFLE_WITHIN_TRIGRAMS
from visir.robustness.perturbations.swap_attribute import SWAP_ATTRIBUTE
from visir.robustness.perturbations.swap_relation import SWAP_RELATION
from visir.robustness.perturbations.synonyms import SYNONYM_ADJ, SYNONYM_NOUN
from visir.robustness.perturbations.typos import NEARBY_CHAR

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
