"""Inferred categories as a new table; the table that was read stays as it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from visir.products.inference.infer import InferredCategories
from visir.products.new_table import write_new_table


def inferred_table(inferred: InferredCategories) -> pa.Table:
    """One row for each product: `id`, `title`, `category` (a path), `confidence`, `confidences`, `others`."""
    # `confidences` has a number for each level of the path; `others` has the further likely categories with theirs.
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
    return write_new_table(path, inferred_table(inferred), for_people=True)
