"""Articles of a caption (section 3.1.1, "Determiners")."""

from visir.robustness.granularity.tokens import CaptionFeature, TokenColumns, Values

DETERMINERS = frozenset(
    {
        *(
            "a",
            "an",
            "the",
            "this",
            "that",
            "these",
            "those",
            "some",
            "any",
            "no",
            "each",
            "every",
            "either",
            "neither",
        ),
        *("another", "all", "both"),
    }
)
"""What the Penn treebank tags DT, which is what common taggers call a determiner."""


def paper(tokens: TokenColumns) -> Values:
    """All determiners (Penn's DT): "a", "the", and also "some", "this", "each", "another", "all", …"""
    # Articles alone give 2.07 on COCO for Table 1's 2.14. Of BNC's tags these are AT0, and DT0 where the word is one of
    # `DETERMINERS`; "several", "many" and "few" are adjectives in Penn's scheme and do not count.
    determiners = tokens.tagged({"DT0"}) & tokens.written(DETERMINERS)
    return tokens.sum(tokens.tagged({"AT0"}) | determiners)


def strict(tokens: TokenColumns) -> Values:
    """The articles of English: "a", "an", "the". A letter A ("vitamin A") is tagged otherwise and does not count."""
    return tokens.sum(tokens.tagged({"AT0"}) & tokens.written({"a", "an", "the"}))


ARTICLES = CaptionFeature(
    "articles",
    "Articles",
    "noun phrase",
    paper,
    strict,
    "all determiners: a, the, some, this, each, another, …",
    "a, an, the",
    per_noun=True,
)
