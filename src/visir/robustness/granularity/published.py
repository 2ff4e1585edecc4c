"""Table 1 of the brittleness paper, as printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from visir.files import read_json

FILE = Path(__file__).parent / "brittleness-table-1.json"


@dataclass(frozen=True)
class PublishedGranularity:
    """The printed means: `values[collection][feature]`, rounded to `decimals`, with title and source."""

    # It has a form of its own because the tables of `visir.evaluation.published` are of systems and directions of
    # search.

    title: str
    source: str
    decimals: int
    values: Mapping[str, Mapping[str, float]]


def table_1() -> PublishedGranularity:
    """Table 1: MS-COCO and Flickr30k, original and refined ("-FG"), test splits, five captions per image."""
    # In text taken from the PDF the row of concept depth has slipped one column to the left. The paper does not say
    # which split the means are over; its numbers of characters and words are those of the test splits to the last
    # digit.
    content = read_json(FILE)
    return PublishedGranularity(content["title"], content["source"], content["decimals"], content["rows"])
