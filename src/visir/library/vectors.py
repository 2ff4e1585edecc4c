"""Vectors of new pictures and captions: encoded as everything in visir is, and put into the library's indexes.

Work is done in groups. Of each group the vectors are encoded into a store inside the library (whose journal a killed
encode goes on from), then added to the indexes; what an index holds is not encoded again. So a kill costs two seconds
of encoding at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.collections.images import ImageReader
from visir.encoders.encoding import encode, encode_detailed
from visir.encoders.forms import as_dense
from visir.encoders.store import Store
from visir.errors import ImageError
from visir.library.check import load_index
from visir.library.layout import CAPTIONS, WORK, LibraryCard, LibraryError, named_settings
from visir.library.models import LibraryModels
from visir.library.product_source import ProductEntry, ShopTable
from visir.library.source import PhotoSource, SourceEntry
from visir.records import (
    JUDGEMENTS,
    Collection,
    Embeddings,
    Items,
    Modality,
    MultiVectorEmbeddings,
    Role,
    SparseEmbeddings,
    Vectors,
    strings,
)
from visir.retrieval.index import Index
from visir.retrieval.kinds import KINDS, make
from visir.storage import FolderChange, remove_own_folders

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.sparse.encoder import SparseEncoder


# Vectors of products: the mean of the unit vectors of a product's pictures, and of that with the one of its text.


def product_vectors(
    encoder: Encoder, source: ShopTable, entries: Mapping[str, ProductEntry], store: Store
) -> tuple[Embeddings | None, dict[str, str]]:
    """The vectors of products."""
    if encoder.form != "dense":
        raise LibraryError(
            f"{encoder.label}: makes {encoder.form} vectors; a library of products takes one vector for each.",
            hint="another model: visir models --form dense",
        )
    if encoder.precomputed:  # vectors without ids belong to the whole collection, in its order
        every = as_dense(encode(encoder, source.collection, "image"))
        chosen = every.select([entry.path for entry in entries.values()])
        return replace(chosen, ids=strings(list(entries)), vectors=np.array(chosen.vectors)), {}
    pictures, broken = _pictures(encoder, source, entries, store) if "image" in encoder.modalities else (None, {})
    texts = _texts(encoder, entries, store) if "text" in encoder.modalities else None
    items = list(entries)
    sides = [side for side in (_means(items, entries, pictures), _unit_rows(items, texts)) if side is not None]
    if not sides:
        return None, {item: _without(entry, broken, encoder) for item, entry in entries.items()}
    total = np.sum(sides, axis=0, dtype=np.float32)
    lengths = np.linalg.norm(total, axis=1, keepdims=True)
    empty = lengths[:, 0] == 0
    reasons = {item: _without(entries[item], broken, encoder) for item, none in zip(items, empty, strict=True) if none}
    model = next(part for part in (pictures, texts) if part is not None)
    vectors = (total / np.maximum(lengths, np.finfo(np.float32).tiny))[~empty]
    return (
        Embeddings(
            "image",
            strings([item for item in items if item not in reasons]),
            np.ascontiguousarray(vectors, np.float32),
            model.encoder,
            origin=model.origin,
        ),
        reasons,
    )


def _pictures(
    encoder: Encoder, source: ShopTable, entries: Mapping[str, ProductEntry], store: Store
) -> tuple[Embeddings | None, dict[str, str]]:
    rows = sorted({picture.row for entry in entries.values() for picture in entry.pictures})
    if not rows:
        return None, {}
    try:
        result = encode_detailed(encoder, source.part(rows).items("image"), store=store, skip_broken=True)
    except ImageError as fault:  # not one of them can be used
        return None, {source.collection.images["id"][row].as_py(): fault.reason for row in rows}
    return as_dense(result.embeddings), dict(result.broken)


def _texts(encoder: Encoder, entries: Mapping[str, ProductEntry], store: Store) -> Embeddings:
    texts = {item: entry.text for item, entry in entries.items()}
    items = Items.of_texts(texts, title="texts of products", name="products")
    return as_dense(encode_detailed(encoder, items, store=store).embeddings)


def _means(
    items: Sequence[str], entries: Mapping[str, ProductEntry], pictures: Embeddings | None
) -> NDArray[np.float32] | None:
    """(items, d) the unit mean of the unit vectors of each product's pictures; zero where it has none."""
    if pictures is None:
        return None
    units = _unit(np.asarray(pictures.vectors, np.float32))
    row_of = {picture: row for row, picture in enumerate(pictures.ids.to_pylist())}
    means = np.zeros((len(items), units.shape[1]), np.float32)
    for row, item in enumerate(items):
        own = [row_of[picture.path] for picture in entries[item].pictures if picture.path in row_of]
        if own:
            means[row] = units[own].mean(axis=0)
    return _unit(means)


