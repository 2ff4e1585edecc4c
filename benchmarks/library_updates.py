"""What bringing a library up to date costs, and what its perceptual hash finds, on Flickr8k's photos.

python benchmarks/library_updates.py [--photos 8000]

Times are processor seconds of the update, best of three. The model is `pixels`, the cheapest there is: what is left is
the library's own work.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from visir.collections.archives import open_archive
from visir.files import data_directory
from visir.library import UpdateReport, update
from visir.library.duplicates import NEAR, distances, perceptual_hash, words_of
from visir.library.snapshot import LibrarySnapshot


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=8000)
    wanted = parser.parse_args().photos
    with tempfile.TemporaryDirectory() as folder:
        photos, library = Path(folder, "photos"), Path(folder, "library")
        names = unpack(photos, wanted)
        timed("first", lambda: update(photos, library, model="pixels"), 1)
        timed("nothing new", lambda: update(None, library))
        added, deleted, moved = [], [], []
        for turn in range(3):
            for number, name in enumerate(names[10 * turn : 10 * turn + 10]):
                ImageOps.flip(Image.open(photos / name)).save(photos / f"new-{number}.jpg")
            added.append(seconds(lambda: update(None, library)))
            for path in photos.glob("new-*.jpg"):
                path.unlink()
            deleted.append(seconds(lambda: update(None, library)))
            (photos / "val").rename(photos / "validation")
            moved.append(seconds(lambda: update(None, library)))
            (photos / "validation").rename(photos / "val")
            update(None, library)
        print(f"+10 photos: {min(added):.2f} s; -10: {min(deleted):.2f} s; a folder moved: {min(moved):.2f} s")
        timed("every file verified", lambda: update(None, library, verify=True))
        with LibrarySnapshot.open(library) as opened:
            print(opened.indexes["dense"].info().details)
        hashes(photos, names)


def unpack(photos: Path, wanted: int) -> list[str]:
    made: list[str] = []
    for split, size in (("test", 224), ("val", 224), ("train", 160)):
        archive = open_archive(data_directory() / "flickr8k" / f"images_{split}_{size}.zip")
        (photos / split).mkdir(parents=True)
        for name in sorted(archive.names())[: wanted - len(made)]:
            made.append(f"{split}/{Path(name).name}")
            (photos / made[-1]).write_bytes(archive.read(name))
    return made


def timed(what: str, work: Callable[[], UpdateReport], times: int = 3) -> None:
    print(f"{what}: {min(seconds(work) for _ in range(times)):.2f} s")


def seconds(work: Callable[[], UpdateReport]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return Image.open(io.BytesIO(stream.getvalue())).convert("RGB")


def cropped(image: Image.Image, percent: int) -> Image.Image:
    x, y = image.width * percent // 100, image.height * percent // 100
    return image.crop((x, y, image.width - x, image.height - y))


COPIES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "half the size": lambda image: image.resize((image.width // 2, image.height // 2)),
    "a quarter of the size": lambda image: image.resize((image.width // 4, image.height // 4)),
    "JPEG of quality 30": lambda image: jpeg(image, 30),
    "JPEG of quality 10": lambda image: jpeg(image, 10),
    "half the size, JPEG of quality 50": lambda image: jpeg(image.resize((image.width // 2, image.height // 2)), 50),
    "brighter by a fifth": lambda image: ImageEnhance.Brightness(image).enhance(1.2),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "2 % cropped on each side": lambda image: cropped(image, 2),
    "5 % cropped on each side": lambda image: cropped(image, 5),
    "mirrored": ImageOps.mirror,
}


def hashes(photos: Path, names: list[str], most: int = 4000, copied: int = 300) -> None:
    chosen = np.random.default_rng(0).permutation(names)[:most].tolist()
    words = words_of([perceptual_hash(Image.open(photos / name).convert("RGB")) for name in chosen])
    for what, copy in COPIES.items():
        made = words_of([perceptual_hash(copy(Image.open(photos / name).convert("RGB"))) for name in chosen[:copied]])
        apart = np.array([distances(words[row], made[row : row + 1])[0] for row in range(len(made))])
        print(f"{what}: {(apart <= NEAR).mean():.3f} found; median {np.median(apart):.0f} bits, most {apart.max()}")
    nearest = [distances(words[row], words[row + 1 :]) for row in range(len(words) - 1)]
    apart = np.concatenate(nearest)
    print(f"{len(apart):,} pairs of photos: {(apart <= NEAR).sum()} within {NEAR} bits; the nearest {apart.min()}")


if __name__ == "__main__":
    main()
