"""Quantifiers of a caption (section 3.1.1, "Determiners")."""

import re

from visir.robustness.granularity.tokens import CaptionFeature, TokenColumns, Values

QUANTIFIERS = frozenset(
    {
        *("some", "any", "no", "each", "every", "either", "neither", "both", "all"),
        *("many", "much", "several", "few", "little", "more", "most", "less", "fewer", "enough"),
    }
)
"""Words that say how many or how much, as far as they are determiners (some are adverbs as well: "all wet")."""
NUMBERS = frozenset(
    {
        *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty"),
        *("forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "hundreds", "thousand", "thousands"),
        *("million", "millions", "dozen", "dozens"),
    }
)
QUANTITY_NOUNS = frozenset({"lot", "lots", "plenty", "couple", "number"})
"""Nouns that are quantifiers when "of" follows: "a lot of people". "Bunch", "group" and "pair" say how things stand."""
_DIGITS = re.compile(r"\d[\d,.]*")


def paper(tokens: TokenColumns) -> Values:
    """Numerals (tag CRD), and nothing else: "two dogs" 1, "some dogs" 0."""
    # Whatever holds "some" or "many" as well comes out at twice Table 1's values or more (strict: 0.23 for COCO's
    # 0.12).
    return tokens.sum(tokens.tagged({"CRD"}))


def strict(tokens: TokenColumns) -> Values:
    """Words that say how many or how much: "some", "many", "each", …; numerals; "a lot of", "a couple of"."""
    # Numerals are quantifiers here, as in Huddleston & Pullum's grammar (2002, chapter 5): "two dogs" answers *how
    # many* more exactly than "several dogs", so a count that took only the vaguer word would go down where a caption
    # becomes more precise. Digits count before a noun or adjective only: "2 dogs", not "the number 5" or "boeing 747".
    # "One" that is a pronoun ("holding one") does not count, nor do the article "a" and ordinals ("second").
    words = tokens.tagged({"DT0", "AT0"}) & tokens.written(QUANTIFIERS)
    words |= tokens.written({"many", "several"})  # never adverbs; taggers think they are where no noun is near
    words |= tokens.written({"few"}) & tokens.before(tokens.written({"a"}))
    numerals = tokens.tagged({"CRD"})
    head = tokens.tagged(lambda tag: tag.startswith(("NN", "AJ")))
    words |= numerals & tokens.written(NUMBERS)
    words |= numerals & tokens.written(lambda form: _DIGITS.fullmatch(form) is not None) & tokens.after(head)
    words |= tokens.written(QUANTITY_NOUNS) & tokens.after(tokens.written({"of"}))
    return tokens.sum(words)


QUANTIFIERS_FEATURE = CaptionFeature(
    "quantifiers",
    "Quantifiers",
    "noun phrase",
    paper,
    strict,
    "numerals",
    "some, many, each, all, …, numerals, a lot of, a couple of",
    per_noun=True,
)
