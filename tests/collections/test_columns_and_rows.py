"""A table means the same read column by column as read row by row: random odd tables, both ways."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import visir
from visir.collections.cells import NOTHING, is_missing, missing_in
from visir.collections.readers import table as reader
from visir.collections.table_columns import ColumnTable
from visir.errors import CollectionError

WORDS = [
    "a dog", "a dog, tired", "two\nlines", "", " ", "NA", "n/a", "None", "-", " null ", "NİL", "\u00a0", "['a' 'b']",
    '["a dog", "a pet"]', '["a", null]', "[]", "[1]", "[a dog]", ' ["x"]', "['\\x']", '"Stop" says the sign',
    'he said "no', "犬が走る", "naïve café", "\U0001f415" * 12, "a\x00b", "x" * 50, "5' tall; or so", "a | b", "007",
    "1e5", "12.0", "-3", "\ta",
]  # fmt: skip
PLAIN = ["a dog", "a cat, tired", "two birds", "犬が走る", "a dog"]
IMAGES = ["a.jpg", "b.jpg", "dir/c.jpg", "d d.jpg", "é.png", "12", "null.jpg"]
NO_IMAGES = ["", "null", "  ", " " * 12, "NA"]
COLUMNS: dict[str, list[Any]] = {
    "image": IMAGES,
    "caption": WORDS,
    "caption_1": WORDS,
    "caption_2": WORDS,
    "image_id": ["1", "02", "3", "x", "", "none"],
    "caption_id": ["", "7", "8", "nan", "[1]"],
    "split": ["train", "train", "val", "Validation", "", "none", " test "],
    "language": ["en", "de", "", "NA", " fr "],
    "label": ["cat", " cat", "dog", "", " "],
    "size": ["1", "2"],
    "note": WORDS,
    "same": ["always"],
}
TYPED: dict[str, list[Any]] = {
    "image": [*IMAGES, 12, 7, 12.0, None, True],
    "caption": [*WORDS, None, ["a dog", "a pet"], [], ["a", None], ["NA"], 5, {"en": "a", "de": "b"}],
    "image_id": [1, 2, 3, None, 4.0, 2**60, "x"],
    "caption_id": [1, 2, [1, 2], None, "x"],
    "split": ["train", None, 1, True, "val"],
    "language": ["en", None, ["en", "de"]],
    "label": [1, 2, None, "cat", 1.0, True, float("nan")],
    "size": [1, 2.5, None, float("nan"), [1, 2], {"w": 1}],
}
"""Values of other types, as Parquet, JSON and data frames have them."""


def columns_of(draw: random.Random, *, typed: bool) -> dict[str, list[Any]]:
    """Columns of a table: some of those above, mostly of plain cells that agree with each other."""
    names = ["image", *draw.sample(["caption", "caption_1", "caption_2"], draw.choice([0, 1, 1, 1, 2]))]
    names += draw.sample([name for name in COLUMNS if name not in names and "caption_" not in name], draw.randint(0, 3))
    names += ["caption_id"] if draw.random() < 0.1 else []
    count, oddness = draw.randint(1, 12), draw.choice([0.0, 0.0, 0.05, 0.3, 1.0])
    columns: dict[str, list[Any]] = {}
    for name in names:
        plain = PLAIN if COLUMNS[name] is WORDS else COLUMNS[name][:3]
        columns[name] = [draw.choice(COLUMNS[name] if draw.random() < oddness else plain) for _ in range(count)]
        if name in ("split", "label", "language", "same") and draw.random() < 0.6:
            columns[name] = [columns[name][0]] * count
        if name in ("image", "image_id", "caption_id") and draw.random() < 0.5:
            columns[name] = [f"{cell}{number}" for number, cell in enumerate(columns[name])]
        if name == "image" and draw.random() < 0.3:
            columns[name][draw.randrange(count)] = draw.choice(NO_IMAGES)
        if typed and draw.random() < 0.5:
            kind = draw.choice(TYPED.get(name, [None]))
            same = [value for value in TYPED.get(name, [None]) if type(value) is type(kind) or value is None]
            columns[name] = [draw.choice(same) for _ in range(count)]
            if draw.random() < 0.2:
                columns[name] = [draw.choice(TYPED.get(name, [None])) for _ in range(count)]
    return columns


def text_file(draw: random.Random, folder: Path) -> tuple[Path, dict[str, str]]:
    """A CSV, TSV or text file, with what people do to such files."""
    columns = columns_of(draw, typed=False)
    delimiter, ending = draw.choice([(",", ".csv"), (",", ".csv"), ("\t", ".tsv"), (";", ".csv"), ("|", ".csv")])
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    if draw.random() < 0.1:
        del rows[0]
    if draw.random() < 0.1:
        rows[draw.randrange(len(rows))].append("more")
    newline = draw.choice(["\n", "\n", "\r\n"])
    if draw.random() < 0.3:
        text = newline.join(delimiter.join(row) for row in rows) + newline
    else:
        quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        writer = csv.writer(out := io.StringIO(), delimiter=delimiter, quoting=quoting, lineterminator=newline)
        writer.writerows(rows)
        text = out.getvalue()
    for _ in range(draw.choice([0, 0, 0, 0, 1, 2])):
        at = draw.randint(0, len(text))
        text = text[:at] + draw.choice(['"', "\n", "\r", '""', " ", delimiter, "\n\n", '",']) + text[at:]
    text = text.rstrip("\r\n") if draw.random() < 0.2 else text + newline * draw.choice([0, 0, 1])
    options = {"quotes": "none"} if draw.random() < 0.05 else {}
    encoding = draw.choice(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1"])
    data = text.encode(encoding, "replace")
    if encoding == "latin-1":
        options["encoding"] = "latin-1"
    elif draw.random() < 0.02:
        data += b"\xff\n"
    (file := folder / f"t{ending}").write_bytes(data)
    return file, options


def typed_table(draw: random.Random, folder: Path) -> tuple[Any, dict[str, str]]:
    """The same in memory, as JSON lines, and as Parquet where its columns have one type."""
    columns = columns_of(draw, typed=True)
    form = draw.choice(["lines", "list", "parquet", "frame", "columns"])
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if form == "lines":
        if draw.random() < 0.1:
            rows[-1].pop(draw.choice(list(columns)))
        lines = [json.dumps(row, allow_nan=True) for row in rows]
        if draw.random() < 0.3:
            lines.insert(draw.randint(0, len(lines)), draw.choice(["", " ", "[1]", "{", '{"image": "\\ud800"}']))
        (file := folder / "t.jsonl").write_text("\n".join(lines), encoding=draw.choice(["utf-8", "utf-8-sig"]))
        return file, {}
    if form == "list":
        (file := folder / "t.json").write_text(json.dumps(rows, indent=draw.choice([None, 1])).replace("NaN", "null"))
        return file, {}
    if form == "parquet":
        columns = {name: cells if _one_type(cells) else [*map(str, cells)] for name, cells in columns.items()}
        pq.write_table(pa.table(columns), folder / "t.parquet", row_group_size=draw.choice([3, 100]))
        return folder / "t.parquet", {}
    return (pd.DataFrame(columns) if form == "frame" else columns), {}


def _one_type(cells: list[Any]) -> bool:
    try:
        return pa.array(cells) is not None
    except (pa.ArrowException, TypeError):
        return False


def read(source: Any, options: dict[str, str]) -> tuple[Any, ...]:
    """All of what a table becomes, or what is wrong with it."""
    try:
        found = visir.open(source, images="none", **options)
    except CollectionError as fault:
        return ("refused", fault.message, fault.hint)
    facts = found.facts
    return (found.images.to_pylist(), found.captions.to_pydict(), found.source,
            None if facts is None else (facts.schema.to_string(), repr(facts.to_pydict())))  # fmt: skip


@pytest.mark.parametrize("make", [text_file, typed_table])
@pytest.mark.parametrize("seed", range(8))
def test_columns_and_rows_mean_the_same(make: Any, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_column: list[bool] = []
    fill = reader._Columns.fill

    def noted(columns: Any) -> None:
        by_column.append(False)
        fill(columns)
        by_column[-1] = True

    draw = random.Random(seed)
    for number in range(150):
        source, options = make(draw, tmp_path)
        if draw.random() < 0.4:
            options["bad_rows"] = "skip"
        with monkeypatch.context() as patch:
            patch.setattr(reader._Columns, "fill", noted)
            found = read(source, options)
        with monkeypatch.context() as patch:
            patch.setattr(reader, "at_once", lambda table: None)
            expected = read(source, options)
        assert found == expected, (seed, number, source if not isinstance(source, Path) else source.read_bytes())
    assert sum(by_column) > 40  # so many were read column by column


def test_which_texts_say_nothing() -> None:
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    texts = [*letters, *(f"{letter}nan{letter}" for letter in letters if not letter.isalnum())]
    texts += [variant for word in NOTHING for variant in (word, word.upper(), f" {word}\u00a0", f"{word}x", word * 3)]
    cells = pa.array([*texts, None], pa.string())
    assert missing_in(cells) == [row for row, text in enumerate(texts) if is_missing(text)]


def test_lines_of_cells_over_several_lines(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('image,caption\na.jpg,"two\n\nlines"\nb.jpg,NA\nc.jpg,"x\ny"\nd.jpg,-\n')
    found = visir.open(tmp_path / "t.csv", images="none")
    assert "left out: 2 (line 5: 'NA', line 8: '-')" in found.source


def test_columns_as_arrow_has_them(tmp_path: Path) -> None:
    """The columns of a table of texts are Arrow's, of no Python objects."""
    text = pa.table({"image": ["a.jpg", "b.jpg"], "caption": ["a dog", "a cat"]})
    pq.write_table(text, tmp_path / "t.parquet")
    text.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        table = reader.at_once(reader.read_table(tmp_path / name))
        assert isinstance(table, ColumnTable)
        assert all(isinstance(cells, pa.StringArray) for cells in table.cells.values())
        assert pc.equal(table.cells["caption"], text["caption"].combine_chunks()).true_count == 2
