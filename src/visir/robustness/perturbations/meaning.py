"""Captions that say something else: noun phrases and verbs, as parts of speech tell them, change places."""

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


def negate(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
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
    change=negate,
    about='The first verb is denied ("is not running"), or the subject of a caption without verb; it becomes wrong.',
    needs_words=True,
)


# Swap Relation: the two things that a preposition or a verb relates change places.

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


def swap_relation(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
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
    change=swap_relation,
    about="Two things on both sides of a preposition or verb change places; the caption becomes wrong.",
    needs_words=True,
)


# Swap Attribute: two things exchange their colours, sizes or ages.

_KINDS = (
    COLOURS,
    frozenset({"small", "little", "tiny", "large", "big", "huge", "tall", "short", "long", "giant"}),
    frozenset({"young", "old", "elderly", "older", "younger", "adult", "middle-aged"}),
    frozenset({"striped", "plaid", "checkered", "spotted", "plain", "patterned", "floral"}),
    frozenset({"wooden", "metal", "plastic", "stone", "brick", "concrete", "leather", "glass"}),
    frozenset({"wet", "dry", "muddy", "snowy", "sandy", "grassy", "rocky", "dirty", "clean"}),
)
"""Adjectives that exchange places with their kind only: "a red shirt and blue jeans", never "a young shirt"."""


def swap_attribute(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
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
    change=swap_attribute,
    about="Two things exchange a colour, a size, an age, a pattern, a material or a state; the caption becomes wrong.",
    needs_words=True,
)
