"""What a library answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from visir.library.query import System
from visir.search.sparse.matched import Match


@dataclass(frozen=True)
class LibraryHit:
    """A picture that was found.

    - `rank`: from 1, over all pages; `score`: by which it stands there: a cosine (dense), a sum of matched words'
      products (sparse), the fused score (hybrid), or the matching head's; behind re-ranked hits the others' scores are
      shifted below the last of them, so that scores never rise
    - `parts`: from each system that listed it ("dense", "sparse", "matching") to its rank and score there
    """

    item: str
    rank: int
    score: float
    parts: Mapping[str, tuple[int, float]]


@dataclass(frozen=True)
class ResultPage:
    """A page of answers.

    - `total`: how many pictures there were to choose from, after the filters; not how many fit, which no score says
    - `next_offset`: where the next page begins, None where the answer ends
    - `system`: which system answered; `text`: the text that was searched with, if any
    - `seconds`: by stage: "filter", "encode", "search", "fuse", "rerank"; for queries that were asked together, of all
    - `generation`: of the library that answered
    """

    hits: tuple[LibraryHit, ...]
    total: int
    next_offset: int | None
    system: System
    text: str | None
    seconds: Mapping[str, float]
    generation: int


@dataclass(frozen=True)
class SystemScore:
    """What one system says of a picture: its rank (None when beyond its list), its score, and what it gave to the
    answer's score: all of it, or its part of the fused score.
    """

    rank: int | None
    score: float
    gives: float


@dataclass(frozen=True)
class HitExplanation:
    """Why a picture answers a query.

    - `terms`: words that both have, with the weights of both sides; they are the sparse score, taken apart. Empty where
      the library has no weighted words.
    - `captions`: (text, score) of the captions that are nearest to the picture, its own and others', by the dense model
    - `parts`: what each system says of it
    - `words`: (word, weight), the heaviest of the picture
    """

    terms: tuple[Match, ...]
    captions: tuple[tuple[str, float], ...]
    parts: Mapping[str, SystemScore]
    words: tuple[tuple[str, float], ...]
