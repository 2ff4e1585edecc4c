"""Every numbered table of the three documents: list them, open one, and show one as rows and columns.

The documents are Hendriksen's thesis (chapters 2 to 7), the paper on latent target decoding (LTD), and the one on the
brittleness of benchmarks. Table 4.A.1 of the thesis lists its notation and holds no results; it is not transcribed.
"""

from __future__ import annotations

import re

from visir.errors import VisirError, nearest
from visir.evaluation.published.judge import decimals_of
from visir.evaluation.published.plain import FOLDER, CellDoubt, PlainTable, plain_tables, read_plain
from visir.evaluation.published.record import Published, load, shipped
from visir.robustness.granularity.features import table_1

_GRANULARITY = "brittleness-table-1"


def every_table() -> tuple[str, ...]:
    """The names of all published tables.

    Returns:
        The names, by document and number: "thesis-table-6-2", "ltd-table-1".
    """
    return tuple(sorted({*shipped(), *plain_tables(), _GRANULARITY}, key=_by_number))


def open_table(name: str) -> Published | PlainTable:
    """Open a published table.

    Args:
        name: A name of `every_table`.

    Returns:
        Retrieval results as `Published`, any other table as `PlainTable`.

    Raises:
        VisirError: There is no table of this name.

    Example:
        >>> table = open_table("brittleness-table-3")
        >>> table.row("CLIP", "Flickr30k").values["t2i"]["R@1"]
        19.3
    """
    if name == _GRANULARITY:
        return _granularity()
    if name in plain_tables():
        return read_plain(FOLDER / f"{name}.json")
    if name in shipped():
        return load(name)
    raise VisirError(
        f"{name}: no published table of that name.", hint=nearest(name, every_table()), code="no-published-table-name"
    )


def as_plain(table: Published | PlainTable) -> PlainTable:
    """Show any published table as rows and columns of text.

    Retrieval results get a column for each task and label, and rows named by system and collection. Numbers have the
    decimals of the table ("R-P" two), and `value ± spread` where there is one; "–" where nothing is printed.

    Args:
        table: A table of either kind.

    Returns:
        The table; a `PlainTable` is returned as it is.
    """
    if isinstance(table, PlainTable):
        return table
    columns = dict.fromkeys((task, label) for row in table.rows for task, part in row.values.items() for label in part)
    rows: dict[str, tuple[str, ...]] = {}
    doubtful = []
    for row in table.rows:
        name = f"{row.system}, {row.collection}" if row.collection else row.system
        cells = []
        for task, label in columns:
            value = row.values.get(task, {}).get(label)
            spread = row.spread.get(task, {}).get(label)
            decimals = decimals_of(label, table.decimals)
            shown = "–" if value is None else f"{value:.{decimals}f}"
            cells.append(shown if spread is None else f"{shown} ± {spread:.{decimals}f}")
            reason = "" if value is None else table.doubt(row, task, label)
            doubtful += [CellDoubt(reason, name, f"{task} {label}")] if reason else []
        rows[name] = tuple(cells)
    return PlainTable(
        table.name,
        table.title,
        table.source,
        tuple(f"{task} {label}" for task, label in columns),
        rows,
        conditions=table.protocol,
        notes=table.notes,
        doubtful=tuple(doubtful),
    )


def _granularity() -> PlainTable:
    """Table 1 of the brittleness paper. Its file is with the features, in a package that does not import evaluation."""
    table = table_1()
    collections = tuple(table.values)
    features = dict.fromkeys(feature for values in table.values.values() for feature in values)
    rows = {
        feature: tuple(str(table.values[collection][feature]) for collection in collections) for feature in features
    }
    return PlainTable(_GRANULARITY, table.title, table.source, collections, rows)


def _by_number(name: str) -> tuple[str, list[int]]:
    return name.partition("-")[0], [int(number) for number in re.findall(r"\d+", name)]
