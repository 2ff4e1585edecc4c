"""Amazon Berkeley Objects (ABO) as a catalogue: listings in many languages, with attributes and places in a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from visir.collections.cells import text_of
from visir.collections.shop_layouts import abo_folders, abo_images, in_language, is_abo, listing_rows
from visir.collections.sources import Format, Option
from visir.errors import CollectionError, nearest
from visir.products.readers.table import ProductDraft

FIELDS = (
    "brand",
    "bullet_point",
    "color",
    "fabric_type",
    "finish_type",
    "item_dimensions",
    "item_shape",
    "item_weight",
    "material",
    "model_name",
    "model_number",
    "model_year",
    "pattern",
    "style",
)
"""What is an attribute by default. Not the keywords, which are what people search with, nor `product_type`, which is
another name of the category."""
OTHERS = ("color_code", "country", "domain_name", "item_keywords", "marketplace", "product_description", "product_type")
Pairs = list[tuple[object, object]]


@dataclass(frozen=True)
class _Listing:
    """What one shop says of a product."""

    rank: tuple[bool, int]  # whether it lacks a category, and which preferred language it has; the smallest rank counts
    place: str  # where it stands
    path: object  # its category path
    title: str  # its name
    attributes: Pairs  # (name, value) pairs
    picture: str | None  # the id of its main picture


def read(
    path: Path,
    *,
    language: str = "en_US,en",
    shops: str = "any",
    attributes: str = ",".join(FIELDS),
    drop_levels: str = "Categories",
) -> ProductDraft:
    """Read the folder with `listings/metadata/listings_*.json.gz` and `images/metadata/images.csv.gz`."""
    # - A product is an `item_id`. The same product in several shops is several listings. Of those with a category the
    #   one whose name is in the most preferred language counts, the first of equals; the others are counted.
    # - The path is the first `node`, whose name ("/Categories/Furniture/Chairs") is cut at "/". A name that holds a "/"
    #   itself cannot be told from two levels.
    # - The picture is the main one, by `images.csv`, in `images/small/` or `images/original/`. Others are not read.
    # language: Languages in order of preference: "en_US,en" is American English, else any English; "any" takes what
    # comes first. Names and attributes are in the first of them that there is; listings without a name in any are left
    # out. Attributes without a language (numbers, codes) are in every language.
    metadata, folder = abo_folders(path)
    fields, languages = attributes.split(","), language.split(",")
    for name in fields:
        if name not in (*FIELDS, *OTHERS):
            raise CollectionError(
                f"abo: unknown attribute {name!r}", hint=nearest(name, (*FIELDS, *OTHERS)), code="unknown-attribute"
            )
    domains = None if shops == "any" else frozenset(shops.split(","))
    root = folder.absolute()
    draft = ProductDraft("ABO", root, f"Amazon Berkeley Objects {root.name}/ in {language}")
    files = abo_images(folder)
    products: dict[str, _Listing] = {}

    def report(place: str, fault: str) -> None:
        draft.reject("lines that are no listing", f"{place}: {fault}")

    for place, row in listing_rows(metadata, report):
        item = row.get("item_id")
        label = f"{place}: {item!r}"
        if not isinstance(item, str) or not item.strip():
            draft.reject("rows without a product id", place)
            continue
        if domains is not None and row.get("domain_name") not in domains:
            draft.reject("listings of other shops", f"{label}: {row.get('domain_name')}")
            continue
        names = in_language(_entries(row.get("item_name")), languages)
        if not names:
            draft.reject(f"listings without a name in {language}", label)
            continue
        levels = _levels(draft, label, row.get("node"), frozenset(drop_levels.split(",")))
        rank = (not levels, next(rank for rank, preferred in enumerate(languages) if in_language(names, [preferred])))
        if item in products:
            draft.reject("further listings of a product, of other shops or languages", label)
            if products[item].rank <= rank:
                continue
        attribute_pairs = [
            pair for field in fields for pair in _attribute_pairs(draft, label, field, row.get(field), languages)
        ]
        main = row.get("main_image_id")
        products[item] = _Listing(
            rank, place, levels, names[0][1], attribute_pairs, main if isinstance(main, str) and main else None
        )
    for item, listing in products.items():
        main = listing.picture
        if main is not None and main not in files:
            draft.reject("main images that are not in images.csv (the product is kept)", f"{listing.place}: {main!r}")
        draft.add(
            listing.place,
            item,
            listing.path,
            title=listing.title,
            attributes=listing.attributes,
            picture=f"small/{files[main]['path']}" if main is not None and main in files else None,
        )
    return draft


def _levels(draft: ProductDraft, place: str, nodes: object, drop: frozenset[str]) -> object:
    """The names of the first node; what is no list of nodes as it is, for the draft to reject."""
    if not isinstance(nodes, list) or not nodes or not isinstance(nodes[0], Mapping):
        return nodes
    if len(nodes) > 1:
        draft.reject("further category paths of a product that has several", place, len(nodes) - 1)
    # The README calls it `path`, the files `node_name`.
    name = nodes[0].get("node_name") or nodes[0].get("path")
    if not isinstance(name, str):
        return name
    return [level for level in (level.strip() for level in name.split("/")) if level and level not in drop]


def _attribute_pairs(draft: ProductDraft, place: str, field: str, value: object, languages: list[str]) -> Pairs:
    """The (name, text) pairs of one field: none, one, or several (bullets, dimensions)."""
    if isinstance(value, Mapping):  # item_dimensions: {"height": {"value": …, "unit": …}, …}
        return [(f"{field} {side}", text) for side, entry in value.items() for _, text in _entries([entry])]
    entries = _entries(value)
    if value not in (None, "", []) and not entries:
        draft.reject("attributes that are not text", f"{place}: {field!r}")
    chosen = in_language(entries, languages) or [entry for entry in entries if entry[0] is None]
    if entries and not chosen:
        draft.reject("attributes in other languages only", f"{place}: {field!r}")
    return [(field, text) for text in dict.fromkeys(text for _, text in chosen)]


def _entries(value: object) -> list[tuple[str | None, str]]:
    """(language tag, text) of what ABO has in its lists: texts in a language, numbers, measures with units, codes."""
    entries = value if isinstance(value, list) else [value]
    return [pair for entry in entries for pair in _entry(entry)]


def _entry(entry: object) -> Iterator[tuple[str | None, str]]:
    tag: object = None
    if isinstance(entry, Mapping):
        tag = entry.get("language_tag")
        normalized = entry.get("normalized_value")
        entry = normalized if isinstance(normalized, Mapping) else entry
        unit = text_of(entry["unit"]) if isinstance(entry.get("unit"), str) else None
        value = entry.get("value")
    else:
        unit, value = None, entry
    text = text_of(value) if isinstance(value, (str, int, float)) else None
    if text is not None:
        yield (tag if isinstance(tag, str) else None), f"{text} {unit}" if unit else text


FORMAT = Format(
    name="abo",
    title="Amazon Berkeley Objects (ABO)",
    layout="a folder with listings/metadata/listings_*.json.gz, images/metadata/images.csv.gz and images/small/",
    reference="Collins et al., ABO: Dataset and Benchmarks for Real-World 3D Object Understanding (CVPR 2022)",
    sniff=is_abo,
    options=(
        Option("language", "languages in order of preference: en_US, en (any English), …, any", "en_US,en"),
        Option("shops", "any, or some domains: amazon.com,amazon.co.uk", "any"),
        Option("attributes", "the fields that are attributes, comma-separated", ",".join(FIELDS)),
        Option("drop_levels", "names of levels to leave out of category paths", "Categories"),
    ),
    read=read,
)
