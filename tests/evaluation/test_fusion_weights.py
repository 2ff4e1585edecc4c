"""The weights of a fusion, chosen by a measure on validation queries."""

from __future__ import annotations

import pytest

from refusals import refused
from visir.errors import ConfigurationError
from visir.evaluation.measures import aggregate, measure
from visir.evaluation.text_weight import choose_fusion_weights
from visir.records import Gallery, Qrels, Run
from visir.retrieval.fusion import fuse
from visir.retrieval.ranks import ranks_of

GALLERY = Gallery.of("text", ["a", "b", "c"])


def run(name: str, scores: list[float]) -> Run:
    return Run.ranked(name, "t2t", ["q"] * 3 + ["r"] * 3, ["a", "b", "c"] * 2, scores, GALLERY)


RUNS = {"words": run("words", [3, 2, 1, 3, 2, 1]), "dense": run("dense", [0.1, 0.9, 0.2, 0.1, 0.2, 0.9])}


def test_the_best_weight_is_that_of_the_measure() -> None:
    qrels = Qrels.of(["q", "r"], ["b", "a"])  # dense is right for q, words for r
    chosen = choose_fusion_weights(RUNS, qrels, measure="mrr")
    values = {}
    for weight, value in chosen.values.items():
        fused = fuse(RUNS, fusion="weighted", weights={"words": weight, "dense": 1 - weight})
        values[weight] = aggregate(measure(ranks_of(fused, qrels), ["mrr"]))["mrr"]
        assert value == values[weight]
    assert values[chosen.weights["words"]] == max(values.values()) > values[0.0] and len(values) == 21
    assert chosen.weights["dense"] == 1 - chosen.weights["words"] and chosen.measure == "mrr"


def test_of_equal_weights_the_middle_one_is_chosen() -> None:
    same = {"a": RUNS["words"], "b": RUNS["words"]}
    assert choose_fusion_weights(same, Qrels.of(["q"], ["a"])).weights == {"a": 0.5, "b": 0.5}


def test_faults() -> None:
    with pytest.raises(ConfigurationError) as failure:
        choose_fusion_weights({"words": RUNS["words"]}, Qrels.of(["q"], ["a"]), weights=[2.0])
    assert "two runs" in str(failure.value) and "2.0" in str(failure.value)
    with refused(ConfigurationError, "ndgc"):
        choose_fusion_weights(RUNS, Qrels.of(["q"], ["a"]), measure="ndgc@10")
