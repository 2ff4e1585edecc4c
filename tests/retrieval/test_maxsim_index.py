"""Indexes of multi-vectors: recall of the approximate kind, and vectors in fewer bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from index_data import several

from manifests import seal
from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError
from visir.records import Embeddings, MultiVectorEmbeddings, Run
from visir.retrieval.exact import search
from visir.retrieval.index import IndexFolderError
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.multi_vector.compression import CompressedVectors, ResidualCodec


def clustered(n: int, queries: int, seed: int = 0) -> tuple[MultiVectorEmbeddings, MultiVectorEmbeddings]:
    """Unit vectors around topics; a query has noisy copies of some vectors of one document."""
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((200, 32))
    documents = [
        topics[rng.integers(0, 200, rng.integers(8, 17))] + 0.5 * rng.standard_normal((1, 32)) for _ in range(n)
    ]
    documents = [matrix + 0.3 * rng.standard_normal(matrix.shape) for matrix in documents]
    sources = rng.choice(n, queries)
    texts = [documents[i][rng.integers(0, len(documents[i]), 6)] + 0.3 * rng.standard_normal((6, 32)) for i in sources]
    return several("text", texts).normalise(), several("image", documents).normalise()


def recall(answers: Run, truth: Run, queries: MultiVectorEmbeddings) -> float:
    """The share of the best ten that were found."""
    shares = []
    for query in queries:
        best, right = ({document for document, _ in run.answer(query, 10)} for run in (answers, truth))
        shares.append(len(best & right) / len(right))
    return float(np.mean(shares))


def test_the_approximate_kind_finds_nearly_all_and_scores_exactly(tmp_path: Path) -> None:
    texts, images = clustered(3000, 40)
    truth = search(texts, images, depth=3000).run
    index = build_index(images, "maxsim-ivf", tmp_path / "index")
    run = index.search(texts, 10)
    assert recall(run, truth, texts) >= 0.98
    for name in texts:
        scores = dict(truth.answer(name))
        assert all(scores[document] == score for document, score in run.answer(name))
    assert recall(index.search(texts, 10, probes=1, candidates=10), truth, texts) < recall(run, truth, texts)
    every = index.search(texts, 10, candidates=3000)
    assert recall(every, truth, texts) == 1
    details = index.info().details
    assert details["centroids"] == 512 // 2 ** (details["centroids"] == 256) and details["bytes_per_vector"] == 128
    deep = index.search(texts, 2500)  # more than the lists have: answered exactly
    assert [deep.answer(name) for name in texts] == [truth.answer(name)[:2500] for name in texts]


@pytest.mark.parametrize(("bits", "least"), [(2, 0.8), (4, 0.93)])
def test_compressed_vectors_take_fewer_bytes_and_find_nearly_the_same(bits: int, least: float, tmp_path: Path) -> None:
    texts, images = clustered(1000, 30)
    truth = search(texts, images).run
    for kind in ("maxsim", "maxsim-ivf"):
        plain = build_index(images, kind)
        index = build_index(images, kind, tmp_path / kind, quantisation="residual", bits=bits)
        assert index.info().details["bytes_per_vector"] == 2 + 32 * bits // 8
        assert index.info().bytes < 0.35 * plain.info().bytes + 70_000
        run = open_index(tmp_path / kind).search(texts, 10)
        assert recall(run, truth, texts) >= least
        held = index.documents()
        assert isinstance(held.vectors, np.ndarray) and not isinstance(held.vectors, CompressedVectors)
        np.testing.assert_allclose(np.linalg.norm(held.vectors, axis=1), 1, atol=1e-6)
        exact = search(texts, held).run  # the scores are those of the vectors that it holds
        scores = {name: dict(search(texts, held, depth=1000).run.answer(name)) for name in texts}
        assert all(scores[name][document] == score for name in texts for document, score in run.answer(name))
        if kind == "maxsim":
            assert [run.answer(name) for name in texts] == [exact.answer(name, 10) for name in texts]


def test_compressed_vectors_stay_as_they_are_through_every_change(tmp_path: Path) -> None:
    _, images = clustered(300, 1)
    ids = images.ids.to_pylist()
    index = build_index(images.select(ids[:100]), "maxsim", tmp_path / "index", quantisation="residual")
    before = index.select(ids[:100])
    index.add(images.select(ids[100:250]))  # merged into one part
    index.delete(ids[:200])  # compacted
    index.add(images.select(ids[:50]))
    again = open_index(tmp_path / "index")
    np.testing.assert_array_equal(again.select(ids[:50]).vectors, before.select(ids[:50]).vectors)
    assert again.ids.to_pylist() == sorted([*ids[:50], *ids[200:250]])


def test_a_compressed_index_of_unit_vectors_refuses_other_lengths() -> None:
    """Decoded vectors get the length 1 again: others would be changed without a word."""
    _, images = clustered(60, 1)
    index = build_index(images.select(images.ids[1:]), "maxsim", quantisation="residual")
    one = np.asarray(images.vectors[:1])
    for other in (100 * one, 0 * one):
        with refused(EmbeddingError, "1 document", "i0000", code="vectors-compressed-index-length"):
            index.add(several("image", [other]))
    rows = [*images.tokens, 3 * one]
    mixed = build_index(several("image", rows), "maxsim", quantisation="residual", bits=8)
    lengths = np.linalg.norm(mixed.documents().vectors, axis=1)
    assert lengths.max() > 2.5


def test_a_changed_number_that_all_vectors_are_decoded_with_is_noticed(tmp_path: Path) -> None:
    _, images = clustered(60, 1)
    build_index(images, "maxsim", tmp_path / "index", quantisation="residual")
    for name in ("steps.npy", "centroids.npy"):
        (path,) = (tmp_path / "index").rglob(name)
        content = path.read_bytes()
        path.write_bytes(content[:-8] + b"\x00\x00\x80\x3f" + content[-4:])
        with pytest.raises(IndexFolderError, match=name):
            open_index(tmp_path / "index")
        path.write_bytes(content)
    assert open_index(tmp_path / "index").ids.to_pylist() == images.ids.to_pylist()


def test_half_precision_takes_half() -> None:
    texts, images = clustered(50, 3)
    index = build_index(images, "maxsim", quantisation="float16")
    assert index.info().details["bytes_per_vector"] == 64
    half = several("image", [matrix.astype(np.float16) for matrix in images.tokens])
    answers = search(texts, half).run
    assert [index.search(texts).answer(name) for name in texts] == [answers.answer(name, 10) for name in texts]
    with refused(EmbeddingError, "i0000", code="nan-infinite-values"):
        build_index(several("image", [np.full((1, 2), 1e6)]), "maxsim", quantisation="float16")


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8])
def test_codes_mean_the_nearest_step(bits: int) -> None:
    """Slow and plain: centroid by centroid, number by number."""
    rng = np.random.default_rng(bits)
    vectors = rng.standard_normal((400, 7)).astype(np.float32)
    codec = ResidualCodec.trained(vectors, bits)
    packed = codec.encode(vectors)
    distances = ((vectors[:, None] - codec.centroids) ** 2).sum(axis=2)
    nearest = codec.centroids[distances.argmin(axis=1)]
    steps = np.abs((vectors - nearest)[..., None] - codec.steps).argmin(axis=2)
    np.testing.assert_allclose(np.asarray(packed), nearest + codec.steps[steps], atol=1e-5)
    assert packed.codes.shape[1] == codec.width == 2 + -(-7 // (8 // bits)) and not codec.unit
    np.testing.assert_array_equal(np.asarray(packed[np.array([5, 3])]), np.asarray(packed)[[5, 3]])


def test_an_index_takes_only_vectors_of_its_form() -> None:
    """Even of one name and one dimension: the rows of a matrix of several vectors are no items."""
    several_each = MultiVectorEmbeddings.of({"a": np.ones((2, 3)), "b": np.eye(3)}, modality="image", name="one")
    one_each = Embeddings.of({"c": [1, 2, 3]}, modality="image", name="one")
    for held, other, words in (
        (several_each, one_each, "are one vector for each item; the index, by one, holds several vectors for each"),
        (one_each, several_each, "are several vectors for each item; the index, by one, holds one vector for each"),
    ):
        index = build_index(held)
        for use in (index.search, index.add):
            with pytest.raises(EmbeddingError, match=words):
                use(other)


def test_faults_are_named(tmp_path: Path) -> None:
    texts, images = clustered(60, 2)
    with refused(ConfigurationError, "quantisation", "float16", "not", "int8", hint=False):
        build_index(images, "maxsim", quantisation="int8")
    with pytest.raises(ConfigurationError, match="bits: a whole number from 1 up to 8, not 9"):
        build_index(images, "maxsim", bits=9)
    with pytest.raises(ConfigurationError, match="quantisation: is fixed when the index is built"):
        build_index(images, "maxsim").search(texts, quantisation="none")
    with refused(ConfigurationError, "dense", "test", "multi-vector", code="index-kind-holds-vectors") as fault:
        build_index(images, "exact")
    assert "maxsim, maxsim-ivf" in str(fault.value)
    folder = tmp_path / "index"
    build_index(images, "maxsim", folder, quantisation="residual")
    codes = next(folder.glob("part-*/codes.npy"))
    numbers = np.load(codes)
    numbers[3, :2] = 255
    np.save(codes, numbers)
    seal(folder)
    with pytest.raises(IndexFolderError, match="a compressed vector names a centroid that is not there"):
        open_index(folder)


def test_a_device_gives_the_same_answers() -> None:
    texts, images = clustered(200, 5)
    for kind in ("maxsim", "maxsim-ivf"):
        index = build_index(images, kind)
        plain, other = index.search(texts, 10), index.search(texts, 10, device="cpu")
        assert [plain.answer(name) for name in texts] == [other.answer(name) for name in texts]
    assert build_index(images).kind == "maxsim"
