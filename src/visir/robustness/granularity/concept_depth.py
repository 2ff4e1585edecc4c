"""Concept depth of a caption: how far down WordNet its words stand (section 3.1.1, "Semantics")."""

from collections.abc import Sequence

import numpy as np

from visir.robustness.granularity.tokens import CaptionFeature, Mask, TokenColumns, Values, all_senses, share
from visir.robustness.language.wordnet import Pos, wordnet


def paper(tokens: TokenColumns) -> Values:
    """Mean over the words that WordNet knows, whatever they are, of the depth of their deepest sense."""
    # The depth of a sense is the length of the shortest way up to a root ("minimum depth"); of all senses of a word, in
    # every part of speech, the deepest counts ("the maximum depth across all synsets"). Adjectives and adverbs have no
    # ways up: 0. So "a" counts, and is 10 deep, for A is a nucleotide; without "a" and "an" COCO has 7.42 for Table 1's
    # 7.89.
    return _mean_depth(tokens, ("n", "v", "a", "r"), np.ones(len(tokens), bool))


def strict(tokens: TokenColumns) -> Values:
    """Mean over the nouns of the depth of their deepest noun sense, by the same rule: a concept is what a noun
    names."""
    # Another reading takes the most frequent sense instead of the deepest, which is often not the one that is meant
    # (the deepest man is the hominid). It gives lower values, 7.28 | 7.28 for COCO and 6.66 | 6.71 for Flickr30k.
    return _mean_depth(tokens, ("n",), tokens.nouns)


def _mean_depth(tokens: TokenColumns, pos: Sequence[Pos], chosen: Mask) -> Values:
    """(n,) the mean depth over the chosen tokens that WordNet knows; NaN for a caption that has none."""
    net = wordnet()
    of_form = np.full(len(tokens.forms), np.nan)
    for number in np.unique(tokens.form[chosen]).tolist():
        senses = all_senses(tokens.forms[number], pos)
        if senses:
            of_form[number] = max(map(net.min_depth, senses))
    depths = of_form[tokens.form]
    defined = chosen & ~np.isnan(depths)
    return share(tokens.sum(np.where(defined, depths, 0.0)), tokens.sum(defined))


CONCEPT_DEPTH = CaptionFeature(
    "concept_depth",
    "Concept depth",
    "noun phrase",
    paper,
    strict,
    "depth of the deepest sense, mean over all words that WordNet knows",
    "depth of the deepest sense, mean over nouns",
)
