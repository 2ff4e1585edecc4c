"""Synonyms: which word, by which other, in which form."""

from __future__ import annotations

import pytest
from outcomes import one, outcomes

from visir.robustness.perturbations.synonyms import any_synonym, synonym


@pytest.mark.parametrize(
    ("lemma", "pos", "other"),
    [
        ("dog", "n", "domestic_dog"),  # first sense: dog, domestic_dog, Canis_familiaris
        ("rock", "n", "stone"),
        ("large", "a", "big"),
        ("jersey", "n", "tee_shirt"),  # its first sense in small letters: not New_Jersey, and not T-shirt
        ("grass", "n", None),  # its first sense has one word; the second is Günter Grass
        ("white", "a", None),  # "snowy" is a later sense
        ("zebrafinch", "n", None),
    ],
)
def test_the_first_other_word_of_the_first_sense(lemma: str, pos: str, other: str | None) -> None:
    assert synonym(lemma, pos) == other  # type: ignore[arg-type]


def test_form_and_capitals_are_those_of_the_word_replaced() -> None:
    assert outcomes("synonym_noun", "Rocks!") == {"Stones!"}
    assert outcomes("synonym_adj", "The larger t-shirt, 2 of them.") == {"The bigger t-shirt, 2 of them."}


def test_one_of_them_is_drawn_and_severity_takes_more() -> None:
    text = "A small car and a large rock."
    assert outcomes("synonym_adj", text) == {"A little car and a large rock.", "A small car and a big rock."}
    assert outcomes("synonym_adj", text, severity=2) == {"A little car and a big rock."}
    assert outcomes("synonym_adj", text, severity=9) == {"A little car and a big rock."}


def test_what_has_none_stays() -> None:
    assert outcomes("synonym_adj", "A man runs.") == {"A man runs."}
    assert outcomes("synonym_noun", "Grass, and grass.") == {"Grass, and grass."}


def test_paper() -> None:
    # As in the authors' logs: tokens joined by spaces, the first adjective, any sense of any part of speech.
    assert one("synonym_adj", "A man in a black hat and jacket is riding his bicycle.") == (
        "A man in a blackness hat and jacket is riding his bicycle ."
    )
    assert one("synonym_adj", "A man in white pants and a blue shirt is kicking a yellow boxing bag.") == (
        "A man in White person pants and a blue shirt is kicking a yellow boxing bag ."
    )
    assert any_synonym("dogs") == "dog"  # its base form counts as another word
    assert any_synonym("the") is None