def _unit_rows(items: Sequence[str], texts: Embeddings | None) -> NDArray[np.float32] | None:
    if texts is None:
        return None
    if not texts.ids.equals(pa.array(items, pa.string())):
        texts = texts.select(list(items))
    return _unit(np.asarray(texts.vectors, np.float32))


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def _without(entry: ProductEntry, broken: Mapping[str, str], encoder: Encoder) -> str:
    """Why a product has no vector."""
    reasons = [broken[picture.path] for picture in entry.pictures if picture.path in broken]
    if reasons:
        return reasons[0]
    if "text" not in encoder.modalities:
        return f"{entry.path}: has no picture, and {encoder.label} takes pictures alone."
    return f"{entry.path}: {encoder.label} knows no word of {entry.text!r}."


GROUP = 16_384
"""Pictures (or captions) that go into the indexes together; more of them when the index is large, because a graph is
written anew with every addition."""
GROUP_OF_SEVERAL = 1024
"""The same for a model that makes several vectors for each: a thousand for a page take 270 MB."""
_STORE = "vectors"


@dataclass
class Indexes:
    """The indexes of a library while it is being changed: made with the first vector, opened where there is one."""

    folder: Path  # the library's
    kinds: Mapping[str, str]  # from "dense", "sparse" and "captions" to the kind of index
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # from the same to its settings
    opened: dict[str, Index[Any]] = field(default_factory=dict)  # those that are open
    change: FolderChange | None = None  # of the library; needed where an index may have to be made
    # From the names of indexes to those of their folders, where they differ.
    places: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, change: FolderChange, card: LibraryCard) -> Indexes:
        """Those of a library that is being changed."""
        return cls(change.folder, card.kinds, card.settings, change=change, places=card.places)

    def get(self, system: str) -> Index[Any] | None:
        """The index, None while it has no documents."""
        place = self.folder / self.places.get(system, system)
        if system not in self.opened and place.is_dir():
            self.opened[system] = load_index(place)
        return self.opened.get(system)

    def ids(self, system: str) -> set[str]:
        """The ids of all documents of an index."""
        index = self.get(system)
        return set() if index is None else set(index.ids.to_pylist())

    def add(self, system: str, vectors: Vectors) -> None:
        """Add documents; those that are there already are left as they are."""
        index = self.get(system)
        if len(vectors) == 0:
            return
        if index is None:
            settings = named_settings(self.folder, system, self.kinds[system], self.settings.get(system, {}))
            kind = KINDS.get(self.kinds[system])  # not `build_index`: the command line names no settings here
            assert self.change is not None, "an index can only be made by a change of the library"
            place = self.change.own_folder(self.places.get(system, system))
            self.opened[system] = make(kind, vectors, place, **settings)
            return
        existing = self.ids(system)
        fresh = [document for document in vectors.ids.to_pylist() if document not in existing]
        if fresh:
            index.add(vectors if len(fresh) == len(vectors) else vectors.select(fresh))

    def keep(self, system: str, ids: set[str]) -> int:
        """Delete all other documents; how many that were."""
        removed = sorted(self.ids(system) - ids)
        index = self.get(system)
        if removed and index is not None:
            index.delete(removed)
        return len(removed)


def add_pictures(
    change: FolderChange,
    source: PhotoSource,
    first: Mapping[str, SourceEntry],
    models: LibraryModels,
    indexes: Indexes,
    contents: Mapping[str, str],
    callback: Callable[[str, int, int], None],
) -> tuple[dict[str, ImageError], int]:
    """Encode each item from its entry and add it to the indexes; `contents`: from image id to the hash of its bytes."""
    # Returns the items that could not be, with the fault, and how many there were to encode.
    systems = [system for system in ("dense", "sparse") if system in indexes.kinds]
    have = {system: indexes.ids(system) for system in systems}
    missing = {item: entry for item, entry in first.items() if any(item not in have[system] for system in systems)}
    broken: dict[str, ImageError] = {}
    done = 0
    size = max((len(ids) for ids in have.values()), default=0)
    for group, store in _groups(missing, change, size, models, source, contents):
        callback("encoding", done, len(missing))
        encoded = _encoded(source, group, models, systems, store)
        broken |= encoded.broken
        for system, vectors in encoded.vectors.items():
            indexes.add(system, vectors)
        done += len(group)
        _clear(change)
        callback("encoding", done, len(missing))
    return broken, len(missing)


