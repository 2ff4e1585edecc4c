"""Encoding in parts: several processes, GPUs or machines each make a shard, and the shards are joined.

A shard is a run of consecutive inputs, cut where batches end, so all shards together go through the model in the very
batches of a single process. `shard_folder.py` says where shards lie and which of them belong together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.encoders.base import Encoder
from visir.encoders.encoding import alignment, card_of, complete, mended, refuse_broken, usable
from visir.encoders.journal import Journal
from visir.encoders.shard_folder import Shard, ShardFolder
from visir.encoders.store import VECTORS, Entry, Store
from visir.errors import CollectionError, EmbeddingError, EncoderError
from visir.records import Collection, Modality, strings
from visir.storage import Manifest, changing
from visir.storage.removal import remove_empty_folders

_BLOCK = 1 << 16


@dataclass(frozen=True)
class ShardEncoding:
    """What `encode_shard` did.

    - `rows`: the inputs of the shard, as rows of the collection; `total`: how many inputs there are in all
    - `computed`, `resumed`, `seconds`, `broken`: as in `Encoding`; `computed` is 0 for a shard that was there already
    - `finished`: the numbers of the shards that are there by now; `complete`: whether these are all
    - `joined`: whether the whole is in the store already
    """

    shard: Shard
    rows: range
    total: int
    computed: int
    resumed: int
    seconds: float
    broken: Mapping[str, str]
    finished: tuple[int, ...]
    joined: bool

    @property
    def complete(self) -> bool:
        """Whether all shards are there."""
        return len(self.finished) == self.shard.count


def encode_shard(
    encoder: Encoder,
    collection: Collection,
    modality: Modality,
    shard: Shard,
    *,
    place: str | Path | None = None,
    store: Store | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    skip_broken: bool = False,
) -> ShardEncoding:
    """Encode one shard of a modality, or find it finished.

    - `place`: the folder in which finished shards lie, here or elsewhere (`s3://bucket/shards`). By default they lie in
      the store, and can be joined by every process that shares it.
    - the rest as in `encode_collection`. Every shard has to be made with the same batch size.

    A killed call goes on where it stopped when it is repeated. Raises what `encode_collection` raises, and
    `EmbeddingError` when shards of something else, or of another number of processes, lie in the place.
    """
    encoder = _computing(encoder, modality)
    store = store or Store()
    folder = ShardFolder(encoder, collection, modality, store, place)
    ids = strings((collection.images if modality == "image" else collection.captions)["id"])
    if len(ids) == 0:
        raise CollectionError(f"{collection.name}: there are no {modality}s to encode.", hint="is the split right?")
    rows = shard.rows(len(ids), alignment(encoder, modality, batch_size))
    about = folder.about(shard, rows, ids)

    def done(card: Mapping[str, Any] | None, computed: int = 0, resumed: int = 0, seconds: float = 0) -> ShardEncoding:
        broken = {} if card is None else card["broken"]
        refuse_broken(broken, len(ids), collection, skip_broken)
        finished = tuple(range(1, shard.count + 1)) if card is None else folder.finished(shard.count)
        return ShardEncoding(shard, rows, len(ids), computed, resumed, seconds, broken, finished, card is None)

    if usable(store, folder.key, collection) is not None:
        return done(None)
    folder.refuse_other_counts(shard)
    own = folder.work / shard.name(modality)
    part = _part(collection, modality, rows)
    waiting = f"another process is encoding shard {shard}; waiting for it"
    while True:
        with changing(own, VECTORS, busy=waiting, resume=True) as change:
            if store.find(folder.key) is not None:  # the others have joined them all while this one waited
                change.abandon()
                return done(None)
            card = folder.card(shard)
            if card is None:
                if change.content.get("shard") == about:  # finished here; only the copying failed
                    computed, resumed, seconds = 0, len(rows), 0.0
                    break
                if change.manifest.generation > 0:  # of something else
                    change.keep_only()
                    change.commit({})
                with Journal(change, ids[rows.start : rows.stop], encoder.dimension, about) as journal:
                    resumed = journal.done
                    computed, seconds = complete(
                        journal,
                        encoder,
                        part,
                        modality,
                        batch_size=batch_size,
                        workers=workers,
                        skip_broken=skip_broken,
                        whole=collection,
                        also={"shard": about},
                    )
                break
            if folder.remote is not None:
                change.abandon()
        folder.refuse_strange(shard, card, about)
        if not mended(card["broken"], part):
            return done(card)
        folder.remove(shard)
    folder.publish(shard)
    return done(folder.card(shard), computed, resumed, seconds)


def join_shards(
    encoder: Encoder,
    collection: Collection,
    modality: Modality,
    *,
    place: str | Path | None = None,
    store: Store | None = None,
) -> Entry:
    """Make of all shards the entry of the store that one process would have made; nothing is encoded.

    The vectors and their order are those of one process. When the entry is there already, nothing happens. Shards in
    the store are deleted once they are joined; those in a `place` of one's own stay.

    Raises `EmbeddingError` that names the shards which are missing, damaged, of another model or collection, or cut
    otherwise than their neighbours.
    """
    encoder = _computing(encoder, modality)
    store = store or Store()
    folder = ShardFolder(encoder, collection, modality, store, place)
    found = usable(store, folder.key, collection)
    if found is not None:
        return found
    ids = strings((collection.images if modality == "image" else collection.captions)["id"])
    cards: dict[Shard, dict[str, Any]] = {}
    with store.writing(folder.key) as change:
        if change.manifest.generation == 0:  # else another process has joined them while this one waited
            try:
                cards = folder.all_cards(len(ids))
            except EmbeddingError:
                change.abandon()
                raise
            with Journal(change, ids, encoder.dimension, {"key": folder.key}) as journal:
                for shard, card in cards.items():
                    _append(journal, folder, shard, card, ids)
                seconds = sum(card["seconds"] for card in cards.values())
                journal.finish(card_of(encoder, collection, modality, journal.rows, seconds))
    if place is None:
        for shard in cards:
            folder.remove(shard)
        remove_empty_folders(folder.work)
    return store.entry(folder.key)


def _append(journal: Journal, folder: ShardFolder, shard: Shard, card: Mapping[str, Any], ids: pa.StringArray) -> None:
    """The inputs of one shard, block by block; those that a killed call has joined already are left out."""
    start, stop = card["shard"]["start"], card["shard"]["stop"]
    if stop <= journal.done:
        return
    broken = card["broken"]
    names = ids[start:stop].to_pylist()
    with folder.local(shard) as files:
        try:
            faults = Manifest.read(files, VECTORS).faults(files)
            if faults:
                raise folder.damaged(shard, faults[0])
            kept = pq.read_table(files / "ids.parquet")["id"].to_pylist()
            # A memory map of no bytes cannot be made.
            vectors = np.load(files / "vectors.npy", mmap_mode="r" if kept else None, allow_pickle=False)
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as fault:
            raise folder.damaged(shard, str(fault)) from fault
        if kept != [one for one in names if one not in broken] or len(vectors) != len(kept):
            raise folder.damaged(shard, f"its ids are not those of inputs {start:,} to {stop:,}")
        row = 0
        for begin in range(start, stop, _BLOCK):
            block = names[begin - start : begin - start + _BLOCK]
            aside = {one: broken[one] for one in block if one in broken}
            rows = slice(row, row + len(block) - len(aside))
            row = rows.stop
            if begin + len(block) <= journal.done:
                continue
            over = max(journal.done - begin, 0)  # an interrupted encode of one process may have ended anywhere
            before = sum(one not in aside for one in block[:over])
            left = {one: aside[one] for one in block[over:] if one in aside}
            journal.append(begin + len(block), vectors[rows][before:], left)
            journal.flush()


def _computing(encoder: Encoder, modality: Modality) -> Encoder:
    """The encoder whose vectors are kept: heads and sparse heads are cheap functions of another one's."""
    from visir.encoders.models.imported import Imported

    if isinstance(encoder, Imported):
        raise EncoderError(f"{encoder.card.name}: these vectors are made already; there is nothing to divide.")
    if modality not in encoder.modalities:
        raise encoder.cannot(modality)
    under = encoder.backbone(modality)
    if under is not None:
        return _computing(under, modality)
    encoder.check_versioned("shards are made by several processes")
    return encoder


def _part(collection: Collection, modality: Modality, rows: range) -> Collection:
    """The collection with these images, or with these captions, alone."""
    if modality == "image":
        keep = np.zeros(collection.images.num_rows, dtype=np.bool_)
        keep[rows.start : rows.stop] = True
        return collection.keep_images(keep)
    captions = collection.captions.slice(rows.start, len(rows))
    injected = collection.injected
    return replace(
        collection,
        captions=captions,
        injected=None if injected is None else injected.keep(collection.images["id"], captions["id"]),
    )
