"""The catalogue: products with titles, images and attributes, and the tree of their categories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Displayed, brief, counted, listed
from visir.errors import CollectionError, raise_faults
from visir.fingerprint import hash_columns
from visir.records.category_tree import cycles_of, path_id, register_path
from visir.records.collection import Collection
from visir.records.columns import conform, text_column
from visir.records.items import PLACES, Items

__all__ = ["ATTRIBUTES", "CATEGORIES", "PRODUCTS", "VARIANTS", "Catalogue", "path_id"]

PRODUCTS = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),  # null: the product has none
        ("path", pa.string()),  # where the image is, as in `Collection.images`; null: there is none
        ("archive", pa.string()),
        ("category_id", pa.string()),  # the most specific category of the product
    ]
)
ATTRIBUTES = pa.schema([("product_id", pa.string()), ("name", pa.string()), ("value", pa.string())])
CATEGORIES = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),  # the text of the query; several categories may share a name
        ("parent", pa.string()),  # null: a most general category, the root of a tree
    ]
)
PICTURES = pa.schema(
    [
        ("product_id", pa.string()),
        ("name", pa.string()),  # as the source has it; `path` and `archive` as in `PRODUCTS`
        ("path", pa.string()),
        ("archive", pa.string()),
    ]
)
PATHS = pa.schema([("product_id", pa.string()), ("path", pa.list_(pa.string()))])
VARIANTS = pa.schema(
    [
        ("product_id", pa.string()),
        ("id", pa.string()),  # its own id or SKU; null: it has none
        ("options", pa.map_(pa.string(), pa.string())),  # what it is of what comes in several: {"Size": "M"}
        ("price", pa.float64()),  # what customers pay for it; null: it has no price
        ("currency", pa.string()),
        ("availability", pa.string()),  # "in stock", "backorder", "preorder", "out of stock", "discontinued"; or null
        ("picture", pa.string()),  # the name of its picture, as in `PICTURES`
    ]
)
_SCHEMAS = {"products": PRODUCTS, "attributes": ATTRIBUTES, "categories": CATEGORIES, "images": PICTURES,
            "paths": PATHS, "variants": VARIANTS}  # fmt: skip
LONG = 10_000
"""Attribute values and titles with more characters than this are counted by `Catalogue.remarks`; nothing is cut."""
_EXAMPLES = 5


@dataclass(frozen=True, eq=False)
class Catalogue(Displayed):
    """Products, their attributes, and a forest of categories. Make one with `Catalogue.of` or a reader.

    Tables are immutable and columnar (PyArrow), as in `Collection`. `remarks` lists what is unusual but allowed.

    Args:
        name: The name of the catalogue in tables.
        products: One row per product: `id`; `title` (null if none); `path` and `archive` of its one image relative to
            `root` (null if none); `category_id`, its most specific category. This category and those above it are the
            path of the product (thesis section 7.4.1: every product has one path from a root to a leaf). The product is
            relevant to each of them. The most specific category of one product may be an inner category for another.
        attributes: One row per attribute: `product_id`, `name`, `value`; any number per product. Names and values are
            never empty: a product without attributes has no row.
        categories: One row per category: `id`, `name`, `parent`. Names repeat ("Accessories" under "Shoes" and under
            "Cameras"), so a category is identified by its `id`: `path_id` of the names from the root.
        root: The folder of the images.
        source: Where the catalogue comes from.
        notes: What the reader left out, in words with counts; not part of the fingerprint.
        prices: Product id to what customers pay for it, in words ("49.90 EUR"); not part of the fingerprint.
        images: One row per picture of a product, the first being its one image: `product_id`, `name`, `path`,
            `archive`. This table and those below are what else a shop's export tells, and are not part of the
            fingerprint; they are empty where nobody does.
        paths: One row per category path of a product, its own first: `product_id`, and the names, in `path`. Those
            further ones are none of the tree.
        fields: One row per product: `product_id`, and columns with types: price, currency, brand, stock, ….
        variants: One row per variant of a product that comes in several: `product_id`, `id`, `options`, `price`,
            `currency`, `availability`, `picture`.

    Raises:
        CollectionError: The message lists every fault: missing and duplicate ids, attributes of unknown products or
            without name or value, products in unknown categories, categories without a name, with an unknown parent
            (orphans) or that are their own ancestor (cycles).

    Example:
        >>> catalogue = Catalogue.of(
        ...     "shop", ids=["a", "b"], paths=[["Toys", "Trains"], ["Toys"]], titles=["a red train", None]
        ... )
        >>> catalogue.items, catalogue.category_items
        (Items(2 products, text: 'a red train', …), Items(2 categories, text: 'Toys', 'Trains'))
    """

    name: str
    products: pa.Table
    attributes: pa.Table
    categories: pa.Table
    root: Path = field(default_factory=Path)
    source: str = ""
    notes: tuple[str, ...] = ()
    prices: Mapping[str, str] = field(default_factory=dict)
    images: pa.Table = field(default_factory=PICTURES.empty_table)
    paths: pa.Table = field(default_factory=PATHS.empty_table)
    fields: pa.Table = field(default_factory=pa.schema([("product_id", pa.string())]).empty_table)
    variants: pa.Table = field(default_factory=VARIANTS.empty_table)

    def __post_init__(self) -> None:
        for table, schema in _SCHEMAS.items():
            object.__setattr__(self, table, conform(getattr(self, table), schema, f"{self.name}: {table}"))
        self._check()

    @classmethod
    def of(
        cls,
        name: str,
        *,
        ids: Sequence[str],
        paths: Sequence[Sequence[str]],
        titles: Sequence[str | None] | None = None,
        attributes: Sequence[Sequence[tuple[str, str]]] | None = None,
        image_paths: Sequence[str | None] | None = None,
        image_archives: Sequence[str | None] | None = None,
        extra_paths: Iterable[Sequence[str]] = (),
        root: str | Path = ".",
        source: str = "",
        notes: Sequence[str] = (),
    ) -> Catalogue:
        """Make a catalogue from one list per column, all as long as `ids`.

        Args:
            name: The name of the catalogue in tables.
            ids: Unique ids of products.
            paths: For each product the names of its categories from the most general to the most specific. The
                categories are those of all paths, in the order in which they first occur.
            titles: The title of each product; None where it has none.
            attributes: For each product (name, value) pairs.
            image_paths: The path of each image; None where a product has none.
            image_archives: The archive of each image; None where it is a plain file.
            extra_paths: Paths of further categories, which may have no product.
            root: The folder of the images.
            source: Where the catalogue comes from.
            notes: What was left out.

        Raises:
            CollectionError: Lists differ in length, a product has no category, or the catalogue has another fault.
        """
        columns = {"paths": paths, "titles": titles, "attributes": attributes}
        columns |= {"image_paths": image_paths, "image_archives": image_archives}
        for column, values in columns.items():
            if values is not None and len(values) != len(ids):
                raise CollectionError(
                    f"{name}: {len(ids)} ids, but {len(values)} {column}.", code="ids-of-another-count"
                )
        without = [ids[row] for row, path in enumerate(paths) if not path]
        raise_faults(CollectionError, name, [f"product {_short(product_id)} has no category" for product_id in without])
        categories: dict[str, tuple[str, str | None]] = {}
        cache: dict[tuple[str, ...], str] = {}
        leaves = [cache.get(key) or cache.setdefault(key, register_path(key, categories)) for key in map(tuple, paths)]
        for path in extra_paths:
            register_path(path, categories)
        pairs = [
            (identifier, *pair)
            for identifier, product_pairs in zip(ids, attributes or [()] * len(ids), strict=True)
            for pair in product_pairs
        ]
        nothing = [None] * len(ids)
        products = [ids, titles or nothing, image_paths or nothing, image_archives or nothing, leaves]
        titles_of_products = ("product ids", "titles", "pictures", "archives", "categories")
        labels, above = zip(*categories.values(), strict=True) if categories else ((), ())
        return cls(
            name,
            _texts(PRODUCTS, products, [f"{name}: {title}" for title in titles_of_products]),
            _texts(
                ATTRIBUTES,
                [[pair[i] for pair in pairs] for i in range(len(ATTRIBUTES))],
                [f"{name}: attributes ({column})" for column in ATTRIBUTES.names],
            ),
            _texts(CATEGORIES, [list(categories), labels, above], [f"{name}: categories"] * 3),
            Path(root),
            source,
            tuple(notes),
        )

    def __repr__(self) -> str:
        products, roots = self.products.num_rows, self.categories["parent"].null_count
        return brief(
            self,
            f"{self.name}: {counted(products, 'products')}, {counted(self.categories.num_rows, 'categories')} under "
            f"{counted(roots, 'roots')}",
            f"products: {self.items.shown}" if products else "",
            f"categories: {listed(self.categories['id'].slice(0, 3).to_pylist(), self.categories.num_rows)}",
            f"with an image: {products - self.products['path'].null_count:,}, with a title: "
            f"{products - self.products['title'].null_count:,}, {counted(self.attributes.num_rows, 'attributes')}",
            f"from {self.source}" if self.source else "",
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash over products, attributes and categories: 32 hexadecimal digits, independent of row order.

        The location of the images has no influence, as in `Collection.fingerprint`; nor have `name`, `source` and
        `notes`.
        """
        parts = [
            hash_columns([self.products[column] for column in ("id", "title", "category_id")]),
            hash_columns([self.attributes[column] for column in ATTRIBUTES.names]),
            hash_columns([self.categories[column] for column in CATEGORIES.names]),
        ]
        return hash_columns([pa.array(parts)], sort=False)

    @cached_property
    def items(self) -> Items:
        """The products as documents of a search: their titles and images.

        If no product has an image, the items are texts only. If no product has a title, they are images only. If there
        is neither, all texts are null.
        """
        products = self.products
        with_pictures = products["path"].null_count < products.num_rows
        with_titles = products["title"].null_count < products.num_rows
        return Items(
            products["id"].combine_chunks(),
            products["title"].combine_chunks() if with_titles or not with_pictures else None,
            products.select(PLACES.names) if with_pictures else None,
            root=self.root,
            title="products",
            name=self.name,
        )

    @cached_property
    def category_items(self) -> Items:
        """The categories as queries of a search: their names are the texts."""
        ids, names = (self.categories[column].combine_chunks() for column in ("id", "name"))
        return Items(ids, names, title="categories", name=self.name)

    def keep_products(self, keep: pa.ChunkedArray | pa.Array | np.ndarray) -> Catalogue:
        """Return the products where the (products,) boolean mask `keep` is true, with their attributes.

        All categories remain, so that the parts of a split share one tree. A category without products in the training
        part is an unseen category.
        """
        products = self.products.filter(pa.array(keep) if isinstance(keep, np.ndarray) else keep)
        remaining = products["id"].combine_chunks()
        others = {
            name: (table := getattr(self, name)).filter(pc.is_in(table["product_id"], remaining))
            for name in ("attributes", "images", "paths", "fields", "variants")
        }
        return replace(self, products=products, **others)

    def pictures(self) -> Collection:
        """Return the products that have an image as a collection of images without captions, under the product ids.

        It is the input of image readers and of the embedding store.
        """
        shown = self.products.filter(pc.is_valid(self.products["path"]))
        return Collection.build(
            self.name,
            images={"id": shown["id"], "path": shown["path"], "archive": shown["archive"]},
            root=self.root,
            source=self.source,
        )

    def describe(self) -> dict[str, object]:
        """Return the counts that identify the catalogue."""
        products = self.products
        return {
            "name": self.name,
            "products": products.num_rows,
            "with picture": products.num_rows - products["path"].null_count,
            "with title": products.num_rows - products["title"].null_count,
            "attributes": self.attributes.num_rows,
            "categories": self.categories.num_rows,
            "trees": self.categories["parent"].null_count,
            "fingerprint": self.fingerprint,
            "source": self.source,
        }

    def remarks(self) -> list[str]:
        """Return what is unusual but allowed: one line each, with a count and the first few ids."""
        products, categories = self.products, self.categories
        inhabited = pc.is_in(categories["id"], pa.array(self._inhabited(), pa.string()))
        described = pc.is_in(products["id"], pc.unique(self.attributes["product_id"]))
        lines = [
            _counted("products without a picture", products["id"].filter(pc.is_null(products["path"]))),
            _counted("products without a title", products["id"].filter(pc.is_null(products["title"]))),
            _counted("products without attributes", products["id"].filter(pc.invert(described))),
            _counted("categories without products", categories["id"].filter(pc.invert(inhabited))),
        ]
        for part, owners, texts in (
            ("titles", products["id"], products["title"]),
            ("attribute names", self.attributes["product_id"], self.attributes["name"]),
            ("attribute values", self.attributes["product_id"], self.attributes["value"]),
            ("names of categories", categories["id"], categories["name"]),
        ):
            long = pc.greater(pc.fill_null(pc.utf8_length(texts), 0), LONG)
            lengths = pc.utf8_length(texts.filter(long)).to_pylist()
            named = [
                f"{_short(owner)} ({n:,})" for owner, n in zip(owners.filter(long).to_pylist(), lengths, strict=True)
            ]
            lines.append(_counted(f"{part} longer than {LONG:,} characters (models cut them, visir does not)", named))
        return [line for line in lines if line]

    def _inhabited(self) -> set[str]:
        """The categories to which, or below which, a product belongs."""
        above = dict(zip(*(self.categories[column].to_pylist() for column in ("id", "parent")), strict=True))
        inhabited: set[str] = set()
        for category in pc.unique(self.products["category_id"]).to_pylist():
            while category is not None and category not in inhabited:
                inhabited.add(category)
                category = above[category]
        return inhabited

    def _check(self) -> None:
        faults: list[str] = []
        tables = (("product", "products", self.products), ("category", "categories", self.categories))
        for kind, kinds, ids in ((kind, kinds, table["id"]) for kind, kinds, table in tables):
            without = pc.sum(_blank(ids)).as_py() or 0
            faults += [f"{kinds} without an id: {without:,}"] * bool(without)
            counts = pc.value_counts(ids)
            faults += [
                f"duplicate {kind} id {_short(repeated['values'])} ({repeated['counts']} times)"
                for repeated in counts.filter(pc.greater(pc.struct_field(counts, "counts"), 1)).to_pylist()
                if repeated["values"]
            ]
        products, categories, attributes = self.products, self.categories, self.attributes
        category_ids = pc.unique(categories["id"])
        uncategorised = products.filter(pc.invert(pc.is_in(products["category_id"], category_ids)))
        faults += [
            f"product {_short(row['id'])} has no category"
            if row["category_id"] is None
            else f"product {_short(row['id'])} is in category {_short(row['category_id'])}, which is not in the tree"
            for row in uncategorised.to_pylist()
        ]
        nameless = categories["id"].filter(_blank(pc.utf8_trim_whitespace(categories["name"])))
        faults += [f"category {_short(repeated)} has no name" for repeated in nameless.to_pylist()]
        orphans = categories.filter(
            pc.and_(pc.is_valid(categories["parent"]), pc.invert(pc.is_in(categories["parent"], category_ids)))
        )
        faults += [
            f"category {_short(row['id'])} is an orphan: its parent {_short(row['parent'])} is not in the tree"
            for row in orphans.to_pylist()
        ]
        faults += [
            f"categories in a cycle, each below the next: {' → '.join(map(_short, [*cycle, cycle[0]]))}"
            for cycle in cycles_of(categories["id"].to_pylist(), categories["parent"].to_pylist())
        ]
        strange = attributes.filter(pc.invert(pc.is_in(attributes["product_id"], pc.unique(products["id"]))))
        faults += [
            f"attribute {_short(name)} belongs to product {_short(product_id)}, which is not in the catalogue"
            for product_id, name in zip(strange["product_id"].to_pylist(), strange["name"].to_pylist(), strict=True)
        ]
        for column in ("name", "value"):
            empty = attributes.filter(_blank(pc.utf8_trim_whitespace(attributes[column])))
            other = "value" if column == "name" else "name"
            faults += [
                f"product {_short(product_id)} has an attribute without a {column} ({other} {_short(text)})"
                for product_id, text in zip(empty["product_id"].to_pylist(), empty[other].to_pylist(), strict=True)
            ]
        raise_faults(
            CollectionError,
            f"{self.name}{f' ({self.source})' if self.source else ''}",
            faults,
            hint="mend the source: each category needs one parent that is there, or none if it is a root",
        )


def _texts(schema: pa.Schema, columns: Sequence[Sequence[str | None]], titles: Sequence[str]) -> pa.Table:
    return pa.table(list(map(text_column, columns, titles)), names=schema.names)


def _blank(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.equal(pc.fill_null(values, ""), "")


def _short(value: str | None) -> str:
    return repr(value) if value is None or len(value) <= 60 else f"{value[:60]!r}… ({len(value):,} characters)"


def _counted(label: str, ids: pa.ChunkedArray | list[str]) -> str:
    """ "label: 12 ('a', 'b', …)", or "" for none."""
    if not len(ids):
        return ""
    examples = ids[:_EXAMPLES] if isinstance(ids, list) else [_short(name) for name in ids[:_EXAMPLES].to_pylist()]
    return f"{label}: {len(ids):,} ({', '.join(examples)}{', …' if len(ids) > _EXAMPLES else ''})"
