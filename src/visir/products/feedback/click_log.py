"""A log of searches: which product was shown for which query at which position, and whether it was clicked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.collections.readers.columns import all_columns, one_column
from visir.collections.readers.rows import read_rows
from visir.display import Displayed, brief
from visir.errors import CollectionError, raise_faults

QUERY = ("query", "query_id", "search_query", "search_term", "keyword", "q")
PRODUCT = ("product_id", "product", "item_id", "document_id", "sku", "asin", "id")
POSITION = ("position", "rank", "pos")
CLICKED = ("clicked", "click", "is_click")
VISITOR = ("visitor", "visitor_id", "user_id", "session_id")
_YES, _NO = ("1", "true", "yes", "1.0"), ("0", "false", "no", "0.0", "")
_SHOWN = 5
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class ClickLog(Displayed):
    """Impressions, one row each: a product that was shown for a query.

    Args:
        queries: The distinct queries.
        products: The distinct products.
        query: (m,) which query.
        product: (m,) which product.
        position: (m,) where it was shown; 1 is the first place.
        clicked: (m,) bool: whether it was clicked (or bought, where that is what counts).
        repeated: How many rows were left out, because the visitor had seen this product for this query before.

    Example:
        >>> ClickLog.of(["dress", "dress"], ["a", "b"], [1, 2], [0, 1])
        ClickLog(2 impressions, 1 click, 1 query, positions 1 to 2)
    """

    queries: tuple[str, ...]
    products: tuple[str, ...]
    query: Ints
    product: Ints
    position: Ints
    clicked: NDArray[np.bool_]
    repeated: int = 0

    @classmethod
    def of(
        cls,
        queries: Sequence[str],
        products: Sequence[str],
        positions: Sequence[int] | Ints,
        clicked: Sequence[Any] | NDArray[Any],
        visitors: Sequence[str] | None = None,
    ) -> ClickLog:
        """Make a log from columns, all equally long.

        Args:
            queries: The query of each impression.
            products: The product.
            positions: Whole numbers from 1.
            clicked: Whether it was clicked: numbers or truth values.
            visitors: Who saw it; of a visitor who sees a product several times for one query only the first counts.

        Raises:
            CollectionError: Columns differ in length, are empty, or a position is below 1.
        """
        lengths = {len(column) for column in (queries, products, positions, clicked)}
        lengths |= set() if visitors is None else {len(visitors)}
        position = np.asarray(positions, np.int64)
        faults = [f"columns of {sorted(lengths)} rows"] * (len(lengths) > 1)
        faults += ["no impression in it"] * (lengths == {0})
        faults += [f"positions begin with 1; the smallest is {position.min()}"] * bool(
            len(position) and position.min() < 1
        )
        raise_faults(CollectionError, "click log", faults, hint="one row for every product that was shown")
        names, query = np.unique(np.asarray(queries, np.str_), return_inverse=True)
        ids, product = np.unique(np.asarray(products, np.str_), return_inverse=True)
        first = np.arange(len(query))
        if visitors is not None:
            who = np.unique(np.asarray(visitors, np.str_), return_inverse=True)[1].astype(np.int64)
            key = (who * len(names) + query) * len(ids) + product
            first = np.sort(np.unique(key, return_index=True)[1])
        return cls(
            tuple(names.tolist()),
            tuple(ids.tolist()),
            query[first].astype(np.int64),
            product[first].astype(np.int64),
            position[first],
            np.asarray(clicked, np.bool_)[first],
            len(query) - len(first),
        )

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        clicks = int(self.clicked.sum())
        return brief(
            self,
            f"{len(self):,} impressions, {clicks:,} {'click' if clicks == 1 else 'clicks'}, {len(self.queries):,} "
            f"{'query' if len(self.queries) == 1 else 'queries'}, positions {self.position.min()} to "
            f"{self.position.max()}",
        )

    @property
    def pair(self) -> Ints:
        """(m,) the number of the pair of query and product of each impression."""
        return self.query * len(self.products) + self.product


def read_click_log(
    path: str | Path,
    *,
    query: str | None = None,
    product: str | None = None,
    position: str | None = None,
    clicked: str | None = None,
    visitor: str | None = None,
) -> ClickLog:
    """Read a log: CSV, TSV, JSON lines or Parquet (`.gz`, `.xz` too), one row for every product that was shown.

    Products that were shown and not clicked must be in it. A log of clicks alone says nothing of position bias. Rows
    are taken in the order of the file.

    Args:
        path: The file.
        query: The column of the query; None takes a usual name ("query", "search_term", …). So for the others.
        product: The column of the product's id.
        position: The column of the position, from 1.
        clicked: The column that says whether it was clicked: 1 and 0, true and false, yes and no. Name a column of
            purchases to judge by those.
        visitor: The column of the visitor, if there is one.

    Raises:
        CollectionError: A column is missing, or cells cannot be read; the message has the first places.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log = Path(folder, "log.csv")
        ...     _ = log.write_text("query,product_id,position,clicked\\nred dress,a,1,0\\nred dress,b,2,1\\n")
        ...     read_click_log(log)
        ClickLog(2 impressions, 1 click, 1 query, positions 1 to 2)
    """
    path = Path(path)
    if not path.is_file():
        raise CollectionError(f"{path}: no such file.", hint="check the path")
    columns = all_columns(path)
    wanted = {
        "query": (query, QUERY),
        "product": (product, PRODUCT),
        "position": (position, POSITION),
        "clicked": (clicked, CLICKED),
        "visitor": (visitor, VISITOR),
    }
    named = {name: one_column(path, columns, given, usual, name) for name, (given, usual) in wanted.items()}
    missing = [name for name, column in named.items() if column is None and name != "visitor"]
    if missing:
        raise CollectionError(
            f"{path}: no column of {', '.join(missing)}.",
            hint=f"name it: {missing[0]}=…; there are {columns}",
            code="collection-no-column-3",
        )
    cells: dict[str, list[Any]] = {name: [] for name in wanted}
    faults: list[str] = []
    for place, row in read_rows(path):
        values = _values(row, named)
        problem = next((name for name, value in values.items() if value is None), None)
        if problem is None:
            for name, value in values.items():
                cells[name].append(value)
        else:
            faults.append(f"{place}: {problem} {str(row.get(str(named[problem])))[:40]!r}")
    if len(faults) > _SHOWN:
        faults[_SHOWN:] = [f"{len(faults) - _SHOWN:,} more rows like these"]
    raise_faults(CollectionError, f"{path}: cells that cannot be read", faults, hint="mend or leave out these rows")
    visitors = cells["visitor"] if named["visitor"] is not None else None
    return ClickLog.of(cells["query"], cells["product"], cells["position"], cells["clicked"], visitors)


def _values(row: Mapping[str, Any], named: Mapping[str, str | None]) -> dict[str, Any]:
    """The values of a row by what they are; None for one that cannot be read."""
    values: dict[str, Any] = {}
    for name, column in named.items():
        if column is None:
            continue
        text = "" if row.get(column) is None else str(row[column]).strip()
        if name == "position":
            values[name] = int(float(text)) if _is_position(text) else None
        elif name == "clicked":
            low = text.lower()
            values[name] = True if low in _YES else False if low in _NO else None
        else:
            values[name] = text or None
    return values


def _is_position(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return number.is_integer() and number >= 1
