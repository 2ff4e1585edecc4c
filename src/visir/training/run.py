"""A training run: from a recipe to a checkpoint folder that `load` takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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

from visir.encoders import combiner as combiner_files
from visir.encoders.base import Encoder
from visir.encoders.checkpoints import Layout
from visir.encoders.combiner import LAYOUT, Combiner, CombinerEncoder, CombinerSpec, write_files
from visir.encoders.encoding import encode_items, is_stored
from visir.encoders.forms import as_dense, part_of_items
from visir.encoders.models import towers as tower_files
from visir.encoders.models.towers import TowersEncoder
from visir.encoders.store import check_there
from visir.encoders.towers.base import HeadSpec, Inputs, Tower
from visir.errors import CollectionError, ConfigurationError, ImageError
from visir.records import Collection, Items, Modality, Task, TaskFile, TaskSet
from visir.training.build import ModelLoader, build_model
from visir.training.checkpoint import Checkpoint
from visir.training.data import open_splits
from visir.training.examples import build_examples, check_pictures
from visir.training.fit import DualEncoder, FitResult, Report
from visir.training.inputs.base import NEGATIVES, EpochRandom, InputSource, TrainingExamples, VectorSource, uniform
from visir.training.learner import Processes
from visir.training.objectives.infonce import best_matches
from visir.training.objectives.objective import Objective, build_objective
from visir.training.recipe import CombinerSettings, Recipe, expand
from visir.training.resolving import KEYWORDS, TOWERS, RecipeChanges
from visir.training.sides import FrozenImages, FrozenTexts, HeadShape
from visir.training.state import EVENTS
from visir.training.state import FOLDER as TENSORBOARD_FOLDER
from visir.training.trained import TrainedModel
from visir.training.validation import SCORES, encode_source, figures_of, ranks_of

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
    nearest: NDArray[np.int64]  # (n, p) rows of documents for each query, −1 where there are fewer
    count: int  # how many of them stand beside each pair

    def positives(
        self, source: InputSource, anchor_rows: NDArray[np.int64], rows: NDArray[np.int64], draw: EpochRandom
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

    def anchors(
        self, source: InputSource, anchor_rows: NDArray[np.int64], rows: NDArray[np.int64], draw: EpochRandom
    ) -> None:
        """None: a picture has no hard queries."""


def nearest_pictures(
    images: NDArray[np.float32], documents: NDArray[np.float32], right: NDArray[np.bool_], count: int = POOL
) -> NDArray[np.int64]:
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


# The learner of late interaction: two towers that give several vectors for each item.


class LateInteraction(DualEncoder):
    """Two `SetTower`s under an objective that compares sets of vectors."""

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """Hits in both directions, by MaxSim over the query's vectors; see `visir.training.validation.validate`."""
        anchors = torch.from_numpy(encode_source(examples.anchors, partial(self._vectors_of, "anchor")))
        positives = torch.from_numpy(encode_source(examples.positives, partial(self._vectors_of, "positive")))
        rows = examples.anchor_rows
        to_positives = np.empty((len(anchors), len(positives)), np.float32)
        ranks = np.empty(len(positives), np.int64)
        block = max(1, SCORES // (len(anchors) * anchors.shape[1]))
        device = self.precision.device
        anchors = anchors.to(device)
        with torch.inference_mode():
            for start in range(0, len(positives), block):
                part = slice(start, start + block)
                matches = best_matches(anchors, positives[part].to(device))
                to_positives[:, part] = matches.of_anchors.cpu().numpy()
                own = rows[part, None] == np.arange(len(anchors))
                ranks[part] = ranks_of(matches.of_positives.cpu().numpy(), own)
        queries = np.unique(rows)
        to_texts, to_images = self.tasks
        return figures_of({to_texts: ranks_of(to_positives[queries], queries[:, None] == rows), to_images: ranks})


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    data: Any = None,
    *,
    model: Any = None,
    image_model: Any = None,
    text_model: Any = None,
    out: str | Path | None = None,
    images: Any = None,
    split_by: str | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    rate: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    set: RecipeChanges | None = None,
    resume: bool = False,
    report: Report | None = None,
    **sections: Any,
) -> TrainedModel:
    """Train an encoder of images and texts on pairs, as a recipe says: tune a model, train heads, or begin anew.

    What comes back is a folder and stands wherever a model does: `visir.load(run)`, `visir.evaluate(photos, run)`. It
    holds the weights (`towers.safetensors`), what they are (`visir.json`), the whole recipe (`recipe.toml`, which
    `visir train` runs again), one entry per epoch (`curve.json`) and one line per step (`steps.jsonl`).

    A collection without splits is divided: 9 of 10 pictures are trained on, 1 of 10 says after each epoch how well it
    goes. Vectors of frozen encoders are kept, so a second training over the same ones encodes nothing. A training that
    is stopped (Ctrl-C) goes on with `resume=True`. `visir.training.plan` says what a training would take.

    Args:
        recipe: The name of one that comes with visir (`visir.recipes()`), a TOML file, the same as a dictionary, or a
            `Recipe`.
        data: Pictures and captions, as `visir.open` takes them: a file, a folder, a list of (image, caption), a
            DataFrame, a collection. By default what the recipe names. A recipe with a combiner takes composed queries:
            FashionIQ, CIRR, "scenes:2000?task=composed".
        model: The encoder that is tuned, or whose vectors are learnt from, for both sides.
        image_model: The encoder of images alone.
        text_model: The encoder of texts alone.
        out: The folder to write; `runs/NAME-seedSEED` when it is left out.
        images: Where the pictures of `data` are, when they do not lie beside it.
        split_by: How pictures are divided into training and validation: "random(train=0.8, val=0.2, seed=1)".
        epochs: How often every caption is seen.
        batch: How many pairs a step compares with one another.
        rate: The learning rate at its peak.
        seed: Of everything that is random.
        device: "cpu", "cuda", "cuda:1", or "auto".
        set: Any other keys of the recipe: {"objective.temperature": 0.05, "optimiser.chunk": 32}.
        resume: Go on from the state that an interrupted training left in `out`; without one, begin. A training that
            is finished is not done again.
        report: Called with each epoch.
        **sections: Keys at the top of the recipe: `dimension=256`, `objective={"name": "ifm"}`.

    Returns:
        The trained model: `path`, `curve`, `validation`, `load()`.

    Raises:
        ConfigurationError: The recipe has faults; all of them are listed, with the nearest right names.
        VisirError: `out` holds something already, or another process trains into it.
        ImageError: A picture cannot be read; the message names it.
        TrainingError: The loss is NaN or infinite; the ids of the batch are then also in `stopped-batch.json`.

    Example:
        >>> import visir
        >>> run = visir.train("scenes-heads", data="scenes:50?size=64", out="heads", epochs=2, batch=32)
        >>> [epoch.epoch for epoch in run.curve], visir.load(run).encode_texts(["a red circle"]).shape
        ([1, 2], (1, 128))
    """
    keywords = {name: value for name, value in locals().items() if name in KEYWORDS}
    resolved, collection = TOWERS.resolve(recipe, data, keywords, sections, set)
    if resolved.combiner is not None:
        return train_combiner(resolved, collection, out, resume=resume, report=report)
    events = {TENSORBOARD_FOLDER: EVENTS}
    checkpoint = Checkpoint.begin(resolved, "train", out, layout_of(resolved), resume=resume, events=events)
    splits = open_splits(resolved, collection)
    if checkpoint.is_finished_with(resolved, trained_on=splits.train, validated_on=splits.validation):
        return TrainedModel(checkpoint.path)
    built = build_model(resolved, splits.train, str(Processes.join(resolved.device).device))

    def write(path: Path, result: FitResult[DualEncoder], facts: dict[str, Any]) -> Mapping[str, Any]:
        encoder = TowersEncoder(
            built.towers,
            built.base_encoders,
            name=str(checkpoint.path),
            device="cpu",
            prompts=resolved.text.prompts,
        )
        return tower_files.write_files(path, encoder, facts=facts)

    with pictures_named(resolved):
        check_pictures(resolved, built, splits)
        examples = build_examples(resolved, built, splits)
        learner = (LateInteraction if built.is_late else DualEncoder)(built.towers, built.objective)
        checkpoint.train(resolved, learner, *examples, write, report=report)
    return TrainedModel(checkpoint.path)


def layout_of(recipe: Recipe) -> Layout:
    """Which files the checkpoint of a recipe has."""
    if recipe.combiner is not None:
        return combiner_files.LAYOUT
    return tower_files.LAYOUT if recipe.adapter is None else tower_files.ADAPTERS_LAYOUT


@contextmanager
def pictures_named(recipe: Recipe) -> Iterator[None]:
    """A picture that cannot be read stops a training; say what mends it, and what finds the others."""
    try:
        yield
    except ImageError as fault:
        images = recipe.data.images or ()
        places = [expand(place) for place in ([images] if isinstance(images, str) else images)]
        options = [word for place in places for word in ("--images", place)]
        look = f"all such pictures: {shlex.join(['visir', 'data', 'check', expand(recipe.data.collection), *options])}"
        raise ImageError(fault.message, hint=f"{expand(recipe.data.obtain) or fault.hint}\n  → {look}") from fault
