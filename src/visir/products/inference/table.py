"""Inferred categories as a new table; the table that was read stays as it is."""

from __future__ import annotations

import io
from pathlib import Path

import orjson
import pyarrow as pa
from pyarrow import csv, parquet

from visir.errors import ConfigurationError
from visir.products.inference.infer import InferredCategories
from visir.storage import check_new_file, new_file

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


def inferred_table(inferred: InferredCategories) -> pa.Table:
    """One row for each product: `id`, `title`, `category` (a path), `confidence`, `confidences`, `others`.

    `confidences` has a number for each level of the path; `others` has the further likely categories with theirs.
    """
    rows = inferred.products
    answers = [product.answer for product in rows]
    return pa.table(
        {
            "id": pa.array([product.id for product in rows], pa.string()),
            "title": pa.array([product.title for product in rows], pa.string()),
            "category": pa.array([answer and " > ".join(answer.path) for answer in answers], pa.string()),
            "confidence": pa.array([answer and round(answer.confidence, 4) for answer in answers], pa.float64()),
            "confidences": pa.array(
                [answer and "; ".join(f"{level:.4f}" for level in answer.confidences) for answer in answers],
                pa.string(),
            ),
            "others": pa.array(
                ["; ".join(f"{' > '.join(other.path)} ({other.confidence:.4f})" for other in product.others)
                 for product in rows],
                pa.string(),
            ),
        }
    )  # fmt: skip


def write_inferred(path: str | Path, inferred: InferredCategories) -> Path:
    """Write the categories as a new table: CSV, TSV, JSON lines or Parquet, by the ending. Nothing is replaced.

    Args:
        path: A file that is not there yet.
        inferred: The categories.

    Raises:
        FolderError: There is a file already.
        ConfigurationError: The ending is another one.
    """
    table, target = inferred_table(inferred), Path(path)
    check_inferred_file(target)
    ending = target.suffix.lower()
    buffer = io.BytesIO()
    if ending == ".parquet":
        parquet.write_table(table, buffer)
    elif ending == ".jsonl":
        buffer.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in table.to_pylist())
    else:
        options = csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ",", quoting_style="needed")
        csv.write_csv(table, buffer, options)
    with new_file(target) as new:
        new.write_bytes(buffer.getvalue())
    return target


def check_inferred_file(path: str | Path) -> None:
    """Raise where `write_inferred` could not write: before the work rather than after it.

    Raises:
        FolderError: There is a file already.
        ConfigurationError: The ending is none of a table.
    """
    if Path(path).suffix.lower() not in ENDINGS:
        raise ConfigurationError(f"{path}: not the name of a table.", hint=f"it ends in {', '.join(ENDINGS)}")
    check_new_file(path)
