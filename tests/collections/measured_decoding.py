"""Run in a process of its own: the memory that decoding a file takes, and what was reckoned from its header."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image, ImageCms  # noqa: F401 (loaded before anything is measured)

from visir.collections.images import header, to_rgb


def held(what: str) -> int:
    """Memory of this process, now ("VmRSS") or at most ("VmHWM")."""
    return int(Path("/proc/self/status").read_text().split(f"{what}:")[1].split()[0]) * 1024


if __name__ == "__main__":
    Image.init()
    content = Path(sys.argv[1]).read_bytes()
    with header(content, "x", max_pixels=None):  # once, for what opening sets up
        before = held("VmRSS")
    with header(content, "x", max_pixels=None) as undecoded:
        to_rgb(undecoded.image)
    print(held("VmHWM") - before, undecoded.size)
