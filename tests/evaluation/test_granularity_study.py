"""Means with intervals and paired changes of granularity, on numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from refusals import refused
from visir.errors import CollectionError, ConfigurationError
from visir.evaluation.granularity import compare, means
from visir.robustness.granularity import Granularity, Profile

NAN = float("nan")


def counted(name: str, images: list[str], profile: Profile = "strict", **values: list[float]) -> Granularity:
    ids = pa.array([f"{one}#{at}" for at, one in enumerate(images)])
    arrays = {feature: np.array(column) for feature, column in values.items()}
    return Granularity(name, "f" * 32, profile, ids, pa.array(images), arrays, "by hand")


def test_changes_are_paired_by_image() -> None:
    before = counted("before", ["x", "x", "y", "alone"], words=[2, 4, 5, 100])
    after = counted("after", ["y", "x", "other"], words=[6, 6, 0])
    found = compare(before, after)
    (change,) = found.changes
    # x: 6 − (2 + 4) / 2 = 3; y: 6 − 5 = 1. Of two images 2 of the 4 assignments of signs are as far from 0.
    # The interval: mean 2, standard deviation √2, standard error √2 / √2 = 1.
    assert (change.original, change.refined, change.difference) == (4, 6, 2)
    assert change.p == 0.5
    half = math.tan(math.pi * 0.475)  # the 97.5 % quantile of t with one degree of freedom; the standard error is 1
    assert (change.low, change.high) == pytest.approx((2 - half, 2 + half))
    assert (change.images, found.in_common, found.only) == (2, 2, (1, 1))


def test_captions_for_which_a_feature_is_not_defined_are_left_out() -> None:
    before = counted("before", ["x", "x", "y", "z"], depth=[NAN, 4, NAN, 1])
    after = counted("after", ["x", "y", "z"], depth=[5, 9, 3])
    (change,) = compare(before, after).changes
    # x: 5 − 4; y has no depth before; z: 3 − 1.
    assert (change.images, change.difference) == (2, 1.5)


def test_correction_is_over_the_features() -> None:
    images = [f"i{at}" for at in range(12)]
    gaps = {"a": [1.0, 2, 3, -1] * 3, "b": [1.0, -1, 2, -1] * 3, "c": [5.0, 6, 5, 7] * 3}
    before = counted("before", images, **{name: [0.0] * 12 for name in gaps})
    found = compare(before, counted("after", images, **gaps)).changes
    plain = {one.feature: one.p for one in found}
    corrected = {one.feature: one.p_corrected for one in found}
    # Holm: the smallest of three times three, the next times two, the largest as it is.
    assert plain["c"] < plain["a"] < plain["b"]
    assert corrected == {
        "c": pytest.approx(3 * plain["c"]),
        "a": pytest.approx(2 * plain["a"]),
        "b": pytest.approx(plain["b"]),
    }


def test_intervals_are_over_whole_images() -> None:
    # Ten captions of two images that differ, alike within: as single captions the interval would be narrow.
    one = counted("one", ["x"] * 5 + ["y"] * 5, words=[0] * 5 + [10] * 5)
    (mean,) = means(one)
    # Two images: mean 5, standard error √50 / √2 = 5, and the 97.5 % quantile of t with one degree of freedom.
    half = 5 * math.tan(math.pi * 0.475)
    assert 5 - half < 0, "a caption has no fewer than 0 words: there the interval ends"
    assert (mean.mean, mean.low, mean.high, mean.defined) == (5, 0, pytest.approx(5 + half), 10)


def test_a_feature_that_no_caption_has() -> None:
    (mean,) = means(counted("one", ["x", "y"], depth=[NAN, NAN]))
    assert mean.defined == 0
    assert math.isnan(mean.mean) and math.isnan(mean.low) and math.isnan(mean.high)


def test_refused() -> None:
    one = counted("one", ["x"], words=[1])
    with refused(CollectionError, "one", "two", "x", "y", code="no-image-common"):
        compare(one, counted("two", ["y"], words=[1]))
    with refused(ConfigurationError, "one", "strict", "two", "paper", code="counted-profile"):
        compare(one, counted("two", ["x"], "paper", words=[1]))
