"""Runs in the formats of other tools: in files (TREC, JSON, Parquet), as dictionaries, tables and matrices.

A format of files is a function that reads, one that writes, and an entry in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.collections.cells import id_of
from visir.collections.qrels_reading import is_number
from visir.collections.readers.names import gc_paused
from visir.collections.tables import read_rows, sniffed_columns
from visir.display import counted
from visir.errors import CollectionError, MissingPackageError, RunError, VisirError
from visir.files import check_keys_once, is_comment, is_file, iter_lines, json_bytes, read_bytes, read_json, read_text
from visir.parquet import read_table
from visir.records import Gallery, Qrels, Run, strings
from visir.records.columns import as_array
from visir.registry import Registry
from visir.storage import check_version, check_written, new_file, write_new

if TYPE_CHECKING:
    import ranx

__all__ = [
    "FORMATS",
    "qrels_to_dict",
    "read_run",
    "to_ir_measures",
    "to_ranx",
    "write_qrels",
    "write_run",
]

# What reads and writes any form.

_TAKEN = (
    "a file (run.trec, run.csv, run.json, run.parquet), {query: {document: score}}, a data frame with the columns "
    "query_id, document_id and score, (scores, query_ids, document_ids), a list of (query, document, score), or a "
    "ranx.Run"
)


def read_run(
    source: Any,
    *,
    task: str | None = None,
    gallery: Gallery | None = None,
    name: str | None = None,
    format: str | None = None,
    **options: Any,
) -> Run:
    """Make a `Run` of whatever holds one.

    Args:
        source: One of:

            - a file: TREC (.trec .run .txt .res; also `query document rank` or `query document score`, as of MS MARCO),
              JSON, Parquet, or a table with the columns of a data frame (.csv .tsv .jsonl); all but Parquet may be
              compressed (.gz, .xz);
            - a dictionary {query: {document: score}}, as of ranx, ir_measures and pytrec_eval; or of lists of
              documents, the best first;
            - a data frame of pandas or polars or an Arrow table with columns such as query_id, document_id, score
              (names of ir_measures, ranx, PyTerrier and BEIR are known too; a column `rank` orders equal scores, and
              everything where there are no scores);
            - a tuple (scores, query_ids, document_ids) of a matrix (n, m) and the ids of its rows and columns;
            - a list of (query, document, score), such as `ir_measures.ScoredDoc`;
            - a `ranx.Run`, or a `Run`.
        task: The name of the task, e.g. "t2i"; needed for an evaluation of a task of this name.
        gallery: What was searched; left out where nobody knows it. An evaluation knows it.
        name: The name of the system; by default that of the file or the run.
        format: The format of a file, where its suffix does not tell: "trec", "json", "parquet".
        options: `depth` (how many documents per query the search was to return; for a matrix also how many are
            taken); for TREC files, Parquet files and frames `order`: what decides among equal scores, their "rank"
            (the default) or, with "score", the document id.

    Raises:
        RunError: It is none of these, or it has a fault.

    Example:
        >>> import visir
        >>> run = visir.read_run({"q1": {"a": 0.5, "b": 0.75}}, name="mine")
        >>> run["q1"], run.top("q1", 1)
        ([('b', 0.75), ('a', 0.5)], ['b'])
        >>> visir.read_run(([[0.5, 0.75]], ["q1"], ["a", "b"])).to_dict()
        {'q1': {'b': 0.75, 'a': 0.5}}
    """
    if isinstance(source, str | Path):
        return read_file(source, format=format, task=task, gallery=gallery, name=name, **options)
    if isinstance(source, Run):
        gallery = gallery or source.gallery
        return replaced(source, name=name or source.name, task=task or source.task, gallery=gallery)
    about = {"task": task, "gallery": gallery, **options}
    if type(source).__module__.partition(".")[0] == "ranx":
        return _from_dict(source.to_dict(), f"ranx run {source.name}", name=name or source.name or "ranx", **about)
    if isinstance(source, Mapping):
        if source and all(map(is_ranking, source.values())):
            source = {query: dict(zip(ids, range(len(ids), 0, -1), strict=True)) for query, ids in source.items()}
        wrong = next((answer for answer in source.values() if not isinstance(answer, Mapping)), None)
        if wrong is not None:
            raise RunError(
                f"a dictionary of {type(wrong).__name__} is no run.",
                hint="give {query: {document: score}}, e.g. {'q1': {'a.jpg': 0.5, 'b.jpg': 0.25}}",
            )
        return _from_dict(source, name=name or "dictionary", **about)
    if hasattr(source, "columns"):
        return _from_frame(source, name=name or "frame", **about)
    if isinstance(source, tuple) and len(source) == 3 and not isinstance(source[0], str):
        return _from_matrix(source, name=name or "matrix", **about)
    if isinstance(source, Iterable):
        rows = list(source)
        for row in rows:
            if not isinstance(row, tuple | list) or len(row) != 3:
                raise RunError(f"a list of {type(row).__name__} is no run: {row!r}.", hint=f"give {_TAKEN}")
        return _from_rows(rows, "list", lambda i: f"list, row {i}", name=name or "list", **about)
    raise RunError(f"{type(source).__name__} is no run.", hint=f"give {_TAKEN}")


def is_ranking(answer: object) -> bool:
    """Whether an answer is a list of ids, the best first, each once."""
    ids = answer if isinstance(answer, list | tuple) else ()
    return bool(ids) and all(isinstance(document, str) for document in ids) and len(set(ids)) == len(ids)


def _from_matrix(
    source: tuple[Any, Any, Any], *, gallery: Gallery | None, depth: int | None = None, **about: Any
) -> Run:
    """A run from a matrix of scores; by falling score, ties by document id."""
    given, query_ids, document_ids = source
    scores = as_array(given)
    queries, documents = [str(name) for name in query_ids], [str(name) for name in document_ids]
    if scores.shape != (len(queries), len(documents)):
        raise RunError(
            f"the scores have the shape {scores.shape}, for {len(queries)} queries and {len(documents)} documents.",
            hint="give (scores, query_ids, document_ids), with one row of scores for each query",
            code="scores-shape-queries-documents",
        )
    if not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise RunError(
            f"the score of query {queries[row]!r} and document {documents[column]!r} is not finite.",
            code="score-query-document-not",
        )
    count = min(depth or len(documents), len(documents))
    by_id = np.argsort(np.array(documents, object), kind="stable")  # a stable sort then leaves ties in this order
    best = by_id[np.argsort(-scores[:, by_id].astype(np.float64), axis=1, kind="stable")[:, :count]]
    rows = np.repeat(np.arange(len(queries)), count)
    query_of, document_of = [queries[row] for row in rows], [documents[column] for column in best.ravel()]
    gallery = gallery or Gallery.of("text+image", documents, "the columns of the matrix")
    numbers = scores[rows, best.ravel()].astype(np.float64)
    return run_of(
        query_of,
        document_of,
        numbers,
        lambda i: f"matrix, query {query_of[i]!r}",
        gallery=gallery,
        depth=depth,
        **about,
    )


def _from_dict(answers: Mapping[Any, Mapping[Any, Any]], where: str = "dictionary", **about: Any) -> Run:
    """A run from {query: {document: score}}; a query with an empty answer is left out: measures treat both alike."""
    rows = [(query, document, score) for query, answer in answers.items() for document, score in answer.items()]
    return _from_rows(rows, where, lambda i: f"{where}, query {str(rows[i][0])!r}" if rows else where, **about)


def _from_rows(rows: list[Any], where: str, place: Callable[[int], str], **about: Any) -> Run:
    """A run from (query, document, score) in any order; by falling score, ties by document id."""
    queries, documents = [str(query) for query, _, _ in rows], [str(document) for _, document, _ in rows]
    try:
        if (scores := np.array([score for _, _, score in rows], np.float64)).ndim > 1:
            raise TypeError("lists are no scores")
    except (OverflowError, TypeError, ValueError):
        for query, document, (_, _, score) in zip(queries, documents, rows, strict=True):
            if isinstance(score, int) and abs(score) >= 2**1024:
                raise RunError(
                    f"{where}, query {query!r}, document {document!r}: the score is too large for a number of 64 bits.",
                    hint="scale the scores",
                    code="score-too-large",
                ) from None
            if not isinstance(score, int | float | np.number | None):
                raise RunError(
                    f"{where}, query {query!r}, document {document!r}: the score is {score!r}, not a number.",
                    hint="give {query: {document: score}}, e.g. {'q1': {'a.jpg': 0.5, 'b.jpg': 0.25}}",
                ) from None
        raise
    return run_of(queries, documents, scores, place, **about)


_COLUMNS = {
    "query_id": ("query_id", "qid", "q_id", "query-id"),
    "document_id": ("document_id", "doc_id", "docno", "docid", "did", "corpus-id"),
    "rank": ("rank",),
    "score": ("score", "sim"),
}
"""Column names of visir, ir_measures (query_id, doc_id), ranx (q_id, doc_id), PyTerrier (qid, docno) and BEIR."""


def _from_frame(
    frame: Any,
    *,
    order: Order = "rank",
    where: str = "the frame",
    provenance: dict[str, Any] | None = None,
    **about: Any,
) -> Run:
    """A run from a data frame of pandas or polars, or an Arrow table; the column of ranks may be missing."""
    present = [str(column) for column in getattr(frame, "column_names", frame.columns)]
    chosen = {column: next((name for name in names if name in present), None) for column, names in _COLUMNS.items()}
    by_rank = chosen["score"] is None and chosen["rank"] is not None
    missing = [column for column, name in chosen.items() if name is None and column != "rank"]
    missing = missing if not by_rank else [column for column in missing if column != "score"]
    if missing:
        raise RunError(
            f"{where} has no column {missing[0]!r}; it has {', '.join(present)}.",
            hint=f"name it so; known names: {', '.join(_COLUMNS[missing[0]])}",
            code="no-column",
        )
    values = {column: np.asarray(frame[name]) for column, name in chosen.items() if name is not None}
    numbers = {column: _floats(values[column], column, where) for column in ("rank", "score") if column in values}
    if by_rank:
        provenance = (provenance or {}) | {NOTES: [NO_SCORES]}
    return run_of(
        [str(query) for query in values["query_id"]],
        [str(document) for document in values["document_id"]],
        -numbers["rank"] if by_rank else numbers["score"],
        lambda i: f"{where}, row {i + 1}",
        ranks=numbers.get("rank"),
        order=order,
        provenance=provenance,
        **about,
    )


def _floats(values: NDArray[Any], column: str, where: str) -> NDArray[np.float64]:
    """A column of numbers; those of a text table are texts."""
    try:
        return values.astype(np.float64)
    except (OverflowError, TypeError, ValueError):
        for row, value in enumerate(values, 1):
            _number(where, f"row {row}", column, value)
        raise


def to_ir_measures(run: Run) -> dict[str, dict[str, float]]:
    """Return the run for `ir_measures.calc(measures, qrels, run)`: its order without ties. Qrels: `qrels_to_dict`."""
    return run.to_dict(keep_order=True)


def qrels_to_dict(qrels: Qrels) -> dict[str, dict[str, int]]:
    """Return {query: {document: grade}} with whole grades, as ir_measures and ranx read them.

    Raises:
        CollectionError: A grade is not a whole number.
    """
    check_whole_grades(qrels)
    return {query: {d: int(grade) for d, grade in judged.items()} for query, judged in qrels.to_dict().items()}


def to_ranx(run: Run, *, keep_order: bool = True) -> ranx.Run:
    """Return the run as a `ranx.Run` of the same name; `keep_order` as in `Run.to_dict`."""
    try:
        import ranx
    except ImportError:
        raise MissingPackageError("ranx", extra="interop", purpose="A run for ranx") from None
    return ranx.Run(run.to_dict(keep_order=keep_order), name=run.name)


Order = Literal["rank", "score"]
"""The order of equal scores: by the rank column of the file, which is the order of its authors, whose scores may be
rounded ("rank"), or by document id ("score"). Scores decide in both; where ranks repeat, equal scores go by document id
too. trec_eval ignores the rank column and breaks ties by *falling* document id."""

NO_SCORES = "it has ranks and no scores: the order is that of the ranks"
"""The note of a run whose scores are its ranks, turned round."""
NOTES = "notes"
"""Where the provenance of a run says what a reader must know of how it was read."""
UNNAMED = "run"
"""The task of a run that does not say its task."""


def run_of(
    queries: object,
    documents: object,
    scores: NDArray[Any],
    where: Callable[[int], str],
    *,
    name: str,
    task: str | None = None,
    gallery: Gallery | None = None,
    depth: int | None = None,
    ranks: NDArray[Any] | None = None,
    order: Order = "score",
    provenance: dict[str, Any] | None = None,
) -> Run:
    """Make a run from parallel columns; queries keep the order in which they first occur."""
    # queries: (m,) query ids.
    # documents: (m,) document ids.
    # scores: (m,) scores.
    # ranks: (m,) ranks, or None.
    query, document = strings(queries), strings(documents)
    gallery = gallery or Gallery.unknown()
    if len(query) == 0:
        raise RunError(f"{where(0)}: the run is empty.")
    coded = query.dictionary_encode()
    code = coded.indices.to_numpy().astype(np.int64)
    if not np.isfinite(scores).all():
        raise RunError(
            f"{where(int(np.flatnonzero(~np.isfinite(scores))[0]))}: the score is not a finite number.",
            hint="leave out what was not scored; give what is to be last a low number",
        )
    _check_in_gallery(document, gallery, where)
    used = np.zeros(len(code)) if order == "score" or ranks is None else ranks
    seats = np.lexsort((used, -scores, code))
    inner = code[seats][1:] == code[seats][:-1]
    if np.any(inner & (np.diff(scores[seats]) == 0) & (np.diff(used[seats]) == 0)):
        by_id = np.empty(len(document), np.int64)
        by_id[pc.sort_indices(document).to_numpy()] = np.arange(len(document))
        seats = np.lexsort((by_id, used, -scores, code))
    notes = (
        [] if used is not ranks else _notes_on_ranks(code[seats], ranks[seats], scores[seats], len(coded.dictionary))
    )
    _check_no_duplicates(code, document, query, where)
    answered = np.bincount(code, minlength=len(coded.dictionary))
    listed = document.take(pa.array(seats)).dictionary_encode()
    return Run(
        name,
        task or UNNAMED,
        strings(coded.dictionary),
        np.concatenate([[0], np.cumsum(answered)]).astype(np.int64),
        strings(listed.dictionary),
        listed.indices.to_numpy().astype(np.int32),
        narrow(scores[seats]),
        gallery,
        depth or int(answered.max()),
        (provenance or {}) | ({NOTES: notes} if notes else {}),
    )


def narrow(scores: NDArray[Any]) -> NDArray[Any]:
    """Return scores as float32 if that loses nothing, else as float64: a text file does not state the type."""
    small = scores.astype(np.float32)
    return small if np.array_equal(small.astype(np.float64), scores.astype(np.float64)) else scores.astype(np.float64)


def check_whole_grades(qrels: Qrels) -> None:
    """Check that all grades are whole numbers, as trec_eval and similar tools require."""
    fractions = qrels.grades[qrels.grades % 1 != 0]
    if len(fractions):
        raise CollectionError(
            f"qrels {qrels.name}: the grade {fractions[0]} is not a whole number, as TREC asks.",
            hint="scale the grades, or keep only positives at a threshold",
            code="grade-not-whole-number",
        )


def _check_in_gallery(documents: pa.StringArray, gallery: Gallery, where: Callable[[int], str]) -> None:
    if gallery.ids is None:
        return
    outside = np.flatnonzero(~pc.is_in(documents, gallery.ids).to_numpy(zero_copy_only=False))
    if len(outside):
        raise RunError(
            f"{where(int(outside[0]))}: document {documents[int(outside[0])].as_py()!r} is not in the gallery "
            f"({gallery.size:,} · {gallery.description}); {len(outside):,} such rows in all.",
            hint="was it made over a larger gallery? Declare that one",
        )


def _notes_on_ranks(code: NDArray[np.int64], ranks: NDArray[Any], scores: NDArray[Any], queries: int) -> list[str]:
    """A note where the ranks of a query repeat, or are in another order than its scores."""
    inner = code[1:] == code[:-1]
    odd = len(np.unique(code[1:][inner & ~(np.diff(ranks) > 0)]))
    if not odd:
        return []
    falls = np.diff(scores) < 0
    reverse = bool((inner & falls).any() and (np.diff(ranks) < 0)[inner & falls].all())
    return [
        f"the ranks of {odd:,} of {counted(queries, 'queries')} repeat or contradict the scores; the scores decide, "
        "and among equal ones the document id"
        + (". Everywhere the highest score has the last rank: if these are distances, negate them" if reverse else "")
    ]


def _check_no_duplicates(
    code: NDArray[np.int64], document: pa.StringArray, query: pa.StringArray, where: Callable[[int], str]
) -> None:
    coded = document.dictionary_encode()
    pairs = code * len(coded.dictionary) + coded.indices.to_numpy()
    order = np.argsort(pairs, kind="stable")
    twice = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
    if len(twice):
        row = int(order[twice[0] + 1])
        raise RunError(
            f"{where(row)}: query {query[row].as_py()!r} lists document {document[row].as_py()!r} twice.",
            hint="leave one of the two out; of joined runs keep the better score",
        )


# Runs in files.


def _read_trec(path: str | Path, *, order: Order = "rank", name: str | None = None, **about: Any) -> Run:
    """Read a TREC run: `query Q0 document rank score tag` on each line; what follows the tag is ignored."""
    # Without a tag, or of three columns as well: `query document rank` where every query's are 1, 2, … (MS MARCO), else
    # `query document score`.
    given = enumerate(read_text(path).replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1)
    lines = [(number, _cells(line)) for number, line in given if line.strip() and not is_comment(line, is_trec)]
    width = min(len(lines[0][1]), 6) if lines else 6
    for number, fields in lines:
        if width not in (3, 5, 6) or min(len(fields), 6) != width:
            raise RunError(
                f"{path}, line {number}: {len(fields)} fields; a TREC run has six: query Q0 document rank score tag.",
                hint="also read: query document rank, and tables (.csv, .tsv, .jsonl) with names of columns; ids with "
                "spaces cannot be written in this format: use one of these, or Parquet",
            )
        if len(fields) > 6 and is_number(fields[5]):  # a rank, a score and one more: where an id ends is not known
            raise RunError(
                f"{path}, line {number}: {len(fields)} fields, and the sixth is the number {fields[5]}; a TREC run has "
                f"six: query Q0 document rank score tag. The line is {' '.join(fields)[:200]!r}.",
                hint="if an id has spaces, separate the fields by tabs, or use a table (.csv, .tsv, .jsonl) or "
                "Parquet; if the tag begins with a number, leave its spaces out",
                code="fields-shifted",
            )
    document, score = (1, 2) if width == 3 else (2, 4)

    def numbers(field: str, at: int) -> NDArray[np.float64]:
        try:
            return np.array([float(fields[at]) for _, fields in lines], np.float64)
        except ValueError:  # which line it is
            return np.array([_number(path, f"line {number}", field, fields[at]) for number, fields in lines])

    ranks, scores = None if width == 3 else numbers("rank", 3), numbers("score", score)
    queries, documents = [fields[0] for _, fields in lines], [fields[document] for _, fields in lines]
    provenance: dict[str, Any] = {"read": str(Path(path).name), "order": order}
    if width == 3 and _are_ranks(queries, [fields[2] for _, fields in lines]):
        scores, provenance = -scores, provenance | {NOTES: [NO_SCORES]}
    return run_of(
        queries,
        documents,
        scores,
        lambda i: f"{path}, line {lines[i][0]}" if lines else str(path),
        name=name or (lines[0][1][5] if lines and width == 6 else Path(path).stem),
        ranks=ranks,
        order=order,
        provenance=provenance,
        **about,
    )


def _cells(line: str) -> list[str]:
    """The fields of a line of a run: between tabs, where these alone make a run of it, else between white space."""
    fields = line.split()
    if "\t" not in line or " " not in line:
        return fields
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) == len(fields) or not all(cells):
        return fields
    is_run = len(cells) >= 5 or (len(cells) == 3 and " " not in cells[0])
    return cells if is_run and is_number(cells[min(len(cells), 5) - 1]) else fields


def _are_ranks(queries: list[str], texts: list[str]) -> bool:
    """Whether the numbers of each query are 1, 2, … or 0, 1, …, in any order."""
    if not all(text.isdecimal() for text in texts):
        return False
    by_query: dict[str, list[int]] = {}
    for query, text in zip(queries, texts, strict=True):
        by_query.setdefault(query, []).append(int(text))
    starts = [min(ranks) for ranks in by_query.values()]
    return set(starts) <= {0, 1} and all(
        sorted(ranks) == list(range(start, start + len(ranks)))
        for start, ranks in zip(starts, by_query.values(), strict=True)
    )


def _read_rows(path: str | Path, *, order: Order = "rank", **about: Any) -> Run:
    """Read a text table or JSON lines with columns that are known."""
    rows = list(read_rows(Path(path)))
    names = list(rows[0][1]) if rows else []
    used = {next((name for name in known if name in names), ""): column for column, known in _COLUMNS.items()}
    columns: dict[str, Any] = {}
    for name in names:
        # Numbers as ids are texts; columns that no one asks for may hold anything.
        if used.get(name) in ("query_id", "document_id"):
            columns[name] = [id if type(id := row.get(name)) is str else _id(path, place, id) for place, row in rows]
        elif name in used:
            try:
                columns[name] = [float(row[name]) for _, row in rows]
            except (KeyError, OverflowError, TypeError, ValueError):  # which row it is
                at = enumerate(rows, 1)
                columns[name] = [_number(path, f"row {n}", used[name], row.get(name)) for n, (_, row) in at]
        else:
            columns[name] = pa.nulls(len(rows))
    return _from_file(pa.table(columns), path, order, **about)


def _id(path: str | Path, place: str, value: object) -> str:
    try:
        return id_of(value)
    except TypeError as fault:
        raise RunError(f"{path}, {place}: {fault}.", hint="give every row its two ids", code="no-id-in-row") from None


def _from_file(table: pa.Table, path: str | Path, order: Order, *, name: str | None = None, **about: Any) -> Run:
    read = {"read": Path(path).name, "order": order}
    return _from_frame(table, order=order, where=str(path), name=name or Path(path).stem, provenance=read, **about)


def _write_trec(run: Run, path: str | Path, *, replace: bool = False) -> None:
    """Write a TREC run, with all digits of the scores; the format has no gallery, task and depth."""
    for ids, kind in ((run.queries, "query"), (run.documents, "document")):
        for identifier in ids.to_pylist():
            if not identifier or identifier.split() != [identifier]:
                raise RunError(
                    f"run {run.name}: {kind} id {identifier!r} has white space, which ends a field in TREC files.",
                    hint="write Parquet or JSON",
                    code="id-white-space-ends",
                )
    silent = np.flatnonzero(np.diff(run.offsets) == 0)
    if len(silent):
        raise RunError(
            f"run {run.name}: {len(silent)} queries are answered with nothing (e.g. {run.queries[int(silent[0])]}); "
            "TREC files cannot say so.",
            hint="write Parquet or JSON",
            code="queries-answered-nothing",
        )
    tag = "_".join(run.name.split()) or "visir"
    table = run.to_arrow()
    columns = [table[name].to_pylist() for name in ("query_id", "document_id", "rank")]
    rows = zip(*columns, run.scores.astype(np.float64).tolist(), strict=True)
    data = "".join(f"{q} Q0 {d} {r} {s!r} {tag}\n" for q, d, r, s in rows).encode()
    write_new(path, data, replace=replace)


def write_qrels(qrels: Qrels, path: str | Path, *, replace: bool = False) -> None:
    """Write TREC qrels.

    Raises:
        CollectionError: A grade is not a whole number; trec_eval reads no others.
    """
    check_whole_grades(qrels)
    rows = ((q, d, g) for q, judged in qrels.to_dict().items() for d, g in judged.items())
    write_new(path, "".join(f"{q} 0 {d} {int(g)}\n" for q, d, g in rows).encode(), replace=replace)


def is_trec(line: str) -> bool:
    """Whether a line is one of a TREC run: six fields or more, the fourth a rank and the fifth a number."""
    fields = _cells(line)
    try:
        return len(fields) >= 6 and float(fields[3]) >= 0 and float(fields[4]) == float(fields[4])
    except ValueError:
        return False


def _number(path: str | Path, place: str, field: str, text: Any) -> float:
    try:
        return float(text)
    except OverflowError:
        raise RunError(
            f"{path}, {place}: the {field} is too large for a number of 64 bits.",
            hint="scale the scores",
            code="score-too-large",
        ) from None
    except (TypeError, ValueError):
        hint = "decimals have a point" if "," in str(text) else ""
        raise RunError(f"{path}, {place}: the {field} {text!r} is not a number.", hint=hint) from None


VERSION = 1
"""The version of both forms of run files, JSON and Parquet."""
REMEDY = "search again: visir index search, or visir evaluate … --out FOLDER"


def _own_run(
    facts: Mapping[str, Any], queries: object, counts: Any, documents: object, scores: NDArray[Any], ids: object
) -> Run:
    """A run of what a file of visir's own says of it; `counts`: how many answers a query has; `ids`: the gallery."""
    known, coded = facts["gallery"], strings(documents).dictionary_encode()
    return Run(
        facts["name"],
        facts["task"],
        strings(queries),
        np.cumsum([0, *counts]).astype(np.int64),
        strings(coded.dictionary),
        coded.indices.to_numpy().astype(np.int32),
        scores,
        Gallery(known["modality"], ids if ids is None else strings(ids), known["size"], known["description"]),
        facts["depth"],
        facts["provenance"],
    )


