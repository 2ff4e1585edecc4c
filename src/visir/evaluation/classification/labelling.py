"""Labels for pictures whose class is not known: the best classes of each, with scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.collections.readers.names import SPLITS
from visir.collections.tables import CLASS_COLUMNS
from visir.display import Tabular, brief, counted
from visir.errors import CollectionError, VisirError, nearest
from visir.evaluation.classification.class_names import SCALE, ClassNames, Features, Templates, cosines, letters
from visir.evaluation.classification.result import Classification, Key, Predictions
from visir.evaluation.results import read_table
from visir.records import Collection, Items
from visir.storage import FolderKind, Manifest, check_written, new_file, read_written_json

# The folder of a classification, read back: what it is, and the record that its files give.

CLASSIFICATION = FolderKind(
    "classification", "a report of a classification", remedy="classify again: visir classify … --out FOLDER"
)
VALUES, PREDICTIONS = "classification.json", "predictions.parquet"
"""What a classification is read from; the other files of the folder are made from these."""


def load_classification(folder: str | Path) -> Classification:
    """Read the classification in a folder; `visir.open` calls this."""
    folder = Path(folder)
    Manifest.read(folder, CLASSIFICATION)
    for name in (PREDICTIONS, "report.json"):
        check_written(folder / name)
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


BEST = 3
"""How many classes of each picture a table has."""


@dataclass(frozen=True, eq=False)
class PictureLabels(Tabular):
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


# The right class of each picture: from a column, from folders, or from captions that are class names.

FOLDER, CAPTION, NONE = "folder", "caption", "none"
CLASSES = b"classes"
"""The metadata of a column of classes: their names in the order of the data set, as a JSON list."""


@dataclass(frozen=True, eq=False)
class LabelledPictures:
    """Pictures and the class of each."""

    collection: Collection  # the pictures
    codes: NDArray[np.int64]  # (n,) the class of each picture, a place in `classes`; -1 for none
    classes: tuple[str, ...]  # the classes
    ordered: bool  # whether they are in the order of the data set; otherwise they are sorted
    where: str  # where the classes stand: "column label", "folders"

    def part(self, split: str | None) -> LabelledPictures:
        """The labelled pictures of a split, with all classes."""
        images = self.collection.images
        keep = self.codes >= 0
        if split not in (None, "all"):
            part = self.collection.split(split)
            keep &= np.asarray(pc.is_in(images["id"], pc.unique(part.images["id"])))
        return replace(self, collection=self.collection.keep_images(keep), codes=self.codes[keep])

    def only(self, ids: pa.StringArray) -> LabelledPictures:
        """The labelled pictures of these ids."""
        keep = np.asarray(pc.is_in(self.collection.images["id"], ids))
        return replace(self, collection=self.collection.keep_images(keep), codes=self.codes[keep])

    def without_class(self, split: str | None) -> int:
        """How many pictures of a split have no class."""
        part = self.collection if split in (None, "all") else self.collection.split(split)
        lacking = self.collection.images["id"].filter(pa.array(self.codes < 0))
        return int(pc.sum(pc.is_in(part.images["id"], pc.unique(lacking))).as_py() or 0)

    def among(self, classes: Sequence[str]) -> LabelledPictures:
        """The same with these classes, in this order; pictures of other classes have none."""
        place = {name: number for number, name in enumerate(classes)}
        new = np.array([*(place.get(name, -1) for name in self.classes), -1], np.int64)
        return replace(self, codes=new[self.codes], classes=tuple(classes))

    @property
    def items(self) -> Items:
        """The pictures."""
        return self.collection.items("image")


def find_truth(
    collection: Collection, truth: str | None = None, classes: Sequence[str] = ()
) -> LabelledPictures | None:
    """The class of each picture."""
    if truth == NONE:
        return None
    columns = [] if collection.facts is None else collection.facts.column_names[1:]
    if truth is None or truth not in (FOLDER, CAPTION, *columns):
        if truth is not None:
            raise CollectionError(
                f"{collection.name}: no column {truth!r} with the classes.",
                hint=nearest(truth, [*columns, FOLDER, CAPTION, NONE]),
                code="no-column-classes",
            )
        usual = [column for column in columns if column.lower() in CLASS_COLUMNS]
        if len(usual) > 1:
            raise CollectionError(
                f"{collection.name}: the classes could be in {' or '.join(map(repr, usual))}.",
                hint=f"say which: truth={usual[0]!r} (--truth {usual[0]})",
                code="several-columns-of-classes",
            )
        truth = usual[0] if usual else _guessed(collection, classes)
        if truth is None:
            return None
    if truth in columns:
        return _of_column(collection, truth)
    labels = [label.strip() for label in (_folders(collection) if truth == FOLDER else _captions(collection))]
    where = "folders" if truth == FOLDER else "captions"
    return _coded(collection, labels, sorted({label for label in labels if label}), False, where)


def _guessed(collection: Collection, classes: Sequence[str]) -> str | None:
    folders = set(_folders(collection))
    if "" not in folders and len(folders) > 1:
        if not classes:
            return FOLDER
        known = {folder for folder in folders if letters(folder) in classes}
        if known == folders:
            return FOLDER
        if known:
            unknown = sorted(folders - known)
            raise CollectionError(
                f"{collection.name}: the folders {', '.join(sorted(known)[:3])} are called like classes, "
                f"{', '.join(unknown[:3])} are not.",
                hint="truth='folder' measures on those that are (--truth folder); truth='none' labels all pictures",
                code="folders-called-like-classes",
            )
    texts = collection.captions
    one_each = texts.num_rows == collection.images.num_rows == pc.count_distinct(texts["image_id"]).as_py() > 1
    if not one_each:
        return None
    distinct = pc.unique(texts["text"]).to_pylist()
    repeated = len(distinct) * 2 <= texts.num_rows
    return CAPTION if repeated or (classes and all(letters(text) in classes for text in distinct)) else None


def _folders(collection: Collection) -> list[str]:
    """The first folder of each picture, below that of the split; "" for none."""
    labels = []
    for identifier in collection.images["id"].to_pylist():
        parts = identifier.split("/")[:-1]
        if parts and parts[0].lower() in SPLITS:
            parts = parts[1:]
        labels.append(parts[0] if parts else "")
    return labels


def _captions(collection: Collection) -> list[str]:
    captions: dict[str, list[str]] = dict(collection)
    several = [image for image, texts in captions.items() if len(texts) > 1]
    if several:
        raise CollectionError(
            f"{collection.name}: {several[0]} has {len(captions[several[0]])} captions; a class is one caption.",
            hint="truth= names a column of classes, or 'folder'",
            code="class-with-captions",
        )
    return [texts[0] if texts else "" for texts in captions.values()]


def _of_column(collection: Collection, column: str) -> LabelledPictures:
    facts = collection.facts
    assert facts is not None
    by_image = dict(zip(facts["image_id"].to_pylist(), facts[column].to_pylist(), strict=True))
    values = [by_image.get(image) for image in collection.images["id"].to_pylist()]
    odd = next((value for value in values if not isinstance(value, str | int | float | type(None))), None)
    if odd is not None:
        raise CollectionError(
            f"{collection.name}: {column!r} has {str(odd)[:60]!r}; a class is a text or a number.",
            hint="pictures with several classes cannot be measured so",
        )
    labels = [_label(value) for value in values]
    metadata = facts.schema.field(column).metadata or {}
    order = orjson.loads(metadata[CLASSES]) if CLASSES in metadata else None
    present = {label for label in labels if label}
    if order is None and all(label.lstrip("-").isdecimal() for label in present):
        classes = sorted(present, key=int)
    else:
        classes = list(dict.fromkeys(name.strip() for name in order)) if order else sorted(present)
    return _coded(collection, labels, classes, order is not None, f"column {column}")


def _label(value: Any) -> str:
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _coded(
    collection: Collection, labels: Sequence[str], classes: Sequence[str], ordered: bool, where: str
) -> LabelledPictures:
    if not classes:
        raise CollectionError(f"{collection.name}: no picture has a class ({where}).")
    coded = pc.index_in(pa.array(labels, pa.string()), pa.array(classes, pa.string())).fill_null(-1)
    return LabelledPictures(collection, coded.to_numpy().astype(np.int64), tuple(classes), ordered, where)
