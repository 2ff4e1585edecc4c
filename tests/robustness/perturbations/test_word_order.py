"""Shuffles: what moves, what stays, and that another order is words_at whenever there is one."""

from __future__ import annotations

from itertools import permutations

import pytest
from outcomes import one, outcomes

from visir.robustness.perturbations.order import trigrams, with_words, words_at, written_words

SHUFFLES = ("shuffle_all_words", "shuffle_within_trigrams", "shuffle_trigrams")


def words(text: str) -> list[str]:
    return words_at(text, written_words(text))


def test_written_words_hold_together() -> None:
    assert words('A man\'s t-shirt, (red/white) costs $3,000 ... e.g. "now"!') == [
        *("A", "man's", "t-shirt", "red/white", "costs", "3,000", "e.g", "now"),
    ]
    assert words(" -- _ ?") == []
    assert words("Cafe\u0301, cre\u0300me") == ["Cafe\u0301", "cre\u0300me"]  # accents of their own go with the word


def test_laid_keeps_what_is_between() -> None:
    text = "(A dog,  a cat)."
    assert with_words(text, written_words(text), ["x", "yy", "z", ""]) == "(x yy,  z )."


def test_all_words_take_every_order_but_their_own() -> None:
    assert outcomes("shuffle_all_words", "A b, c.") == {
        f"{a} {b}, {c}." for a, b, c in permutations(["A", "b", "c"])
    } - {"A b, c."}
    assert outcomes("shuffle_all_words", "no, no no!") == {"no, no no!"}
    assert outcomes("shuffle_all_words", "No, no!") == {"no, No!"}
    assert outcomes("shuffle_all_words", "alone") == {"alone"}


def test_trigrams_stay_whole() -> None:
    # [a b c] [d e f] [g]: six orders of the three groups less their own.
    groups = ["a b c", "d e f", "g"]
    assert outcomes("shuffle_trigrams", "a b c d e f g") == {" ".join(p) for p in permutations(groups)} - {
        "a b c d e f g"
    }
    assert outcomes("shuffle_trigrams", "a b c") == {"a b c"}  # one group has one order
    assert outcomes("shuffle_trigrams", "la la la la") == {"la la la la"}  # [la la la] [la]: any order reads the same
    assert outcomes("shuffle_trigrams", "a a a a a b") == {"a a b a a a"}


def test_within_trigrams_each_group_differs_if_it_can() -> None:
    found = outcomes("shuffle_within_trigrams", "a b c d d d e")
    assert found == {f"{' '.join(p)} d d d e" for p in permutations("abc")} - {"a b c d d d e"}


def test_nouns_go_to_nouns_and_adjectives_to_adjectives() -> None:
    text = "A red hat, and the blue dog's tail."
    found = outcomes("shuffle_nouns_and_adj", text)
    # Nouns: hat, dog's, tail (5 other orders). Adjectives: red, blue (1 other).
    nouns = [p for p in permutations(["hat", "dog's", "tail"]) if p != ("hat", "dog's", "tail")]
    assert found == {f"A blue {a}, and the red {b} {c}." for a, b, c in nouns}


def test_the_rest_is_shuffled_around_nouns_and_adjectives() -> None:
    found = outcomes("shuffle_allbut_nouns_and_adj", "A red hat, and the dog.")
    rest = [p for p in permutations(["A", "and", "the"]) if p != ("A", "and", "the")]
    assert found == {f"{a} red hat, {b} {c} dog." for a, b, c in rest}
    assert outcomes("shuffle_allbut_nouns_and_adj", "Red hats.") == {"Red hats."}


@pytest.mark.parametrize("name", SHUFFLES)
def test_released_shuffles_may_return_the_original_order(name: str) -> None:
    assert one(name, "alone") == "alone"


def test_trigrams_of_a_list() -> None:
    assert trigrams([1, 2, 3, 4, 5, 6, 7]) == [[1, 2, 3], [4, 5, 6], [7]]
    assert trigrams([]) == []
