"""Lemmas in the form and the capitals of the word they stand for."""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visir.errors import MissingPackageError
from visir.robustness.language import tagged_captions
from visir.robustness.language.tagged_captions import inflect_like
from visir.robustness.language.tagset import PENN

pytest.importorskip("lemminflect")


@pytest.mark.parametrize(
    ("lemma", "example", "tag", "expected"),
    [
        ("hound", "dog", "NN1", "hound"),
        ("hound", "Dogs", "NN2", "Hounds"),
        ("hound", "DOGS", "NN2", "HOUNDS"),
        ("child", "kids", "NN2", "children"),
        ("sheep", "animals", "NN2", "sheep"),
        ("people", "men", "NN2", "people"),
        ("zorgle", "dogs", "NN2", "zorgles"),
        ("hot_dog", "franks", "NN2", "hot dogs"),
        ("man_of_letters", "writers", "NN2", "men of letters"),
        ("sunglasses", "shades", "NN2", "sunglasses"),
        ("glass", "cups", "NN2", "glasses"),
        ("large", "bigger", "AJC", "larger"),
        ("good", "nicest", "AJS", "best"),
        ("beautiful", "prettier", "AJC", "more beautiful"),
        ("red-haired", "Ruddiest", "AJS", "Most red-haired"),
        ("take_off", "leaves", "VVZ", "takes off"),
        ("run", "jogging", "VVG", "running"),
        ("run", "jogged", "VVD", "ran"),
        ("run", "jogged", "VVN", "run"),
        ("run", "jog", "VVI", "run"),
        ("Labrador", "dog", "NN1", "Labrador"),
        ("african_hunting_dog", "A", "NN1", "African hunting dog"),  # one capital is a beginning, not a shout
        ("tiny", "小さい", "AJ0", "tiny"),
        ("tiny", "", "AJ0", "tiny"),
    ],
)
def test_forms_and_capitals(lemma: str, example: str, tag: str, expected: str) -> None:
    assert inflect_like(lemma, example, tag) == expected


@given(st.text(min_size=1), st.text(), st.sampled_from(sorted(PENN)))
def test_any_text_has_a_form(lemma: str, example: str, tag: str) -> None:
    assert inflect_like(lemma, example, tag)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tagged_captions._inflected.cache_clear()
    found = importlib.util.find_spec
    monkeypatch.setattr("visir.errors.find_spec", lambda name: None if name == "lemminflect" else found(name))
    assert inflect_like("hound", "dog", "NN1") == "hound"  # nothing to inflect
    with pytest.raises(MissingPackageError) as fault:
        inflect_like("hound", "dogs", "NN2")
    assert str(fault.value) == (
        "inflecting words needs the package 'lemminflect', which is not installed.\n  → pip install 'visir[robustness]'"
    )


@pytest.mark.parametrize("lemma", ["", " ", "_", "__", "_off", "off_"])
@pytest.mark.parametrize("tag", sorted(tagged_captions._FORMS))
def test_a_lemma_of_blanks_stays_as_it_is(lemma: str, tag: str) -> None:
    form = inflect_like(lemma, "dogs", tag)
    assert form.strip() or not lemma.strip("_ ")
    if not lemma.strip("_ "):
        assert form == lemma.replace("_", " ")


@given(
    lemma=st.text(st.sampled_from("ab sz_-'’.éß中\u200b\t\n0Ie\u0301🎈"), max_size=8),
    example=st.text(max_size=4),
    tag=st.sampled_from(sorted(tagged_captions._FORMS)),
)
def test_odd_words_have_a_form(lemma: str, example: str, tag: str) -> None:
    words = len(lemma.replace("_", " ").split())
    assert len(inflect_like(lemma, example, tag).split()) in (words, words + 1), "one word more where it is periphrasis"
