"""Words, vocabularies, and files of word vectors."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from visir.encoders.towers.gru import END, PADDING, SPECIAL, START, UNKNOWN, WordVocabulary, read_vectors, tokenise
from visir.errors import EncoderError, VisirError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The dog's ball isn't red.", "the dog 's ball is n't red"),
        ("They’re here, she’d say: don’t!", "they 're here she 'd say do n't"),
        ("A T-shirt_2 at 7:30", "a t shirt 2 at 7 30"),
        ("rock'n'roll 'tis o'clock", "rock n roll tis o clock"),
        ("Größe ÉTÉ 猫が", "größe été 猫 が"),
        (" . !?", ""),
    ],
)
def test_words_by_hand(text: str, words: str) -> None:
    assert tokenise(text) == words.split()


@given(st.text())
def test_a_word_is_a_line_of_its_own(text: str) -> None:
    # What vocabulary.txt and a line of GloVe rest on.
    assert all(word and not any(one.isspace() for one in word) for word in tokenise(text))


def test_the_vocabulary_is_by_frequency_then_alphabet() -> None:
    vocabulary = WordVocabulary.fit(["b a", "A c b", "d a"])
    assert vocabulary.words == ("a", "b", "c", "d") and len(vocabulary) == 8
    assert WordVocabulary.fit(["b a", "A c b"], min_count=2).words == ("a", "b")
    assert WordVocabulary.fit(["b a", "A c b"], limit=1).words == ("a",)
    assert (PADDING, UNKNOWN, START, END, SPECIAL) == (0, 1, 2, 3, 4)


def test_ids_by_hand() -> None:
    flat, offsets = WordVocabulary(["a", "cat"]).encode(["A cat", "", "a dog!", "?"])
    assert flat.tolist() == [4, 5, 1, 4, 1, 1] and flat.dtype == np.int32
    assert offsets.tolist() == [0, 2, 3, 5, 6]


@given(st.lists(st.text(max_size=20), min_size=1))
def test_texts_of_the_fit_have_no_unknown_word(texts: list[str]) -> None:
    if not any(map(tokenise, texts)):
        with refused(EncoderError, code="not-one-word-texts"):
            WordVocabulary.fit(texts)
        return
    vocabulary = WordVocabulary.fit(texts)
    flat, offsets = vocabulary.encode(texts)
    for row, text in enumerate(texts):
        ids = flat[offsets[row] : offsets[row + 1]]
        assert [vocabulary.words[one - SPECIAL] for one in ids if one != UNKNOWN] == tokenise(text)
        assert (UNKNOWN in ids) == (not tokenise(text))


def test_a_vocabulary_comes_back_and_a_damaged_one_does_not(tmp_path: Path) -> None:
    vocabulary = WordVocabulary.fit(["größe's 猫 a a"])
    (tmp_path / "v.txt").write_bytes(vocabulary.to_bytes())
    assert WordVocabulary.load(tmp_path / "v.txt").words == vocabulary.words
    (tmp_path / "v.txt").write_text("a\nb\na\n")
    with refused(EncoderError, "a", code="vocabulary-holds-every-word", hint=False):
        WordVocabulary.load(tmp_path / "v.txt")
    with refused(VisirError, code="no-such-file"):
        WordVocabulary.load(tmp_path / "w.txt")


GLOVE = "the 0.5 -1\nat a@b.c 7 8\nkatze 1 1e-2\nat 2 3\nthe 9 9\ngröße 4 5\n"


def test_only_our_words_are_read_and_the_first_vector_counts(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text(GLOVE)
    found = read_vectors(path, ["at", "größe", "dog", "the"], 2)
    assert found.has_vector.tolist() == [True, True, False, True]
    np.testing.assert_array_equal(found.vectors, np.array([[2, 3], [4, 5], [0, 0], [0.5, -1]], np.float32))
    (tmp_path / "glove.txt.gz").write_bytes(gzip.compress(GLOVE.encode()))
    np.testing.assert_array_equal(read_vectors(tmp_path / "glove.txt.gz", ["at"], 2).vectors, [[2, 3]])


def test_the_first_line_of_word2vec_is_no_word(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("6 2\r\n" + GLOVE.replace("\n", " \r\n"))
    assert read_vectors(path, ["the", "6"], 2).has_vector.tolist() == [True, False]
    with refused(EncoderError, "2", "3", code="vectors-numbers") as caught:
        read_vectors(path, ["the"], 3)
    assert "text.words" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"the 1 2\ndog 1\n", r"line 2: 1 numbers, not 2"),
        (b"the 1 2\ndog 1 2 3\n", r"line 2: 3 numbers, not 2"),
        (b"the 1 2\ndog 1 x\n", r"line 2: 'x' is no finite number"),
        (b"the 1 2\ndog 1 nan\n", r"line 2: 'nan' is no finite number"),
        (b"the 1 2\ngr\xf6\xdfe 1 2\n", r"line 2: not UTF-8 \(byte 0xf6\)"),
        (b"the 1 2 3\n", r"line 1: vectors of 3 numbers"),
        (b"the 1 2\na 1 2\n", r"holds none of the 1 words"),
        (b"", r"holds none of the 1 words"),
    ],
)
def test_damaged_files_name_the_line(tmp_path: Path, text: bytes, complaint: str) -> None:
    path = tmp_path / "glove.txt"
    path.write_bytes(text)
    with pytest.raises(EncoderError, match=complaint):
        read_vectors(path, ["dog"], 2)


def test_a_missing_file_says_where_to_get_one(tmp_path: Path) -> None:
    with refused(EncoderError, "glove.txt", code="no-such-file-word") as caught:
        read_vectors(tmp_path / "glove.txt", ["dog"], 2)
    assert "https://nlp.stanford.edu/projects/glove/" in str(caught.value)
