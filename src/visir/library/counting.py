"""What a library counts: how many items have each brand, lie in each category, cost how much."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visir.library.facets import Facets
    from visir.library.filters import Field
    from visir.library.snapshot import LibrarySnapshot


class CountsItems:
    """The part of a `Library` that counts its items."""

    @property
    @abstractmethod
    def snapshot(self) -> LibrarySnapshot:
        """Its newest state."""

    @property
    def fields(self) -> dict[str, Field]:
        """The fields that conditions (`where`) can name."""
        return dict(self.snapshot.fields)

    def facets(
        self, *, where: str | Sequence[Any] = (), category: str | None = None, fields: Sequence[str] | None = None
    ) -> Facets:
        """Count how many items have each brand, lie in each category, cost how much.

        Args:
            where: Conditions that every counted item satisfies; a field is counted without those on itself.
            category: Only this folder or category, with everything below it.
            fields: The fields; None takes the category, price and brand, and others that group the items.

        Raises:
            FilterError: A field is unknown, or a condition does not fit.

        Example:
            >>> import visir
            >>> from pathlib import Path
            >>> _ = Path("shop.csv").write_text("id,title,brand\\n1,red cup,Acme\\n2,pot,Acme\\n3,pan,Zeta\\n")
            >>> visir.index("shop.csv", "bow").facets()["brand"].values[0].count
            2
        """
        from visir.library.facets import facets_of
        from visir.library.filters import read_condition

        conditions = [where] if isinstance(where, str) else where
        return facets_of(
            self.snapshot, [read_condition(condition) for condition in conditions], category=category, fields=fields
        )
