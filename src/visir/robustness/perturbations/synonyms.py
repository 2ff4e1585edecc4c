"""What the two synonym perturbations share: which word of WordNet stands in for a word, and in what form."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from visir.robustness.language.tagged_captions import TaggedCaption, inflect_like
from visir.robustness.language.tagset import is_adjective, is_noun
from visir.robustness.language.wordnet import wordnet
from visir.robustness.perturbations.base import Change, Perturbation
from visir.robustness.perturbations.released import nltk_tokens, penn_tags
from visir.robustness.random_stream import RandomStream

Pos = Literal["n", "a"]


def synonyms(pos: Pos, is_kind: Callable[[str], bool]) -> Change:
    """The change that replaces `severity` words of a kind (by their tag) that have a synonym; fewer where fewer
    have."""
    # Which of them is drawn; by what is not: see `synonym`. The new word stands in the form and the capitals of the old
    # one. The article before it is left as it is ("an orangish hat", but "a adult male"): it is not what is replaced.

    def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
        text = caption.text
        replacements: list[tuple[int, int, str]] = []
        for i, tag in enumerate(caption.tags):
            if is_kind(tag):
                start, end = caption.starts[i], caption.ends[i]
                other = _in_place_of(text[start:end], caption.lemmas[i], tag, pos)
                if other is not None:
                    replacements.append((start, end, other))
        for i in sorted(random.sample(len(replacements), severity), reverse=True):
            start, end, other = replacements[i]
            text = text[:start] + other + text[end:]
        return text

    return change


@lru_cache(1 << 16)
def synonym(lemma: str, pos: Pos) -> str | None:
    """The word that stands in for a lemma: the first other lemma of its first sense, or None."""
    # WordNet lists the most frequent sense of a word first, and the most frequent word of a sense. Later senses are
    # left out, although more words would find a partner there: the third sense of "jacket" is "crown", the second of
    # "grass" a German novelist. A sense counts as the word's own only in its own capitals ("jersey" is not "New
    # Jersey"), and words with capitals or figures ("Canis familiaris", "H2O") stand in for none without.
    net = wordnet()
    name = lemma.replace(" ", "_")
    for synset in net.synsets(lemma, pos):
        lemmas = net.lemmas(synset)
        if name in lemmas:
            others = (other for other in lemmas if other.lower() != name.lower())
            return next((other for other in others if not name.islower() or other.replace("_", "a").islower()), None)
    return None


@lru_cache(1 << 16)
def _in_place_of(word: str, lemma: str, tag: str, pos: Pos) -> str | None:
    other = synonym(lemma, pos)
    if other is None:
        return None
    formed = inflect_like(other, word, tag)
    return None if formed.lower() == word.lower() else formed


def released(is_kind: Callable[[str], bool]) -> Change:
    """The released code: the first word of a kind (by Penn's tags) that has `any_synonym`; tokens joined by spaces."""
    # In the authors' logs the word that was replaced became exactly this, in 10,000 captions out of 10,000. *Which*
    # word that is rests on their tagger, which is not ours. With a severity, so many words from the left.

    def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
        spans, tokens = nltk_tokens(caption.text)
        left = severity
        for i, tag in enumerate(penn_tags(caption, spans)):
            if left and is_kind(tag):
                other = any_synonym(tokens[i])
                if other is not None:
                    tokens[i] = other
                    left -= 1
        return " ".join(tokens)

    return change


@lru_cache(1 << 16)
def any_synonym(word: str) -> str | None:
    """The first lemma, in any sense of any part of speech, that is not the word: "black" → "blackness"."""
    # In NLTK's order of synsets: nouns, verbs, adjectives, adverbs; the lemma as WordNet writes it, neither inflected
    # nor in the word's case ("white" → "White person").
    net = wordnet()
    for pos in ("n", "v", "a", "r"):
        for base in net.base_forms(word, pos):
            for synset in net.synsets(base, pos):
                for lemma in net.lemmas(synset):
                    other = lemma.replace("_", " ")
                    if other.lower() != word.lower():
                        return other
    return None


# Synonym Adjective: adjectives become others that mean the same.

SYNONYM_ADJ = Perturbation(
    name="synonym_adj",
    title="Synonym Adjective",
    family="synonyms",
    level="word",
    change=synonyms("a", is_adjective),
    about="An adjective, drawn, becomes the first other word of its first sense in WordNet, in its form and capitals.",
    paper=released(lambda tag: tag.startswith("JJ")),
    paper_about="the first adjective; any sense of any part of speech; not inflected; tokens joined by spaces",
    severity="words",
    needs_words=True,
)


# Synonym Noun: nouns become others that mean the same.

SYNONYM_NOUN = Perturbation(
    name="synonym_noun",
    title="Synonym Noun",
    family="synonyms",
    level="word",
    change=synonyms("n", is_noun),
    about="A noun, drawn, becomes the first other word of its first sense in WordNet, in its form and capitals.",
    paper=released(lambda tag: tag.startswith("NN")),
    paper_about="the first noun; any sense of any part of speech; not inflected; tokens joined by spaces",
    severity="words",
    needs_words=True,
)