def _about(gallery: Gallery) -> dict[str, Any]:
    return {"modality": gallery.modality, "size": gallery.size, "description": gallery.description}


def _write_json(run: Run, path: str | Path, *, replace: bool = False) -> None:
    """Write one object: the fields of the run, and `answers`: {query: [[document, score], …]}, best first."""
    ids = run.documents.to_pylist()
    scores, indices = run.scores.astype(np.float64).tolist(), run.indices.tolist()
    cuts = zip(run.queries.to_pylist(), run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True)
    gallery = run.gallery
    write_new(
        path,
        json_bytes(
            {
                "visir_run": VERSION,
                "name": run.name,
                "task": run.task,
                "depth": run.depth,
                "scores": str(run.scores.dtype),
                "gallery": _about(gallery) | {"ids": None if gallery.ids is None else gallery.ids.to_pylist()},
                "provenance": run.provenance,
                "answers": {q: [[ids[indices[e]], scores[e]] for e in range(a, b)] for q, a, b in cuts},
            }
        ),
        replace=replace,
    )


def _read_json(path: str | Path, *, name: str | None = None, **about: Any) -> Run:
    """Read visir's own JSON, or nested dictionaries (by falling score, ties by id)."""
    given = read_json(path)
    if isinstance(given, dict) and "visir_run" in given and not isinstance(given["visir_run"], dict):
        check_version(given["visir_run"], VERSION, path, what="run", remedy=REMEDY, error=RunError)
        try:
            answers = given["answers"]
            pairs = [pair for answer in answers.values() for pair in answer]
            scores = np.array([score for _, score in pairs], given["scores"])
            documents, counts = [document for document, _ in pairs], [len(answer) for answer in answers.values()]
            return _own_run(given, list(answers), counts, documents, scores, given["gallery"]["ids"])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as fault:
            raise RunError(f"{path}: damaged ({type(fault).__name__}: {fault}).", hint="copy it again") from fault
    if not isinstance(given, dict) or not all(isinstance(answer, dict) for answer in given.values()):
        raise RunError(f"{path}: expected an object of objects, {{query: {{document: score}}}}.")
    check_keys_once(path, read_bytes(path), given, RunError)
    return _from_dict(given, str(path), name=name or Path(path).stem, **about)


