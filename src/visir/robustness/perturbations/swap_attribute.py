"""Swap Attribute: two things exchange their colours, sizes or ages."""

from __future__ import annotations

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.language.tagset import is_noun
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.phrases import COLOURS, fit_article, lowered, noun_phrases, raised, replaced
from visir.robustness.random_stream import RandomStream

_KINDS = (
    COLOURS,
    frozenset({"small", "little", "tiny", "large", "big", "huge", "tall", "short", "long", "giant"}),
    frozenset({"young", "old", "elderly", "older", "younger", "adult", "middle-aged"}),
    frozenset({"striped", "plaid", "checkered", "spotted", "plain", "patterned", "floral"}),
    frozenset({"wooden", "metal", "plastic", "stone", "brick", "concrete", "leather", "glass"}),
    frozenset({"wet", "dry", "muddy", "snowy", "sandy", "grassy", "rocky", "dirty", "clean"}),
)
"""Adjectives that exchange places with their kind only: "a red shirt and blue jeans", never "a young shirt"."""


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """One pair of adjectives of one kind, before different nouns, changes places; the article follows."""
    words = [token.lower() for token in caption.tokens()]
    places = []  # (token, number of its kind, lemmas behind it, the noun, where the phrase begins)
    for phrase in noun_phrases(caption):
        for token in range(phrase.first, phrase.last):
            kind = next((number for number, kind in enumerate(_KINDS) if words[token] in kind), None)
            noun = _noun_behind(caption, token, phrase.last)
            if kind is not None and noun is not None:
                nouns = {caption.lemmas[place].lower() for place in range(token + 1, noun + 1)}
                places.append((token, kind, nouns, noun, phrase.first))
    pairs = [
        (first[0], second[0])
        for number, first in enumerate(places)
        for second in places[number + 1 :]
        if first[1] == second[1] and not first[2] & second[2] and first[3] != second[3]
        and words[first[0]] not in words[second[4] : second[3]] and words[second[0]] not in words[first[4] : first[3]]
    ]  # fmt: skip
    if not pairs:
        return caption.text
    first, second = random.choice(pairs)
    tokens = caption.tokens()
    one_word, other = tokens[first], tokens[second]
    if one_word[:1].isupper():
        one_word, other = lowered(one_word), raised(other)
    return fit_article(
        replaced(
            caption.text,
            [
                (caption.starts[first], caption.ends[first], other),
                (caption.starts[second], caption.ends[second], one_word),
            ],
        ),
        caption.text,
    )


def _noun_behind(caption: TaggedCaption, token: int, last: int) -> int | None:
    """The noun that an adjective stands before: the last one of the run behind it."""
    for place in range(token + 1, last + 1):
        if is_noun(caption.tags[place]) and (place == last or not is_noun(caption.tags[place + 1])):
            return place
    return None


SWAP_ATTRIBUTE = Perturbation(
    name="swap_attribute",
    title="Swap Attribute",
    family="meaning",
    level="sentence",
    change=change,
    about="Two things exchange a colour, a size, an age, a pattern, a material or a state; the caption becomes wrong.",
    needs_words=True,
)
