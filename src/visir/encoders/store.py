"""The embedding store: encoding is the costly step, so vectors are kept, by content."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from visir.encoders.content import content_fingerprint
from visir.errors import EmbeddingError
from visir.fingerprint import hash_json
from visir.records import Embeddings, EncoderCard, Items, Role, modality_of, strings
from visir.storage import ContentStore, FolderChange, FolderKind, Manifest, Scratch

VECTORS = FolderKind("vectors", "a folder of vectors", remedy="delete it: it is made again", error=EmbeddingError)
FILES = ("vectors.npy", "ids.parquet")


@dataclass(frozen=True)
class Entry:
    """One complete entry: a folder with `vectors.npy`, `ids.parquet` and the manifest, whose content is the card.

    Attributes:
        folder: The folder of the entry.
        card: Encoder, collection, counts, broken inputs, when it was made (UTC).
    """

    folder: Path
    card: dict[str, Any]

    @property
    def broken(self) -> dict[str, str]:
        """The inputs that were set aside, with the reason."""
        with VECTORS.reading(self.folder):
            broken: dict[str, str] = self.card["broken"]
            return broken

    def embeddings(self, encoder: EncoderCard | None = None, origin: str = "") -> Embeddings:
        """The vectors, memory-mapped. `encoder` replaces the card (the same model under another name)."""
        with VECTORS.reading(self.folder):
            return Embeddings(
                modality_of(self.card["modality"]),
                strings(pq.read_table(self.folder / "ids.parquet")["id"]),
                np.load(self.folder / "vectors.npy", mmap_mode="r", allow_pickle=False),
                encoder or EncoderCard.from_dict(self.card["encoder"]),
                origin=origin,
            )


class Store:
    """A folder of entries, each named by a key over everything that determines its vectors.

    The key covers the encoder (family, revision, hash over the weights, preprocessing, dtype; its name too when the
    weights cannot be hashed), the modality, and the ids and contents of the inputs. Nothing else counts: the same
    photos in another collection, encoded by the same model, are found.

    Args:
        root: The folder of the store; `VISIR_CACHE`/embeddings by default. It can be deleted at any time.

    Example:
        >>> import tempfile
        >>> from visir.encoders import Store, encode_detailed, load
        >>> from visir.records import Items
        >>> items = Items.of_texts({"1": "a red boat"})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder)
        ...     [encode_detailed(load("bow:64"), items, store=store).computed for _ in range(2)]
        [1, 0]
    """

    def __init__(self, root: str | Path | None = None) -> None:
        self._folders = ContentStore(VECTORS, root, name="embeddings")
        self.root = self._folders.root

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    @classmethod
    @contextmanager
    def temporary(cls) -> Iterator[Store]:
        """A store that is removed at the end; vectors that are memory-mapped stay readable (not on Windows)."""
        with Scratch.temporary("vectors") as scratch:
            scratch.made("store/*/*/*")
            yield cls(scratch.path / "store")

    def key(self, encoder: EncoderCard, items: Items, role: Role | None = None) -> str:
        """The name of an entry: 32 hexadecimal digits.

        Args:
            encoder: The card of the encoder.
            items: What is encoded.
            role: The role of the items, for an encoder that distinguishes roles; None for all others.
        """
        identity = encoder.identity(items.modality)
        values = {"encoder": identity, items.modality: content_fingerprint(items)}
        return hash_json(values if role is None else {**values, "role": role})

    def find(self, key: str) -> Entry | None:
        """The sound entry of this key, or None. A damaged one is put aside, with a warning."""
        manifest = self._folders.find(key)
        if manifest is None:
            return None
        entry = self._entry(key, manifest)
        try:
            entry.embeddings()
        except (OSError, ValueError, KeyError, EmbeddingError) as fault:
            self._folders.put_aside(key, str(fault))
            return None
        return entry

    def remove(self, key: str) -> None:
        """Remove an entry. Vectors that are memory-mapped somewhere stay readable there (not on Windows)."""
        self._folders.remove(key)

    @contextmanager
    def writing(self, key: str) -> Iterator[FolderChange]:
        """Be the only writer of this key; another process that needs the same waits, and then finds the entry."""
        with self._folders.writing(key, waiting="another process is encoding the same; waiting for it") as change:
            yield change

    def entry(self, key: str) -> Entry:
        """The entry that was just written."""
        return self._entry(key, Manifest.read(self._folders.path(key), VECTORS))

    def shards(self, key: str) -> Path:
        """The folder for the shards of this entry while several processes make it (`visir.encoders.shards`)."""
        return self._folders.path(key).with_suffix(".shards")

    def _entry(self, key: str, manifest: Manifest) -> Entry:
        return Entry(self._folders.path(key), dict(manifest.content))
