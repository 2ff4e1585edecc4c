"""Exact and near duplicates."""

from __future__ import annotations

import io
import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from library_toys import SCENES, draw
from PIL import Image

from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.library import update
from visir.library.duplicates import NEAR, Hashes, distances, duplicates, perceptual_hash, roots, words_of
from visir.library.snapshot import LibrarySnapshot


def test_a_hash_by_hand() -> None:
    """A picture whose left half is white: only odd horizontal frequencies of the first row are not zero.

    Their signs alternate (+, 0, −, 0, +, …), and 4 of the 8 are positive: k = 1, 5, 9, 13. The median of the others,
    mostly zeros, is zero, so these four bits of the first 16 are set and no other: 0100 0100 0100 0100 = 4444.
    """
    half = np.zeros((64, 64, 3), np.uint8)
    half[:, :32] = 255
    assert perceptual_hash(Image.fromarray(half)) == "4444" + "0" * 60


def test_a_hash_of_stripes_by_hand() -> None:
    """Columns white and black in turns, at the size of the hash: of the first row every odd frequency is positive."""
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 255
    assert perceptual_hash(Image.fromarray(stripes)) == "5555" + "0" * 60


def test_near_are_up_to_48_bits() -> None:
    first = int("5" * 64, 16)
    hashes = Hashes(["a", "b", "c"], [f"{first ^ (2**bits - 1):064x}" for bits in (0, 48, 98)])
    assert hashes.near("a") == [("b", 48)] and hashes.near("c") == []


def test_distances_are_bits() -> None:
    words = words_of(["0" * 64, "f" + "0" * 63, "0" * 63 + "3"])
    assert distances(words[0], words).tolist() == [0, 4, 2]


@contextmanager
def loops(compiled: bool) -> Iterator[None]:
    """With the compiled loops, or without them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("visir.library.duplicates.pays", lambda numbers, *loops: compiled)
        patch.setattr("visir.library.duplicates._AT_ONCE", 3)
        yield


@given(st.lists(st.integers(0, 2**256 - 1), min_size=2, max_size=12), st.integers(0, 140), st.booleans())
def test_groups_are_those_of_the_slow_way(numbers: list[int], near: int, compiled: bool) -> None:
    words = words_of([f"{one:064x}" for one in numbers])
    with loops(compiled):
        root = roots(words, near)
    group = list(range(len(numbers)))
    for _ in numbers:  # the smallest row that can be reached, found by going on until nothing changes
        for a, b in itertools.permutations(range(len(numbers)), 2):
            if (numbers[a] ^ numbers[b]).bit_count() <= near:
                group[a] = min(group[a], group[b])
    assert root == group


@given(
    st.lists(st.tuples(st.integers(0, 2**256 - 1), st.sets(st.integers(0, 255), max_size=60)), min_size=1, max_size=8),
    st.integers(0, 140),
    st.booleans(),
)
def test_near_ones_are_those_of_the_slow_way(drawn: list[tuple[int, set[int]]], near: int, compiled: bool) -> None:
    """Each hash and a copy of it with some bits turned, against a look at every other with Python's whole numbers."""
    numbers = [*(one for one, _ in drawn), *(one ^ sum(1 << bit for bit in turned) for one, turned in drawn), 0, 1]
    ids = [f"{at:03}" for at in range(len(numbers))]
    hashes = Hashes(ids, [f"{one:064x}" for one in numbers])
    telling = {one: number for one, number in zip(ids, numbers, strict=True) if 16 <= number.bit_count() <= 240}
    for item in ids:
        apart = [((telling[item] ^ number).bit_count(), one) for one, number in telling.items() if one != item
                 ] if item in telling else []  # fmt: skip
        with loops(compiled):
            found = hashes.near(item, near)
        assert found == [(one, bits) for bits, one in sorted(apart) if bits <= near]


def test_a_look_at_one_picture_reads_the_hashes_of_all_once(tmp_path: Path) -> None:
    """Every `GET items/{id}` read and took apart all hashes of the library."""
    draw(tmp_path / "photos", range(4))
    update(tmp_path / "photos", tmp_path / "library", model="pixels")
    with LibrarySnapshot.open(tmp_path / "library") as library:
        ids = sorted(library.columns.ids.to_pylist())
        before = library.near_duplicates(ids[0])
        asked: list[str] = []
        read = library.database.rows
        library.database.rows = lambda sql, values=(): (asked.append(sql), read(sql, values))[1]  # type: ignore
        assert library.near_duplicates(ids[0]) == before
        assert [library.near_duplicates(one) for one in ids] and asked == []


def test_copies_are_found_and_others_are_not(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    draw(photos, range(4))
    shutil.copy(photos / "0.png", photos / "same.png")
    big = ImageReader(open_collection("scenes:12?size=224"))
    big.open(2).save(photos / "large.png")
    big.open(2).resize((150, 150)).save(photos / "smaller.jpg", quality=50)
    Image.new("RGB", (64, 64), "white").save(photos / "white.png")
    Image.new("RGB", (64, 64), "black").save(photos / "black.png")  # nothing to tell them by, and not alike
    update(photos, tmp_path / "library", model="pixels")
    with LibrarySnapshot.open(tmp_path / "library") as library:
        found = duplicates(library.database)
        assert found.exact == [["0.png", "same.png"]]
        (near,) = [sorted(item.files[0].path for item in library.items(group)) for group in found.near]
        assert near == ["large.png", "smaller.jpg"] or near == ["2.png", "large.png", "smaller.jpg"]
        by_path = {item.files[0].path: item.id for item in library.items(library.indexes["dense"].ids.to_pylist())}
        ((one, bits), *_) = library.near_duplicates(by_path["large.png"])
        assert one in (by_path["smaller.jpg"], by_path["2.png"]) and bits <= NEAR
        assert library.near_duplicates(by_path["white.png"]) == []


def test_real_photos_and_their_copies(data_dir: Path) -> None:
    """60 photos of Flickr8k: every copy is found, and no two photos are taken for one."""
    from visir.collections.archives import open_archive

    archive = open_archive(data_dir / "flickr8k" / "images_test_224.zip")
    hashes, copies = [], []
    for name in sorted(archive.names())[:60]:
        photo = Image.open(io.BytesIO(archive.read(name))).convert("RGB")
        stream = io.BytesIO()
        photo.resize((photo.width // 2, photo.height // 2)).save(stream, "JPEG", quality=40)
        hashes.append(perceptual_hash(photo))
        copies.append(perceptual_hash(Image.open(stream)))
    words, other = words_of(hashes), words_of(copies)
    apart = np.array([distances(one, other) for one in words])
    assert (np.diag(apart) <= NEAR).all()
    assert (apart[~np.eye(60, dtype=bool)] > NEAR + 20).all()


@pytest.mark.parametrize("scene", [0, 1])
def test_the_hash_does_not_depend_on_size(scene: int) -> None:
    hashes = [
        perceptual_hash(ImageReader(open_collection(SCENES.replace("64", str(size)))).open(scene))
        for size in (128, 224)
    ]
    words = words_of(hashes)
    assert distances(words[0], words)[1] <= 64
