"""What the paper profiles of typing errors share: the random numbers and the places of the released code.

The released code of the brittleness paper calls the package `typo` 0.1.7 (Ranvijay Kumar, MIT) with seed 42 for *every*
caption; that this is so is shown by the queries in the authors' logs, which come out the same, all of them. What is
written here is a function of our own that draws the same numbers from Python's Mersenne Twister in the same order.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.language.tagset import PENN
from visir.robustness.perturbations.base import Change
from visir.robustness.random_stream import RandomStream

# Tokens as the released code cuts them, and their parts of speech by the names of the Penn Treebank.

Span = tuple[int, int]
T = TypeVar("T")

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
    """Where the tokens of a text lie, and the tokens, straight quotation marks turned into `` and ''."""
    # The rules are those of NLTK's `word_tokenize` (the Penn Treebank's, by way of NLTK's NLTKWordTokenizer, Apache
    # 2.0), written as one pattern. Sentences, at whose end alone a full stop is a token, end at a full stop that white
    # space follows, unless it belongs to a common abbreviation: a stand-in for NLTK's Punkt, which cuts by statistics.
    spans: list[Span] = []
    tokens: list[str] = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        first = text[start]
        if first in "\"'" and text[start:end] in ('"', "''"):
            opens = start == 0 or text[start - 1] in " ([{<"
            spans.append((start, end))
            tokens.append("``" if opens else "''")
            continue
        stop = text[end - 1] == "." and end - start > 1 and text[end - 2] != "." and _ends_sentence(text, start, end)
        word = text[start : end - stop]
        if word.isalpha() and word.lower() not in _TWO_WORDS:
            spans.append((start, end - stop))
            tokens.append(word)
        else:
            spans += [(start + a, start + b) for a, b in pairwise(_nltk_cuts(word))]
            tokens += [word[a:b] for a, b in pairwise(_nltk_cuts(word))]
        if stop:
            spans.append((end - 1, end))
            tokens.append(".")
    return spans, tokens


@lru_cache(1 << 14)
def _nltk_cuts(word: str) -> tuple[int, ...]:
    """Where a word begins, is cut, and ends."""
    cuts = [len(word)]
    while clitic := _CLITIC.search(word, 1, cuts[-1]):
        cuts.append(clitic.start())
    within = _TWO_WORDS.get(word[: cuts[-1]].lower())
    return (0, *([within] if within else []), *reversed(cuts))


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
_NO_APOSTROPHE = {
    **{f"{word}s": len(word) for word in ("he", "she", "that", "what", "there", "where", "who", "how")},
    **{f"{word}nt": len(word) for word in ("ca", "do", "wo", "did", "does", "is", "are")},
    "cannot": 3,
}


def spacy_tokens(text: str) -> tuple[list[Span], list[str]]:
    """Where the tokens of a text lie, and the tokens, by spaCy's rules for English as far as captions need."""
    # Other than NLTK's: hyphens between letters are tokens ("t - shirt"), quotation marks stay as they are,
    # contractions without an apostrophe are cut ("ca nt"), and white space beyond one space is a token of its own.
    spans: list[Span] = []
    for match in _SPACY.finditer(text):
        start, end = match.span()
        piece = match.group()
        if piece == " " and start:
            continue
        if piece.isalpha() and piece.lower() not in _NO_APOSTROPHE:
            spans.append((start, end))
        elif piece.isspace():
            spans.append((start + (piece[0] == " " and start > 0), end))
        else:
            spans += [(start + a, start + b) for a, b in pairwise(_spacy_cuts(piece))]
    return spans, [text[start:end] for start, end in spans]


@lru_cache(1 << 14)
def _spacy_cuts(piece: str) -> tuple[int, ...]:
    """Where what lies between two white spaces begins, is cut, and ends."""
    start, end = 0, len(piece)
    front, back = [0], [end]
    while piece[start] in "'&" and end - start > 1 and piece[start:end].lower() not in _CLITICS:
        start += 1
        front.append(start)
    stop = _LAST_STOP.search(piece, start, end)
    if stop and stop.start() > start and piece[start : stop.start()].lower() not in _ABBREVIATIONS:
        end = stop.start()
        back.append(end)
    while clitic := _SPACY_CLITIC.search(piece, start + 1, end):
        end = clitic.start()
        back.append(end)
    within = _NO_APOSTROPHE.get(piece[start:end].lower())
    if within:
        back.append(start + within)
        end = start + within
    inner = [edge for match in _BETWEEN.finditer(piece, start, end) for edge in match.span()]
    return (*front, *inner, *reversed(back))


