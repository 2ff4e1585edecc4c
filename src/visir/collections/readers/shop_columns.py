"""Which column of a shop's table holds what, by the names that shops and their programs give them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from visir.collections.cells import CODES, SIGNS
from visir.collections.readers.shop_cells import SAME
from visir.collections.readers.table import TEXT_OPTIONS
from visir.collections.sources import Option, one_of
from visir.collections.tables import plain_column
from visir.errors import CollectionError, nearest

ID = ("id", "product_id", "productid", "uniq_id", "unique_id", "item_id", "asin", "url_handle", "handleid", "sku",
      "item_sku", "seller_sku", "article_id", "product_code", "article_number", "artikelnummer", "parent_asin",
      "handle", "pid", "gtin", "ean", "code")  # fmt: skip
TITLE = ("title", "product_title", "product_name", "productname", "productdisplayname", "product_display_name",
         "display_name", "item_name", "prod_name", "name", "produktname", "bezeichnung", "post_title")  # fmt: skip
DESCRIPTION = ("description", "product_description", "about_product", "body_html", "body", "long_description",
               "short_description", "detail_desc", "beschreibung", "post_content")  # fmt: skip
IMAGE = ("image", "images", "image_path", "image_paths", "file_name", "filename", "image_file", "image_name",
         "picture", "pictures", "photo", "photos", "image_url", "image_urls", "image_link", "img_link", "image_src",
         "img", "bild", "base_image", "main_image", "main_image_url", "product_image_url",
         "productimageurl")  # fmt: skip
CATEGORY = ("category_path", "category_paths", "category_tree", "product_category_tree", "breadcrumbs", "breadcrumb",
            "category", "categories", "product_category", "product_categories", "google_product_category",
            "product_type", "product_type_name", "kategorie", "department", "item_type", "item_type_keyword",
            "feed_product_type", "tax_product_cat", "collection", "collections", "type")  # fmt: skip
PRICE = ("price_tax_incl", "price_tax_included", "price", "selling_price",
         "sale_price", "discounted_price", "current_price", "final_price", "unit_price",
         "price_eur", "price_usd", "price_gbp", "standard_price", "your_price", "retail_price", "list_price",
         "regular_price", "variant_price", "preis",
         "prix", "precio", "actual_price", "mrp", "price_tax_excl", "price_tax_excluded")  # fmt: skip
SALE = ("sale_price", "special_price", "discounted_price")
"""Prices of sales, which may have a first and a last day."""
_PAID = tuple(dict.fromkeys((*SALE, *PRICE)))
"""The same, of several the one first that customers pay where it is there."""
BRAND = ("brand", "brand_name", "manufacturer", "vendor", "store", "make", "marke", "hersteller", "brands")
CURRENCY = ("currency", "currency_code", "pricecurrency", "price_currency", "waehrung")
GROUP = ("item_group_id", "parent", "parent_sku", "parent_id", "parent_asin")
"""What names the product of which a row is a variant: a name of its own, or the id or SKU of another row."""
NAMES_ITSELF = frozenset(("item_group_id", "parent_asin"))
"""Of these, those whose names need no row of their own."""
SKU = ("sku", "product_sku", "item_sku", "seller_sku")
VARIANT = ("variant_sku", "sku", "variant_id", "reference", "item_sku", "seller_sku", "barcode", "variant_barcode")
"""What a variant is called, where it shares the id of its product."""
VARIATIONS = ("configurable_variations",)
"""What lists the variants of a product in the product's own row."""
AVAILABILITY = ("availability", "in_stock", "is_in_stock", "instock", "stock_status", "availability_status",
                "verfuegbarkeit")  # fmt: skip
STOCK = ("stock", "stock_quantity", "quantity", "qty", "inventory_quantity", "variant_inventory_qty", "inventory",
         "current_stock_level", "quantity_to_sell_on_facebook",
         "stock_level", "lagerbestand")  # fmt: skip
SALE_FROM = ("date_sale_price_starts", "special_price_from_date", "special_price_from", "special_from_date",
             "sale_from_date", "sale_start_date", "sale_price_start_date", "discount_from")  # fmt: skip
