"""What a library counts: how many items have each brand, lie in each category, cost how much."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visir.library.facets import Facets
    from visir.library.filters import Field
    from visir.library.query import By, System
    from visir.library.searcher import Searcher
    from visir.library.snapshot import LibrarySnapshot


class CountsItems:
    """The part of a `Library` that counts its items."""

    _searcher: Searcher

    @property
    @abstractmethod
    def snapshot(self) -> LibrarySnapshot:
        """Its newest state."""

    @property
    def fields(self) -> dict[str, Field]:
        """The fields that conditions (`where`) can name."""
        return dict(self.snapshot.fields)

    def facets(
        self,
        text: str | None = None,
        *,
        where: str | Sequence[Any] = (),
        category: str | None = None,
        fields: Sequence[str] | None = None,
        by: By | None = None,
        system: System | None = None,
        read_prices: bool = True,
    ) -> Facets:
        """Count how many items have each brand, lie in each category, cost how much.

        Args:
            text: Count what these words find; where vectors rank everything, everything is counted (`Facets.of`).
            where: Conditions that every counted item satisfies; a field is counted without those on itself, which its
                `left_out` lists.
            category: Only this folder or category, with everything below it.
            fields: The fields; None takes the category, price and brand, and others that group the items.
            by: What the text is searched by, as of `search`.
            system: Of vectors, as of `search`.
            read_prices: Whether words such as "under 50" are a condition on the price.

        Raises:
            FilterError: A field is unknown, or a condition does not fit.
            QueryError: The library cannot be searched so.

        Example:
            >>> import visir
            >>> from pathlib import Path
            >>> _ = Path("shop.csv").write_text("id,title,brand\\n1,red cup,Acme\\n2,pot,Acme\\n3,pan,Zeta\\n")
            >>> visir.index("shop.csv", "bow").facets()["brand"].values[0].count
            2
        """
        self._searcher.reload()
        query = {"text": text, "where": where, "category": category, "read_prices": read_prices}
        given = {name: value for name, value in (("by", by), ("system", system)) if value is not None}
        return self._searcher.facets({**query, **given}, fields)
