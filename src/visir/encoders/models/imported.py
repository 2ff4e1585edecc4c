"""Vectors that were made elsewhere, behind the same door as a model: `load("npz:FILE")`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders.base import Encoder
from visir.encoders.models.vector_files import VectorRows, read_vectors
from visir.errors import EmbeddingError, EncoderError
from visir.options import split_mark
from visir.records import Embeddings, EncoderCard, Items, Modality, MultiVectorEmbeddings

_BROKEN = "; pictures that cannot be read have none: set them aside with --skip-broken (in Python: skip_broken=True)"


class Imported(Encoder):
    """Vectors from files. It encodes nothing: `existing_vectors(items)` looks up what was imported."""

    precomputed = True

    def __init__(
        self, rows: Mapping[Modality, VectorRows], cards: EncoderCard | Mapping[Modality, EncoderCard], place: Path
    ) -> None:
        changed = datetime.fromtimestamp(place.stat().st_mtime, UTC).isoformat(timespec="seconds")
        self.origin = f"from the {'folder' if place.is_dir() else 'file'} {place.name}, last changed at {changed}"
        self._cards = {side: cards if isinstance(cards, EncoderCard) else cards[side] for side in rows}
        self.card = next(iter(self._cards.values()))
        self._rows: dict[Modality, VectorRows | Embeddings | MultiVectorEmbeddings] = {}
        self.modalities = frozenset(rows)
        dimensions = {side: vectors.vectors.shape[-1] for side, vectors in rows.items()}
        if len(set(dimensions.values())) > 1:
            stated = ", ".join(f"{side} {size}" for side, size in dimensions.items())
            raise EmbeddingError(
                f"{self.card.name}: the vectors differ in dimension ({stated}).", hint="are both from the same model?"
            )
        self.dimension = next(iter(dimensions.values()))
        several = {side for side, vectors in rows.items() if vectors.offsets is not None}
        if several and len(several) < len(rows):
            raise EmbeddingError(
                f"{self.card.name}: an {' and an '.join(several)} has several vectors, the other modality one each.",
                hint="are both from the same model? A model of late interaction has several of both",
            )
        self.form = "multi-vector" if several else "dense"
        for side, vectors in rows.items():
            # Those with ids are checked once, here; those without when a collection gives them ids.
            self._rows[side] = (
                vectors
                if vectors.ids is None
                else vectors.embeddings(side, vectors.ids, self._cards[side], self.origin)
            )

    def existing_vectors(self, items: Items) -> Embeddings | MultiVectorEmbeddings | None:
        """The imported vectors of the items, in their order; None where texts and images are looked up apart."""
        # Vectors of ids that are not among the items are left out (items are often one split of what was imported).
        modality, ids = items.modality, items.ids
        if items.is_mixed and modality not in self._rows:
            return None
        if items.corrupted is not None and modality == "image":
            raise EncoderError(
                f"{self.card.name}: vectors made elsewhere know nothing of corrupted pictures ({items.corrupted}).",
                hint="name the model itself, or write the pictures (visir.robustness.corruptions.write_pictures)",
                code="vectors-made-elsewhere-know",
            )
        if modality not in self._rows:
            raise EncoderError(
                f"{self.card.name} holds no {modality} vectors, only {' and '.join(sorted(self.modalities))} vectors.",
                code="holds-no-vectors-vectors",
            )
        rows = self._rows[modality]
        if isinstance(rows, VectorRows):
            if len(rows) != len(ids):
                raise EmbeddingError(
                    f"{self.card.name}: {len(rows):,} {modality} vectors without ids, for a collection of "
                    f"{len(ids):,} {modality}s ({items.name}).",
                    hint=f"without ids there must be one row per {modality}, in the collection's order; "
                    f"otherwise import ids too ({modality}_ids)",
                    code="vectors-without-ids-collection",
                )
            return rows.embeddings(modality, ids, self._cards[modality], self.origin)
        missing = self.lacking(items)
        if len(missing):
            named = ", ".join(map(repr, missing[:3].to_pylist()))
            theirs = ", ".join(map(repr, rows.ids[:3].to_pylist()))
            raise EmbeddingError(
                f"{self.card.name}: no vector for {len(missing):,} of {len(ids):,} {modality}s of {items.name}: "
                f"{named}{', …' if len(missing) > 3 else ''}",
                hint=f"the ids imported are such as {theirs}; they must be those of the collection "
                f"(visir data inspect shows them){_BROKEN if modality == 'image' else ''}",
                code="no-vector",
            )
        if len(ids) == len(rows.ids) and ids.equals(rows.ids):
            return rows
        return rows.select(ids)

    def lacking(self, items: Items) -> pa.StringArray:
        """The ids of the items that have no imported vector; without imported ids none."""
        rows = self._rows.get(items.modality)
        if rows is None or isinstance(rows, VectorRows):
            return items.ids[:0]
        return items.ids.filter(pc.invert(pc.is_in(items.ids, rows.ids)))

    def cannot(self, modality: Modality) -> EncoderError:
        """Imported vectors take no new inputs at all."""
        return EncoderError(
            f"{self.card.name} holds imported vectors; it cannot encode a new {modality}.",
            hint="load the model that made them",
            code="holds-imported-vectors",
        )


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Imported:
    """`npz:FILE[?image=KEY&text=KEY]`, `npy:FOLDER` or `parquet:FILE`; see `visir.encoders.models.vector_files`."""

    rows, content = read_vectors(name)
    card = EncoderCard(name=name, family="imported", weights=content, dtype="unknown")
    return Imported(rows, card, Path(split_mark(name)[0].partition(":")[2]))
