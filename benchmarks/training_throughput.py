"""Training throughput beside a loop in the style of the LTD authors' code, on the same model and machine, in one run.

    python benchmarks/training_throughput.py [--models cnn frozen] [--images 600] [--rounds 2]

The rival is what PCME's, LTD's and VSE++'s training scripts do: a `Dataset` with one item per caption, which tokenises
the caption in Python (here `re.findall` and a dictionary, far cheaper than their NLTK), opens, decodes, crops and flips
the photo with torchvision, and a `DataLoader` with as many workers as cores; then the towers, InfoNCE, a backward pass,
clipping and AdamW. Both sides train the very same network from the same weights, with the same augmentation, batch and
number of torch threads, and `visir.training.loop` does everything else that it does (the log of steps, seeds, checks).

- cnn: a small CNN on 64 × 64 pixels and a GRU, from scratch, the model of the recipe scenes-vse (visir keeps decoded
  photos, their shorter side 128 pixels)
- frozen: heads over a frozen MobileNetV2 at 224 pixels and a GRU, as in the recipe flickr8k-gru. The rival runs the
  frozen network in every step, as the authors do in their first phase, where the CNN is frozen too; visir looks its
  vectors up. What encoding them once took is in the column "before", and with it the ratio over 12 epochs.
- resnet18 (when asked for): a ResNet-18 at 112 pixels with random weights and a GRU, from scratch. Without a GPU the
  network takes nearly all of the time, and both sides come out alike.

Each contender runs in a process of its own, rounds alternate, medians are printed. The first epoch warms up and is not
counted. "waiting" is the share of the training time in which the model had no input; "processor" is the time of all
cores per caption, which is steadier than the clock when others use the machine: the rival's workers then get a larger
share of it than one process with threads. "memory" is the peak of the proportional set size (PSS, Linux), summed over a
process and its workers, mapped pages of caches included.

Needs Flickr8k's validation photos (224 pixels high; decoding full-sized ones takes the rival several times as long) and
MobileNetV2 under VISIR_DATA.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

import visir.training.loop as training_module
from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.encoders.base import Encoder
from visir.encoders.models.image_processors import NORMALISATIONS
from visir.encoders.models.joined import ImageViews
from visir.encoders.towers.base import Tower
from visir.files import data_directory
from visir.records import Collection
from visir.threads import usable_cores
from visir.training.build import build_model
from visir.training.data import Splits, image_rows_of
from visir.training.examples import build_examples
from visir.training.learner import DualEncoder
from visir.training.loop import fit
from visir.training.recipe import Recipe
from visir.training.similarities import VectorPairs

EPOCHS = 2
TRAINED_EPOCHS = 12
BATCH = 128
CROP = 0.6
HEAD = {"hidden": [512], "activation": "relu", "layer_norm": False}
IMAGE_SIDES: dict[str, dict[str, Any]] = {
    "cnn": {"tower": "small-cnn", "size": 64, "width": 24, "cache": 128, "augment": {"crop": CROP, "flip": True}},
    "frozen": {"tower": "frozen", "encoder": "mobilenet_v2", "views": ["whole", "mirrored", "centre"],
               "head": HEAD},
    "resnet18": {"tower": "resnet", "depth": 18, "weights": "random", "size": 112, "cache": 128,
                 "augment": {"crop": CROP, "flip": True}},
}  # fmt: skip
TEXT_SIDES: dict[str, dict[str, Any]] = {
    "cnn": {"tower": "gru", "words": 128, "hidden": 128},
    "frozen": {"tower": "gru", "words": 300, "hidden": 256},
    "resnet18": {"tower": "gru", "words": 300, "hidden": 256},
}
FEWER = {"cnn": 1, "frozen": 3, "resnet18": 3}
"""The slow models see this many times fewer photos, so that all of it takes minutes."""


def recipe_of(model: str) -> Recipe:
    return Recipe.model_validate(
        {
            "name": f"throughput-{model}",
            "dimension": 256,
            "data": {"collection": ""},
            "image": IMAGE_SIDES[model],
            "text": TEXT_SIDES[model],
            "optimiser": {"epochs": EPOCHS, "batch": BATCH, "rate": 5e-4, "betas": [0.9, 0.999]},
            "schedule": {"shape": "constant", "warmup": 0},
            "selection": {"keep": "last"},
        }
    )


def splits_of(images: int) -> Splits:
    whole = open_collection(data_directory() / "flickr8k" / "dataset_flickr8k.karpathy_schema.json.xz").split("val")
    rows = np.arange(whole.images.num_rows)
    return Splits(whole.keep_images(rows < images), whole.keep_images((rows >= images) & (rows < images + 16)))


class Epoch:
    """Passes an epoch's items on: how long they were waited for, and how long all of it took.

    - `waited`, `seconds`: on the clock; `processor`: of all threads and of the workers that ended with the epoch
    """

    def __init__(self) -> None:
        self.waited = self.seconds = self.processor = 0.0

    def of(self, items: Iterable[Any]) -> Generator[Any, None, None]:
        """The same items."""
        started, used = time.perf_counter(), processor_seconds()
        try:
            yield from self._counted(iter(items))
        finally:  # visir's loop asks for no more than it needs and closes this after the last step
            self.seconds, self.processor = time.perf_counter() - started, processor_seconds() - used

    def _counted(self, coming: Iterator[Any]) -> Generator[Any, None, None]:
        while True:
            begun = time.perf_counter()
            try:
                item = next(coming)
            except StopIteration:
                return
            finally:
                self.waited += time.perf_counter() - begun
            yield item


def processor_seconds() -> float:
    """User and system time of this process and of the workers it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class PeakMemory:
    """The most that this process and its children hold, looked at four times a second; 0 where there is no /proc."""

    def __init__(self) -> None:
        self.bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            children = [one.read_text().split() for one in Path("/proc/self/task").glob("*/children")]
            self.bytes = max(
                self.bytes, sum(map(_proportional_set, ["self", *(pid for part in children for pid in part)]))
            )

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _proportional_set(pid: str) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # a worker that has just ended
        return 0
    return 1024 * sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def ours(model: str, images: int) -> dict[str, float]:
    begun = time.perf_counter()
    recipe, splits = recipe_of(model), splits_of(images)
    built = build_model(recipe, splits.train, "cpu")
    train, validation = build_examples(recipe, built, splits)
    before = time.perf_counter() - begun
    epochs: list[Epoch] = []
    prefetch = training_module.prefetch

    def timed(*arguments: Any, **options: Any) -> Generator[Any, None, None]:
        epochs.append(Epoch())
        with closing(prefetch(*arguments, **options)) as coming:
            yield from epochs[-1].of(coming)

    training_module.prefetch = timed
    with tempfile.TemporaryDirectory() as folder:
        last = fit(recipe, DualEncoder(built.towers, built.objective), train, validation, folder=Path(folder)).curve[-1]
    return summary(epochs[-1], len(train), before, last.losses["loss"])


