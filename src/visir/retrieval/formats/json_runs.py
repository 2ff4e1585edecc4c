"""Runs as JSON: visir's own form, which is lossless, and `{query: {document: score}}` of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from visir.errors import RunError
from visir.files import json_bytes, read_json
from visir.records import Gallery, Run, strings
from visir.retrieval.formats.dictionaries import from_dict
from visir.storage import check_version, write_new

VERSION = 1
"""The version of both forms of run files, JSON and Parquet."""
REMEDY = "search again: visir index search, or visir evaluate … --out FOLDER"


def write(run: Run, path: str | Path, *, replace: bool = False) -> None:
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
                "gallery": {
                    "modality": gallery.modality,
                    "size": gallery.size,
                    "description": gallery.description,
                    "ids": None if gallery.ids is None else gallery.ids.to_pylist(),
                },
                "provenance": run.provenance,
                "answers": {q: [[ids[indices[e]], scores[e]] for e in range(a, b)] for q, a, b in cuts},
            }
        ),
        replace=replace,
    )


def read(
    path: str | Path,
    task: str | None = None,
    gallery: Gallery | None = None,
    *,
    depth: int | None = None,
    name: str | None = None,
) -> Run:
    """Read visir's own JSON, or nested dictionaries (by falling score, ties by id)."""
    given = read_json(path)
    if isinstance(given, dict) and "visir_run" in given and not isinstance(given["visir_run"], dict):
        check_version(given["visir_run"], VERSION, path, what="run", remedy=REMEDY, error=RunError)
        try:
            return _own(given)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as fault:
            raise RunError(f"{path}: damaged ({type(fault).__name__}: {fault}).", hint="copy it again") from fault
    if not isinstance(given, dict) or not all(isinstance(answer, dict) for answer in given.values()):
        raise RunError(f"{path}: expected an object of objects, {{query: {{document: score}}}}.")
    return from_dict(given, task, gallery, name=name or Path(path).stem, depth=depth, where=str(path))


def _own(given: dict[str, Any]) -> Run:
    known = given["gallery"]
    pairs = [pair for answer in given["answers"].values() for pair in answer]
    documents = strings([document for document, _ in pairs]).dictionary_encode()
    return Run(
        given["name"],
        given["task"],
        strings(list(given["answers"])),
        np.cumsum([0, *map(len, given["answers"].values())]).astype(np.int64),
        strings(documents.dictionary),
        documents.indices.to_numpy().astype(np.int32),
        np.array([score for _, score in pairs], given["scores"]),
        Gallery(
            known["modality"],
            None if known["ids"] is None else strings(known["ids"]),
            known["size"],
            known["description"],
        ),
        given["depth"],
        given["provenance"],
    )
