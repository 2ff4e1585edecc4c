"""The recurrent backbone: against torch's own GRU, and independent of its neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visir.encoders.towers.base import to_device
from visir.encoders.towers.gru import SPECIAL, UNKNOWN, GRUBackbone, Packing, WordVocabulary, _Recurrence, tokenise

SHAPES: list[dict[str, Any]] = [
    {"bidirectional": True},
    {"bidirectional": False},
    {"bidirectional": True, "layers": 2, "pooling": "mean"},
    {"bidirectional": False, "layers": 2, "pooling": "max"},
    {"bidirectional": True, "pooling": "max"},
]


def backbone(words: int = 20, **shape: Any) -> GRUBackbone:
    torch.manual_seed(0)
    return GRUBackbone(WordVocabulary([f"w{number}" for number in range(words)]), words=5, hidden=4, **shape)


def batch(one: GRUBackbone, lengths: list[int]) -> dict[str, Tensor]:
    rng = np.random.default_rng(0)
    return one.collate([rng.integers(UNKNOWN, len(one.vocabulary), length) for length in lengths])


def one_by_one(one: GRUBackbone, inputs: dict[str, Tensor]) -> Tensor:
    """The slow, obvious reference: torch's GRU over one caption at a time, nothing padded."""
    rows = []
    for ids, length in zip(inputs["ids"], inputs["lengths"].tolist(), strict=True):
        states, _ = one.gru(one.embedding(ids[None, :length]))
        width = one.gru.hidden_size
        last = states[0, -1, :width], states[0, 0, width:]  # forward at the last word, backward at the first
        pooled = {"last": torch.cat(last), "mean": states[0].mean(0), "max": states[0].amax(0)}
        rows.append(pooled[one.pooling])
    return torch.stack(rows)


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_those_of_torch_one_caption_at_a_time(shape: dict[str, Any]) -> None:
    one = backbone(**shape).double()
    inputs = batch(one, [3, 1, 7, 7, 2, 5])
    found = one(inputs)
    weights = torch.randn_like(found)
    (found * weights).sum().backward()
    gradients = [parameter.grad for parameter in one.parameters()]
    one.zero_grad()
    expected = one_by_one(one, inputs)
    (expected * weights).sum().backward()
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    for gradient, parameter in zip(gradients, one.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-12, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_road_of_a_gpu_gives_the_same(shape: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    one = backbone(**shape)
    inputs = batch(one, [4, 9, 1, 1])
    here = one(inputs)
    monkeypatch.setattr(one, "_on_cpu", one._by_torch)
    torch.testing.assert_close(here, one(inputs), atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_asked_of_the_device(shape: dict[str, Any]) -> None:
    """The meta device has no numbers: whoever asked it for one, and so would wait for a GPU, fails there."""
    one = backbone(**shape)
    inputs = to_device(batch(one, [4, 9, 1, 1]), "meta")
    assert isinstance(inputs, dict) and (inputs["ids"].device.type, inputs["lengths"].device.type) == ("meta", "cpu")
    assert one.to("meta")(inputs).shape == (4, one.outputs)


def test_gradients_by_finite_differences() -> None:
    torch.manual_seed(0)
    gates, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((7, 6), (6, 2), (6,))
    )
    # Three sequences of 3, 3 and 1 words.
    assert torch.autograd.gradcheck(lambda *given: _Recurrence.apply(*given, [3, 2, 2]), (gates, weight, bias))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_caption_alone_and_among_others(shape: dict[str, Any]) -> None:
    one = backbone(**shape)
    inputs = batch(one, [3, 12, 1, 6])
    together = one(inputs)
    wider = {"ids": torch.nn.functional.pad(inputs["ids"], (0, 9)), "lengths": inputs["lengths"]}
    torch.testing.assert_close(one(wider), together, atol=1e-6, rtol=0)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(
        one({key: value[order] for key, value in inputs.items()}), together[order], atol=1e-6, rtol=0
    )
    for row, length in enumerate([3, 12, 1, 6]):
        alone = one({"ids": inputs["ids"][row : row + 1, :length], "lengths": inputs["lengths"][row : row + 1]})
        torch.testing.assert_close(alone[0], together[row], atol=1e-6, rtol=0)


def test_the_backward_half_has_read_the_whole_caption() -> None:
    one = backbone()
    first, second = one(one.collate([np.array([4, 5, 6]), np.array([4, 7, 6])]))
    # Both end in word 6: a state taken at the last word would be the same for both.
    assert not torch.allclose(first[4:], second[4:], atol=1e-3)


def test_an_empty_caption_is_one_unknown_word() -> None:
    one = backbone()
    assert one.prepare(" ...").tolist() == one.prepare("zebra").tolist() == [UNKNOWN]
    assert one.prepare("w3 W0").tolist() == [SPECIAL + 3, SPECIAL]
    collated = one.collate([one.prepare(""), one.prepare("w3 w0")])
    assert collated["ids"].tolist() == [[1, 0], [7, 4]] and collated["lengths"].tolist() == [1, 2]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_the_layout_is_a_permutation_of_all_words(lengths: list[int]) -> None:
    packing = Packing(torch.tensor(lengths))
    places = list(zip(packing.rows.tolist(), packing.times.tolist(), strict=True))
    assert sorted(places) == [(row, time) for row, length in enumerate(lengths) for time in range(length)]
    assert sum(packing.sizes) == len(places) and packing.sizes == sorted(packing.sizes, reverse=True)
    assert [places[end] for end in packing.ends.tolist()] == [(row, length - 1) for row, length in enumerate(lengths)]
    mirrored = [places[at] for at in packing.mirror.tolist()]
    assert mirrored == [(row, lengths[row] - 1 - time) for row, time in places]
    assert packing.mirror[packing.mirror].tolist() == list(range(len(places)))


def test_vectors_from_a_file_are_given_and_the_others_look_like_them(tmp_path: Path) -> None:
    one = backbone(words=2000)
    rng = np.random.default_rng(0)
    vectors = rng.normal([5, 0, 0, 0, -5], [0.1, 1, 2, 0.1, 1], (1000, 5)).astype(np.float32)
    lines = [f"w{number} {' '.join(map(repr, row.tolist()))}" for number, row in enumerate(vectors)]
    (tmp_path / "glove.txt").write_text("\n".join(lines))
    assert list(one.pretrained_modules()) == []
    assert one.read_vectors(tmp_path / "glove.txt") == 1000
    assert list(one.pretrained_modules()) == [one.embedding]
    weights = one.embedding.weight.detach().numpy()
    np.testing.assert_array_equal(weights[SPECIAL : SPECIAL + 1000], vectors)
    assert not weights[0].any()  # padding
    np.testing.assert_allclose(weights[SPECIAL + 1000 :].mean(0), [5, 0, 0, 0, -5], atol=0.25)
    np.testing.assert_allclose(weights[SPECIAL + 1000 :].std(0), [0.1, 1, 2, 0.1, 1], rtol=0.1)


def test_autocast_takes_the_lower_precision() -> None:
    one = backbone()
    inputs = batch(one, [3, 5])
    with torch.autocast("cpu", torch.bfloat16):
        low = one(inputs)
    torch.testing.assert_close(low.float(), one(inputs), atol=0.02, rtol=0)


def test_scripts_without_spaces_are_read_character_by_character() -> None:
    words = tokenise("一个女人 on 2号 bikes，isn't it")
    assert words == ["一", "个", "女", "人", "on", "2", "号", "bikes", "is", "n't", "it"]
    assert tokenise("黒いユニフォーム") == list("黒いユニフォーム")
    assert tokenise("한국어 문장 Žena běží") == ["한국어", "문장", "žena", "běží"]
