"""Active terms alone give what all terms give: scores, norms, gradients, whatever the coins."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_toys import PIECES, batch, head

from visir.sparse import loss
from visir.sparse.expansion import ExpansionSample
from visir.sparse.loss import BatchScores, score, score_active


def gradients(
    way: object, seed: int, drawn: ExpansionSample, shift: float, size: int
) -> tuple[BatchScores, list[torch.Tensor]]:
    model = head(seed=seed, double=True)
    with torch.no_grad():
        model.bias += shift
    images, texts, own = batch(size, seed=seed, double=True)
    found = way(model, images, texts, own, drawn)  # type: ignore[operator]
    weights = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    total = (found.scores * weights).sum() + 0.3 * found.image_weight + 0.7 * found.text_weight
    return found, list(torch.autograd.grad(total, list(model.parameters()), allow_unused=True))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    size=st.integers(2, 9),
    expanded=st.integers(0, 511),
    words=st.none() | st.integers(0, 2**19 - 1),
    shift=st.sampled_from([-30.0, -2.0, 0.0, 3.0]),
)
def test_equal_to_the_dense_way(seed: int, size: int, expanded: int, words: int | None, shift: float) -> None:
    may = None if words is None else torch.tensor([bool(words >> k & 1) for k in range(len(PIECES))])
    drawn = ExpansionSample(torch.tensor([bool(expanded >> row & 1) for row in range(size)]), may)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "DENSE_WORK", 99.0)
        found, slopes = gradients(score_active, seed, drawn, shift, size)
    dense, expected = gradients(score, seed, drawn, shift, size)
    for name in ("scores", "image_weight", "text_weight"):
        torch.testing.assert_close(getattr(found, name), getattr(dense, name), rtol=1e-10, atol=1e-12)
    assert found.image_terms == dense.image_terms and found.text_terms == dense.text_terms
    for one, other in zip(slopes, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_of_the_loops_change_no_bit(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "DENSE_WORK", 99.0)
    drawn = ExpansionSample(torch.tensor([True, False] * 8))
    found = []
    for count in (1, threads):  # torch's own products keep theirs: how they are cut is not ours to say
        monkeypatch.setattr("visir.threads.cores", lambda count=count: count)
        found.append(gradients(score_active, 3, drawn, 0.0, 16)[1])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_a_dense_head_goes_the_dense_way_and_a_sparse_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(loss, "_PROBED", 1)
    monkeypatch.setattr(loss, "score", lambda *given: asked.append(1) or score(*given))
    images, texts, own = batch()
    model = head()
    score_active(model, images, texts, own, ExpansionSample(torch.ones(7, dtype=torch.bool)))
    assert len(asked) == 1
    score_active(model, images, texts, own, ExpansionSample(torch.zeros(7, dtype=torch.bool)))
    assert len(asked) == 1  # half of the terms of images alone: 0.5 < 0.55
    with torch.no_grad():
        model.bias -= 100.0
    nothing = score_active(model, images, texts, own, ExpansionSample(torch.ones(7, dtype=torch.bool)))
    assert len(asked) == 1 and not nothing.scores.any() and nothing.image_terms == 0


@pytest.mark.parametrize("way", [score, score_active])
def test_neither_modality_stands_for_the_other(way: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The released code's current version encodes a caption from its image's vector once expansion is on."""
    monkeypatch.setattr(loss, "DENSE_WORK", 99.0)
    model = head(double=True)
    images, texts, own = batch(double=True)
    for expanded in (False, True):
        drawn = ExpansionSample(torch.full((7,), expanded))
        found = way(model, images, texts, own, drawn)  # type: ignore[operator]
        other_images = way(model, images.flip(1), texts, own, drawn)  # type: ignore[operator]
        other_texts = way(model, images, texts.flip(1), own, drawn)  # type: ignore[operator]
        torch.testing.assert_close(other_images.text_weight, found.text_weight, rtol=1e-12, atol=0)
        torch.testing.assert_close(other_texts.image_weight, found.image_weight, rtol=1e-12, atol=0)
        assert abs((other_images.image_weight - found.image_weight).item()) > 1e-6
        assert abs((other_texts.text_weight - found.text_weight).item()) > 1e-6
        # A score is of the image of its row and the caption of its column.
        turned = way(model, images.roll(1, 0), texts, own, drawn)  # type: ignore[operator]
        torch.testing.assert_close(turned.scores, found.scores.roll(1, 0), rtol=1e-12, atol=1e-12)
