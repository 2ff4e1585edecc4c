"""BLIP-2 against `Blip2ForImageTextRetrieval`: its contrastive score is MaxSim, its matching head re-ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_dual
import tiny_transformers as tiny
import torch
import transformers

import visir
from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders.loading import load
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.errors import EncoderError

TEXTS = [text for text in tiny_dual.TEXTS if len(text) < 200]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("blip2")
    torch.manual_seed(7)
    words = tiny.wordpiece_tokenizer(folder, limit=512)
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    image = transformers.BlipImageProcessor(**tiny_dual.SQUARE)
    transformers.Blip2Processor(image, tokenizer, num_query_tokens=6).save_pretrained(folder)
    qformer = dict(tiny_dual.LAYERS, vocab_size=words + 1, encoder_hidden_size=32, cross_attention_frequency=1)
    model = transformers.Blip2ForImageTextRetrieval(
        transformers.Blip2Config(
            vision_config=tiny_dual.VISION,
            qformer_config=dict(qformer, max_position_embeddings=512, use_qformer_text_input=True),
            text_config={"model_type": "opt", "vocab_size": words, "hidden_size": 16, "num_hidden_layers": 1},
            num_query_tokens=6,
            image_text_hidden_size=24,
            image_token_index=words,
        )
    ).eval()
    tiny._spread(model)
    model.save_pretrained(folder)
    return folder, model


def reference(folder: Path, model: Any, *, matching: bool) -> np.ndarray:
    """(images, texts): the model's own scores, through its own processor."""
    processor = transformers.AutoProcessor.from_pretrained(folder)
    images = [to_rgb(image) for image in tiny_dual.photos()]
    rows = []
    for image in images:
        inputs = processor(images=[image] * len(TEXTS), text=TEXTS, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            output = model(**inputs, use_image_text_matching_head=matching).logits_per_image
        rows.append(output[:, 1] if matching else output[0])
    return torch.stack(rows).numpy()


def test_the_contrastive_score_is_maxsim(saved: tuple[Path, Any]) -> None:
    folder, model = saved
    encoder = load(f"{folder}?processor=torchvision", device="cpu")
    assert encoder.form == "multi-vector" and encoder.dimension == 24
    images, texts = (
        encoder.embed_images([encoder.preprocess(to_rgb(one)) for one in tiny_dual.photos()]),
        encoder.embed_texts(TEXTS),
    )
    scores = np.array([[(text @ image.T).max(axis=1).sum() for text in texts] for image in images])
    expected = reference(folder, model, matching=False)
    difference = np.abs(scores - expected).max()
    print(f"blip2 contrastive {difference:.1e}")
    assert difference <= 1e-5
    assert expected.std(axis=0).min() > 0.01


def test_the_matching_head(saved: tuple[Path, Any]) -> None:
    folder, model = saved
    cross_encoder = load(f"{folder}?processor=torchvision", device="cpu").cross_encoder
    assert cross_encoder is not None
    photos = tiny_dual.photos()
    pairs = np.random.default_rng(0).permutation([(i, t) for i in range(20) for t in range(len(TEXTS))])
    scores = cross_encoder.score_pairs([photos[i] for i, _ in pairs], [TEXTS[t] for _, t in pairs])
    expected = reference(folder, model, matching=True)
    difference = np.abs(scores - expected[pairs[:, 0], pairs[:, 1]]).max()
    print(f"blip2 matching {difference:.1e}")
    assert difference <= 1e-5
    assert expected.std(axis=0).min() > 0.01 and expected.std(axis=1).min() > 0.01


def test_it_searches_and_is_not_tuned(saved: tuple[Path, Any]) -> None:
    model = visir.load(saved[0], device="cpu")
    vectors = visir.encode(model, "scenes:3?size=64")
    assert [len(vectors.row(i)) for i in range(3)] == [6, 6, 6]
    with refused(EncoderError, code="model-several-vectors-each"):
        PretrainedBackbone.of(model, "image")


def test_a_model_that_writes_is_refused_from_its_configuration(tmp_path: Path) -> None:
    config = transformers.Blip2Config()
    config.architectures = ["Blip2ForConditionalGeneration"]
    config.save_pretrained(tmp_path)
    with refused(EncoderError, "Blip2ForImageTextRetrieval", code="saved-weights-not-checkpoint"):
        load(tmp_path, device="cpu")


def test_bfloat16_runs(saved: tuple[Path, Any]) -> None:
    exact, rough = load(saved[0], device="cpu"), load(saved[0], device="cpu", dtype="bfloat16")
    pixels = exact.preprocess(to_rgb(tiny_dual.photos()[2]))
    near, far = rough.embed_images([pixels])[0], exact.embed_images([pixels])[0]
    assert near.dtype == np.float32 and (near * far).sum(axis=1).min() > 0.95 and not np.array_equal(near, far)
    assert rough.cross_encoder is not None
    assert np.isfinite(rough.cross_encoder.score_pairs(tiny_dual.photos()[:2], ["a dog", "grass"])).all()
