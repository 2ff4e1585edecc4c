"""Encoding in parts: several processes, GPUs or machines each make a shard, and the shards are joined.

A shard is a run of consecutive inputs, cut where batches end, so all shards together go through the model in the very
batches of a single process. Each is made and kept as an entry of the store is.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from visir.encoders.base import Encoder
from visir.encoders.encoding import (
    ForwardOptions,
    alignment,
    check_not_empty,
    complete,
    entry_card,
    journal_of,
    key_of,
)
from visir.encoders.sources import check_accepted
from visir.encoders.store import (
    VECTORS,
    Entry,
    Journal,
    Store,
    check_broken,
    is_readable_again,
    kept_form,
    usable_entry,
)
from visir.errors import ConfigurationError, EmbeddingError, EncoderError
from visir.fingerprint import hash_columns
from visir.records import EncoderCard, Items, Role
from visir.remote import RemoteFolder, is_url
from visir.storage import MANIFEST, Manifest, Scratch, SharedFolder, changing, remove_folder
from visir.storage.disk import remove_empty_folders
from visir.threads import launched


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


class ShardFolder:
    """Where the shards of some items by one encoder are, and whether they belong together."""

    def __init__(self, encoder: Encoder, items: Items, role: Role, store: Store, place: str | Path | None) -> None:
        self.encoder, self.items = encoder, items
        self.label = f"{items.modality}-{role}" if encoder.distinguishes_roles else items.modality
        self.key = key_of(encoder, items, role, store)
        self.remote = RemoteFolder(str(place)) if is_url(place) else None
        self.work = store.shards(self.key) if place is None or self.remote is not None else Path(place)
        self.place = str(self.work if place is None else place)
        self._where = "" if place is None else f" --shards {self.place}"
        # The files of a shard; the manifest is written last, and says that the others are complete.
        self._files = (*kept_form(encoder).files, MANIFEST)

    def name(self, shard: Shard) -> str:
        """The name of the folder of a shard."""
        return f"{self.label}-{shard.number:05}-of-{shard.count:05}"

    def own(self, shard: Shard) -> Path:
        """Where a shard is made on this machine."""
        return self.work / self.name(shard)

    def about(self, shard: Shard, rows: range) -> dict[str, Any]:
        """What a shard is a part of, and which part: equal for equal shards."""
        return {
            "number": shard.number,
            "count": shard.count,
            "start": rows.start,
            "stop": rows.stop,
            "of": len(self.items),
            "key": self.key,
            "inputs": hash_columns([self.items.ids[rows.start : rows.stop]], sort=False),
        }

    def finished(self, count: int) -> list[int]:
        """The numbers of the finished ones of so many shards, ascending."""
        if self.remote is not None:
            return self._numbers(self.remote.folders_with(MANIFEST)).get(count, [])
        return self._numbers(n for n in self._begun_here() if (self.work / n / MANIFEST).is_file()).get(count, [])

    def card(self, shard: Shard) -> dict[str, Any] | None:
        """The card of a finished shard; None when there is none."""
        path = f"{self.name(shard)}/{MANIFEST}"
        data = (self.remote or SharedFolder(self.work)).read(path)
        if data is None:
            return None
        try:
            card = dict(Manifest.from_bytes(data, f"{self.place}/{path}", VECTORS).content)
            with VECTORS.reading(self.own(shard)):
                _ = [card[name] for name in ("broken", "seconds", "encoder", "items")]
                _ = [card["shard"][name] for name in ("start", "stop", "of", "key", "inputs")]
        except EmbeddingError as fault:
            raise self.damaged(shard, fault.message) from fault
        return card

    def all_cards(self) -> dict[Shard, dict[str, Any]]:
        """The cards of all shards in order, after every check that needs no vectors."""
        counts, total, stop = self._counts(), len(self.items), 0
        if not counts:
            raise EmbeddingError(
                f"{self.place}: there are no {self.label} shards.",
                hint="make them first: visir encode … --shard 1/4, 2/4, … or under torchrun",
                code="no-shards",
            )
        if len(counts) > 1:
            raise EmbeddingError(
                f"{self.place}: {self.label} shards of {' and of '.join(map(str, sorted(counts)))} parts.",
                hint="delete those of one kind; what is whole can be joined",
                code="shards-parts",
            )
        [count] = counts
        if missing := self._missing(count):
            raise EmbeddingError(
                f"{self.place}: of {count} {self.label} shards {_listed(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing.",
                hint=f"visir encode … --shard {missing[0]}/{count}{self._where}, or the whole launch again: finished "
                "shards are skipped",
                code="embedding-shards-missing",
            )
        cards: dict[Shard, dict[str, Any]] = {}
        for shard in (Shard(number, count) for number in range(1, count + 1)):
            card = self.card(shard)
            if card is None:
                raise self.damaged(shard, f"{MANIFEST} is gone")
            about = card["shard"]
            if about["key"] != self.key:
                raise self._strange(shard, card)
            if about["start"] != stop or about["of"] != total or (shard.number == count and about["stop"] != total):
                raise EmbeddingError(
                    f"{self._named(shard)}: inputs {about['start']:,} to {about['stop']:,} of {about['of']:,}, but the "
                    f"shard before it ends at {stop:,} of {total:,}.",
                    hint=f"give all shards one --batch-size: delete it, then visir encode … --shard {shard}"
                    f"{self._where}",
                    code="inputs-shard-before-ends",
                )
            stop, cards[shard] = about["stop"], card
        return cards

    def check_other_counts(self, shard: Shard) -> None:
        """Raise `EmbeddingError` when there are shards, finished or begun, of another number of parts."""
        for count, numbers in self._counts().items():
            if count == shard.count:
                continue
            missing = self._missing(count)
            again = f"one by one: --shard {missing[0]}/{count} and so on" if missing else "join them: --merge"
            is_here_too = self.remote is not None and self._begun_here()
            raise EmbeddingError(
                f"{self.place}: holds {self.label} shards {_listed(numbers)} of {count}, finished or begun; "
                f"this is {shard.number} of {shard.count}.",
                hint=f"go on with {count} processes, or {again}; to begin anew, delete {self.place}"
                f"{f' and {self.work}' if is_here_too else ''}",
                code="holds-shards-finished-begun",
            )

    def check_same(self, shard: Shard, card: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Raise `EmbeddingError` when the finished shard is not the one that `about` describes."""
        existing = card["shard"]
        if existing["key"] != about["key"]:
            raise self._strange(shard, card)
        if existing != about:
            same_rows = (existing["start"], existing["stop"]) == (about["start"], about["stop"])
            reason = "another order of the collection" if same_rows else "another --batch-size"
            raise EmbeddingError(
                f"{self._named(shard)}: inputs {existing['start']:,} to {existing['stop']:,}, and this would be "
                f"{about['start']:,} to {about['stop']:,}: {reason}.",
                hint="take the same for all shards, or delete that one",
                code="shards-of-other-inputs",
            )

    def publish(self, shard: Shard) -> None:
        """Copy a finished shard to the place of all shards, if that is elsewhere; its manifest goes last."""
        if self.remote is not None:
            self.remote.put(self.own(shard), self.name(shard), self._files)
            remove_folder(self.own(shard))

    def remove(self, shard: Shard) -> None:
        """Remove a finished shard."""
        if self.remote is not None:
            self.remote.remove(self.name(shard))
        else:
            remove_folder(self.own(shard))

    def append(self, journal: Journal, shard: Shard, card: Mapping[str, Any]) -> None:
        """Append the vectors of a shard, but for those that a killed call has joined already."""
        about, broken = card["shard"], card["broken"]
        if about["stop"] <= journal.done:
            return
        names = self.items.ids[about["start"] : about["stop"]].to_pylist()
        with contextlib.ExitStack() as copied:
            folder = self.own(shard)
            if self.remote is not None:  # a copy of it for as long as it is needed
                scratch = copied.enter_context(Scratch.beside(self.work / "copy"))
                files = [scratch.file(f"shard/{name}") for name in self._files]
                folder = files[0].parent
                self.remote.get(self.name(shard), self._files, folder)
            try:
                if faults := Manifest.read(folder, VECTORS).faults(folder):
                    raise self.damaged(shard, faults[0])
                stored_ids, vectors = Entry(folder, dict(card)).content()
            except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as fault:
                raise self.damaged(shard, str(fault)) from fault
            is_there = np.array([name not in broken for name in names], bool)
            left = [name for name in names if name not in broken]
            if stored_ids.to_pylist() != left or len(vectors) != len(left):
                raise self.damaged(shard, f"its ids are not those of inputs {about['start']:,} to {about['stop']:,}")
            rows = np.where(is_there, is_there.cumsum() - 1, -1)
            journal.append_rows(about["start"], rows, vectors, broken)

    def damaged(self, shard: Shard, reason: str) -> EmbeddingError:
        """The error for a shard that is not what was written."""
        return EmbeddingError(
            f"{self._named(shard)}: damaged: {reason}.",
            hint=f"delete it and make it again: visir encode … --shard {shard}{self._where}",
            code="damaged",
        )

    def _strange(self, shard: Shard, card: Mapping[str, Any]) -> EmbeddingError:
        maker, items = EncoderCard(**card["encoder"]), card["items"]
        mine = self.encoder.card
        if not mine.is_same_model(maker) or (mine.revision, mine.dtype) != (maker.revision, maker.dtype):
            reason = f"made by {_model(maker)}, not by {_model(mine)}"
        elif items["fingerprint"] != self.items.fingerprint:
            reason = (
                f"of another collection ({items['name']}, fingerprint {items['fingerprint'][:8]}, not "
                f"{self.items.name}, {self.items.fingerprint[:8]})"
            )
        elif mine.differences(maker, self.items.modality):
            reason = "made with another preprocessing"
        else:
            reason = "of the same ids, but the pictures were others (their bytes differ)"
        return EmbeddingError(
            f"{self._named(shard)}: {reason}.",
            hint="name another folder for these shards (--shards), or delete it",
            code="parts-of-another-run",
        )

    def _begun_here(self) -> list[str]:
        return [path.name for path in self.work.iterdir()] if self.work.is_dir() else []

    def _counts(self) -> dict[int, list[int]]:
        """The numbers of the shards that are finished or begun, by the number of parts."""
        return self._numbers([*self._begun_here(), *(self.remote.names() if self.remote is not None else ())])

    def _numbers(self, names: Iterable[str]) -> dict[int, list[int]]:
        """By the number of parts the numbers of the shards whose folders have these names, ascending."""
        matches = [re.fullmatch(rf"{re.escape(self.label)}-(\d{{5}})-of-(\d{{5}})", name) for name in names]
        numbers: dict[int, list[int]] = {}
        for number, count in sorted({(int(match[1]), int(match[2])) for match in matches if match is not None}):
            numbers.setdefault(count, []).append(number)
        return numbers

    def _missing(self, count: int) -> list[int]:
        return sorted({*range(1, count + 1)}.difference(self.finished(count)))

    def _named(self, shard: Shard) -> str:
        return f"{self.place}/{self.name(shard)}"


