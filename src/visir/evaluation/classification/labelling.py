"""Labels for pictures whose class is not known: the best classes of each, with scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import Tabular, brief, counted
from visir.errors import VisirError
from visir.evaluation.classification.class_names import ClassNames
from visir.evaluation.classification.features import Features
from visir.evaluation.classification.templates import Templates
from visir.evaluation.classification.tip_adapter import SCALE
from visir.evaluation.classification.zero_shot import cosines
from visir.records import Collection
from visir.storage import new_file

BEST = 3
"""How many classes of each picture a table has."""


@dataclass(frozen=True, eq=False)
class PictureLabels(Tabular, view="visir.reports.views.picture_labels"):
    """The classes that a model gives to pictures.

    Attributes:
        pictures: The pictures.
        model: The name of the model.
        classes: The classes.
        templates: The templates, in words.
        ids: (n,) the pictures that were labelled; broken ones are left out.
        scores: (n, classes) cosines of pictures and classes.
    """

    pictures: Collection = field(repr=False)
    model: str
    classes: tuple[str, ...]
    templates: str
    ids: tuple[str, ...] = field(repr=False)
    scores: NDArray[np.float32] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        best = [self.classes[code] for code in self.scores.argmax(axis=1)]
        first = [f"{identifier}: {name}" for identifier, name in zip(self.ids[:3], best[:3], strict=True)]
        counts = {name: best.count(name) for name in self.classes}
        most = sorted(counts, key=lambda name: -counts[name])[:5]
        return brief(
            self,
            f"{self.model}: {counted(len(self.ids), 'pictures')}, {len(self.classes):,} classes",
            ", ".join(f"{name} {counts[name]:,}" for name in most if counts[name]),
            *first,
        )

    def __getitem__(self, identifier: str) -> str:
        """The best class of a picture."""
        if identifier not in self.ids:
            raise VisirError(f"there is no picture {identifier!r} among those that were labelled.")
        return self.classes[int(self.scores[self.ids.index(identifier)].argmax())]

    def to_arrow(self) -> pa.Table:
        """The columns id, class, score, share, and the next best classes with their scores.

        `score` is the cosine. `share` is the softmax over the given classes of the cosines times 100, as CLIP shows it:
        it says how the classes compare, and not how sure one can be, because a picture of none of them gets a class
        too.
        """
        order = np.argsort(-self.scores, axis=1, kind="stable")[:, :BEST]
        names = np.array(self.classes, dtype=object)
        powers = np.exp(SCALE * (self.scores - self.scores.max(axis=1, keepdims=True)).astype(np.float64))
        shares = powers / powers.sum(axis=1, keepdims=True)
        columns: dict[str, Any] = {"id": list(self.ids)}
        for place in range(order.shape[1]):
            number = "" if place == 0 else f"_{place + 1}"
            at = order[:, place : place + 1]
            columns[f"class{number}"] = names[at[:, 0]].tolist()
            columns[f"score{number}"] = np.take_along_axis(self.scores, at, 1)[:, 0].astype(np.float64).round(6)
            columns[f"share{number}"] = np.take_along_axis(shares, at, 1)[:, 0].round(6)
        return pa.table(columns)

    def save(self, file: str | Path, *, replace: bool = False) -> Path:
        """Write the table as CSV, whole or not at all.

        Args:
            file: A new file.
            replace: Whether it may take the place of a file that is there.

        Raises:
            FolderError: The file is there already.
        """
        with new_file(file, replace=replace) as path:
            path.write_bytes(self.to_csv().encode())
        return Path(file)


def label_pictures(pictures: Collection, features: Features, names: ClassNames, templates: Templates) -> PictureLabels:
    """The cosine of each picture with each class."""
    class_vectors = features.of_classes(names, templates)
    vectors = features.of_pictures(pictures.items("image"))
    scores = cosines(vectors.vectors, class_vectors)
    ids = tuple(vectors.ids.to_pylist())
    return PictureLabels(pictures, features.name, names.classes, str(templates), ids, scores)
