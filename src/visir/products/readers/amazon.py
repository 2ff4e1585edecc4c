"""Amazon's product metadata as JSON lines: XMarket, and the review data sets of McAuley's group that it resembles."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from visir.collections.readers.names import head, plain_name, plain_stem
from visir.collections.readers.shop_cells import picture_names
from visir.collections.sources import Format, Option, one_of
from visir.collections.tables import read_rows
from visir.products.readers.table import ProductDraft, pairs

IDS = ("asin", "parent_asin")
PATHS = ("categories", "category")
DETAILS = ("productDetails", "overviewFeatures", "details", "tech1", "tech2")
SINGLE = ("brand", "store")
FEATURES = ("features", "feature")
PICTURES = ("imgUrl", "imUrl", "imageURLHighRes", "imageURL", "image", "images")
OF_THE_PAGE = frozenset(
    ("asin", "customer reviews", "average customer review", "best sellers rank", "amazon best sellers rank")
)
"""Entries of the details that are no property of the product, in lower case without a colon. A rank names the category
("#13 in Radio Antennas"), so a model that read it would be told the answer."""


def read(path: Path, *, pictures: str, page_facts: str) -> ProductDraft:
    """Read a file of metadata (`metadata_us_Electronics.json.gz`, `meta_Electronics.jsonl`): one object per line."""
    # - id: `asin`; in 2023 `parent_asin`. Path: `categories`, in 2018 `category`: names from the most general on; in
    #   2014 a list of such lists. Many products of 2023 have none.
    # - attributes: the entries of `productDetails` and `overviewFeatures` (XMarket) or `details` (2018, 2023), `brand`,
    #   `store`, and every bullet of `features` (2018: `feature`) as an attribute called "feature"
    # - A line is JSON, or a list of such objects; in 2014 a dictionary of Python.
    # - Of several paths the first is taken, the others are counted; what follows markup in a path is cut.
    # - 2018's `tech1` and `tech2` are HTML; such text is counted and left out.
    draft = ProductDraft(plain_stem(path), path.parent, f"Amazon metadata {path.name}")
    for place, row in read_rows(path, draft.reject_row, _parse):
        identifier = _first(row, IDS)
        label = f"{place}: {identifier!r}"
        draft.add(
            place,
            identifier,
            _path(draft, label, _first(row, PATHS)),
            title=row.get("title"),
            attributes=_attributes(draft, label, row, drop=page_facts == "drop"),
            picture=_picture(_first(row, PICTURES)) if pictures == "url" else f"{identifier}.jpg",
        )
    return draft


def _parse(line: bytes) -> Any:
    """A line of JSON, or of Python as the files of 2014 have it: a dictionary as `print` shows it, without code."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if not _PYTHON.match(line):
            raise
    try:
        value = ast.literal_eval(line.decode().strip())
        orjson.dumps(value)  # what JSON could not hold (bytes, half of a surrogate pair) is no metadata
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as fault:
        raise ValueError(f"neither JSON nor a Python dictionary: {fault}") from None
    return value


def _path(draft: ProductDraft, place: str, value: object) -> object:
    """A list of names or of paths; text as it is, which the draft sets aside: no separator is declared for it."""
    # In files of 2018 some lists go on after the path: "</span></span></span>", then phrases of the page. Those are
    # cut.
    path = value
    if isinstance(path, list) and path and all(isinstance(entry, list) for entry in path):
        if len(path) > 1:
            draft.reject("further category paths of a product that has several", place, len(path) - 1)
        path = path[0]
    markup = [isinstance(name, str) and "</" in name for name in path] if isinstance(path, list) else []
    if not isinstance(path, list) or not any(markup):
        return path
    end = markup.index(True)
    draft.reject("levels of paths that are markup, or follow it (the product is kept)", place, len(path) - end)
    return path[:end]


def _attributes(draft: ProductDraft, place: str, row: Mapping[str, Any], *, drop: bool) -> list[tuple[object, object]]:
    attributes: list[tuple[object, object]] = []
    for field in DETAILS:
        value = row.get(field)
        if isinstance(value, Mapping) or (isinstance(value, str) and value.lstrip().startswith("{")):
            for name, text in pairs(draft, place, value):
                if drop and str(name).strip().rstrip(" :").casefold() in OF_THE_PAGE:
                    draft.reject("attributes of the page, not of the product", f"{place}: {name!r}")
                else:
                    attributes.append((name, text))
        elif value:
            draft.reject(f"fields {field!r} that are no object (the product is kept)", place)
    attributes += [(field, row[field]) for field in SINGLE if row.get(field)]
    features = _first(row, FEATURES)
    return [*attributes, ("feature", features)] if features else attributes


def _picture(value: object) -> object:
    """The file name of the first picture in a cell; what holds none as it is, for the draft to reject."""
    return next(iter(picture_names(value)), value if isinstance(value, dict) else None)


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name)), None)


_PYTHON = re.compile(rb"\s*(?:\[\s*)?\{\s*(?:'|\"[^\"]*\"\s*:)")
_KEYS = {name: re.compile(rb"""["']""" + name.encode() + rb"""["']\s*:""") for name in (*IDS, *PATHS)}


def _sniff(path: Path) -> bool:
    if not plain_name(path).lower().endswith((".json", ".jsonl")):
        return False
    line = head(path).lstrip().partition(b"\n")[0]
    return line.startswith((b"{", b"[")) and all(any(_KEYS[key].search(line) for key in keys) for keys in (IDS, PATHS))


FORMAT = Format(
    name="amazon",
    title="Amazon metadata (XMarket and alike)",
    layout="metadata_us_Electronics.json.gz or meta_Electronics.jsonl.gz: one object per line; downloaded pictures "
    "beside it",
    reference="https://xmrec.github.io (Bonab et al., CIKM 2021)",
    sniff=_sniff,
    options=(
        Option("pictures", "how downloaded pictures are called: id (B000123.jpg) or url", "id", one_of("id", "url")),
        Option("page_facts", "ranks, ratings and ids among the details: drop or keep", "drop", one_of("drop", "keep")),
    ),
    read=read,
    one_file=True,
)
