"""`match_pairs`: many pairs through a cross-encoder, each once, with bounded memory, resumable."""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.encoders.cross_encoder import CrossEncoder, Tokens
from visir.encoders.encoding import load_images, texts_of
from visir.encoders.lanes import lanes_of, over_lanes
from visir.encoders.store import image_contents
from visir.errors import EmbeddingError, VisirError
from visir.fingerprint import hash_json
from visir.progress import Progress
from visir.records import EncoderCard, Items, Modality, Role
from visir.storage import ContentStore, FolderKind, Scratch

# Scores of pairs on disk: every pair is scored once, and a kill loses two seconds of work.

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
            size = count * _RECORD.itemsize
            if os.fstat(self._file.fileno()).st_size - self._file.tell() < size:
                break  # a torn end: what is asked for is never more than the file holds
            data = self._file.read(size)
            if _chained(self._chain, data) != chain:
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


def _chained(before: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, key=before).digest()


def _unwritable(path: Path, fault: OSError) -> VisirError:
    return VisirError(
        f"{path}: cannot be written ({fault.strerror}); what was flushed before is kept.",
        hint="make room, or name another place in VISIR_CACHE; the same command goes on from there",
    )


# The two sides of many pairs: the distinct items of each, what they are, and their tokens.

Rows = NDArray[np.int64]
TOKEN_BYTES = 1 << 30
"""Of tokens that are kept: those of 25,000 captions (13 tokens × 768 floats each) fit."""


