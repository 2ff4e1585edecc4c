"""The embedding store: encoding is the costly step, so vectors are kept, by content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visir.arrays import load_array
from visir.encoders.content import content_fingerprint
from visir.encoders.kept_form import DENSE, IDS_FILE, OFFSETS_FILE, VECTORS_FILE, KeptForm
from visir.errors import EmbeddingError
from visir.fingerprint import hash_json
from visir.parquet import read_table
from visir.records import Embeddings, EncoderCard, Items, MultiVectorEmbeddings, Role, modality_of, strings
from visir.storage import ContentStore, FolderChange, FolderKind, Manifest, Scratch

VECTORS = FolderKind("vectors", "a folder of vectors", remedy="delete it: it is made again", error=EmbeddingError)


@dataclass(frozen=True)
class Entry:
    """One complete entry: a folder with `vectors.npy`, `ids.parquet` and the manifest, whose content is the card."""

    # Where items have several vectors, `offsets.npy` says which.

    folder: Path  # the folder of the entry
    card: dict[str, Any]  # encoder, collection, counts, broken inputs, when it was made (UTC)

    @property
    def broken(self) -> dict[str, str]:
        """The inputs that were set aside, with the reason."""
        with VECTORS.reading(self.folder):
            broken: dict[str, str] = self.card["broken"]
            return broken

    def embeddings(self, encoder: EncoderCard | None = None, origin: str = "") -> Embeddings | MultiVectorEmbeddings:
        """The vectors, memory-mapped. `encoder` replaces the card (the same model under another name)."""
        with VECTORS.reading(self.folder):
            modality = modality_of(self.card["modality"])
            ids = strings(read_table(self.folder / IDS_FILE)["id"])
            vectors = load_array(self.folder / VECTORS_FILE, mapped=True)
            encoder = encoder or EncoderCard.from_dict(self.card["encoder"])
            if self.card.get("form") == "multi-vector":
                offsets = load_array(self.folder / OFFSETS_FILE)
                return MultiVectorEmbeddings(modality, ids, offsets, vectors, encoder, origin)
            return Embeddings(modality, ids, vectors, encoder, origin=origin)


class Store:
    """A folder of entries, each named by a key over everything that determines its vectors.

    The key covers the encoder (family, revision, hash over the weights, preprocessing, dtype; its name too when the
    weights cannot be hashed), whether it makes one vector for an input or several, the modality, and the ids and
    contents of the inputs. Nothing else counts: the same photos in another collection, encoded by the same model, are
    found.

    Args:
        root: The folder of the store; `VISIR_CACHE`/embeddings by default. It can be deleted at any time.
        known: Of images that are encoded into it, by id, the hash of their bytes, as `image_contents` takes it: they
            need not be read again to be told apart.

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

    def __init__(self, root: str | Path | None = None, *, known: Mapping[str, str] | None = None) -> None:
        self._folders, self._known = ContentStore(VECTORS, root, name="embeddings"), known
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

    def key(self, encoder: EncoderCard, items: Items, role: Role | None = None, form: KeptForm = DENSE) -> str:
        """The name of an entry: 32 hexadecimal digits.

        Args:
            encoder: The card of the encoder.
            items: What is encoded.
            role: The role of the items, for an encoder that distinguishes roles; None for all others.
            form: How its vectors are kept.
        """
        identity = encoder.identity(items.modality)
        values: dict[str, Any] = {"encoder": identity, items.modality: content_fingerprint(items, self._known)}
        if role is not None:
            values["role"] = role
        if form.several:
            values |= {"form": form.name, "kept dtype": form.dtype}
        return hash_json(values)

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