_RUN, _GALLERY, _QUERIES = b"visir.run", b"visir.gallery", b"visir.queries"


def _write_parquet(run: Run, path: str | Path, *, replace: bool = False) -> None:
    """Write the columns query_id, document_id, rank (from 1) and score."""
    # Name, task, depth, gallery (with its ids) and provenance are in the metadata of the schema.
    facts = {
        "version": VERSION,
        "name": run.name,
        "task": run.task,
        "depth": run.depth,
        "provenance": run.provenance,
        "gallery": _about(run.gallery),
    }
    metadata = {_RUN: orjson.dumps(facts, option=orjson.OPT_SERIALIZE_NUMPY), _QUERIES: _pack(run.queries)}
    if run.gallery.ids is not None:
        metadata[_GALLERY] = _pack(run.gallery.ids)
    table = run.to_arrow().replace_schema_metadata(metadata)
    with new_file(path, replace=replace) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _read_parquet(
    path: str | Path, task: str | None = None, gallery: Gallery | None = None, *, order: Order = "rank", **about: Any
) -> Run:
    """Read a file of `write`, or any Parquet file with columns that are known."""
    try:
        table = read_table(path)
    except (pa.ArrowInvalid, OSError) as fault:
        raise RunError(f"{path}: not a readable Parquet file: {fault}", code="not-readable-parquet-file") from fault
    metadata = table.schema.metadata or {}
    if _RUN in metadata and gallery is None and task is None:
        try:
            return _own_table(table, metadata, path)
        except VisirError:
            raise
        except Exception as fault:  # packed ids in the metadata, whose reader raises nearly anything
            raise RunError(f"{path}: damaged ({type(fault).__name__}: {fault}).", hint="copy it again") from fault
    return _from_file(table, path, order, task=task, gallery=gallery, **about)


