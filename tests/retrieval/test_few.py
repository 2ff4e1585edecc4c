"""Exact search in NumPy: the answers of the compiled loops."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from visir.jit import FEW, CompiledLoop, compiling, pays
from visir.records import (
    Embeddings,
    EncoderCard,
    Modality,
    MultiVectorEmbeddings,
    Qrels,
    SparseEmbeddings,
    Ties,
    Vocabulary,
)
from visir.retrieval import few, kernels, scan
from visir.retrieval.exact import search_both
from visir.retrieval.kinds import build_index
from visir.retrieval.multi_vector import scan as token_scan
from visir.retrieval.sparse import inverted
from visir.retrieval.sparse import scan as sparse_scan


def test_lengths_and_quotients_are_those_of_the_loops() -> None:
    vectors = np.random.default_rng(0).normal(size=(20_000, 37)).astype(np.float32)
    own, compiled = np.empty(len(vectors)), np.empty(len(vectors))
    few.lengths(vectors, own)
    kernels.lengths(vectors, compiled)
    np.testing.assert_allclose(own, compiled, rtol=1e-14)
    other = vectors.copy()
    few.divide_rows(vectors, compiled)
    kernels.divide_rows(other, compiled)
    np.testing.assert_array_equal(vectors, other)


def test_equal_scores_come_in_the_order_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    Forced(monkeypatch, False)
    matrix = np.random.default_rng(1).normal(size=(9_000, 12)).astype(np.float32)
    matrix[8_999] *= 10
    matrix[[3, 40, 8_500]] = matrix[8_999]
    ids = [f"{row:05}" for row in range(9_000)]
    index = build_index(Embeddings("image", ids, matrix, EncoderCard("a", "imported")), "exact", similarity="dot")
    answers = index.search(index.select(["08999"]), 6).answer("08999")
    assert [name for name, _ in answers[:4]] == ["00003", "00040", "08500", "08999"]
    assert len({score for _, score in answers[:4]}) == 1
    assert answers[3][1] > answers[4][1] >= answers[5][1]


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_first_search_imports_no_compiler_and_answers_the_same(similarity: str) -> None:
    program = f"""
import sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from visir.records import Embeddings, EncoderCard
from visir.retrieval.kinds import build_index

card, numbers = EncoderCard("a", "own", revision="1"), np.random.default_rng(0)
ids = [f"{{row:04}}" for row in range(3_000)]
documents = Embeddings("image", ids, numbers.normal(size=(3_000, 24)).astype(np.float32), card)
queries = Embeddings("text", ids[:20], numbers.normal(size=(20, 24)).astype(np.float32), card)
index = build_index(documents, "exact", similarity="{similarity}")
first = index.search(queries, 50)
assert "numba" not in sys.modules
import numba
second = build_index(documents, "exact", similarity="{similarity}").search(queries, 50)
assert (first.indices == second.indices).all() and (first.scores == second.scores).all()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_while_a_thread_compiles_the_others_do_without() -> None:
    with compiling():
        assert pays(1, kernels.lengths)
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(pays, FEW + 1, CompiledLoop(few.lengths, frozenset())).result()