class Captions(Dataset[Any]):
    """One item per caption: its photo read, decoded and transformed, its words looked up."""

    def __init__(self, collection: Collection, transform: Callable[[Image.Image], Any], words: dict[str, int]) -> None:
        self.collection, self.transform, self.words = collection, transform, words
        self.texts, self.owners = collection.captions["text"].to_pylist(), image_rows_of(collection)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, row: int) -> tuple[Any, Tensor, int]:
        photo = Image.open(io.BytesIO(self.reader.read(int(self.owners[row])))).convert("RGB")
        ids = [self.words.get(word, 1) for word in re.findall(r"\w+", self.texts[row].lower())]
        return self.transform(photo), torch.tensor(ids or [1]), int(self.owners[row])

    @cached_property
    def reader(self) -> ImageReader:
        """Opened in the worker."""
        return ImageReader(self.collection)


def collate(items: list[tuple[Any, Tensor, int]]) -> tuple[Any, dict[str, Tensor], Tensor]:
    photos, ids, owners = zip(*items, strict=True)
    padded = torch.zeros(len(ids), max(map(len, ids)), dtype=torch.int64)
    for row, one in enumerate(ids):
        padded[row, : len(one)] = one
    return (
        torch.stack(photos),
        {"ids": padded, "lengths": torch.tensor([len(one) for one in ids])},
        torch.tensor(owners),
    )


