"""Where the tokens of a text lie, in the manner of the Penn Treebank: punctuation and clitics stand apart."""

from __future__ import annotations

import re

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
