"""What can be wrong with captions, as far as the texts alone show it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.findings import Finding, Level

_EXAMPLES = 5

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
"""(level, kind, RE2 pattern). The texts stay byte for byte as they are: changing them makes another collection."""


def text_findings(captions: pa.Table) -> Iterator[Finding]:
    """Everything odd about the texts of captions."""
    ids, texts = captions["id"], captions["text"]
    if not len(texts):
        return
    null = pc.is_null(texts)
    yield from _masked("error", "captions without text (null)", ids, texts, null)
    texts = pc.fill_null(texts, "-")
    yield from _masked("warning", "empty captions", ids, texts, pc.equal(pc.utf8_trim_whitespace(texts), ""))
    for level, kind, pattern in ODD:
        yield from _masked(level, kind, ids, texts, pc.match_substring_regex(texts, pattern))
    plain = pc.utf8_normalize(texts, "NFC")
    yield from _masked("note", "captions not in Unicode's composed form (NFC)", ids, texts, pc.not_equal(plain, texts))
    yield from _repeated(captions)


def _repeated(captions: pa.Table) -> Iterator[Finding]:
    table = pa.table({"text": captions["text"], "image_id": captions["image_id"]})
    pairs = table.group_by(["image_id", "text"]).aggregate([([], "count_all")])
    same_image = pairs.filter(pc.greater(pairs["count_all"], 1))
    if same_image.num_rows:
        rows = same_image.slice(0, _EXAMPLES).to_pylist()
        examples = tuple(f"{row['image_id']!r}: {_short(row['text'])} × {row['count_all']}" for row in rows)
        yield Finding("warning", "captions that an image has twice", same_image.num_rows, examples)
    by_text = pairs.group_by("text").aggregate([([], "count_all")])
    several = by_text.filter(pc.greater(by_text["count_all"], 1)).sort_by(
        [("count_all", "descending"), ("text", "ascending")]
    )
    if several.num_rows:
        rows = several.slice(0, _EXAMPLES).to_pylist()
        examples = tuple(f"{_short(row['text'])} at {row['count_all']} images" for row in rows)
        kind = "texts that several images have (to links, the others' images are wrong)"
        yield Finding("note", kind, several.num_rows, examples)


def _masked(level: Level, kind: str, ids: Any, texts: Any, mask: Any) -> Iterator[Finding]:
    """The texts where the mask is true."""
    count = pc.sum(mask).as_py() or 0
    if count:
        rows = pa.table({"id": ids, "text": texts}).filter(mask).slice(0, _EXAMPLES).to_pylist()
        yield Finding(level, kind, count, tuple(f"{row['id']!r}: {_short(row['text'])}" for row in rows))


def _short(text: str) -> str:
    shown = "".join(
        character if unicodedata.category(character)[0] != "C" else repr(character)[1:-1] for character in text[:60]
    )
    return f"“{shown}{'…' if len(text) > 60 else ''}”"
