"""Scores of pairs on disk: every pair is scored once, and a kill loses two seconds of work.

A file `pairs.bin` per cross-encoder holds frames: a count (uint32), a hash chained over all frames before it (16
bytes), and so many records of two keys (of image and text, or of query and document; uint64 each) and score (float32),
little-endian. A torn or altered frame ends what holds; the file is cut there and goes on.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.fingerprint import hash_json
from visir.records import EncoderCard
from visir.storage import ContentStore, FolderKind, Scratch

Keys = NDArray[np.uint64]
_RECORD = np.dtype([("first", "<u8"), ("second", "<u8"), ("score", "<f4")])
_FRAME = struct.Struct("<I16s")
_FLUSH_SECONDS = 2.0


class PairStore:
    """The scores that one cross-encoder gave, by what the two sides *are* (`keys_of`), whatever collection they lie
    in."""

    # `count`: how many scores there are. Use `pair_store`, which locks the file: there is one writer at a time.

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._chain = path, bytes.fromhex(key)
        self._fresh: list[NDArray[np.void]] = []
        self._flushed = time.monotonic()
        try:
            self._file = path.open("r+b" if path.exists() else "w+b")
            frames = list(self._valid())
            self._file.truncate()  # where the last valid frame ends
        except OSError as fault:
            raise _unwritable(path, fault) from fault
        self._kept = np.concatenate(frames) if frames else np.empty(0, _RECORD)
        self.count = len(self._kept)
        self._firsts, self._seconds = np.unique(self._kept["first"]), np.unique(self._kept["second"])
        codes = self._codes(self._kept["first"], self._kept["second"])
        order = np.argsort(codes, kind="stable")
        self._sorted, self._scores = codes[order], self._kept["score"][order]

    def find(self, firsts: Keys, seconds: Keys) -> NDArray[np.float32]:
        """(n,) the scores of n pairs that were there when the file was opened; NaN where there is none."""
        scores = np.full(len(firsts), np.nan, np.float32)
        if self.count:
            codes = self._codes(firsts, seconds)
            position = np.minimum(np.searchsorted(self._sorted, codes), self.count - 1)
            same = self._sorted[position] == codes
            scores[same] = self._scores[position[same]]
        return scores

    def append(self, firsts: Keys, seconds: Keys, scores: NDArray[np.float32]) -> None:
        """Append the scores of n pairs; after a kill, all scores of a call are there or none."""
        records = np.empty(len(scores), _RECORD)
        records["first"], records["second"], records["score"] = firsts, seconds, scores
        self._fresh.append(records)
        if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what was appended safely to disk."""
        if not self._fresh:
            return
        data = np.concatenate(self._fresh).tobytes()
        self._chain = _chained(self._chain, data)
        try:
            self._file.write(_FRAME.pack(len(data) // _RECORD.itemsize, self._chain) + data)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as fault:
            raise _unwritable(self._path, fault) from fault
        self._fresh, self._flushed = [], time.monotonic()

    def close(self) -> None:
        """Close the file, whether or not the last flush succeeded."""
        self._file.close()

    def _valid(self) -> Iterator[NDArray[np.void]]:
        """The valid frames, in order; afterwards the file is positioned behind the last of them."""
        stop = 0
        while len(head := self._file.read(_FRAME.size)) == _FRAME.size:
            count, chain = _FRAME.unpack(head)
            data = _read(self._file, count * _RECORD.itemsize)
            if data is None or _chained(self._chain, data) != chain:
                break
            self._chain, stop = chain, self._file.tell()
            yield np.frombuffer(data, _RECORD)
        self._file.seek(stop)

    def _codes(self, firsts: Keys, seconds: Keys) -> NDArray[np.int64]:
        """(n,) one number per pair: known pairs have distinct ones ≥ 0, pairs with an unknown half −1."""
        first, second = _places(firsts, self._firsts), _places(seconds, self._seconds)
        return np.where((first < 0) | (second < 0), -1, first * len(self._seconds) + second)


PAIRS = FolderKind("pairs", "a folder of scores", remedy="delete it: the pairs are matched again")


@contextmanager
def pair_store(card: EncoderCard, root: str | Path | None = None) -> Iterator[PairStore]:
    """The scores of the cross-encoder with this card, under `root` (default: `VISIR_CACHE`/matching)."""
    # The folder is named by the card (`EncoderCard.identity`). It can be deleted at any time. Whatever ends the block,
    # whole appended parts are kept. Scores of a cross-encoder whose card has neither weights nor a revision are gone at
    # the end: nothing would tell that its code changed.
    if not card.is_versioned:
        with Scratch.temporary("pairs") as scratch, _opened(scratch.file("pairs.bin"), "00") as store:
            yield store
        return
    key = hash_json(card.identity())
    waiting = "another process is matching with the same model; waiting for it"
    # The file grows by whole frames that prove themselves; so it is never part of what a manifest counts.
    with ContentStore(PAIRS, root, name="matching").writing(key, waiting=waiting) as change:
        change.write_json("card.json", card.to_dict(), counts=False)
        with _opened(change.file("pairs.bin", counts=False), key) as store:
            yield store
        change.abandon()


@contextmanager
def _opened(path: Path, key: str) -> Iterator[PairStore]:
    store = PairStore(path, key)
    try:
        yield store
    finally:
        try:
            store.flush()
        finally:
            store.close()


def keys_of(contents: Sequence[str]) -> Keys:
    """(n,) 64 bits of what each item is: among a million of them two coincide with probability 3e-8."""
    digests = b"".join(hashlib.blake2b(content.encode(), digest_size=8).digest() for content in contents)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def _places(keys: Keys, among: Keys) -> NDArray[np.int64]:
    position = np.minimum(np.searchsorted(among, keys), len(among) - 1)
    return np.where(among[position] == keys, position, -1)


def _read(stream: IO[bytes], size: int) -> bytes | None:
    """So many bytes, or None at a torn end: what is asked for is never more than the file holds."""
    if os.fstat(stream.fileno()).st_size - stream.tell() < size:
        return None
    return stream.read(size)


def _chained(before: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, key=before).digest()


def _unwritable(path: Path, fault: OSError) -> VisirError:
    return VisirError(
        f"{path}: cannot be written ({fault.strerror}); what was flushed before is kept.",
        hint="make room, or name another place in VISIR_CACHE; the same command goes on from there",
    )
