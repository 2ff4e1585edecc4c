"""Relevance judgements as any tool keeps them, as `Qrels`."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.cells import id_of
from visir.collections.layout import reader
from visir.collections.readers.names import coco_id, gc_paused, head, plain_name, plain_stem
from visir.collections.sources import JudgementFormat
from visir.collections.tables import (
    OpenTable,
    columns_of,
    find_delimiter,
    find_encoding,
    is_text_table,
    json_lines,
    pick,
    read_rows,
    table_rows,
)
from visir.errors import CollectionError, nearest, raise_faults
from visir.files import check_keys_once, find_file, is_comment, read_bytes, read_json, read_lines
from visir.records import JUDGEMENTS, Collection, Qrels, show_id_forms
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
    with gc_paused():
        for place, query_id, document_id, value in rows:
            if query_id is None or document_id is None:
                raise CollectionError(f"{where}, {place}: a judgement needs a query id and a document id.")
            places.append(place)
            try:
                queries.append(id_of(query_id))
                documents.append(id_of(document_id))
            except TypeError as fault:
                raise CollectionError(f"{where}, {place}: {fault}.") from None
            grades.append(_grade(value, where, place))
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
        return _named(path, json_lines(path), columns)
    check_keys_once(path, data, value, CollectionError)
    if isinstance(value, dict) and len(value) == 1 and isinstance(next(iter(value.values())), (dict, list)):
        inner = next(iter(value.values()))  # {"qrels": {…}}
        if next(iter(value)) in ("qrels", "judgements", "relevance") and inner:
            value = inner
    return _object_rows(value, columns)


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
        rows = [(number, split(line)) for number, line in lines[1:]]
        for number, cells in rows:
            if len(cells) != len(first):
                raise CollectionError(f"{path}, line {number}: {len(cells)} values for {len(first)} columns.")
        named = ((f"line {number}", dict(zip(first, cells, strict=True))) for number, cells in rows)
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


def _named(path: Path, rows: Iterator[tuple[str, dict[str, Any]]], given: dict[str, str | None]) -> Iterator[_Row]:
    names: dict[str, str | None] | None = None
    for place, row in rows:
        if names is None:
            table = OpenTable(str(path), [name.strip() for name in row])
            first = ("query", "document", "grade")
            names = pick(table, given, first=first, query=QUERY_IDS, document=DOCUMENT_IDS, grade=GRADES).columns
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


def _grade(value: Any, where: str, place: str) -> float:
    if value is None or value == "":
        return 1.0
    hint = "grades have a point before decimals; leave out what nobody judged"
    try:
        grade = float(value)
    except (TypeError, ValueError, OverflowError):
        raise CollectionError(
            f"{where}, {place}: the grade {str(value)[:40]!r} is not a number.", hint=hint, code="grade-not-number"
        ) from None
    if not math.isfinite(grade):
        raise CollectionError(
            f"{where}, {place}: the grade {str(value)[:40]!r} is not finite.", hint=hint, code="grade-not-finite"
        )
    return grade


def _check_once(where: str, places: list[str], queries: list[str], documents: list[str]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for place, query, document in zip(places, queries, documents, strict=True):
        first = seen.setdefault((query, document), place)
        if first is not place:
            raise CollectionError(
                f"{where}, {place}: query {query!r} and document {document!r} are judged twice (before: {first}).",
                hint="leave one of the two out",
            )


# Relevance judgements of others, for collections that are open: CxC, ECCV Caption, Flickr8k's experts, any qrels.


@dataclass(frozen=True)
class Judged:
    """What a reader of judgements returns: the rows, and a line on where they come from and how many fitted."""

    table: pa.Table
    note: str


_Pair = tuple[str, str, str, str, float]
"""Relevance, task, caption, image, grade."""


def _fitting(collection: Collection, source: str, pairs: Iterable[_Pair], hint: str) -> Judged:
    """The judgements whose caption and image are both in the collection; `CollectionError` where none is."""
    # A collection that was cut to one split rightly leaves judgements of others out, so this is counted, not an error;
    # a collection to which *nothing* fits has other ids, and that is.
    captions, images = ({*table["id"].to_pylist()} for table in (collection.captions, collection.images))
    listed = list(pairs)
    fitting = [pair for pair in listed if pair[2] in captions and pair[3] in images]
    if not fitting:
        raise CollectionError(
            f"{source}: none of its {len(listed):,} judgements is about a pair in {collection.name}.",
            hint=hint,
            code="none-judgements-about-pair",
        )
    return _judged(list(map(list, zip(*fitting, strict=True))), f"judgements of {source}", len(listed) - len(fitting))


def _judged(columns: Sequence[Any], title: str, outside: int) -> Judged:
    table = pa.table(dict(zip(JUDGEMENTS.names, columns, strict=True)), schema=JUDGEMENTS)
    left = f", {outside:,} about other images or captions left out" if outside else ""
    return Judged(table, f"{title}: {table.num_rows:,}{left}")


COCO_HINT = (
    "it needs COCO's own ids: read dataset_coco.json (karpathy), captions_val2014.json (coco_captions), "
    "or an annotation list with caption_ids=coco_test_ids.npy and captions_per_image=5"
)


# Crisscrossed Captions (CxC): human scores of COCO captions with other COCO images, as additional positives.


_CXC_HEADER = ["caption", "image", "agg_score", "sampling_method"]
_CXC_FILE = re.compile(r"^sits_(val|test)\.csv(?:\.gz|\.xz)?$")


@reader(
    "cxc",
    JudgementFormat,
    sniff=lambda path: (
        any(_CXC_FILE.match(file.name) for file in path.iterdir())
        if path.is_dir()
        else head(path).startswith(",".join(_CXC_HEADER).encode())
    ),
)
def cxc(path: Path, collection: Collection, *, threshold: float = 3.0, links: str = "all") -> Judged:
    """Read `sits_val.csv` and `sits_test.csv` (a folder of them, or one) as the relevance "cxc"."""
    # Positive is every pair scored `threshold` (3 of 5) or higher by the annotators, *besides* the pairs that COCO
    # links (Parekh et al. 2021). Pairs scored lower are judged and not relevant (grade 0), unless they are links.
    # The files on image–image (`sis_*`) and text–text similarity (`sts_*`) belong to intra-modal retrieval, which has
    # no image–caption pairs; they are not read.
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if _CXC_FILE.match(file.name))
    if not files:
        raise CollectionError(f"{path}: no sits_val.csv or sits_test.csv in it.", hint="download the aggregated scores")
    scored = [row for file in files for row in _cxc_rows(file)]
    judged_captions = {caption for caption, _, _ in scored}
    judged_images = {image for _, image, _ in scored}
    owners = dict(zip(*(collection.captions[name].to_pylist() for name in ("id", "image_id")), strict=True))
    linked = {
        (caption, image)
        for caption, image in owners.items()
        if links != "scored" and image in judged_images and (links == "all" or caption in judged_captions)
    }
    pairs: list[_Pair] = [
        ("cxc", "both", caption, image, 1.0 if score >= threshold else 0.0)
        for caption, image, score in scored
        if (caption, image) not in linked
    ]
    source, images = f"CxC ({', '.join(file.name for file in files)})", {*collection.images["id"].to_pylist()}
    if any(caption in owners and image in images for _, _, caption, image, _ in pairs):  # links alone are no judgements
        pairs += [("cxc", "both", caption, image, 1.0) for caption, image in sorted(linked)]
    return _fitting(collection, source, pairs, COCO_HINT)


def _cxc_rows(file: Path) -> Iterator[tuple[str, str, float]]:
    faults: list[str] = []
    for number, row in enumerate(csv.reader(read_lines(file)), start=1):
        if number == 1:
            if row != _CXC_HEADER:
                raise CollectionError(
                    f"{file}, line 1: expected the columns {', '.join(_CXC_HEADER)}; found {', '.join(row)}.",
                    hint="the file with aggregated scores is meant, not *_raw.csv, sis_* or sts_*",
                    code="expected-columns-found",
                )
            continue
        caption = row[0].rpartition(":sentid:")[2] if row else ""
        image = coco_id(row[1]) if len(row) == len(_CXC_HEADER) else None
        if not caption.isdecimal() or image is None or not (is_number(row[2]) and 0 <= float(row[2]) <= 5):
            faults.append(f"line {number}: expected COCO_val2014:sentid:N, a COCO image and a score; found {row}")
            continue
        yield caption, image, float(row[2])
    raise_faults(CollectionError, str(file), faults)


# ECCV Caption: positives of COCO's test split that COCO itself misses, found by machines and verified by people.


_ECCV_SETS = {"eccv": "eccv", "cxc": "eccv-cxc", "original": "eccv-original"}
"""The three pairs of files, and what their relevances are called here."""


@reader(
    "eccv",
    JudgementFormat,
    sniff=lambda path: path.is_dir() and any(_eccv_file(path, name, "caption_to_image") for name in _ECCV_SETS),
)
def eccv(path: Path, collection: Collection, *, sets: str = "eccv,cxc,original") -> Judged:
    """Read `{eccv,cxc,original}_{caption_to_image,image_to_caption}.json` (id to list of ids) from a folder."""
    # - "eccv": 1,332 query captions with 11,279 positives, and 1,261 query images with 22,550. The two tasks were
    #   annotated apart and do not mirror each other, so each counts for its own task only. Measures: mAP@R, R-precision
    #   and hit@1 (Chun et al. 2022).
    # - "eccv-cxc": CxC's positives as that package has them: pairs scored 3 or higher, 29 links fewer than "cxc".
    # - "eccv-original": COCO's links for five captions per image (25,000).
    # Ids are COCO's image and annotation ids. A sixth caption of an image may be a positive: it fits where the
    # collection has it (Karpathy's JSON), and is otherwise counted as left out.
    names = [name for name in sets.split(",") if name]
    for name in names:
        if name not in _ECCV_SETS:
            raise CollectionError(
                f"ECCV Caption: unknown set {name!r}", hint=nearest(name, _ECCV_SETS), code="unknown-set"
            )
    complete = [
        name
        for name in names
        if _eccv_file(path, name, "caption_to_image") or _eccv_file(path, name, "image_to_caption")
    ]
    if not complete:
        raise CollectionError(f"{path}: no {names[0]}_caption_to_image.json in it.", hint="eccv_caption/data/ is meant")
    pairs: list[_Pair] = []
    for name in complete:
        for task, kind in (("t2i", "caption_to_image"), ("i2t", "image_to_caption")):
            file = _eccv_file(path, name, kind)
            if file is None:
                raise CollectionError(
                    f"{path}: {name}_{kind}.json is missing; both tasks are needed.", code="json-missing"
                )
            for query, documents in _eccv_content(file).items():
                for document in documents:
                    caption, image = (query, str(document)) if task == "t2i" else (str(document), query)
                    pairs.append((_ECCV_SETS[name], task, caption, image, 1.0))
    return _fitting(collection, f"ECCV Caption ({', '.join(complete)})", pairs, COCO_HINT)


def _eccv_file(folder: Path, name: str, kind: str) -> Path | None:
    return find_file(folder / f"{name}_{kind}.json")


def _eccv_content(file: Path) -> dict[str, list[int]]:
    content = read_json(file)
    if not isinstance(content, dict):
        raise CollectionError(f"{file}: expected {{id: [ids]}}.")
    for query, documents in content.items():
        if not isinstance(documents, list) or not all(isinstance(document, (int, str)) for document in documents):
            raise CollectionError(
                f"{file}: {query!r}: expected a list of ids, found {str(documents)[:60]}.",
                code="expected-list-ids-found",
            )
        if len(set(documents)) != len(documents):
            raise CollectionError(f"{file}: {query!r}: an id is listed twice.", code="id-listed-twice")
    return content


# Flickr8k's human judgements: three experts per pair (1–4), and the crowd's yes or no.


_FLICKR8K_FILES = ("ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt")
_FLICKR8K_LOWEST = 1.0
"""An expert's lowest score: the caption does not describe the image at all."""


