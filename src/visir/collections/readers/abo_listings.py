"""ABO's listings: which main pictures they show, and what they say of them in the languages wanted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from visir.collections.draft import Draft
from visir.collections.readers.rows import RowFault, json_lines

TEXTS = ("item_name", "product_description", "bullet_point")
"""The fields that captions can come from."""
_LISTINGS = re.compile(r"^listings_[0-9a-f]+\.json(?:\.gz|\.xz)?$")


@dataclass
class ListingCounts:
    """What was left aside, to be told."""

    listings: int = 0
    no_image: int = 0
    no_text: int = 0


@dataclass
class Shown:
    """A main picture: the first listing that shows it, and the captions of all that do."""

    fact: dict[str, Any]
    texts: dict[str, dict[str, Any]] = field(default_factory=dict)  # by text: where it is from


def listing_files(folder: Path) -> list[Path]:
    """The shards of listings in a folder."""
    return sorted(file for file in folder.iterdir() if _LISTINGS.match(file.name)) if folder.is_dir() else []


def read_listings(
    draft: Draft, folder: Path, fields: list[str], languages: list[str], counts: ListingCounts
) -> dict[str, Shown]:
    """The main pictures by image id, in the order in which listings first show them."""
    images: dict[str, Shown] = {}
    for place, row in read_rows(folder, lambda place, message: draft.fault(f"{place}: {message}")):
        counts.listings += 1
        item, main = row.get("item_id"), row.get("main_image_id")
        if not isinstance(item, str) or not item:
            draft.fault(f"{place}: no item_id")
            continue
        if not isinstance(main, str) or not main:
            counts.no_image += 1
            continue
        texts = [
            (name, *translation) for name in fields for translation in _translations(draft, place, row, name, languages)
        ]
        if not texts:
            counts.no_text += 1
            continue
        kinds, domain = _values(row.get("product_type")), _text(row.get("domain_name"))
        fact = {"item_id": item, "product_type": kinds[0][1] if kinds else None, "domain_name": domain, "listings": 0}
        image = images.setdefault(main, Shown(fact))
        image.fact["listings"] += 1
        for name, tag, text in texts:
            image.texts.setdefault(text, {"item_id": item, "domain_name": domain, "field": name, "language": tag})
    return images


def read_rows(folder: Path, callback: Callable[[str, str], None]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, listing) of every line of every shard; `callback(place, message)` gets the lines that are no listing."""
    for file in listing_files(folder):

        def report(fault: RowFault, place: str, detail: str, file: Path = file) -> None:
            callback(f"{file.name}, {place}", fault.message.format(detail))

        for place, row in json_lines(file, report):
            yield f"{file.name}, {place}", row


def in_language(entries: list[tuple[str | None, str]], languages: list[str]) -> list[tuple[str | None, str]]:
    """The (language tag, text) entries in the first wanted language there is: "en_US", "en" (any English), "any"."""
    for language in languages:
        tag = next((tag for tag, _ in entries if language == "any" or tag == language or _speaks(tag, language)), "")
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


def _speaks(tag: str | None, language: str) -> bool:
    return tag is not None and tag.startswith(f"{language}_")


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
