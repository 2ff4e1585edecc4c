"""The vectors and scores of the same model and inputs as `mteb` reads them, with its own wrappers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_sentence
import tiny_transformers as tiny
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder

from visir.collections.images import to_rgb
from visir.encoders import load_cross_encoder
from visir.encoders.loading import load

pytestmark = pytest.mark.nightly  # importing mteb alone takes ten seconds
COUNT = 6
TASK = SimpleNamespace(name="Captions", type="Retrieval", simplified_task_type="retrieval")
ARGUMENTS = {"task_metadata": TASK, "hf_split": "test", "hf_subset": "default", "show_progress_bar": False}


@pytest.fixture(scope="module")
def wrappers() -> Any:
    pytest.importorskip("mteb")
    from mteb.models import sentence_transformer_wrapper

    return sentence_transformer_wrapper


def inputs(*names: str) -> Any:
    from datasets import Dataset, Features, Image, Value
    from torch.utils.data import DataLoader

    columns = {"text": tiny.CAPTIONS[:COUNT], "image": [to_rgb(photo) for photo in tiny.photos()[:COUNT]]}
    features = Features({name: Image() if name == "image" else Value("string") for name in names})
    rows = Dataset.from_dict({name: columns[name] for name in names}, features=features)
    return DataLoader(
        rows, batch_size=4, collate_fn=lambda batch: {name: [row[name] for row in batch] for name in names}
    )


def reading(wrapper: Any, role: str, *names: str) -> np.ndarray:
    from mteb.types import PromptType

    vectors = wrapper.encode(inputs(*names), prompt_type=PromptType(role), **ARGUMENTS)
    return np.asarray(vectors)


def with_pictures(wrapper: Any) -> Any:
    """mteb has a list of what published models take; ours is on no list."""
    wrapper.mteb_model_meta = wrapper.mteb_model_meta.model_copy(update={"modalities": ["text", "image"]})
    return wrapper


@pytest.mark.parametrize("kind", ["clip", "qwen"])
def test_dense(wrappers: Any, tmp_path: Path, kind: str) -> None:
    folder = {"clip": tiny_sentence.save_clip, "qwen": tiny_sentence.save_qwen}[kind](tmp_path / kind)
    wrapper = with_pictures(wrappers.SentenceTransformerEncoderWrapper(SentenceTransformer(str(folder), device="cpu")))
    encoder = load(folder, device="cpu")
    pictures = [to_rgb(photo) for photo in tiny.photos()[:COUNT]]
    for role in ("query", "document"):
        own = encoder.for_role(role)  # type: ignore[arg-type]
        pixels = [own.preprocess(picture) for picture in pictures]
        assert np.abs(reading(wrapper, role, "text") - own.embed_texts(tiny.CAPTIONS[:COUNT])).max() <= 1e-5
        assert np.abs(reading(wrapper, role, "image") - own.embed_images(pixels)).max() <= 1e-5
        if kind == "qwen":
            both = own.embed_texts_with_images(tiny.CAPTIONS[:COUNT], pixels)
            assert np.abs(reading(wrapper, role, "text", "image") - both).max() <= 1e-5


def test_sparse(wrappers: Any, tmp_path: Path) -> None:
    folder = tiny_sentence.save_inference_free(tmp_path / "sparse")
    wrapper = wrappers.SparseEncoderWrapper(SparseEncoder(str(folder), device="cpu"))
    encoder = load(folder, device="cpu")
    for role in ("query", "document"):
        from mteb.types import PromptType

        weights = wrapper.encode(inputs("text"), prompt_type=PromptType(role), **ARGUMENTS)
        dense = weights.to_dense() if getattr(weights, "is_sparse", False) else torch.as_tensor(weights)
        found = encoder.encode_texts(tiny.CAPTIONS[:COUNT], role)  # type: ignore[arg-type]
        assert np.abs(dense.numpy() - found).max() <= 1e-5


def test_pairs(wrappers: Any, tmp_path: Path) -> None:
    """mteb takes the library's scores, which have a sigmoid behind ours."""
    folder = tiny_sentence.save_re_ranker(tmp_path / "pairs")
    wrapper = wrappers.CrossEncoderWrapper(CrossEncoder(str(folder), device="cpu"))
    scores = wrapper.predict(inputs("text"), inputs("text"), **ARGUMENTS)
    texts = tiny.CAPTIONS[:COUNT]
    ours = load_cross_encoder(folder, device="cpu").score(texts, texts)
    assert np.abs(1 / (1 + np.exp(-ours)) - np.asarray(scores)).max() <= 1e-5
