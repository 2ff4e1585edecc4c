"""The five shuffles: words as they are written, and how words in another order are put back into a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TypeVar

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.language.tagset import is_adjective, is_noun
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.released import any_order, nltk_tokens, released_order
from visir.robustness.random_stream import RandomStream

Span = tuple[int, int]
T = TypeVar("T")

# From the first to the last letter or digit between two white spaces: "t-shirt", "mother's", "3,000", "U.S".
_WORDS = re.compile(r"[^\W_]\S*[^\W_]|[^\W_]")


def written_words(text: str) -> list[Span]:
    """Where the words of a text stand, without the punctuation around them."""
    # A word ends at white space, not where a tokeniser cuts: what is written together stays together ("mother's",
    # "t-shirt", "black/white"), and punctuation keeps its place between the words.
    spans = [match.span() for match in _WORDS.finditer(text)]
    return spans if text.isascii() else [(start, _behind_marks(text, end)) for start, end in spans]


def words_at(text: str, spans: Sequence[Span]) -> list[str]:
    """The words at these places."""
    return [text[start:end] for start, end in spans]


def with_words(text: str, spans: Sequence[Span], words: Sequence[str]) -> str:
    """The text with these words at those places instead; all that stands between the places is kept."""
    parts, done = [], 0
    for (start, end), word in zip(spans, words, strict=True):
        parts += [text[done:start], word]
        done = end
    return "".join([*parts, text[done:]])


def _behind_marks(text: str, end: int) -> int:
    """Where a word ends whose last letter carries accents as characters of their own, which are no letters."""
    while end < len(text) and unicodedata.category(text[end])[0] == "M":
        end += 1
    return end


def is_named(tag: str) -> bool:
    """Nouns, names among them ("Paris"): what word order has to say of nouns holds for names."""
    return is_noun(tag) or tag == "NP0"


def kinds(caption: TaggedCaption, spans: Sequence[Span]) -> list[str]:
    """Of each written word "noun", "adjective" or "other": the first of these that one of its tokens is."""
    kinds_of_words = []
    token, starts, ends, tags = 0, caption.starts, caption.ends, caption.tags
    for start, end in spans:
        kind = "other"
        while token < len(starts) and starts[token] < end:
            if ends[token] > start:
                if is_named(tags[token]):
                    kind = "noun"
                elif kind == "other" and is_adjective(tags[token]):
                    kind = "adjective"
            token += 1
        kinds_of_words.append(kind)
    return kinds_of_words


def permuted(caption: TaggedCaption, random: RandomStream, which: Sequence[str]) -> str:
    """The text with the written words of each of these kinds permuted among their own places, the others kept."""
    # Each kind comes in an order that differs from its own whenever there is one.
    text = caption.text
    spans = written_words(text)
    words = words_at(text, spans)
    kind_of_word = kinds(caption, spans)
    for kind in which:
        places = [i for i, word_kind in enumerate(kind_of_word) if word_kind == kind]
        for place, word in zip(places, random.shuffled([words[i] for i in places]) if places else (), strict=True):
            words[place] = word
    return with_words(text, spans, words)


def trigrams(words: Sequence[T]) -> list[list[T]]:
    """Three by three from the left; the last are one to three."""
    return [list(words[i : i + 3]) for i in range(0, len(words), 3)]


# Shuffle All Words: all words in another order.


def shuffle_all(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Any other order of the written words, all equally likely; punctuation stays where it is."""
    spans = written_words(caption.text)
    words = words_at(caption.text, spans)
    return with_words(caption.text, spans, random.shuffled(words)) if words else caption.text