@dataclass(frozen=True, eq=False)
class PairSide:
    """The distinct items of one side."""

    items: Items  # where they are
    # (m,) their rows. Of texts, one row for each distinct text, sorted by length: neighbours are then padded to little
    # more than their content.
    rows: Rows
    texts: list[str] | None  # (m,) what the model reads; None where the items have no text
    keys: Keys  # (m,) what each item is

    @classmethod
    def of(cls, cross_encoder: CrossEncoder, items: Items, rows: Rows) -> tuple[PairSide, Rows]:
        """The side, and for each row its position on it."""
        distinct, inverse = np.unique(rows, return_inverse=True)
        part = items.take(distinct)
        texts = None if items.texts is None else texts_of(cross_encoder, part)
        if items.places is None:
            assert texts is not None, "items have a text or an image"
            first = {text: int(row) for row, text in zip(distinct[::-1], texts[::-1], strict=True)}
            ordered = sorted(first, key=lambda text: (len(text), text))
            position = {text: number for number, text in enumerate(ordered)}
            places = np.array([position[text] for text in texts], np.int64)
            text_rows = np.array([first[text] for text in ordered], np.int64)
            return cls(items, text_rows, ordered, keys_of(ordered)), places[inverse]
        contents = _images(part)
        if texts is not None:
            contents = [f"{content}\0{text}" for content, text in zip(contents, texts, strict=True)]
        return cls(items, distinct, texts, keys_of(contents)), inverse.astype(np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def modality(self) -> Modality:
        """What the items hold."""
        return self.items.modality

    @property
    def has_images(self) -> bool:
        """Whether they have images."""
        return self.items.places is not None

    def texts_of(self, start: int, count: int) -> list[str] | None:
        """The texts from one position on."""
        return None if self.texts is None else self.texts[start : start + count]

    def shown(self, position: int) -> str:
        """An item in words, for error messages."""
        if self.modality == "text" and self.texts is not None:
            return repr(self.texts[position])
        return f"{self.modality} {self.items.ids[int(self.rows[position])].as_py()!r}"


class InnerTokens:
    """Tokens of items, made in fixed batches when they are first needed; beyond a bound the oldest batch is dropped."""

    def __init__(self, cross_encoder: CrossEncoder, side: PairSide, workers: int | None) -> None:
        self._cross_encoder, self._side, self._workers = cross_encoder, side, workers
        self._cached: OrderedDict[int, list[Tokens]] = OrderedDict()
        self._bytes = 0

    def of(self, positions: list[int]) -> list[Tokens]:
        """The tokens of the items at these positions."""
        size = self._cross_encoder.images_at_once if self._side.has_images else self._cross_encoder.texts_at_once
        batches = {}
        for batch in dict.fromkeys(position // size for position in positions):
            if batch not in self._cached:
                tokens = self._tokens(batch * size, size)
                self._cached[batch] = tokens
                self._bytes += sum(token.nbytes for token in tokens)
            self._cached.move_to_end(batch)
            batches[batch] = self._cached[batch]
        while self._bytes > TOKEN_BYTES and len(self._cached) > 1:
            _, dropped = self._cached.popitem(last=False)
            self._bytes -= sum(token.nbytes for token in dropped)
        return [batches[position // size][position % size] for position in positions]

    def _tokens(self, start: int, size: int) -> list[Tokens]:
        side, pixels = self._side, None
        if side.has_images:
            part = side.items.take(side.rows[start : start + size])
            loaded = load_images(
                part, self._cross_encoder, start=0, batch_size=size, workers=self._workers, skip_broken=False
            )
            pixels = [picture for batch in loaded for picture in batch.pixels]
        return self._cross_encoder.item_tokens(side.modality, side.texts_of(start, size), pixels)


def _images(items: Items) -> list[str]:
    """What each image is: id, mark of its bytes, and whatever is done to it before the model sees it."""
    injected, corrupted = items.injected, items.corrupted
    stamp = injected.fingerprint if injected is not None and injected.on("image") else ""
    corruption = corrupted.fingerprint if corrupted is not None else ""
    marks: Iterator[tuple[str, str]] = zip(items.ids.to_pylist(), image_contents(items).to_pylist(), strict=True)
    return ["\0".join((name, mark, stamp, corruption)) for name, mark in marks]


@dataclass(frozen=True, eq=False)
class Matching:
    """What `match_pairs` did."""

    scores: NDArray[np.float32]  # (n,) float32, pair by pair
    pairs: int  # how many of the n pairs are distinct
    computed: int  # how many of those went through the model now; the others were in the store
    seconds: float  # wall-clock time


def match_pairs(
    cross_encoder: CrossEncoder,
    outer: Items,
    inner: Items,
    outer_rows: Rows,
    inner_rows: Rows,
    *,
    outer_role: Role = "document",
    root: str | Path | None = None,
    workers: int | None = None,
) -> Matching:
    """The scores of n pairs: the item of row `outer_rows[i]` with the item of row `inner_rows[i]`."""
    # A pair that occurs several times, or whose text another item has too, is computed once. The outer items (images,
    # where one side has images) are taken in their order, `cross_encoder.images_at_once` at a time, and each passes its
    # tower once; see `CrossEncoder` for the memory. Scores are kept by content: the same pairs in another run, another
    # split or at another k are found. Within two seconds they are on disk, so a killed call continues where it stopped;
    # it cuts the same batches as an uninterrupted one and gives the same bits. Where pairs of *another* call are
    # re-used, batches differ, and with them scores by rounding (1e-6).
    # outer_rows: (n,) rows of `outer`.
    # inner_rows: (n,) rows of `inner`.
    started = time.perf_counter()
    outer_is_query = outer_role == "query"
    modalities = (outer.modality, inner.modality) if outer_is_query else (inner.modality, outer.modality)
    cross_encoder.check_takes(*modalities)
    first, at_first = PairSide.of(cross_encoder, outer, outer_rows)
    second, at_second = PairSide.of(cross_encoder, inner, inner_rows)
    planned, inverse = np.unique(at_first * len(second) + at_second, return_inverse=True)
    at_first, at_second = planned // max(len(second), 1), planned % max(len(second), 1)
    plan = _PairPlan(first, at_first, second, at_second, outer_is_query, cross_encoder.ordered)
    with pair_store(cross_encoder.card, root) as store:
        scores = store.find(*plan.keys(np.arange(len(planned))))
        computed = int(np.isnan(scores).sum())
        if computed:
            _fill(scores, cross_encoder, plan, store, workers)
    return Matching(scores[inverse], len(planned), computed, time.perf_counter() - started)


@dataclass(frozen=True, eq=False)
class _PairPlan:
    """The distinct pairs, sorted by outer item, then inner item."""

    outer: PairSide  # the two sides
    at_outer: Rows  # (pairs,) for each pair the positions of its items on their sides
    inner: PairSide
    at_inner: Rows
    outer_is_query: bool  # whether the outer items are the queries
    ordered: bool  # whether (query, document) is another pair than (document, query)

    def keys(self, pairs: Rows) -> tuple[Keys, Keys]:
        """What the items of some pairs are: outer and inner, or query and document where the order counts."""
        both = self.outer.keys[self.at_outer[pairs]], self.inner.keys[self.at_inner[pairs]]
        return both[::-1] if self.ordered and not self.outer_is_query else both


def _fill(
    scores: NDArray[np.float32], cross_encoder: CrossEncoder, plan: _PairPlan, store: PairStore, workers: int | None
) -> None:
    """Compute what is NaN in `scores`."""
    size, step = cross_encoder.images_at_once, cross_encoder.pairs_at_once
    outer, inner = plan.outer, plan.inner
    # All cuts are made in the plan, not in what is left of it: so a resumed call computes the same batches.
    edges = np.searchsorted(plan.at_outer, np.arange(0, len(outer) + size, size))
    blocks = [block for block in range(len(edges) - 1) if np.isnan(scores[edges[block] : edges[block + 1]]).any()]
    needed = np.zeros(len(outer), bool)
    for block in blocks:
        needed[block * size : (block + 1) * size] = True
    inner_tokens = InnerTokens(cross_encoder, inner, workers)
    loaded = None
    if outer.has_images:
        images = outer.items.take(outer.rows[needed])
        loaded = load_images(images, cross_encoder, start=0, batch_size=size, workers=workers, skip_broken=False)
    modalities = (outer.modality, inner.modality) if plan.outer_is_query else (inner.modality, outer.modality)
    title = f"matching with {cross_encoder.card.name}"

    def chunks() -> Iterator[tuple[Rows, list[Tokens], list[Tokens]]]:
        """The pairs that are still to be matched, in fixed batches, with the tokens of both sides."""
        for block in blocks:
            pixels = None if loaded is None else next(loaded).pixels
            tokens = cross_encoder.item_tokens(outer.modality, outer.texts_of(block * size, size), pixels)
            for start in range(int(edges[block]), int(edges[block + 1]), step):
                part = np.arange(start, min(start + step, edges[block + 1]))
                part = part[np.isnan(scores[part])]
                if len(part) == 0:
                    continue
                own = [tokens[position - block * size] for position in plan.at_outer[part].tolist()]
                others = inner_tokens.of(plan.at_inner[part].tolist())
                yield (part, own, others) if plan.outer_is_query else (part, others, own)

    def match(chunk: tuple[Rows, list[Tokens], list[Tokens]]) -> tuple[Rows, NDArray[np.float32]]:
        return chunk[0], cross_encoder.match_roles(*chunk[1:], modalities)

    # A pair is matched with those of its batch whatever the number of cores, and each batch on one of them.
    matched = over_lanes(match, chunks(), lanes_of(cross_encoder) or 1)
    reading = nullcontext() if loaded is None else closing(loaded)
    with reading, closing(matched), Progress(title, int(np.isnan(scores).sum()), "pairs") as advance:
        for part, computed in matched:
            _check_finite(computed, cross_encoder, plan, part)
            scores[part] = computed
            store.append(*plan.keys(part), computed)
            advance(len(part))


def _check_finite(scores: NDArray[np.float32], cross_encoder: CrossEncoder, plan: _PairPlan, part: Rows) -> None:
    """Raise for scores that are NaN or infinite, with an example."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        pair = int(part[bad[0]])
        outer, inner = plan.outer.shown(int(plan.at_outer[pair])), plan.inner.shown(int(plan.at_inner[pair]))
        raise EmbeddingError(
            f"{cross_encoder.card.name} gave NaN or an infinite score to {len(bad)} of {len(part)} pairs, e.g. "
            f"{outer} with {inner}.",
            hint="look at these inputs; with half precision, match in float32 or bfloat16",
            code="gave-nan-infinite-score",
        )
