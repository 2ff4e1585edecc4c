"""Heads on frozen embeddings, from a recipe to a checkpoint: minutes on two cores, because the encoders run once."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import visir
from visir.collections import open_collection
from visir.encoders import encode, load
from visir.encoders.base import Encoder
from visir.encoders.families import CHECKPOINT_FILE, family_of
from visir.encoders.models.bag_of_words import BagOfWords
from visir.encoders.models.heads import HeadsEncoder, write_heads
from visir.encoders.models.joined import JoinedTexts
from visir.encoders.models.views import ImageViews
from visir.errors import CollectionError, VisirError
from visir.files import atomic_folder, write_bytes, write_json
from visir.records import Collection, Modality
from visir.training.batches import steps_per_epoch
from visir.training.features import Features
from visir.training.fit import SIDES, Fitted, Report, fit_heads, new_head
from visir.training.loop import TrainingError
from visir.training.recipe import FITTED_WORDS, Recipe, expand
from visir.training.settings import to_toml
from visir.training.state import STATE_FILE

RECIPE_FILE = "recipe.toml"
CURVE_FILE = "curve.json"
STOPPED_FILE = "stopped-batch.json"


@dataclass(frozen=True)
class Plan:
    """What a recipe amounts to, before anything is encoded or trained.

    - `parameters`: of each head; `steps`: in all; `images`, `captions`: of the two splits
    - `memory`: bytes of features, weights and optimiser, activations of one step; the backbones not counted
    """

    images: dict[str, int]
    captions: dict[str, int]
    dimensions: dict[Modality, int]
    parameters: dict[Modality, int]
    steps: int
    memory: int


def train_heads(
    recipe: Recipe,
    out: str | Path,
    *,
    collection: Collection | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Path:
    """Train what `recipe` says and write the checkpoint folder `out`; returns its path.

    The folder is an encoder: `visir.encoders.load(out)` encodes images and texts into the space that was learnt. It
    holds `heads.safetensors`, `visir.json` (shapes, backbones and their cards, the recipe, the curve, the validation
    figures), `recipe.toml` (the resolved recipe: `visir train` runs it again) and `curve.json`.

    - `collection`: used instead of the one the recipe names, when it is at hand already
    - `resume`: go on from the state that an interrupted training left in `out`; without one, begin
    - `report`: called with each epoch's point of the curve

    Backbone vectors go through the store, so a second training over the same backbones encodes nothing. Raises
    `VisirError` when `out` holds something already, and `TrainingError` when the loss is NaN or infinite (the ids of
    the batch are then also in `stopped-batch.json`).
    """
    out = Path(out)
    _refuse_taken(out, resume)
    started = time.perf_counter()
    collection = collection or _collection(recipe)
    splits = [collection.split(one) for one in _splits(recipe)]
    backbones = _backbones(recipe, splits[0])
    train, validation = _train_features(backbones, splits[0]), _validation_features(backbones, splits[1])
    encoded = time.perf_counter() - started
    write_bytes(out / RECIPE_FILE, recipe_text(recipe).encode())
    try:
        fitted = fit_heads(recipe, train, validation, folder=out, resume=resume, report=report)
    except TrainingError as fault:
        write_json(out / STOPPED_FILE, {"message": fault.message, "captions": fault.ids})
        raise
    encoder = HeadsEncoder(backbones, fitted.heads, name=str(out), device=recipe.device)
    with atomic_folder(out, replace=True) as folder:
        write_heads(folder, encoder, facts=_facts(recipe, train, validation, fitted, encoded))
        write_bytes(folder / RECIPE_FILE, recipe_text(recipe).encode())
        write_json(folder / CURVE_FILE, [asdict(epoch) for epoch in fitted.curve])
    return out


def plan_heads(recipe: Recipe, *, collection: Collection | None = None) -> Plan:
    """What training would take: reads the collection and loads the backbones, encodes nothing."""
    collection = collection or _collection(recipe)
    train, validation = (collection.split(one) for one in _splits(recipe))
    backbones = _backbones(recipe, train)
    dimensions = {side: backbones[side].dimension for side in SIDES}
    shapes = {"image": recipe.model.image, "text": recipe.model.text}
    heads = {side: new_head(shapes[side], dimensions[side], recipe.model.dimension) for side in SIDES}
    parameters = {side: sum(one.numel() for one in head.parameters()) for side, head in heads.items()}
    views = len(recipe.backbones.views)
    rows = {"image": views * train.images.num_rows + validation.images.num_rows,
            "text": train.captions.num_rows + validation.captions.num_rows}  # fmt: skip
    features = sum(rows[side] * dimensions[side] for side in SIDES)
    # Every layer's input and output are kept for the backward pass, about four numbers per unit with GELU and dropout.
    widths = sum(dimensions[side] + sum(shapes[side].hidden) + recipe.model.dimension for side in SIDES)
    activations = recipe.optimiser.batch * (4 * widths + 3 * recipe.optimiser.batch)
    weights = 5 * sum(parameters.values())  # values, gradients, two moments, the best epoch's copy
    return Plan(
        {"train": train.images.num_rows, "validation": validation.images.num_rows},
        {"train": train.captions.num_rows, "validation": validation.captions.num_rows},
        dimensions,
        parameters,
        recipe.optimiser.epochs * steps_per_epoch(train.captions.num_rows, recipe.optimiser.batch),
        4 * (features + activations + weights),
    )


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe as TOML, opening with the command that runs it."""
    return to_toml(recipe, f"visir train {RECIPE_FILE}")


