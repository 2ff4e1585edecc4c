"""Vectors on their way to disk: what is complete survives a kill, and what is incomplete is detected.

A folder that is being made holds `vectors.npy`, which grows at its end, and `journal.jsonl`, one line per part that is
safely on disk. Where items have several vectors, `offsets.npy` grows with it.
Each line carries a hash chained over all parts before it, so a torn line, a torn part or a changed byte ends the valid
prefix there; the encoder goes on from that point.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.encoders.finite import faulty_inputs, not_finite
from visir.encoders.forms import joined
from visir.encoders.intake import Embedded
from visir.encoders.kept_form import DENSE, IDS_FILE, OFFSETS_FILE, VECTORS_FILE, KeptForm
from visir.errors import EmbeddingError, VisirError
from visir.fingerprint import hash_columns
from visir.records import TokenVectors
from visir.records.embeddings import NOT_FINITE
from visir.storage import FolderChange

# An NPY file that grows at its end: its header is written last, when the number of rows is known.

HEADER_BYTES = 128


class GrowingArray:
    """Rows of one shape and type, appended to a file."""

    def __init__(self, path: Path, dtype: str, shape: Sequence[int]) -> None:
        self.path, self.shape = path, tuple(shape)
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.row_bytes = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        self.stream: IO[bytes] | None = None

    def bytes_of(self, rows: NDArray[Any]) -> bytes:
        """The bytes of rows, as they are written."""
        return np.ascontiguousarray(rows, self.dtype).tobytes()

    def open(self, rows: int) -> None:
        """Keep the first rows of the file, and go on at their end; 0 begins anew."""
        self.stream = self.path.open("r+b" if rows else "w+b")
        self.stream.truncate(HEADER_BYTES + rows * self.row_bytes)
        self.stream.seek(0, os.SEEK_END)

    def write(self, data: bytes) -> None:
        """Append what `bytes_of` gave, and wait until it is on disk."""
        assert self.stream is not None, "it was opened"
        self.stream.write(data)
        self.sync()

    def finish(self, rows: int) -> None:
        """Write the header (format 1.0, padded to a fixed length)."""
        assert self.stream is not None, "it was opened"
        shape = f"({', '.join(map(str, (rows, *self.shape)))}{',' if not self.shape else ''})"
        text = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
        start = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
        self.stream.seek(0)
        self.stream.write(start + text.encode().ljust(HEADER_BYTES - 11) + b"\n")
        self.sync()

    def sync(self) -> None:
        """Wait until everything is on disk."""
        assert self.stream is not None, "it was opened"
        self.stream.flush()
        os.fsync(self.stream.fileno())


_FLUSH_SECONDS = 2.0
_FLUSH_BYTES = 1 << 26
_TOO_LARGE = 'bring vectors to length 1; or keep them in float32: kept_dtype = "float32" in the class of the encoder'


class Journal:
    """Append the vectors of items 0, 1, 2, … in order; `finish` makes a complete entry of the folder."""

    def __init__(
        self,
        change: FolderChange,
        ids: pa.StringArray,
        dimension: int,
        plan: Mapping[str, Any],
        form: KeptForm = DENSE,
        label: str = "the encoder",
    ) -> None:
        self._change, self.folder, self.dimension, self.form = change, change.folder, dimension, form
        self._label = label
        self._ids = ids
        self.done, self.rows, self.total = 0, 0, 0
        self.broken: dict[str, str] = {}
        self._waiting: list[Embedded] = []
        self._waiting_broken: dict[str, str] = {}
        self._waiting_stop = 0
        self._flushed = time.monotonic()
        self._chain = b""
        # The order counts here: the key of an entry does not depend on it, but "the first n are done" does.
        planned = {**plan, "dimension": dimension, "inputs": hash_columns([ids], sort=False)}
        if form.several:
            planned |= {"form": form.name, "dtype": form.dtype}
        self._full = False
        try:
            self._vectors = GrowingArray(change.file(VECTORS_FILE), form.dtype, (dimension,))
            self._offsets = GrowingArray(change.file(OFFSETS_FILE), "int64", ()) if form.several else None
            self._journal = self._opened(planned)
        except OSError as fault:
            raise VisirError(
                f"{self.folder}: cannot be written ({fault.strerror}).",
                hint="make room, or name another place in VISIR_CACHE",
            ) from fault

    def append(self, stop: int, vectors: Embedded, broken: Mapping[str, str]) -> None:
        """Append the vectors of the items from the end of the last call up to row `stop`, without the `broken` ones."""
        start = self._waiting_stop or self.done
        ids = [name for name in self._ids[start:stop].to_pylist() if name not in broken]
        flat = vectors.vectors if isinstance(vectors, TokenVectors) else vectors
        if len(vectors) != len(ids) or (flat.shape[1] != self.dimension and len(ids)):
            raise EmbeddingError(
                f"{self._label} returned {flat.shape} for {len(ids)} inputs of dimension {self.dimension}."
            )
        self._check_finite(vectors, flat, ids, f"{self._label} returned NaN or infinite values for", NOT_FINITE)
        with np.errstate(over="ignore"):  # checked below
            rounded = np.ascontiguousarray(flat, self.form.dtype)
        self._check_finite(vectors, rounded, ids, f"{self.form.dtype} cannot hold the values of", _TOO_LARGE)
        self._waiting.append(TokenVectors(rounded, vectors.offsets) if isinstance(vectors, TokenVectors) else rounded)
        self._waiting_broken.update(broken)
        self._waiting_stop = stop
        size = sum((part.vectors if isinstance(part, TokenVectors) else part).nbytes for part in self._waiting)
        if size >= _FLUSH_BYTES or time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what was appended safely to disk. The error of a full disk says how much is kept."""
        if not self._waiting:
            return
        vectors = joined(self._waiting)
        flat = vectors.vectors if isinstance(vectors, TokenVectors) else vectors
        rows, total = self.rows + len(vectors), self.total + len(flat)
        line = {"stop": self._waiting_stop, "rows": rows, "broken": self._waiting_broken}
        data, ends = self._vectors.bytes_of(flat), b""
        if self._offsets is not None and isinstance(vectors, TokenVectors):
            line["total"] = total
            ends = self._offsets.bytes_of(self.total + vectors.offsets[1:])
        chain = _chained(self._chain, line, data, ends)
        try:
            self._vectors.write(data)
            if self._offsets is not None:
                self._offsets.write(ends)
            self._journal.write(orjson.dumps({**line, "hash": chain.hex()}) + b"\n")
            self._sync()
        except OSError as fault:
            self._full = True
            raise VisirError(
                f"{self.folder}: cannot be written ({fault.strerror}); {self.done:,} of {len(self._ids):,} are kept.",
                hint="make room (or name another place in VISIR_CACHE) and run the same again: it goes on from there",
            ) from fault
        self._chain, self.rows, self.total, self.done = chain, rows, total, self._waiting_stop
        self.broken.update(self._waiting_broken)
        self._waiting, self._waiting_broken, self._waiting_stop = [], {}, 0
        self._flushed = time.monotonic()

    def finish(self, content: Mapping[str, Any]) -> None:
        """Write header and ids, and commit them, with `content` on the card."""
        self.flush()
        ids = pa.array([name for name in self._ids.to_pylist() if name not in self.broken], pa.string())
        try:
            self._sync()
            self._vectors.finish(self.total)
            if self._offsets is not None:
                self._offsets.finish(self.rows + 1)
            pq.write_table(pa.table({"id": ids}), self._change.file(IDS_FILE))
            made = datetime.now(UTC).isoformat(timespec="seconds")
            self._change.commit({**content, "broken": self.broken, "made": made})
        except OSError as fault:
            raise VisirError(
                f"{self.folder}: cannot be written ({fault.strerror}); all vectors are kept.",
                hint="make room and run the same again: it goes on from there",
            ) from fault

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._full:  # a broken image, NaN or Ctrl-C ends the run; what came before it is kept
                self.flush()
        finally:
            for stream in (*(array.stream for array in self._arrays), self._journal):
                try:
                    if stream is not None:
                        stream.close()
                except OSError:
                    if not self._full:  # otherwise it has already been reported
                        raise

    @property
    def _arrays(self) -> list[GrowingArray]:
        return [self._vectors] if self._offsets is None else [self._vectors, self._offsets]

    def _check_finite(self, vectors: Embedded, flat: NDArray[Any], ids: list[str], fault: str, hint: str) -> None:
        bad = not_finite(vectors, flat)
        if len(bad):
            self.flush()
            raise EmbeddingError(f"{fault} {faulty_inputs(bad, ids)}.", hint=hint)

    def _opened(self, plan: Mapping[str, Any]) -> IO[bytes]:
        """The journal. It, vectors and offsets are cut back to their valid part and positioned at its end."""
        path = self._change.file("journal.jsonl", counts=False)
        lines = self._valid_lines(plan)
        self._change.write_json("plan.json", plan, counts=False)
        self._vectors.open(self.total)
        if self._offsets is not None:
            self._offsets.open(self.rows + 1 if self.rows else 0)
            if not self.rows:
                self._offsets.write(self._offsets.bytes_of(np.zeros(1)))
        journal = path.open("r+b" if lines else "w+b")
        journal.truncate(sum(map(len, lines)))
        journal.seek(0, os.SEEK_END)
        return journal

    def _valid_lines(self, plan: Mapping[str, Any]) -> list[bytes]:
        """The valid lines of the journal, in order; `done`, `rows`, `broken` and the chain are set accordingly."""
        try:
            if orjson.loads((self.folder / "plan.json").read_bytes()) != orjson.loads(orjson.dumps(plan)):
                return []
            journal = (self.folder / "journal.jsonl").read_bytes()
            with contextlib.ExitStack() as streams:
                vectors, offsets, *_ = [*(streams.enter_context(array.path.open("rb")) for array in self._arrays), None]
                return self._valid_prefix(journal.splitlines(keepends=True), vectors, offsets)
        except (FileNotFoundError, orjson.JSONDecodeError):
            return []

    def _valid_prefix(self, lines: list[bytes], vectors: IO[bytes] | None, offsets: IO[bytes] | None) -> list[bytes]:
        assert vectors is not None, "there are always vectors"
        valid = []
        vectors.seek(HEADER_BYTES)
        if offsets is not None:
            offsets.seek(HEADER_BYTES + 8)  # the first is 0
        for raw in lines:
            try:
                line = orjson.loads(raw)
                total = line["rows"] if self._offsets is None else line["total"]
                data = vectors.read((total - self.total) * self._vectors.row_bytes)
                ends = b"" if offsets is None else offsets.read((line["rows"] - self.rows) * 8)
                chain = _chained(self._chain, {key: line[key] for key in line if key != "hash"}, data, ends)
                if not raw.endswith(b"\n") or line["hash"] != chain.hex():
                    break
                self._chain, self.rows, self.total, self.done = chain, line["rows"], total, line["stop"]
                self.broken.update(line["broken"])
            except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
                break
            valid.append(raw)
        return valid

    def _sync(self) -> None:
        self._journal.flush()
        os.fsync(self._journal.fileno())


def _chained(before: bytes, line: Mapping[str, Any], data: bytes, ends: bytes) -> bytes:
    digest = hashlib.blake2b(before, digest_size=16)
    digest.update(orjson.dumps(line, option=orjson.OPT_SORT_KEYS))
    digest.update(data)
    digest.update(ends)
    return digest.digest()