def _own_table(table: pa.Table, metadata: dict[bytes, bytes], path: str | Path) -> Run:
    facts = orjson.loads(metadata[_RUN])
    check_version(facts.get("version"), VERSION, path, what="run", remedy=REMEDY, error=RunError)
    ids = _unpack(metadata[_GALLERY]) if _GALLERY in metadata else None
    queries = _unpack(metadata[_QUERIES])
    place = pc.index_in(table["query_id"], queries).to_numpy()
    counts = np.bincount(place.astype(np.int64), minlength=len(queries))
    return _own_run(facts, queries, counts, table["document_id"], table["score"].to_numpy(), ids)


def _pack(ids: pa.StringArray) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"id": ids})
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpack(packed: bytes) -> pa.StringArray:
    return strings(pa.ipc.open_stream(packed).read_all()["id"])


class RunFormat(NamedTuple):
    """How runs of a format are read and written."""

    read: Callable[..., Run]
    write: Callable[..., None]


FORMATS: Registry[RunFormat] = Registry("run format")
FORMATS.add("trec", RunFormat(_read_trec, _write_trec))
FORMATS.add("parquet", RunFormat(_read_parquet, _write_parquet))
FORMATS.add("json", RunFormat(_read_json, _write_json))
_SUFFIXES = {".trec": "trec", ".run": "trec", ".txt": "trec", ".res": "trec", ".parquet": "parquet", ".json": "json"}
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")


