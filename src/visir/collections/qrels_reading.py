"""Relevance judgements as any tool keeps them, as `Qrels`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from visir.collections.readers.names import plain_name, plain_stem
from visir.collections.tables import columns_of, find_delimiter, find_encoding, one_column, read_rows, table_rows
from visir.errors import CollectionError
from visir.files import is_comment, read_bytes
from visir.records import Qrels
from visir.remote import local_path

QUERY_IDS = ("query_id", "query-id", "qid", "q_id", "query", "topic")
DOCUMENT_IDS = ("document_id", "document-id", "corpus-id", "corpus_id", "doc_id", "doc-id", "docno", "docid",
                "document", "doc", "pid")  # fmt: skip
GRADES = ("grade", "relevance", "score", "label", "rel", "judgement", "judgment")
FORMS = (
    'a TREC file ("query 0 document grade"), a CSV, TSV, JSON or Parquet file, {query: {document: grade}}, '
    "a DataFrame, ir_measures Qrel objects, or ranx.Qrels"
)
"""What `read_qrels` takes, in words."""

_Row = tuple[str, Any, Any, Any]
"""Its place for errors, query, document, grade."""


def read_qrels(
    source: Any,
    *,
    name: str = "",
    query: str | None = None,
    document: str | None = None,
    grade: str | None = None,
) -> Qrels:
    """Read relevance judgements, in whatever form they are.

    A judgement without a grade has grade 1. Negative grades become 0, as in trec_eval: judged and not relevant.

    Args:
        source: One of

            - a file: TREC (`query 0 document grade`), two or three columns (`query document [grade]`), CSV or TSV with
              named columns, JSON or JSON lines, Parquet; plain, `.gz` or `.xz`,
            - `{query: {document: grade}}`, `{query: [document, …]}` or `{query: document}`,
            - a pandas or polars DataFrame or an Arrow table,
            - a list of `(query, document)`, `(query, document, grade)`, or ir_measures `Qrel` objects,
            - `ranx.Qrels`, or `Qrels` of visir.
        name: The name of the judgements; by default the name of the file, else "qrels".
        query: The column of query ids, where it has no usual name (query_id, query-id, qid, …).
        document: The column of document ids (document_id, corpus-id, doc_id, docno, …).
        grade: The column of grades (grade, relevance, score, label, …).

    Raises:
        CollectionError: A line, row or value cannot be read; a pair is judged twice; there are no judgements.

    Example:
        >>> read_qrels({"q1": {"a.jpg": 1, "b.jpg": 0}}).to_dict()
        {'q1': {'a.jpg': 1.0, 'b.jpg': 0.0}}
        >>> read_qrels([("q1", "a.jpg"), ("q2", "b.jpg", 2)]).to_dict()
        {'q1': {'a.jpg': 1.0}, 'q2': {'b.jpg': 2.0}}
    """
    if isinstance(source, Qrels):
        return source
    columns = {"query": query, "document": document, "grade": grade}
    where = "qrels"
    if isinstance(source, (str, Path)):
        path = Path(local_path(str(source)))
        where, name = str(path), name or plain_stem(path)
    rows = judgement_rows(source, columns)
    places, queries, documents, grades = [], [], [], []
    for place, query_id, document_id, value in rows:
        if query_id is None or document_id is None:
            raise CollectionError(f"{where}, {place}: a judgement needs a query id and a document id.")
        places.append(place)
        queries.append(str(query_id))
        documents.append(str(document_id))
        grades.append(_grade(value, f"{where}, {place}"))
    if not queries:
        raise CollectionError(f"{where}: no judgements.", hint=f"it takes {FORMS}", code="no-judgements")
    _check_once(where, places, queries, documents)
    return Qrels.of(queries, documents, grades, name=name or "qrels")


def judgement_rows(source: Any, columns: dict[str, str | None] | None = None) -> Iterator[_Row]:
    """The judgements of any form as rows (place, query, document, grade), unchecked; see `read_qrels`."""
    columns = columns or dict.fromkeys(("query", "document", "grade"))
    if isinstance(source, Qrels):
        source = source.to_dict()
    if isinstance(source, (str, Path)):
        return _file_rows(Path(local_path(str(source))), columns)
    return _object_rows(source, columns)


def _file_rows(path: Path, columns: dict[str, str | None]) -> Iterator[_Row]:
    if path.is_dir():
        raise CollectionError(f"{path}: a folder; judgements are a file.", hint=f"it takes {FORMS}")
    ending = plain_name(path).lower().rpartition(".")[2]
    if ending in ("parquet", "jsonl", "ndjson"):
        return _named(path, read_rows(path), columns)
    data = read_bytes(path)
    if ending == "json" or data[:64].lstrip(b"\xef\xbb\xbf \r\n\t")[:1] in (b"{", b"["):
        return _json_rows(path, data, columns)
    return _text_rows(path, _decoded(path, data), columns)


def _decoded(path: Path, data: bytes) -> str:
    encoding = find_encoding(data[:4])
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise CollectionError(
            f"{path}, line {line}: not {encoding.removesuffix('-sig').upper()} (byte 0x{data[fault.start]:02x}).",
            hint=f"convert it first: iconv -f latin1 -t utf-8 {path.name} > fixed{path.suffix}",
        ) from fault


def _json_rows(path: Path, data: bytes, columns: dict[str, str | None]) -> Iterator[_Row]:
    try:
        value = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as fault:
        if plain_name(path).lower().endswith(".json") and data.count(b"\n") <= 1:
            raise CollectionError(f"{path}: not valid JSON: {fault}") from fault
        lines = enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1)
        rows = [(f"line {number}", _json_line(path, number, line)) for number, line in lines if line.strip()]
        return _named(path, iter(rows), columns)
    if isinstance(value, dict) and len(value) == 1 and isinstance(next(iter(value.values())), (dict, list)):
        inner = next(iter(value.values()))  # {"qrels": {…}}
        if next(iter(value)) in ("qrels", "judgements", "relevance") and inner:
            value = inner
    return _object_rows(value, columns)


def _json_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as fault:
        raise CollectionError(f"{path}, line {number}: not valid JSON: {fault}") from fault
    if not isinstance(row, dict):
        raise CollectionError(f"{path}, line {number}: expected an object {{…}}, not {str(row)[:40]!r}.")
    return row


def _text_rows(path: Path, text: str, columns: dict[str, str | None]) -> Iterator[_Row]:
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not is_comment(line, is_qrels_line)
    ]
    if not lines:
        return
    split = _splitter(path, [line for _, line in lines[:20]])
    first = split(lines[0][1])
    if any(columns.values()) or _is_header(first):
        named = ((f"line {number}", _as_row(path, number, first, split(line))) for number, line in lines[1:])
        yield from _named(path, named, columns)
        return
    expected = len(first)
    for number, line in lines:
        cells = split(line)
        if len(cells) not in (2, 3, 4) or len(cells) != expected:
            raise CollectionError(
                f"{path}, line {number}: {len(cells)} fields; qrels have four: query 0 document grade.",
                hint="also read: query document grade, query document, and tables with a header such as "
                "query_id,document_id,grade",
            )
        query, document = cells[0], cells[2] if len(cells) == 4 else cells[1]
        yield f"line {number}", query, document, (None if len(cells) == 2 else cells[-1])


def _splitter(path: Path, lines: list[str]) -> Callable[[str], list[str]]:
    fields = [line.split() for line in lines]
    if (
        len({len(cells) for cells in fields}) == 1
        and len(fields[0]) in (3, 4)
        and all(is_number(f[-1]) for f in fields)
    ):
        return str.split
    delimiter = find_delimiter(lines, "," if plain_name(path).lower().endswith(".csv") else "\t")
    counts = {len(cells) for cells in csv.reader(lines, delimiter=delimiter)}
    if len(counts) == 1 and counts != {1}:
        return lambda line: [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
    return str.split


def is_qrels_line(line: str) -> bool:
    """Whether a line is "query 0 document grade", of which trec_eval ignores the second."""
    cells = line.split()
    return len(cells) == 4 and cells[1].upper() in ("0", "Q0", "1") and is_number(cells[3])


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_header(cells: list[str]) -> bool:
    names = {cell.strip().lower() for cell in cells}
    return bool(names & set(QUERY_IDS)) and bool(names & set(DOCUMENT_IDS))


def _as_row(path: Path, number: int, names: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) != len(names):
        raise CollectionError(f"{path}, line {number}: {len(cells)} values for {len(names)} columns.")
    return dict(zip(names, cells, strict=True))


def _object_rows(source: Any, columns: dict[str, str | None]) -> Iterator[_Row]:
    table = columns_of(source)
    if table is not None:
        yield from _named(Path("qrels"), table_rows(table, "qrels"), columns)
        return
    if hasattr(source, "to_dict") and not isinstance(source, Mapping):  # ranx.Qrels
        source = source.to_dict()
    if isinstance(source, Mapping):
        if any(columns.values()) or _is_header([str(key) for key in source]):
            yield from _named(Path("qrels"), table_rows({str(k): list(v) for k, v in source.items()}, "qrels"), columns)
        else:
            yield from _nested(source)
        return
    if isinstance(source, (bytes, int, float)) or not isinstance(source, Iterable):
        raise CollectionError(
            f"cannot read judgements from a {type(source).__name__}.",
            hint='read_qrels({"q1": {"a.jpg": 1}}) works; it takes ' + FORMS,
            code="cannot-read-judgements",
        )
    for number, entry in enumerate(source, 1):
        yield _of_entry(entry, f"entry {number}", columns)


def _nested(source: Mapping[Any, Any]) -> Iterator[_Row]:
    for query, judged in source.items():
        place = f"query {str(query)!r}"
        if isinstance(judged, Mapping):
            yield from ((place, query, document, grade) for document, grade in judged.items())
        elif isinstance(judged, str) or not isinstance(judged, Iterable):
            yield place, query, judged, None
        else:
            yield from ((place, query, document, None) for document in judged)


def _of_entry(entry: Any, place: str, columns: dict[str, str | None]) -> _Row:
    if hasattr(entry, "query_id") and hasattr(entry, "doc_id"):  # ir_measures.Qrel, ir_datasets
        return place, entry.query_id, entry.doc_id, getattr(entry, "relevance", None)
    if isinstance(entry, Mapping):
        return next(_named(Path("qrels"), iter([(place, dict(entry))]), columns))
    if isinstance(entry, (list, tuple)) and len(entry) in (2, 3, 4):
        document = entry[2] if len(entry) == 4 else entry[1]
        return place, entry[0], document, None if len(entry) == 2 else entry[-1]
    raise CollectionError(
        f"qrels, {place}: {str(entry)[:60]!r} is no judgement.",
        hint='a judgement is ("q1", "a.jpg", 1) or so',
        code="no-judgement",
    )


def _named(path: Path, rows: Iterator[tuple[str, dict[str, Any]]], columns: dict[str, str | None]) -> Iterator[_Row]:
    names: dict[str, str | None] | None = None
    for place, row in rows:
        if names is None:
            listed = {name.strip().lower(): name for name in row}
            names = {
                "query": _column(path, listed, columns["query"], QUERY_IDS, "query"),
                "document": _column(path, listed, columns["document"], DOCUMENT_IDS, "document"),
                "grade": _column(path, listed, columns["grade"], GRADES, "grade"),
            }
            missing = [part for part in ("query", "document") if names[part] is None]
            if missing:
                shown = ", ".join(map(str, row))
                raise CollectionError(
                    f"{path}: no column of {' and '.join(missing)} ids; there are: {shown}.",
                    hint=f"name {'it' if len(missing) == 1 else 'them'}: "
                    + "read_qrels(…, " + ", ".join(f'{part}="COLUMN"' for part in missing) + ")",
                    code="no-column-ids",
                )  # fmt: skip
        values = {part: None if name is None else row.get(name) for part, name in names.items()}
        yield place, values["query"], values["document"], values["grade"]


def _column(path: Path, listed: dict[str, str], name: str | None, usual: tuple[str, ...], content: str) -> str | None:
    if name is not None:
        return one_column(path, list(listed.values()), name, usual, content)
    return next((listed[usual_name] for usual_name in usual if usual_name in listed), None)


def _grade(value: Any, place: str) -> float:
    if value is None or value == "":
        return 1.0
    try:
        return float(value)
    except (TypeError, ValueError):
        raise CollectionError(f"{place}: the grade {str(value)[:40]!r} is not a number.") from None


def _check_once(where: str, places: list[str], queries: list[str], documents: list[str]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for place, query, document in zip(places, queries, documents, strict=True):
        first = seen.setdefault((query, document), place)
        if first is not place:
            raise CollectionError(
                f"{where}, {place}: query {query!r} and document {document!r} are judged twice (before: {first})."
            )
