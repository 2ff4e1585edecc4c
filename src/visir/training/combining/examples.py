"""What a combiner learns from: queries of a text and an image, and the images that are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_items
from visir.encoders.forms import as_dense
from visir.encoders.item_parts import part_of_items
from visir.errors import CollectionError
from visir.records import Items, Modality, Task
from visir.training.combining.negatives import AlikeNegatives, nearest_pictures
from visir.training.inputs.base import EpochRandom, TrainingExamples
from visir.training.inputs.vectors import VectorSource


class ComposedSource:
    """The vectors of the text and of the image of each query: an `InputSource`."""

    is_slow = False

    def __init__(self, text: NDArray[np.float32], image: NDArray[np.float32]) -> None:
        self._vectors = {"text": text, "image": image}
        self._sides = {name: VectorSource([vectors]) for name, vectors in self._vectors.items()}

    def __len__(self) -> int:
        return len(self._sides["text"])

    def vectors(self, side: str) -> NDArray[np.float32]:
        """(n, d) the vectors of one side."""
        return self._vectors[side]

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> dict[str, Tensor]:
        """The vectors of these queries, by side."""
        return {name: side.batch(rows) for name, side in self._sides.items()}


@dataclass(frozen=True, eq=False)
class ComposedGallery:
    """The candidates of one task in validation."""

    queries: NDArray[np.int64]  # (q,) rows of the anchors
    documents: NDArray[np.int64]  # (d,) rows of the documents
    right: NDArray[np.bool_]  # (q, d) whether a document is right
    excluded: NDArray[np.bool_]  # (q, d) whether a document is no candidate


@dataclass(frozen=True, eq=False)
class ComposedExamples(TrainingExamples):
    """A split of composed queries as training sees it: one example for each right image."""

    galleries: tuple[ComposedGallery, ...] = ()  # the candidates of each task; empty for training
    documents: VectorSource | None = None  # the vectors of all documents; None for training


def examples_of(
    tasks: Mapping[str, Task], encoders: Mapping[Modality, Encoder], *, validation: bool, alike: int = 0
) -> ComposedExamples:
    """Encode the queries and the documents of tasks."""
    texts, images, positives, documents = [], [], [], []
    anchor_rows: list[NDArray[np.int64]] = []
    galleries: list[ComposedGallery] = []
    nearest: list[NDArray[np.int64]] = []
    ids: list[str] = []
    offset = first_document = 0
    for task in tasks.values():
        queries, row, right, wanted = _parts(task, everything=validation or alike > 0)
        if not len(right):
            continue
        text, image = (_vectors(queries, side, encoders[side]) for side in ("text", "image"))
        encoded = as_dense(encode_items(encoders["image"], wanted, "document"))
        place = encoded.rows(right)
        texts.append(text)
        images.append(image)
        documents.append(np.asarray(encoded.vectors, np.float32))
        positives.append(first_document + place)
        anchor_rows.append(offset + row)
        ids += right.to_pylist()
        if validation or alike:
            galleries.append(_gallery(task, queries, encoded.ids, offset, first_document, row, place))
        if alike:
            near = nearest_pictures(image, documents[-1], galleries[-1].right | galleries[-1].excluded)
            nearest.append(np.where(near < 0, -1, near + first_document))
        offset += len(queries)
        first_document += len(encoded)
    if not ids:
        raise CollectionError("no query has a right image to learn from.", hint="is it the right split?")
    vectors = np.concatenate(documents)
    first = next(iter(tasks.values()))
    return ComposedExamples(
        anchors=ComposedSource(np.concatenate(texts), np.concatenate(images)),
        positives=VectorSource([vectors[np.concatenate(positives)]]),
        anchor_rows=np.concatenate(anchor_rows),
        ids=ids,
        origin={
            "split": first.source_fingerprint,
            "name": first.source,
            "queries": offset,
            **{f"{side} base encoder": encoder.card.fingerprint for side, encoder in encoders.items()},
        },
        unit="images",
        negatives=AlikeNegatives(VectorSource([vectors]), np.concatenate(nearest), alike) if alike else None,
        galleries=tuple(galleries),
        documents=VectorSource([vectors]) if validation else None,
    )


def pictures_of(tasks: Mapping[str, Task], *, everything: bool) -> list[Items]:
    """The queries and the documents whose pictures `examples_of` encodes."""
    pictures = []
    for task in tasks.values():
        queries, _, _, wanted = _parts(task, everything=everything)
        part = part_of_items(queries, "image", precomputed=False)
        pictures += [wanted] if part is None else [part.items, wanted]
    return pictures


def _parts(task: Task, *, everything: bool) -> tuple[Items, NDArray[np.int64], pa.StringArray, Items]:
    """The queries; of each pair the row of its query, and the right document; the documents that are encoded."""
    queries = task.queries.select(task.measured_queries())
    qrels = task.judgements().select(queries.ids)
    row = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))[qrels.grades > 0]
    right = qrels.documents.filter(pa.array(qrels.grades > 0))
    return queries, row, right, task.documents if everything else task.documents.select(pc.unique(right))


def _vectors(queries: Items, side: Modality, encoder: Encoder) -> NDArray[np.float32]:
    """(n, d) the vector of the text, or of the image, of each query."""
    part = part_of_items(queries, side, precomputed=encoder.precomputed)
    missing = len(queries) if part is None else part.owners.null_count
    if part is None or missing:
        fault = f"{queries.name}: {missing:,} {queries.title} have no {side}."
        raise CollectionError(fault, hint="visir data check says where pictures are missing")
    vectors = as_dense(encode_items(encoder, part.items, "query"))
    return np.asarray(vectors.vectors[part.rows(vectors)], np.float32)


def _gallery(
    task: Task,
    queries: Items,
    documents: pa.StringArray,
    first_query: int,
    first_document: int,
    row: NDArray[np.int64],
    place: NDArray[np.int64],
) -> ComposedGallery:
    right = np.zeros((len(queries), len(documents)), bool)
    right[row, place] = True
    excluded = np.zeros_like(right)
    if task.excluded is not None:
        pairs = task.excluded.select(queries.ids)
        own = pc.index_in(pairs.queries.take(pa.array(pairs.query_rows)), queries.ids).to_numpy()
        excluded[own, pc.index_in(pairs.documents, documents).to_numpy()] = True
    return ComposedGallery(
        first_query + np.arange(len(queries)), first_document + np.arange(len(documents)), right, excluded
    )
