"""`encode`: a whole collection through an encoder, kept in the store."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visir.collections.images import ImageReader
from visir.encoders.base import Encoder
from visir.encoders.endings import with_endings
from visir.encoders.journal import Journal
from visir.encoders.loader import load_images
from visir.encoders.store import Entry, Store
from visir.errors import CollectionError, EmbeddingError, EncoderError, ImageError
from visir.progress import Progress
from visir.records import Collection, Embeddings, Modality, strings
from visir.shortcuts.view import endings, plain_texts

_WINDOW = 8
"""Batches of texts that are sorted by length together, so that a batch is padded to little more than its content."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """What `encode_collection` did.

    - `embeddings`: in the collection's order, without the broken inputs
    - `broken`: id to reason, of the images that were set aside
    - `computed`: how many inputs went through the model now; `resumed`: how many an interrupted run had left. Both are
      0 when everything was found in the store.
    - `folder`: where the vectors are kept (None where they are not); `seconds`: wall-clock time of the computation
    - `made`: when the vectors were made, in UTC; None for imported ones
    """

    embeddings: Embeddings
    broken: dict[str, str]
    computed: int
    resumed: int
    seconds: float
    folder: Path | None
    made: str | None = None

    @property
    def source(self) -> str:
        """Where the vectors come from, for people, and in which folder they lie."""
        where = f" ({self.folder})" if self.folder and not self.computed else ""
        return self.embeddings.origin + where


def encode(
    encoder: Encoder,
    collection: Collection,
    modality: Modality,
    *,
    store: Store | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    skip_broken: bool = False,
) -> Embeddings:
    """The vectors of all images, or all captions, of a collection: `encode_collection(...).embeddings`."""
    return encode_collection(
        encoder,
        collection,
        modality,
        store=store,
        batch_size=batch_size,
        workers=workers,
        skip_broken=skip_broken,
    ).embeddings


def encode_collection(
    encoder: Encoder,
    collection: Collection,
    modality: Modality,
    *,
    store: Store | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    skip_broken: bool = False,
) -> Encoding:
    """Encode one modality of a collection, or find it in the store.

    - `store`: where vectors are kept and looked for; by default the user's cache. Vectors of an encoder whose card has
      neither weights nor a revision are not kept: nothing would tell that its code has changed.
    - `batch_size`: inputs per forward pass (default: the encoder's own)
    - `workers`: threads that read, decode and preprocess (default: one per core)
    - `skip_broken`: set broken images aside instead of stopping at the first; they are in `Encoding.broken`, and a
      later call without `skip_broken` refuses the incomplete result

    An interrupted call goes on where it stopped when it is repeated. Vectors are float32, not normalised. On a CPU they
    depend on batch size and order by rounding only (1e-5).

    Raises `ImageError` naming a broken image, `EmbeddingError` naming inputs whose vectors are NaN, `EncoderError` when
    the encoder does not take this modality.
    """
    from visir.encoders.models.imported import Imported

    if isinstance(encoder, Imported):
        if modality == "image" and collection.corrupted is not None:
            raise EncoderError(
                f"{encoder.card.name}: vectors made elsewhere know nothing of corrupted pictures "
                f"({collection.corrupted}).",
                hint="name the model itself, or write the pictures (visir.robustness.corruptions.write_pictures)",
            )
        return Encoding(encoder.embeddings(collection, modality), {}, 0, 0, 0.0, None)
    if modality not in encoder.modalities:
        raise encoder.cannot(modality)
    backbone = encoder.backbone(modality)
    if backbone is not None:
        under = encode_collection(
            backbone,
            collection,
            modality,
            store=store,
            batch_size=batch_size,
            workers=workers,
            skip_broken=skip_broken,
        )
        found = under.embeddings
        vectors = encoder.project(modality, found.vectors)
        projected = Embeddings(modality, found.ids, vectors, encoder.card, origin=found.origin)
        return replace(under, embeddings=projected)

    inputs = collection.images if modality == "image" else collection.captions
    if inputs.num_rows == 0:
        raise CollectionError(f"{collection.name}: there are no {modality}s to encode.", hint="is the split right?")
    if not encoder.card.is_versioned:
        with Store.temporary() as temporary:
            made = _encoded(encoder, collection, modality, temporary, batch_size, workers, skip_broken)
            if os.name == "nt":  # a file that is mapped cannot be removed there
                made = replace(made, embeddings=replace(made.embeddings, vectors=np.array(made.embeddings.vectors)))
            return replace(made, folder=None)
    return _encoded(encoder, collection, modality, store or Store(), batch_size, workers, skip_broken)


def _encoded(
    encoder: Encoder,
    collection: Collection,
    modality: Modality,
    store: Store,
    batch_size: int | None,
    workers: int | None,
    skip_broken: bool,
) -> Encoding:
    inputs = collection.images if modality == "image" else collection.captions
    key = store.key(encoder.card, collection, modality)
    entry, done, seconds, computed = usable(store, key, collection), 0, 0.0, 0
    if entry is None:
        with store.writing(key) as change:
            if change.manifest.generation == 0:  # else another process has finished it while this one waited
                with Journal(change, strings(inputs["id"]), encoder.dimension, {"key": key}) as journal:
                    done = journal.done
                    computed, seconds = complete(
                        journal,
                        encoder,
                        collection,
                        modality,
                        batch_size=batch_size,
                        workers=workers,
                        skip_broken=skip_broken,
                    )
        entry = store.entry(key)
    refuse_broken(entry.broken, inputs.num_rows, collection, skip_broken)
    made = f"encoded at {entry.card['made']}"
    origin = made if computed else f"from the vector store, {made}"
    embeddings = _in_order(entry, encoder, collection, modality, origin)
    return Encoding(embeddings, entry.broken, computed, done, seconds, entry.folder, entry.card["made"])


def complete(
    journal: Journal,
    encoder: Encoder,
    collection: Collection,
    modality: Modality,
    *,
    batch_size: int | None,
    workers: int | None,
    skip_broken: bool,
    whole: Collection | None = None,
    also: Mapping[str, Any] | None = None,
) -> tuple[int, float]:
    """Encode the inputs that the journal lacks and finish it; returns how many those were, and the seconds.

    - `whole`: the collection of which `collection` is a part, when it is one; that is what the entry describes
    - `also`: what stands on the entry's card besides
    """
    whole = whole or collection
    total = (whole.images if modality == "image" else whole.captions).num_rows
    begun, done = time.perf_counter(), journal.done
    refuse_broken(journal.broken, total, whole, skip_broken)
    _fill(journal, encoder, collection, modality, batch_size, workers, skip_broken)
    seconds = time.perf_counter() - begun
    refuse_broken(journal.broken, total, whole, skip_broken)
    journal.finish({**card_of(encoder, whole, modality, journal.rows, seconds), **(also or {})})
    return journal.done - done, seconds


def card_of(
    encoder: Encoder, collection: Collection, modality: Modality, count: int, seconds: float
) -> dict[str, object]:
    """What an entry's card says of where its vectors come from."""
    return {
        "modality": modality,
        "encoder": encoder.card.to_dict(),
        "collection": collection.describe(),
        "count": count,
        "dimension": encoder.dimension,
        "seconds": round(seconds, 3),
    }


def alignment(encoder: Encoder, modality: Modality, batch_size: int | None) -> int:
    """Encoding that begins at a multiple of so many inputs makes the same batches as encoding from the first on.

    Same batches, same vectors: to the last bit, where the machine and its number of threads are the same.
    """
    size = batch_size or encoder.batch_size
    return size if modality == "image" else size * _WINDOW


class _Part(NamedTuple):
    stop: int
    vectors: NDArray[np.float32]
    broken: dict[str, str]


def _fill(
    journal: Journal,
    encoder: Encoder,
    collection: Collection,
    modality: Modality,
    batch_size: int | None,
    workers: int | None,
    skip_broken: bool,
) -> None:
    size = batch_size or encoder.batch_size
    total = (collection.images if modality == "image" else collection.captions).num_rows
    parts = (
        _images(encoder, collection, journal.done, size, workers, skip_broken)
        if modality == "image"
        else _texts(encoder, collection, journal.done, size)
    )
    with closing(parts), Progress(f"encoding {modality}s with {encoder.card.name}", total, f"{modality}s") as advance:
        advance(journal.done)
        at = journal.done
        for part in parts:
            journal.append(part.stop, part.vectors, part.broken)
            advance(part.stop - at)
            at = part.stop
    journal.flush()


def _images(
    encoder: Encoder, collection: Collection, start: int, size: int, workers: int | None, skip_broken: bool
) -> Generator[_Part, None, None]:
    batches = load_images(
        collection.items("image"), encoder, start=start, batch_size=size, workers=workers, skip_broken=skip_broken
    )
    with closing(batches):
        for loaded in batches:
            if loaded.pixels:
                vectors = encoder.embed_images(loaded.pixels)
            else:
                vectors = np.zeros((0, encoder.dimension), dtype=np.float32)
            yield _Part(loaded.stop, vectors, loaded.broken)


def _texts(encoder: Encoder, collection: Collection, start: int, size: int) -> Generator[_Part, None, None]:
    captions = collection.items("text")
    column, ends = plain_texts(captions), endings(captions)
    window = size * _WINDOW
    for begin in range(start, len(column), window):
        texts: list[str] = column[begin : begin + window].to_pylist()
        if ends is not None:
            texts = with_endings(encoder, texts, ends[begin : begin + window])
        # A stable sort: equal lengths keep their order, so the batches are the same in every run.
        order = np.argsort([len(text) for text in texts], kind="stable")
        vectors = np.empty((len(texts), encoder.dimension), dtype=np.float32)
        for at in range(0, len(texts), size):
            rows = order[at : at + size]
            vectors[rows] = encoder.embed_texts([texts[row] for row in rows])
        yield _Part(begin + len(texts), vectors, {})


def usable(store: Store, key: str, collection: Collection) -> Entry | None:
    """The entry of this key, unless an image that was set aside can be read by now (a share that was not mounted)."""
    entry = store.find(key)
    if entry is None or not mended(entry.broken, collection):
        return entry
    store.remove(key)
    return None


def mended(broken: Mapping[str, str], collection: Collection) -> bool:
    """Whether one of these images can be read by now."""
    if not broken:
        return False
    reader = ImageReader(collection)
    for row, name in enumerate(collection.images["id"].to_pylist()):
        if name in broken:
            try:
                reader.open(row)
            except ImageError:
                continue
            return True
    return False


def refuse_broken(broken: Mapping[str, str], total: int, collection: Collection, skip_broken: bool) -> None:
    """Stop when images were set aside and the caller did not allow it, or when none is left."""
    if not broken:
        return
    some = "; ".join(list(broken.values())[:3]) + ("; …" if len(broken) > 3 else "")
    if len(broken) == total:
        raise ImageError(f"{collection.name}: none of its {total:,} images can be used: {some}")
    if not skip_broken:
        raise ImageError(
            f"{collection.name}: {len(broken):,} of {total:,} images are broken: {some}",
            hint="mend them, or set them aside, counted: --skip-broken",
        )


def _in_order(entry: Entry, encoder: Encoder, collection: Collection, modality: Modality, origin: str) -> Embeddings:
    """The entry's vectors in the collection's order; copied only when the entry was made in another order."""
    embeddings = entry.embeddings(encoder.card, origin)
    ids = (collection.images if modality == "image" else collection.captions)["id"].to_pylist()
    wanted = [one for one in ids if one not in entry.broken] if entry.broken else ids
    if len(wanted) != len(embeddings):
        raise EmbeddingError(f"{entry.folder}: {len(embeddings)} vectors for {len(wanted)} inputs.", hint="delete it")
    return embeddings if wanted == embeddings.ids.to_pylist() else embeddings.select(wanted)
