"""A path or a short text becomes a catalogue."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import visir.products.generated as generated
import visir.products.readers.abo as abo
import visir.products.readers.amazon as amazon
import visir.products.readers.kaggle as kaggle
import visir.products.readers.table as table
from visir.collections.readers.locate import place_images
from visir.collections.sources import Format, SourceKind, find_source
from visir.collections.tables import read_table
from visir.display import Displayed, csv_of
from visir.errors import CollectionError, ConfigurationError, nearest
from visir.products.readers.table import UNCATEGORISED, ProductDraft, with_uncategorised
from visir.records.catalogue import Catalogue
from visir.registry import Registry
from visir.storage import check_new_file, new_file

# The tree of categories as arrays: depths, ancestors, and how far a wrong category lies from the right one.

NONE = -1
"""No category: above a root, or as the common ancestor of two trees."""


@dataclass(frozen=True, eq=False, repr=False)
class CategoryTree(Displayed):
    """Categories by row, in any order. `CategoryTree.of(catalogue)` makes it; a catalogue has no cycles or orphans.

    Args:
        ids: (n,) ids.
        names: (n,) names.
        parents: (n,) int64, the row of the parent; `NONE` for a root.

    Example:
        >>> from visir.records import Catalogue
        >>> catalogue = Catalogue.of("two", ids=["a", "b"], paths=[["Toys", "Trains"], ["Toys", "Boats"]])
        >>> tree = CategoryTree.of(catalogue)
        >>> tree.names, tree.depths.tolist(), tree.parents.tolist()
        (('Toys', 'Trains', 'Boats'), [1, 2, 2], [-1, 0, 0])
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    parents: np.ndarray

    @classmethod
    def of(cls, catalogue: Catalogue) -> CategoryTree:
        """The tree of a catalogue; row i is row i of `catalogue.categories`."""
        table = catalogue.categories
        ids = tuple(table["id"].to_pylist())
        index = {category: row for row, category in enumerate(ids)}
        parents = [NONE if parent is None else index[parent] for parent in table["parent"].to_pylist()]
        return cls(ids, tuple(table["name"].to_pylist()), np.array(parents, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def depths(self) -> np.ndarray:
        """(n,) int64: the level of each category; 1 is the most general, as the thesis counts (section 7.4.1)."""
        depths = np.ones(len(self), dtype=np.int64)
        above = self.parents.copy()
        while (climbing := above != NONE).any():
            depths[climbing] += 1
            above[climbing] = self.parents[above[climbing]]
        return depths

    @cached_property
    def paths(self) -> np.ndarray:
        """(n, deepest) int64: the rows from the root to the category itself, then `NONE`.

        `paths[c, 0]` is the root of c's tree, and `paths[c, depths[c] - 1]` is c.
        """
        paths = np.full((len(self), int(self.depths.max(initial=0))), NONE, dtype=np.int64)
        here, left = np.arange(len(self)), self.depths.copy()
        while (walking := here != NONE).any():
            rows = np.flatnonzero(walking)
            paths[rows, left[rows] - 1] = here[rows]
            left[rows] -= 1
            here[rows] = self.parents[here[rows]]
        return paths

    @cached_property
    def roots(self) -> np.ndarray:
        """(n,) int64: the most general category above each category (itself, for a root)."""
        return self.paths[:, 0] if len(self) else np.empty(0, dtype=np.int64)

    @cached_property
    def leaves(self) -> np.ndarray:
        """(n,) bool: whether no category lies below."""
        leaves = np.ones(len(self), dtype=np.bool_)
        leaves[self.parents[self.parents != NONE]] = False
        return leaves

    def rows(self, ids: Sequence[str] | pa.ChunkedArray | pa.Array) -> np.ndarray:
        """(k,) int64: the rows of category ids.

        Raises:
            CollectionError: An id is not in the tree.
        """
        names = ids.to_pylist() if isinstance(ids, (pa.ChunkedArray, pa.Array)) else ids
        try:
            return np.array([self._index[name] for name in names], dtype=np.int64)
        except KeyError as fault:
            unknown = str(fault.args[0])
            raise CollectionError(
                f"unknown category {unknown!r}", hint=nearest(unknown, self.ids), code="collection-unknown-category"
            ) from None

    def ancestors(self, row: int) -> np.ndarray:
        """The rows above a category, the root first, without the category itself."""
        return self.paths[row, : self.depths[row] - 1]

    def contains(self, general: np.ndarray, specific: np.ndarray) -> np.ndarray:
        """Whether `general` is `specific` or lies above it. Shapes broadcast.

        With a product's most specific category as `specific`, this is the ground truth of the task: a product is
        relevant to every category of its path.
        """
        general, specific = np.broadcast_arrays(general, specific)
        return np.asarray(self.paths[specific, self.depths[general] - 1] == general)

    def common(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The lowest common ancestor of each pair, possibly one of the two; `NONE` in different trees."""
        shared = self._shared(first, second)
        first = np.broadcast_to(first, shared.shape)
        return np.where(shared > 0, self.paths[first, shared - 1], NONE)

    def same_tree(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether both belong to the same most general category (thesis Table 7.2)."""
        return np.asarray(self.roots[first] == self.roots[second])

    def distances(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The plain tree distance: edges on the path from one category to the other.

        Between two trees the path leads over a common root above all roots, one edge above each. The other common
        reading, an infinite distance, could not be averaged.
        """
        return np.asarray(self.depths[first] + self.depths[second] - 2 * self._shared(first, second))

    def depth_differences(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """d(c, c_p) = depth(c_p) − depth(c) (thesis section 7.6.1, Figure 7.2): positive if c_p is more specific.

        It is no distance: two categories side by side have 0. The thesis reads it within one tree only.
        """
        return np.asarray(self.depths[predicted] - self.depths[target])

    @cached_property
    def _index(self) -> dict[str, int]:
        return {category: row for row, category in enumerate(self.ids)}

    def _shared(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """How many categories the two paths have in common from the root on."""
        paths, others = self.paths[first], self.paths[second]
        return np.asarray(((paths == others) & (paths != NONE)).sum(axis=-1))


@dataclass(frozen=True)
class TreeErrors:
    """Where wrong predictions lie (thesis Table 7.2 and Figure 7.2)."""

    right: int  # how many predictions are equal to their target
    same_tree: int  # how many wrong ones are in the tree of their target
    different_tree: int  # how many wrong ones are in another tree
    depth_differences: dict[int, int]  # of those in the same tree: depth(c_p) − depth(c) to how many have it, ascending
    distances: dict[int, int]  # of all wrong ones: plain tree distance to how many have it, ascending


def tree_errors(tree: CategoryTree, target: np.ndarray, predicted: np.ndarray) -> TreeErrors:
    """Compare target categories c with the categories c_p that were predicted; pairs with c ≠ c_p are errors.

    Args:
        tree: The categories.
        target: (k,) rows of c.
        predicted: (k,) rows of c_p, the category of the product on rank 1.

    Raises:
        CollectionError: The lists differ in length.
    """
    target, predicted = np.asarray(target, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if target.shape != predicted.shape or target.ndim != 1:
        raise CollectionError(
            f"targets {target.shape} and predictions {predicted.shape} must be two equal lists.",
            code="targets-predictions-two-equal",
        )
    wrong = target != predicted
    target, predicted = target[wrong], predicted[wrong]
    same = tree.same_tree(target, predicted)
    return TreeErrors(
        right=int((~wrong).sum()),
        same_tree=int(same.sum()),
        different_tree=int((~same).sum()),
        depth_differences=_counts(tree.depth_differences(target[same], predicted[same])),
        distances=_counts(tree.distances(target, predicted)),
    )


def _counts(values: np.ndarray) -> dict[int, int]:
    distinct, counts = np.unique(values, return_counts=True)
    return {int(value): int(count) for value, count in zip(distinct, counts, strict=True)}


# A new table in a place of the user's: CSV, TSV, JSON lines or Parquet, by the ending of its name.

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


def write_new_table(path: str | Path, table: pa.Table, *, for_people: bool) -> Path:
    """Write a table as a new file, in one step. Nothing is replaced."""
    target = Path(path)
    check_new_table(target)
    ending = target.suffix.lower()
    buffer = io.BytesIO()
    if ending == ".parquet":
        parquet.write_table(table, buffer)
    elif ending == ".jsonl":
        buffer.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in table.to_pylist())
    else:
        buffer.write(csv_of(table, "\t" if ending == ".tsv" else ",", for_people=for_people))
    with new_file(target) as new:
        new.write_bytes(buffer.getvalue())
    return target


def check_new_table(path: str | Path) -> None:
    """Raise where `write_new_table` could not write: before the work rather than after it."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise ConfigurationError(
            f"{path}: not the name of a table.", hint=f"it ends in {', '.join(ENDINGS)}", code="not-name-table"
        )
    check_new_file(path)


# The layouts of catalogues, in the order in which they are tried: a new one is a reader, and its format here.

FORMATS: Registry[Format] = Registry("catalogue format")
for _format in (kaggle.FLIPKART, kaggle.FASHION, amazon.FORMAT, abo.FORMAT, table.FORMAT, generated.FORMAT):
    FORMATS.add(_format.name, _format)
CATALOGUES = SourceKind("catalogue", "catalogues", FORMATS, without_path="generated products need none: generated:2000")


def open_catalogue(path_or_spec: Any, *, format: str | None = None, images: object = None, **options: Any) -> Catalogue:
    """Open a catalogue of any known layout.

    What cannot be used is left out and counted in the catalogue's `notes`.

    Args:
        path_or_spec: A file (plain, `.gz` or `.xz`), a folder with one such file in it (or laid out as ABO's), or a
            `Catalogue`, or a table in memory (a data frame, an Arrow table, a list of dictionaries); the format follows
            from the content. `"format:path"` names the format; `"generated:2000"` makes 2,000 products. Options may
            follow as in a web address: `"products:shop.csv?separator=/&images=photos.zip"`. A file or folder elsewhere
            (`"s3://bucket/shop.jsonl"`; needs `visir[remote]`) is copied into the cache.
        format: The name of the format, when it cannot be told.
        images: Where the pictures are: a folder, zip or tar, or a list of them. By default they are looked for beside
            the source; the catalogue's `source` says where they were found. "none" goes without.
        **options: Those of the format; `visir data formats` lists them.

    Raises:
        CollectionError: Where no product can be used.

    Example:
        >>> catalogue = open_catalogue("generated:20")
        >>> catalogue.products.num_rows, catalogue.categories.num_rows
        (20, 113)
        >>> catalogue.products["title"][2].as_py(), catalogue.products["category_id"][0].as_py()
        ('Hollis 102 teapot', 'Vehicles > Rockets > Tin rockets')
    """
    if isinstance(path_or_spec, Catalogue):
        return path_or_spec
    if not isinstance(path_or_spec, str | Path):
        draft = table.read(read_table(path_or_spec), **table.FORMAT.resolve(options))
        place_images(draft, images)
        return draft.build()
    source = find_source(str(path_or_spec), CATALOGUES, format)
    contents = source.read(images=source.take("images", images), **options)
    return contents.build() if isinstance(contents, ProductDraft) else contents


def open_uncategorised(
    path_or_spec: str | Path, *, format: str | None = None, images: object = None, **options: Any
) -> tuple[Catalogue, list[str]]:
    """Open a catalogue with its products that have no category, which `open_catalogue` sets aside.

    Args:
        path_or_spec: As `open_catalogue` takes it.
        format: As there.
        images: As there.
        **options: As there.

    Returns:
        The catalogue, and the ids of the products without a category; they stand under a category of their own,
        `visir.products.readers.table.UNCATEGORISED`.

    Raises:
        CollectionError: Where no product can be used.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = Path(folder, "shop.csv")
        ...     _ = table.write_text("id,title,category\\na,red dress,Clothes > Dresses\\nb,blue dress,\\n")
        ...     open_uncategorised(table)[1]
        ['b']
    """
    with with_uncategorised():
        catalogue = open_catalogue(path_or_spec, format=format, images=images, **options)
    products = catalogue.products
    return catalogue, products["id"].filter(pc.equal(products["category_id"], UNCATEGORISED)).to_pylist()
