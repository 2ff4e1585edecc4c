"""The answer of a text index."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextAnswer:
    """The answer of a text index to one query."""

    ids: tuple[str, ...]  # of the documents, best first; equal scores in order of id
    scores: tuple[float, ...]  # their scores
    total: int  # how many documents share a word with the query, listed or not
    changes: tuple[str, ...]  # what was searched beside or instead of the words of the query, a sentence each
    corrected: str  # the query with misspelt words replaced, for other systems; as it was typed where none is
