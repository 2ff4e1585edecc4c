"""Photos and texts through CLIP: a plain loop of transformers beside visir with PyTorch and compiled by OpenVINO.

    python benchmarks/clip_encoding.py runs/clip --photos FOLDER [--limit 300] [--rounds 3]

MODEL is a folder of `transformers` (`benchmarks/random_models.py` writes one with random weights). The contenders take
turns, round by round; the store is empty each time, and visir writes its vectors to it. "plain" is what one writes
first: PIL, the model's own processor, batches of 32. Each figure is the least of the rounds, as processor time and as
time on the clock.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image

import visir

Vectors = NDArray[Any]
TEXTS = (
    "a dog runs on the beach", "two children play beside an old boat", "a man in a red jacket climbs a rock",
    "people sit at a table in the park", "a girl throws a ball over a fence",
)  # fmt: skip


def batched(rows: Sequence[Any], size: int = 32) -> list[Sequence[Any]]:
    """Parts of so many rows."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def plain(folder: str) -> tuple[Callable[[Sequence[Path]], Vectors], Callable[[Sequence[str]], Vectors]]:
    """The loop that one writes first."""
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    processor = transformers.CLIPImageProcessor.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def features(output: Any) -> Vectors:
        tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
        vectors: Vectors = tensor.numpy()
        return vectors

    @torch.inference_mode()
    def images(paths: Sequence[Path]) -> Vectors:
        rows = []
        for batch in batched(paths):
            pictures = [Image.open(path).convert("RGB") for path in batch]
            rows.append(features(model.get_image_features(**processor(pictures, return_tensors="pt"))))
        return np.concatenate(rows)

    @torch.inference_mode()
    def texts(queries: Sequence[str]) -> Vectors:
        inputs = [tokenizer(list(batch), padding=True, return_tensors="pt") for batch in batched(queries)]
        return np.concatenate([features(model.get_text_features(**batch)) for batch in inputs])

    return images, texts


def ours(folder: str, device: str, dtype: str) -> tuple[Callable[[Sequence[Path]], Vectors], Callable[..., Vectors]]:
    """visir, as one calls it."""
    encoder = visir.load(folder, device=device, dtype=dtype)

    def images(paths: Sequence[Path]) -> Vectors:
        with tempfile.TemporaryDirectory() as empty:
            return np.array(visir.encode(encoder, list(paths), store=empty, batch_size=32).vectors)

    return images, encoder.encode_texts  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    paths = sorted(path for path in arguments.photos.rglob("*.jpg"))[: arguments.limit]
    queries = [f"{text}, {number}" for number in range(20) for text in TEXTS]
    contenders = {
        "plain transformers": plain(arguments.model),
        "visir, PyTorch": ours(arguments.model, "cpu", "float32"),
        "visir, OpenVINO": ours(arguments.model, "openvino", "float32"),
        "visir, OpenVINO bfloat16": ours(arguments.model, "openvino", "bfloat16"),
    }
    works: dict[str, Callable[[Any], Vectors]] = {}
    print(f"{len(paths)} photos, {len(queries)} texts, {torch.get_num_threads()} threads, best of {arguments.rounds}")
    for name, (images, texts) in contenders.items():
        works[f"{name}: photos"] = lambda _, images=images: images(paths)
        works[f"{name}: texts, 100 at once"] = lambda _, texts=texts: texts(queries)
        works[f"{name}: texts, one by one"] = lambda _, texts=texts: np.concatenate([texts([q]) for q in queries[:20]])
    best: dict[str, tuple[float, float]] = {}
    vectors: dict[str, Vectors] = {}
    for turn in range(arguments.rounds + 1):
        for name, work in works.items():
            began, busy = time.perf_counter(), time.process_time()
            vectors[name] = work(None)
            spent = time.process_time() - busy, time.perf_counter() - began
            if turn:  # the first one warms up
                best[name] = min(best.get(name, spent), spent)
    for what in ("photos", "texts, 100 at once", "texts, one by one"):
        reference = unit(vectors[f"plain transformers: {what}"])
        print(f"\n{what}\n{'':26} {'cpu ms':>8} {'ms':>8} {'× plain':>8} {'1 - cosine':>11} {'nearest equal':>14}")
        for name in contenders:
            key, n = f"{name}: {what}", len(reference)
            busy, wall = (1000 * seconds / n for seconds in best[key])
            speed = best[f"plain transformers: {what}"][0] / best[key][0]
            own = unit(vectors[key])
            same = (nearest(own) == nearest(reference)).mean()
            print(f"{name:26} {busy:8.1f} {wall:8.1f} {speed:8.2f} {np.max(1 - (own * reference).sum(1)):11.1e} "
                  f"{same:14.1%}")  # fmt: skip


def unit(vectors: Vectors) -> Vectors:
    vectors = vectors.astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def nearest(vectors: Vectors) -> Vectors:
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    return scores.argmax(axis=1)


if __name__ == "__main__":
    main()
