"""Table 1 of the brittleness paper, as printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from visir.files import read_json

FILE = Path(__file__).parent / "brittleness-table-1.json"


@dataclass(frozen=True)
class PublishedGranularity:
    """The printed means: `values[collection][feature]`, rounded to `decimals`, with title and source.

    It has a form of its own because the tables of `visir.evaluation.published` are of systems and directions of search.
    """

    title: str
    source: str
    decimals: int
    values: Mapping[str, Mapping[str, float]]


def table_1() -> PublishedGranularity:
    """Table 1: MS-COCO and Flickr30k, original and refined ("-FG"), test splits, five captions per image.

    Where "Concept depth" stands its columns have slipped one to the left in the paper's layout; the values are in the
    order of the others. The paper does not say over which split the means are; the numbers of characters and words
    agree with the test splits to the last digit.
    """
    content = read_json(FILE)
    return PublishedGranularity(content["title"], content["source"], content["decimals"], content["rows"])
