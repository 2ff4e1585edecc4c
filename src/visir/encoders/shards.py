"""Encoding in parts: several processes, GPUs or machines each make a shard, and the shards are joined.

A shard is a run of consecutive inputs, cut where batches end, so all shards together go through the model in the very
batches of a single process. `shard_folder.py` says where shards lie and which of them belong together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from visir.arrays import load_array
from visir.encoders.accepted import check_accepted
from visir.encoders.base import Encoder
from visir.encoders.broken import check_broken, is_readable_again, usable_entry
from visir.encoders.compute import ForwardOptions, alignment, complete, dimension_of, entry_card
from visir.encoders.encoding import check_not_empty
from visir.encoders.forms import part_of
from visir.encoders.intake import Embedded
from visir.encoders.journal import Journal
from visir.encoders.kept_form import IDS_FILE, OFFSETS_FILE, VECTORS_FILE
from visir.encoders.shard_folder import Shard, ShardFolder
from visir.encoders.store import VECTORS, Entry, Store
from visir.errors import EmbeddingError, EncoderError
from visir.parquet import read_table
from visir.records import Items, Role, TokenVectors
from visir.storage import Manifest, changing
from visir.storage.removal import remove_empty_folders

_BLOCK = 1 << 16


@dataclass(frozen=True)
class ShardEncoding:
    """What `encode_shard` did."""

    shard: Shard  # which shard
    rows: range  # the rows of its items among all items
    total: int  # how many items there are in all
    computed: int  # as in `Encoding`; 0 for a shard that was finished already
    resumed: int  # as in `Encoding`
    seconds: float  # as in `Encoding`
    broken: Mapping[str, str]  # as in `Encoding`
    finished: tuple[int, ...]  # the numbers of the shards that are finished by now
    joined: bool  # whether all of them are joined in the store already

    @property
    def complete(self) -> bool:
        """Whether all shards are there."""
        return len(self.finished) == self.shard.count


def encode_shard(
    encoder: Encoder,
    items: Items,
    shard: Shard,
    role: Role = "document",
    *,
    place: str | Path | None = None,
    store: Store | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    skip_broken: bool = False,
) -> ShardEncoding:
    """Encode one shard of items, or find it finished."""
    # A killed call continues where it stopped when it is repeated.
    encoder = _computing(encoder, items)
    store = store or Store()
    folder = ShardFolder(encoder, items, role, store, place)
    check_not_empty(items)
    rows = shard.rows(len(items), alignment(encoder, items.modality, batch_size))
    about = folder.about(shard, rows)

    def result(
        card: Mapping[str, Any] | None, computed: int = 0, resumed: int = 0, seconds: float = 0
    ) -> ShardEncoding:
        broken = {} if card is None else card["broken"]
        check_broken(broken, items, skip_broken)
        finished = tuple(range(1, shard.count + 1)) if card is None else folder.finished(shard.count)
        return ShardEncoding(shard, rows, len(items), computed, resumed, seconds, broken, finished, card is None)

    if usable_entry(store, folder.key, items) is not None:
        return result(None)
    folder.check_other_counts(shard)
    own = folder.work / shard.name(folder.label)
    part = items.take(np.arange(rows.start, rows.stop))
    options = ForwardOptions(batch_size, workers, skip_broken)
    waiting = f"another process is encoding shard {shard}; waiting for it"
    while True:
        with changing(own, VECTORS, busy=waiting, resume=True) as change:
            if store.find(folder.key) is not None:  # the others have joined them all while this one waited
                change.abandon()
                return result(None)
            card = folder.card(shard)
            if card is None:
                if change.content.get("shard") == about:  # finished here; only the copying failed
                    computed, resumed, seconds = 0, len(rows), 0.0
                    break
                if change.manifest.generation > 0:  # of something else
                    change.keep_only()
                    change.commit({})
                with Journal(
                    change, part.ids, dimension_of(encoder, items), about, folder.form, encoder.label
                ) as journal:
                    resumed = journal.done
                    computed, seconds = complete(
                        journal, encoder.for_role(role), part, options, whole=items, facts={"shard": about}
                    )
                break
            if folder.remote is not None:
                change.abandon()
        folder.check_same(shard, card, about)
        if not is_readable_again(card["broken"], part):
            return result(card)
        folder.remove(shard)
    folder.publish(shard)
    return result(folder.card(shard), computed, resumed, seconds)


def join_shards(
    encoder: Encoder,
    items: Items,
    role: Role = "document",
    *,
    place: str | Path | None = None,
    store: Store | None = None,
) -> Entry:
    """Make of all shards the entry of the store that one process would have made; nothing is encoded."""
    # The vectors and their order are those of one process. When the entry is there already, nothing happens. Shards in
    # the store are deleted once they are joined; those in a `place` that was named stay.
    encoder = _computing(encoder, items)
    store = store or Store()
    folder = ShardFolder(encoder, items, role, store, place)
    entry = usable_entry(store, folder.key, items)
    if entry is not None:
        return entry
    cards: dict[Shard, dict[str, Any]] = {}
    with store.writing(folder.key) as change:
        if change.manifest.generation == 0:  # otherwise another process joined them while this one waited
            try:
                cards = folder.all_cards()
            except EmbeddingError:
                change.abandon()
                raise
            with Journal(
                change, items.ids, dimension_of(encoder, items), {"key": folder.key}, folder.form, encoder.label
            ) as journal:
                for shard, card in cards.items():
                    _append(journal, folder, shard, card, items.ids)
                seconds = sum(card["seconds"] for card in cards.values())
                journal.finish(entry_card(encoder, items, journal.rows, seconds))
    if place is None:
        for shard in cards:
            folder.remove(shard)
        remove_empty_folders(folder.work)
    return store.entry(folder.key)


def _append(journal: Journal, folder: ShardFolder, shard: Shard, card: Mapping[str, Any], ids: pa.StringArray) -> None:
    """Append the vectors of one shard, block by block, without those that a killed call has joined already."""
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
            stored_ids = read_table(files / IDS_FILE)["id"].to_pylist()
            flat = load_array(files / VECTORS_FILE, mapped=True)
            offsets = load_array(files / OFFSETS_FILE) if folder.form.several else None
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as fault:
            raise folder.damaged(shard, str(fault)) from fault
        vectors: Embedded = flat if offsets is None else TokenVectors(flat, offsets)
        if stored_ids != [name for name in names if name not in broken] or len(vectors) != len(stored_ids):
            raise folder.damaged(shard, f"its ids are not those of inputs {start:,} to {stop:,}")
        row = 0
        for begin in range(start, stop, _BLOCK):
            block = names[begin - start : begin - start + _BLOCK]
            aside = {name: broken[name] for name in block if name in broken}
            rows = slice(row, row + len(block) - len(aside))
            row = rows.stop
            if begin + len(block) <= journal.done:
                continue
            over = max(journal.done - begin, 0)  # an interrupted encode of one process may have ended anywhere
            before = sum(name not in aside for name in block[:over])
            remaining_broken = {name: aside[name] for name in block[over:] if name in aside}
            journal.append(begin + len(block), part_of(vectors, rows.start + before, rows.stop), remaining_broken)
            journal.flush()


def _computing(encoder: Encoder, items: Items) -> Encoder:
    """The encoder whose vectors are kept: heads and sparse heads are cheap functions of its vectors."""
    check_accepted(encoder, [items])
    if items.is_mixed:
        raise EncoderError(
            f"{items.name}: the {items.title} hold {items.holding}; shards are parts of items that all hold the same.",
            hint="encode them in one process (visir.encode), or each kind by itself: items.of_kind('text')",
            code="hold-shards-parts-items",
        )
    encoder = encoder.root_encoder(items.modality)
    if encoder.precomputed:
        raise EncoderError(
            f"{encoder.card.name}: these vectors are made already; there is nothing to divide.",
            code="vectors-made-already",
        )
    check_accepted(encoder, [items])
    encoder.check_versioned("shards are made by several processes")
    return encoder