@reader("flickr8k_judgements", JudgementFormat, sniff=lambda path: _flickr8k_sniff(path))
def flickr8k(
    path: Path,
    collection: Collection,
    *,
    expert_threshold: float = 3.0,
    crowd_threshold: float = 0.5,
    tokens: str | Path | None = None,
) -> Judged:
    """Read `ExpertAnnotations.txt` and `CrowdFlowerAnnotations.txt` (their folder, or one of them)."""
    # Four relevances; in all of them grade 0 is judged and not relevant:
    # - "experts": the mean of the three scores, minus 1. The experts' scale is 1 (does not describe the image at all)
    #   to 4 (describes it), so grades run from 0 to 3: gains for nDCG.
    # - "experts-relevant": grade 1 where that mean is at least `expert_threshold`; 3 is "almost describes the image
    #   with minor mistakes".
    # - "crowd": the share of yes, 0 to 1.
    # - "crowd-relevant": grade 1 where that share is over `crowd_threshold`: a majority.
    # A *set replaces* the links. Most judged pairs were proposed by retrieval systems; few are links (158 of the
    # experts' 5,822 pairs).
    # Captions are called `name.jpg#n`, as in the token file. In a collection with other caption ids (Karpathy's JSON)
    # they are found by text through `tokens` (default: `Flickr8k.token.txt` beside); where that is absent, caption n of
    # an image is its n-th in the collection.
    folder = path.parent if path.is_file() else path
    files = (
        [path] if path.is_file() else [file for file in sorted(path.iterdir()) if plain_name(file) in _FLICKR8K_FILES]
    )
    if not files:
        raise CollectionError(f"{path}: neither {' nor '.join(_FLICKR8K_FILES)} in it.")
    translate, matched = _flickr8k_captions(collection, folder, tokens)
    pairs: list[_Pair] = []
    for file in files:
        experts = plain_name(file) == _FLICKR8K_FILES[0]
        for image, key, columns in _flickr8k_rows(file):
            own = ("both", translate.get(key, key), image)
            if experts:
                mean = sum(columns) / len(columns)
                pairs.append(("experts", *own, mean - _FLICKR8K_LOWEST))
                pairs.append(("experts-relevant", *own, float(mean >= expert_threshold)))
            else:
                pairs.append(("crowd", *own, columns[0]))
                pairs.append(("crowd-relevant", *own, float(columns[0] > crowd_threshold)))
    source = f"Flickr8k ({', '.join(file.name for file in files)}){matched}"
    hint = "it needs Flickr8k, with file names as image ids (flickr_tokens or karpathy)"
    return _fitting(collection, source, pairs, hint)


