"""What it costs to know that a tar is whole: its headers read by Python's `tarfile`, and with `TarHeaders`.

    python benchmarks/tar_headers.py [--members 100000 --repeat 5]

The tar holds pictures of 1 × 1 pixel, so that its headers are all there is to read. Printed: the processor time of each
road, the least of so many turns (they are taken by turns, so that a busy machine slows all of them); and its share of
that of `tarfile.getmembers()`.
"""

from __future__ import annotations

import argparse
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from any_size import make_source
from visir.collections.tars import TarHeaders


def by_tarfile(path: Path) -> int:
    """As Python reads a tar."""
    with tarfile.open(path, "r:") as tar:
        return len(tar.getmembers())


def by_headers(path: Path, *, brief: bool = True, checked: bool = True) -> int:
    """As visir does: for a file at hand."""
    headers = TarHeaders(brief=brief)
    with tarfile.open(path, "r:", tarinfo=headers.kind) as tar:
        count = len(tar.getmembers())
        if checked:
            headers.check_end(tar)
    return count


def by_stream(path: Path) -> int:
    """As visir does: for a file that is read once, from beginning to end."""
    headers = TarHeaders()
    with path.open("rb") as stream, headers.open(stream) as tar:
        count = len(tar.getmembers())
        headers.check_end(tar)
    return count


ROADS: dict[str, Callable[[Path], int]] = {
    "tarfile.getmembers()": by_tarfile,
    "TarHeaders, the end not checked": lambda path: by_headers(path, checked=False),
    "TarHeaders": by_headers,
    "TarHeaders, streamed": by_stream,
    "TarHeaders, every field of a header": lambda path: by_headers(path, brief=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    shape = parser.parse_args()
    seconds = dict.fromkeys(ROADS, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        size = make_source(Path(folder), 1, shape.members, pictures_only=True)
        (path,) = Path(folder).iterdir()
        print(f"{shape.members:,} members, {size / 1e6:.1f} MB", flush=True)
        for _ in range(shape.repeat):
            for name, read in ROADS.items():
                started = time.process_time()
                assert read(path) == shape.members
                seconds[name] = min(seconds[name], time.process_time() - started)
    whole = seconds["tarfile.getmembers()"]
    for name, least in seconds.items():
        print(f"{name:36} {least:6.2f} s  {least / whole:5.2f} ×  {least / shape.members * 1e6:5.1f} µs a member")


if __name__ == "__main__":
    main()
