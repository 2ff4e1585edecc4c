"""`click_judgements`: clicks become judgements, corrected for the position at which products were shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from visir.collections.cells import flag_of
from visir.collections.tables import pick, read_table
from visir.display import Displayed, brief
from visir.errors import CollectionError, ConfigurationError, nearest, raise_faults
from visir.products.opening import write_new_table
from visir.records import Qrels
from visir.reports.table import Cell, Column, Table

# A log of searches: which product was shown for which query at which position, and whether it was clicked.

QUERY = ("query", "query_id", "search_query", "search_term", "keyword", "q")
PRODUCT = ("product_id", "product", "item_id", "document_id", "sku", "asin", "id")
POSITION = ("position", "rank", "pos")
CLICKED = ("clicked", "click", "is_click")
VISITOR = ("visitor", "visitor_id", "user_id", "session_id")
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
    table = read_table(path, header="yes")
    given = {"query": query, "product": product, "position": position, "clicked": clicked, "visitor": visitor}
    named = pick(
        table, given, query=QUERY, product=PRODUCT, position=POSITION, clicked=CLICKED, visitor=VISITOR
    ).columns
    missing = [name for name, column in named.items() if column is None and name != "visitor"]
    if missing:
        raise CollectionError(
            f"{path}: no column of {', '.join(missing)}.",
            hint=f"name it: {missing[0]}=…; there are {table.columns}",
            code="collection-no-column-3",
        )
    cells: dict[str, list[Any]] = {name: [] for name in named}
    faults: list[str] = []
    for place, row in table.rows():
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
            values[name] = flag_of(text) if text else False
        else:
            values[name] = text or None
    return values


def _is_position(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return number.is_integer() and number >= 1


# How likely a visitor looks at a position: the position-based model, estimated from a log.

Floats = NDArray[np.float64]
ITERATIONS = 5_000
CLOSE = 1e-5
_TINY = 1e-9


@dataclass(frozen=True)
class PositionBias:
    """The propensity of every position of a log, relative to the largest."""

    propensities: Mapping[int, float]  # position to θ, 0 to 1; the largest is 1
    method: str  # how they were found: "em" or "given"
    iterations: int = 0  # of EM
    pairs: int = 0  # how many pairs of query and product were shown at several positions

    def of(self, positions: NDArray[np.int64]) -> Floats:
        """(m,) the propensity of each position."""
        return np.array([self.propensities[position] for position in positions.tolist()], np.float64)


def estimate_position_bias(log: ClickLog) -> PositionBias:
    """Estimate the propensities by expectation maximisation of the position-based model."""
    # The E-step gives every impression that was not clicked the chance that the visitor looked, θ(1−γ)/(1−θγ), and the
    # chance of being attracted, γ(1−θ)/(1−θγ). The M-step takes means over the impressions of a position and of a pair.
    # It ends when no propensity changes by more than 10⁻⁵.
    positions, column = np.unique(log.position, return_inverse=True)
    pairs, row = np.unique(log.pair, return_inverse=True)
    cells, at = np.unique(row * len(positions) + column, return_inverse=True)
    shown = np.bincount(at).astype(np.float64)
    clicks = _sums(at, log.clicked.astype(np.float64), len(cells))
    row, column = cells // len(positions), cells % len(positions)
    several = int((np.bincount(row) > 1).sum())
    _check(positions, len(pairs), row, column, clicks)
    theta = np.maximum(_sums(column, clicks, len(positions)) / _sums(column, shown, len(positions)), _TINY)
    theta /= theta.max()
    gamma = np.full(len(pairs), 0.5)
    for iteration in range(1, ITERATIONS + 1):
        no_click = np.maximum(1 - theta[column] * gamma[row], _TINY)
        looked = clicks + (shown - clicks) * theta[column] * (1 - gamma[row]) / no_click
        attracted = clicks + (shown - clicks) * gamma[row] * (1 - theta[column]) / no_click
        before = theta
        theta = _sums(column, looked, len(positions)) / _sums(column, shown, len(positions))
        gamma = _sums(row, attracted, len(pairs)) / _sums(row, shown, len(pairs))
        if np.abs(theta / theta.max() - before / before.max()).max() < CLOSE:
            relative = theta / theta.max()
            return PositionBias(dict(zip(positions.tolist(), relative.tolist(), strict=True)), "em", iteration, several)
    raise ConfigurationError(
        f"position bias: EM has not ended after {ITERATIONS:,} iterations.",
        hint="give the propensities of an experiment, or a log with more products at several positions",
    )


def given_position_bias(log: ClickLog, propensities: Mapping[int, float]) -> PositionBias:
    """Take propensities that are known, from an experiment that swapped products at random, for example."""
    positions = np.unique(log.position).tolist()
    faults = [f"position {position}: none given" for position in positions if position not in propensities]
    faults += [
        f"position {position}: {value} is not above 0" for position, value in propensities.items() if not value > 0
    ]
    raise_faults(ConfigurationError, "propensities", faults, hint="one number above 0 for every position of the log")
    largest = max(propensities[position] for position in positions)
    return PositionBias({position: propensities[position] / largest for position in positions}, "given")


def _check(
    positions: NDArray[np.int64], pairs: int, row: NDArray[np.int64], column: NDArray[np.int64], clicks: Floats
) -> None:
    faults = []
    clicked = _sums(column, clicks, len(positions))
    without = positions[clicked == 0].tolist()
    faults += [f"positions without a click: {_listed(without)}"] * bool(without)
    graph = coo_array(
        (np.ones(len(row)), (row, pairs + column)), shape=(pairs + len(positions), pairs + len(positions))
    )
    labels = connected_components(graph, directed=False)[1][pairs:]
    apart = positions[labels != labels[0]].tolist()
    faults += [f"positions that share no query and product with position {positions[0]}: {_listed(apart)}"] * bool(
        apart
    )
    raise_faults(
        ConfigurationError,
        "position bias cannot be estimated",
        faults,
        hint="leave those positions out, give the propensities, or log a search that sometimes swaps products",
    )


def _listed(positions: list[int]) -> str:
    return ", ".join(map(str, positions[:10])) + (" …" if len(positions) > 10 else "")


def _sums(groups: NDArray[np.int64], values: Floats, n: int) -> Floats:
    return np.asarray(np.bincount(groups, values, n), np.float64)


Correction = Literal["em", "none"]
FLOOR = 0.05
"""No click counts more than 1 / 0.05 = 20 times."""


@dataclass(frozen=True, eq=False, repr=False)
class ClickJudgements(Displayed):
    """Judgements made from clicks. `click_judgements` makes it.

    Args:
        qrels: The judgements; the id of a query is its text.
        bias: The propensities; None without correction.
        impressions: How many impressions were counted.
        rare: How many pairs of query and product were left out, because they were shown too rarely.
        silent: How many queries were left out, because none of their products has enough clicks.
        repeated: How many rows were not counted, because the visitor had seen the product for this query before.
    """

    qrels: Qrels
    bias: PositionBias | None
    impressions: int
    rare: int
    silent: int
    repeated: int = 0

    def __repr__(self) -> str:
        lines = [f"left out: {self.rare:,} pairs shown too rarely, {self.silent:,} queries without clicks"]
        if self.bias is not None:
            shown = [f"{position}: {value:.2f}" for position, value in list(self.bias.propensities.items())[:5]]
            lines.append(f"propensities ({self.bias.method}) {', '.join(shown)}, …")
        return brief(self, f"{len(self.qrels):,} queries, {len(self.qrels.documents):,} judgements", *lines)

    def save(self, path: str | Path) -> Path:
        """Write the judgements as a new table that `visir.collections.read_qrels` reads; nothing is replaced.

        Args:
            path: A file that is not there yet: .csv, .tsv, .jsonl or .parquet.

        Raises:
            FolderError: There is a file already.
        """
        return write_new_table(path, self.qrels.to_arrow(), for_people=False)


def click_judgements(
    log: ClickLog | str | Path,
    correction: Correction | Mapping[int, float] = "em",
    *,
    min_impressions: int = 10,
    min_clicks: int = 1,
    levels: int | None = None,
    floor: float = FLOOR,
) -> ClickJudgements:
    """Turn the clicks of a log into judgements for the evaluation of searches.

    The grade of a product for a query is its click rate with every click weighted by 1 / θ of its position (inverse
    propensity scoring; Joachims, Swaminathan and Schnabel, WSDM 2017), at most 1. If visitors look at positions as the
    position-based model says, it is the rate at which the product would be clicked on the first place.

    Products that the search never showed have no judgement, and no correction makes one. A search that finds such
    products is measured too low.

    Args:
        log: The impressions, or a file that `read_click_log` reads.
        correction: "em" estimates the propensities from the log; {position: propensity} gives them; "none" takes
            clicks as they are.
        min_impressions: How often a product must have been shown for a query. A pair that was shown less often has no
            judgement.
        min_clicks: How many clicks one product of a query must have at least. A query with fewer has no judgements.
        levels: Whole grades from 0 to this. Default: corrected click rates. The rate divided by the largest of the
            query, times `levels`, rounded. For trec_eval, and for measures that only ask whether a grade is above 0.
        floor: Smaller propensities count as this one, so that single clicks far down do not decide. It makes grades
            of products that are shown only there too low.

    Raises:
        ConfigurationError: An option is wrong, no pair is left, or the propensities cannot be estimated.
        CollectionError: The file cannot be read.

    Example:
        >>> log = ClickLog.of(["dress"] * 40, ["a", "b"] * 20, [1, 2] * 20, [1, 1, 0, 0] * 10)
        >>> click_judgements(log, {1: 1.0, 2: 0.5}).qrels.to_dict()
        {'dress': {'a': 0.5, 'b': 1.0}}
    """
    faults = [
        f"{name} must be at least 1, not {value}"
        for name, value in (("min_impressions", min_impressions), ("min_clicks", min_clicks), ("levels", levels))
        if value is not None and value < 1
    ]
    if not 0 < floor <= 1:
        faults.append(f"floor must be above 0 and at most 1, not {floor:g}")
    if isinstance(correction, str) and correction not in ("em", "none"):
        faults.append(f"unknown correction {correction!r} ({nearest(correction, ('em', 'none'))})")
    raise_faults(ConfigurationError, "judgements from clicks", faults)
    if not isinstance(log, ClickLog):
        log = read_click_log(log)
    bias = None
    if isinstance(correction, Mapping):
        bias = given_position_bias(log, correction)
    elif correction == "em":
        bias = estimate_position_bias(log)
    weights = np.ones(len(log)) if bias is None else 1 / np.maximum(bias.of(log.position), floor)
    pairs, at = np.unique(log.pair, return_inverse=True)
    shown, clicks = np.bincount(at), np.bincount(at, log.clicked)
    rates = np.minimum(np.bincount(at, log.clicked * weights) / shown, 1)
    query = pairs // len(log.products)
    enough = shown >= min_impressions
    most = np.zeros(len(log.queries))
    np.maximum.at(most, query[enough], clicks[enough])
    judged = enough & (most[query] >= min_clicks)
    if not judged.any():
        raise ConfigurationError(
            f"judgements from clicks: no pair of {len(pairs):,} has {min_impressions} impressions, and "
            f"{min_clicks} clicks in its query.",
            hint="a longer log, or smaller min_impressions and min_clicks",
            code="no-pair-impressions-clicks",
        )
    grades = rates[judged] if levels is None else _whole(rates[judged], query[judged], levels)
    qrels = Qrels.of(
        [log.queries[row] for row in query[judged]],
        [log.products[row] for row in pairs[judged] % len(log.products)],
        grades,
        name="clicks" if bias is None else f"clicks, corrected ({bias.method})",
    )
    silent = len(log.queries) - len(qrels)
    return ClickJudgements(qrels, bias, len(log), int((~enough).sum()), silent, log.repeated)


def _whole(rates: NDArray[np.float64], query: NDArray[np.int64], levels: int) -> NDArray[np.float64]:
    largest = np.zeros(query.max() + 1)
    np.maximum.at(largest, query, rates)
    return np.asarray(np.floor(levels * rates / largest[query] + 0.5))


# Judgements from clicks as a table: the propensity of every position, and what was counted.


def judgements_table(judged: ClickJudgements) -> Table:
    """Positions with their propensities; what was counted and left out stands below."""
    rows: list[list[Cell]] = []
    if judged.bias is not None:
        rows = [[position, propensity] for position, propensity in judged.bias.propensities.items()]
    notes = [
        f"{len(judged.qrels.documents):,} judgements of {len(judged.qrels):,} queries, from {judged.impressions:,} "
        "impressions.",
        f"Left out: {judged.rare:,} pairs of query and product that were shown too rarely, {judged.silent:,} queries "
        "without enough clicks.",
    ]
    if judged.repeated:
        notes.append(f"Not counted: {judged.repeated:,} rows of visitors who saw the product before for this query.")
    if judged.bias is not None and judged.bias.method == "em":
        notes.append(
            f"Propensities by EM, {judged.bias.iterations:,} iterations; {judged.bias.pairs:,} pairs were shown at "
            "several positions."
        )
    columns = [Column("position", 0), Column("propensity", 3)]
    return Table.of(columns, rows, caption="Judgements from clicks", notes=notes)
