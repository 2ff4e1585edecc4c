"""Which column of a table of products holds what, by the names that shops give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from visir.errors import CollectionError, nearest

ID = ("id", "product_id", "productid", "uniq_id", "unique_id", "item_id", "asin", "sku", "product_code",
      "article_number", "artikelnummer", "handle", "pid", "gtin", "ean", "code")  # fmt: skip
TITLE = ("title", "product_title", "product_name", "productname", "productdisplayname", "product_display_name",
         "display_name", "item_name", "name", "produktname", "bezeichnung")  # fmt: skip
DESCRIPTION = ("description", "product_description", "about_product", "body_html", "body", "long_description",
               "short_description", "beschreibung")  # fmt: skip
IMAGE = ("image", "images", "image_path", "image_paths", "file_name", "filename", "image_file", "image_name",
         "picture", "pictures", "photo", "photos", "image_url", "image_urls", "image_link", "image_src", "img",
         "bild")  # fmt: skip
CATEGORY = ("category_path", "category_paths", "category_tree", "product_category_tree", "breadcrumbs", "breadcrumb",
            "category", "categories", "product_category", "product_categories", "google_product_category",
            "product_type", "kategorie", "department", "type")  # fmt: skip
PRICE = ("price", "selling_price", "sale_price", "discounted_price", "current_price", "final_price", "unit_price",
         "price_eur", "price_usd", "price_gbp", "retail_price", "list_price", "regular_price", "variant_price", "preis",
         "prix", "precio", "mrp")  # fmt: skip
BRAND = ("brand", "brand_name", "manufacturer", "vendor", "make", "marke", "hersteller")
CURRENCY = ("currency", "currency_code", "waehrung")
ATTRIBUTES = ("attributes", "specifications", "product_specifications", "properties")
_LEVELS = re.compile(r"(?:product_)?(?:cat|category|categorie|kategorie|level|lvl|l|category_level)_?(\d)")
_NAMED_LEVELS = (
    ("mastercategory", "subcategory", "articletype"),
    ("master_category", "sub_category", "article_type"),
    ("main_category", "sub_category"),
    ("category", "subcategory", "subsubcategory"),
    ("category", "sub_category", "sub_sub_category"),
)
_IMAGES = re.compile(r"(?:additional_)?(?:image|picture|photo|img)(?:_(?:url|link|src|path|file))?_?\d+"
                     r"|additional_image(?:_link|_url)?s?")  # fmt: skip
_MONEY = re.compile(r"(?:^|_)(?:price|preis|prix|precio|mrp|msrp|rrp|uvp)(?:_|$)")


def plain(name: str) -> str:
    """The name of a column without the ways in which people write it.

    Example:
        >>> plain("Product Type"), plain("product-category "), plain("Price (€)")
        ('product_type', 'product_category', 'price')
    """
    return re.sub(r"[\W_]+", "_", name.strip().lower()).strip("_")


@dataclass(frozen=True)
class ShopColumns:
    """Which column holds what."""

    id: str  # the id of the product
    title: str | None  # its title; None where there is no such column, as for those below
    description: str | None  # a longer text
    images: tuple[str, ...]  # pictures, in one or several columns
    category: tuple[str, ...]  # the category paths, or one level of the only path in each column
    price: str | None  # the price that customers pay
    brand: str | None  # the brand
    currency: str | None  # the currency of all prices
    attributes: str | None  # all attributes, as JSON
    money: tuple[str, ...]  # all columns of prices
    others: tuple[str, ...]  # columns that became fields under their own name
    doubts: tuple[str, ...] = field(default=())  # what else could have been taken, in sentences

    @classmethod
    def find(
        cls,
        path: Path | str,
        columns: Sequence[str],
        *,
        id_column: str | None = None,
        title_column: str | None = None,
        image_column: str | None = None,
        category_column: str | None = None,
        price_column: str | None = None,
        brand_column: str | None = None,
    ) -> ShopColumns:
        """Find them among the columns of a table."""
        finder = _Finder(path, columns)
        identifier = finder.first("id", id_column, ID)
        levels = finder.several(category_column) or _levels(columns)
        category = levels or tuple(filter(None, [finder.first("category", None, CATEGORY)]))
        images = finder.several(image_column)
        if not images:
            first = finder.first("image", None, IMAGE)
            further = [name for name in columns if _IMAGES.fullmatch(plain(name)) and name != first]
            images = tuple(filter(None, [first, *further]))
        title = finder.first("title", title_column, TITLE)
        description = finder.first("description", None, DESCRIPTION)
        price = finder.first("price", price_column, PRICE)
        brand = finder.first("brand", brand_column, BRAND)
        currency = finder.first("currency", None, CURRENCY)
        attributes = finder.first("attributes", None, ATTRIBUTES)
        faults = finder.faults
        if identifier is None and not faults:
            raise CollectionError(
                f"{path}, line 1: no column of product ids.",
                hint=f"name it: {Path(path).name}?id_column={columns[0] if columns else 'COLUMN'}; there are: "
                f"{', '.join(columns)}",
                code="no-column-product-ids",
            )
        if faults:
            raise CollectionError(f"{path}, line 1: {'; '.join(faults)}.", hint=f"there are: {', '.join(columns)}")
        assert identifier is not None
        money = tuple(name for name in columns if name == price or _MONEY.search(plain(name)))
        used = {identifier, title, description, price, brand, currency, attributes, *images, *category}
        others = tuple(name for name in columns if name not in used)
        return cls(identifier, title, description, images, category, price, brand, currency, attributes, money, others,
                   tuple(finder.doubts))  # fmt: skip


class _Finder:
    """Finds columns, and writes down what is wrong and what is in doubt."""

    def __init__(self, path: Path | str, columns: Sequence[str]) -> None:
        self.path, self.columns = path, columns
        self.faults: list[str] = []
        self.doubts: list[str] = []
        self._by_name: dict[str, str] = {}
        for name in columns:
            self._by_name.setdefault(plain(name), name)

    def first(self, role: str, given: str | None, usual: Sequence[str]) -> str | None:
        if given is not None:
            return next(iter(self.several(given)), None)
        fitting = [self._by_name[name] for name in usual if name in self._by_name]
        if len(fitting) > 1 and role in ("id", "category", "price"):
            others = ", ".join(map(repr, fitting[1:]))
            self.doubts.append(f"{role}: column {fitting[0]!r} (not {others}, {role}_column= names another)")
        return fitting[0] if fitting else None

    def several(self, given: str | None) -> tuple[str, ...]:
        names = [name.strip() for name in given.split(",")] if given and given not in self.columns else [given]
        known = tuple(name for name in names if name in self.columns)
        self.faults += [
            f"no column {name!r} ({nearest(name, self.columns)})" for name in names if name and name not in self.columns
        ]
        return tuple(filter(None, known))


def _levels(columns: Sequence[str]) -> tuple[str, ...]:
    """One column per level, by numbers ("cat1", "cat2") or by usual names; empty where there are none."""
    by_name = {plain(name): name for name in columns}
    numbered: dict[str, list[tuple[int, str]]] = {}
    for key, name in by_name.items():
        if match := _LEVELS.fullmatch(key):
            numbered.setdefault(key[: match.start(1)], []).append((int(match[1]), name))
    for found_levels in numbered.values():
        numbers = sorted(number for number, _ in found_levels)
        if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return tuple(name for _, name in sorted(found_levels))
    for names in _NAMED_LEVELS:
        present = [by_name[name] for name in names if name in by_name]
        if len(present) > 1 and names[0] in by_name:
            return tuple(present)
    return ()
