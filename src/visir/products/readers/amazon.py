"""Amazon's product metadata as JSON lines: XMarket, and the review data sets of McAuley's group that it resembles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from visir.collections.descriptor import Option, one_of
from visir.collections.readers.sniffing import has_key, head, plain_name, plain_stem
from visir.products.descriptor import CatalogueFormat
from visir.products.draft import ProductDraft
from visir.products.readers.rows import read_rows
from visir.products.readers.table import first_of, path_of

IDS = ("asin", "parent_asin")
PATHS = ("categories", "category")
DETAILS = ("productDetails", "details", "tech1", "tech2")
PICTURES = ("imgUrl", "imgUrls", "imUrl", "imageURLHighRes", "imageURL", "images")


def read(path: Path, *, pictures: str = "id") -> ProductDraft:
    """Read a file of metadata (`metadata_us.json.gz`, `meta_Electronics.jsonl`): one object per line.

    - id: `asin`, else `parent_asin`; title: `title`
    - path: `categories`, else `category`: a list of names from the most general on; of a list of paths the first
    - attributes: the entries of `productDetails`, `details`, `tech1` and `tech2`, `brand`, and every bullet of
      `features` (or `feature`) as an attribute called "feature"
    - pictures: the metadata has addresses only. Of what was downloaded, B000123.jpg is looked for, or with
      `pictures="url"` the file name that ends the first address.
    """
    draft = ProductDraft(plain_stem(path), path.parent, f"Amazon metadata {path.name}")
    for place, row in read_rows(draft, path):
        identifier = _first(row, IDS)
        label = f"{place}: {identifier!r}"
        draft.add(
            place,
            identifier,
            _path(draft, label, _first(row, PATHS)),
            title=row.get("title"),
            attributes=_attributes(draft, label, row),
            picture=_address(_first(row, PICTURES)) if pictures == "url" else f"{identifier}.jpg",
        )
    return draft


def _path(draft: ProductDraft, place: str, value: object) -> object:
    """A list of names or of paths; text as it is, which the draft sets aside: no separator is declared for it."""
    return path_of(draft, place, value, ">") if isinstance(value, list) else value


def _attributes(draft: ProductDraft, place: str, row: Mapping[str, Any]) -> list[tuple[object, object]]:
    found: list[tuple[object, object]] = []
    for name in DETAILS:
        value = row.get(name)
        if isinstance(value, Mapping):
            found += value.items()
        elif value:
            draft.aside(f"fields {name!r} that are no object (the product is kept)", place)
    if row.get("brand"):
        found.append(("brand", row["brand"]))
    features = row.get("features") or row.get("feature")
    return [*found, ("feature", features)] if features else found


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name)), None)


def _address(value: object) -> object:
    """The first address: of text, of a list, or of the objects by size that the set of 2023 has."""
    one = first_of(value)
    return _first(one, ("large", "hi_res", "thumb")) if isinstance(one, Mapping) else one


def _sniff(path: Path) -> bool:
    if not plain_name(path).lower().endswith((".json", ".jsonl")):
        return False
    line = head(path).lstrip().partition(b"\n")[0]
    return line.startswith(b"{") and any(has_key(line, one) for one in IDS) and any(has_key(line, one) for one in PATHS)


FORMAT = CatalogueFormat(
    name="amazon",
    title="Amazon metadata (XMarket and alike)",
    layout="metadata_us.json.gz or meta_Category.jsonl.gz: one JSON object per line; downloaded pictures beside it",
    reference="https://xmrec.github.io (Bonab et al., CIKM 2021)",
    sniff=_sniff,
    options=(
        Option("pictures", "how downloaded pictures are called: id (B000123.jpg) or url", "id", one_of("id", "url")),
    ),
    read=read,
)
