"""The answer of a text index."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextAnswer:
    """The answer of a text index to one query.

    Attributes:
        ids: Of the documents, best first; equal scores in order of id.
        scores: Their scores.
        total: How many documents share a word with the query, listed or not.
        changes: What was searched beside or instead of the words of the query, a sentence each.
        corrected: The query with misspelt words replaced, for other systems; as it was typed where none is.
    """

    ids: tuple[str, ...]
    scores: tuple[float, ...]
    total: int
    changes: tuple[str, ...]
    corrected: str