class Forced:
    """`pays` with a fixed answer, in every module that asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
        for module in (scan, token_scan, sparse_scan, inverted):
            monkeypatch.setattr(module, "pays", lambda numbers, *loops: answer)


def near_copies(rows: int, seed: int, modality: Modality, form: str) -> Any:
    """Vectors of which many are equal, or almost."""
    random = np.random.default_rng(seed)
    some = random.normal(size=(max(rows // 12, 1), 16)).astype(np.float32)
    matrix = some[random.integers(0, len(some), rows)]
    matrix[::3] += random.normal(scale=1e-6, size=matrix[::3].shape).astype(np.float32)
    ids, card = [f"{modality[0]}{row:05}" for row in range(rows)], EncoderCard("a", "imported")
    if form == "dense":
        return Embeddings(modality, ids, matrix, card)
    if form == "sparse":
        words = Vocabulary("w", pa.array([f"w{n}" for n in range(16)]), np.ones(16, np.bool_))
        return SparseEmbeddings.from_scipy(modality, ids, csr_array(np.maximum(matrix, 0)), words, card)
    counts = random.integers(1, 5, rows)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    tokens = np.repeat(matrix, counts, axis=0) * random.choice([1, -1], (offsets[-1], 1)).astype(np.float32)
    return MultiVectorEmbeddings(modality, pa.array(ids), offsets, tokens, card)


@pytest.mark.parametrize("form", ["dense", "sparse", "multi-vector"])
@pytest.mark.parametrize("ties", ["id", "pessimistic", "optimistic", "trec"])
def test_without_the_loops_answers_and_ranks_are_the_same(
    ties: Ties, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 300
    images, texts = near_copies(rows, 1, "image", form), near_copies(rows // 2, 2, "text", form)
    owners = np.random.default_rng(3).integers(0, rows, (rows // 2, 2))
    pairs = sorted({(f"t{t:05}", f"i{i:05}") for t, both in enumerate(owners) for i in both})
    judged = {
        "t2i": Qrels.of(*zip(*pairs, strict=True)),
        "i2t": Qrels.of(*zip(*[pair[::-1] for pair in pairs], strict=True)),
    }
    for depth in (1, 7, 30):
        results = []
        for answer in (True, False):
            Forced(monkeypatch, answer)
            results.append(search_both(images, texts, qrels=judged, depth=depth, ties=ties))
        for task in judged:
            first, second = results[0][task], results[1][task]
            np.testing.assert_array_equal(first.run.indices, second.run.indices)
            np.testing.assert_array_equal(first.run.scores, second.run.scores)
            assert first.ranks is not None and second.ranks is not None
            np.testing.assert_array_equal(first.ranks.ranks, second.ranks.ranks)


@pytest.mark.parametrize(
    ("form", "kind", "options"),
    [
        ("dense", "exact", {}),
        ("dense", "hnsw", {"ef_search": 40}),
        ("dense", "ivf", {"rescore": 20}),
        ("sparse", "inverted", {}),
        ("multi-vector", "maxsim", {}),
        ("multi-vector", "maxsim-ivf", {"candidates": 30}),
    ],
)
def test_without_the_loops_every_kind_answers_the_same(
    form: str, kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, queries = near_copies(600, 4, "image", form), near_copies(40, 5, "text", form)
    runs = []
    for answer in (True, False):
        Forced(monkeypatch, answer)
        index = build_index(documents.select(documents.ids[:400]), kind)
        index.add(documents.select(documents.ids[400:]))
        index.delete(documents.ids[10:60])
        runs.append([index.search(queries, k, **options) for k in (1, 10, 100)])
        runs[-1].append(index.search(queries.select(["t00003"]), 10))
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first.offsets, second.offsets)
        np.testing.assert_array_equal(first.indices, second.indices)
        np.testing.assert_array_equal(first.scores, second.scores)


def test_two_stages_and_a_budget_without_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    documents, queries = near_copies(600, 4, "image", "sparse"), near_copies(40, 5, "text", "sparse")
    index = build_index(documents, "inverted")
    Forced(monkeypatch, True)
    exact, staged = index.search(queries, 10), index.search(queries, 10, first=queries)
    Forced(monkeypatch, False)
    again = index.search(queries, 10, first=queries)
    within = index.search(queries, 10, budget=50)
    np.testing.assert_array_equal(staged.indices, again.indices)
    np.testing.assert_array_equal(exact.indices, within.indices)  # NumPy reads all postings


LOOPS = ["retrieval.kernels", "retrieval.sparse.kernels", "retrieval.sparse.scan_kernels"]
LOOPS.append("retrieval.multi_vector.kernels")


def test_searches_call_loops_with_the_types_of_the_rehearsal_alone() -> None:
    """Another type would be compiled while somebody waits."""
    program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import importlib, tempfile
import numpy as np
from visir import jit
from visir.records import Qrels
from visir.retrieval.exact import search_both
from visir.retrieval.kinds import build_index, open_index
from test_few import LOOPS, near_copies

def types():
    found = {{name: loop.own.signatures for name, loop in jit._loops.items() if hasattr(loop.own, "signatures")}}
    return {{(name, str(one)) for name, some in found.items() for one in some if not name.split(".")[-1][0] == "_"}}

jit._compilers.add(__import__("threading").get_ident())
for name in LOOPS:
    importlib.import_module(f"visir.{{name}}").rehearse()
before = types()
kinds = [("dense", "exact", {{}}), ("dense", "hnsw", {{}}), ("dense", "ivf", {{}}), ("sparse", "inverted", {{}}),
         ("multi-vector", "maxsim", {{}}), ("multi-vector", "maxsim-ivf", {{"candidates": 40}})]
for form, kind, options in kinds:
    documents, queries = near_copies(300, 1, "image", form), near_copies(20, 2, "text", form)
    for folder in (None, tempfile.mkdtemp() + "/index"):
        index = build_index(documents.select(documents.ids[:200]), kind, folder, **options)
        index.add(documents.select(documents.ids[200:]))
        index.delete(documents.ids[:5])
        index = index if folder is None else open_index(folder)
        index.search(queries, 10)
        index.search(queries.select(["t00003"]), 10)
        index.documents()
    pairs = queries.ids.to_pylist(), documents.ids.to_pylist()[: len(queries)]
    search_both(documents, queries, qrels={{"t2i": Qrels.of(*pairs), "i2t": Qrels.of(*pairs[::-1])}})
assert types() == before, sorted(types() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_on_a_new_machine_no_search_waits_for_the_compiler(tmp_path: Path) -> None:
    program = """