def shuffle_all_released(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """What lies between single spaces, punctuation attached ("hat."), in any order. Which orders were drawn is lost."""
    return " ".join(any_order(caption.text.split(" "), random))


SHUFFLE_ALL_WORDS = Perturbation(
    name="shuffle_all_words",
    title="Shuffle All Words",
    family="word order",
    level="sentence",
    change=shuffle_all,
    about="All words in another order, drawn; punctuation stays where it is.",
    paper=shuffle_all_released,
    paper_about="punctuation moves with its word; the order may be the original one",
)


# Shuffle Nouns and Adjectives: nouns change places with nouns, adjectives with adjectives.


def shuffle_named(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Each class permuted among its own places, so that the sentence stays grammatical: "A red hat on a blue dog"."""
    return permuted(caption, random, ("noun", "adjective"))


def shuffle_named_released(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The same of spaCy's tokens, joined by spaces; the order may be its own. Which orders were drawn is lost."""
    return released_order(caption, random, [lambda tag: tag.startswith("NN"), lambda tag: tag.startswith("JJ")])


SHUFFLE_NOUNS_AND_ADJ = Perturbation(
    name="shuffle_nouns_and_adj",
    title="Shuffle N&A",
    family="word order",
    level="sentence",
    change=shuffle_named,
    about="Nouns change places with nouns, adjectives with adjectives; all other words stay.",
    paper=shuffle_named_released,
    paper_about="tokens joined by spaces; the order may be the original one",
    needs_words=True,
)


# Shuffle All Words But Nouns and Adjectives: these stay, all others change places.


def shuffle_others(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Verbs, articles, prepositions and all else permuted among their own places; punctuation is no word, and stays."""
    return permuted(caption, random, ("other",))


def shuffle_others_released(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The same of spaCy's tokens, punctuation among them, joined by spaces. Which orders were drawn is lost."""
    return released_order(caption, random, [lambda tag: not tag.startswith(("NN", "JJ"))])


SHUFFLE_ALLBUT_NOUNS_AND_ADJ = Perturbation(
    name="shuffle_allbut_nouns_and_adj",
    title="Shuffle but N&A",
    family="word order",
    level="sentence",
    change=shuffle_others,
    about="Nouns and adjectives stay; all other words change places with one another.",
    paper=shuffle_others_released,
    paper_about="punctuation is shuffled too; tokens joined by spaces; the order may be the original one",
    needs_words=True,
)


# Shuffle within Trigrams: three words at a time, each three in another order.


def shuffle_within(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Each three written words, from the left, in another order; so every trigram that can differ does."""
    spans = written_words(caption.text)
    words = [word for group in trigrams(words_at(caption.text, spans)) for word in random.shuffled(group)]
    return with_words(caption.text, spans, words)


def shuffle_within_released(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """Each three of NLTK's tokens in any order, their own too, joined by spaces. Which orders were drawn is lost."""
    groups = trigrams(nltk_tokens(caption.text)[1])
    return " ".join(token for group in groups for token in any_order(group, random))


SHUFFLE_WITHIN_TRIGRAMS = Perturbation(
    name="shuffle_within_trigrams",
    title="Shuffle Within Trigrams",
    family="word order",
    level="sentence",
    change=shuffle_within,
    about="Each three words, from the left, in another order; punctuation stays where it is.",
    paper=shuffle_within_released,
    paper_about="punctuation counts as a word; tokens joined by spaces; the order may be the original one",
)


# Shuffle Trigrams: groups of three words in another order.


def shuffle_groups(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The trigrams of the written words, from the left, in another order, each kept whole; the last may be shorter."""
    spans = written_words(caption.text)
    words = words_at(caption.text, spans)
    groups = trigrams(words)
    # Different groups may still read the same in any order: "la la la", "la". They do only if all words are equal.
    if all(group == groups[0] for group in groups) or all(word == words[0] for word in words):
        return caption.text
    while (order := [word for group in random.shuffled(groups) for word in group]) == words:
        pass
    return with_words(caption.text, spans, order)


def shuffle_groups_released(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The trigrams of NLTK's tokens in any order, their own too, joined by spaces. Which orders were drawn is lost."""
    groups = trigrams(nltk_tokens(caption.text)[1])
    return " ".join(token for group in any_order(groups, random) for token in group)


SHUFFLE_TRIGRAMS = Perturbation(
    name="shuffle_trigrams",
    title="Shuffle Trigrams",
    family="word order",
    level="sentence",
    change=shuffle_groups,
    about="Groups of three words, from the left, in another order; punctuation stays where it is.",
    paper=shuffle_groups_released,
    paper_about="punctuation counts as a word; tokens joined by spaces; the order may be the original one",
)
