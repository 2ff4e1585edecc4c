"""Handwritten digits: IDX files read and refused, scikit-learn's, sizes."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flat_digits import IMAGES, LABELS, idx, level, write_flat_digits

from refusals import refused
from visir.collections.readers.torchvision_sets import read_idx
from visir.errors import MissingPackageError, VisirError
from visir.files import data_directory
from visir.shortcuts import stamp as digits_module
from visir.shortcuts.stamp import load_digits, resample, resolve


@pytest.fixture
def mnist() -> None:
    if not (data_directory() / "mnist" / f"{IMAGES}.gz").is_file():
        pytest.skip(f"no MNIST in {data_directory() / 'mnist'} (set VISIR_DATA)")


@pytest.mark.parametrize("packed", [False, True])
def test_auto_is_mnist_where_both_files_are(packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", str(tmp_path))
    assert resolve("auto") == "sklearn"
    folder = write_flat_digits(tmp_path, packed=packed)
    assert resolve("auto") == "mnist"
    digits = load_digits("auto")
    assert (digits.name, digits.images.shape, digits.images.dtype) == ("mnist", (30, 28, 28), np.uint8)
    # The digits lie one after the other, three times: 7 is at 7, 17 and 27.
    assert digits.rows_of[7].tolist() == [7, 17, 27]
    assert [int(digits.images[row, 0, 0]) for row in digits.rows_of[7]] == [175, 183, 191]
    (folder / (LABELS + ".gz" * packed)).unlink()
    assert resolve("auto") == "sklearn"


def test_a_name_that_nobody_knows() -> None:
    with refused(VisirError, "mnits", code="unknown-digits", meant="mnist"):
        resolve("mnits")


def test_mnist_asked_for_and_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", str(tmp_path))
    with refused(VisirError, "train-images-idx3-ubyte.gz", code="no-such-file-without"):
        load_digits("mnist")


def test_idx_of_two_by_three(tmp_path: Path) -> None:
    (tmp_path / "six").write_bytes(b"\0\0\x08\x02" + b"\0\0\0\x02" + b"\0\0\0\x03" + bytes(range(6)))
    assert read_idx(tmp_path / "six", axes=2).tolist() == [[0, 1, 2], [3, 4, 5]]


WHOLE = b"\0\0\x08\x02" + b"\0\0\0\x02" + b"\0\0\0\x03" + bytes(range(6))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes; an IDX file begins with a magic number of four"),
        (b"\x89PNG" + bytes(20), "begins with 89 50 4e 47; expected 00 00 08 02, an IDX file of unsigned bytes with 2"),
        (b"\0\0\x0d" + WHOLE[3:], "begins with 00 00 0d 02; expected 00 00 08 02"),  # floats
        (b"\0\0\x08\x01" + WHOLE[4:], "are pictures and labels exchanged"),
        (WHOLE[:10], "ends within its header, after 10 of 12 bytes"),
        (WHOLE[:-1], "says 2 × 3 = 6 bytes of values, but 5 follow its header"),
        (WHOLE + b"!", "says 2 × 3 = 6 bytes of values, but 7 follow its header"),
    ],
)
def test_idx_that_is_none(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "six").write_bytes(data)
    with pytest.raises(VisirError, match=f"six: .*{said}|{said}"):
        read_idx(tmp_path / "six", axes=2)


def test_idx_whose_download_stopped(tmp_path: Path) -> None:
    (tmp_path / "six.gz").write_bytes(gzip.compress(WHOLE)[:-9])
    with refused(VisirError, "six.gz", code="cannot-decompressed"):
        read_idx(tmp_path / "six.gz", axes=2)


def _images(shape: tuple[int, int, int]) -> Callable[[Path], object]:
    return lambda folder: (folder / IMAGES).write_bytes(idx(np.zeros(shape, np.uint8)))


def _labels(values: list[int]) -> Callable[[Path], object]:
    return lambda folder: (folder / LABELS).write_bytes(idx(np.array(values, np.uint8)))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_images((29, 28, 28)), "30 labels for the 29 pictures of train-images-idx3-ubyte"),
        (_images((30, 28, 27)), "the pictures are 28 × 27; expected squares"),
        (_labels([*range(9), 0] * 3), "no label 9; expected every digit from 0 to 9"),
        (_labels([*range(10)] * 2 + [*range(9), 10]), "a label 10; expected every digit from 0 to 9, and nothing else"),
    ],
)
def test_mnist_that_does_not_fit_together(damage: Callable[[Path], object], said: str, flat_digits: Path) -> None:
    damage(flat_digits)
    with pytest.raises(VisirError, match=said):
        load_digits("mnist")


def test_scikit_learns() -> None:
    digits = load_digits("sklearn")
    assert (digits.name, digits.images.shape) == ("sklearn", (1797, 8, 8))
    # Its levels 0 … 16 become 0 … 255, white on black: 16 is 255, 8 is 127.5, the even neighbour 128.
    assert (digits.images.min(), digits.images.max()) == (0, 255)
    assert sorted({*np.unique(digits.images).tolist()} & {127, 128}) == [128]
    assert [len(rows) for rows in digits.rows_of] == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_without_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", str(tmp_path))
    monkeypatch.setattr("visir.errors.find_spec", lambda name: None)
    digits_module._sklearn.cache_clear()
    with pytest.raises(MissingPackageError, match=r"without MNIST in VISIR_DATA.*'sklearn'.*\n.*visir\[shortcuts\]"):
        load_digits("auto")


def test_real_mnist(mnist: None) -> None:
    digits = load_digits("mnist")
    assert digits.images.shape == (60000, 28, 28)
    # The published counts of the training part.
    published = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert [len(rows) for rows in digits.rows_of] == published
    assert digits.labels[:5].tolist() == [5, 0, 4, 1, 9]
    # White on black: the middle is bright, the edge is dark.
    assert digits.images[:, 10:18, 10:18].mean() > 100
    assert digits.images[:, 0].mean() < 1


def test_smaller_by_area() -> None:
    # Each new pixel is the mean of 2 × 2: (0 + 40 + 80 + 120) / 4 = 60; (0 + 0 + 0 + 4) / 4 = 1; and so on.
    image = np.array([[0, 40, 0, 0], [80, 120, 0, 4], [8, 8, 255, 255], [8, 8, 255, 255]], np.uint8)
    assert resample(image[None], 2).tolist() == [[[60, 1], [8, 255]]]


def test_larger_by_area() -> None:
    # Three new pixels over two old ones: the outer ones lie on one, the middle one half on each. 0, (0 + 200) / 2, 200.
    row = np.array([[0, 200], [0, 200]], np.uint8)
    assert resample(row[None], 3).tolist() == [[[0, 100, 200]] * 3]


def test_by_area_keeps_the_mean() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    for side in (8, 12, 27, 28, 37, 48):
        made = resample(images, side)
        assert made.shape == (5, side, side)
        assert np.allclose(made.mean(axis=(1, 2)), images.mean(axis=(1, 2)), atol=0.5)  # rounding to whole levels


def test_a_thin_stroke_survives_the_smallest_size() -> None:
    image = np.zeros((1, 28, 28), np.uint8)
    image[0, :, 14] = 255  # 1 of the 7 columns that become one: 255 / 7 = 36.4
    assert resample(image, 4)[0, :, 2].tolist() == [36] * 4


def test_tiles_are_made_once(flat_digits: Path) -> None:
    digits = load_digits("mnist")
    assert digits.tiles(8) is digits.tiles(8)
    assert digits.tiles(28) is digits.images
    assert digits.tiles(8).shape == (30, 8, 8)
    assert (digits.tiles(8)[23] == level(3, 2)).all()
