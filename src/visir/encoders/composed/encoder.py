"""An encoder that reads texts and images apart, with one vector for a text and an image together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import listed
from visir.encoders.base import Encoder
from visir.encoders.composed.apart import ReadsApart
from visir.encoders.composed.rule import OPTION, CompositionRule
from visir.encoders.composed.sums import mean_direction, weighted_sum
from visir.encoders.forms import vectors_by_rows
from visir.encoders.item_parts import ItemPart
from visir.errors import CollectionError, EncoderError
from visir.fingerprint import hash_json
from visir.options import with_option
from visir.records import Items, Modality, Role, Vectors


class ComposedEncoder(ReadsApart):
    """An encoder with a `CompositionRule`; its vectors of texts and of images stay as they are."""

    # The store keeps those alone: another weight encodes nothing again.

    def __init__(self, encoder: Encoder, rule: CompositionRule) -> None:
        for modality in rule.reads:
            if modality not in encoder.modalities:
                fault = encoder.cannot(modality)
                raise EncoderError(
                    f"compose = {str(rule)!r}: {fault.message}",
                    hint=" or ".join(f'compose="{known}"' for known in sorted(encoder.modalities - {"text+image"})),
                )
        self.encoder, self.rule = encoder, rule
        self.modalities = encoder.modalities | {"text+image"}
        self.distinguishes_roles, self.precomputed = encoder.distinguishes_roles, encoder.precomputed
        self.batch_size, self.cross_encoder = encoder.batch_size, encoder.cross_encoder
        self.form, self.kept_dtype = encoder.form, encoder.kept_dtype
        card, settings = encoder.card, {OPTION: str(rule)}
        self.card = replace(
            card,
            name=with_option(card.name, OPTION, str(rule)),
            weights=card.weights and hash_json({"encoder": card.weights, **settings}),
            text_preprocessing={**card.text_preprocessing, **settings},
        )

    @property
    def dimension(self) -> int:  # type: ignore[override]  # that of the encoder, which may not know it yet
        """The length of its vectors."""
        return self.encoder.dimension

    def dimension_of(self, modality: Modality) -> int | None:
        """The length of its vectors of a modality, which is that of the encoder's."""
        return self.encoder.dimension_of(self.rule.reads[-1] if modality == "text+image" else modality)

    def learn_dimension(self, modality: Modality, vectors: Any) -> None:
        """The encoder below checks its own vectors."""

    def encoder_of(self, part: Modality) -> Encoder:
        """See `ReadsApart`."""
        return self.encoder

    @property
    def reads(self) -> tuple[Modality, ...]:
        """See `ReadsApart`."""
        return self.rule.reads

    def for_role(self, role: Role) -> ComposedEncoder:
        """The same of the encoder in this role."""
        if not self.distinguishes_roles:
            return self
        encoder = copy(self)
        encoder.encoder = self.encoder.for_role(role)
        return encoder

    def check_parts(self, items: Items, parts: Mapping[Modality, ItemPart]) -> None:
        """A rule that reads one half needs it of every item; a sum needs one of the two."""
        if self.rule.form == "sum":
            return
        part = parts.get(self.rule.form)
        missing = len(items) if part is None else part.owners.null_count
        if missing:
            without = items.ids if part is None else items.ids.filter(part.owners.is_null())
            raise CollectionError(
                f"{items.name or 'items'}: {missing:,} {items.title} have no {self.rule.form}; compose = "
                f"{str(self.rule)!r} reads nothing else: {listed(without[:3].to_pylist(), missing)}.",
                hint='compose="sum(0.5)" takes what there is',
                code="no-compose-reads-nothing",
            )

    def join(
        self,
        ids: pa.StringArray,
        vectors: Mapping[Modality, Vectors],
        rows: Mapping[Modality, NDArray[np.int64]],
        role: Role,
    ) -> Vectors:
        """See `ReadsApart`."""
        if self.rule.form != "sum":
            return vectors_by_rows(ids, vectors[self.rule.form], rows[self.rule.form])
        shares: dict[Modality, float] = {"text": self.rule.text_weight, "image": 1 - self.rule.text_weight}
        return weighted_sum(ids, vectors, rows, shares, role)

    def join_batch(self, text: NDArray[np.float32] | None, image: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """See `ReadsApart`."""
        sides = [side for side in (text, image) if side is not None]
        if self.rule.form != "sum":
            return sides[0]
        return mean_direction(sides[0], sides[1], self.rule.text_weight)

    def existing_vectors(self, items: Items) -> Vectors | None:
        """Those of the encoder, where its vectors exist already and are of one modality."""
        return None if items.modality == "text+image" else self.encoder.existing_vectors(items)

    def lacking(self, items: Items) -> pa.StringArray:
        """Those of the encoder."""
        return self.encoder.lacking(items)

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the encoder does it."""
        return self.encoder.truncate(texts, ending)