def _listed(numbers: list[int], limit: int = 10) -> str:
    return ", ".join(map(str, numbers[:limit])) + (f" and {len(numbers) - limit} more" if len(numbers) > limit else "")


def _model(card: EncoderCard) -> str:
    facts = [str(fact)[:12] for fact in (card.revision, card.weights) if fact]
    return f"{card.name} ({', '.join([*facts, str(card.dtype)])})"


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
    encoder, store = _computing(encoder, items), store or Store()
    folder = ShardFolder(encoder, items, role, store, place)
    check_not_empty(items)
    rows = shard.rows(len(items), alignment(encoder, items.modality, batch_size))
    about = folder.about(shard, rows)

    def result(
        card: Mapping[str, Any] | None, computed: int = 0, resumed: int = 0, seconds: float = 0
    ) -> ShardEncoding:
        broken = {} if card is None else card["broken"]
        check_broken(broken, items, skip_broken)
        finished = tuple(range(1, shard.count + 1) if card is None else folder.finished(shard.count))
        return ShardEncoding(shard, rows, len(items), computed, resumed, seconds, broken, finished, card is None)

    if usable_entry(store, folder.key, items) is not None:
        return result(None)
    folder.check_other_counts(shard)
    part = items.take(np.arange(rows.start, rows.stop))
    options = ForwardOptions(batch_size, workers, skip_broken)
    waiting = f"another process is encoding shard {shard}; waiting for it"
    while True:
        with changing(folder.own(shard), VECTORS, busy=waiting, resume=True) as change:
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
                resumed, computed, seconds = complete(
                    change, encoder.for_role(role), part, options, about, whole=items, facts={"shard": about}
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
    encoder, store = _computing(encoder, items), store or Store()
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
            with journal_of(change, encoder, items, {"key": folder.key}) as journal:
                for shard, card in cards.items():
                    folder.append(journal, shard, card)
                seconds = sum(card["seconds"] for card in cards.values())
                journal.finish(entry_card(encoder, items, journal.rows, seconds))
    if place is None:
        for shard in cards:
            folder.remove(shard)
        remove_empty_folders(folder.work)
    return store.entry(folder.key)


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