def _flickr8k_captions(collection: Collection, folder: Path, tokens: str | Path | None) -> tuple[dict[str, str], str]:
    """From `name.jpg#n` to the collection's caption id; and how they were matched, for the source."""
    rows = collection.captions.to_pylist()
    if any(f"{row['image_id']}#0" == row["id"] for row in rows[:5]):
        return {}, ""
    file = find_file(folder / "Flickr8k.token.txt") if tokens is None else Path(tokens)
    if tokens is not None and not Path(tokens).is_file():
        raise CollectionError(f"{tokens}: no such token file.")
    translate: dict[str, str] = {}
    if file is None:
        numbers: dict[str, int] = {}
        for row in rows:
            number = numbers[row["image_id"]] = numbers.get(row["image_id"], -1) + 1
            translate[f"{row['image_id']}#{number}"] = row["id"]
        return translate, ", captions matched by position"
    # Texts may repeat within an image; each is used once, in order.
    ids: dict[tuple[str, str], list[str]] = {}
    for row in reversed(rows):
        ids.setdefault((row["image_id"], _words(row["text"])), []).append(row["id"])
    for line in read_lines(file):
        key, _, text = line.partition("\t")
        candidates = ids.get((key.rpartition("#")[0], _words(text)))
        if candidates:
            translate[key] = candidates.pop()
    return translate, f", captions matched by the texts in {file.name}"


