"""A lemma put in the form of the word it replaces: "hound" for "Dogs" becomes "Hounds"."""

from __future__ import annotations

from functools import lru_cache

from visir.errors import require

_FORMS = {"NN2": "NNS", "AJC": "JJR", "AJS": "JJS", "VVD": "VBD", "VVG": "VBG", "VVN": "VBN", "VVZ": "VBZ"}
"""The tags whose words are inflected, in Penn's names, which lemminflect goes by."""

_PERIPHRASIS = {"JJR": "more", "JJS": "most"}


def inflect_like(lemma: str, example: str, tag: str) -> str:
    """A lemma in the form of another word, and with its capitals."""
    # Plurals (NN2), comparatives and superlatives (AJC, AJS; "more red-haired" where there is no form of one word) and
    # the forms of verbs; other tags leave the lemma as it is. WordNet's "_" becomes a space; of several words the one
    # that carries the ending is inflected (the last of a noun, but "man of letters": the one before the preposition;
    # the first of a verb). Capitals: "Dog" → "Hound", "DOG" → "HOUND"; otherwise the lemma's own ("Labrador").
    words = lemma.replace("_", " ")
    form = _FORMS.get(tag)
    if form is not None:
        words = _inflected(words, form)
    if len(example) > 1 and example.isupper():
        return words.upper()
    return words[:1].upper() + words[1:] if example[:1].isupper() else words


@lru_cache(1 << 16)
def _inflected(words: str, form: str) -> str:
    require("lemminflect", extra="robustness", purpose="inflecting words")
    from lemminflect import getAllInflections, getInflection

    if not words.strip():  # blanks have no form
        return words
    if form in _PERIPHRASIS:
        inflections = getAllInflections(words, "ADJ").get(form)
        return inflections[0] if inflections else f"{_PERIPHRASIS[form]} {words}"
    parts = words.split(" ")
    position = _head(parts) if form == "NNS" else 0
    if form == "NNS" and _is_plural(parts[position], set(getAllInflections(parts[position]))):
        return words
    inflections = getInflection(parts[position], form) if parts[position] else ()  # of nothing it raises
    if inflections:
        parts[position] = inflections[0]
    return " ".join(parts)


def _is_plural(noun: str, known_forms: set[str]) -> bool:
    """Lemmas of WordNet that are plurals already ("sunglasses"); "glass", "bus", "iris" are not."""
    return "NNS" not in known_forms and noun.endswith("s") and not noun.endswith(("ss", "us", "is"))


def _head(parts: list[str]) -> int:
    """Which word of a noun of several is inflected: the one before a preposition, otherwise the last."""
    prepositions = (i for i, part in enumerate(parts) if i and part in ("of", "in", "at", "for", "to"))
    return next(prepositions, len(parts)) - 1
