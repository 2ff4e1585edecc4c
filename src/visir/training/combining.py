"""The training of a combiner: composed queries of a picture and a text, over two frozen encoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.base import Encoder
from visir.encoders.combiner import LAYOUT, Combiner, CombinerEncoder, CombinerSpec, write_files
from visir.encoders.encoding import encode_items, is_stored
from visir.encoders.forms import as_dense, part_of_items
from visir.encoders.store import check_there
from visir.encoders.towers.base import HeadSpec, Inputs, Tower
from visir.errors import CollectionError, ConfigurationError
from visir.records import Collection, Items, Modality, Task, TaskFile, TaskSet
from visir.training.build import ModelLoader
from visir.training.checkpoint import Checkpoint
from visir.training.inputs import NEGATIVES, EpochRandom, InputSource, Rows, TrainingExamples, VectorSource, uniform
from visir.training.learner import DualEncoder, encode_source, figures_of, ranks_of
from visir.training.loop import FitResult, Report
from visir.training.objective import Objective, build_objective
from visir.training.processes import Processes
from visir.training.recipe import CombinerSettings, FrozenImages, FrozenTexts, HeadShape, Recipe
from visir.training.trained import TrainedModel

# What a combiner learns from: queries of a text and an image, and the images that are right.

# Hard negatives of composed queries: pictures that are like the one the query begins from, and not right.

POOL = 32
"""How many pictures that are alike a query draws its negatives from."""


_BLOCK = 512


@dataclass(frozen=True, eq=False)
class AlikeNegatives:
    """The nearest pictures of each query's picture, by the frozen vectors; a `NegativeSource`."""

    # A model that gives back the picture it was given, or one like it, has not read the text. The pictures of other
    # queries in a batch do not teach that: they are unlike. The picture itself is among its nearest where it is a
    # document.

    documents: VectorSource  # the vectors of all documents
    nearest: Rows  # (n, p) rows of documents for each query, −1 where there are fewer
    count: int  # how many of them stand beside each pair

    def positives(
        self, source: InputSource, anchor_rows: Rows, rows: Rows, draw: EpochRandom
    ) -> tuple[tuple[Inputs, ...], Tensor]:
        """`count` pictures of each pair, drawn anew every epoch; none of them belongs to a query of the batch."""
        own = self.nearest[anchor_rows[rows]]
        there = (own >= 0).sum(axis=1)
        inputs: list[Inputs] = []
        belong = []
        for number in range(self.count):
            drawn = uniform(draw, NEGATIVES, rows * self.count + number)
            chosen = own[np.arange(len(rows)), (drawn * np.maximum(there, 1)).astype(np.int64)]
            inputs.append(self.documents.batch(np.maximum(chosen, 0)))
            # A row that no query has; a query without such pictures gets one that counts for nothing: its own.
            belong.append(np.where(chosen < 0, anchor_rows[rows], len(self.nearest) + chosen))
        return tuple(inputs), torch.from_numpy(np.stack(belong, axis=1))

    def anchors(self, source: InputSource, anchor_rows: Rows, rows: Rows, draw: EpochRandom) -> None:
        """None: a picture has no hard queries."""


def nearest_pictures(
    images: NDArray[np.float32], documents: NDArray[np.float32], right: NDArray[np.bool_], count: int = POOL
) -> Rows:
    """The documents that are nearest to the picture of each query by cosine, and not right."""
    # images: (q, d) the pictures of the queries.
    # documents: (m, d) all documents of their task.
    # right: (q, m) whether a document is right.
    # Returns: (q, count) rows of documents, nearest first, −1 where there are fewer.
    unit = [part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) for part in (images, documents)]
    width = min(count, len(documents))
    nearest = np.full((len(images), count), -1, np.int64)
    for start in range(0, len(images), _BLOCK):
        scores = unit[0][start : start + _BLOCK] @ unit[1].T
        scores[right[start : start + _BLOCK]] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :width]
        left = np.take_along_axis(scores, best, axis=1) > -np.inf
        nearest[start : start + len(scores), :width] = np.where(left, best, -1)
    return nearest


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

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> dict[str, Tensor]:
        """The vectors of these queries, by side."""
        return {name: side.batch(rows) for name, side in self._sides.items()}


@dataclass(frozen=True, eq=False)
class ComposedGallery:
    """The candidates of one task in validation."""

    queries: Rows  # (q,) rows of the anchors
    documents: Rows  # (d,) rows of the documents
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
    anchor_rows: list[Rows] = []
    galleries: list[ComposedGallery] = []
    nearest: list[Rows] = []
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


def _parts(task: Task, *, everything: bool) -> tuple[Items, Rows, pa.StringArray, Items]:
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
    row: Rows,
    place: Rows,
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


# From a recipe with a combiner to a checkpoint folder that `visir.load` takes.

# The learner of a combiner: composed queries against right images, judged by a search of the whole gallery.

TASK = "it2i"