def read_file(path: str | Path, *, format: str | None = None, **options: Any) -> Run:
    """Read a run from a file; `visir.read_run` says what the options are."""
    check_written(path)
    form = format or run_form(path)
    with gc_paused():
        read = _read_rows if form == "table" else FORMATS.get(form or _format_of(path)).read
        return read(path, **options)


def run_form(path: str | Path) -> str:
    """The format of a file with a run: by its suffix, else by its columns, or its first line; "" for any other."""
    suffix = _suffix(path)
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix in _TABLES:
        columns = set(sniffed_columns(Path(path)))
        known = [not columns.isdisjoint(_COLUMNS[name]) for name in ("query_id", "document_id")]
        if all(known) and not columns.isdisjoint((*_COLUMNS["score"], *_COLUMNS["rank"])):
            return "table"
    line = _first_line(path)
    return "trec" if is_trec(line) or (suffix == ".tsv" and _has_three(line)) else ""


def _has_three(line: str) -> bool:
    fields = _cells(line)
    return len(fields) == 3 and fields[2].replace(".", "", 1).lstrip("-").isdecimal()


def _first_line(path: str | Path) -> str:
    """The first line of a text after comments; "" for what is no text in UTF-8."""
    try:
        lines = (line.decode("utf-8").partition("\r")[0] for line in iter_lines(path)) if is_file(path) else iter(())
        return next((line for line in lines if line.strip() and not is_comment(line, is_trec)), "")
    except (VisirError, UnicodeDecodeError, OSError, ValueError):  # or no name that a file can have
        return ""


