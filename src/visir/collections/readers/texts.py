"""What can be wrong with captions, told from the texts alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

Level = Literal["error", "warning", "note"]
Found = tuple[Level, str, int, tuple[str, ...]]
EXAMPLES = 5

ODD: tuple[tuple[Level, str, str], ...] = (
    ("warning", "captions with the replacement character U+FFFD (lost when somebody decoded them)", "\ufffd"),
    (
        "warning",
        "captions with control characters (U+0080–U+009F are Windows-1252 read as Latin-1)",
        r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}]",
    ),
    (
        "warning",
        "captions that look like UTF-8 read as Windows-1252 (“cafÃ©”)",
        r"[\x{c3}\x{c2}][\x{80}-\x{bf}]|\x{e2}\x{20ac}",
    ),
    ("warning", "captions with private-use characters, which no font knows", r"[\x{e000}-\x{f8ff}]"),
    ("note", "captions with line breaks or tabs inside", r"\S[\t\r]*\n[\s]*\S|\t"),
    ("note", "captions with white space at an end", r"^\s|\s$"),
)
"""(level, what, RE2 pattern). The texts are kept byte for byte all the same: mending them makes another collection."""


def text_findings(captions: pa.Table) -> Iterator[Found]:
    """(level, what, count, examples) of everything odd about the captions' texts."""
    ids, texts = captions["id"], captions["text"]
    if not len(texts):
        return
    null = pc.is_null(texts)
    yield from _found("error", "captions without text (null)", ids, texts, null)
    texts = pc.fill_null(texts, "-")
    yield from _found("warning", "empty captions", ids, texts, pc.equal(pc.utf8_trim_whitespace(texts), ""))
    for level, what, pattern in ODD:
        yield from _found(level, what, ids, texts, pc.match_substring_regex(texts, pattern))
    plain = pc.utf8_normalize(texts, "NFC")
    yield from _found("note", "captions not in Unicode's composed form (NFC)", ids, texts, pc.not_equal(plain, texts))
    yield from _repeated(captions)


def _repeated(captions: pa.Table) -> Iterator[Found]:
    table = pa.table({"text": captions["text"], "image_id": captions["image_id"]})
    pairs = table.group_by(["image_id", "text"]).aggregate([([], "count_all")])
    same_image = pairs.filter(pc.greater(pairs["count_all"], 1))
    if same_image.num_rows:
        rows = same_image.slice(0, EXAMPLES).to_pylist()
        examples = tuple(f"{row['image_id']!r}: {_short(row['text'])} × {row['count_all']}" for row in rows)
        yield "warning", "captions that an image has twice", same_image.num_rows, examples
    by_text = pairs.group_by("text").aggregate([([], "count_all")])
    several = by_text.filter(pc.greater(by_text["count_all"], 1)).sort_by(
        [("count_all", "descending"), ("text", "ascending")]
    )
    if several.num_rows:
        rows = several.slice(0, EXAMPLES).to_pylist()
        examples = tuple(f"{_short(row['text'])} at {row['count_all']} images" for row in rows)
        yield (
            "note",
            "texts that several images have (to links, the others' images are wrong)",
            several.num_rows,
            examples,
        )


def _found(level: Level, what: str, ids: Any, texts: Any, mask: Any) -> Iterator[Found]:
    count = pc.sum(mask).as_py() or 0
    if count:
        some = pa.table({"id": ids, "text": texts}).filter(mask).slice(0, EXAMPLES).to_pylist()
        yield level, what, count, tuple(f"{row['id']!r}: {_short(row['text'])}" for row in some)


def _short(text: str) -> str:
    shown = "".join(one if unicodedata.category(one)[0] != "C" else repr(one)[1:-1] for one in text[:60])
    return f"“{shown}{'…' if len(text) > 60 else ''}”"
