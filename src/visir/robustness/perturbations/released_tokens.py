"""Tokens as the released code cuts them, and their parts of speech by the names of the Penn Treebank.

Synonyms and trigrams come in NLTK's tokens, nouns and adjectives in spaCy's: the tokens of the authors' queries say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from visir.robustness.language.tagset import PENN
from visir.robustness.language.words import Sentence

Span = tuple[int, int]

# What stands alone wherever it is; a comma and a colon unless a digit follows. Everything else is (part of) a word.
_TOKEN = re.compile(
    r"""
      ''|--|\.{2,}|`+
    | [;@\#$%&?!*\[\](){}<>"«»“”‘’„\u2012-\u2015] | [:,](?!\d)
    | (?: (?!''|--|\.{2}) [^\s;@\#$%&?!*\[\](){}<>"«»“”‘’„\u2012-\u2015:,`] | [:,](?=\d) )+
    """,
    re.VERBOSE,
)
_CLITIC = re.compile(r"(?<=[^'])(?:'s|'m|'d|'|'ll|'re|'ve|n't)$", re.IGNORECASE)
_TWO_WORDS = {"cannot": 3, "d'ye": 1, "gimme": 3, "gonna": 3, "gotta": 3, "lemme": 3, "wanna": 3, "'tis": 2, "'twas": 2}
_ABBREVIATIONS = frozenset({"mr", "mrs", "ms", "dr", "st", "jr", "sr", "vs", "etc"})
_CLOSING = re.compile(r"[\])}>\"'»”’ ]*(?:\s|$)")


def nltk_tokens(text: str) -> tuple[list[Span], list[str]]:
    """Where the tokens of a text lie, and the tokens, straight quotation marks turned into `` and ''.

    The rules are those of NLTK's `word_tokenize` (the Penn Treebank's, by way of NLTK's NLTKWordTokenizer, Apache
    2.0), written as one pattern. Sentences, at whose end alone a full stop is a token, end at a full stop that white
    space follows, unless it belongs to a common abbreviation: a stand-in for NLTK's Punkt, which cuts by statistics.
    """
    spans: list[Span] = []
    tokens: list[str] = []
    for found in _TOKEN.finditer(text):
        start, end = found.span()
        first = text[start]
        if first in "\"'" and text[start:end] in ('"', "''"):
            opens = start == 0 or text[start - 1] in " ([{<"
            spans.append((start, end))
            tokens.append("``" if opens else "''")
            continue
        cuts = [end]
        if text[end - 1] == "." and end - start > 1 and text[end - 2] != "." and _ends_sentence(text, start, end):
            end -= 1
            cuts.append(end)
        while clitic := _CLITIC.search(text, start, end):
            end = clitic.start()
            cuts.append(end)
        within = _TWO_WORDS.get(text[start:end].lower())
        if within:
            cuts.append(start + within)
        for cut in reversed(cuts):
            spans.append((start, cut))
            tokens.append(text[start:cut])
            start = cut
    return spans, tokens


def _ends_sentence(text: str, start: int, end: int) -> bool:
    return text[start : end - 1].lower() not in _ABBREVIATIONS and _CLOSING.match(text, end) is not None


_SPACY = re.compile(
    r"""
      \s+
    | \.{2,} | ''
    | [;,!?*\[\](){}<>"«»“”‘’„…`\#$%]
    | (?: (?!\.{2}|'') [^\s;,!?*\[\](){}<>"«»“”‘’„…`\#$%] | ,(?=\d) | ;(?=\w) )+
    """,
    re.VERBOSE,
)
_BETWEEN = re.compile(
    r"(?<=[^\W\d_])(?:--?|[–—~])(?=[^\W\d_]) | (?<=[^\W_])[:/=](?=[^\W\d_]) | (?<=\d)[-+*^](?=[\d-])", re.VERBOSE
)
_LAST_STOP = re.compile(r"(?:(?<=[^\W_])(?<![A-Z])|(?<=[A-Z][A-Z])|(?<=['\")\-%+]))\.$|(?<=[^:]):$")
_CLITICS = frozenset({"'s", "'m", "'d", "'re", "'ve", "'ll"})
_SPACY_CLITIC = re.compile(r"(?<=[^'])(?:'s|'m|'d|'ll|'re|'ve|n't|')$", re.IGNORECASE)
_NO_APOSTROPHE = re.compile(
    r"(?:s?he|that|what|there|where|who|how)(s)|(?:ca|do|wo|did|does|is|are)(nt)|can(not)", re.IGNORECASE
)


def spacy_tokens(text: str) -> tuple[list[Span], list[str]]:
    """Where the tokens of a text lie, and the tokens, by spaCy's rules for English as far as captions need.

    Other than NLTK's: hyphens between letters are tokens ("t - shirt"), quotation marks stay as they are, contractions
    without an apostrophe are cut ("ca nt"), and white space beyond one space is a token of its own.
    """
    spans: list[Span] = []
    for found in _SPACY.finditer(text):
        start, end = found.span()
        if text[start].isspace():
            start += text[start] == " " and start > 0
            if end > start:
                spans.append((start, end))
            continue
        while text[start] in "'&" and end - start > 1 and text[start:end].lower() not in _CLITICS:
            spans.append((start, start + 1))
            start += 1
        tail = []
        stop = _LAST_STOP.search(text, start, end)
        if stop and stop.start() > start and text[start : stop.start()].lower() not in _ABBREVIATIONS:
            tail.append((stop.start(), end))
            end = stop.start()
        while clitic := _SPACY_CLITIC.search(text, start, end):
            tail.append((clitic.start(), end))
            end = clitic.start()
        if clitic := _NO_APOSTROPHE.fullmatch(text, start, end):
            tail.append((clitic.start(clitic.lastindex or 0), end))
            end = tail[-1][0]
        for hyphen in _BETWEEN.finditer(text, start, end):
            spans += [(start, hyphen.start()), hyphen.span()]
            start = hyphen.end()
        spans += [(start, end), *reversed(tail)]
    return spans, [text[start:end] for start, end in spans]


_PENN_BY_WORD = {
    **dict.fromkeys(("few", "little", "many", "other", "own", "same", "several", "such"), "JJ"),
    "one": "CD",
}


def penn_tags(caption: Sentence, spans: Sequence[Span]) -> list[str]:
    """The tag of each span in Penn's names, from the caption's words: that of the word in which the span begins.

    A few words are of another class to taggers that follow Penn: "several" and "other" are adjectives (JJ).
    """
    text, starts, ends, tags = caption.text, caption.starts, caption.ends, caption.tags
    found = []
    word, last = 0, len(ends) - 1
    for start, end in spans:
        while word < last and ends[word] <= start:
            word += 1
        token = text[start:end]
        if last < 0 or starts[word] >= end or (end - start == 1 and not token.isalnum()):
            found.append("SYM")  # white space, or a mark inside a word
        else:
            found.append(_PENN_BY_WORD.get(token.lower()) or PENN.get(tags[word], "SYM"))
    return found