def write_run(run: Run, path: str | Path, *, format: str | None = None, replace: bool = False) -> None:
    """Write a run to a file, completely or not at all.

    Parquet and JSON store the whole run; TREC stores order, scores and name.

    Args:
        run: The run.
        path: The file.
        format: A name in `FORMATS`; None takes it from the suffix.
        replace: Whether to replace an existing file.

    Raises:
        FolderError: The file exists, and `replace` is false.
        RunError: The format is unknown, or cannot store this run.

    Example:
        >>> from visir.records import Gallery
        >>> run = Run.ranked("toy", "t2i", ["q"], ["a"], [0.5], Gallery.of("image", ["a", "b"]))
        >>> write_run(run, "toy.json")
        >>> read_file("toy.json").gallery.ids.to_pylist()
        ['a', 'b']
    """
    form = format or _format_of(path)
    if form == "parquet" and Path(path).suffix in (".gz", ".xz"):
        raise RunError(f"{path}: Parquet is packed already, and is not read back under this name.",
                       hint=f"name it {Path(path).with_suffix('').name}",
                       code="parquet-packed-already-not")  # fmt: skip
    FORMATS.get(form).write(run, path, replace=replace)


def _suffix(path: str | Path) -> str:
    suffixes = [suffix for suffix in Path(path).suffixes if suffix not in (".gz", ".xz")]
    return suffixes[-1].lower() if suffixes else ""


def _format_of(path: str | Path) -> str:
    suffix = _suffix(path)
    if suffix not in _SUFFIXES:
        raise RunError(
            f"{path}: the suffix {suffix!r} tells no run format.",
            hint=f"name it (format=...): {', '.join(FORMATS)}; or use one of {' '.join(_SUFFIXES)}",
            code="suffix-tells-no-run",
        )
    return _SUFFIXES[suffix]
