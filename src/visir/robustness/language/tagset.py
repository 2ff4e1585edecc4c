"""The parts of speech: the tags of HanTa's English model, which are those of the British National Corpus (C5)."""

from __future__ import annotations

import re

# Where the tokens of a text lie, in the manner of the Penn Treebank: punctuation and clitics stand apart.

_MARKS = (
    r"!-/:-@\[-^`{-~"  # ASCII without "_"
    r"\u00a1-\u00a9\u00ab\u00ac\u00ae-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"
    r"\u2010-\u2027\u2030-\u205e\u20a0-\u20cf\u2190-\u2bff"  # dashes, quotation marks, currencies, arrows, symbols
    r"\u3001-\u3003\u3008-\u3020\u3030\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
    r"\U0001f000-\U0001faff"
)
_WORD = rf"[^\s{_MARKS}]"  # letters, digits, the accents that combine with them, and any script we do not know
_APOSTROPHE = "['\u2019]"
_ENDING = rf"{_APOSTROPHE}(?:s|m|d|re|ve|ll)"

_TOKEN = re.compile(
    rf"""
      (?:[A-Za-z]\.){{2,}}                                  # U.S., a.m.
    | (?:mr|mrs|ms|dr|st|jr|sr|vs|etc)\.(?!{_WORD})         # abbreviations that keep their full stop
    | {_ENDING}(?!{_WORD})                                  # 's, where the text is cut already: "man 's"
    | {_WORD}+ (?: (?:[-\u2010\u2011'\u2019] | (?<=\d)[.,:/](?=\d)) {_WORD}+ )*   # T-shirt, o'clock, 1,000, 10:30
    | \.{{2,}} | -{{2,}} | '' | ``
    | [\u2190-\u2bff\U0001f000-\U0001faff\u200d\ufe0f]+     # emoji are joined by invisible characters
    | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CLITIC = re.compile(rf"(?:n{_APOSTROPHE}t|{_ENDING})$", re.IGNORECASE)


def token_spans(text: str) -> list[tuple[int, int]]:
    """From where to where (in characters) each token of `text` lies; what is between them is white space, all of it."""
    # Clitics are tokens of their own, as in the Treebank: "does|n't", "man|'s", "can|not". Words joined by hyphens are
    # one token; so are numbers ("1,000", "10:30", "3/4"). Unlike the Treebank's own rules, a full stop stands apart
    # wherever it is (captions often hold two sentences), and so does a slash between words ("black/white").
    spans = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        cuts = [end]
        if match.group().lower() == "cannot":
            cuts.append(start + 3)
        while clitic := _CLITIC.search(text, start + 1, cuts[-1]):  # "I|'ll|'ve"
            cuts.append(clitic.start())
        for cut in reversed(cuts):
            spans.append((start, cut))
            start = cut
    return spans


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
