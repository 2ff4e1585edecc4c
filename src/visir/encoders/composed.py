"""One vector for a text and an image together, from encoders that read them apart: `MODEL?compose=sum(0.5)`."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.display import listed
from visir.encoders.base import Encoder, EncoderOver
from visir.encoders.forms import ItemPart, as_dense, one_each, part_of_items, vectors_by_rows
from visir.encoders.intake import Embedded, InputBatch
from visir.errors import CollectionError, ConfigurationError, EncoderError
from visir.fingerprint import hash_json
from visir.options import with_option
from visir.records import (
    Embeddings,
    Items,
    Modality,
    MultiVectorEmbeddings,
    Role,
    SparseEmbeddings,
    TokenVectors,
    Vectors,
    strings,
)

if TYPE_CHECKING:
    from PIL.Image import Image

FORMS = 'compose="sum(0.5)": the weighted sum, 0.5 being the share of the text; "text" or "image": one of the two alone'
"""What is taken, in words."""
OPTION = "compose"
"""The option of a model's name, and its field on the card."""
_SUM = re.compile(r"sum\((\d*\.?\d+)\)")


@dataclass(frozen=True)
class CompositionRule:
    """How one vector is made of a text and an image by an encoder that reads them apart."""

    # - "sum(w)": w · t / |t| + (1 − w) · v / |v|, t the vector of the text and v that of the image, times w · |t| + (1
    #   − w) · |v|: so it is about as long as the vectors of items that have one of the two alone, which stay as they
    #   are. Of several vectors for each item (late interaction) those of both sides; of a query so weighted that the
    #   score is the weighted mean of the two MaxSim scores, each divided by its number of vectors.
    # - "text" and "image": the vector of one of them alone: the baselines that look at half of the query.

    form: Literal["sum", "text", "image"]  # "sum", "text" or "image"
    text_weight: float  # w of the sum, from 0 to 1; 1 and 0 for the text and the image alone

    @classmethod
    def parse(cls, written: object) -> CompositionRule:
        """Read a rule."""
        if isinstance(written, CompositionRule):
            return written
        text = str(written).replace(" ", "").lower()
        if text == "text":
            return cls("text", 1.0)
        if text == "image":
            return cls("image", 0.0)
        match = _SUM.fullmatch(text)
        if match is None or not 0 <= float(match[1]) <= 1:
            raise ConfigurationError(
                f"compose = {written!r} is no way to compose a text and an image.",
                hint=FORMS,
                code="compose-no-way-compose",
            )
        return cls("sum", float(match[1]))

    def __str__(self) -> str:
        return f"sum({self.text_weight:g})" if self.form == "sum" else self.form

    @property
    def reads(self) -> tuple[Literal["text", "image"], ...]:
        """What of an item it reads."""
        return ("text", "image") if self.form == "sum" else (self.form,)


class ReadsApart(EncoderOver):
    """An encoder over others: a text and an image are encoded apart, and their vectors become one."""

    # Texts alone and images alone have the vectors of the encoders below, which are what the store keeps.

    @abstractmethod
    def encoder_of(self, part: Modality) -> Encoder:
        """The encoder of texts ("text") or of images ("image")."""

    def below(self, modality: Modality) -> Encoder:
        """See `EncoderOver`."""
        return self.encoder_of(modality).for_role(self._role)

    @property
    @abstractmethod
    def reads(self) -> tuple[Modality, ...]:
        """What of an item with both is read: "text", "image"."""

    @abstractmethod
    def join(
        self,
        ids: pa.StringArray,
        vectors: Mapping[Modality, Vectors],
        rows: Mapping[Modality, NDArray[np.int64]],
        role: Role,
    ) -> Vectors:
        """The vectors of n items, from those of their texts and images."""
        # ids: (n,) of the items.
        # rows: (n,) the row in `vectors` of each item, −1 where it has none.

    def check_parts(self, items: Items, parts: Mapping[Modality, ItemPart]) -> None:
        """Raise where items lack what is needed of each."""

    def parts(self, items: Items) -> dict[Modality, ItemPart] | None:
        """See `Encoder.parts`."""
        if items.modality != "text+image":
            return None
        parts = {
            modality: part
            for modality in self.reads
            if (part := part_of_items(items, modality, precomputed=self.encoder_of(modality).precomputed)) is not None
        }
        self.check_parts(items, parts)
        return parts

    def join_parts(
        self, items: Items, parts: Mapping[Modality, ItemPart], vectors: Mapping[Modality, Vectors], role: Role
    ) -> Vectors:
        """See `Encoder.join_parts`."""
        broken = np.zeros(len(items), bool)
        for modality, part in parts.items():
            broken |= part.broken(vectors[modality])
        left = np.flatnonzero(~broken)
        rows = {modality: part.rows(vectors[modality])[left] for modality, part in parts.items()}
        joined = self.join(items.ids.take(pa.array(left)), vectors, rows, role)
        origin = "; ".join(dict.fromkeys(filter(None, (part.origin for part in vectors.values()))))
        return replace(joined, modality="text+image", encoder=self.card, origin=origin)

    def base_encoder(self, modality: Modality) -> Encoder | None:
        """The encoder below, whose vectors the store keeps; none for items with both, which have parts."""
        return None if modality == "text+image" else self.below(modality)

    def prepare(self, item: str | Image, role: Role) -> Any:
        """As the encoder that reads it; what none reads stays as it is."""
        kind: Modality = "text" if isinstance(item, str) else "image"
        return self.encoder_of(kind).prepare(item, role) if kind in self.modalities else item

    def forward(self, batch: InputBatch, role: Role) -> Embedded:
        """(n, dimension) vectors of n texts, images, or texts with their images."""
        if batch.modality != "text+image":
            return super().forward(batch, role)
        ids, vectors = strings(map(str, range(len(batch)))), dict[Modality, Vectors]()
        for side in self.reads:
            encoder = self.encoder_of(side)
            inputs = InputBatch(batch.texts) if side == "text" else InputBatch(images=batch.images)
            vectors[side] = Embeddings(side, ids, one_each(encoder.forward(inputs, role), encoder.label), encoder.card)
        rows = dict.fromkeys(self.reads, np.arange(len(batch)))
        return as_dense(self.join(ids, vectors, rows, role)).vectors


