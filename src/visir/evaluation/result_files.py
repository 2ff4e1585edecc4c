"""The files of a result folder: which folder is one, and what its tables are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from visir.errors import VisirError
from visir.files import read_json
from visir.records import Qrels, Run
from visir.retrieval.formats import read_run
from visir.storage import FolderKind, check_version

FORMAT = 2
RESULT = FolderKind("result", "a result", remedy="evaluate again: visir evaluate … --out FOLDER")


def is_result(path: str | Path) -> bool:
    """Whether a path is a folder with a result, or a `result.json`."""
    path = Path(path)
    return (path / "result.json").is_file() or (path.name == "result.json" and path.is_file())


def open_result(given: str | Path) -> tuple[Path, dict[str, Any]]:
    """Open the folder of a result.

    Args:
        given: The folder, or its `result.json`.

    Returns:
        The folder, and what its `result.json` says.

    Raises:
        VisirError: There is no result, or one of another version.
    """
    folder = Path(given)
    folder = folder.parent if folder.name == "result.json" else folder
    if not (folder / "result.json").is_file():
        raise VisirError(
            f"{folder}: {'no result.json in it' if folder.is_dir() else 'no such folder'}.",
            hint="name the folder that visir evaluate --out wrote; without result.json an evaluation did not finish",
        )
    content = read_json(folder / "result.json")
    if not isinstance(content, dict) or "visir_result" not in content:
        raise VisirError(f"{folder / 'result.json'}: not a result of visir evaluate.", hint=RESULT.remedy)
    path = folder / "result.json"
    check_version(content["visir_result"], FORMAT, path, what="result", remedy=RESULT.remedy)
    return folder, content


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file of a result.

    Raises:
        VisirError: It is missing, or cannot be read.
    """
    if not path.is_file():
        raise VisirError(
            f"{path} belongs to the result and is missing.", hint="copy the whole folder, or evaluate again"
        )
    try:
        return pq.read_table(path)
    except pa.ArrowInvalid as fault:
        raise VisirError(f"{path}: not a readable Parquet file: {fault}", hint="evaluate again") from fault


def runs_and_qrels(folder: Path, files: list[str]) -> tuple[dict[str, Run], dict[str, Qrels]]:
    """Read the runs and the judgements of a result, by task.

    Args:
        folder: The folder.
        files: The names of its files.
    """
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
