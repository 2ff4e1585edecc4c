"""Negation: what a caption says is denied."""

from __future__ import annotations

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations.base import Perturbation
from visir.robustness.perturbations.phrases import FINITE, noun_phrases, replaced
from visir.robustness.random_stream import RandomStream

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
