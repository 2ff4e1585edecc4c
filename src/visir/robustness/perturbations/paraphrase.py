"""Paraphrase: the same in other words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from visir.robustness.language.tagged_captions import TaggedCaption, inflect_like
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.meaning import FINITE, lowered, noun_phrases, raised, replaced
from visir.robustness.random_stream import RandomStream

_SAME = {
    "next to": "beside", "beside": "next to", "near": "close to", "close to": "near", "bicycle": "bike",
    "bicycles": "bikes", "kid": "child", "kids": "children", "child": "kid", "children": "kids", "big": "large",
    "large": "big", "couch": "sofa", "sofa": "couch", "photo": "picture", "picture": "photo", "several": "a number of",
    "atop": "on top of", "on top of": "atop", "a lot of": "many", "lots of": "many", "automobile": "car",
    "tv": "television", "sea": "ocean", "ocean": "sea", "jumps": "leaps", "jumping": "leaping", "leaps": "jumps",
    "leaping": "jumping", "guy": "man", "guys": "men", "lady": "woman", "ladies": "women", "woman": "lady",
    "gentleman": "man", "outdoors": "outside", "outside": "outdoors", "snow covered": "snowy",
    "snow-covered": "snowy", "little boy": "small boy", "little girl": "small girl", "little boys": "small boys",
    "little girls": "small girls", "frisbee": "flying disc", "frisbees": "flying discs", "toddler": "small child",
}  # fmt: skip
_NOT_BEFORE = {"jumps": ("rope",), "jumping": ("rope", "jacks"), "outside": ("of", "a", "the"), "outdoors": ("of",)}
"""What a word must not stand before, to be replaced."""
_DRESSED = frozenset({"wearing", "holding", "carrying", "dressed"})
"""Verbs that stand beside another one: "a girl wearing green runs"."""
_PLACES = frozenset(
    {"on", "in", "at", "under", "through", "over", "across", "near", "beside", "behind", "along", "inside", "by"}
)
_ENDINGS = " \t\r\n.!?"


def change(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """`severity` of: another word or phrase, another form of the verb, "there is", the place said first."""
    from visir.robustness.language.tagging import cut

    for _ in range(severity):
        ways = [text for rewrite in _WAYS for text in rewrite(caption) if text != caption.text]
        if not ways:
            break
        caption = cut([random.choice(ways)]).sentences()[0]
    return caption.text


def _other_words(caption: TaggedCaption) -> Iterator[str]:
    pattern = r"(?<![\w-])(" + "|".join(sorted(map(re.escape, _SAME), key=len, reverse=True)) + r")(?![\w-])"
    for match in re.finditer(pattern, caption.text, re.IGNORECASE):
        words, behind = _SAME[match.group().lower()], caption.text[match.end() :].lower().split()
        before = caption.text[: match.start()].lower().split()
        if behind and behind[0] in _NOT_BEFORE.get(match.group().lower(), ()):
            continue
        if match.group().lower() == "near" and before[-1:] in (["the"], ["a"]):
            continue
        new = raised(words) if match.start() == 0 and match.group()[:1].isupper() else words
        yield replaced(caption.text, [(match.start(), match.end(), new)])


def _other_form(caption: TaggedCaption) -> Iterator[str]:
    """ "is running" and "runs"; "are running" and "run"."""
    tags, words, phrases = caption.tags, [token.lower() for token in caption.tokens()], noun_phrases(caption)
    if not phrases:
        return
    subject = phrases[0]
    token = subject.last + 1
    if subject.first != 0 or token >= len(words):
        return
    start, end = caption.starts[token], caption.ends[token]
    if words[token] in ("is", "are") and token + 1 < len(words) and tags[token + 1] == "VVG":
        lemma = caption.lemmas[token + 1]
        form = inflect_like(lemma, "x", "VVZ") if words[token] == "is" else lemma
        yield replaced(caption.text, [(start, caption.ends[token + 1], form)])
    elif any(word == "and" and tags[place + 1] in FINITE for place, word in enumerate(words[:-1])):
        return  # two verbs want one form
    elif tags[token] == "VVZ" and subject.plural is False:
        yield replaced(caption.text, [(start, end, f"is {inflect_like(caption.lemmas[token], 'x', 'VVG')}")])
    elif tags[token] == "VVB" and subject.plural:
        yield replaced(caption.text, [(start, end, f"are {inflect_like(caption.lemmas[token], 'x', 'VVG')}")])


def _there_is(caption: TaggedCaption) -> Iterator[str]:
    """ "A dog running" and "A dog is running": "There is a dog running"."""
    tags, words, phrases = caption.tags, [token.lower() for token in caption.tokens()], noun_phrases(caption)
    if not phrases or phrases[0].first != 0 or phrases[0].plural is None or words[0] in ("the", "his", "her", "their"):
        return
    if not (words[0] in ("a", "an") or tags[0] == "CRD"):
        return
    subject = phrases[0]
    verb = subject.last + 1
    if verb >= len(words):
        return
    be = "There are" if subject.plural else "There is"
    before = lowered(caption.text[: caption.ends[subject.last]])
    if words[verb] in ("is", "are") and verb + 1 < len(words) and tags[verb + 1] == "VVG":
        yield f"{be} {before}{caption.text[caption.ends[verb] :]}"
    elif tags[verb] == "VVG" and words[verb] not in _DRESSED and not any(tag in FINITE for tag in tags):
        yield f"{be} {before}{caption.text[caption.ends[subject.last] :]}"


def _place_first(caption: TaggedCaption) -> Iterator[str]:
    """ "Two dogs play in the snow" becomes "In the snow, two dogs play"."""
    tags, words, phrases = caption.tags, [token.lower() for token in caption.tokens()], noun_phrases(caption)
    body = len(caption.text.rstrip(_ENDINGS))
    if len(phrases) != 2 or phrases[0].first != 0 or caption.ends[phrases[1].last] != body:
        return
    place = phrases[1].first - 1
    if place < 2 or words[place] not in _PLACES or "," in caption.text[:body]:
        return
    verbs = range(phrases[0].last + 1, place)
    if not verbs or any(tags[token] not in (*FINITE, "VVG", "AV0", "AVP") for token in verbs):
        return
    if not any(tags[token] in FINITE for token in verbs) or tags[place - 1] == "AVP":
        return
    if not any(tags[token].startswith("VV") for token in verbs):  # "on the fence, the dog is"
        return
    start = caption.starts[place]
    rest = lowered(caption.text[:start].rstrip()) if tags[0] != "NP0" else caption.text[:start].rstrip()
    yield f"{raised(caption.text[start:body])}, {rest}{caption.text[body:]}"


_WAYS: tuple[Callable[[TaggedCaption], Iterator[str]], ...] = (_other_words, _other_form, _there_is, _place_first)

PARAPHRASE = Perturbation(
    name="paraphrase",
    title="Paraphrase",
    family="paraphrases",
    level="sentence",
    change=change,
    about='The same in other words: "beside" for "next to", "runs" for "is running", "there is", the place said first.',
    severity="changes",
    needs_words=True,
)
