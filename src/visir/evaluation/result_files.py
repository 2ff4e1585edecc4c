"""Results on disk: plain open files in one folder, written atomically.

    result.json              protocol, aggregates, versions, timing, notes, and the list of files
    per_query_{task}.parquet query_id and one column per measure
    run_{task}.parquet       the answers of the search (`visir.retrieval.formats`)
    qrels_{task}.parquet     the judgements: query_id, document_id, grade
    labels_{task}.parquet    query_id and one column per label, for tasks whose queries have labels
    chance_{task}.parquet    query_id and the expected value of measures under random scores, for tasks with pools
    captions.parquet         id, image_id of the captions that took part, in the source's order

The folder appears when it is complete, and what is read back has the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.errors import VisirError
from visir.evaluation.measures.measure import beyond_rank
from visir.files import read_json
from visir.parquet import read_table as read_parquet
from visir.records import Protocol, Qrels, Result, Run
from visir.retrieval.formats import read_run, write_run
from visir.storage import MANIFEST, FolderChange, FolderKind, Manifest, check_version, check_written

FORMAT = 2
RESULT = FolderKind("result", "a result", remedy="evaluate again: visir evaluate … --out FOLDER")


def is_result(path: str | Path) -> bool:
    """Whether a path is a folder with a result, or a `result.json`."""
    path = Path(path)
    return (path / "result.json").is_file() or (path.name == "result.json" and path.is_file())


def open_result(given: str | Path) -> tuple[Path, dict[str, Any]]:
    """Open the folder of a result."""
    folder = Path(given)
    folder = folder.parent if folder.name == "result.json" else folder
    if not (folder / "result.json").is_file():
        if (folder / MANIFEST).is_file():
            Manifest.read(folder)  # a damaged one tells no kind
        raise VisirError(
            f"{folder}: {'no result.json in it' if folder.is_dir() else 'no such folder'}.",
            hint="name the folder that visir evaluate --out wrote; without result.json an evaluation did not finish",
        )
    content = read_json(folder / "result.json")
    if not isinstance(content, dict) or "visir_result" not in content:
        raise VisirError(
            f"{folder / 'result.json'}: not a result of visir evaluate.",
            hint=RESULT.remedy,
            code="not-result-visir-evaluate",
        )
    path = folder / "result.json"
    check_version(content["visir_result"], FORMAT, path, what="result", remedy=RESULT.remedy)
    check_written(path)
    return folder, content


def write_result(
    change: FolderChange, result: Result, runs: Mapping[str, Run], qrels: Mapping[str, Qrels], folder: str = ""
) -> None:
    """Write the files of a result into a folder that is being created."""
    files: list[str] = []

    def table(name: str, content: pa.Table) -> None:
        pq.write_table(content, change.file(folder + name), compression="zstd")
        files.append(name)

    for task, values in result.per_query.items():
        table(f"per_query_{task}.parquet", values)
    for task, run in runs.items():
        write_run(run, change.file(f"{folder}run_{task}.parquet"))
        files.append(f"run_{task}.parquet")
    for task, judged in qrels.items():
        queries = judged.queries.take(pa.array(np.repeat(np.arange(len(judged)), np.diff(judged.offsets))))
        columns = {"query_id": queries, "document_id": judged.documents, "grade": judged.grades}
        table(f"qrels_{task}.parquet", pa.table(columns).replace_schema_metadata({"relevance": judged.name}))
    for kind, tables in (("labels", result.labels), ("chance", result.chance)):
        for task, content in tables.items():
            table(f"{kind}_{task}.parquet", content)
    if result.captions is not None:
        table("captions.parquet", result.captions)
    change.write_json(f"{folder}result.json", {"visir_result": FORMAT, **result.to_dict(), "files": files})


def read_result(folder: Path, content: Mapping[str, Any]) -> Result:
    """Read a result from its files."""
    protocol = Protocol.from_dict(content["protocol"])
    if protocol.fingerprint != content["protocol_fingerprint"]:
        raise VisirError(
            f"{folder / 'result.json'}: the protocol was altered after the evaluation (its hash does not fit).",
            hint="evaluate again; a number must not travel with another protocol",
            code="protocol-altered-after-evaluation",
        )

    def by_task(kind: str) -> dict[str, pa.Table]:
        return {
            name.removeprefix(kind).removesuffix(".parquet"): read_table(folder / name)
            for name in content["files"]
            if name.startswith(kind)
        }

    per_query = by_task("per_query_")
    beyond = content.get("beyond")
    if beyond is None:  # written before results counted them
        last = protocol.depth
        counts = {} if last is None else {task: beyond_rank(table, last) for task, table in per_query.items()}
        beyond = {task: count for task, count in counts.items() if count}
    return Result(
        content["system"],
        protocol,
        per_query,
        content["aggregates"],
        content["versions"],
        content["timing"],
        tuple(content["notes"]),
        read_table(folder / "captions.parquet") if "captions.parquet" in content["files"] else None,
        content.get("origins", {}),
        by_task("labels_"),
        by_task("chance_"),
        beyond,
    )


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file of a result."""
    if not path.is_file():
        raise VisirError(
            f"{path} belongs to the result and is missing.",
            hint="copy the whole folder, or evaluate again",
            code="belongs-result-missing",
        )
    try:
        return read_parquet(path)
    except pa.ArrowInvalid as fault:
        raise VisirError(
            f"{path}: not a readable Parquet file: {fault}", hint="evaluate again", code="not-readable-parquet-file"
        ) from fault


def runs_and_qrels(folder: Path, files: list[str]) -> tuple[dict[str, Run], dict[str, Qrels]]:
    """Read the runs and the judgements of a result, by task."""
    runs: dict[str, Run] = {}
    qrels: dict[str, Qrels] = {}
    for file in files:
        kind, _, task = file.removesuffix(".parquet").partition("_")
        if kind == "run":
            runs[task] = read_run(folder / file)
        elif kind == "qrels":
            judged = read_table(folder / file)
            name = (judged.schema.metadata or {}).get(b"relevance", b"links").decode()
            qrels[task] = Qrels.of(judged["query_id"], judged["document_id"], judged["grade"].to_numpy(), name=name)
    return runs, qrels
