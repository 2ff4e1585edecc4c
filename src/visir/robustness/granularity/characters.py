"""Characters of a caption (section 3.1.2, "Caption Length")."""

import unicodedata

import numpy as np

from visir.robustness.granularity.tokens import CaptionFeature, TokenColumns, Values


def paper(tokens: TokenColumns) -> Values:
    """Characters of the text as the file has it, spaces at its end and line breaks among them."""
    # It gives all four values of Table 1 to the last digit, from the captions of Karpathy's JSON. The texts of the
    # VSE++ distribution, where such spaces are cut off, give 52.24 for COCO.
    return np.array([len(text) for text in tokens.texts], np.float64)


def strict(tokens: TokenColumns) -> Values:
    """Characters that can be seen: white space counts once between words and not at the ends."""
    # Letters with accents count once, however they are encoded (Unicode NFC). Another reading leaves all spaces out.
    return np.array([len(unicodedata.normalize("NFC", " ".join(text.split()))) for text in tokens.texts], np.float64)


CHARACTERS = CaptionFeature(
    "characters",
    "Caption length",
    "caption",
    paper,
    strict,
    "characters as stored, spaces at the end too",
    "characters, white space once between words",
)
