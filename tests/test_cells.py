"""A cell has one meaning, whatever form the table has that it is in, and whoever reads it: captions, products, logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import visir
from visir.collections import open_collection
from visir.collections.cells import amount_of, id_of, moment_of
from visir.errors import CollectionError
from visir.products import open_catalogue
from visir.sessions import LogMapping, make
from visir.sessions.prediction.stream_events import read_stream

# Five ways in. What is no text is written as pandas writes it into CSV.

Columns = dict[str, list[Any]]


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _delimited(columns: Columns, folder: Path, name: str, between: str) -> Path:
    frame = pd.DataFrame({key: list(map(_text, cells)) for key, cells in columns.items()})
    frame.to_csv(folder / name, index=False, sep=between)
    return folder / name


def _parquet(columns: Columns, folder: Path) -> Path:
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


def _lines(columns: Columns, folder: Path) -> Path:
    rows = (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(row, default=str)}\n" for row in rows))
    return folder / "t.jsonl"


WAYS: dict[str, Callable[[Columns, Path], Any]] = {
    "csv": lambda columns, folder: _delimited(columns, folder, "t.csv", ","),
    "tsv": lambda columns, folder: _delimited(columns, folder, "t.tsv", "\t"),
    "parquet": _parquet,
    "frame": lambda columns, folder: pd.DataFrame(columns),
    "jsonl": _lines,
}
ways = pytest.mark.parametrize("way", WAYS)


# The table: the cell, what it means, and where such a cell stands. None: it means nothing.

CAPTIONS: list[tuple[Any, list[str]]] = [
    ("a dog, tired", ["a dog, tired"]),
    ('"Stop" says the sign', ['"Stop" says the sign']),
    ('he said "no', ['he said "no']),
    ("two\nlines", ["two\nlines"]),
    (["a dog", "a pet"], ["a dog", "a pet"]),
    ('["a dog", "a pet"]', ["a dog", "a pet"]),
    ("['a dog' 'a pet']", ["a dog", "a pet"]),
    (["it's", 'a "pet"'], ["it's", 'a "pet"']),
    (["a dog", None], ["a dog"]),
    ("[1]", ["[1]"]),
    ("[a dog]", ["[a dog]"]),
    ("", []),
    (None, []),
    ("NA", []),
    ("null", []),
    ("-", []),
    ("NaN", []),
    ("None of them", ["None of them"]),
]
IDS: list[tuple[Any, str | None]] = [
    ("007", "007"),
    ("1e5", "1e5"),
    ("12.0", "12.0"),
    ("123456789012345678901", "123456789012345678901"),
    ("Ä/1", "Ä/1"),
    ("+1", "+1"),
    ("true", "true"),
    ("null", None),
    ("undefined", None),
    ("N/A", None),
    ("", None),
]
WHOLE: list[tuple[Any, str | None]] = [(12, "12"), (9007199254740993, "9007199254740993")]
FRACTIONS: list[tuple[Any, str | None]] = [(12.0, "12"), (None, None)]
"""Whole numbers in a column with a missing value: pandas makes fractions of them. In CSV they stay as they are."""
PRICES: list[tuple[Any, float | None]] = [
    ("49.90", 49.9),
    ("1.234,56", 1234.56),
    ("1,234.56", 1234.56),
    ("$1,234.56", 1234.56),
    ("1 234,56 €", 1234.56),
    ("1\u202f234,56\u00a0€", 1234.56),
    ("CHF 12.–", 12.0),
    ("CHF 1'299.00", 1299.0),
    ("12,50", 12.5),
    ("R$ 12,50", 12.5),
    ("-€3,50", -3.5),
    ("12.00 USD", 12.0),
    ("1e3", 1000.0),
    (".5", 0.5),
    ("1,299", 1299.0),
    ("on request", None),
    ("n/a", None),
    ("–", None),
    ("", None),
]
NUMBERS: list[tuple[Any, float | None]] = [(12, 12.0), (12.5, 12.5), (None, None)]
TIMES: list[tuple[Any, str | None]] = [
    ("2024-03-11T11:06:40Z", "11:06:40"),
    ("2024-03-11 11:06:40 -0400", "15:06:40"),
    ("2024-03-11 11:06:40-04:00", "15:06:40"),
    ("2024-03-11T11:06:40+01", "10:06:40"),
    ("2024-03-11 11:06:40 +1", "10:06:40"),
    ("2024-03-11 11:06:40 UTC", "11:06:40"),
    ("2024-03-11 11:06:40 Z", "11:06:40"),
    ("2024-03-11 11:06:40 GMT+02:00", "09:06:40"),
    ("2024-03-11 11:06:40,500", "11:06:40.500000"),
    ("2024-03-11 11:06", "11:06:00"),
    ("20240311T110640Z", "11:06:40"),
    ("2024-03-11 01:06:40 PM", "13:06:40"),
    ("11/Mar/2024:11:06:40 -0400", "15:06:40"),
    ("Mon, 11 Mar 2024 11:06:40 GMT", "11:06:40"),
    (" 2024-03-11 ", "00:00:00"),
    ("2024-03-11", "00:00:00"),
    ("03/04/2024 11:06", None),
    ("yesterday", None),
    ("", None),
]
EPOCHS: dict[str, list[Any]] = {
    "s": [1710155200, "1710155200", 1710155200.0, "1710155200.0", "1.7101552E9"],
    "ms": [1710155200000, "1710155200000", 1710155200000.0],
    "us": [1710155200000000, "1710155200000000"],
}
CATEGORIES: list[tuple[Any, list[str]]] = [
    ("Clothing > Shirts", ["Clothing/Shirts"]),
    ("Clothing|Shirts", ["Clothing/Shirts"]),
    ("Clothing > Shirts, Sale > Winter", ["Clothing/Shirts", "Sale/Winter"]),
    ("Perfume\\, Cologne > Unisex", ["Perfume, Cologne/Unisex"]),
    (["Clothing", "Shirts"], ["Clothing/Shirts"]),
    ('["Clothing >> Shirts"]', ["Clothing/Shirts"]),
    ("N/A", []),
]
FLAGS = [(True, "true"), ("TRUE", "true"), ("False", "false")]


# Captions.


def column_by_way(way: str, cells: list[Any]) -> list[Any]:
    """Parquet holds one type in a column: lists stand alone there."""
    return cells if way != "parquet" or len({*map(type, cells)} - {type(None)}) < 2 else [_text(cell) for cell in cells]


@ways
def test_captions(way: str, tmp_path: Path) -> None:
    for number, (cell, meaning) in enumerate(CAPTIONS):
        if way in ("csv", "tsv") and isinstance(cell, list) and None in cell:
            continue
        columns = {"image": ["a.jpg", "b.jpg"], "caption": [["a cat"] if isinstance(cell, list) else "a cat", cell]}
        (folder := tmp_path / str(number)).mkdir()
        found = open_collection(WAYS[way](columns, folder), images="none")
        assert list(found)[1] == ("b.jpg", meaning), cell
        nothing = not meaning or (isinstance(cell, list) and None in cell)
        assert ("captions that say nothing are left out: 1" in found.source) == nothing, cell


def every_way(tmp_path: Path, way: str, columns: Columns) -> Any:
    return WAYS[way]({name: column_by_way(way, cells) for name, cells in columns.items()}, tmp_path)


@ways
@pytest.mark.parametrize("ids", [IDS, WHOLE, FRACTIONS])
def test_ids_of_images_and_of_products_and_of_visitors(
    way: str, ids: list[tuple[Any, str | None]], tmp_path: Path
) -> None:
    cells, meanings = [cell for cell, _ in ids], [meaning for _, meaning in ids]
    if ids is FRACTIONS and way in ("csv", "tsv"):
        meanings = ["12.0", None]
    images = [f"{number}.jpg" for number in range(len(ids))]
    captions = open_collection(
        every_way(tmp_path, way, {"image": images, "caption": images, "image_id": cells}), images="none"
    )
    assert captions.images["id"].to_pylist() == [
        meaning or image for meaning, image in zip(meanings, images, strict=True)
    ]
    shop = every_way(
        tmp_path, way, {"id": cells, "title": images, "price": ["1"] * len(ids), "category": ["a"] * len(ids)}
    )
    products = visir.open(shop, format="products", bad_rows="skip", images="none")
    assert products.images["id"].to_pylist() == list(filter(None, meanings))
    lost = meanings.count(None)
    assert (f"rows without a product id (left out): {lost}" in products.source) == bool(lost)
    for column in ("visitor", "customer"):
        events = read_log(way, tmp_path, **{column: cells})
        assert [events.get(number, {}).get(column) for number in range(len(ids))] == meanings


# Products.


@ways
@pytest.mark.parametrize(("cell", "meaning"), PRICES)
def test_prices_of_products(way: str, cell: Any, meaning: float | None, tmp_path: Path) -> None:
    shop = every_way(
        tmp_path, way, {"id": ["1"], "title": ["shirt"], "price": [cell], "category": ["Clothing > Shirts"]}
    )
    library = visir.open(shop, format="products", images="none")
    assert library.facts is not None
    read = library.facts["price"].to_pylist() if "price" in library.facts.column_names else [None]
    assert read == [meaning]
    assert ("without a price: 1" in library.source) == (meaning is None and bool(cell))
    catalogue = open_catalogue(shop, images="none")
    assert bool(catalogue.prices) == (meaning is not None)


@ways
def test_prices_that_are_numbers(way: str, tmp_path: Path) -> None:
    cells = [cell for cell, _ in NUMBERS]
    shop = every_way(
        tmp_path, way, {"id": ["1", "2", "3"], "title": ["a", "b", "c"], "price": cells, "brand": ["x"] * 3}
    )
    facts = visir.open(shop, format="products", images="none").facts
    assert facts is not None and facts["price"].to_pylist() == [meaning for _, meaning in NUMBERS]


@ways
@pytest.mark.parametrize(("cell", "meaning"), CATEGORIES)
def test_categories(way: str, cell: Any, meaning: list[str], tmp_path: Path) -> None:
    shop = WAYS[way]({"id": ["1"], "title": ["shirt"], "price": ["1"], "category": [cell]}, tmp_path)
    found = visir.open(shop, format="products", images="none")
    assert found.facts is not None
    assert (found.facts["category"].to_pylist()[0] if "category" in found.facts.column_names else []) == meaning


@ways
def test_truth_values(way: str, tmp_path: Path) -> None:
    for cell, meaning in FLAGS:
        shop = WAYS[way]({"id": ["1"], "title": ["a"], "price": ["1"], "brand": ["x"], "in stock": [cell]}, tmp_path)
        facts = visir.open(shop, format="products", images="none").facts
        assert facts is not None and facts["in stock"].to_pylist() == [meaning]


# Logs: read from files and from memory by SQL, and live.


def read_log(way: str, folder: Path, unit: str = "iso", **columns: list[Any]) -> dict[int, dict[str, Any]]:
    """The events of a log by the number of their row; made into sessions, and as a stream the same."""
    count = len(next(iter(columns.values())))
    usual = {"visitor": "v", "customer": None, "time": "2024-03-11T11:06:40Z", "price": None}
    log: Columns = {name: columns.get(name, [cell] * count) for name, cell in usual.items()}
    log["row"] = [str(number) for number in range(count)]
    log["customer"] = columns.get("customer", ["c"] * count)
    names = {name: (name,) for name in log}
    events = {name: name for name in usual} | {"action": "'page'", "page": "CAST(row AS VARCHAR)"}
    form = {"csv": "csv", "tsv": "csv", "jsonl": "json"}.get(way, "parquet")
    mapping = LogMapping("toy", form, raw=names, events=events, unit=unit, actions={"page": "page"},
                         delimiter="\t" if way == "tsv" else ",")  # fmt: skip
    source = every_way(folder, way, log)
    made = make(source, folder / "sessions", mapping=mapping, replace=True)
    found = {int(event["page"]): event for event in pq.read_table(made.folder / "events").to_pylist()}
    rows = source.to_dict("records") if way == "frame" else pd.DataFrame(log, dtype=object).to_dict("records")
    if form == "csv":
        rows = [{name: _text(cell) or None for name, cell in row.items()} for row in rows]
    rows = [{name: None if cell != cell else cell for name, cell in row.items()} for row in rows]
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError):  # a stream has columns, which have one type
        live = {int(event["page"]): event for chunk in read_stream(rows, mapping, Counter())
                for event in chunk}  # fmt: skip
        assert live.keys() == found.keys()
        for name in ("visitor", "customer", "time", "price"):
            assert [live[row][name] for row in live] == [found[row][name] for row in live], name
    return found


@ways
@pytest.mark.parametrize("prices", [PRICES, NUMBERS])
def test_prices_of_logs(way: str, prices: list[tuple[Any, float | None]], tmp_path: Path) -> None:
    events = read_log(way, tmp_path, price=[cell for cell, _ in prices])
    assert [events[row]["price"] for row in range(len(prices))] == [meaning for _, meaning in prices]
    counts = json.loads((tmp_path / "sessions" / "counts.json").read_text())["counts"]
    assert counts["flags"]["no_price"] == sum(cell == "on request" for cell, _ in prices)
    assert counts["flags"]["open_price"] == sum(cell == "1,299" for cell, _ in prices)
    assert [amount_of(cell) for cell, _ in prices] == [meaning for _, meaning in prices]


@ways
def test_times_of_logs(way: str, tmp_path: Path) -> None:
    events = read_log(way, tmp_path, time=[cell for cell, _ in TIMES])
    shown = [events[row]["time"] if row in events else None for row in range(len(TIMES))]
    midnight = pd.Timestamp("2024-03-11").value // 1_000
    assert [None if time is None else pd.Timestamp((time - midnight) * 1_000).time().isoformat() for time in shown] == [
        meaning for _, meaning in TIMES
    ]
    for (cell, _), time in zip(TIMES, shown, strict=True):
        read = moment_of(cell)
        assert (None if read is None else read[0]) == time, cell


@ways
@pytest.mark.parametrize("unit", EPOCHS)
def test_times_since_1970(way: str, unit: str, tmp_path: Path) -> None:
    for cell in EPOCHS[unit]:
        assert read_log(way, tmp_path, unit, time=[cell])[0]["time"] == 1_710_155_200_000_000, cell


def test_a_fraction_that_lost_digits_is_no_id() -> None:
    with pytest.raises(TypeError, match="read its column as text"):
        id_of(float(2**60))
    with pytest.raises(CollectionError, match="read its column as text"):
        open_collection(pd.DataFrame({"image_id": [float(2**60), None], "image": ["a.jpg", "b.jpg"]}), images="none")


def test_prices_with_two_readings(tmp_path: Path) -> None:
    """A shop is asked how it writes; of a log the mapping says it, or a program wrote them."""
    shop = {"id": ["1"], "title": ["a"], "brand": ["x"], "price": ["1.299"]}
    with pytest.raises(CollectionError, match="say which with decimal=comma or decimal=point"):
        visir.open(shop, format="products", images="none")
    assert [amount_of("1.299"), amount_of("€ 1.299"), amount_of("1,299")] == [1.299, None, 1299.0]
    cells, names = ["1.299", "€ 1.299", "12,50", "12.50"], ("visitor", "time", "price")
    rows = "".join(f'v,{number},"{cell}"\n' for number, cell in enumerate(cells))
    (tmp_path / "log.csv").write_text(f"visitor,time,price\n{rows}")
    for decimal, read in (("comma", [1299.0, 1299.0, 12.5, None]), ("point", [1.299, 1.299, None, 12.5])):
        mapping = LogMapping("toy", "csv", raw={name: (name,) for name in names}, decimal=decimal,
                             events={name: name for name in names} | {"action": "'page'"})  # fmt: skip
        made = make(tmp_path / "log.csv", tmp_path / decimal, mapping=mapping)
        assert pq.read_table(made.folder / "events").sort_by("arrival")["price"].to_pylist() == read
        assert [amount_of(cell, decimal) for cell in cells] == read
        facts = visir.open(shop, format="products", images="none", decimal=decimal).facts
        assert facts is not None and facts["price"].to_pylist() == read[:1]
