"""Published catalogues of shops: Amazon Berkeley Objects, and Fashion200k."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.cells import Counts, text_of
from visir.collections.draft import Draft
from visir.collections.readers.names import compare_counts, whole
from visir.collections.readers.products import CatalogueDraft, fill
from visir.collections.readers.shop_exports import AMAZON, FASHION, FLIPKART, NEUTRAL, paths_of
from visir.collections.sources import Format, Option, one_of, reader_of
from visir.collections.tables import BadRows, RowFault, json_lines, read_rows
from visir.errors import CollectionError, nearest
from visir.files import read_lines
from visir.records import JUDGEMENTS

# Amazon Berkeley Objects (ABO): product listings in many languages, each with its main picture.

_TEXTS = ("item_name", "product_description", "bullet_point")
"""The fields that captions can come from."""
_LISTINGS = re.compile(r"^listings_[0-9a-f]+\.json(?:\.gz|\.xz)?$")


@dataclass
class _Shown:
    """A main picture: the first listing that shows it, and the captions of all that do."""

    fact: dict[str, Any]
    texts: dict[str, dict[str, Any]] = field(default_factory=dict)  # by text: where it is from


def _listing_files(folder: Path) -> list[Path]:
    """The shards of listings in a folder."""
    return sorted(file for file in folder.iterdir() if _LISTINGS.match(file.name)) if folder.is_dir() else []


def _read_listings(
    draft: Draft, folder: Path, names: list[str], languages: list[str], counts: Counter[str]
) -> dict[str, _Shown]:
    """The main pictures by image id, in the order in which listings first show them; `counts` what is left aside."""
    images: dict[str, _Shown] = {}
    for place, row in listing_rows(folder, lambda place, message: draft.fault(f"{place}: {message}")):
        counts["listings"] += 1
        item, main = row.get("item_id"), row.get("main_image_id")
        if not isinstance(item, str) or not item:
            draft.fault(f"{place}: no item_id")
            continue
        if not isinstance(main, str) or not main:
            counts["without a main image"] += 1
            continue
        texts = [
            (name, *translation) for name in names for translation in _translations(draft, place, row, name, languages)
        ]
        if not texts:
            counts["without such a text"] += 1
            continue
        kinds, domain = _values(row.get("product_type")), _text(row.get("domain_name"))
        fact = {"item_id": item, "product_type": kinds[0][1] if kinds else None, "domain_name": domain, "listings": 0}
        image = images.setdefault(main, _Shown(fact))
        image.fact["listings"] += 1
        for name, tag, text in texts:
            image.texts.setdefault(text, {"item_id": item, "domain_name": domain, "field": name, "language": tag})
    return images


def listing_rows(folder: Path, callback: Callable[[str, str], None]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, listing) of every line of every shard; `callback(place, message)` gets the lines that are no listing."""
    for file in _listing_files(folder):

        def report(fault: RowFault, place: str, detail: str, name: str = file.name) -> None:
            callback(f"{name}, {place}", fault.message.format(detail))

        yield from ((f"{file.name}, {place}", row) for place, row in json_lines(file, report))


def in_language(entries: list[tuple[str | None, str]], languages: list[str]) -> list[tuple[str | None, str]]:
    """The (language tag, text) entries in the first wanted language there is: "en_US", "en" (any English), "any"."""
    for language in languages:
        tag = next(
            (tag for tag, _ in entries if language in ("any", tag) or (tag or "").startswith(f"{language}_")), ""
        )
        chosen = [(other, text) for other, text in entries if other == tag]
        if chosen:
            return chosen
    return []


def _translations(
    draft: Draft, place: str, row: Mapping[str, Any], name: str, languages: list[str]
) -> list[tuple[str | None, str]]:
    """(language tag, text) of a field in the first wanted language that it has: one for names, several for bullets."""
    value = row.get(name)
    entries = _values(value)
    if value is not None and not entries and value != []:
        draft.fault(f"{place}: {name} must be a list of {{language_tag, value}}, found {str(value)[:40]}")
    entries = [(tag, text) for tag, text in entries if text.strip()]
    chosen = in_language(entries, languages)
    return chosen if name == "bullet_point" else chosen[:1]


