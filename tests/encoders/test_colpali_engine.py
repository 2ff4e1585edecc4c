"""Late-interaction models against colpali-engine, the code that trained them: vectors and scores.

The package runs in a Python of its own, `VISIR_COLPALI_PYTHON`, or in this one. Without it, `colpali_scores.json`
stands for it: the scores of 10 texts and 13 photos that it gave (colpali-engine 0.3.18, torch 2.11; written by
`VISIR_WRITE_SCORES=1`).

ColQwen2 was trained with a row and a column for each piece of a photo (Qwen2-VL's positions), as colpali-engine
computes it. `ColQwen2ForRetrieval` of transformers 5.23 loses them: its vectors of photos differ by up to 0.3.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import test_late_interaction as late
import tiny_late
import tiny_transformers as tiny
import torch
import transformers

import visir
from visir.collections.images import to_rgb

SCORES = Path(__file__).with_name("colpali_scores.json")
PYTHON = os.environ.get("VISIR_COLPALI_PYTHON") or (sys.executable if find_spec("colpali_engine") else None)
PHOTOS = [to_rgb(image) for image in tiny.photos()]


@pytest.fixture(scope="module", params=["colpali", "colqwen2", "colmodernvbert"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    tiny_late.save(request.param, folder, dimension=128)  # the only one that the package knows
    return request.param, folder


@pytest.fixture(scope="module")
def encoder(saved: tuple[str, Path]) -> Any:
    # Pillow scales alike in every release; torchvision learnt Lanczos between the releases of the two Pythons.
    return visir.load(f"{saved[1]}?processor=pil", device="cpu")


def test_vectors_and_scores_are_those_of_colpali_engine(saved: tuple[str, Path], encoder: Any, tmp_path: Path) -> None:
    if PYTHON is None:
        pytest.skip("no Python with colpali-engine (VISIR_COLPALI_PYTHON)")
    theirs = engine(saved, encoder, tmp_path)
    photos, texts = encoder.encode_images(PHOTOS), encoder.encode_texts(tiny.CAPTIONS, "query")
    for name, mine in (("photo", photos), ("text", texts)):
        for row, vectors in enumerate(mine):
            np.testing.assert_allclose(vectors, theirs[f"{name}-{row}"], atol=1e-5)
    np.testing.assert_allclose(late.maxsim(texts, photos), theirs["scores"], rtol=1e-5)
    if os.environ.get("VISIR_WRITE_SCORES"):
        scores = json.loads(SCORES.read_text()) if SCORES.is_file() else {}
        scores[saved[0]] = [[float(f"{score:.7g}") for score in row] for row in theirs["scores"]]
        SCORES.write_text(json.dumps(scores).replace("]], ", "]],\n").replace("], ", "],\n"))


def test_scores_are_those_that_colpali_engine_gave(saved: tuple[str, Path], encoder: Any) -> None:
    own = late.maxsim(encoder.encode_texts(tiny.CAPTIONS, "query"), encoder.encode_images(PHOTOS))
    np.testing.assert_allclose(own, json.loads(SCORES.read_text())[saved[0]], rtol=1e-5)


def test_the_class_of_transformers_alone_would_lose_the_rows(saved: tuple[str, Path], encoder: Any) -> None:
    kind, folder = saved
    if kind != "colqwen2":
        return
    model = transformers.ColQwen2ForRetrieval.from_pretrained(folder).eval()
    inputs = encoder.preprocess(PHOTOS[1])
    with torch.inference_mode():
        alone = model(**inputs).embeddings[0].numpy()
    if np.abs(alone - encoder.encode_images(PHOTOS[1:2])[0]).max() < 1e-5:
        pytest.fail("transformers hands the grid on again: grid_positions in late_interaction.py can go")


def engine(saved: tuple[str, Path], encoder: Any, folder: Path) -> dict[str, Any]:
    """What colpali-engine makes of the model, the photos and the texts."""
    kind, model = saved
    (folder / "photos").mkdir()
    for row, photo in enumerate(PHOTOS):
        photo.save(folder / "photos" / f"{row:02}.png")
    prompt = encoder.card.text_preprocessing["prompt"].removeprefix("<bos>")  # the package writes <bos> itself
    (folder / "texts.json").write_text(json.dumps([prompt.replace("{}", text) for text in tiny.CAPTIONS]))
    script = Path(__file__).with_name("colpali_engine_scores.py")
    places = [str(path) for path in (model, folder / "photos", folder / "texts.json", folder / "vectors.npz")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(PYTHON), str(script), kind, *places], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(np.load(folder / "vectors.npz"))
