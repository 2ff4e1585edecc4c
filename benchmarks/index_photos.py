"""Photos indexed end to end: files in a folder become a library that can be searched, beside a plain loop.

    python benchmarks/random_models.py clip-vit-base-patch32 clip
    python benchmarks/index_photos.py clip [--photos 10000] [--before FOLDER/src]

The photos are those of Flickr8k (224 and 160 pixels, `VISIR_DATA`), each a file; where more are asked for, mirror
images of the first. The plain loop opens each photo with Pillow, preprocesses and encodes batches of 32 with
transformers, and saves one array: no library, no thumbnails, no check. `visir library make` runs with PyTorch and with
the towers compiled by OpenVINO; `--before` names the source of an older visir, which runs with PyTorch. Each is a new
process over the same files with a cache of its own; its processor time and its peak memory are those of the process.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from PIL import Image, ImageOps

PLAIN = """
import sys
from pathlib import Path
import numpy as np, torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModel
model, folder, out = sys.argv[1:]
processor, network = AutoImageProcessor.from_pretrained(model), AutoModel.from_pretrained(model).eval()
files = sorted(Path(folder).glob("*.jpg"))
vectors = []
with torch.inference_mode():
    for start in range(0, len(files), 32):
        pictures = [Image.open(file).convert("RGB") for file in files[start : start + 32]]
        features = network.get_image_features(**processor(images=pictures, return_tensors="pt"))
        features = getattr(features, "pooler_output", features)
        vectors.append(torch.nn.functional.normalize(features, dim=-1).numpy())
np.save(out, np.concatenate(vectors))
"""
ARCHIVES = ("images_test_224.zip", "images_val_224.zip", "images_train_160.zip")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder with a CLIP of transformers")
    parser.add_argument("--photos", type=int, default=10_000)
    parser.add_argument("--before", type=Path, help="the folder src of an older visir")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_photos(folder / "photos", arguments.photos)
        visir = [sys.executable, "-m", "visir", "library", "make", folder / "photos", "--model", arguments.model, "-q"]
        plain = [sys.executable, "-c", PLAIN, arguments.model, folder / "photos", folder / "vectors.npy"]
        contenders: list[tuple[str, list[object], Path | None]] = [("plain loop of transformers", plain, None)]
        if arguments.before is not None:
            contenders.append(("visir before", [*visir, "--out", folder / "before"], arguments.before))
        contenders += [
            ("visir, PyTorch", [*visir, "--device", "cpu", "--out", folder / "torch"], None),
            ("visir, OpenVINO", [*visir, "--device", "openvino", "--out", folder / "openvino"], None),
        ]
        print(f"{'':28}{'photos/s':>9}{'seconds':>9}{'CPU s':>8}{'CPU ms each':>12}{'peak MB':>9}")
        for title, command, source in contenders:
            wall, processor, memory = measured(command, folder / "cache" / title.replace(" ", "-"), source)
            print(
                f"{title:28}{arguments.photos / wall:9.1f}{wall:9.1f}{processor:8.1f}"
                f"{1000 * processor / arguments.photos:12.1f}{memory:9,.0f}",
                flush=True,
            )


def write_photos(folder: Path, count: int) -> None:
    """Write photos as files; after the last photo, mirror images of the first."""
    folder.mkdir()
    place = Path(os.environ.get("VISIR_DATA", "../shared/data"), "flickr8k")
    written = 0
    for mirrored in (False, True):
        for archive in ARCHIVES:
            with zipfile.ZipFile(place / archive) as photos:
                for name in sorted(name for name in photos.namelist() if name.endswith(".jpg")):
                    if written == count:
                        return
                    data = photos.read(name)
                    if mirrored:
                        stream = io.BytesIO()
                        ImageOps.mirror(Image.open(io.BytesIO(data))).save(stream, "JPEG", quality=90)
                        data = stream.getvalue()
                    (folder / f"{written:06d}.jpg").write_bytes(data)
                    written += 1
    raise SystemExit(f"{count} photos were asked for; there are {written}, mirror images counted")


def measured(command: list[object], cache: Path, source: Path | None) -> tuple[float, float, float]:
    """Seconds, seconds of processor time and peak MB of one process."""
    environment = {**os.environ, "VISIR_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    parts = [str(part) for part in command]
    began = time.perf_counter()
    process = os.posix_spawn(parts[0], parts, environment)
    _, status, usage = os.wait4(process, 0)
    wall = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(parts[:6])} … ended with status {os.waitstatus_to_exitcode(status)}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
