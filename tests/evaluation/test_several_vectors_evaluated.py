"""Evaluation of several vectors for each item: against a slow MaxSim, and in every form in which vectors are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import visir
from patch_toys import Patches, slow_maxsim
from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError
from visir.evaluation import evaluate
from visir.evaluation.systems import system_of
from visir.evaluation.systems.given import vectors_by_side
from visir.records import Collection, Embeddings, EncoderCard, MultiVectorEmbeddings, Pools, strings

CARD = EncoderCard("mine", "vectors")


@pytest.fixture(scope="module")
def toy() -> tuple[Collection, MultiVectorEmbeddings, MultiVectorEmbeddings]:
    """40 images with three captions each, of 1 to 6 random vectors; a caption is near a part of its image."""
    draw = np.random.default_rng(5)
    ids = [f"i{n:02}" for n in range(40)]
    captions = [f"{name}#{n}" for name in ids for n in range(3)]
    collection = Collection.build(
        "toy",
        images={"id": ids, "split": ["train"] * 20 + ["test"] * 20},
        captions={"id": captions, "text": captions, "image_id": [name for name in ids for _ in range(3)]},
    )
    images = [draw.standard_normal((draw.integers(1, 7), 4)) for _ in ids]
    texts = [
        part[draw.integers(0, len(part), draw.integers(1, 5))] + draw.standard_normal(4) * 0.6
        for part in images
        for _ in range(3)
    ]
    return (
        collection,
        MultiVectorEmbeddings.of(ids, [part.astype(np.float16) for part in images], name="mine"),
        MultiVectorEmbeddings.of(captions, [part.astype(np.float16) for part in texts], modality="text", name="mine"),
    )


def slow_ranks(queries: Any, documents: Any, positives: dict[str, list[str]]) -> dict[str, list[int]]:
    ranks = {}
    for query, scores in slow_maxsim(queries, documents).items():
        order = sorted(scores, key=lambda document: (-np.float32(scores[document]), document))
        ranks[query] = sorted(order.index(document) + 1 for document in positives[query])
    return ranks


def test_measures_are_those_of_a_slow_reference(toy: Any) -> None:
    collection, images, texts = toy
    evaluation = evaluate(collection, (images, texts), measures=["R@1", "R@5", "MRR", "mean_rank"])
    owner = dict(zip(collection.captions["id"].to_pylist(), collection.captions["image_id"].to_pylist(), strict=True))
    captions_of: dict[str, list[str]] = {}
    for caption, image in owner.items():
        captions_of.setdefault(image, []).append(caption)
    for task, ranks in (
        ("t2i", slow_ranks(texts, images, {caption: [image] for caption, image in owner.items()})),
        ("i2t", slow_ranks(images, texts, captions_of)),
    ):
        first = np.array([of_query[0] for of_query in ranks.values()])
        assert evaluation[f"{task} R@1"] == pytest.approx((first == 1).mean(), abs=1e-12)
        assert evaluation[f"{task} R@5"] == pytest.approx((first <= 5).mean(), abs=1e-12)
        assert evaluation[f"{task} MRR"] == pytest.approx((1 / first).mean(), abs=1e-12)
    run = evaluation.runs["t2i"]
    scores = slow_maxsim(texts, images)
    assert all(
        score == pytest.approx(scores[query][document], abs=2e-6)
        for query in ("i00#0", "i33#2")
        for document, score in run.answer(query)
    )


def test_the_protocol_says_how_vectors_are_compared_and_how_many_there_are(toy: Any) -> None:
    collection, images, texts = toy
    evaluation = evaluate(collection, (images, texts))
    protocol = evaluation.result.protocol
    assert protocol.similarity == "maxsim"
    each = [f"{len(side.vectors) / len(side):,.1f}" for side in (images, texts)]
    assert protocol.vectors_per_item == f"image {each[0]}, text {each[1]} · 4 dimensions, float16"
    assert ("vectors per item", protocol.vectors_per_item) in protocol.card()
    dense = evaluate(collection, _dense(collection))
    assert dense.result.protocol.vectors_per_item == ""
    compared = visir.compare(evaluation, dense)  # a model of late interaction beside one of single vectors
    assert not protocol.differences(dense.result.protocol)
    assert "vectors_per_item" in protocol.system_differences(dense.result.protocol)
    assert "own vectors: significantly worse in 12 of 12 measures" in repr(compared)


def _dense(collection: Collection) -> Any:
    draw = np.random.default_rng(1)
    sides = {"image": collection.images["id"], "text": collection.captions["id"]}
    return {
        side: Embeddings.of(ids.to_pylist(), draw.standard_normal((len(ids), 3)), modality=side)  # type: ignore[arg-type]
        for side, ids in sides.items()
    }


FORMS = {
    "records": lambda vectors: vectors,
    "dictionary of arrays": lambda vectors: {name: vectors[name] for name in vectors},
    "dictionary of lists": lambda vectors: {name: vectors[name].tolist() for name in vectors},
    "ids and list": lambda vectors: (vectors.ids.to_pylist(), [vectors[name] for name in vectors]),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_own_vectors_are_taken_in_every_form(toy: Any, form: Any) -> None:
    collection, images, texts = toy
    whole = evaluate(collection, (images, texts), split="test")
    own = visir.evaluate(collection, vectors={"image": form(images), "text": form(texts)}, split="test")
    assert own["rsum"] == whole["rsum"]
    roles = visir.evaluate(collection, vectors={"query": form(texts), "document": form(images)}, split="test",
                           tasks="t2i")  # fmt: skip
    assert roles["t2i R@1"] == whole["t2i R@1"]


def test_an_array_with_three_axes_and_texts_in_place_of_ids() -> None:
    collection = Collection.build("two", images={"id": ["a", "b"]}, captions={
        "id": ["1", "2"], "text": ["red", "blue"], "image_id": ["a", "b"]})  # fmt: skip
    images = np.array([[[1, 0], [0, 0]], [[0, 1], [0, 0]]], float)
    own = visir.evaluate(
        collection, vectors={"image": (["a", "b"], images), "text": {"red": [[1, 0]], "blue": [[0, 1], [0, 1]]}}
    )
    assert own["rsum"] == 600
    assert own.runs["t2i"].answer("2") == [("b", 2.0), ("a", 0.0)]
    by_text = Patches(weights=None)
    texts = visir.encode(by_text, ["red", "blue"])
    sides = vectors_by_side({"image": (["a", "b"], np.ones((2, 3, 3))), "text": texts}, [
        collection.task(name) for name in collection.tasks])  # fmt: skip
    assert sides["text"].ids.to_pylist() == ["1", "2"] and sides["text"]["2"].tolist() == [[0, 0, 1]]  # type: ignore[index]


def test_encoders_are_evaluated_and_what_is_kept_is_found() -> None:
    scenes = visir.open("scenes:12?size=64")
    first = visir.evaluate(scenes, Patches())
    model = Patches()
    again = visir.evaluate(scenes, model)
    assert model.seen == [] and again["rsum"] == first["rsum"]
    given = (visir.encode(model, scenes, "image"), visir.encode(model, scenes, "text"))
    assert visir.evaluate(scenes, given)["rsum"] == first["rsum"]
    wrapped = visir.Encoder.wrap("w", image=model.embed_images, text=model.embed_texts, form="multi-vector")
    assert visir.evaluate(scenes, wrapped)["rsum"] == first["rsum"]


def test_pools_folds_and_stress() -> None:
    scenes = visir.open("scenes:12?size=64")
    folded = visir.evaluate(scenes, Patches(), folds=2)
    assert folded.result.protocol.folds == 2
    task = scenes.task("t2i")
    queries = task.queries.ids.to_pylist()
    ids = task.documents.ids.to_pylist()
    own = dict(zip(scenes.captions["id"].to_pylist(), scenes.captions["image_id"].to_pylist(), strict=True))
    pools = {query: sorted({own[query], *ids[:3]}) for query in queries}
    pairs = [list(side) for side in zip(*((query, name) for query in pools for name in pools[query]), strict=True)]
    choice = visir.records.Task("choice", task.queries, task.documents, task.qrels, pools=Pools.of(*pairs))
    measured = visir.evaluate(choice, Patches(), measures=["R@1"])
    images, texts = (visir.encode(Patches(), scenes, side) for side in ("image", "text"))  # type: ignore[arg-type]
    scores = slow_maxsim(texts, images)  # type: ignore[arg-type]
    best = [min(pools[query], key=lambda name: (-np.float32(scores[query][name]), name)) for query in queries]
    right = np.mean([name == own[query] for query, name in zip(queries, best, strict=True)])
    assert measured["choice R@1"] == pytest.approx(right, abs=1e-12)
    stressed = visir.stress(scenes, Patches(), perturbations=["shuffle_all_words", "char_swap"])
    assert "unperturbed rsum" in repr(stressed)


def test_equal_vectors_are_noted(toy: Any) -> None:
    collection, images, texts = toy
    equal = MultiVectorEmbeddings.of(images.ids, np.ones((40, 2, 4)), name="mine")
    notes = evaluate(collection, (equal, texts)).result.notes
    assert any(note.startswith("all 40 image vectors are equal") for note in notes)
    assert not any("are equal" in note for note in evaluate(collection, (images, texts)).result.notes)


def test_what_does_not_fit_is_named(toy: Any) -> None:
    collection, images, texts = toy
    with refused(EmbeddingError, "multi-vector", "dense", code="not-of-one-space"):
        evaluate(collection, (images, _dense(collection)["text"]))
    with refused(ConfigurationError, "4", "2", code="configuration-not-one-space"):
        evaluate(collection, (images, MultiVectorEmbeddings.of(texts.ids, np.ones((120, 1, 2)), modality="text")))
    with refused(EmbeddingError, "cosine", code="multi-vectors-scored-maxsim"):
        evaluate(collection, (images, texts), similarity="cosine")
    with refused(ConfigurationError, "mine", code="dcg-cm-takes-cosines") as caught:
        evaluate(collection, (images, texts), measures=["dcg_cm@10"], estimator="self")
    assert "one vector for each item as the estimator" in caught.value.hint
    with pytest.raises(EmbeddingError, match=r"item 0 is no \(t, d\) matrix"):
        visir.evaluate(collection, vectors={"image": (["a"], [np.ones((0, 2))]), "text": {"b": np.ones((1, 2))}})
    assert system_of((images, texts)).fields()["similarity"] == "maxsim"
    assert strings(images.ids) == images.ids
