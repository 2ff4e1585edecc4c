"""All features by name, in the order of Table 1: a new one is one new file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from visir.files import read_json
from visir.registry import Registry
from visir.robustness.granularity.articles import ARTICLES
from visir.robustness.granularity.characters import CHARACTERS
from visir.robustness.granularity.complement_phrases import COMPLEMENT_PHRASES
from visir.robustness.granularity.concept_depth import CONCEPT_DEPTH
from visir.robustness.granularity.diversity import DIVERSITY
from visir.robustness.granularity.quantifiers import QUANTIFIERS_FEATURE
from visir.robustness.granularity.tokens import CaptionFeature, TokenColumns, Values
from visir.robustness.granularity.word_count import WORDS
from visir.robustness.language.tagging import is_adjective

# Table 1 of the brittleness paper, as printed.

FILE = Path(__file__).parent / "brittleness-table-1.json"


@dataclass(frozen=True)
class PublishedGranularity:
    """The printed means: `values[collection][feature]`, rounded to `decimals`, with title and source."""

    # It has a form of its own because the tables of `visir.evaluation.published` are of systems and directions of
    # search.

    title: str
    source: str
    decimals: int
    values: Mapping[str, Mapping[str, float]]


def table_1() -> PublishedGranularity:
    """Table 1: MS-COCO and Flickr30k, original and refined ("-FG"), test splits, five captions per image."""
    # In text taken from the PDF the row of concept depth has slipped one column to the left. The paper does not say
    # which split the means are over; its numbers of characters and words are those of the test splits to the last
    # digit.
    content = read_json(FILE)
    return PublishedGranularity(content["title"], content["source"], content["decimals"], content["rows"])


# Adjectives of a caption (section 3.1.1, "Modifiers of the Noun").


def paper(tokens: TokenColumns) -> Values:
    """Adjectives in their plain form, tag AJ0: "a big dog" 1, "the bigger dog" 0."""
    # With comparatives and superlatives, which are few, Flickr30k comes out further off (1.15 | 1.32 for 1.14 | 1.30).
    # "Per identified noun", as the text has it, would give about 0.2 to 0.3: Table 1 counts per caption.
    return tokens.sum(tokens.tagged({"AJ0"}))


def strict(tokens: TokenColumns) -> Values:
    """Adjectives, comparatives and superlatives among them, before a noun or after a verb ("the dog is big")."""
    # Another reading counts only those that stand before a noun, as modifiers do; but a caption that says that the dog
    # is big is as detailed as one that says "a big dog".
    return tokens.sum(tokens.tagged(is_adjective))


ADJECTIVES = CaptionFeature(
    "adjectives",
    "Adjectives",
    "noun phrase",
    paper,
    strict,
    "adjectives in their plain form (AJ0)",
    "adjectives, comparatives and superlatives too",
    per_noun=True,
)


FEATURES: Registry[CaptionFeature] = Registry("feature of granularity")
for _one in (
    *(ADJECTIVES, COMPLEMENT_PHRASES, ARTICLES, QUANTIFIERS_FEATURE, CONCEPT_DEPTH),
    *(CHARACTERS, WORDS, DIVERSITY),
):
    FEATURES.add(_one.name, _one)
