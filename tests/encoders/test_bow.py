"""Bag of words and pixel statistics: deterministic encoders without a download."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.feature_extraction.text import TfidfVectorizer

from refusals import refused
from visir.encoders import load
from visir.encoders.models.pixels import PixelStatistics
from visir.encoders.models.small import BagOfWords, words
from visir.errors import EncoderError


def test_words() -> None:
    assert words("A dog's ball, 2 cats – über_all!") == ["a", "dog's", "ball", "2", "cats", "über", "all"]
    assert words("") == words(" …! 🙂") == []
    assert words("كلب אדום") == ["كلب", "אדום"]


def test_fitted_weights_by_hand() -> None:
    # Texts with the word: a 3 of 3, dog 2, cat 1 (dropped: least=2). idf a = ln(4/4)+1 = 1, idf dog = ln(4/3)+1.
    bag = BagOfWords.fit(["a dog", "a dog dog", "a cat"])
    dog = math.log(4 / 3) + 1
    assert bag.dimension == 2
    # "dog dog a cat": a counts 1 → 1·1; dog counts 2 → (1 + ln 2)·idf; then length 1.
    expected = np.array([1.0, (1 + math.log(2)) * dog])
    expected /= np.linalg.norm(expected)
    assert bag.embed_texts(["dog dog a cat"])[0] == pytest.approx(expected, abs=1e-6)
    assert bag.embed_texts(["bird", ""]).tolist() == [[0, 0], [0, 0]]  # no known word has no direction


def test_fitted_weights_equal_scikit_learn() -> None:
    texts = ["a red dog runs", "the red, red ball", "a dog and a ball", "two cats", "red cats and a dog's tail"]
    bag = BagOfWords.fit(texts, least=1)
    referee = TfidfVectorizer(tokenizer=words, token_pattern=None, lowercase=False, sublinear_tf=True)
    theirs = referee.fit_transform(texts).toarray()
    column_of = {word: column for column, word in enumerate(bag._columns or {})}
    columns = [column_of[word] for word in referee.get_feature_names_out()]
    assert np.abs(bag.embed_texts(texts)[:, columns] - theirs).max() < 1e-6


def test_the_vocabulary_is_the_most_frequent_words_ties_by_alphabet() -> None:
    bag = BagOfWords.fit(["b a c", "c b a", "c d"], limit=2, least=2)
    assert list(bag._columns or {}) == ["c", "a"]
    with refused(EncoderError, "2", "1", code="no-word-occurs-texts"):
        BagOfWords.fit(["once"])


def test_a_fitted_bag_is_saved_and_loaded_identical(tmp_path: Path) -> None:
    bag = BagOfWords.fit(["a dog", "a cat", "the dog"], least=1)
    bag.save(tmp_path)
    again = load(tmp_path)
    assert again.card == bag.card
    assert again.card.weights is not None
    assert (again.encode_texts(["the cat"]) == bag.encode_texts(["the cat"])).all()
    hashed = tmp_path / "hashed"
    hashed.mkdir()
    BagOfWords(None, None, 64).save(hashed)
    assert load(hashed).card == load("bow:64").card


def test_another_fit_is_another_encoder() -> None:
    first, second = (BagOfWords.fit(texts, least=1).card.fingerprint for texts in (["a b"], ["a b", "a"]))
    assert first != second  # the same words, but another idf


def test_hashed_words_do_not_depend_on_the_process() -> None:
    vector = load("bow:16").encode_texts(["dog"])[0]
    # blake2b-64("dog") decides place and sign; Python's own hash() would change with every process.
    assert np.flatnonzero(vector).tolist() == [int(np.argmax(np.abs(vector)))]
    import hashlib

    number = int.from_bytes(hashlib.blake2b(b"dog", digest_size=8).digest(), "little")
    assert vector[(number >> 1) % 16] == (1.0 if number & 1 else -1.0)


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=60))
def test_hashed_vectors_are_of_length_one_or_zero(text: str) -> None:
    vector = load("bow:64").encode_texts([text, text.upper().lower()])[0]
    length = float(np.linalg.norm(vector))
    assert length == pytest.approx(1.0, abs=1e-5) or length == 0.0
    if not words(text):
        assert length == 0.0


def test_a_dimension_must_be_a_number() -> None:
    with refused(EncoderError, code="after-colon-comes-number"):
        load("bow:many")


def test_one_colour_is_counted_by_hand() -> None:
    # A plain red image: hue 0 → bin 0 ((0+10)·12//256), value 255 → brightness 2, so colour 5 + 0·3 + 2 = 7 everywhere.
    encoder = PixelStatistics()
    vector = encoder.encode_images([Image.new("RGB", (30, 50), (255, 0, 0))])[0]
    assert vector.shape == (encoder.dimension,) == (2397,)
    squared = vector.astype(np.float64) ** 2
    grid = squared[: 16 * 41].reshape(16, 41)
    assert grid[:, 7] == pytest.approx(256)  # 64·64 pixels over 16 cells
    assert grid.sum() == pytest.approx(4096)
    joint = squared[16 * 41 : 16 * 41 + 205]
    assert joint[7 * 5] == pytest.approx(4096)  # no edge anywhere
    assert squared[16 * 41 + 205 : 16 * 41 + 205 + 512].sum() == 0  # no edge strength
    texture = squared[-1024:].reshape(4, 256)
    assert texture[:, 0] == pytest.approx(1024)  # no neighbour is brighter


def test_an_edge_has_its_direction_whichever_side_is_dark() -> None:
    encoder = PixelStatistics()
    light = np.zeros((64, 64, 3), dtype=np.uint8)
    light[:, 32:] = 255
    edges = [
        encoder.encode_images([Image.fromarray(one)])[0][16 * 41 + 205 : -1024].reshape(64, 8).sum(axis=0)
        for one in (light, light[:, ::-1].copy(), light.transpose(1, 0, 2).copy())
    ]
    assert np.flatnonzero(edges[0]).tolist() == np.flatnonzero(edges[1]).tolist() == [0]
    assert np.flatnonzero(edges[2]).tolist() == [4]


def test_statistics_see_colour_place_and_pattern() -> None:
    """Nearer to itself at another size than to a scene of another colour, place or pattern."""

    def scene(colour: tuple[int, int, int], left: int, stripes: bool, size: int = 128) -> Image.Image:
        picture = np.full((128, 128, 3), (90, 160, 230), dtype=np.uint8)
        picture[60:100, left : left + 40] = colour
        if stripes:
            picture[60:100:8, left : left + 40] = 255
        return Image.fromarray(picture).resize((size, size), Image.Resampling.BICUBIC)

    red = (200, 30, 30)
    others = [scene((30, 160, 40), 20, True), scene(red, 80, True), scene(red, 20, False)]
    vectors = PixelStatistics().encode_images([scene(red, 20, True), scene(red, 20, True, 200), *others])
    distances = np.linalg.norm(vectors[1:] - vectors[0], axis=1)
    assert distances[0] < distances[1:].min() / 2


def test_pixels_takes_no_options() -> None:
    with refused(EncoderError, code="pixels-takes-no-options"):
        load("pixels:64")


def test_scripts_without_spaces_give_characters_and_pairs() -> None:
    assert words("一个女人, red") == ["一", "个", "女", "人", "一个", "个女", "女人", "red"]
    assert words("Žena běží") == ["žena", "běží"]