class CombinerLearner(DualEncoder):
    """A combiner and the head of its documents under a contrastive objective."""

    def __init__(self, combiner: Combiner, objective: Objective) -> None:
        super().__init__({"combiner": combiner, "documents": Tower(None, combiner.head)}, objective)

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """hit@1, @5 and @10 among all documents of each task, in percent, and "rsum", their sum (0 to 300)."""
        assert isinstance(examples, ComposedExamples) and examples.documents is not None
        queries = encode_source(examples.anchors, partial(self._vectors_of, "anchor"))
        documents = encode_source(examples.documents, partial(self._vectors_of, "positive"))
        ranks = []
        for gallery in examples.galleries:
            scores = queries[gallery.queries] @ documents[gallery.documents].T
            scores[gallery.excluded] = -np.inf
            right = gallery.right & ~gallery.excluded
            ranks.append(ranks_of(scores, right)[right.any(axis=1)])
        return figures_of({TASK: np.concatenate(ranks)})


def train_combiner(
    recipe: Recipe, source: Any, out: str | Path | None, *, resume: bool = False, report: Report | None = None
) -> TrainedModel:
    """Train a combiner over frozen encoders."""
    checkpoint = Checkpoint.begin(recipe, "train", out, LAYOUT, resume=resume)
    parts = {
        name: _split(source, split) for name, split in (("train", recipe.data.train), ("val", recipe.data.validation))
    }
    if checkpoint.is_finished_with(recipe, trained_on=parts["train"], validated_on=parts["val"]):
        return TrainedModel(checkpoint.path)
    tasks = {name: _composed(part, recipe) for name, part in parts.items()}
    encoders = _encoders(recipe, tasks["train"])
    alike = 0 if recipe.combiner is None else recipe.combiner.alike
    pictures = [*pictures_of(tasks["train"], everything=bool(alike)), *pictures_of(tasks["val"], everything=True)]
    check_there([items for items in pictures if not is_stored(encoders["image"], items)])
    train = examples_of(tasks["train"], encoders, validation=False, alike=alike)
    validation = examples_of(tasks["val"], encoders, validation=True)
    combiner, objective = _build(recipe, train, encoders)

    def write(path: Path, result: FitResult[CombinerLearner], facts: dict[str, Any]) -> Mapping[str, Any]:
        encoder = CombinerEncoder(combiner, encoders, name=str(checkpoint.path), device="cpu")
        return write_files(path, encoder, facts=facts)

    checkpoint.train(recipe, CombinerLearner(combiner, objective), train, validation, write, report=report)
    return TrainedModel(checkpoint.path)


def _split(source: Any, split: str) -> TaskFile | TaskSet:
    if isinstance(source, Collection) or not hasattr(source, "task"):
        raise CollectionError(
            f"{source.name}: images and captions; a combiner learns from queries of a picture and a text.",
            hint="visir train composed-scenes --data fashioniq:FOLDER, cirr:FOLDER, 'scenes:2000?task=composed'",
            code="images-captions",
        )
    part: TaskFile | TaskSet = source.split(split)
    return part


def _composed(part: TaskFile | TaskSet, recipe: Recipe) -> dict[str, Task]:
    """The tasks of a split with composed queries among all of its images: a subset of them is no task of its own."""
    tasks = {name: part.task(name) for name in part.tasks}
    composed = {
        name: task
        for name, task in tasks.items()
        if task.queries.modality == "text+image" and task.documents.modality == "image" and task.pools is None
    }
    if not composed:
        raise CollectionError(f"{recipe.name}: {part.name}: no task has queries of a picture and a text.")
    return composed


def _encoders(recipe: Recipe, tasks: Mapping[str, Task]) -> dict[Modality, Encoder]:
    models = ModelLoader(str(Processes.join(recipe.device).device))
    assert isinstance(recipe.image, FrozenImages) and isinstance(recipe.text, FrozenTexts)
    texts = [text for task in tasks.values() if task.queries.texts for text in task.queries.texts.to_pylist() if text]
    return {"image": models.image_base_encoder(recipe.image), "text": models.text_base_encoder(recipe.text, texts)}


def _build(recipe: Recipe, train: ComposedExamples, encoders: Mapping[Modality, Encoder]) -> tuple[Combiner, Any]:
    """The network and the objective, drawn from the seed of the recipe."""
    settings = recipe.combiner or CombinerSettings()
    width = encoders["image"].dimension if recipe.dimension == "own" else recipe.dimension
    if recipe.dimension == "own" and encoders["text"].dimension != width and recipe.text.head.identity:
        raise ConfigurationError(
            f'{recipe.name}: dimension = "own" with two identity heads needs encoders of one dimension; images have '
            f"{width}, texts {encoders['text'].dimension}.",
            hint="--set text.head.identity=false: a linear head brings texts into the space of images",
            code="dimension-two-identity-heads",
        )
    sides: tuple[tuple[Modality, HeadShape], ...] = (("image", recipe.image.head), ("text", recipe.text.head))
    heads = {side: HeadSpec(encoders[side].dimension, width, **head.model_dump()) for side, head in sides}
    spec = CombinerSpec(heads["image"], heads["text"], settings.projection, settings.hidden, settings.dropout)
    with torch.random.fork_rng([]):
        torch.manual_seed(recipe.seed)
        combiner = Combiner(spec)
        objective = build_objective(
            recipe.objective,
            recipe.auxiliary,
            dimension=width,
            target_width=None,
            vocabulary=None,
            own_temperature=None,
        )
    assert isinstance(train.anchors, ComposedSource)
    combiner.head.fit_scaling(train.anchors.vectors("image"))
    combiner.text_head.fit_scaling(train.anchors.vectors("text"))
    return combiner, objective
