"""Draws by name: SplitMix64's numbers, ranges, names that tell streams apart, shuffles that differ when they can."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visir.robustness.random_stream import RandomStream
from visir.splitmix import splitmix64


def test_the_numbers_are_those_of_splitmix64() -> None:
    random = RandomStream()
    random._state = 1234567
    # The first five of the reference implementation (Vigna's splitmix64.c) from this seed.
    assert [random.below(1 << 64) for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(st.text())
def test_it_is_the_stream_that_splitmix_reaches_by_place(name: str) -> None:
    random = RandomStream(name)
    seed = np.uint64(random._state)
    assert [random.below(1 << 64) for _ in range(4)] == splitmix64(seed, np.arange(4)).tolist()


def test_a_name_has_the_same_stream_on_every_machine() -> None:
    random = RandomStream(0, "char_swap", "caption-é")  # drawn once and written down
    assert [random.below(100) for _ in range(8)] == [95, 31, 23, 42, 39, 62, 79, 13]


@given(st.lists(st.text() | st.integers()), st.integers(1, 1 << 64))
def test_below_is_in_range_and_equal_names_draw_equal_numbers(name: list[object], n: int) -> None:
    one, other = RandomStream(*name), RandomStream(*name)
    for _ in range(5):
        drawn = one.below(n)
        assert 0 <= drawn < n
        assert drawn == other.below(n)
        assert 0 <= one.unit() < 1
        other.unit()


def test_names_are_told_apart_by_their_parts() -> None:
    names = [("a",), ("b",), ("a", ""), ("", "a"), ("a", "b"), ("ab",), (1, 23), (12, 3), ()]
    assert len({RandomStream(*name).below(1 << 64) for name in names}) == len(names)


def test_any_text_may_be_a_name() -> None:
    assert RandomStream("\ud800").below(2) in (0, 1)  # half of a surrogate pair, which UTF-8 has no bytes for


def test_numbers_are_equally_likely() -> None:
    # 6,000 throws of a die: each face 1,000 times, standard deviation √(6000 · 1/6 · 5/6) = 28.9; within five of them.
    faces = Counter(RandomStream("die", i).below(6) for i in range(6000))
    assert sorted(faces) == [0, 1, 2, 3, 4, 5]
    assert all(abs(count - 1000) < 145 for count in faces.values())


@given(st.integers(0, 30), st.integers(0, 40), st.integers())
def test_a_sample_holds_distinct_numbers(n: int, k: int, seed: int) -> None:
    drawn = RandomStream(seed).sample(n, k)
    assert len(drawn) == len(set(drawn)) == min(k, n)
    assert all(0 <= one < n for one in drawn)


@given(st.lists(st.integers(0, 3), min_size=1), st.integers())
def test_a_choice_is_one_of_them(some: list[int], seed: int) -> None:
    assert RandomStream(seed).choice(some) in some


@given(st.lists(st.integers(0, 2), max_size=12), st.integers())
def test_a_shuffle_differs_when_it_can(some: list[int], seed: int) -> None:
    given_order = list(some)
    shuffled = RandomStream(seed).shuffled(some)
    assert some == given_order
    assert sorted(shuffled) == sorted(some)
    assert (shuffled == some) == (len(set(some)) < 2)


def test_a_shuffle_gives_every_other_order_equally_often() -> None:
    # Five orders of three remain, 3,000 shuffles: 600 each, standard deviation √(3000 · 1/5 · 4/5) = 21.9.
    orders = Counter(tuple(RandomStream("order", i).shuffled("abc")) for i in range(3000))
    assert set(orders) == set(permutations("abc")) - {tuple("abc")}
    assert all(abs(count - 600) < 110 for count in orders.values())


@pytest.mark.parametrize("alike", [[], ["a"], ["a", "a"]])
def test_what_has_one_order_keeps_it(alike: list[str]) -> None:
    assert RandomStream(1).shuffled(alike) == alike
