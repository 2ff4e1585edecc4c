"""Data frames and Arrow tables as plain lists, whichever library they are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from visir.errors import CollectionError


def columns_of(value: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a table in memory as lists by name; None for anything that is no table."""
    # Missing values (NaN in pandas) become None.
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return _listed(value)
    package = type(value).__module__.partition(".")[0]
    if package == "pandas" and hasattr(value, "columns"):  # cells may hold what Arrow does not know, such as pictures
        return {str(name): _present(value[name].tolist()) for name in value.columns}
    if hasattr(value, "to_dict") and package == "polars" and hasattr(value, "columns"):
        return {str(name): values for name, values in value.to_dict(as_series=False).items()}
    if hasattr(value, "__arrow_c_stream__") and not isinstance(value, Mapping):
        try:
            return _listed(pa.table(value))
        except (TypeError, ValueError, pa.ArrowInvalid):  # a single column
            return None
    return None


def table_rows(table: Mapping[str, Sequence[Any]], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Go through columns row by row."""
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise CollectionError(f"{where}: the columns differ in length: {shown}.", code="columns-differ-length")
    for number, values in enumerate(zip(*table.values(), strict=True), 1):
        yield f"row {number}", dict(zip(table, values, strict=True))


def _listed(table: Any) -> dict[str, list[Any]]:
    return {name: table.column(name).to_pylist() for name in table.schema.names}


def _present(values: list[Any]) -> list[Any]:
    return [None if isinstance(value, float) and value != value else value for value in values]
