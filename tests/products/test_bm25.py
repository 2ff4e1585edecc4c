"""BM25 over titles: by hand, and its edges."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from visir.errors import ConfigurationError
from visir.products.systems import TitleBm25
from visir.products.task import CategoryTask, Split, category_task
from visir.records import Catalogue
from visir.retrieval.bm25 import Bm25, singular
from visir.retrieval.exact import SearchResult

EVERYTHING = Split(np.zeros(4, bool), np.zeros(4, bool), np.ones(4, bool), "all of it")


def catalogue(titles: list[str | None]) -> Catalogue:
    paths = [["Clothes", "Skirts"], ["Clothes", "Skirts"], ["Toys", "Trains"], ["Toys", "Trains"]]
    return Catalogue.of("small", ids=["a", "b", "c", "d"], paths=paths, titles=titles)


def search(task: CategoryTask, depth: int = 10, bm25: Bm25 | None = None) -> SearchResult:
    (result,) = TitleBm25(bm25).search([task], depth=depth, ties="id")
    return result


@pytest.mark.parametrize(
    ("plural", "one"),
    [
        *(("watches", "watch"), ("dresses", "dress"), ("boxes", "box"), ("brushes", "brush"), ("shoes", "shoe")),
        *(("batteries", "battery"), ("movies", "movy"), ("skirts", "skirt"), ("dress", "dress"), ("lotus", "lotus")),
    ],
)
def test_plurals(plural: str, one: str) -> None:
    assert singular(plural) == one


def test_scores_by_hand() -> None:
    task = category_task(catalogue(["red skirt", "long blue skirt", "a train", None]), EVERYTHING, "specific")
    found = search(task, 10, Bm25(k1=1.5, b=0.75))
    assert found.run.queries.to_pylist() == ["Clothes > Skirts", "Toys > Trains"]
    # Lengths 2, 3, 1 ("a" is a stop word), 0: mean 1.5. "skirt" is in 2 of 4 titles: idf = ln(1 + (4-2+.5)/(2+.5)).
    idf = log(1 + 2.5 / 2.5)
    wanted = [idf / (1 + 1.5 * (0.25 + 0.75 * length / 1.5)) for length in (2, 3)]
    answer = found.run.answer("Clothes > Skirts")
    assert [one for one, _ in answer] == ["a", "b"]
    np.testing.assert_allclose([score for _, score in answer], wanted, rtol=1e-5)
    # d has no title: it is relevant to Trains, a candidate, and not found (0, after those that are).
    assert found.run.answer("Toys > Trains")[0][0] == "c" and len(found.run.answer("Toys > Trains")) == 1
    assert found.ranks is not None
    assert found.ranks.ranks.tolist() == [1, 2, 1, 0] and found.ranks.gallery_size == 4


def test_without_stemming_a_plural_finds_nothing() -> None:
    task = category_task(catalogue(["red skirt", "blue skirt", "train", "trains"]), EVERYTHING, "specific")
    run = search(task, 10, Bm25(stemming="none")).run
    assert run.answer("Clothes > Skirts") == []
    assert [one for one, _ in run.answer("Toys > Trains")] == ["d"]


def test_ties_are_broken_by_id_and_the_run_is_cut() -> None:
    task = category_task(catalogue(["train", "train", "train", "train"]), EVERYTHING, "specific")
    found = search(task, 2)
    assert [one for one, _ in found.run.answer("Toys > Trains")] == ["a", "b"]
    assert found.ranks is not None
    assert found.ranks.ranks.tolist() == [0, 0, 3, 4]  # cut runs, whole ranks


@pytest.mark.parametrize("titles", [[None] * 4, ["", "of the", "a", "in"]])
def test_titles_without_words(titles: list[str | None]) -> None:
    found = search(category_task(catalogue(titles), EVERYTHING, "general"))
    assert found.ranks is not None and not found.ranks.ranks.any() and len(found.run.indices) == 0


def test_refuses_all_faulty_options_at_once() -> None:
    with pytest.raises(ConfigurationError) as told:
        Bm25(k1=-1, b=2, stop_words="englsh", stemming="porter")  # type: ignore[arg-type]
    assert "4 faults" in told.value.message and "did you mean 'english'" in told.value.message
