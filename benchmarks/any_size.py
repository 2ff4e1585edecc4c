"""A collection of any size through `encode_parts`, with empty pictures and an encoder that costs nothing.

    python benchmarks/any_size.py [--ids 1000000 --per-file 10000 --processes 1 --dimension 4]
    python benchmarks/any_size.py --ids 100000000 --pictures-only --out /large/disk        # ten thousand files
    python benchmarks/any_size.py --dimension 256 --pictures-only --index              # and an exact index of the parts

One tar of `--per-file` samples (a picture of 1 × 1 pixel, a text, a JSON; or the picture alone) is made, and linked
under the names of all input files, so that the source takes no room; the name of the file stands before each key, so
all ids differ. What is measured is everything but the model and the pictures: listing, leases, streaming, decoding,
ids, parts. Printed: seconds and megabytes per million ids, and the peak of memory of a process, which should not grow
with their number.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import tarfile
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from visir.encoders import Encoder, Parts, encode_parts
from visir.progress import quiet
from visir.records import EncoderCard
from visir.retrieval import build_index


class Nothing(Encoder):
    """Vectors that take no time to compute."""

    batch_size = 1024

    def __init__(self, dimension: int) -> None:
        self.card = EncoderCard("nothing", "benchmark", revision="1")
        self.dimension = dimension
        self.modalities = frozenset({"image"})

    def preprocess(self, image: Image.Image) -> Any:
        """No pixels are needed."""
        return image.size

    def embed_images(self, batch: Sequence[Any]) -> Any:
        """The same vector for each."""
        return np.ones((len(batch), self.dimension), np.float32)


def make_source(folder: Path, files: int, per_file: int, *, pictures_only: bool = False) -> int:
    """The input files; the bytes of one."""
    stream = io.BytesIO()
    Image.new("RGB", (1, 1), "red").save(stream, "PNG")
    contents = (("png", stream.getvalue()), ("txt", b"a text"), ("json", b"{}"))[: 1 if pictures_only else 3]
    first = folder / "00000000.tar"
    with tarfile.open(first, "w") as tar:
        for row in range(per_file):
            for ending, data in contents:
                about = tarfile.TarInfo(f"{row:09}.{ending}")
                about.size = len(data)
                tar.addfile(about, io.BytesIO(data))
    links = os.pathconf(folder, "PC_LINK_MAX") - 1
    for number in range(1, files):
        if number % links == 0:  # a file can have so many names
            target = folder / f"{number:08}.tar"
            target.write_bytes(first.read_bytes())
            first = target
        else:
            os.link(first, folder / f"{number:08}.tar")
    return first.stat().st_size


def work(source: Path, parts: Path, dimension: int) -> tuple[int, float]:
    """One process: its files, and its peak of memory in MB."""
    with quiet():
        done = encode_parts(Nothing(dimension), source, parts, workers=1)
    return done.files, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def make_index(parts: Path, out: Path) -> tuple[float, float]:
    """An exact index of the parts, in a process of its own: seconds, and its peak of memory in MB."""
    started = time.perf_counter()
    with quiet():
        build_index(Parts(parts), "exact", out)
    return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("ids", 1_000_000), ("per-file", 10_000), ("processes", 1), ("dimension", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--pictures-only", action="store_true", help="no texts and JSONs beside the pictures")
    parser.add_argument("--index", action="store_true", help="make an exact index of the parts, too")
    parser.add_argument("--out", type=Path, help="where there is room; by default the folder for temporary files")
    shape = parser.parse_args()
    files = -(-shape.ids // shape.per_file)
    with tempfile.TemporaryDirectory(dir=shape.out) as folder:
        source, parts = Path(folder, "source"), Path(folder, "parts")
        source.mkdir()
        size = make_source(source, files, shape.per_file, pictures_only=shape.pictures_only)
        print(f"{files:,} files of {shape.per_file:,} ids, {size / 1e6:.1f} MB each", flush=True)
        started = time.perf_counter()
        with ProcessPoolExecutor(shape.processes) as pool:
            workers = [pool.submit(work, source, parts, shape.dimension) for _ in range(shape.processes)]
            done = [worker.result() for worker in workers]
        seconds = time.perf_counter() - started
        processor = resource.getrusage(resource.RUSAGE_CHILDREN)
        millions = files * shape.per_file / 1e6
        if shape.index:
            with ProcessPoolExecutor(1) as pool:
                built, peak = pool.submit(make_index, parts, Path(folder, "index")).result()
            print(f"exact index: {built / millions:,.1f} s a million; peak of memory {peak:,.0f} MB", flush=True)
        started = time.perf_counter()
        status = Parts(parts).status()
        asked = time.perf_counter() - started
        assert status.is_complete, status
        started, ids, first = time.perf_counter(), 0, set()
        for vectors in Parts(parts):
            ids += len(vectors)
            first.add(vectors.ids[0].as_py())
        assert ids == files * shape.per_file and len(first) == files
        read = time.perf_counter() - started
        written = sum(path.stat().st_size for path in (parts / "parts").iterdir()) / 1e6
    print(
        f"{millions:,.2f} million ids, {shape.processes} processes: {seconds / millions:,.1f} s a million "
        f"({(processor.ru_utime + processor.ru_stime) / millions:,.1f} s of processor), {written / millions:,.1f} MB "
        f"of parts a million; peak of memory {max(peak for _, peak in done):,.0f} MB; files per process "
        f"{sorted(count for count, _ in done)}\n"
        f"status in {asked:.2f} s; all parts read in {read / millions:,.2f} s a million, whole process "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB"
    )


if __name__ == "__main__":
    main()