# Weighted sums of the vectors of texts and images, of any form.

_SHORTEST = 1e-12
Rows = Mapping[Modality, NDArray[np.int64]]
Weights = Mapping[Modality, NDArray[np.float64]]


def weighted_sum(
    ids: pa.StringArray,
    vectors: Mapping[Modality, Vectors],
    rows: Rows,
    shares: Mapping[Modality, float],
    role: Role,
) -> Vectors:
    """The weighted sum of unit vectors, as long as the weighted mean of the two lengths."""
    # An item that has one of the two alone has its vector as it is. So the vectors of all items of a side can be
    # compared by their dot products too, and none depends on what else is in the side.
    # ids: (n,) of the items.
    # rows: (n,) the row of each item in `vectors`, −1 where it has none.
    first = next(iter(vectors.values()))
    if isinstance(first, MultiVectorEmbeddings):
        several = _several(vectors, rows, shares, role)
        return MultiVectorEmbeddings(first.modality, ids, several.offsets, several.vectors, first.encoder)
    lengths = {modality: _lengths(vectors[modality], own) for modality, own in rows.items()}
    weights = _weights(rows, shares)
    mean = sum(weights[modality] * lengths[modality] for modality in rows)
    factors = {
        modality: np.where(
            weights[modality] == 1, 1, weights[modality] * mean / np.maximum(lengths[modality], _SHORTEST)
        )
        for modality in rows
    }
    if isinstance(first, SparseEmbeddings):
        matrix = sum(_sparse(vectors[modality], own, factors[modality]) for modality, own in rows.items())
        return SparseEmbeddings.from_scipy(first.modality, ids, matrix, first.vocabulary, first.encoder)
    total = np.zeros((len(ids), first.dimension), np.float32)
    for modality, own in rows.items():
        present = np.flatnonzero(own >= 0)
        total[present] += factors[modality][present, None].astype(np.float32) * _dense(vectors[modality], own[present])
    return Embeddings(first.modality, ids, total, first.encoder)


def _weights(rows: Rows, shares: Mapping[Modality, float]) -> Weights:
    """By modality: (n,) the weight of each item; 1 where the item has nothing else."""
    weights: dict[Modality, NDArray[np.float64]] = {}
    for modality, own in rows.items():
        others = [rows[other] < 0 for other in rows if other != modality]
        alone = np.all(others, axis=0) if others else np.ones(len(own), bool)
        weights[modality] = np.where(own < 0, 0.0, np.where(alone, 1.0, shares[modality]))
    return weights


def _lengths(vectors: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,) the length of the vector of each item; 0 where it has none."""
    if isinstance(vectors, SparseEmbeddings):
        whole = vectors.to_scipy()
        lengths = np.sqrt(np.asarray(whole.multiply(whole).sum(axis=1)).ravel())
    else:
        assert isinstance(vectors, Embeddings)
        lengths = np.linalg.norm(vectors.vectors, axis=1)
    return np.where(rows < 0, 0.0, lengths[rows])


def _dense(vectors: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    assert isinstance(vectors, Embeddings)
    return np.asarray(vectors.vectors[rows], np.float32)


def _sparse(vectors: Vectors, rows: NDArray[np.int64], factors: NDArray[np.float64]) -> Any:
    from scipy.sparse import csr_array

    assert isinstance(vectors, SparseEmbeddings)
    present = np.flatnonzero(rows >= 0)
    choose = csr_array((factors[present], (present, rows[present])), shape=(len(rows), len(vectors)))
    return choose @ vectors.to_scipy()


def _several(
    vectors: Mapping[Modality, Vectors], rows: Rows, shares: Mapping[Modality, float], role: Role
) -> TokenVectors:
    """The vectors of both sides of each item. Those of a query are so scaled that the score is the weighted mean."""
    # The greatest dot products grow with the vectors of a query, so scaling them weighs the two scores.
    chosen = []
    for number in range(len(next(iter(rows.values())))):
        own: dict[Modality, NDArray[np.float32]] = {}
        for modality, places in rows.items():
            if places[number] >= 0:
                part = vectors[modality]
                assert isinstance(part, MultiVectorEmbeddings)
                own[modality] = part.row(int(places[number])).astype(np.float32)
        if role == "query" and len(own) > 1:
            own = {modality: tokens * (shares[modality] / max(len(tokens), 1)) for modality, tokens in own.items()}
        chosen.append(np.concatenate(list(own.values())))
    return TokenVectors.of(chosen)


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
                    code="cannot-compose",
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

    def project_items(self, items: Items, embeddings: Vectors) -> Vectors:
        """The vectors of the encoder below, as they are."""
        return replace(embeddings, encoder=self.card)

    def project(self, modality: Modality, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """The vectors of the encoder below, as they are."""
        return vectors

    def existing_vectors(self, items: Items) -> Vectors | None:
        """Those of the encoder, where its vectors exist already and are of one modality."""
        return None if items.modality == "text+image" else self.encoder.existing_vectors(items)

    def lacking(self, items: Items) -> pa.StringArray:
        """Those of the encoder."""
        return self.encoder.lacking(items)
