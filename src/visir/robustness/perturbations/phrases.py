"""Noun phrases and verbs of a caption, as far as parts of speech tell them, and how they are put in other places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.language.tagset import is_adjective, is_noun
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.random_stream import RandomStream

_OPENERS = frozenset({"AT0", "DPS", "DT0"})
_BEFORE_NOUNS = frozenset({"CRD", "ORD"})
_SEVERAL = frozenset({"two", "three", "four", "five", "six", "several", "many", "some", "these", "those", "both"})
FINITE = frozenset({"VBZ", "VBB", "VVZ", "VVB", "VHZ", "VHB", "VDZ", "VDB", "VBD", "VVD", "VM0"})
COLOURS = frozenset(
    {
        *("red", "orange", "yellow", "green", "blue", "purple", "pink", "white", "black", "brown", "gray", "grey"),
        *("tan", "beige", "gold", "golden", "silver", "maroon", "turquoise", "teal", "blond", "blonde", "violet"),
    }
)
"""Taggers often take them for nouns; before a noun they are adjectives."""


@dataclass(frozen=True)
class NounPhrase:
    """Tokens `first` to `last` of a caption, the noun among them last; `head` of a phrase with "of" is the first
    noun."""

    # `plural` is None where it cannot be told ("a group of people").

    first: int
    last: int
    head: int
    plural: bool | None


def noun_phrases(caption: TaggedCaption) -> list[NounPhrase]:
    """The noun phrases from left to right: an article, numbers, adjectives, nouns; "a group of people" is one."""
    phrases: list[NounPhrase] = []
    words = [token.lower() for token in caption.tokens()]
    token = 0
    while token < len(words):
        phrase = None if _in_preposition(words, token) else _phrase_at(caption, words, token)
        if phrase is None:
            token += 1
            continue
        before = phrases[-1] if phrases else None
        if before is not None and before.last + 2 == phrase.first and words[before.last + 1] == "of":
            phrases[-1] = NounPhrase(before.first, phrase.last, before.head, None)
        else:
            phrases.append(phrase)
        token = phrase.last + 1
    return phrases


def _in_preposition(words: Sequence[str], token: int) -> bool:
    """Whether it is the noun of "in front of" or "on top of"."""
    return tuple(words[max(0, token - 1) : token + 2]) in (("in", "front", "of"), ("on", "top", "of"))


def _phrase_at(caption: TaggedCaption, words: Sequence[str], start: int) -> NounPhrase | None:
    tags, end = caption.tags, start
    if tags[end] in _OPENERS and words[end] != "there":
        end += 1
    while end < len(words) and (
        tags[end] in _BEFORE_NOUNS
        or _describes(words, tags, end)
        or (words[end] in ("and", ",") and _describes(words, tags, end - 1) and _describes(words, tags, end + 1))
        or (tags[end] == "AV0" and _describes(words, tags, end + 1))
    ):
        end += 1
    head = end
    while head < len(words) and is_noun(tags[head]):
        head += 1
    if head == end:
        return None
    head -= 1
    plural = tags[head] == "NN2" or words[head] in ("people", "sheep") or bool(_SEVERAL & {*words[start:head]})
    return NounPhrase(start, head, head, plural)


def _describes(words: Sequence[str], tags: Sequence[str], token: int) -> bool:
    """Whether a token is an adjective, or a colour before a noun or another adjective."""
    if not 0 <= token < len(words):
        return False
    follows = token + 1 < len(words) and (
        is_noun(tags[token + 1]) or is_adjective(tags[token + 1]) or words[token + 1] == "and"
    )
    return is_adjective(tags[token]) or (words[token] in COLOURS and follows)


def text_of(caption: TaggedCaption, first: int, last: int) -> str:
    """What is written from one token to another."""
    return caption.text[caption.starts[first] : caption.ends[last]]


def replaced(text: str, pieces: Sequence[tuple[int, int, str]]) -> str:
    """The text with other words at some places (from, to, in characters), which do not overlap."""
    for start, end, words in sorted(pieces, reverse=True):
        text = text[:start] + words + text[end:]
    return text


def exchanged(caption: TaggedCaption, first: tuple[int, int], second: tuple[int, int]) -> str:
    """The text with two runs of tokens exchanged; a capital at the beginning of the text stays there."""
    one_text, other_text = text_of(caption, *first), text_of(caption, *second)
    if first[0] == 0 and caption.text[:1].isupper() and not _is_name(caption, 0):
        one_text, other_text = lowered(one_text), raised(other_text)
    return replaced(
        caption.text,
        [
            (caption.starts[first[0]], caption.ends[first[1]], other_text),
            (caption.starts[second[0]], caption.ends[second[1]], one_text),
        ],
    )


def _is_name(caption: TaggedCaption, token: int) -> bool:
    return caption.tags[token] == "NP0"


def lowered(words: str) -> str:
    """With a small first letter; "I" and capitals in a row ("US") stay."""
    return words if words[:2].isupper() and len(words) > 1 and words[1].isalpha() else words[:1].lower() + words[1:]


def raised(words: str) -> str:
    """With a capital first letter."""
    return words[:1].upper() + words[1:]


def fit_article(text: str, before: str) -> str:
    """ "a" and "an" as the words behind them want, where these are other words than before."""
    words, old = text.split(" "), before.split(" ")
    for place, (word, following) in enumerate(pairwise(words)):
        if word.lower() in ("a", "an") and following != old[place + 1]:
            article = "an" if following[0].lower() in "aeiou" and not following.lower().startswith(_CONSONANTS) else "a"
            words[place] = article.capitalize() if word[0].isupper() else article
    return " ".join(words)


_CONSONANTS = ("uni", "use", "one", "eu", "ut")
"""Beginnings that are written with a vowel and spoken with a consonant."""


# Negation: what a caption says is denied.

_NEGATED = frozenset({"not", "n't", "no", "without", "never", "nobody", "nothing", "none", "cannot", "neither"})
_WITH_NOT = frozenset({"VBZ", "VBB", "VBD", "VM0"})


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The first verb is denied: "is not running", "does not run", "not running"; without verb, "no dog"."""
    # Captions that deny something already stay: denied twice, they might be true.
    words, tags, text = [token.lower() for token in caption.tokens()], caption.tags, caption.text
    if _NEGATED & {*words}:
        return text
    phrases = noun_phrases(caption)
    if not phrases:
        return text
    subject = phrases[0]
    for token in range(subject.last + 1, len(words)):
        tag, start, end = tags[token], caption.starts[token], caption.ends[token]
        if tag in _WITH_NOT and words[token] not in ("'s", "’s"):
            return f"{text[:end]} not{text[end:]}"
        if tag in ("VVZ", "VHZ") and words[token].endswith("s"):
            return replaced(text, [(start, end, f"does not {caption.lemmas[token]}")])
        if tag == "VVB" and subject.plural:
            return replaced(text, [(start, end, f"do not {words[token]}")])
        if tag == "VVG" and token > subject.last:
            return f"{text[:start]}not {text[start:]}"
        if tag in FINITE:
            break
    return _no_subject(caption, words[subject.first])


def _no_subject(caption: TaggedCaption, word: str) -> str:
    """ "A dog in the water" becomes "No dog in the water"."""
    first = noun_phrases(caption)[0].first
    if word not in ("a", "an", "the", "one", "two", "three", "four", "five", "several", "some", "many"):
        return caption.text
    no = "No" if caption.text[caption.starts[first]].isupper() else "no"
    return replaced(caption.text, [(caption.starts[first], caption.ends[first], no)])


NEGATION = Perturbation(
    name="negation",
    title="Negation",
    family="meaning",
    level="sentence",
    change=change,
    about='The first verb is denied ("is not running"), or the subject of a caption without verb; it becomes wrong.',
    needs_words=True,
)
