"""Every feature on captions whose counts are worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tagged import tagged

from visir.robustness.granularity.features import FEATURES, TokenColumns, all_senses
from visir.robustness.language.wordnet import wordnet


def counts(feature: str, *captions: str) -> tuple[list[float], list[float]]:
    tokens = TokenColumns(tagged(*captions))
    one = FEATURES.get(feature)
    return one.paper(tokens).tolist(), one.strict(tokens).tolist()


def test_adjectives() -> None:
    assert counts("adjectives", "a/AT0 big/AJ0 red/AJ0 dog/NN1", "a/AT0 bigger/AJC dog/NN1", "dogs/NN2") == (
        [2, 0, 0],  # the plain form only
        [2, 1, 0],
    )


def test_articles() -> None:
    captions = (
        "A/AT0 man/NN1 and/CJC the/AT0 dog/NN1",  # two either way
        "some/DT0 men/NN2 each/DT0 with/PRP no/AT0 dog/NN1",  # some, each, no: determiners, none of them an article
        "several/DT0 men/NN2 with/PRP vitamin/NN1 A/ZZ0",  # Penn's scheme has "several" as an adjective; A is a letter
    )
    assert counts("articles", *captions) == ([2, 3, 0], [2, 0, 0])


@pytest.mark.parametrize(
    ("caption", "paper", "strict"),
    [
        ("two/CRD dogs/NN2", 1, 1),
        ("some/DT0 dogs/NN2 each/DT0 with/PRP no/AT0 bone/NN1", 0, 3),
        ("a/AT0 dog/NN1 that/PNQ is/VBZ all/AV0 wet/AJ0", 0, 0),  # an adverb here
        ("a/AT0 few/AV0 dogs/NN2", 0, 1),  # the tagger's mistake is known
        ("a/AT0 couple/NN1 of/PRF dogs/NN2", 0, 1),
        ("a/AT0 couple/NN1 sits/VVZ", 0, 0),  # two people
        ("lots/PNI of/PRF dogs/NN2", 0, 1),
        ("a/AT0 pair/NN0 of/PRF scissors/NN2", 0, 0),
        ("the/AT0 number/NN1 5/CRD on/PRP a/AT0 bus/NN1", 1, 0),  # a label
        ("5/CRD big/AJ0 buses/NN2", 1, 1),
        ("holding/VVG one/PNI", 0, 0),
        ("one/CRD dog/NN1", 1, 1),
        ("wii/CRD remotes/NN2", 1, 0),  # the tagger takes unknown words for numerals
    ],
)
def test_quantifiers(caption: str, paper: float, strict: float) -> None:
    assert counts("quantifiers", caption) == ([paper], [strict])


@pytest.mark.parametrize(
    ("caption", "paper", "strict"),
    [
        ("A/AT0 man/NN1 with/PRP a/AT0 hat/NN1 on/PRP a/AT0 horse/NN1 that/PNQ drinks/VVZ", 3, 3),
        ("sitting/VVG on/PRP a/AT0 bench/NN1", 1, 0),  # it completes a verb
        ("a/AT0 cup/NN1 of/PRF tea/NN1", 1, 1),
        ("a/AT0 man/NN1 ,/PUN with/PRP whom/PNQ I/PNP talk/VVB", 2, 1),  # "with whom" is one phrase
        ("a/AT0 box/NN1 in/PRP which/DTQ it/PNP lies/VVZ", 2, 1),
        ("a/AT0 man/NN1 ,/PUN who/PNQ smiles/VVZ", 1, 1),
        ("a/AT0 room/NN1 where/AVQ people/NN0 sit/VVB", 0, 1),
        ("a/AT0 picture/NN1 of/PRF ./PUN", 1, 0),  # nothing follows
        ("a/AT0 picture/NN1 of/PRF", 1, 0),
        ("a/AT0 man/NN1 riding/VVG a/AT0 horse/NN1", 0, 0),  # a participle is neither
    ],
)
def test_complement_phrases(caption: str, paper: float, strict: float) -> None:
    assert counts("complement_phrases", caption) == ([paper], [strict])


def test_neighbours_stop_at_the_ends_of_captions() -> None:
    # The second caption opens with a preposition, the first ends in a noun: nothing completes anything.
    assert counts("complement_phrases", "a/AT0 dog/NN1", "of/PRF tea/NN1")[1] == [0, 0]
    assert counts("quantifiers", "a/AT0", "few/AV0 dogs/NN2", "5/CRD", "dogs/NN2")[1] == [0, 0, 0, 0]


def test_characters_and_words_of_the_text_as_it_is() -> None:
    # "A man. " has 7 characters, 6 to be seen; between single spaces stand "A", "man." and nothing.
    # "a  -  b" has 7 characters; with single spaces 5. Pieces: a, "", -, "", b; words: a, b.
    # An accent of its own ("e" and U+0301) is a character to Python and not to a reader.
    texts = ["A man. ", "a  -  b", "cafe\u0301", ""]
    words = dataclasses.replace(tagged("A/AT0 man/NN1", "a/ZZ0 b/ZZ0", "x/NN1", ""), texts=pa.array(texts))
    tokens = TokenColumns(dataclasses.replace(words, starts=words.starts * 0, ends=words.ends * 0))
    assert FEATURES.get("characters").paper(tokens).tolist() == [7, 7, 5, 0]
    assert FEATURES.get("characters").strict(tokens).tolist() == [6, 5, 4, 0]
    assert FEATURES.get("words").paper(tokens).tolist() == [3, 5, 1, 1]
    assert FEATURES.get("words").strict(tokens).tolist() == [2, 2, 1, 0]


def test_concept_depth() -> None:
    # The deepest sense of "a" is a nucleotide, 10 steps below "entity"; that of "dog" lies 9 below. "the" and "qzx" are
    # not in WordNet; the deepest sense of "big", an adjective or adverb, is at 0. So with all words (10 + 0 + 9) / 3.
    captions = ("a/AT0 big/AJ0 dog/NN1", "the/AT0 dogs/NN2", "the/AT0 qzx/NN1", "")
    paper, strict = counts("concept_depth", *captions)
    assert paper[:2] == [pytest.approx(19 / 3), 9]
    assert strict[:2] == [9, 9]
    assert np.isnan([*paper[2:], *strict[2:]]).all()


def test_diversity() -> None:
    # "okapi" has one sense with two lemmas, okapi and Okapia_johnstoni; said twice they are two still: 2 / 2, 2 / 3.
    # "sofa" and "couch" are one concept of five words, "man" and "guy" two. "is" names none.
    captions = (
        "okapi/NN1 okapi/NN1",
        "the/AT0 okapi/NN1 ./PUN",
        "a/AT0 sofa/NN1 and/CJC a/AT0 couch/NN1",
        "a/AT0 man/NN1 and/CJC a/AT0 guy/NN1",
        "it/PNP is/VBZ",
    )
    paper, strict = counts("diversity", *captions)
    assert paper[:2] == [1, pytest.approx(2 / 3)]
    # A full stop that stands by itself is no word.
    assert strict == pytest.approx([1 / 2, 1 / 2, 1 / 5, 2 / 5, 0])
    paper, strict = counts("diversity", "")
    assert np.isnan([*paper, *strict]).all()


WORDS = (
    *(
        "a/AT0",
        "dog/NN1",
        "Dogs/NN2",
        "big/AJ0",
        "bigger/AJC",
        "of/PRF",
        "on/PRP",
        "that/PNQ",
        ",/PUN",
        "./PUN",
        "5/CRD",
    ),
    *("runs/VVZ", "two/CRD", "few/DT0", "couple/NN1", "qzx/NN1", "is/VBZ", "Paris/NP0", "okapi/NN1"),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), min_size=1, max_size=6))
def test_a_caption_counts_the_same_alone_and_among_others(captions: list[str]) -> None:
    together, alone = TokenColumns(tagged(*captions)), [TokenColumns(tagged(one)) for one in captions]
    for name in FEATURES:
        feature = FEATURES.get(name)
        for count in (feature.paper, feature.strict):
            np.testing.assert_allclose(count(together), np.concatenate([count(one) for one in alone]), rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9))
def test_wordnet_features_against_plain_loops(pieces: list[str]) -> None:
    tokens = TokenColumns(tagged(" ".join(pieces)))
    net = wordnet()
    forms = [one.rpartition("/")[0].lower() for one in pieces]
    deepest = [max(map(net.min_depth, senses)) for one in forms if (senses := all_senses(one, ("n", "v", "a", "r")))]
    expected = sum(deepest) / len(deepest) if deepest else float("nan")
    np.testing.assert_allclose(FEATURES.get("concept_depth").paper(tokens), [expected])
    names = {name for one in forms for sense in all_senses(one, ("n", "v", "a", "r")) for name in net.lemmas(sense)}
    np.testing.assert_allclose(FEATURES.get("diversity").paper(tokens), [len(names) / len(forms)])


def test_every_feature_describes_itself() -> None:
    for name, one in FEATURES.items():
        assert name == one.name
        assert one.paper_says != one.strict_says
        assert (one.paper.__doc__ or "") and (one.strict.__doc__ or "")
    assert [name for name, one in FEATURES.items() if one.per_noun] == [
        "adjectives",
        "complement_phrases",
        "articles",
        "quantifiers",
    ]