import sys, time
import numpy as np
from visir import jit
from visir.retrieval.kinds import build_index
import pyarrow as pa
from scipy.sparse import random as drawn
from visir.records import EncoderCard, SparseEmbeddings, Vocabulary

words = Vocabulary("w", pa.array([f"w{n}" for n in range(2_000)]), np.ones(2_000, np.bool_))
def made(side, n):
    matrix = drawn(n, 2_000, 0.02, format="csr", dtype=np.float32, random_state=n)
    ids, card = [f"{row:06}" for row in range(n)], EncoderCard("a", "imported")
    return SparseEmbeddings.from_scipy(side, ids, matrix, words, card)
index, queries = build_index(made("image", 20_000), "inverted"), made("text", 30)
jit.FEW = 1000  # what is much work on a new machine
before = time.process_time()
runs = [index.search(queries, 10) for _ in range(2)]
loop = jit._loops["visir.retrieval.sparse.kernels.answer"]
assert not loop.signatures, "the search waited for the compiler"
assert jit._rehearsed, "no thread compiles"
for thread in jit._rehearsed.values():
    thread.join()
assert loop.is_kept() and not loop.signatures, "another process compiled it"
runs.append(index.search(queries, 10))
assert loop.signatures
assert all((run.indices == runs[0].indices).all() and (run.scores == runs[0].scores).all() for run in runs)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def test_what_compiles_takes_no_code_from_the_working_folder(tmp_path: Path) -> None:
    """A folder of somebody's photos may hold a `numba.py`, or a `visir` folder; it is no place of code."""
    for name in ("numba.py", "visir.py", "scipy.py"):
        (tmp_path / name).write_text("open('ran', 'w').close()")
    program = """
import importlib, sys
from visir import jit
jit._compile_meanwhile(next(loop for name, loop in jit._loops.items() if name.startswith("visir.retrieval.kernels.")))
"""
    program = program.replace("from visir import jit", "from visir import jit; import visir.retrieval.kernels")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_search_of_few_vectors_waits_for_no_thread_that_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("other threads are used")

    monkeypatch.setattr(scan, "spread", refuse)
    monkeypatch.setattr(scan, "pays", lambda numbers, *loops: False)
    card, rows = EncoderCard("a", "own", revision="1"), np.eye(3, dtype=np.float32)
    side = scan.Side(Embeddings("image", ["0", "1", "2"], 2 * rows, card), np.arange(3), "cosine")
    np.testing.assert_array_equal(side.block(0, 3), rows)


_FORKED_WHILE_LLVM_WORKS = """
import os, threading, time
import llvmlite.binding.ffi as ffi
from visir.retrieval import kernels

loop = kernels.lengths  # numba's function takes its place
loop.compiled
inside = threading.Event()

def work():
    with ffi.lib._lock:
        inside.set()
        time.sleep(0.5)

threading.Thread(target=work).start()
inside.wait()
if os.fork() == 0:
    loop.is_kept()  # asks LLVM
    os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_while_another_thread_compiles_is_no_prisoner() -> None:
    done = subprocess.run([sys.executable, "-c", _FORKED_WHILE_LLVM_WORKS], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "7", done.stderr
