"""Items: the texts and images that are the queries or the documents of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Columnar, brief, counted, listed, quoted
from visir.errors import CollectionError
from visir.files import user_path
from visir.fingerprint import hash_columns
from visir.records.columns import duplicates, strings
from visir.records.shortcuts import Corrupted, Injected

Modality = Literal["text", "image", "text+image"]
Role = Literal["query", "document"]
"""What an item is used for. Models with prompts embed the two roles in different ways."""
PLURALS: dict[Modality, str] = {"image": "images", "text": "texts", "text+image": "texts with images"}
"""What people call items that hold this."""
PLACES = pa.schema([("path", pa.string()), ("archive", pa.string())])
"""Where the bytes of an image are: a path, which is inside `archive` when that is not null."""


class HasImages(Protocol):
    """What a reader of images needs; `Items` and `Collection` have it."""

    @property
    def images(self) -> pa.Table:
        """Columns `id`, `path` and `archive`, one row per image."""
        ...

    @property
    def root(self) -> Path:
        """The folder to which paths and archives are relative."""
        ...


@dataclass(frozen=True, eq=False)
class Items(Columnar):
    """A list of items with ids. Each item has a text, an image, or both.

    Items say nothing about their role: the same photos are documents of one task and queries of another.

    Args:
        ids: (n,) unique ids, in any order.
        texts: (n,) the text of each item, null where an item has none; None when no item has a text.
        places: n rows of `PLACES`: where the image of each item is, relative to `root`; a null path where an item
            has none; None when no item has an image.
        root: The folder to which places are relative.
        title: What people call the items, in the plural: "captions", "images", "category names".
        name: Where the items come from, for error messages and progress.
        injected: The synthetic shortcuts of the collection that the items are of; an encoder applies them.
        corrupted: The corruption that is applied to every image before a model encodes it.

    Raises:
        CollectionError: Ids repeat or are null, columns differ in length, or there is neither a text nor an image.

    Example:
        >>> items = Items.of_texts({"q1": "a red boat", "q2": "two dogs"}, title="queries")
        >>> len(items), items.modality
        (2, 'text')
    """

    ids: pa.StringArray
    texts: pa.StringArray | None = None
    places: pa.Table | None = None
    root: Path = field(default_factory=Path)
    title: str = "items"
    name: str = ""
    injected: Injected | None = None
    corrupted: Corrupted | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", strings(self.ids))
        where = self._where
        if self.texts is None and self.places is None:
            raise CollectionError(f"{where}: there are neither texts nor images.", code="neither-texts-nor-images")
        if self.texts is not None:
            object.__setattr__(self, "texts", strings(self.texts))
        if self.places is not None:
            object.__setattr__(self, "places", self.places.select(PLACES.names).cast(PLACES))
        for column, length in (("texts", self.texts), ("images", self.places)):
            if length is not None and len(length) != len(self.ids):
                raise CollectionError(f"{where}: {len(length):,} {column} for {len(self.ids):,} ids.")
        if self.ids.null_count:
            raise CollectionError(f"{where}: {self.ids.null_count:,} items have no id (null).")
        if repeated := duplicates(self.ids)[:5]:
            raise CollectionError(f"{where}: ids repeat: {', '.join(map(repr, repeated))}.", code="ids-repeat")

    @classmethod
    def of_texts(cls, texts: dict[str, str], *, title: str = "texts", name: str = "") -> Items:
        """Make items of texts only.

        Args:
            texts: The text of each id.
            title: What people call the items, in the plural.
            name: Where they come from, for error messages and progress.

        Example:
            >>> Items.of_texts({"q1": "a red boat"}, title="queries")
            Items(1 query, text: 'a red boat')
        """
        return cls(strings(texts), strings(texts.values()), title=title, name=name)

    @classmethod
    def of_images(cls, images: Mapping[str, str | Path], *, title: str = "images", name: str = "") -> Items:
        """Make items of pictures only.

        Args:
            images: The file of the picture of each id. Files are read when they are used.
            title: What people call the items, in the plural.
            name: Where they come from, for error messages and progress.

        Example:
            >>> Items.of_images({"a": "photos/a.jpg"}).images.to_pylist()[0]["id"]
            'a'
        """
        paths = [user_path(path).absolute().as_posix() for path in images.values()]
        places = pa.table({"path": paths, "archive": pa.nulls(len(paths), pa.string())}, schema=PLACES)
        return cls(strings(images), None, places, title=title, name=name)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        holding = "" if self.is_mixed else f"{self.modality}{': ' if len(self) else ''}"
        return brief(self, f"{counted(len(self), self.title)}, {holding}{self.shown}")

    @property
    def shown(self) -> str:
        """The first few texts, or ids of images, on one line; before it what items hold that hold different things."""
        texts = [] if self.texts is None else self.texts.slice(0, 3).drop_null().to_pylist()
        names = map(quoted, texts) if texts else self.ids.slice(0, 3).to_pylist()
        line = listed(names, len(self), limit=2 if texts else 3, width=44)
        return f"{self.holding}: {line}" if self.is_mixed else line

    def to_arrow(self) -> pa.Table:
        """Return the columns `id` and, as far as there are any, `text`, `path` and `archive`."""
        columns: dict[str, pa.Array | pa.ChunkedArray] = {"id": self.ids}
        if self.texts is not None:
            columns["text"] = self.texts
        if self.places is not None:
            columns |= {name: self.places[name] for name in PLACES.names}
        return pa.table(columns)

    @property
    def _where(self) -> str:
        return f"{self.name or 'items'} ({self.title})"

    @property
    def modality(self) -> Modality:
        """What the items hold: "text", "image", or "text+image"."""
        if self.places is None:
            return "text"
        return "image" if self.texts is None else "text+image"

    @cached_property
    def kinds(self) -> dict[Modality, NDArray[np.int64]]:
        """The rows of the items that hold a text alone, an image alone, or both; kinds that no item is of are left out.

        Items without a column of images are all texts, and those without a column of texts are all images. With both
        columns, an item that has neither is of no kind.

        Example:
            >>> items = Items.of_texts({"a": "a boat", "b": "a dog"})
            >>> {kind: rows.tolist() for kind, rows in items.kinds.items()}
            {'text': [0, 1]}
        """
        if self.texts is None or self.places is None:
            return {self.modality: np.arange(len(self))} if len(self) else {}
        text = self.texts.is_valid().to_numpy(zero_copy_only=False)
        image = self.places["path"].is_valid().to_numpy()
        rows: dict[Modality, NDArray[np.int64]] = {
            "text": np.flatnonzero(text & ~image),
            "image": np.flatnonzero(image & ~text),
            "text+image": np.flatnonzero(text & image),
        }
        return {kind: own for kind, own in rows.items() if len(own)}

    @property
    def is_mixed(self) -> bool:
        """Whether some items hold less than their columns could: a text alone or an image alone beside others."""
        return len(self) > 0 and len(self.kinds.get(self.modality, ())) < len(self)

    @property
    def holding(self) -> str:
        """What the items hold, in words: "text", or with counts "400 texts, 300 images, 300 texts with images"."""
        if not self.is_mixed:
            return self.modality
        counts = [held(kind, len(rows)) for kind, rows in self.kinds.items()]
        without = len(self) - sum(map(len, self.kinds.values()))
        return ", ".join([*counts, f"{without:,} with neither"] if without else counts)

    def of_kind(self, kind: Modality) -> Items:
        """Return the items that hold exactly this, without the other column.

        Args:
            kind: "text", "image" or "text+image".
        """
        part = self.take(self.kinds.get(kind, np.empty(0, np.int64)))
        return replace(
            part, texts=part.texts if "text" in kind else None, places=part.places if "image" in kind else None
        )

    @property
    def images(self) -> pa.Table:
        """The images as a table of `id`, `path`, `archive`, one row per item.

        Raises:
            CollectionError: The items have no images.
        """
        if self.places is None:
            raise CollectionError(f"{self._where}: there are no images, only texts.")
        return self.places.add_column(0, "id", self.ids)

    @cached_property
    def fingerprint(self) -> str:
        """A hash over ids and texts, independent of the order. The bytes of images are not read."""
        return hash_columns([self.ids] if self.texts is None else [self.ids, self.texts])

    @cached_property
    def places_fingerprint(self) -> str:
        """A hash over the places of the images; "" without images."""
        return "" if self.places is None else hash_columns([self.ids, *self.places.columns])

    def take(self, rows: NDArray[np.int64]) -> Items:
        """Return the items of these rows, in this order."""
        indices = pa.array(rows, pa.int64())
        return replace(
            self,
            ids=self.ids.take(indices),
            texts=None if self.texts is None else self.texts.take(indices),
            places=None if self.places is None else self.places.take(indices),
        )

    def select(self, ids: object) -> Items:
        """Return the items of these ids, in this order.

        Raises:
            CollectionError: An id is unknown.
        """
        requested = strings(ids)
        rows = pc.index_in(requested, self.ids)
        if rows.null_count:
            unknown = requested.filter(pc.is_null(rows)).to_pylist()[:5]
            named = ", ".join(map(repr, unknown))
            raise CollectionError(f"{self._where}: unknown ids {named}.", code="unknown-ids")
        return self.take(rows.to_numpy().astype(np.int64))


def held(kind: Modality, number: int) -> str:
    """How many items hold this, in words."""
    if number == 1 and kind == "text+image":
        return "1 text with an image"
    return counted(number, PLURALS[kind])


# Labels of queries: what is known about a query beside its judgements, such as its category or its language.

GROUP = "group"
"""The label of queries that are one item together: the two images of an example of Winoground."""
IMAGE = "image"
"""The label that names the image of a query: queries of one image are not independent."""
HOLDS = "holds"
"""The label of what a query holds, where queries hold different things: "text", "image", "text+image"."""
_QUERY = "query_id"


def query_labels(labels: pa.Table | Mapping[str, object], ids: pa.StringArray, where: str) -> pa.Table:
    """Return labels as a table of strings, in the order of some queries.

    Args:
        labels: A column `query_id` and one column for each label, in any order; a null is no label.
        ids: (n,) the ids of the queries.
        where: What the labels are of, for error messages.

    Returns:
        n rows: `query_id` and the labels; null for a query that has no row.

    Raises:
        CollectionError: There is no column `query_id` or no other column, a query is unknown, or it stands twice.

    Example:
        >>> labels = {"query_id": ["b"], "category": ["colour"]}
        >>> query_labels(labels, pa.array(["a", "b"]), "toy")["category"].to_pylist()
        [None, 'colour']
    """
    table = labels if isinstance(labels, pa.Table) else pa.table(dict(labels))
    if _QUERY not in table.column_names or len(table.column_names) < 2:
        raise CollectionError(
            f"{where}: labels have the columns {', '.join(table.column_names) or 'none'}.",
            hint="a column query_id, and one for each label: category, language, …",
        )
    named = strings(table[_QUERY])
    if pc.count_distinct(named).as_py() != len(named) or named.null_count:
        raise CollectionError(f"{where}: labels: a query stands twice, or has no id.", hint="one row for each query")
    unknown = named.filter(pc.invert(pc.is_in(named, ids)))
    if len(unknown):
        raise CollectionError(f"{where}: labels name the query {unknown[0].as_py()!r}, which is not in the task.")
    return labels_of(table, ids)


def labels_of(labels: pa.Table, ids: pa.StringArray) -> pa.Table:
    """Return the labels of some queries, in their order; queries that are not named there have none.

    Args:
        labels: A column `query_id` and one column for each label.
        ids: (n,) the ids of the queries.
    """
    rows = pc.index_in(strings(ids), strings(labels[_QUERY]))
    names = [name for name in labels.column_names if name != _QUERY]
    return pa.table({_QUERY: strings(ids), **{name: strings(labels[name]).take(rows) for name in names}})


def label_kinds(items: Items, labels: pa.Table | None) -> pa.Table | None:
    """Return the labels of queries with one more, `HOLDS`, where some hold texts, some images, some both.

    Args:
        items: The queries.
        labels: Their labels, in their order, or None.
    """
    if not items.is_mixed or (labels is not None and HOLDS in labels.column_names):
        return labels
    held = np.full(len(items), None, object)
    for kind, rows in items.kinds.items():
        held[rows] = kind
    table = pa.table({_QUERY: items.ids}) if labels is None else labels
    return table.append_column(HOLDS, pa.array(held, pa.string()))


def join_labels(ids: pa.Array | pa.ChunkedArray, *tables: pa.Table | None) -> pa.Table | None:
    """Return the labels of some queries from several tables; None where there are none.

    Args:
        ids: (n,) the ids of the queries.
        *tables: Labels as `labels_of` takes them; the first that has a label says it.
    """
    given = [labels_of(table, strings(ids)) for table in tables if table is not None]
    columns = {name: table[name] for table in reversed(given) for name in table.column_names}
    return pa.table({_QUERY: strings(ids), **columns}) if given else None