def _values(value: object) -> list[tuple[str | None, str]]:
    """(language tag, text) of the entries of one of ABO's lists."""
    entries = value if isinstance(value, list) else []
    return [
        (_text(entry.get("language_tag")), entry["value"])
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("value"), str)
    ]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


_FACTS = pa.schema(
    [(name, pa.string()) for name in ("image_id", "item_id", "product_type", "domain_name")]
    + [(name, pa.int32()) for name in ("listings", "original_height", "original_width")]
)
_CAPTION_FACTS = pa.schema(
    [(name, pa.string()) for name in ("caption_id", "item_id", "domain_name", "field", "language")]
)
_BUCKET = "https://amazon-berkeley-objects.s3.amazonaws.com"


@reader_of(
    name="abo",
    title="Amazon Berkeley Objects (ABO)",
    layout="listings/metadata/listings_*.json.gz: {item_id, item_name: [{language_tag, value}], product_type, "
    "main_image_id, …} per line; images/metadata/images.csv.gz: image_id,height,width,path; images/small/PATH",
    reference="Collins et al., ABO: Dataset and Benchmarks for Real-World 3D Object Understanding (CVPR 2022)",
    sniff=lambda path: is_abo(path),
    options=(
        Option(
            "text", "the field of the captions: item_name, product_description, bullet_point, or several", "item_name"
        ),
        Option("language", "languages in order of preference: en_US, en (any English), …, any", "en_US,en"),
        Option(
            "splits",
            "'seeded': 80/10/10 by item; 'mvr': those of benchmarks/abo-mvr.csv.xz; 'none'",
            "seeded",
            one_of("seeded", "mvr", "none"),
        ),
        Option("seed", "of the seeded split", 0, whole(0)),
    ),
)
def abo(path: Path, *, text: str, language: str, splits: str, seed: int) -> Draft:
    """Read the folder with `listings/metadata/listings_*.json.gz` and `images/metadata/images.csv.gz`."""
    # - Images are the listings' main pictures, by `main_image_id`; their files are looked for under `images/small/` and
    #   `images/original/`, or in `abo-images-small.tar` beside them. Many listings are one product in several shops
    #   with one picture: that picture is one image with the captions of all of them, each different text once. As
    #   several images, searches for one of them would count right answers as wrong. An item's other pictures are not
    #   read, so a relevance "product", as Fashion200k has, would be the links but for items that shops show
    #   differently.
    # - Facts: `item_id`, `product_type`, `domain_name` of the first listing, `listings` (how many show the picture),
    #   and `original_height`, `original_width` in pixels: those of images.csv are the original's, not the small
    #   picture's. Facts of a caption: `item_id`, `domain_name`, `field`, `language`.
    # The whole has 147,702 listings and 398,212 pictures; the source of a copy with other counts says so.
    # Thesis section 2.5.1 takes one picture per listing and "the associated product description", without saying which
    # field or language, and "the splits provided by the dataset authors"; the only one of catalogue pictures that they
    # publish is the multi-view benchmark's. Its recalls of X-VLM in table 2.2 fit 5,000 images, which its authors' log
    # prints too; those of CLIP do not: the two models searched different galleries.
    metadata, folder = abo_folders(path)
    names = text.split(",")
    for name in names:
        if name not in _TEXTS:
            raise CollectionError(f"abo: unknown text {name!r}", hint=nearest(name, _TEXTS), code="unknown-text")
    draft = Draft("ABO", folder.absolute(), f"Amazon Berkeley Objects {folder.absolute().name}/, {text} in {language}")
    counts: Counter[str] = Counter()
    images = _read_listings(draft, metadata, names, language.split(","), counts)
    files = abo_images(folder)
    split_of = _benchmark(folder) if splits == "mvr" else {}
    caption_facts: list[dict[str, Any]] = []
    unknown = 0
    for identifier, image in images.items():
        row = files.get(identifier)
        unknown += row is None
        split = {"seeded": _share(image.fact["item_id"], seed), "none": ""}.get(splits)
        if split is None:
            split = split_of.get(row["path"], "unlisted") if row else "unlisted"
        draft.add_image(identifier, f"small/{row['path']}" if row else None, split)
        image.fact |= {f"original_{side}": int(row[side]) if row else None for side in ("height", "width")}
        for number, (caption, fact) in enumerate(image.texts.items()):
            draft.add_caption(f"{identifier}#{number}", caption, identifier)
            caption_facts.append({"caption_id": f"{identifier}#{number}"} | fact)
    draft.facts = pa.Table.from_pylist(
        [{"image_id": identifier} | image.fact for identifier, image in images.items()], _FACTS
    )
    draft.caption_facts = pa.Table.from_pylist(caption_facts, _CAPTION_FACTS)
    if splits == "seeded":
        draft.notes.append(f"split by visir with seed {seed}")
    for lack in ("without a main image", "without such a text"):
        if counts[lack]:
            draft.notes.append(f"{counts[lack]:,} listings {lack} left out")
    if unknown:
        draft.notes.append(f"{unknown:,} main images are not in images.csv")
    published = {"listings": 147_702, "images in images.csv": 398_212}
    compare_counts(draft, published, {"listings": counts["listings"], "images in images.csv": len(files)})
    return draft


