"""Runs as Parquet, lossless: a table with one row per answer, and everything else in the metadata of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from visir.errors import RunError, VisirError
from visir.parquet import read_table
from visir.records import Gallery, Run, strings
from visir.retrieval.formats.build import Order
from visir.retrieval.formats.dictionaries import from_frame
from visir.retrieval.formats.json_runs import REMEDY, VERSION
from visir.storage import check_version, new_file

_RUN, _GALLERY, _QUERIES = b"visir.run", b"visir.gallery", b"visir.queries"


def write(run: Run, path: str | Path, *, replace: bool = False) -> None:
    """Write the columns query_id, document_id, rank (from 1) and score."""
    # Name, task, depth, gallery (with its ids) and provenance are in the metadata of the schema.
    facts = {
        "version": VERSION,
        "name": run.name,
        "task": run.task,
        "depth": run.depth,
        "provenance": run.provenance,
        "gallery": {"modality": run.gallery.modality, "size": run.gallery.size, "description": run.gallery.description},
    }
    metadata = {_RUN: orjson.dumps(facts, option=orjson.OPT_SERIALIZE_NUMPY), _QUERIES: _pack(run.queries)}
    if run.gallery.ids is not None:
        metadata[_GALLERY] = _pack(run.gallery.ids)
    table = run.to_arrow().replace_schema_metadata(metadata)
    with new_file(path, replace=replace) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read(
    path: str | Path,
    task: str | None = None,
    gallery: Gallery | None = None,
    *,
    order: Order = "rank",
    depth: int | None = None,
    name: str | None = None,
) -> Run:
    """Read a file of `write`, or any Parquet file with columns that `from_frame` knows."""
    try:
        table = read_table(path)
    except (pa.ArrowInvalid, OSError) as fault:
        raise RunError(f"{path}: not a readable Parquet file: {fault}", code="not-readable-parquet-file") from fault
    metadata = table.schema.metadata or {}
    if _RUN in metadata and gallery is None and task is None:
        try:
            return _own(table, metadata, path)
        except VisirError:
            raise
        except Exception as fault:  # packed ids in the metadata, whose reader raises nearly anything
            raise RunError(f"{path}: damaged ({type(fault).__name__}: {fault}).", hint="copy it again") from fault
    return from_frame(
        table,
        task,
        gallery,
        order=order,
        name=name or Path(path).stem,
        depth=depth,
        where=str(path),
        provenance={"read": str(Path(path).name), "order": order},
    )


def _own(table: pa.Table, metadata: dict[bytes, bytes], path: str | Path) -> Run:
    facts = orjson.loads(metadata[_RUN])
    check_version(facts.get("version"), VERSION, path, what="run", remedy=REMEDY, error=RunError)
    known = facts["gallery"]
    ids = _unpack(metadata[_GALLERY]) if _GALLERY in metadata else None
    queries = _unpack(metadata[_QUERIES])
    place = pc.index_in(table["query_id"], queries).to_numpy()
    documents = strings(table["document_id"]).dictionary_encode()
    counts = np.bincount(place.astype(np.int64), minlength=len(queries))
    return Run(
        facts["name"],
        facts["task"],
        queries,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        strings(documents.dictionary),
        documents.indices.to_numpy().astype(np.int32),
        table["score"].to_numpy(),
        Gallery(known["modality"], ids, known["size"], known["description"]),
        facts["depth"],
        facts["provenance"],
    )


def _pack(ids: pa.StringArray) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"id": ids})
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpack(packed: bytes) -> pa.StringArray:
    return strings(pa.ipc.open_stream(packed).read_all()["id"])
