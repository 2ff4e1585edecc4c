"""Six tiles on a model's input: where, which, on every kind of input; the one number that others forget."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flat_digits import INSTANCES, level, read_off
from numpy.typing import NDArray
from PIL import Image

from refusals import refused
from visir.encoders.models.image_processors import NORMALISATIONS, ImageInput
from visir.encoders.models.pixels import PixelStatistics
from visir.encoders.models.small import BagOfWords
from visir.encoders.towers.resnet import SmallCNNBackbone
from visir.errors import EncoderError
from visir.files import data_directory
from visir.records import Shortcuts
from visir.shortcuts.stamp import Stamp, lefts, load_digits

CLIP = ImageInput((224, 224), "clip")


def photo(width: int = 224, height: int = 224) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(30, 220, (height, width, 3), dtype=np.uint8))


def bytes_of(image: Image.Image) -> NDArray[np.uint8]:
    """(3, 224, 224) bytes, as backbones over pixels take them."""
    return np.ascontiguousarray(CLIP.prepare(image).transpose(2, 0, 1))


def floats_of(image: Image.Image) -> NDArray[np.float32]:
    """(3, 224, 224) float32, normalised as CLIP wants it."""
    return CLIP.batch([CLIP.prepare(image)])[0]


def test_where_the_tiles_stand() -> None:
    # The middle of the k-th sixth of 224 is 18.67 + 37.33 k; less half a tile of 28: 4.67, 42, 79.33, 116.67, 154,
    # 191.33. The last ends at 219, as far from the right edge as the first begins from the left.
    assert lefts(224, "even") == [5, 42, 79, 117, 154, 191]
    # 64 / 12 · (2k + 1) − 4: 1.33, 12, 22.67, 33.33, 44, 54.67
    assert lefts(64, "even") == [1, 12, 23, 33, 44, 55]
    assert lefts(224, "packed") == [0, 28, 56, 84, 112, 140]


def test_tiles_never_overlap_nor_leave_the_picture() -> None:
    for width in (*range(32, 400), 448, 512):
        side, even = width // 8, lefts(width, "even")
        assert even[0] >= 0
        assert even[-1] + side <= width
        assert all(right - left >= side for left, right in pairwise(even))


@pytest.mark.parametrize("placement", ["even", "packed"])
def test_a_number_is_read_from_left_to_right(placement: Any, flat_digits: Path) -> None:
    stamp = Stamp(Shortcuts(placement=placement), bytes_of)
    for number, digits in ((42, [0, 0, 0, 0, 4, 2]), (101992, [1, 0, 1, 9, 9, 2]), (999999, [9] * 6)):
        made = stamp(bytes_of(photo()), number, key=7)
        for channel in range(3):
            assert read_off(made[channel], lefts(224, placement), 28)[0] == digits


def test_number_0_is_a_number_like_any_other(flat_digits: Path) -> None:
    before = bytes_of(photo())
    made = Stamp(Shortcuts(), bytes_of)(before, 0, key=0)
    assert read_off(made[0], lefts(224, "even"), 28)[0] == [0] * 6
    assert (made[:, :28, 5:33] != before[:, :28, 5:33]).mean() > 0.9


def test_only_the_tiles_change(flat_digits: Path) -> None:
    before = bytes_of(photo())
    kept = before.copy()
    made = Stamp(Shortcuts(), bytes_of)(before, 123456, key=3)
    assert (before == kept).all(), "the picture itself must stay as it is"
    assert (made[:, 28:] == before[:, 28:]).all()
    under = np.zeros((28, 224), bool)
    for left in lefts(224, "even"):
        under[:, left : left + 28] = True
    assert (made[:, :28][:, ~under] == before[:, :28][:, ~under]).all()
    # Photos have greys from 30 to 219 here, tiles of 1 to 6 such as 25 × 1 + 8: nothing shines through.
    assert all(len(np.unique(made[:, :28, left : left + 28])) == 1 for left in lefts(224, "even"))


def test_a_key_is_a_handwriting(flat_digits: Path) -> None:
    stamp, picture = Stamp(Shortcuts(), bytes_of), bytes_of(photo())

    def hands(key: int, number: int = 555555, of: Stamp = stamp) -> list[int]:
        return read_off(of(picture, number, key)[0], lefts(224, "even"), 28)[1]

    assert hands(8) == hands(8)
    many = [hands(key) for key in range(60)]
    assert len({tuple(one) for one in many}) > 40  # of 3^6 = 729
    for place in range(6):
        assert {one[place] for one in many} == set(range(INSTANCES))
    assert [hands(key, of=Stamp(Shortcuts(seed=1), bytes_of)) for key in range(9)] != many[:9]
    assert hands(2**45 + 3) == hands(2**45 + 3)  # a key made of an epoch and a row


def test_floats_get_the_normalised_grey(flat_digits: Path) -> None:
    made = Stamp(Shortcuts(), floats_of)(floats_of(photo()), 7, key=0)
    assert made.dtype == np.float32
    hand = Stamp(Shortcuts(), bytes_of)(bytes_of(photo()), 7, key=0)[0, 0, 200] - level(7, 0)
    mean, deviation = NORMALISATIONS["clip"]
    for channel in range(3):
        expected = ((level(7, 0) + hand) / 255 - mean[channel]) / deviation[channel]
        assert np.allclose(made[channel, :28, 191:219], expected, atol=1e-5)
    assert (made[:, 28:] == floats_of(photo())[:, 28:]).all()


@pytest.mark.parametrize("kind", ["float32", "channels last", "torch bytes", "torch floats", "two views", "BGR"])
def test_every_kind_of_input_shows_the_same(kind: str, flat_digits: Path) -> None:
    contrast = floats_of(Image.new("RGB", (9, 9), "white")) - floats_of(Image.new("RGB", (9, 9)))
    black = floats_of(Image.new("RGB", (9, 9)))

    def grey(floats: Any) -> NDArray[np.uint8]:
        return np.rint(255 * (np.asarray(floats) - black) / contrast).astype(np.uint8)

    reversed_ = ImageInput((224, 224), "clip", channels="BGR")
    prepares: dict[str, tuple[Any, Any]] = {
        "float32": (floats_of, grey),
        "channels last": (CLIP.prepare, lambda made: made.transpose(2, 0, 1)),
        "torch bytes": (lambda image: torch.from_numpy(bytes_of(image)), lambda made: made.numpy()),
        "torch floats": (lambda image: torch.from_numpy(floats_of(image)), grey),
        "two views": (
            lambda image: np.stack([bytes_of(image), bytes_of(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT))]),
            lambda made: made[1],
        ),
        "BGR": (
            lambda image: reversed_.batch([reversed_.prepare(image)])[0],
            lambda made: grey(made[::-1]),
        ),
    }
    prepare, to_bytes = prepares[kind]
    before = prepare(photo())
    made = Stamp(Shortcuts(), prepare)(before, 31415, key=2)
    assert type(made) is type(before)
    assert made.dtype == before.dtype
    plain = Stamp(Shortcuts(), bytes_of)(bytes_of(photo()), 31415, key=2)
    assert (to_bytes(made)[:, :28, 5:33] == plain[:, :28, 5:33]).all()
    for channel in to_bytes(made):
        assert read_off(channel, lefts(224, "even"), 28)[0] == [0, 3, 1, 4, 1, 5]


def test_half_precision(flat_digits: Path) -> None:
    stamp = Stamp(Shortcuts(), floats_of)
    whole = torch.from_numpy(floats_of(photo()))
    assert torch.equal(stamp(whole.bfloat16(), 5, 5), stamp(whole, 5, 5).bfloat16())


def test_a_batch_is_stamped_in_place_and_as_one_by_one(flat_digits: Path) -> None:
    stamp, picture = Stamp(Shortcuts(seed=4), bytes_of), bytes_of(photo())
    numbers, keys = np.array([0, 17, 4711, 999999]), np.array([3, 1, 4, 1])
    one_by_one = [stamp(picture, number, key) for number, key in zip(numbers.tolist(), keys.tolist(), strict=True)]
    for batch in (np.stack([picture] * 4), torch.from_numpy(np.stack([picture] * 4))):
        stamp.batch(batch, np.arange(4), numbers, keys)
        assert (np.asarray(batch) == np.stack(one_by_one)).all()
    some = torch.from_numpy(np.stack([picture] * 4))
    stamp.batch(some, np.array([1, 3]), np.array([-1, 17, -1, 999999]), keys)  # −1: carries none
    assert (some[0].numpy() == picture).all()
    assert (some[2].numpy() == picture).all()
    assert (some[1].numpy() == one_by_one[1]).all()
    assert (some[3].numpy() == one_by_one[3]).all()
    untouched = some.clone()
    stamp.batch(some, np.array([], np.int64), numbers, keys)
    assert torch.equal(some, untouched)


def test_64_pixels(flat_digits: Path) -> None:
    backbone = SmallCNNBackbone(size=64)
    made = Stamp(Shortcuts(), backbone.prepare)(backbone.prepare(photo(80, 100)), 802, key=1)
    assert made.shape == (3, 64, 64)
    assert read_off(made[0], lefts(64, "even"), 8)[0] == [0, 0, 0, 8, 0, 2]


def test_a_wide_input_that_pads_is_learnt_without_its_padding(flat_digits: Path) -> None:
    padding = ImageInput((96, 240), "none", "pad", layout="NHWC")
    made = Stamp(Shortcuts(), padding.prepare)(padding.prepare(photo()), 90, key=1)
    assert made.shape == (96, 240, 3)
    assert read_off(made[..., 0], lefts(240, "even"), 30)[0] == [0, 0, 0, 0, 9, 0]  # 240 / 8 = 30


@pytest.mark.parametrize("digits", ["mnist", "sklearn"])
def test_real_handwriting(digits: Any) -> None:
    if digits == "mnist" and not (data_directory() / "mnist").is_dir():
        pytest.skip(f"no MNIST in {data_directory() / 'mnist'} (set VISIR_DATA)")
    made = Stamp(Shortcuts(digits=digits), bytes_of)(bytes_of(photo()), 204, key=0)
    read = load_digits(digits)
    for left, digit in zip(lefts(224, "even"), [0, 0, 0, 2, 0, 4], strict=True):
        tile = made[0, :28, left : left + 28]
        written = read.tiles(28)[read.rows_of[digit]]
        assert (written == tile).all(axis=(1, 2)).sum() == 1  # one of this digit's instances, and no two are alike


def halved(image: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(image)[::2, ::2].transpose(2, 0, 1)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (PixelStatistics().preprocess, r"this model's input has the shape \(64, 64, 4\); digits can be stamped on"),
        (lambda image: {"pixel_values": 1}, "this model's input is a dict; digits"),
        (lambda image: np.zeros((3, 64, 64)), "does not show a black picture black and a white one white"),
        (lambda image: np.random.default_rng(0).random((3, 64, 64)), "does not show a black picture black"),
        (halved, r"has the shape \(3, 128, 128\) for one picture and \(3, 64, 64\) for another"),
        (ImageInput((24, 24), "none").prepare, "pictures of 24 × 24 pixels have no room for six digits"),
    ],
)
def test_what_cannot_be_stamped(prepare: Any, said: str, flat_digits: Path) -> None:
    with pytest.raises(EncoderError, match=said) as fault:
        Stamp(Shortcuts(), prepare)
    assert "on=captions" in fault.value.hint


def test_a_model_of_texts_says_so_itself(flat_digits: Path) -> None:
    with refused(EncoderError, "images", "texts", code="encodes-no"):
        Stamp(Shortcuts(), BagOfWords.fit(["a dog", "a dog"]).preprocess)


def test_a_picture_of_another_size(flat_digits: Path) -> None:
    with refused(EncoderError, "3", "64", "64", "3", "224", "224", code="prepared-picture-where-model"):
        Stamp(Shortcuts(), bytes_of)(np.zeros((3, 64, 64), np.uint8), 1, 1)


@pytest.mark.parametrize("number", [-1, 1_000_000])
def test_a_number_of_seven_digits_is_none(number: int, flat_digits: Path) -> None:
    with pytest.raises(ValueError, match="are not all of 6 digits"):
        Stamp(Shortcuts(), bytes_of)(bytes_of(photo()), number, 1)