_PENN_BY_WORD = {
    **dict.fromkeys(("few", "little", "many", "other", "own", "same", "several", "such"), "JJ"),
    "one": "CD",
}


def penn_tags(caption: TaggedCaption, spans: Sequence[Span]) -> list[str]:
    """The tag of each span in Penn's names, from the caption's words: that of the word in which the span begins."""
    # A few words are of another class to taggers that follow Penn: "several" and "other" are adjectives (JJ).
    text, starts, ends, tags = caption.text, caption.starts, caption.ends, caption.tags
    penn = []
    word, last = 0, len(ends) - 1
    for start, end in spans:
        while word < last and ends[word] <= start:
            word += 1
        token = text[start:end]
        if last < 0 or starts[word] >= end or (end - start == 1 and not token.isalnum()):
            penn.append("SYM")  # white space, or a mark inside a word
        else:
            penn.append(_PENN_BY_WORD.get(token.lower()) or PENN.get(tags[word], "SYM"))
    return penn


def released_order(caption: TaggedCaption, random: RandomStream, classes: Sequence[Callable[[str], bool]]) -> str:
    """spaCy's tokens joined by spaces, those of each class of Penn tags in any order among their own places."""
    spans, tokens = spacy_tokens(caption.text)
    tags = penn_tags(caption, spans)
    for belongs in classes:
        places = [i for i, tag in enumerate(tags) if belongs(tag)]
        for place, token in zip(places, any_order([tokens[i] for i in places], random), strict=True):
            tokens[place] = token
    return " ".join(tokens)


SEED = 42

_OWN = threading.local()


def repeated(once: Callable[[str, random.Random], str]) -> Change:
    """The change that does `once` as often as the severity says, in numbers that begin anew with every caption."""
    # It heeds neither seed nor caption id: all captions of one length break at the same place.

    def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
        text, numbers = caption.text, _numbers()
        for _ in range(severity):
            text = once(text, numbers)
        return text

    return change


def nth(words: re.Pattern[str], text: str, numbers: random.Random, room: int = 0) -> int | None:
    """One of the places inside `words`, all equally likely, with `room` more characters of the word behind it."""
    spans = [(start, end - room) for start, end in (match.span() for match in words.finditer(text)) if end > start]
    count = sum(end - start for start, end in spans)
    if count == 0:
        return None
    left = numbers.randrange(count)
    for start, end in spans:
        if left < end - start:
            return start + left
        left -= end - start
    raise AssertionError("a number below the count lies in one of the spans")


# The neighbours as `typo` lists them, behind their key: the order decides what a drawn number means.
_LETTERS = (
    "aqwsz bvghn cxdfv dserfcx erdsw fdrtgvc gftyhbv hnbgyuj iokju jhuikmn kjiolm lkop mnjk "
    "nbhjm oiklp pol qaw redft sazxdew trfgy uyhji vcfgb wqasde xzsdc ytghu zasx"
)
_DIGITS = "012 14520 2014563 3256 478521 578946123 698523 7854 874569 9856"
LETTERS = {keys[0]: keys[1:] for keys in _LETTERS.split()}
DIGITS = {keys[0]: keys[1:] for keys in _DIGITS.split()}


def neighbour(character: str, numbers: random.Random) -> str:
    """A neighbour in the same case, of a digit now on the pad and now on the row; itself where it has none."""
    if character in DIGITS:
        pad = DIGITS[character]
        if numbers.randrange(2) == 0:  # `choice([True, False])` is True
            return pad[numbers.randrange(len(pad))]
        if character in "01":
            return {"0": "9", "1": "2"}[character]
        return str(int(character) + (1, -1)[numbers.randrange(2)])
    near = LETTERS.get(character.lower())
    if near is None:
        return character
    other = near[numbers.randrange(len(near))]
    return other.upper() if character.isupper() else other


def _numbers() -> random.Random:
    numbers: random.Random | None = getattr(_OWN, "numbers", None)
    if numbers is None:  # making one takes four times as long as setting one back
        numbers = _OWN.numbers = random.Random()
    numbers.seed(SEED)
    return numbers


def any_order(values: Sequence[T], random: RandomStream) -> list[T]:
    """Any order with equal chance, their own too: how the released code shuffles."""
    return [values[i] for i in random.sample(len(values), len(values))]
