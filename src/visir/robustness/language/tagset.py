"""The parts of speech: the tags of HanTa's English model, which are those of the British National Corpus (C5)."""

from __future__ import annotations

PENN: dict[str, str] = {
    "AJ0": "JJ",  # red
    "AJC": "JJR",  # redder
    "AJS": "JJS",  # reddest
    "AT0": "DT",  # a, an, the, no, every
    "AV0": "RB",  # quickly, more
    "AVP": "RP",  # particles of verbs: up, out, off
    "AVQ": "WRB",  # when, where, how
    "CJC": "CC",  # and, or, but
    "CJS": "IN",  # while, as, because
    "CJT": "IN",  # that, before a clause or as a relative pronoun (WDT there)
    "CRD": "CD",  # two, 3
    "DPS": "PRP$",  # his, their
    "DT0": "DT",  # this, some, each, another, both (PDT before an article), many, several (JJ there)
    "DTQ": "WDT",  # which, what, whose (WP$ there)
    "EX0": "EX",  # there (is)
    "IN": "IN",
    "ITJ": "UH",  # yes, hello
    "NN": "NN",
    "NN0": "NN",  # nouns whose number does not show: people, sheep, fish
    "NN1": "NN",  # dog
    "NN2": "NNS",  # dogs
    "NP0": "NNP",  # Paris
    "ORD": "JJ",  # first, last, next
    "PNI": "NN",  # someone, something, one, none
    "PNP": "PRP",  # he, them, himself
    "PNQ": "WP",  # who
    "POS": "POS",  # 's
    "PRF": "IN",  # of
    "PRP": "IN",  # on, with, in
    "PUL": "-LRB-",
    "PUN": ".",
    "PUQ": "''",
    "PUR": "-RRB-",
    "TO0": "TO",  # to, before a verb
    "UNC": "SYM",  # what belongs to no class: foreign words, signs
    "VBB": "VBP",  # are, am
    "VBD": "VBD",  # was
    "VBG": "VBG",  # being
    "VBI": "VB",  # be
    "VBN": "VBN",  # been
    "VBZ": "VBZ",  # is
    "VDB": "VBP",  # the same of "do"
    "VDD": "VBD",
    "VDG": "VBG",
    "VDI": "VB",
    "VDN": "VBN",
    "VDZ": "VBZ",
    "VHB": "VBP",  # the same of "have"
    "VHD": "VBD",
    "VHG": "VBG",
    "VHI": "VB",
    "VHN": "VBN",
    "VHZ": "VBZ",
    "VM0": "MD",  # can, will
    "VVB": "VBP",  # the same of all other verbs
    "VVD": "VBD",
    "VVG": "VBG",
    "VVI": "VB",
    "VVN": "VBN",
    "VVZ": "VBZ",
    "XX0": "RB",  # not, n't
    "ZZ0": "SYM",  # single letters
}
"""Each tag, and the tag of the Penn Treebank that comes nearest. Where the classes are cut differently, notes say so.

Determiners are AT0 and DT0 (Penn's DT: of these, only a, an, the, this, that, these, those, some, any, no, each, every,
either, neither, another, all, both). Numerals are CRD. Prepositions are PRP and PRF. Relativisers are DTQ, PNQ, CJT,
and AVQ where it opens a relative clause. Penn's IN holds conjunctions (CJS) too.
"""

NOUNS = frozenset({"NN", "NN0", "NN1", "NN2"})
ADJECTIVES = frozenset({"AJ0", "AJC", "AJS"})


def is_noun(tag: str) -> bool:
    """Common nouns (Penn's NN, NNS). Not proper names (NP0), which have no synonyms, and not "someone" (PNI)."""
    return tag in NOUNS


def is_adjective(tag: str) -> bool:
    """Adjectives, comparatives, superlatives (Penn's JJ, JJR, JJS). Not ordinals ("first": ORD), which Penn counts."""
    return tag in ADJECTIVES