def _words(text: str) -> str:
    return " ".join(text.split())


def _flickr8k_rows(file: Path) -> Iterator[tuple[str, str, list[float]]]:
    highest = 4.0 if plain_name(file) == _FLICKR8K_FILES[0] else None
    faults: list[str] = []
    for number, line in enumerate(read_lines(file), start=1):
        parts = line.split()
        try:
            image, caption = parts[0], parts[1]
            values = [float(part) for part in parts[2:]]
            if len(values) != 3 or "#" not in caption:
                raise ValueError
            if highest is not None and not all(_FLICKR8K_LOWEST <= value <= highest for value in values):
                raise ValueError
            if highest is None and not 0 <= values[0] <= 1:
                raise ValueError
        except (ValueError, IndexError):
            faults.append(f"line {number}: expected image, caption and three numbers; found {line[:80]!r}")
            continue
        yield image, caption, values
    raise_faults(CollectionError, str(file), faults)


def _flickr8k_sniff(path: Path) -> bool:
    if path.is_dir():
        return any(plain_name(file) in _FLICKR8K_FILES for file in path.iterdir())
    return plain_name(path) in _FLICKR8K_FILES and b"#" in head(path)[:400]


# Judgements by ids, in any form of qrels: a TREC file, CSV, JSON, a dictionary, a data frame.


