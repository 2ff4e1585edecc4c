"""A folder as people have one: pictures, a CSV with their captions, and a small CLIP with random weights."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path

import pytest

import visir
from visir.collections.images import ImageReader


def photos_and_clip(base: Path) -> Path:
    """Make `photos/`, `photos.csv` and `clip/`."""
    pytest.importorskip("transformers")
    tiny = Path(__file__).parent / "encoders" / "tiny_transformers.py"
    spec = importlib.util.spec_from_file_location("tiny_transformers", tiny)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scenes = visir.open("scenes:20?size=64&seed=3")
    pictures = ImageReader(scenes)
    (base / "photos").mkdir()
    names = {}
    for number, id_ in enumerate(scenes.images["id"].to_pylist()):
        names[id_] = f"{number:03}.jpg"
        pictures.open(number).save(base / "photos" / names[id_])
    with (base / "photos.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "caption"])
        writer.writerows([names[row["image_id"]], row["text"]] for row in scenes.captions.to_pylist())
    module.save("clip", base / "clip")
    return base
