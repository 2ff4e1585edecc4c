"""Encoding in parts: several processes, GPUs or machines each make a shard, and the shards are joined.

A shard is a run of consecutive inputs, cut where batches end, so all shards together go through the model in the very
batches of a single process. What is made of them are chunks as a process alone makes them (`visir.encoders.store`), in
a place that all of them see: whose they are, and how many processes there were, makes no difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from visir.encoders.base import Encoder
from visir.encoders.claims import SharedPlace, alone, open_place
from visir.encoders.encoding import (
    ForwardOptions,
    alignment,
    check_not_empty,
    encode_missing,
    entry_card,
    key_of,
)
from visir.encoders.sources import check_accepted
from visir.encoders.store import (
    Chunks,
    Entry,
    Store,
    is_readable_again,
    kept_form,
    usable_entry,
    write_entry,
)
from visir.errors import ConfigurationError, EmbeddingError, EncoderError
from visir.records import EncoderCard, Items, Role
from visir.remote import RemoteFolder
from visir.threads import launched

_SECONDS_ELSEWHERE = 20.0
"""After so many, what was made is written to a place elsewhere, where a file takes longer than on a disk."""


@dataclass(frozen=True, order=True)
class Shard:
    """Part `number` (from 1) of `count` parts of the inputs."""

    number: int
    count: int

    @classmethod
    def of(cls, text: str) -> Shard:
        """From "3/16": the third of sixteen."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]) <= 99_999:
            raise ConfigurationError(
                f"shard {text!r}: there is no such part.", hint="the third of sixteen is 3/16", code="no-such-part"
            )
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def launched(cls) -> Shard | None:
        """The one for this process among those a launcher started together; None for a process alone."""
        rank, count = launched()
        return None if count == 1 else cls(rank + 1, count)

    def rows(self, total: int, step: int) -> range:
        """Its inputs, of `total`. Parts begin at multiples of `step` and differ by one step at most in length."""
        # Where there are fewer steps than parts, some are empty.
        steps = -(-total // step)
        first, stop = (steps * number // self.count * step for number in (self.number - 1, self.number))
        return range(min(first, total), min(stop, total))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


@dataclass(frozen=True)
class ShardEncoding:
    """What `encode_shard` did."""

    shard: Shard  # which shard
    rows: range  # the rows of its items among all items
    total: int  # how many items there are in all
    computed: int  # as in `Encoding`; 0 for a shard that was finished already
    resumed: int  # how many of them were there, of a shard that was not finished
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
    """Encode what there is not yet of one shard of items."""
    encoder, store = _computing(encoder, items), store or Store()
    check_not_empty(items)
    step, key = alignment(encoder, items.modality, batch_size), key_of(encoder, items, role, store)
    shards = [Shard(number, shard.count) for number in range(1, shard.count + 1)]
    rows = shard.rows(len(items), step)
    if usable_entry(store, key, items) is not None:
        numbers = tuple(each.number for each in shards)
        return ShardEncoding(shard, rows, len(items), 0, 0, 0.0, {}, numbers, True)
    shared = store.shards(key) if place is None else open_place(place)
    about = {"encoder": encoder.card.to_dict(), "items": items.name, "fingerprint": items.fingerprint}
    options = ForwardOptions(batch_size, workers, skip_broken)
    writer, folder = f"{shard.number}-of-{shard.count}", _chunks(shared, encoder, items, role, key).folder
    with alone(shared, f"{folder}-{writer}", f"another process is encoding shard {shard}; waiting for it"):
        for begun in ("", folder):  # by a process that was killed
            shared.clear(begun, writer)
        chunks = _chunks(shared, encoder, items, role, key, writer)  # with what another process had made meanwhile
        chunks.send(store.shards(key))
        own = [chunk for chunk in chunks.chunks if chunk.broken and chunk.start in rows]
        chunks.remove(*(chunk for chunk in own if is_readable_again(chunks.read(chunk)[1], items)))
        shared.create(f"{chunks.folder}.json", orjson.dumps(about), writer)
        resumed = len(rows) - sum(map(len, chunks.missing(rows)))
        with chunks:
            computed, seconds = encode_missing(chunks, encoder.for_role(role), items, options, rows)
            chunks.flush()
    chunks = _chunks(shared, encoder, items, role, key)  # with what others have made by now
    finished = tuple(each.number for each in shards if not chunks.missing(each.rows(len(items), step)))
    return ShardEncoding(
        shard,
        rows,
        len(items),
        computed,
        resumed if computed else 0,
        seconds,
        chunks.broken(rows),
        finished,
        False,
    )


def join_shards(
    encoder: Encoder,
    items: Items,
    role: Role = "document",
    *,
    place: str | Path | None = None,
    store: Store | None = None,
) -> Entry:
    """Make of all shards the entry of the store that one process would have made; nothing is encoded."""
    # The vectors and their order are those of one process. When the entry is there already, nothing happens. Chunks in
    # the store are deleted once they are joined; those in a `place` that was named stay.
    encoder, store = _computing(encoder, items), store or Store()
    key = key_of(encoder, items, role, store)
    entry = usable_entry(store, key, items)
    if entry is not None:
        return entry
    shared = store.shards(key) if place is None else open_place(place)
    with store.writing(key) as change:
        if change.manifest.generation == 0:  # otherwise another process joined them while this one waited
            try:
                chunks = _chunks(shared, encoder, items, role, key)
                _check_whole(chunks, encoder, items, shared)
                write_entry(change, items.ids, chunks.parts(), chunks.form, entry_card(encoder, items, 0.0))
            except EmbeddingError as fault:
                change.abandon()
                if fault.code == "damaged":
                    raise EmbeddingError(f"{shared.place}/{fault.message}", hint=fault.hint, code=fault.code) from fault
                raise
            if place is None:
                chunks.remove(*chunks.chunks)
                shared.remove(f"{chunks.folder}.json")
    return store.entry(key)


def _chunks(place: SharedPlace, encoder: Encoder, items: Items, role: Role, key: str, writer: str = "") -> Chunks:
    """The chunks of these items by this encoder in a place; those of others have another name there."""
    title = f"{items.modality}-{role}" if encoder.distinguishes_roles else items.modality
    return Chunks(
        place,
        items.ids,
        key,
        kept_form(encoder),
        label=encoder.label,
        title=title,
        writer=writer,
        seconds=_SECONDS_ELSEWHERE if isinstance(place, RemoteFolder) else None,
    )


def _check_whole(chunks: Chunks, encoder: Encoder, items: Items, place: SharedPlace) -> None:
    """Raise `EmbeddingError` unless there is a chunk of every input."""
    gaps = chunks.missing(range(len(items)))
    if chunks.chunks and gaps:
        shown = ", ".join(f"{gap.start:,} to {gap.stop:,}" for gap in gaps[:5]) + (", …" if len(gaps) > 5 else "")
        raise EmbeddingError(
            f"{place.place}: of {len(items):,} inputs ({items.modality}) {sum(map(len, gaps)):,} are missing: {shown}.",
            hint="the same launch again, or its shards one by one: visir encode … --shard 1/4; what is there stays",
            code="embedding-shards-missing",
        )
    if not gaps:
        return
    title, others = chunks.folder.rpartition("-")[0], list[str]()
    for name in place.listing():
        about = orjson.loads(place.read(name) or b"{}") if re.fullmatch(rf"{title}-[0-9a-f]{{16}}\.json", name) else {}
        others += [_difference(encoder, items, about)] if about else []
    raise EmbeddingError(
        f"{place.place}: there are no shards of these inputs ({items.modality})"
        f"{'; there are others: ' if others else ''}{'; '.join(dict.fromkeys(others))}.",
        hint="make them first: visir encode … --shard 1/4, 2/4, … or under torchrun",
        code="no-shards",
    )


def _difference(encoder: Encoder, items: Items, about: Mapping[str, Any]) -> str:
    """What chunks of other inputs, or by another model, are."""
    maker, mine = EncoderCard.from_dict(about["encoder"]), encoder.card
    if not mine.is_same_model(maker) or (mine.revision, mine.dtype) != (maker.revision, maker.dtype):
        return f"made by {_model(maker)}, not by {_model(mine)}"
    if about["fingerprint"] != items.fingerprint:
        return (
            f"of another collection ({about['items']}, fingerprint {about['fingerprint'][:8]}, not "
            f"{items.name}, {items.fingerprint[:8]})"
        )
    if mine.differences(maker, items.modality):
        return "made with another preprocessing"
    return "of the same ids, but in another order, or of other pictures (their bytes differ)"


def _model(card: EncoderCard) -> str:
    facts = [str(fact)[:12] for fact in (card.revision, card.weights) if fact]
    return f"{card.name} ({', '.join([*facts, str(card.dtype)])})"


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
