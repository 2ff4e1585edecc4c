"""Swap Relation: the two things that a preposition or a verb relates change places."""

from __future__ import annotations

from itertools import pairwise

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.phrases import COLOURS, FINITE, NounPhrase, exchanged, noun_phrases
from visir.robustness.random_stream import RandomStream

_PREPOSITIONS = frozenset(
    {
        *("on", "in", "under", "behind", "above", "over", "below", "beneath", "inside", "through", "into", "onto"),
        *("atop", "underneath", "out"),
    }
)
_PHRASES = (("in", "front", "of"), ("on", "top", "of"), ("out", "of"))
_MUTUAL = frozenset(
    {
        *("meet", "kiss", "hug", "fight", "face", "join", "accompany", "touch", "near", "play", "race", "greet"),
        *("embrace", "wrestle"),
    }
)
"""Verbs that hold both ways: to change the two changes nothing."""
_BETWEEN = frozenset({*FINITE, "VVG", "VVN", "VBG", "AV0", "AVP"})
_NUMBERED = frozenset({"VBZ", "VBB", "VVZ", "VVB", "VHZ", "VHB", "VDZ", "VDB", "VBD"})
_VAGUE = frozenset(
    {
        *("front", "top", "side", "middle", "background", "foreground", "back", "air", "day", "night", "distance"),
        *("row", "line", "group", "left", "right"),
    }
)
"""Nouns that name a place or a time rather than a thing."""
_THINGS = frozenset(
    {
        *("building", "railing", "clothing", "ring", "king", "string", "wing", "swing", "ceiling", "painting"),
        *("sling", "awning", "something"),
    }
)
"""Nouns that end like a form of a verb."""


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """ "A man sits on a bench" becomes "A bench sits on a man". Relations that hold both ways are no candidates."""
    phrases = noun_phrases(caption)
    pairs = [(first, second) for first, second in pairwise(phrases) if _is_relation(caption, first, second)]
    if not pairs:
        return caption.text
    first, second = random.choice(pairs)
    return exchanged(caption, (first.first, first.last), (second.first, second.last))


def _is_relation(caption: TaggedCaption, first: NounPhrase, second: NounPhrase) -> bool:
    words, tags = [token.lower() for token in caption.tokens()], caption.tags
    between = range(first.last + 1, second.first)
    if not between or {caption.lemmas[first.head].lower(), caption.lemmas[second.head].lower()} & _VAGUE:
        return False
    if caption.lemmas[first.head].lower() == caption.lemmas[second.head].lower():
        return False
    if not (_is_thing(caption, first) and _is_thing(caption, second)):
        return False
    inner = tuple(words[token] for token in between)
    if any(_agrees(caption, token) for token in between) and (first.plural is None or first.plural != second.plural):
        return False  # the verb would not agree
    behind = second.last + 1
    if behind < len(tags) and _agrees(caption, behind) and (first.plural is None or first.plural != second.plural):
        return False  # nor would the next one
    preposition = next((len(phrase) for phrase in _PHRASES if inner[-len(phrase) :] == phrase), 0)
    if not preposition and inner[-1] in _PREPOSITIONS:
        preposition = 1
    verbs = [tags[token] for token in list(between)[: len(inner) - preposition]]
    if any(tag not in _BETWEEN for tag in verbs):
        return False
    lemmas = {caption.lemmas[token].lower() for token in between}
    if lemmas & _MUTUAL:
        return False
    if not verbs and first.first > 0 and tags[first.first - 1] in ("PRP", "AVP", "VVG", "VVZ"):
        return False  # "in a boat on a lake" and "on a lake in a boat" may both be true
    if preposition:
        return True
    has_article = tags[second.first] in ("AT0", "DPS", "DT0", "CRD") or second.plural is True
    return has_article and any(tag.startswith("VV") for tag in verbs[-1:])


def _agrees(caption: TaggedCaption, token: int) -> bool:
    """Whether a verb has the number of its subject; taggers take "run" and "come" for participles."""
    tag, word = caption.tags[token], caption.text[caption.starts[token] : caption.ends[token]].lower()
    return tag in _NUMBERED or (tag == "VVN" and word == caption.lemmas[token].lower())


def _is_thing(caption: TaggedCaption, phrase: NounPhrase) -> bool:
    """Whether a phrase can stand elsewhere."""
    # Not "in blue", the end of a name, a second noun without article ("a shirt and hat"), or a verb taken for a noun.
    words = [token.lower() for token in caption.tokens()]
    inside = words[phrase.first : phrase.last + 1]
    before = words[phrase.first - 1] if phrase.first else ""
    if phrase.first and caption.tags[phrase.first - 1] == "NP0":
        return False
    bare = caption.tags[phrase.first] not in ("AT0", "DPS", "DT0", "CRD")
    if bare and (before == "and" or (inside[0] in COLOURS and (before == "in" or len(inside) == 1))):
        return False
    return all(not word.endswith("ing") or word in _THINGS for word in inside)


SWAP_RELATION = Perturbation(
    name="swap_relation",
    title="Swap Relation",
    family="meaning",
    level="sentence",
    change=change,
    about="Two things on both sides of a preposition or verb change places; the caption becomes wrong.",
    needs_words=True,
)
