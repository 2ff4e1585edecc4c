"""Weights as in use: exact, and the same bits whatever the neighbours, the blocks, the threads."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sparse_toys import PIECES, batch, head, packed
from test_sparse_head import slowly

from visir.sparse import encoder, kernels
from visir.sparse.encoder import SparseRows, project
from visir.sparse.language_model import SparseHead


def vectors(n: int = 40) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(n, 6)).astype(np.float32)


def row(rows: SparseRows, at: int) -> dict[int, float]:
    part = slice(rows.offsets[at], rows.offsets[at + 1])
    return dict(zip(rows.terms[part].tolist(), rows.values[part].tolist(), strict=True))


def test_weights_are_the_equations_for_every_row() -> None:
    model = head()
    found = project(model, vectors(9))
    for at in range(9):
        expected = slowly(model, vectors(9)[at].tolist())
        assert row(found, at) == pytest.approx({k: w for k, w in enumerate(expected) if w > 0}, rel=2e-6)


@pytest.mark.parametrize("block", [1, 7, 40])
def test_blocks_and_order_change_no_bit(block: int) -> None:
    model, rows = head(), vectors()
    expected, order = project(model, rows), np.random.default_rng(1).permutation(40)
    found = project(model, rows[order], block=block)
    for at in range(40):
        assert row(found, at) == row(expected, int(order[at]))


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = project(head(), vectors())
    monkeypatch.setattr("visir.threads.cores", lambda: 3)
    found = project(head(), vectors())
    assert np.array_equal(found.values, expected.values) and np.array_equal(found.terms, expected.terms)


def test_own_terms_have_the_weights_that_they_have_among_all() -> None:
    model, rows = head(), vectors(5)
    own = packed([np.array([5, 6, 9]), np.array([], int), np.array([7]), np.arange(5, 19), np.array([3, 18])])
    everything, found = project(model, rows), project(model, rows, own)
    for at in range(5):
        whole = row(everything, at)
        assert row(found, at) == {k: whole[k] for k in own.of(at).tolist() if k in whole}
    assert found.offsets[1] == found.offsets[2] and 3 not in found.terms  # no terms; [SEP] even if named


def test_the_product_only_filters_what_is_exact_at_the_edge() -> None:
    """Logits made to lie within rounding of 0: whether one is active is decided by the exact sum, both ways."""
    model = head()
    hidden = model.hidden(torch.from_numpy(vectors(1)))[0].detach()
    with torch.no_grad():
        model.bias.copy_(-(model.words.double() @ hidden.double()).float())  # logits of about 1e-8, of either sign
    found = row(project(model, vectors(1)), 0)
    kept = project(model, vectors(1), packed([np.arange(len(PIECES))]))
    assert found == row(kept, 0) and 0 < len(found) < 14
    assert all(0 < weight < 1e-5 and math.isfinite(weight) for weight in found.values())


def test_nothing_in_nothing_out() -> None:
    found = project(head(), np.zeros((0, 6), np.float32))
    assert found.offsets.tolist() == [0] and not len(found.terms)
    model = head()
    with torch.no_grad():
        model.bias.fill_(-100)
    assert project(model, vectors(3)).offsets.tolist() == [0, 0, 0, 0]


def test_agrees_with_the_head_in_training() -> None:
    model: SparseHead = head()
    images = batch(12)[0]
    full = np.zeros((12, len(PIECES)), np.float32)
    found = project(model, images.numpy())
    full[np.repeat(np.arange(12), np.diff(found.offsets)), found.terms] = found.values
    torch.testing.assert_close(torch.from_numpy(full), model(images).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("width", "inputs"), [(1, 1), (7, 9), (16, 8), (21, 40)])
def test_the_loops_in_numpy_change_no_bit(width: int, inputs: int) -> None:
    rng = np.random.default_rng(width)

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    given = (drawn(30, inputs), drawn(width, inputs), drawn(width), drawn(width), drawn(width), 1e-12)
    given[0][0] = 0
    compiled, plain = np.empty((30, width), np.float32), np.empty((30, width), np.float32)
    kernels.hidden_exact(0, 30, *given, compiled)
    kernels.hidden_in_numpy(0, 30, *given, plain)
    np.testing.assert_array_equal(compiled, plain)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 40, 30))]).astype(np.int64)
    terms, words, bias = rng.integers(0, 50, offsets[-1]).astype(np.int32), drawn(50, width), drawn(50)
    weights = [np.empty(offsets[-1], np.float32) for _ in range(2)]
    for loop, out in zip((kernels.weigh, kernels.weigh_in_numpy), weights, strict=True):
        loop(0, 30, offsets, terms, compiled, words, bias, out)
    np.testing.assert_array_equal(*weights)
    assert 0.2 < (weights[0] > 0).mean() < 0.8
    exact = words[terms].astype(np.float64) * compiled[np.repeat(np.arange(30), np.diff(offsets))]
    logits = [math.fsum(line) + float(shift) for line, shift in zip(exact.tolist(), bias[terms], strict=True)]
    np.testing.assert_allclose(weights[0], np.log1p(np.maximum(logits, 0)), rtol=1e-6, atol=1e-7)


def test_a_head_without_a_compiler_says_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(encoder, "pays", lambda numbers, *loops, compiled=compiled: compiled)
        own = packed([np.arange(4, 12)] * 40)
        found.append((project(head(), vectors()), project(head(), vectors(), own)))
    for one, other in zip(*found, strict=True):
        assert len(one.terms) > 100
        for name in ("offsets", "terms", "values"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_on_a_new_machine_no_words_wait_for_the_compiler(tmp_path: Path) -> None:
    program = f"""
import sys; sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
import numpy as np
from sparse_toys import head
from test_projection import packed, vectors
from visir import jit
from visir.sparse import kernels
from visir.sparse.encoder import project

def found():
    return [project(head(), vectors()), project(head(), vectors(), packed([np.arange(4, 12)] * 40))]

jit.FEW = 1000  # what is much work on a new machine
runs = [found(), found()]
loops = kernels.hidden_exact, kernels.weigh
assert not any(loop.signatures for loop in loops), "it waited for the compiler"
[thread] = jit._rehearsed.values()
thread.join()
runs.append(found())
assert all(len(loop.signatures) == 1 and not loop.own.stats.cache_misses for loop in loops), "it was compiled here"
for run in runs[1:]:
    for one, other in zip(runs[0], run, strict=True):
        assert (one.values == other.values).all() and (one.terms == other.terms).all()
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_training_waits_for_what_is_compiled_already(tmp_path: Path) -> None:
    """Begun with the training, in another process; the step that needs the loops joins it, and compiles nothing."""
    program = f"""
import sys; sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
import torch
from sparse_toys import batch, head
from visir import jit
from visir.sparse import kernels, run
from visir.sparse.expansion import ExpansionSample

loops = [kernels.own_logits, kernels.count, kernels.fill, kernels.products, kernels.slopes, kernels.spread_slopes]
jit.compile_ahead(kernels.own_logits)
run.DENSE_WORK = 99.0
found = run.score_active(head(), *batch(), ExpansionSample(torch.tensor([True, False] * 3 + [True])))
found.scores.sum().backward()
assert all(len(loop.signatures) == 1 and not loop.own.stats.cache_misses for loop in loops), "it was compiled here"
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
