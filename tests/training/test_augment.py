"""Augmentation against torchvision's, whose distributions it follows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import ks_2samp

from refusals import refused
from visir.errors import ConfigurationError
from visir.training.inputs import EpochRandom, change, crop_box, erase, erased_box
from visir.training.recipe import Augmentation

DRAWS = 4000


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(256, size=(height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("size", "least"), [((500, 375), 0.08), ((375, 500), 0.6), ((400, 100), 0.08), ((64, 64), 0.9)]
)
def test_crops_are_distributed_as_torchvisions(size: tuple[int, int], least: float) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    width, height = size
    draw = np.random.default_rng(0)
    ours = np.array([crop_box(width, height, least, draw) for _ in range(DRAWS)])
    torch.manual_seed(0)
    blank = torch.zeros(3, height, width)
    drawn = [transforms.RandomResizedCrop.get_params(blank, (least, 1.0), (3 / 4, 4 / 3)) for _ in range(DRAWS)]
    theirs = np.array([(left, top, w, h) for top, left, h, w in drawn])
    for column in range(4):
        assert ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3
    # Area and ratio too: columns alone do not show how they go together.
    for value in (lambda boxes: boxes[:, 2] * boxes[:, 3], lambda boxes: boxes[:, 2] / boxes[:, 3]):
        assert ks_2samp(value(ours), value(theirs)).pvalue > 1e-3
    assert (ours[:, :2] >= 0).all() and (ours[:, 0] + ours[:, 2] <= width).all()
    assert (ours[:, 1] + ours[:, 3] <= height).all()


@pytest.mark.parametrize("size", [(224, 224), (64, 48)])
def test_erased_rectangles_are_distributed_as_torchvisions(size: tuple[int, int]) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    width, height = size
    draw = np.random.default_rng(1)
    ours = np.array([box for _ in range(DRAWS) if (box := erased_box(width, height, draw)) is not None])
    torch.manual_seed(1)
    blank = torch.zeros(3, height, width)
    drawn = [transforms.RandomErasing.get_params(blank, (0.02, 0.33), (0.3, 3.3), [0.0]) for _ in range(DRAWS)]
    theirs = np.array([(left, top, w, h) for top, left, h, w, _ in drawn if (h, w) != (height, width)])
    assert abs(len(ours) - len(theirs)) < 40
    for column in range(4):
        assert ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3


def test_a_crop_of_which_none_fits_is_the_largest_centred_one() -> None:
    # 400 × 30: no crop of at least 90 % of the area has a ratio under 4:3, so it is 40 × 30 (4:3 of the height) in the
    # middle, at (400 - 40)/2 = 180. Upright, the same turned.
    draw = np.random.default_rng(0)
    assert crop_box(400, 30, 0.9, draw) == (180, 0, 40, 30)
    assert crop_box(30, 400, 0.9, draw) == (0, 180, 30, 40)
    # 40 × 40 whole area: every ratio but 1:1 sticks out.
    assert crop_box(40, 40, 1.0, draw) == (0, 0, 40, 40)


def test_a_crop_is_resized_as_torchvision_resizes_it() -> None:
    functional = pytest.importorskip("torchvision.transforms.functional")
    image = picture(120, 90)
    for row in range(20):
        found = change(image, Augmentation(crop=0.1), (32, 48), EpochRandom(0, 0).of_row(2, row))
        left, top, width, height = crop_box(120, 90, 0.1, EpochRandom(0, 0).of_row(2, row))
        expected = functional.resized_crop(image, top, left, height, width, [32, 48])
        assert found.size == (48, 32) and (np.asarray(found) == np.asarray(expected)).all()


def test_every_second_picture_is_mirrored() -> None:
    image = picture(12, 9)
    there, mirrored = np.asarray(image), np.asarray(image)[:, ::-1]
    count = 0
    for row in range(1000):
        found = np.asarray(change(image, Augmentation(flip=True), (9, 12), EpochRandom(0, 0).of_row(2, row)))
        assert (found == there).all() or (found == mirrored).all()
        count += bool((found == mirrored).all())
    assert 440 < count < 560  # the deviation is √(1000/4) = 16


def test_erasing_blanks_one_rectangle_at_its_rate() -> None:
    prepared = np.full((3, 40, 50), 7, np.uint8)
    erased = 0
    for row in range(1000):
        found = erase(prepared, 0.2, EpochRandom(0, 0).of_row(2, row))
        if found is prepared:
            continue
        erased += 1
        blank = (found == np.array([124, 116, 104], np.uint8)[:, None, None]).all(axis=0)
        rows, columns = np.flatnonzero(blank.any(axis=1)), np.flatnonzero(blank.any(axis=0))
        assert blank[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        assert len(rows) * len(columns) == blank.sum() and (found[:, ~blank] == 7).all()
        assert 0.01 < blank.mean() < 0.35
    assert 150 < erased < 250  # the deviation is √(1000·0.2·0.8) = 13
    assert (prepared == 7).all()  # the kept picture is never written to


def test_floats_are_erased_to_zero_which_is_the_mean_after_normalising() -> None:
    for prepared in (np.ones((3, 20, 20), np.float32), torch.ones(3, 20, 20)):
        found = erase(prepared, 1.0, EpochRandom(0, 0).of_row(2, 0))
        assert type(found) is type(prepared) and found.dtype == prepared.dtype
        assert set(np.unique(found)) == {0.0, 1.0} and (np.asarray(prepared) == 1).all()


def test_what_is_no_picture_cannot_be_erased() -> None:
    with refused(ConfigurationError, "196", "768", code="backbone-pictures-arrays"):
        erase(np.zeros((196, 768)), 0.5, EpochRandom(0, 0).of_row(2, 0))


def test_the_same_draw_gives_the_same_picture() -> None:
    augmentation = Augmentation(crop=0.2, flip=True)
    one, other = (
        np.asarray(change(picture(60, 50), augmentation, (24, 24), EpochRandom(5, 1).of_row(2, 9))) for _ in "ab"
    )
    assert (one == other).all()
    later = np.asarray(change(picture(60, 50), augmentation, (24, 24), EpochRandom(5, 2).of_row(2, 9)))
    assert (one != later).any()
