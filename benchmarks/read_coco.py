"""How long it takes to read and fingerprint captions as many as COCO's: 123,287 images, 616,767 captions.

    python benchmarks/read_coco.py

The files are made here, in both published layouts and of about the published size, with random words of a seeded
vocabulary. Bound: 10 seconds for reading, checking and fingerprinting together.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from visir.collections import open_collection, portable

IMAGES, CAPTIONS, SECONDS = 123_287, 616_767, 10.0


def captions(seed: int = 0) -> tuple[list[list[str]], list[int]]:
    """The words of every caption, and how many captions each image has: five, some of them six."""
    draw = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(draw.choice(letters, size)) for size in draw.integers(1, 9, 20_000)])
    lengths = draw.integers(8, 14, CAPTIONS)
    flat = words[draw.zipf(1.3, int(lengths.sum())) % len(words)].tolist()
    ends = np.cumsum(lengths)
    texts = [flat[end - size : end] for end, size in zip(ends.tolist(), lengths.tolist(), strict=True)]
    counts = [5 + (image < CAPTIONS - 5 * IMAGES) for image in range(IMAGES)]
    return texts, counts


def coco_layout(texts: list[list[str]], counts: list[int]) -> dict[str, Any]:
    """train2014 and val2014 merged into one captions file."""
    images, annotations, at = [], [], 0
    for image, count in enumerate(counts):
        name = f"COCO_train2014_{image:012d}.jpg"
        images.append(
            {
                "license": 4,
                "file_name": name,
                "coco_url": f"http://images.cocodataset.org/train2014/{name}",
                "height": 480,
                "width": 640,
                "date_captured": "2013-11-14 17:02:52",
                "flickr_url": "http://farm7.staticflickr.com/6116/6255196340_da26cf2c9e_z.jpg",
                "id": image,
            }
        )
        for _ in range(count):
            annotations.append({"image_id": image, "id": at, "caption": " ".join(texts[at]).capitalize() + "."})
            at += 1
    return {"info": {"description": "benchmark"}, "images": images, "licenses": [], "annotations": annotations}


def karpathy_layout(texts: list[list[str]], counts: list[int]) -> dict[str, Any]:
    """dataset_coco.json, tokens and all."""
    images, at = [], 0
    for image, count in enumerate(counts):
        sentences = []
        for _ in range(count):
            raw = " ".join(texts[at]).capitalize() + "."
            sentences.append({"tokens": texts[at], "raw": raw, "imgid": image, "sentid": at})
            at += 1
        split = "val" if image < 5_000 else "test" if image < 10_000 else "restval" if image < 40_504 else "train"
        images.append(
            {
                "filepath": "val2014",
                "sentids": [sentence["sentid"] for sentence in sentences],
                "filename": f"COCO_val2014_{image:012d}.jpg",
                "imgid": image,
                "split": split,
                "sentences": sentences,
                "cocoid": image,
            }
        )
    return {"images": images, "dataset": "coco"}


def main() -> None:
    table = Table(title=f"{IMAGES:,} images, {CAPTIONS:,} captions", title_justify="left")
    for column in ("layout", "MB", "read and check, s", "fingerprint, s", "together, s", "of it CPU, s", "peak, GB"):
        table.add_column(column, justify="left" if column == "layout" else "right")
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        texts, counts = captions()
        files = {
            "Karpathy JSON": (Path(folder) / "dataset_coco.json", karpathy_layout),
            "COCO captions JSON": (Path(folder) / "captions_train2014.json", coco_layout),
        }
        for file, make in files.values():
            file.write_bytes(orjson.dumps(make(texts, counts)))
        del texts
        for name, (file, _) in files.items():
            slowest = max(slowest, measure(table, name, file))
        collection = open_collection(files["Karpathy JSON"][0])
        portable.save(collection, Path(folder) / "portable", "none")
        slowest = max(slowest, measure(table, "portable folder", Path(folder) / "portable"))
    Console(width=110).print(table)
    if slowest > SECONDS:
        raise SystemExit(f"slower than {SECONDS:g} s: {slowest:.1f} s")


def measure(table: Table, name: str, path: Path) -> float:
    start, cpu = time.perf_counter(), time.process_time()
    collection = open_collection(path)
    read = time.perf_counter()
    _ = collection.fingerprint
    end, cpu = time.perf_counter(), time.process_time() - cpu
    assert (collection.images.num_rows, collection.captions.num_rows) == (IMAGES, CAPTIONS)
    files = [path] if path.is_file() else list(path.iterdir())
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds = [f"{one:.2f}" for one in (read - start, end - read, end - start, cpu)]
    table.add_row(name, f"{megabytes:,.0f}", *seconds, f"{peak:.1f}")
    return end - start


if __name__ == "__main__":
    main()
