"""BLIP against `BlipForImageTextRetrieval`: cosines of the vectors, and the matching head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_transformers as tiny
import torch
import transformers

from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders.cross_encoder import CrossEncoder, of_one_image
from visir.encoders.loading import load, load_cross_encoder
from visir.errors import EncoderError

SHORT = [caption for caption in tiny.CAPTIONS if len(caption) < 200]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("blip")
    return folder, tiny.save("blip", folder)


def reference(folder: Path, model: Any, backend: str, captions: list[str], *, matching: bool) -> np.ndarray:
    """(images, texts): the model's own cosines, or the logit of "match" of every pair."""
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    inputs = tokenizer(captions, padding=True, truncation=True, return_tensors="pt", return_token_type_ids=False)
    pixels = tiny.reference_pixels(folder, backend, [to_rgb(image) for image in tiny.photos()])
    with torch.no_grad():
        if not matching:
            return model(pixel_values=pixels, **inputs, use_itm_head=False).itm_score.numpy()
        rows = [
            model(pixel_values=one.expand(len(captions), -1, -1, -1), **inputs, use_itm_head=True).itm_score[:, 1]
            for one in pixels
        ]
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_cosines_equal_the_contrastive_reference(saved: tuple[Path, Any], backend: str) -> None:
    folder, model = saved
    encoder = load(f"{folder}?processor={backend}", device="cpu")
    images, texts = encoder.encode_images(tiny.photos()), encoder.encode_texts(tiny.CAPTIONS)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    expected = reference(folder, model, backend, tiny.CAPTIONS, matching=False)
    difference = np.abs(images @ texts.T - expected).max()
    print(f"blip contrastive {backend} {difference:.1e}")
    assert difference <= 1e-5
    assert expected.std() > 0.05


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
def test_scores_equal_the_matching_head(saved: tuple[Path, Any], backend: str) -> None:
    folder, model = saved
    cross_encoder = load(f"{folder}?processor={backend}", device="cpu").cross_encoder
    assert isinstance(cross_encoder, CrossEncoder)
    photos = tiny.photos()
    # All 13 x 9 pairs in a shuffled order, so that repeats of an image are far apart and cross block borders.
    pairs = np.random.default_rng(0).permutation([(i, t) for i in range(13) for t in range(9)])
    scores = cross_encoder.score_pairs([photos[i] for i, _ in pairs], [SHORT[t] for _, t in pairs])
    expected = reference(folder, model, backend, SHORT, matching=True)
    difference = np.abs(scores - expected[pairs[:, 0], pairs[:, 1]]).max()
    print(f"blip matching {backend} {difference:.1e}")
    assert scores.dtype == np.float32 and difference <= 1e-5
    assert expected.std(axis=0).min() > 0.01 and expected.std(axis=1).min() > 0.01  # reads image and text


def test_a_pair_with_a_long_text(saved: tuple[Path, Any]) -> None:
    folder, model = saved
    long = next(caption for caption in tiny.CAPTIONS if len(caption) >= 200)
    scores = load_cross_encoder(folder, device="cpu").score_pairs(tiny.photos()[:2], [long, long])
    expected = reference(folder, model, "pil", [long], matching=True)
    assert np.abs(scores - expected[:2, 0]).max() <= 1e-5


def test_tokens_are_computed_once_and_serve_many_pairs(saved: tuple[Path, Any]) -> None:
    """Images a, b and three texts; pairs in an order in which texts of several lengths share a call."""
    folder, model = saved
    cross_encoder = load_cross_encoder(folder, device="cpu")
    a, b = cross_encoder.image_tokens([cross_encoder.preprocess(to_rgb(one)) for one in tiny.photos()[:2]])
    words = cross_encoder.text_tokens(SHORT[:3])
    assert a.shape == (17, 32)  # 16 patches of 8 × 8 in 32 × 32, and the first token
    assert len({len(one) for one in words}) > 1
    scores = cross_encoder.match([a, a, a, b, a], [words[2], words[0], words[1], words[1], words[0]])
    expected = reference(folder, model, "pil", SHORT, matching=True)
    assert np.abs(scores - expected[[0, 0, 0, 1, 0], [2, 0, 1, 1, 0]]).max() <= 1e-5
    assert [(one is a, place) for one, place in of_one_image([a, a, b, a])] == [
        (True, slice(0, 2)),
        (False, slice(2, 3)),
        (True, slice(3, 4)),
    ]
    assert list(of_one_image([])) == []


def test_a_picture_passes_the_vision_tower_once(saved: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cross_encoder = load_cross_encoder(saved[0], device="cpu")
    seen: list[int] = []
    tokens = cross_encoder.image_tokens
    monkeypatch.setattr(cross_encoder, "image_tokens", lambda batch: (seen.append(len(batch)), tokens(batch))[1])
    first, second = tiny.photos()[:2]
    cross_encoder.score_pairs([first, second] * 100, ["a dog"] * 200)  # more pairs than one call of `match` takes
    assert sum(seen) == 2


def test_pairs_must_be_pairs(saved: tuple[Path, Any]) -> None:
    cross_encoder = load_cross_encoder(saved[0], device="cpu")
    with refused(EncoderError, "1", "2", code="images-cannot-paired-texts"):
        cross_encoder.score_pairs(tiny.photos()[:1], ["a", "b"])
    assert cross_encoder.score_pairs([], []).shape == (0,)


def test_a_matcher_is_not_its_encoder(saved: tuple[Path, Any]) -> None:
    """Scores and vectors of one checkpoint are kept under different keys; vectors alone have no cross-encoder."""
    encoder = load(saved[0], device="cpu")
    assert encoder.cross_encoder is not None
    assert encoder.cross_encoder.card.fingerprint != encoder.card.fingerprint
    assert encoder.cross_encoder.card.weights == encoder.card.weights
    with refused(EncoderError, "pixels", code="makes-vectors"):
        load_cross_encoder("pixels")


def test_the_limit_of_blips_own_evaluation(saved: tuple[Path, Any]) -> None:
    folder, _ = saved
    long = " ".join(["dog"] * 60)
    whole, cut = load(folder, device="cpu"), load(f"{folder}?max_length=35", device="cpu")
    assert cut.card.text_preprocessing["max_length"] == 35
    # 35 tokens are [CLS], 33 words and [SEP].
    assert np.allclose(cut.encode_texts([long]), whole.encode_texts([" ".join(["dog"] * 33)]), atol=1e-5)
    assert not np.allclose(whole.encode_texts([long]), cut.encode_texts([long]), atol=1e-3)


def test_a_captioning_checkpoint_is_refused(saved: tuple[Path, Any], tmp_path: Path) -> None:
    """transformers would fill the missing projections with random numbers; config.json tells before that."""
    folder, model = saved
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    transformers.BlipForConditionalGeneration(model.config).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with refused(
        EncoderError,
        "BlipForConditionalGeneration",
        "62",
        "BlipForImageTextRetrieval",
        code="saved-weights-not-checkpoint",
    ):
        load(tmp_path, device="cpu")


def test_bfloat16_runs(saved: tuple[Path, Any]) -> None:
    exact, rough = (load_cross_encoder(saved[0], device="cpu", dtype=dtype) for dtype in ("float32", "bfloat16"))
    pairs = (tiny.photos()[:3], tiny.CAPTIONS[:3])
    near, far = rough.score_pairs(*pairs), exact.score_pairs(*pairs)
    assert near.dtype == np.float32 and np.allclose(near, far, atol=0.2) and not np.array_equal(near, far)