def _refuse_taken(out: Path, resume: bool) -> None:
    if (out / STATE_FILE).is_file():
        if not resume:
            raise VisirError(
                f"{out} holds an interrupted training.", hint="go on with --resume, or remove the folder, or --out DIR"
            )
    elif (out / CHECKPOINT_FILE).is_file():
        raise VisirError(f"{out} holds a finished checkpoint.", hint="train into another folder: --out DIR")
    elif out.exists() and {one.name for one in out.iterdir()} - {RECIPE_FILE, STOPPED_FILE}:
        raise VisirError(f"{out} exists and is not a training's folder.", hint="train into another one: --out DIR")


def _collection(recipe: Recipe) -> Collection:
    images = None if recipe.data.images is None else expand(recipe.data.images)
    try:
        return open_collection(expand(recipe.data.collection), images=images)
    except VisirError as fault:
        if not recipe.data.obtain:
            raise
        raise CollectionError(fault.message, hint=expand(recipe.data.obtain)) from fault


def _backbones(recipe: Recipe, train: Collection) -> dict[Modality, Encoder]:
    image = _load(recipe.backbones.image, recipe.device)
    if "image" not in image.modalities:
        raise image.cannot("image")
    if recipe.backbones.views != ("whole",):
        image = ImageViews(image, recipe.backbones.views)
    texts = [_text_encoder(name, recipe.device, train) for name in recipe.backbones.text]
    for text in texts:
        if "text" not in text.modalities:
            raise text.cannot("text")
    return {"image": image, "text": texts[0] if len(texts) == 1 else JoinedTexts(texts)}


def _text_encoder(name: str, device: str, train: Collection) -> Encoder:
    if not name.startswith(FITTED_WORDS):
        return _load(name, device)
    return BagOfWords.fit(train.captions["text"].to_pylist(), limit=int(name.removeprefix(FITTED_WORDS)))


def _load(name: str, device: str) -> Encoder:
    name = expand(name)
    return load(name, device=device if family_of(name).devices else None)


def _splits(recipe: Recipe) -> tuple[str, str]:
    return recipe.data.train, recipe.data.validation


def _train_features(backbones: dict[Modality, Encoder], split: Collection) -> Features:
    """Every view of an image by itself: training draws one of them each time it sees the image."""
    image = backbones["image"]
    views = [image.alone(view) for view in image.views] if isinstance(image, ImageViews) else [image]
    return Features.of(
        split, [encode(view, split, "image") for view in views], encode(backbones["text"], split, "text")
    )


def _validation_features(backbones: dict[Modality, Encoder], split: Collection) -> Features:
    """Images as they will be encoded in use: the mean over the views."""
    return Features.of(split, [encode(backbones["image"], split, "image")], encode(backbones["text"], split, "text"))


def _facts(recipe: Recipe, train: Features, validation: Features, fitted: Fitted, encoded: float) -> dict[str, Any]:
    import torch

    chosen = fitted.curve[fitted.chosen - 1]
    return {
        "recipe": recipe.model_dump(mode="json"),
        "trained_on": train.origin,
        "validated_on": validation.origin,
        "chosen_epoch": fitted.chosen,
        "validation": chosen.validation,
        "temperature": fitted.temperature,
        "curve": [asdict(epoch) for epoch in fitted.curve],
        "seconds": {"features": encoded, "training": sum(epoch.seconds for epoch in fitted.curve)},
        "versions": {"visir": visir.__version__, "torch": torch.__version__},
        "threads": torch.get_num_threads(),
    }