def rivals(model: str, images: int) -> dict[str, float]:
    begun = time.perf_counter()
    recipe, splits = recipe_of(model), splits_of(images)
    built = build_model(recipe, splits.train, "cpu")
    towers, objective = built.towers, built.objective
    words = {word: number for number, word in enumerate(towers["text"].backbone.vocabulary.words, 4)}
    base_encoder = built.base_encoders["image"]
    if isinstance(base_encoder, ImageViews):
        base_encoder = base_encoder.encoder  # the rival flips and crops for itself
    dataset = Captions(splits.train, _transform(model, base_encoder), words)
    loader = DataLoader(dataset, BATCH, shuffle=True, num_workers=usable_cores(), collate_fn=collate)
    parameters = [one for module in (*towers.values(), objective) for one in module.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=5e-4, weight_decay=0.01)
    before = time.perf_counter() - begun
    for _ in range(EPOCHS):
        epoch, total = Epoch(), 0.0
        for photos, captions, owners in epoch.of(loader):
            image = torch.nn.functional.normalize(_image_vectors(towers["image"], base_encoder, photos), dim=-1)
            text = torch.nn.functional.normalize(towers["text"](captions), dim=-1)
            loss = objective(VectorPairs(image, text, owners)).total
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 2.0)
            optimiser.step()
            total += loss.item() * len(owners)
    return summary(epoch, len(dataset), before, total / len(dataset))


def summary(epoch: Epoch, captions: int, before: float, loss: float) -> dict[str, float]:
    return {
        "rate": captions / epoch.seconds,
        "waiting": epoch.waited / epoch.seconds,
        "processor": 1000 * epoch.processor / captions,
        "before": before,
        "loss": loss,
    }


def _transform(model: str, base_encoder: Encoder | None) -> Callable[[Image.Image], Any]:
    if base_encoder is not None:
        crop = transforms.Compose([transforms.RandomResizedCrop(224, (CROP, 1.0)), transforms.RandomHorizontalFlip()])
        return lambda photo: torch.from_numpy(np.array(base_encoder.preprocess(crop(photo))))
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(IMAGE_SIDES[model]["size"], (CROP, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(*NORMALISATIONS["imagenet"]),
        ]
    )


def _image_vectors(tower: Tower, base_encoder: Encoder | None, photos: Tensor) -> Tensor:
    if base_encoder is None:
        pixels = photos.contiguous(memory_format=torch.channels_last)
        vectors: Tensor = tower.head(tower.backbone.features(pixels))
        return vectors
    return tower(torch.from_numpy(base_encoder.embed_images(photos.numpy())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=IMAGE_SIDES, default=["cnn", "frozen"])
    parser.add_argument("--images", type=int, default=600, help="photos trained on, each with five captions")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--contender", choices=["visir", "rival"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.contender:
        with PeakMemory() as memory:
            found = (ours if asked.contender == "visir" else rivals)(asked.models[0], asked.images)
        print(json.dumps({**found, "memory": memory.bytes}))
        return
    print(f"{os.cpu_count()} cores, torch {torch.__version__}, batch {BATCH}; visir | rival\n")
    print(
        f"{'model':10}{'captions/s':>15}{'ratio':>8}{'processor ms':>16}{'ratio':>8}{'waiting':>16}{'before, s':>13}"
        f"{'12 epochs':>11}{'memory, MB':>15}{'loss':>13}"
    )
    for model in asked.models:
        images = asked.images // FEWER[model]
        runs: dict[str, list[dict[str, float]]] = {"visir": [], "rival": []}
        for _ in range(asked.rounds):
            for contender, found in runs.items():
                found.append(apart(model, contender, images))
        a, b = ({key: statistics.median(one[key] for one in found) for key in found[0]} for found in runs.values())
        whole = [one["before"] + TRAINED_EPOCHS * 5 * images / one["rate"] for one in (a, b)]
        print(
            f"{model:10}{a['rate']:8.0f}{b['rate']:7.0f}{a['rate'] / b['rate']:7.2f}×"
            f"{a['processor']:9.2f}{b['processor']:7.2f}{b['processor'] / a['processor']:7.2f}×"
            f"{a['waiting']:9.1%}{b['waiting']:7.1%}{a['before']:7.1f}{b['before']:6.1f}{whole[1] / whole[0]:10.2f}×"
            f"{a['memory'] / 1e6:9.0f}{b['memory'] / 1e6:6.0f}{a['loss']:7.2f}{b['loss']:6.2f}",
            flush=True,
        )


def apart(model: str, contender: str, images: int) -> dict[str, float]:
    """One contender in a process of its own, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, __file__, "--models", model, "--images", str(images), "--contender", contender],
            env={**os.environ, "VISIR_CACHE": cache},
            stdout=subprocess.PIPE,
            check=True,
        )
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