SALE_TO = ("date_sale_price_ends", "special_price_to_date", "special_price_to", "special_to_date", "sale_end_date",
           "sale_to_date", "sale_price_end_date", "discount_to")  # fmt: skip
SALE_DATES = ("sale_price_effective_date",)
"""The first and the last day of a sale, in columns of their own or with a slash between them."""
DISCOUNT = ("discount_amount", "discount_percent")
"""What PrestaShop takes off a price: an amount, or a share."""
DISCOUNTS = (("discountvalue", "discount_value"), ("discountmode", "discount_mode"))
"""What Wix takes off, and which of both it is."""
IMPACT = "impact_on_price"
"""What PrestaShop adds to the price of a product for a combination."""
_OPTION = re.compile(r"(?:option|attribute|variation)_?(?P<number>\d+)_(?P<what>name|value)s?(?:_s)?"
                     r"|productoption(?P<wix>name|description)(?P<at>\d+)")  # fmt: skip
OPTIONS = frozenset(("size", "color", "colour", "material", "pattern", "size_name", "color_name", "colour_name",
                     "style_name", "flavor_name", "scent_name", "groesse", "farbe"))  # fmt: skip
"""What variants of a product usually differ in."""
LISTED_OPTIONS = {"attribute_name_type_position": "value_value_position"}
"""Columns that name several options, and those with their values: PrestaShop's combinations."""
NAMED_VALUES = ("additional_attributes", "feature_name_value_position", "feature")
"""Columns of names with values: Magento's "color=red,size=M", PrestaShop's "Material:Wool:1, Fit:slim:2"."""
ATTRIBUTES = ("attributes", "specifications", "product_specifications", "properties")
_LEVELS = re.compile(r"(?:product_)?(?:cat|category|categorie|kategorie|level|lvl|l|category_level)_?(\d)")
_NAMED_LEVELS = (
    ("mastercategory", "subcategory", "articletype"),
    ("master_category", "sub_category", "article_type"),
    ("main_category", "sub_category"),
    ("category", "subcategory", "subsubcategory"),
    ("category", "sub_category", "sub_sub_category"),
)
_IMAGES = re.compile(r"(?:additional_|other_|product_)?(?:image|picture|photo|img)(?:_(?:url|link|src|path|file))?_?\d+"
                     r"|(?:additional|variant|lifestyle)_image(?:_link|_url|_src)?s?")  # fmt: skip
_MONEY = re.compile(r"(?:^|_)(?:price|preis|prix|precio|mrp|msrp|rrp|uvp)(?:_|$)")


def by_plain_name(columns: Sequence[str]) -> dict[str, str]:
    """From the plain name of each column to it, also without what is in brackets at its end: "Body (HTML)"."""
    without = {plain_column(re.sub(r"\s*\([^()]*\)\s*$", "", name)): name for name in reversed(columns)}
    return without | {plain_column(name): name for name in reversed(columns)}


@dataclass(frozen=True)
class SaleColumns:
    """What tells when the prices of sales count, and what is taken off a price."""

    prices: frozenset[str] = frozenset()  # the columns of prices to which the days belong
    first: str | None = None  # the first day
    last: str | None = None  # the last day
    both: str | None = None  # both, with a slash between them
    amount: str | None = None  # what is taken off the price
    percent: str | None = None  # the same in hundredths
    value: str | None = None  # one of both, as the next says
    mode: str | None = None  # which of both

    @property
    def all(self) -> tuple[str, ...]:
        """The columns that are there, without the prices."""
        present_columns = (self.first, self.last, self.both, self.amount, self.percent, self.value, self.mode)
        return tuple(name for name in present_columns if name)


