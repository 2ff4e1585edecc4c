"""Words of a caption (section 3.1.2, "Number of Words")."""

import re

import numpy as np

from visir.robustness.granularity.tokens import CaptionFeature, TokenColumns, Values

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def paper(tokens: TokenColumns) -> Values:
    """Pieces between single spaces, `len(text.split(" "))`: empty pieces count, at double spaces and at the end."""
    # It gives all four values of Table 1 to the last digit.
    return np.array([text.count(" ") + 1 for text in tokens.texts], np.float64)


def strict(tokens: TokenColumns) -> Values:
    """Pieces between white space that hold a letter or a digit: "t-shirt" and "man's" are one word, "-" is none."""
    # Another reading counts the tagger's tokens, of which "man's" is two in some taggers and one in others.
    search = _LETTER_OR_DIGIT.search
    return np.array([sum(search(piece) is not None for piece in text.split()) for text in tokens.texts], np.float64)


WORDS = CaptionFeature(
    "words",
    "Number of words in a caption",
    "caption",
    paper,
    strict,
    "pieces between single spaces, empty ones too",
    "pieces between white space that hold a letter or digit",
)
