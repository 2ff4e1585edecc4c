"""Vectors on their way to disk: what is complete survives a kill, and what is incomplete is detected.

A folder that is being made holds `vectors.npy`, which grows at its end, and `journal.jsonl`, one line per part that is
safely on disk.
Each line carries a hash chained over all parts before it, so a torn line, a torn part or a changed byte ends the valid
prefix there; the encoder goes on from that point.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.errors import EmbeddingError, VisirError
from visir.fingerprint import hash_columns
from visir.storage import FolderChange

HEADER_BYTES = 128
_FLUSH_SECONDS = 2.0
_FLUSH_BYTES = 1 << 26


class Journal:
    """Append the vectors of items 0, 1, 2, … in order; `finish` makes a complete entry of the folder.

    Args:
        change: The change that makes the folder, in the state in which a killed call left it.
        ids: The ids of the items.
        dimension: The dimension of the vectors.
        plan: What is being encoded. Work under another plan, or in another dimension, starts anew.

    Attributes:
        done: How many items need no more work (after a resume more than 0).
        rows: How many of them have a vector.
        broken: Which of them were set aside, and why.
    """

    def __init__(self, change: FolderChange, ids: pa.StringArray, dimension: int, plan: Mapping[str, Any]) -> None:
        self._change, self.folder, self.dimension = change, change.folder, dimension
        self._ids = ids
        self.done, self.rows = 0, 0
        self.broken: dict[str, str] = {}
        self._waiting: list[NDArray[np.float32]] = []
        self._waiting_broken: dict[str, str] = {}
        self._waiting_stop = 0
        self._flushed = time.monotonic()
        self._chain = b""
        # The order counts here: the key of an entry does not depend on it, but "the first n are done" does.
        planned = {**plan, "dimension": dimension, "inputs": hash_columns([ids], sort=False)}
        self._full = False
        try:
            self._vectors, self._journal = self._opened(planned)
        except OSError as fault:
            raise VisirError(
                f"{self.folder}: cannot be written ({fault.strerror}).",
                hint="make room, or name another place in VISIR_CACHE",
            ) from fault

    def append(self, stop: int, vectors: NDArray[np.float32], broken: Mapping[str, str]) -> None:
        """Append the vectors of the items from the end of the last call up to row `stop`, without the `broken` ones.

        Raises:
            EmbeddingError: A value is NaN or infinite; the message names the ids. Nothing of this part is kept.
        """
        start = self._waiting_stop or self.done
        ids = [name for name in self._ids[start:stop].to_pylist() if name not in broken]
        if vectors.shape != (len(ids), self.dimension):
            raise EmbeddingError(
                f"the encoder returned {vectors.shape} for {len(ids)} inputs of dimension {self.dimension}."
            )
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            self.flush()
            named = ", ".join(repr(ids[int(i)]) for i in bad[:5])
            raise EmbeddingError(
                f"the encoder returned NaN or infinite values for {len(bad)} inputs: {named}"
                f"{', …' if len(bad) > 5 else ''}.",
                hint="look at these inputs; with half precision, encode in float32 or bfloat16",
            )
        self._waiting.append(np.ascontiguousarray(vectors, dtype="<f4"))
        self._waiting_broken.update(broken)
        self._waiting_stop = stop
        size = sum(part.nbytes for part in self._waiting)
        if size >= _FLUSH_BYTES or time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what was appended safely to disk. The error of a full disk says how much is kept."""
        if not self._waiting:
            return
        data = np.concatenate(self._waiting)
        rows = self.rows + len(data)
        line = {"stop": self._waiting_stop, "rows": rows, "broken": self._waiting_broken}
        chain = _chained(self._chain, line, data.tobytes())
        try:
            self._vectors.write(data.tobytes())
            self._vectors.flush()
            os.fsync(self._vectors.fileno())
            self._journal.write(orjson.dumps({**line, "hash": chain.hex()}) + b"\n")
            self._sync()
        except OSError as fault:
            self._full = True
            raise VisirError(
                f"{self.folder}: cannot be written ({fault.strerror}); {self.done:,} of {len(self._ids):,} are kept.",
                hint="make room (or name another place in VISIR_CACHE) and run the same again: it goes on from there",
            ) from fault
        self._chain, self.rows, self.done = chain, rows, self._waiting_stop
        self.broken.update(self._waiting_broken)
        self._waiting, self._waiting_broken, self._waiting_stop = [], {}, 0
        self._flushed = time.monotonic()

    def finish(self, content: Mapping[str, Any]) -> None:
        """Write header and ids, and commit them, with `content` on the card."""
        self.flush()
        ids = pa.array([name for name in self._ids.to_pylist() if name not in self.broken], pa.string())
        try:
            self._vectors.seek(0)
            self._vectors.write(_header(self.rows, self.dimension))
            self._sync()
            pq.write_table(pa.table({"id": ids}), self._change.file("ids.parquet"))
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
            for stream in (self._vectors, self._journal):
                try:
                    stream.close()
                except OSError:
                    if not self._full:  # otherwise it has already been reported
                        raise

    def _opened(self, plan: Mapping[str, Any]) -> tuple[IO[bytes], IO[bytes]]:
        """Vectors and journal, both cut back to their valid part and positioned at its end."""
        paths = [self._change.file("vectors.npy"), self._change.file("journal.jsonl", counts=False)]
        lines = self._valid_lines(plan)
        self._change.write_json("plan.json", plan, counts=False)
        mode = "r+b" if lines else "w+b"
        vectors, journal = paths[0].open(mode), paths[1].open(mode)
        vectors.truncate(HEADER_BYTES + self.rows * self.dimension * 4)
        vectors.seek(0, os.SEEK_END)
        journal.truncate(sum(map(len, lines)))
        journal.seek(0, os.SEEK_END)
        return vectors, journal

    def _valid_lines(self, plan: Mapping[str, Any]) -> list[bytes]:
        """The valid lines of the journal, in order; `done`, `rows`, `broken` and the chain are set accordingly."""
        try:
            if orjson.loads((self.folder / "plan.json").read_bytes()) != orjson.loads(orjson.dumps(plan)):
                return []
            journal = (self.folder / "journal.jsonl").read_bytes()
            vectors = (self.folder / "vectors.npy").open("rb")
        except (FileNotFoundError, orjson.JSONDecodeError):
            return []
        valid = []
        with vectors:
            vectors.seek(HEADER_BYTES)
            for raw in journal.splitlines(keepends=True):
                try:
                    line = orjson.loads(raw)
                    data = vectors.read((line["rows"] - self.rows) * self.dimension * 4)
                    chain = _chained(self._chain, {k: line[k] for k in ("stop", "rows", "broken")}, data)
                    if not raw.endswith(b"\n") or line["hash"] != chain.hex():
                        break
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    break
                self._chain, self.rows, self.done = chain, line["rows"], line["stop"]
                self.broken.update(line["broken"])
                valid.append(raw)
        return valid

    def _sync(self) -> None:
        for stream in (self._vectors, self._journal):
            stream.flush()
            os.fsync(stream.fileno())


def _chained(before: bytes, line: Mapping[str, Any], data: bytes) -> bytes:
    digest = hashlib.blake2b(before, digest_size=16)
    digest.update(orjson.dumps(line, option=orjson.OPT_SORT_KEYS))
    digest.update(data)
    return digest.digest()


def _header(rows: int, dimension: int) -> bytes:
    """The NPY header (format 1.0), padded to a fixed length: it is written last, when the number of rows is known."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimension}), }}"
    start = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
    return start + text.encode().ljust(HEADER_BYTES - 11) + b"\n"
