"""Language models that say how likely a text is: what a blind system knows."""

from visir.evaluation.language.base import LanguageModel, language_model
from visir.evaluation.language.ngrams import NgramModel

__all__ = ["LanguageModel", "NgramModel", "language_model"]