def add_captions(
    change: FolderChange, source: PhotoSource, caption_ids: set[str], models: LibraryModels, indexes: Indexes
) -> None:
    """Encode these captions of the source, and add them to the index of captions."""
    encoder = models.dense
    if encoder is None or "text" not in encoder.modalities:
        return
    everything = source.collection
    all_cached = _is_cached(encoder, everything, "text")
    missing = pa.array([caption in caption_ids for caption in everything.captions["id"].to_pylist()])
    captions = everything.captions.filter(missing)
    for start in range(0, captions.num_rows, GROUP):
        batch = captions.slice(start, GROUP)
        if all_cached:
            vectors = encode(encoder, everything, "text").select(batch["id"])
        else:
            part = replace(
                everything, captions=batch, judgements=JUDGEMENTS.empty_table(), facts=None, caption_facts=None
            )
            vectors = _relabelled(encode(encoder, part, "text", store=_store(change)), None)
        indexes.add(CAPTIONS, _without_zero(vectors)[0])
        _clear(change)


@dataclass
class _Encoded:
    vectors: dict[str, Vectors] = field(default_factory=dict)
    broken: dict[str, ImageError] = field(default_factory=dict)


def _groups(
    missing: Mapping[str, SourceEntry],
    change: FolderChange,
    size: int,
    models: LibraryModels,
    source: PhotoSource,
    contents: Mapping[str, str],
) -> Iterator[tuple[dict[str, SourceEntry], Store]]:
    """The items in order of their ids, in groups, each with the store its vectors go to."""
    # What another verb has encoded already is taken from the user's cache, if the whole source is there.
    if not missing:
        return
    encoder = models.sparse.dense if models.dense is None and models.sparse is not None else models.encoder
    many = len(missing) * 2 > source.collection.images.num_rows and not isinstance(source, ShopTable)
    if many and _is_cached(encoder, source.collection, "image", contents):
        yield dict(missing), Store(known=contents)
        return
    items = sorted(missing)
    position = 0
    while position < len(items):
        several = encoder.form == "multi-vector"
        step = GROUP_OF_SEVERAL if several else max(GROUP, (size + position) // 4)
        yield {item: missing[item] for item in items[position : position + step]}, _store(change, contents)
        position += step


def _encoded(
    source: PhotoSource, group: Mapping[str, SourceEntry], models: LibraryModels, systems: Sequence[str], store: Store
) -> _Encoded:
    encoded = _Encoded()
    all_cached = store.root == Store().root
    part = source.collection if all_cached else source.part([entry.row for entry in group.values()])
    item_of = {entry.path: item for item, entry in group.items()}
    for system in systems:
        try:
            vectors, unread = _vectors(system, models, part, source, group, store)
        except ImageError as fault:  # not one of them can be used
            unread = _reasons(part, fault)
            vectors = None
        for path in unread.keys() & item_of.keys():
            item = item_of[path]
            lasting = not _may_pass(source, group[item], models, system)
            encoded.broken[item] = ImageError(unread[path], lasting=lasting)
        if vectors is not None:
            encoded.vectors[system] = _relabelled(vectors, item_of)
    _drop_changed(source, group, encoded)
    if "dense" in encoded.vectors:
        encoded.vectors["dense"], zero = _without_zero(encoded.vectors["dense"])
        for item in zero:
            reason = f"{group[item].path}: its vector is zero, which has no direction."
            encoded.broken[item] = ImageError(reason, lasting=True)
    for system, vectors in encoded.vectors.items():
        sound = [item for item in vectors.ids.to_pylist() if item not in encoded.broken]
        if len(sound) != len(vectors):
            encoded.vectors[system] = vectors.select(sound)
    return encoded


def _model(models: LibraryModels, system: str) -> tuple[SparseEncoder | None, Encoder]:
    """The sparse head of a system, None for the dense one, and the encoder whose vectors it begins with."""
    head = models.sparse if system == "sparse" else None
    encoder = models.dense if head is None else head.dense
    assert encoder is not None
    return head, encoder


def _vectors(
    system: str,
    models: LibraryModels,
    part: Collection,
    source: PhotoSource,
    group: Mapping[str, SourceEntry],
    store: Store,
) -> tuple[Vectors | None, dict[str, str]]:
    """Vectors under the ids of the source, and what has none."""
    head, encoder = _model(models, system)
    if isinstance(source, ShopTable):
        entries = {entry.path: entry for entry in group.values() if isinstance(entry, ProductEntry)}
        vectors, broken = product_vectors(encoder, source, entries, store)
        return (vectors if head is None or vectors is None else head.sparsify(vectors)), broken
    if head is None and encoder.precomputed:  # vectors without ids belong to the whole collection, in its order
        return encode(encoder, source.collection, "image").select(part.images["id"]), {}
    result = encode_detailed(encoder, part.items("image"), store=store, skip_broken=True)
    return (result.embeddings if head is None else head.sparsify(as_dense(result.embeddings))), result.broken


def _may_pass(source: PhotoSource, entry: SourceEntry, models: LibraryModels, system: str) -> bool:
    """Whether a picture that could not be encoded a moment ago could be at another time, or already can."""
    _, encoder = _model(models, system)
    entries = entry.pictures if isinstance(entry, ProductEntry) else (entry,)
    reader = ImageReader(source.collection)
    for picture in entries:
        try:
            opened = reader.open(picture.row)
        except ImageError as fault:
            if not fault.lasting:
                return True
            continue
        try:
            encoder.preprocess(opened)
        except ImageError:  # the model takes no such picture
            continue
        return True
    return False


def _reasons(part: Collection, fault: ImageError) -> dict[str, str]:
    """Why each picture of a part cannot be used, when none of them can."""
    reader, reasons = ImageReader(part), {}
    for row, path in enumerate(part.images["id"].to_pylist()):
        try:
            reader.open(row)
            reasons[path] = fault.reason
        except ImageError as error:
            reasons[path] = error.reason
    return reasons


def _drop_changed(source: PhotoSource, group: Mapping[str, SourceEntry], encoded: _Encoded) -> None:
    """A file that was written to between hashing and encoding has a vector of something else: set it aside."""
    entries = list(group.values())
    now = source.marks_now(entries)
    other = {entry.path for entry, mark in zip(entries, now, strict=True) if mark != entry.mark}
    for item, entry in group.items():
        if entry.path in other:
            reason = f"{entry.path}: changed while it was being read; the next update takes it."
            encoded.broken[item] = ImageError(reason)


def _relabelled(vectors: Any, item_of: Mapping[str, str] | None) -> Any:
    """The same vectors under the ids of items; of those that are in `item_of` only. Copied out of the store."""
    if item_of is None:
        return replace(vectors, vectors=np.array(vectors.vectors))
    paths = [path for path in vectors.ids.to_pylist() if path in item_of]
    chosen = vectors.select(paths)
    return replace(chosen, ids=strings([item_of[path] for path in paths]))


def _without_zero(vectors: Vectors) -> tuple[Vectors, list[str]]:
    """The vectors without those of items that have no direction, and these items: the vector, or all of them, zero."""
    if isinstance(vectors, SparseEmbeddings):
        return vectors, []
    zero = ~np.asarray(vectors.vectors).any(axis=1)
    if isinstance(vectors, MultiVectorEmbeddings):
        zero = np.logical_and.reduceat(zero, vectors.offsets[:-1])
    if not zero.any():
        return vectors, []
    ids = np.array(vectors.ids.to_pylist(), object)
    return vectors.select(ids[~zero].tolist()), ids[zero].tolist()


def _is_cached(
    encoder: Encoder, collection: Collection, modality: Modality, contents: Mapping[str, str] | None = None
) -> bool:
    """Whether the user's cache has the vectors of the whole collection."""
    encoder = encoder.root_encoder(modality)
    if encoder.precomputed:
        return False
    store = Store(known=contents)
    role: Role | None = "document" if encoder.distinguishes_roles else None
    return store.find(store.key(encoder.stored_card, collection.items(modality), role)) is not None


def _store(change: FolderChange, contents: Mapping[str, str] | None = None) -> Store:
    return Store(change.work_folder(WORK) / _STORE, known=contents)


def _clear(change: FolderChange) -> None:
    """Remove the store: the indexes have its vectors."""
    for work in change.works(WORK):
        remove_own_folders(change, f"{work}/{_STORE}")
