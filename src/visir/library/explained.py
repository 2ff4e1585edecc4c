"""Why a picture answers a search, as Python hands it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.display import Displayed, brief, quoted
from visir.library.hits import LibraryPicture, picture_of
from visir.library.query import Query
from visir.library.results import HitExplanation, SystemScore

if TYPE_CHECKING:
    from visir.library.item import Item
    from visir.library.searcher import Searcher
    from visir.reports.alignment import WordRegions
    from visir.sparse.matched import Match


@dataclass(frozen=True, repr=False)
class ExplainedPicture(Displayed, view="visir.library.reports.explained"):
    """Why a picture answers a search. In a notebook it shows what each word matched in the picture."""

    picture: LibraryPicture  # the picture
    query: Query  # what was searched
    explanation: HitExplanation  # the reasons

    @property
    def regions(self) -> WordRegions | None:
        """What each word matched in the picture; None for a model that makes one vector for each."""
        return self.explanation.regions

    @property
    def terms(self) -> tuple[Match, ...]:
        """Weighted words that both have; empty where the library has none."""
        return self.explanation.terms

    @property
    def captions(self) -> tuple[tuple[str, float], ...]:
        """(text, score) of the captions nearest to the picture; empty where the source has none."""
        return self.explanation.captions

    @property
    def parts(self) -> Mapping[str, SystemScore]:
        """Rank, score and contribution of each system."""
        return self.explanation.parts

    def __repr__(self) -> str:
        scores = ", ".join(f"{part.label}: rank {part.rank or 'beyond the list'}, score {part.score:.4f}"
                           for part in self.parts.values())  # fmt: skip
        words = self.regions.words if self.regions is not None else ()
        return brief(
            self,
            quoted(self.picture.name),
            scores,
            ", ".join(f"{word.word} {word.score:.2f}" for word in words),
            ", ".join(f"{term.term} {term.share:.0%}" for term in self.terms[:6]),
            ", ".join(f"{'/'.join(match.words)} {match.score:.2f}" for match in self.explanation.found_words[:6]),
        )


class ExplainsAnswers:
    """The part of a `Library` that says why a picture answers a search."""

    _searcher: Searcher

    def _like(self, like: str | Path | LibraryPicture | Item | None) -> str | None:
        raise NotImplementedError

    def explain(
        self, picture: str | Path | LibraryPicture | Item, text: str | Query, **fields: Any
    ) -> ExplainedPicture:
        """Say why a picture answers a search, whether it is among the answers or not."""
        self._searcher.reload()
        library = self._searcher.library
        query = text if isinstance(text, Query) else Query(text=text, **fields)
        item = library.item(library.id_of(self._like(picture) or ""))
        return ExplainedPicture(picture_of(library, item), query, self._searcher.explain(query, item.id))