_SUFFIXES = (".qrels", ".qrel", ".trec", ".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet")


@reader("qrels", JudgementFormat, sniff=lambda path: _pairs_sniff(path))
def pairs(
    path: Path,
    collection: Collection,
    *,
    name: str = "",
    task: str = "",
    query: str | None = None,
    document: str | None = None,
    grade: str | None = None,
) -> Judged:
    """Read judgements whose ids are those of the collection's captions and images."""
    # Queries are captions and documents images, or the other way round; which of the two, the ids tell. Judgements of
    # captions and images that are not in the collection are left out and counted.
    qrels = read_qrels(path, name=name, query=query, document=document, grade=grade)
    return judge(qrels, collection, str(path), task=task)


def judge(source: Any, collection: Collection, where: str = "qrels", *, task: str = "") -> Judged:
    """Return the judgements of qrels as rows of a collection.

    Args:
        source: Whatever `visir.collections.read_qrels` takes.
        collection: The collection that is judged.
        where: Where they come from, for errors and the source.
        task: "t2i" or "i2t"; "" takes what fits the ids.

    Raises:
        CollectionError: No judgement is about a caption and an image of the collection; the message shows an id of each
            side.
    """
    qrels = read_qrels(source)
    queries = qrels.queries.take(pa.array(np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))))
    captions, images = collection.captions["id"], collection.images["id"]
    fitting = {
        "t2i": pc.and_(pc.is_in(queries, captions), pc.is_in(qrels.documents, images)),
        "i2t": pc.and_(pc.is_in(queries, images), pc.is_in(qrels.documents, captions)),
    }
    counts = {name: int(pc.sum(mask).as_py() or 0) for name, mask in fitting.items()}
    if task and task not in counts:
        raise CollectionError(
            f"{where}: unknown task {task!r}", hint="t2i (queries are captions) or i2t", code="unknown-task"
        )
    if not task and all(counts.values()):
        raise CollectionError(
            f"{where}: its queries could be captions or images: ids of both fit.",
            hint='say which: "QRELS?task=t2i" for captions, task=i2t for images',
            code="queries-of-either-side",
        )
    task = task or max(counts, key=lambda name: counts[name])
    if not counts[task]:
        raise CollectionError(
            f"{where}: none of its {len(qrels.documents):,} judgements is about a caption and an image of "
            f"{collection.name}.",
            hint=_forms(qrels, collection),
            code="none-judgements-about-caption",
        )
    mask = fitting[task]
    rows = int(counts[task])
    sides = (queries.filter(mask), qrels.documents.filter(mask))
    caption, image = sides if task == "t2i" else sides[::-1]
    columns = [[qrels.name] * rows, [task] * rows, caption, image, pa.array(qrels.grades).filter(mask)]
    return _judged(columns, f"judgements {qrels.name} of {where}", len(qrels.documents) - rows)


def _forms(qrels: Qrels, collection: Collection) -> str:
    """Ids of both sides, in the direction that fits better."""
    captions, images = collection.captions["id"].to_pylist(), collection.images["id"].to_pylist()
    queries, documents = qrels.queries.to_pylist(), qrels.documents[:2_000].to_pylist()
    t2i = (captions, queries), (images, documents)
    i2t = (images, queries), (captions, documents)
    names = {id(captions): "captions of the collection", id(images): "images of the collection"}

    def closeness(pairs: Sequence[tuple[list[str], list[str]]]) -> int:
        return sum("they differ" in show_id_forms("", a, "", b) or bool(set(a) & set(b)) for a, b in pairs)

    closest = t2i if closeness(t2i) >= closeness(i2t) else i2t
    best = zip(("queries", "documents"), closest, strict=True)
    shown = [
        show_id_forms(names[id(own)], own, role, theirs) for role, (own, theirs) in best if not set(own) & set(theirs)
    ]
    return "the ids are different: " + "; ".join(shown) + "; give both the same form"


def _pairs_sniff(path: Path) -> bool:
    if not path.is_file() or not plain_name(path).lower().endswith(_SUFFIXES):
        return False
    if is_text_table(path) or plain_name(path).lower().endswith((".qrels", ".qrel", ".trec")):
        return bool(head(path).strip())
    return True
