"""Published values as small data files, and the agreement with them.

A table of retrieval results is one JSON or TOML file (`record.py` gives the form). A table of anything else
(statistics, speed, words) is rows and columns of printed text. Packages bring them (`visir-papers` those of three
documents), in folders that they name as entry points of "visir.published". `judge.py` lists and opens both, decides for
each value whether it is reproduced, and for each measure whether the order of systems is the same. `denominators.py`
reads from the digits alone how many queries there were. Nothing is corrected: values stay as printed, and values that
cannot be right are marked as doubtful, with the reason.
"""

from visir.evaluation.published.denominators import Denominator, Denominators, denominators
from visir.evaluation.published.judge import (
    Judgement,
    Order,
    as_plain,
    every_table,
    judge,
    open_table,
    orders,
    printed_value,
)
from visir.evaluation.published.record import CellDoubt, Doubt, PlainTable, Published, PublishedRow, load, shipped

__all__ = [
    "CellDoubt",
    "Denominator",
    "Denominators",
    "Doubt",
    "Judgement",
    "Order",
    "PlainTable",
    "Published",
    "PublishedRow",
    "as_plain",
    "denominators",
    "every_table",
    "judge",
    "load",
    "open_table",
    "orders",
    "printed_value",
    "shipped",
]
