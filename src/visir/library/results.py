"""What a library answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from visir.display import counted
from visir.library.price_words import ReadWords
from visir.library.query import AnsweredBy, System
from visir.retrieval.text.index import FoundWord
from visir.sparse.top_terms import Match

if TYPE_CHECKING:
    from visir.reports.examples import WordRegions


@dataclass(frozen=True)
class RankedItem:
    """A picture of an answer."""

    id: str  # of the picture
    rank: int  # from 1, over all pages
    # The score that ranks it: a cosine (dense), a sum of matched words' products (sparse), the fused score (both,
    # hybrid), a BM25F score (words), or that of the matching head. The scores of hits behind re-ranked ones are shifted
    # below the last of them, so that scores never rise.
    score: float
    # From each system that listed it ("words", "dense", "sparse", "matching") to its rank and score there.
    parts: Mapping[str, tuple[int, float]]


@dataclass(frozen=True)
class ResultPage:
    """A page of answers.

    Attributes:
        hits: Best first.
        total: How many items the answer has on all its pages. Vectors rank all that pass the filters, as no score says
            which of them fit; words find those that share a word with the query.
        next_offset: Where the next page begins; None where the answer ends.
        by: What answered: "words", "vectors", "both", or "filters", where what satisfies conditions was listed.
        system: The system of vectors that answered, as a query names it; None for words alone.
        label: What people call it: "late interaction" for the dense system of a model that makes several vectors,
            "words and dense" for both; of filters alone the order: "newest first", "by name".
        text: The text that was searched with, if any.
        seconds: By stage: "filter", "encode", "search", "fuse", "rerank"; of all queries that were answered together.
        generation: Of the library that answered.
        read: Words of the text that became conditions: "under 50".
        changes: What was searched beside or instead of the words of the text, a sentence each.
        matched: How many items share a word with the query; None where words have no part in the answer.
    """

    hits: tuple[RankedItem, ...]
    total: int
    next_offset: int | None
    by: AnsweredBy
    system: System | None
    label: str
    text: str | None
    seconds: Mapping[str, float]
    generation: int
    read: tuple[ReadWords, ...] = ()
    changes: tuple[str, ...] = ()
    matched: int | None = None


def count_in_words(
    total: int, matched: int | None, *, by: str, system: str | None, label: str, unit: str, filtered: bool
) -> str:
    """How many items an answer has, and in what sense: found, ranked, or listed."""
    passing = f"that {'passes' if total == 1 else 'pass'} the filters"
    items = counted(total, unit) + (f" {passing}" if filtered else "")
    if by == "filters":
        return f"{items}, {label}"
    if by == "words" and matched is None:  # words that are conditions themselves, "under 500", and no others
        return items
    if system in (None, "sparse"):
        return f"{items} found" if not filtered else f"{counted(total, unit)} found among those that pass the filters"
    shared = "" if matched is None else f"; {matched:,} found by words"
    return f"{items}, ranked{shared}"


@dataclass(frozen=True)
class SystemScore:
    """A picture's place in the list of one system."""

    rank: int | None  # from 1; None when it is beyond the list
    score: float  # the system's own
    contribution: float  # what it added to the answer's score: all of it, or its part of the fused score
    label: str  # what people call the system


@dataclass(frozen=True)
class HitExplanation:
    """Why a picture answers a query."""

    # Words that both have, with the weights of both sides; they are the sparse score, taken apart. Empty where the
    # library has no weighted words.
    terms: tuple[Match, ...]
    # (text, score) of the captions nearest to the picture, its own and others', by the dense model.
    captions: tuple[tuple[str, float], ...]
    parts: Mapping[str, SystemScore]  # rank, score and contribution of each system
    words: tuple[tuple[str, float], ...]  # (word, weight), the heaviest of the picture
    # The words of the query that the texts of a product have, where they stand, and what each adds to its score.
    found_words: tuple[FoundWord, ...] = ()
    # What each word of the query matched in the picture, or why that is not known (`missing`); None for a model that
    # makes one vector for each, or a query without a text.
    regions: WordRegions | None = None
