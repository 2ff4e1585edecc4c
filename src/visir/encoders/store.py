"""The embedding store: encoding is the costly step, so its results are kept, by content."""

from __future__ import annotations

import contextlib
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from visir.encoders.content import content_fingerprint
from visir.encoders.journal import Journal, hash_vectors
from visir.errors import EmbeddingError
from visir.files import cache_directory, read_json
from visir.fingerprint import hash_json
from visir.locks import locked
from visir.records import Collection, Embeddings, EncoderCard, Modality, strings


@dataclass(frozen=True)
class Entry:
    """One complete entry: a folder with `vectors.npy`, `ids.parquet` and `card.json`."""

    folder: Path

    @cached_property
    def card(self) -> dict[str, Any]:
        """What `card.json` says: encoder, collection, counts, broken inputs, a hash of the vectors."""
        card: dict[str, Any] = read_json(self.folder / "card.json")
        return card

    @property
    def broken(self) -> dict[str, str]:
        """The inputs that were set aside, with the reason."""
        broken: dict[str, str] = self.card["broken"]
        return broken

    def embeddings(self, encoder: EncoderCard | None = None) -> Embeddings:
        """The vectors, memory-mapped. `encoder` replaces the card (the same model under another name)."""
        return Embeddings(
            self.card["modality"],
            strings(pq.read_table(self.folder / "ids.parquet")["id"]),
            np.load(self.folder / "vectors.npy", mmap_mode="r", allow_pickle=False),
            encoder or EncoderCard(**self.card["encoder"]),
        )

    def faults(self) -> list[str]:
        """What is wrong with the entry; reads all of it. Empty for a sound one."""
        try:
            if hash_vectors(self.folder / "vectors.npy") != self.card["vectors"]:
                return ["the vectors are not those that were written"]
            self.embeddings()
        except (OSError, ValueError, KeyError, EmbeddingError) as fault:
            return [str(fault)]
        return []


class Store:
    """A directory of entries, each named by a key over everything that determines its vectors.

    The key covers the encoder (family, revision, hash over the weights, preprocessing, dtype; its name too when the
    weights cannot be hashed), the modality, and the ids and contents of the inputs. Nothing else is asked: the same
    photos in another collection, encoded by the same model, are found.

    `root` is `VISIR_CACHE`/embeddings by default; it can be deleted at any time.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        self.root = Path(root) if root is not None else cache_directory() / "embeddings"

    def key(self, encoder: EncoderCard, collection: Collection, modality: Modality) -> str:
        """The name of the entry: 32 hexadecimal digits."""
        card = encoder.to_dict()
        if card["weights"] is not None:
            del card["name"]
        # Only the preprocessing of this modality bears on its vectors.
        del card["text_preprocessing" if modality == "image" else "image_preprocessing"]
        return hash_json({"encoder": card, modality: content_fingerprint(collection, modality)})

    def find(self, key: str) -> Entry | None:
        """The sound entry of this key, or None. A damaged one is deleted, with a warning."""
        entry = Entry(self._folder(key))
        if not entry.folder.is_dir():
            return None
        faults = entry.faults()
        if not faults:
            return entry
        warnings.warn(f"{entry.folder}: damaged ({faults[0]}); it is deleted and encoded again", stacklevel=2)
        self.discard(entry)
        return None

    def discard(self, entry: Entry) -> None:
        """Delete an entry. Vectors still memory-mapped somewhere stay readable there (not on Windows)."""
        shutil.rmtree(entry.folder)

    @contextlib.contextmanager
    def writing(self, key: str) -> Iterator[None]:
        """Be the only writer of this key; another process that wants the same waits and then finds it done."""
        with locked(
            self._folder(key).with_suffix(".lock"), waiting="another process is encoding the same; waiting for it"
        ):
            yield

    def journal(self, key: str, ids: Any, dimension: int) -> Journal:
        """The unfinished entry of this key, where a killed encode left it, or a new one."""
        return Journal(self._folder(key).with_suffix(".unfinished"), strings(ids), dimension, {"key": key})

    def publish(self, key: str) -> Entry:
        """Make the finished journal an entry, in one rename."""
        entry = Entry(self._folder(key))
        self._folder(key).with_suffix(".unfinished").replace(entry.folder)
        for name in ("journal.jsonl", "plan.json"):
            (entry.folder / name).unlink(missing_ok=True)
        return entry

    def shards(self, key: str) -> Path:
        """Where the shards of this entry lie while several processes make it; `visir.encoders.shards` keeps it."""
        return self._folder(key).with_suffix(".shards")

    def _folder(self, key: str) -> Path:
        return self.root / key[:2] / key
