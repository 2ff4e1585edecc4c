"""The folder of a classification, read back: what it is, and the record that its files give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.evaluation.classification.accuracy import Predictions
from visir.evaluation.classification.result import Classification, Key
from visir.evaluation.result_files import read_table
from visir.storage import FolderKind, Manifest, check_written, read_written_json

CLASSIFICATION = FolderKind(
    "classification", "a report of a classification", remedy="classify again: visir classify … --out FOLDER"
)
VALUES, PREDICTIONS = "classification.json", "predictions.parquet"
"""What a classification is read from; the other files of the folder are made from these."""


def load_classification(folder: str | Path) -> Classification:
    """Read the classification in a folder; `visir.open` calls this."""
    folder = Path(folder)
    Manifest.read(folder, CLASSIFICATION)
    check_written(folder / PREDICTIONS)
    content, table = read_written_json(folder / VALUES), read_table(folder / PREDICTIONS)
    with CLASSIFICATION.reading(folder, VALUES):
        count, classes = content["pictures"], tuple(content["classes"])
        first = table.slice(0, count)
        predicted, ranks = _codes(table["predicted"], classes).astype(np.int32), table["rank"].to_numpy()
        predictions: dict[Key, Predictions] = {}
        start = 0
        for row in content["accuracies"]:  # in the order of the table
            end = start + row["draws"] * count
            shape = (row["draws"], count)
            predictions[row["method"], row["shots"]] = Predictions(
                predicted[start:end].reshape(shape), ranks[start:end].reshape(shape), tuple(row["settings"])
            )
            start = end
        return Classification(
            content["source"],
            content["model"],
            classes,
            tuple(content["names"]),
            tuple(first["id"].to_pylist()),
            _codes(first["class"], classes),
            predictions,
            tuple(content["protocol"].items()),
            tuple(content["notes"]),
            content.get("seed", 0),  # not in folders of the first version
        )


def _codes(names: pa.ChunkedArray, classes: tuple[str, ...]) -> NDArray[np.int64]:
    """(n,) the place of each class."""
    places = pc.index_in(names.cast(pa.string()), pa.array(classes))
    if places.null_count:
        raise ValueError("a class that is not listed")
    codes: NDArray[np.int64] = places.to_numpy().astype(np.int64)
    return codes