def abo_folders(path: Path) -> tuple[Path, Path]:
    """(folder of the listings, folder of everything)."""
    metadata = next((folder for folder in _places(path) if _listing_files(folder)), None)
    if metadata is None:
        packed = path / "abo-listings.tar"
        hint = (
            f"unpack it: tar -xf {packed}" if packed.is_file() else f"unpack {_BUCKET}/archives/abo-listings.tar here"
        )
        raise CollectionError(
            f"{path}: no listings/metadata/listings_*.json.gz.", hint=hint, code="no-listings-metadata-listings"
        )
    is_nested = metadata.absolute().parts[-2:] == ("listings", "metadata")
    return metadata, metadata.absolute().parents[1] if is_nested else path


def abo_images(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows of images.csv by image id."""
    file = folder / "images" / "metadata" / "images.csv"
    table = next(filter(Path.is_file, (file.with_name("images.csv.gz"), file)), None)
    if table is None:
        raise CollectionError(
            f"{folder}: no images/metadata/images.csv.gz, which says where the pictures are.",
            hint=f"unpack {_BUCKET}/archives/abo-images-small.tar here, or get {_BUCKET}/images/metadata/images.csv.gz",
            code="no-images-metadata-images",
        )
    rows: dict[str, dict[str, Any]] = {}
    for place, row in read_rows(table):
        if not {"image_id", "height", "width", "path"} <= row.keys():
            raise CollectionError(
                f"{table}: expected columns image_id, height, width, path; there are {', '.join(row)}.",
                code="expected-columns-image-id",
            )
        if not (row["height"].isdecimal() and row["width"].isdecimal()):
            raise CollectionError(
                f"{table}, {place}: height and width must be whole numbers.", code="height-width-whole-numbers"
            )
        rows[row["image_id"]] = row
    return rows


def _benchmark(folder: Path) -> dict[str, str]:
    """The split of each catalogue picture's path in the multi-view retrieval benchmark."""
    files = (folder / "benchmarks" / "abo-mvr.csv.xz", folder / "abo-mvr.csv.xz")
    file = next(filter(Path.is_file, files), None)
    if file is None:
        raise CollectionError(
            f"{folder}: no benchmarks/abo-mvr.csv.xz, for splits=mvr.",
            hint=f"get {_BUCKET}/benchmarks/abo-mvr.csv.xz",
            code="no-benchmarks-abo-mvr-csv",
        )
    split_of: dict[str, str] = {}
    for _, row in read_rows(file):
        if not {"path", "split_set"} <= row.keys():
            raise CollectionError(
                f"{file}: expected columns path and split_set; there are {', '.join(row)}.",
                code="expected-columns-path-split",
            )
        split_of[row["path"]] = row["split_set"].partition("-")[0]
    return split_of


def _share(item: str, seed: int) -> str:
    """The seeded split of an item: tenths of a hash's range, 0 to 7 train, 8 val, 9 test."""
    digest = hashlib.blake2b(item.encode(), key=f"visir abo {seed}".encode(), digest_size=8).digest()
    tenth = int.from_bytes(digest, "little") * 10 >> 64
    return "test" if tenth == 9 else "val" if tenth == 8 else "train"


def is_abo(path: Path) -> bool:
    """Whether a folder holds listings where ABO has them."""
    return any(map(_listing_files, _places(path)))


def _places(path: Path) -> tuple[Path, ...]:
    """Where the listings may lie."""
    return path / "listings" / "metadata", path / "metadata", path


# The same listings as products of a catalogue, with their attributes and places in a tree of categories.

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


def read_abo_products(
    path: Path,
    *,
    language: str = "en_US,en",
    shops: str = "any",
    attributes: str = ",".join(FIELDS),
    drop_levels: str = "Categories",
) -> CatalogueDraft:
    """Read the folder with `listings/metadata/listings_*.json.gz` and `images/metadata/images.csv.gz`."""
    # - A product is an `item_id`. The same product in several shops is several listings. Of those with a category the
    #   one whose name is in the most preferred language counts, the first of equals; the others are counted.
    # - The path is the first `node`, whose name ("/Categories/Furniture/Chairs") is cut at "/". A name that holds a "/"
    #   itself cannot be told from two levels.
    # - The pictures are the main one and the others, by `images.csv`, in `images/small/` or `images/original/`.
    # language: Languages in order of preference: "en_US,en" is American English, else any English; "any" takes what
    # comes first. Names and attributes are in the first of them that there is; listings without a name in any are left
    # out. Attributes without a language (numbers, codes) are in every language.
    metadata, folder = abo_folders(path)
    fields, languages, dropped = attributes.split(","), language.split(","), frozenset(drop_levels.split(","))
    for name in fields:
        if name not in (*FIELDS, *OTHERS):
            raise CollectionError(
                f"abo: unknown attribute {name!r}", hint=nearest(name, (*FIELDS, *OTHERS)), code="unknown-attribute"
            )
    domains = None if shops == "any" else frozenset(shops.split(","))
    root = folder.absolute()
    about = f"Amazon Berkeley Objects {root.name}/ in {language}"
    draft = CatalogueDraft("ABO", root, about, about=about)
    bad, report = BadRows("ABO", draft.fault, "skip", draft.left_out), draft.report
    files = abo_images(folder)
    best: dict[str, tuple[tuple[bool, int], str, dict[str, Any]]] = {}  # the smallest rank counts

    def no_listing(place: str, fault: str) -> None:
        report.count("lines that are no listing", f"{place}: {fault}")

    for place, row in listing_rows(metadata, no_listing):
        item = row.get("item_id")
        label = f"{place}: {item!r}"
        if not isinstance(item, str) or not item.strip():
            report.count("rows without a product id", place)
            continue
        if domains is not None and row.get("domain_name") not in domains:
            report.count("listings of other shops", f"{label}: {row.get('domain_name')}")
            continue
        names = in_language(_entries(row.get("item_name")), languages)
        if not names:
            report.count(f"listings without a name in {language}", label)
            continue
        paths = _levels(row.get("node"), dropped)
        first = next(rank for rank, preferred in enumerate(languages) if in_language(names, [preferred]))
        described = [pair for name in fields
                     for pair in _attribute_pairs(report, label, name, row.get(name), languages)]  # fmt: skip
        if item in best:
            report.count("further listings of a product, of other shops or languages", label)
            if best[item][0] <= (not paths, first):
                continue
        others = row.get("other_image_id")
        pictures = [row.get("main_image_id"), *(others if isinstance(others, list) else [])]
        best[item] = ((not paths, first), place, {
            "id": item, "title": names[0][1], "paths": paths, "attributes": described,
            "images": [name for name in pictures if isinstance(name, str) and name],
            "main": row.get("main_image_id"),
            "brand": next((text for _, text in in_language(_entries(row.get("brand")), languages)), None),
        })  # fmt: skip
    for _, place, row in best.values():
        main = row["main"]
        if isinstance(main, str) and main and main not in files:
            report.count("main images that are not in images.csv (the product is kept)", f"{place}: {main!r}")
        # A product without a main picture has none: others may show its package.
        named = row["images"] if main in files else []
        row["images"] = [f"small/{files[name]['path']}" for name in named if name in files]
    fill(draft, [(place, row) for _, place, row in best.values()], NEUTRAL, paths_of, bad, joins=False)
    draft.complete()
    return draft


def _levels(nodes: object, drop: frozenset[str]) -> object:
    """The path of each node, a list of names; what is no list of nodes as it is, which nobody can read."""
    if not isinstance(nodes, list) or not nodes or not isinstance(nodes[0], Mapping):
        return nodes
    paths: list[object] = []
    for node in nodes:
        # The README calls it `path`, the files `node_name`.
        name = (node.get("node_name") or node.get("path")) if isinstance(node, Mapping) else None
        if isinstance(name, str):
            name = [level for level in map(str.strip, name.split("/")) if level and level not in drop]
        paths.append(name)
    further = [path for path in paths[1:] if isinstance(path, list) and path]
    return [paths[0], *further] if isinstance(paths[0], list) and paths[0] else paths[0]


def _attribute_pairs(
    report: Counts, place: str, field: str, value: object, languages: list[str]
) -> list[tuple[object, object]]:
    """The (name, text) pairs of one field: none, one, or several (bullets, dimensions)."""
    if isinstance(value, Mapping):  # item_dimensions: {"height": {"value": …, "unit": …}, …}
        return [(f"{field} {side}", text) for side, entry in value.items() for _, text in _entries([entry])]
    entries = _entries(value)
    if value not in (None, "", []) and not entries:
        report.count("attributes that are not text", f"{place}: {field!r}")
    chosen = in_language(entries, languages) or [entry for entry in entries if entry[0] is None]
    if entries and not chosen:
        report.count("attributes in other languages only", f"{place}: {field!r}")
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


ABO_PRODUCTS = Format(
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
    read=read_abo_products,
)


PRODUCTS = tuple(
    replace(format, name="abo-products" if format is ABO_PRODUCTS else format.name, sniff=lambda path: False)
    for format in (FLIPKART, FASHION, AMAZON, ABO_PRODUCTS)
)
"""The published catalogues as collections of products, where somebody names them: `abo` is that of captions."""


# Fashion200k: pictures of women's clothes from a shop's catalogue, with a line of description each.


def judge_groups(draft: Draft, groups: Sequence[str], relevance: str) -> pa.Table:
    """A set of judgements in which every image of a group is a positive (grade 1) of each caption of that group."""
    # Rows hold for both tasks, so a caption finds all images of its group and an image all captions of its own. They
    # are in the order of the captions, those of one caption in the order of the images. A caption of a group of n
    # images has n rows, its own image among them: the set contains the links.
    # groups: (n,) the group of each image of the draft, in its order.
    codes = pa.array(groups, pa.string()).dictionary_encode().indices.to_numpy()
    images = np.argsort(codes, kind="stable")  # group after group, each in the order of the source
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    ids = pa.array(draft.ids, pa.string())
    group_of_caption = codes[
        pc.index_in(pa.array(draft.caption_images, pa.string()), ids).to_numpy()
    ]  # each caption's group
    rows = sizes[group_of_caption]
    caption = np.repeat(np.arange(len(rows)), rows)
    first = np.cumsum(rows) - rows
    image = images[np.arange(len(caption)) + np.repeat(starts[group_of_caption] - first, rows)]
    columns = [
        pa.repeat(relevance, len(caption)),
        pa.repeat("both", len(caption)),
        pa.array(draft.caption_ids, pa.string()).take(pa.array(caption)),
        ids.take(pa.array(image)),
        pa.repeat(pa.scalar(1.0, pa.float32()), len(caption)),
    ]
    return pa.table(columns, schema=JUDGEMENTS)


_LISTED = {"train images": 172_049, "test images": 29_789}
"""What the ten label files list, by what training code printed on reading them (of TIRG, Vo et al., CVPR 2019)."""
_LABELS = re.compile(r"^(?:women_)?(?P<category>[a-z]+)_(?P<split>train|test)_detect_all\.txt(?:\.gz|\.xz)?$")
_BOXES = re.compile(r"^(?:women_)?(?P<category>[a-z]+)_detection\.txt(?:\.gz|\.xz)?$")
_BOX = re.compile(r"^(?P<label>.+?)_(?P<numbers>-?\d*\.?\d+(?:_-?\d*\.?\d+){4})$")
_EDGES = ("x_min", "x_max", "y_min", "y_max")
_CLOSE = 0.006
"""How far a detection's score, written with two decimals, may lie from that of the label file."""
_ORIGIN = "the Google Drive folder linked from https://github.com/xthan/fashion-200k"


_Box = tuple[str, float, tuple[float, ...]]
"""One detection: the label of what was seen, its score, and its edges as fractions of the uncropped picture."""


def _names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []


@reader_of(
    name="fashion200k",
    title="Fashion200k",
    layout="labels/{dress,jacket,pants,skirt,top}_{train,test}_detect_all.txt: path<TAB>score<TAB>description; "
    "women/CATEGORY/SUBCATEGORY/PRODUCT/NAME.jpeg; detection/*_detection.txt if wanted",
    reference="Han et al., Automatic Spatially-aware Fashion Concept Discovery (ICCV 2017); "
    "github.com/xthan/fashion-200k",
    sniff=lambda path: any(map(_LABELS.match, _names_in(path if path.name == "labels" else path / "labels"))),
    options=(
        Option("boxes", "'yes': the detector's boxes of detection/ as facts", "no", one_of("yes", "no")),
        Option("relevance", "'yes': the judgements 'product': all images of a product", "no", one_of("yes", "no")),
    ),
)
def fashion200k(path: Path, *, boxes: str, relevance: str) -> Draft:
    """Read the folder with `labels/` (and `women/`), or `labels/` itself."""
    # - `{dress,jacket,pants,skirt,top}_{train,test}_detect_all.txt`: path, detection score and description, separated
    #   by tabs. The image id is the path (`women/dresses/casual_and_day_dresses/57996836/57996836_9.jpeg`), as others'
    #   lists of this collection have it; the caption's id is "path#0".
    # - Splits: train and test, by the label files; there is no val.
    # - Facts: `product_id` (the folder: several pictures show one product, and all bear its description: to the links
    #   the others are wrong, to the relevance "product" right), `category` (the label file's), `folder`
    #   (`dresses/casual_and_day_dresses`), `score`.
    # - A picture that is listed more than once counts once, with each different description; if a test file is among
    #   them it is a test picture. The source says how many there are.
    # The label files list 172,049 train and 29,789 test images, 201,838 in all; the source of a copy with other counts
    # says so. Thesis section 2.5.1 says 209,544. Its recalls of X-VLM in table 2.2 fit 5,000 images, which its authors'
    # log prints too; those of CLIP do not: the two models searched different galleries.
    folder = path if (path / "labels").is_dir() or path.name != "labels" else path.parent
    draft = Draft("Fashion200k", folder.absolute(), f"Fashion200k {folder.absolute().name}/labels/")
    detected = _detections(draft, folder / "detection") if boxes == "yes" else None
    facts: dict[str, dict[str, object]] = {}
    texts: dict[str, list[str]] = {}
    repeated_lines = 0
    for split, category, place, line in _label_lines(folder):
        columns = line.split("\t", 2)
        name = columns[0]
        if len(columns) != 3 or len(PurePosixPath(name).parts) < 3:
            draft.fault(f"{place}: expected women/…/PRODUCT/NAME.jpeg, score and text, found {line[:60]!r}")
            continue
        try:
            score = float(columns[1])
        except ValueError:
            draft.fault(f"{place}: expected a detection score, found {columns[1][:20]!r}")
            continue
        repeated_lines += name in facts
        if name not in facts:
            parts = PurePosixPath(name).parts
            draft.add_image(name, name, split)
            facts[name] = {"product_id": parts[-2], "category": category, "folder": "/".join(parts[1:-2])}
            facts[name] |= {"score": score} | (_fact(detected.get(name, []), score) if detected is not None else {})
        if columns[2] not in texts.setdefault(name, []):
            draft.add_caption(f"{name}#{len(texts[name])}", columns[2], name)
            texts[name].append(columns[2])
    draft.facts = pa.Table.from_pylist([{"image_id": image} | fact for image, fact in facts.items()])
    if relevance == "yes" and facts:
        draft.judgements = judge_groups(draft, [str(fact["product_id"]) for fact in facts.values()], "product")
    if repeated_lines:
        draft.notes.append(f"{repeated_lines:,} lines list a picture again")
    sizes = {f"{split} images": draft.splits.count(split) for split in ("train", "test")}
    compare_counts(draft, _LISTED, sizes)
    return draft


def _label_lines(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """(split, category, place, line) of every line that is not empty, those of the test split first."""
    labels = folder / "labels"
    files = sorted(labels.iterdir()) if labels.is_dir() else []
    matched = [(match, file) for file in files if (match := _LABELS.match(file.name))]
    if not matched:
        raise CollectionError(
            f"{folder}: no labels/*_train_detect_all.txt or labels/*_test_detect_all.txt.",
            hint=f"unpack labels and women.tar.gz into one folder; they are in {_ORIGIN}",
            code="no-labels-train-detect",
        )
    for match, file in sorted(matched, key=lambda entry: entry[0]["split"] != "test"):
        for number, line in enumerate(read_lines(file), start=1):
            if line.strip():
                yield match["split"], match["category"], f"{file.name}, line {number}", line


def _detections(draft: Draft, folder: Path) -> dict[str, list[_Box]]:
    """The detector's boxes by picture."""
    files = [file for file in sorted(folder.iterdir()) if _BOXES.match(file.name)] if folder.is_dir() else []
    if not files:
        raise CollectionError(
            f"{folder}: no *_detection.txt in it, for boxes=yes.",
            hint=f"it is in {_ORIGIN}; boxes=no goes without",
            code="no-detection-txt-boxes",
        )
    boxes: dict[str, list[_Box]] = {}
    for file in files:
        for number, line in enumerate(read_lines(file), start=1):
            name, *cells = line.split("\t")
            for cell in filter(str.strip, cells):
                match = _BOX.match(cell.strip())
                if match is None:
                    draft.fault(
                        f"{file.name}, line {number}: expected category_score_xMin_xMax_yMin_yMax, found {cell[:60]!r}"
                    )
                    continue
                score, *edges = (float(number_text) for number_text in match["numbers"].split("_"))
                boxes.setdefault(name, []).append((match["label"], score, tuple(edges)))
    return boxes


def _fact(boxes: list[_Box], score: float) -> dict[str, object]:
    """The box with the labelled score, nulls if there is none."""
    label, own, edges = min(boxes, key=lambda box: abs(box[1] - score), default=("", math.inf, ()))
    if abs(own - score) > _CLOSE:
        return {"box": None} | dict.fromkeys(_EDGES)
    return {"box": label} | dict(zip(_EDGES, edges, strict=True))