@dataclass(frozen=True)
class ShopColumns:
    """Which column holds what."""

    id: str  # the id of the product
    title: str | None  # its title; None where there is no such column, as for those below
    description: str | None  # a longer text
    images: tuple[str, ...]  # pictures, in one or several columns
    category: tuple[str, ...]  # the category paths, or one level of the only path in each column
    prices: tuple[str, ...]  # the prices that customers pay: of each product the first of these columns that has one
    brand: str | None  # the brand
    currency: str | None  # the currency of all prices
    attributes: str | None  # all attributes, as JSON
    money: tuple[str, ...]  # all columns of prices
    group: str | None  # what joins the rows of variants
    sku: str | None  # what a variant may call its product by, beside the id
    variant: str | None  # what a variant is called where it shares the id of its product
    variations: str | None  # the variants of a product, listed in its own row
    options: tuple[tuple[str, str], ...]  # (column of a name, column of a value) of what variants differ in
    listed: tuple[tuple[str, str], ...]  # the same, several in a cell
    differing: tuple[str, ...]  # columns that are such an option each
    named: tuple[str, ...]  # columns of names with values
    availability: str | None  # whether it can be bought
    stock: str | None  # how many there are
    sale: SaleColumns  # when the price of a sale counts
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
        attributes_column: str | None = None,
        variant_column: str | None = None,
    ) -> ShopColumns:
        """Find them among the columns of a table; some may have been named."""
        given = {"id": id_column, "title": title_column, "image": image_column, "category": category_column,
                 "price": price_column, "brand": brand_column, "attributes": attributes_column,
                 "variant": None if variant_column == SAME else variant_column}  # fmt: skip
        by_name = by_plain_name(columns)
        faults: list[str] = []
        doubts: list[str] = []

        def several(role: str) -> tuple[str, ...]:
            text = given[role]
            names = [name.strip() for name in text.split(",")] if text and text not in columns else filter(None, [text])
            by_place = {str(place): name for place, name in enumerate(columns, start=1)}
            names = [name if name in columns else by_place.get(name, name) for name in names]
            faults.extend(f"no column {name!r} ({nearest(name, columns)})" for name in names if name not in columns)
            return tuple(name for name in names if name in columns)

        def usual(names: Sequence[str]) -> str | None:
            return next((by_name[name] for name in names if name in by_name), None)

        def first(role: str, names: Sequence[str]) -> str | None:
            if given.get(role) is not None:
                return next(iter(several(role)), None)
            fitting = list(dict.fromkeys(by_name[name] for name in names if name in by_name))
            if len(fitting) > 1 and role in ("id", "category"):
                others = ", ".join(map(repr, fitting[1:]))
                doubts.append(f"{role}: column {fitting[0]!r} (not {others}, {role}_column= names another)")
            return fitting[0] if fitting else None

        def paid() -> tuple[str, ...]:
            named = tuple(dict.fromkeys(by_name[name] for name in _PAID if name in by_name))
            if any(plain_column(name).startswith("price_tax_") for name in named):  # of PrestaShop: the price of a kilo
                named = tuple(name for name in named if plain_column(name) != "unit_price")
            # One field has one currency: "price EUR" is not filled up from "price USD".
            currency = next(filter(None, map(currency_in, named)), None)
            fitting = tuple(name for name in named if currency_in(name) in (None, currency))
            if len(named) > 1:
                others = "".join(f", not {name!r}" for name in named if name not in fitting)
                shown = ", else ".join(map(repr, fitting))
                doubts.append(f"price: column {shown}{others} (price_column= names one)")
            return fitting

        identifier = first("id", ID)
        category = several("category") or _levels(columns) or tuple(filter(None, [first("category", CATEGORY)]))
        images = several("image")
        if not images:
            main = first("image", IMAGE) if image_column is None else None
            further = [name for name in columns if _IMAGES.fullmatch(plain_column(name)) and name != main]
            images = tuple(filter(None, [main, *further]))
        title, description = first("title", TITLE), first("description", DESCRIPTION)
        prices = several("price") or paid()
        brand, currency = first("brand", BRAND), first("currency", CURRENCY)
        attributes = first("attributes", ATTRIBUTES)
        group = None if variant_column == SAME else first("variant", GROUP)
        group = None if group == identifier and variant_column is None else group
        sku, variant, variations = usual(SKU), usual(VARIANT), usual(VARIATIONS) if variant_column != SAME else None
        numbered: dict[str, dict[str, str]] = {}
        for key, name in by_name.items():
            if match := _OPTION.fullmatch(key):
                what = "name" if "name" in (match["what"], match["wix"]) else "value"
                numbered.setdefault(f"{key[:3]}{match['number'] or match['at']}", {})[what] = name
        options = tuple((pair["name"], pair["value"]) for pair in numbered.values() if len(pair) == 2)
        listed = tuple((by_name[name], by_name[value]) for name, value in LISTED_OPTIONS.items()
                       if name in by_name and value in by_name)  # fmt: skip
        differing = tuple(name for name in columns if plain_column(name) in OPTIONS)
        named = tuple(dict.fromkeys(by_name[name] for name in NAMED_VALUES if name in by_name))
        presta = any(plain_column(name).startswith("price_tax_") for name in prices)
        dated = prices if presta else [name for name in prices if plain_column(name) in SALE]
        off, modes = (usual(names) for names in DISCOUNTS)
        sale = SaleColumns(frozenset(dated), usual(SALE_FROM), usual(SALE_TO), usual(SALE_DATES),
                           *(usual((name,)) if presta else None for name in DISCOUNT),
                           *((off, modes) if off and modes else (None, None)))  # fmt: skip
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
        days = {name for names in (SALE_FROM, SALE_TO, SALE_DATES) for name in names}
        money = tuple(name for name in columns if name in prices
                      or (_MONEY.search(plain_column(name)) and plain_column(name) not in days))  # fmt: skip
        used = {identifier, title, description, brand, currency, attributes, group, *prices, *images, *category}
        others = tuple(name for name in columns if name not in used)
        return cls(identifier, title, description, images, category, prices, brand, currency, attributes, money, group,
                   sku, variant, variations, options, listed, differing, named, usual(AVAILABILITY), usual(STOCK), sale,
                   others, tuple(doubts))  # fmt: skip


