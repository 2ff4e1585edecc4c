"""TREC run files: `query Q0 document rank score tag`, one answer per line, and TREC qrels.

What follows the tag on a line is ignored, as trec_eval ignores it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from visir.errors import RunError
from visir.files import is_comment, read_lines
from visir.records import Gallery, Qrels, Run
from visir.retrieval.formats.build import Order, check_whole_grades, run_of
from visir.storage import write_new


def read(
    path: str | Path,
    task: str | None = None,
    gallery: Gallery | None = None,
    *,
    order: Order = "rank",
    depth: int | None = None,
    name: str | None = None,
) -> Run:
    """Read a TREC run."""
    given = enumerate(read_lines(path), 1)
    lines = [(number, line.split()) for number, line in given if line.strip() and not is_comment(line, is_trec)]
    for number, fields in lines:
        if len(fields) < 6:
            raise RunError(
                f"{path}, line {number}: {len(fields)} fields; a TREC run has six: query Q0 document rank score tag.",
                hint="ids with spaces cannot be written in this format; use Parquet",
            )
    ranks = np.array([_number(path, number, "rank", fields[3], float) for number, fields in lines], np.float64)
    scores = np.array([_number(path, number, "score", fields[4], float) for number, fields in lines], np.float64)
    return run_of(
        name or (lines[0][1][5] if lines else Path(path).stem),
        task,
        gallery,
        [fields[0] for _, fields in lines],
        [fields[2] for _, fields in lines],
        scores,
        ranks,
        order=order,
        depth=depth,
        where=lambda i: f"{path}, line {lines[i][0]}" if lines else str(path),
        provenance={"read": str(Path(path).name), "order": order},
    )


def write(run: Run, path: str | Path, *, replace: bool = False) -> None:
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
    fields = line.split()
    try:
        return len(fields) >= 6 and float(fields[3]) >= 0 and float(fields[4]) == float(fields[4])
    except ValueError:
        return False


def _number(path: str | Path, number: int, field: str, text: str, kind: Any) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise RunError(f"{path}, line {number}: the {field} {text!r} is not a number.") from None
