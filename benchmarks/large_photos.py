"""Photos of 12 megapixels on their way into a model: what decoding and scaling cost; what scaled decoding changes.

    python benchmarks/large_photos.py CLIP PHOTOS [--own FOLDER] [--rounds 3]

CLIP is a folder of transformers (`benchmarks/random_models.py` writes one with random weights), PHOTOS a folder of JPEG
files of 224 pixels (Flickr8k), of which photos of 3000 × 4000 pixels are made: "enlarged", with noise like a sensor's,
and "mosaic", 252 at their own size, with more detail than a photo has. `--own`: a folder of large photos, measured too.
MobileNetV2 comes from VISIR_DATA. Processor time, one thread; the least of the rounds.

libjpeg can decode at a half, a quarter or an eighth of the size (Pillow: `Image.draft`). The second table compares what
the model then sees with what it sees of the whole picture: in grey levels of 255, and 1 - cosine of the vectors.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision.io
import transformers
from numpy.typing import NDArray
from PIL import Image

import visir
from visir.collections.images import decode, header, upright

SIDES = (3000, 4000)
EACH = 6


def enlarged(paths: list[Path], folder: Path) -> list[Path]:
    """Single photos, enlarged, with noise of four grey levels."""
    noise, made = np.random.default_rng(0), []
    for number, path in enumerate(paths[:EACH]):
        pixels = np.asarray(Image.open(path).convert("RGB").resize(SIDES, Image.Resampling.BICUBIC), np.float32)
        pixels = pixels + noise.normal(0, 4, pixels.shape).astype(np.float32)
        made.append(folder / f"enlarged-{number}.jpg")
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(made[-1], quality=90)
    return made


def mosaics(paths: list[Path], folder: Path) -> list[Path]:
    """252 photos side by side, at their own size."""
    order, made = np.random.default_rng(0), []
    for number in range(EACH):
        canvas = Image.new("RGB", SIDES)
        for place, row in enumerate(order.integers(0, len(paths), 14 * 18).tolist()):
            canvas.paste(Image.open(paths[row]), (place % 14 * 224, place // 14 * 224))
        made.append(folder / f"mosaic-{number}.jpg")
        canvas.save(made[-1], quality=90)
    return made


def ways(clip: Any, folder: str) -> dict[str, Callable[[Path], Any]]:
    """From a file to the input of the network, and its first part alone."""
    fast = transformers.AutoImageProcessor.from_pretrained(folder)
    pil = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")

    def plain(processor: Any) -> Callable[[Path], Any]:
        return lambda path: processor([Image.open(path).convert("RGB")], return_tensors="pt")["pixel_values"]

    def by_torchvision(path: Path) -> Any:
        return torchvision.io.decode_jpeg(torchvision.io.read_file(str(path)), mode=torchvision.io.ImageReadMode.RGB)

    return {
        "plain, torchvision's processor": plain(fast),
        "plain, PIL's processor": plain(pil),
        "visir": lambda path: clip.preprocess(decode(path.read_bytes(), path.name)),
        "visir, ?decode=896": lambda path: clip.preprocess(shrunk(path, 896)),
        "visir, ?decode=448": lambda path: clip.preprocess(shrunk(path, 448)),
        "decoding alone: PIL": lambda path: Image.open(path).convert("RGB"),
        "decoding alone: visir": lambda path: decode(path.read_bytes(), path.name),
        "decoding alone: torchvision": by_torchvision,
    }


def shrunk(path: Path, side: int) -> Image.Image:
    """As a model with `?decode=side` gets it."""
    with header(path.read_bytes(), path.name) as undecoded, upright(undecoded, least=side) as picture:
        return picture


def least_time(work: Callable[[Path], Any], paths: list[Path], rounds: int) -> float:
    """Milliseconds of processor time for each file."""
    best = np.inf
    for _ in range(rounds):
        began = time.process_time()
        for path in paths:
            work(path)
        best = min(best, time.process_time() - began)
    return 1000 * best / len(paths)


def drafted(path: Path, divisor: int) -> Image.Image:
    """A JPEG decoded at a part of its size."""
    image = Image.open(io.BytesIO(path.read_bytes()))
    if divisor > 1:
        image.draft("RGB", (image.width // divisor, image.height // divisor))
    return image.convert("RGB")


def seen(encoder: Any, levels: Callable[[Any], NDArray[Any]], pictures: list[Image.Image]) -> tuple[Any, Any]:
    """Grey levels of the model's input, and unit vectors."""
    prepared = [encoder.preprocess(picture) for picture in pictures]
    vectors = np.asarray(encoder.embed_images(prepared), np.float64)
    return np.stack([levels(one) for one in prepared]), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip")
    parser.add_argument("photos", type=Path)
    parser.add_argument("--own", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    clip, mobilenet = visir.load(chosen.clip, device="cpu"), visir.load("mobilenet_v2")
    processor = transformers.AutoImageProcessor.from_pretrained(chosen.clip)
    mean, deviation = (np.array(values)[:, None, None] for values in (processor.image_mean, processor.image_std))
    models: dict[str, tuple[Any, Callable[[Any], NDArray[Any]]]] = {
        "CLIP, random weights": (clip, lambda pixels: (pixels * deviation + mean) * 255),
        "MobileNetV2": (mobilenet, lambda pixels: np.asarray(pixels, np.float64)),
    }
    small = sorted(chosen.photos.rglob("*.jpg"))
    with tempfile.TemporaryDirectory() as scratch:
        kinds = {"enlarged": enlarged(small, Path(scratch)), "mosaic": mosaics(small, Path(scratch))}
        if chosen.own:
            kinds["own"] = sorted(chosen.own.glob("*.jpg"))
        for kind, paths in kinds.items():
            for name, work in ways(clip, chosen.clip).items():
                print(f"{kind:9} {name:32} {least_time(work, paths, chosen.rounds):7.1f} ms", flush=True)
        for kind, paths in kinds.items():
            for name, (encoder, levels) in models.items():
                whole = seen(encoder, levels, [drafted(path, 1) for path in paths])
                for divisor in (2, 4, 8):
                    cost = least_time(lambda path, divisor=divisor: drafted(path, divisor), paths, chosen.rounds)
                    part = seen(encoder, levels, [drafted(path, divisor) for path in paths])
                    apart, cosines = np.abs(part[0] - whole[0]), (part[1] * whole[1]).sum(1)
                    print(f"{kind:9} {name:20} 1/{divisor}: decoding {cost:5.1f} ms; levels: mean {apart.mean():.2f}, "
                          f"at most {apart.max():.0f}; 1 - cosine at most {1 - cosines.min():.1e}")  # fmt: skip


if __name__ == "__main__":
    main()