def _levels(columns: Sequence[str]) -> tuple[str, ...]:
    """One column per level, by numbers ("cat1", "cat2") or by usual names; empty where there are none."""
    by_name = {plain_column(name): name for name in columns}
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


def currency_in(header: str) -> str | None:
    """The currency that the name of a column tells: "Price (€)", "price_eur"."""
    for part in re.split(r"[\s_()\[\]]+", header):
        code = SIGNS.get(part) or (part.upper() if part.upper() in CODES else None)
        if code:
            return code
    return None


def is_shop(columns: Iterable[str]) -> bool:
    """Whether columns are those of a table of products."""
    names = {*by_plain_name([*columns])}
    if names & {"caption", "captions", "text", "texts", "sentence", "sentences", "raw", "split", "image_id"}:
        return False
    signs = [
        names & set(ID),
        names & set(TITLE),
        names & {*PRICE, *BRAND, "asin", "sku", "gtin", "ean"},
        names & {*CATEGORY, "cat1", "category1", "category_1", "mastercategory"},
        names & {*IMAGE, *ATTRIBUTES, *DESCRIPTION},
    ]
    sure = names & {*PRICE, *BRAND, "category_path", "product_category_tree", "product_type", "product_category",
                    "mastercategory", "product_type_name"}  # fmt: skip
    return all(signs[:2]) and sum(map(bool, signs)) >= 3 and bool(sure)


COLUMN_OPTIONS = (
    Option("id_column", f"the column of the product's id (default: {', '.join(ID[:6])}, …)"),
    Option("title_column", f"the column of the title (default: {', '.join(TITLE[:4])}, …)"),
    Option("image_column", f"the columns of pictures, comma-separated (default: {', '.join(IMAGE[:4])}, …)"),
    Option("category_column", "the column of category paths, or one per level, comma-separated (default: "
           f"{', '.join(CATEGORY[:3])}, …; cat1,cat2,cat3)"),
    Option("variant_column", "the column that names the product of a variant; none: each row is one (default: "
           f"{', '.join(GROUP[:2])}, …)"),
    Option("separator", "what stands between the names of a category path; none: nothing (default: found)"),
    Option("paths_separator", "what stands between several category paths; none: nothing (default: found)"),
    Option("price_column", f"the column of the price (default: {', '.join(PRICE[2:6])}, …)"),
    Option("prices_on", "the day whose sales count, as 2026-11-28 (default: today)", ""),
    Option("decimal", "what stands before the cents of a price: point or comma (default: it is found)", "",
           one_of("", "point", "comma")),
    *(option for option in TEXT_OPTIONS if option.name != "header"),
)  # fmt: skip
"""Options of every reader of a shop's table."""
