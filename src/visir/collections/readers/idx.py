"""Digits and other small grey pictures in IDX files: MNIST, Fashion-MNIST, KMNIST."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.collections.draft import Draft
from visir.collections.held_pictures import held_under
from visir.collections.sources import Format, Option
from visir.errors import CollectionError, VisirError
from visir.files import find_file, read_bytes

# IDX, the format of MNIST: a magic number, the length of every axis, then the bytes.

_BYTES = 0x08
"""The type of unsigned bytes; the format knows others (0x09, 0x0B to 0x0E), MNIST does not use them."""


def read_idx(path: str | Path, axes: int) -> NDArray[np.uint8]:
    """Read the array of an IDX file of unsigned bytes, plain or `.gz`."""
    # The file is (all numbers big-endian): two zero bytes, the type, the number of axes; the length of each axis in
    # four bytes; the values, the last axis running fastest.
    data = read_bytes(path)
    retry = "is the download complete? compare its size"
    if len(data) < 4:
        raise VisirError(f"{path}: {len(data)} bytes; an IDX file begins with a magic number of four.", hint=retry)
    if data[:2] != b"\0\0" or data[2] != _BYTES or data[3] != axes:
        start, expected = data[:4].hex(" "), bytes((0, 0, _BYTES, axes)).hex(" ")
        raise VisirError(
            f"{path}: begins with {start}; expected {expected}, an IDX file of unsigned bytes with "
            f"{axes} {'axis' if axes == 1 else 'axes'}.",
            hint="are pictures and labels exchanged, or is it another kind of file?",
        )
    header = 4 + 4 * axes
    if len(data) < header:
        raise VisirError(f"{path}: ends within its header, after {len(data)} of {header} bytes.", hint=retry)
    shape = tuple(int(length) for length in np.frombuffer(data, ">u4", axes, 4))
    if len(data) - header != prod(shape):
        raise VisirError(
            f"{path}: says {' × '.join(map(str, shape))} = {prod(shape):,} bytes of values, "
            f"but {len(data) - header:,} follow its header.",
            hint=retry,
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


_SPLITS = {"train": "train", "test": "t10k"}
_PICTURES, _LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"


def read(path: Path, *, classes: str = "") -> Draft:
    """Read `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same of `t10k`, plain or `.gz`."""
    # The class of a picture is the fact `class`; image ids are "train/17" and "test/17". Pictures are written once into
    # visir's cache.
    draft = Draft(path.absolute().name, path, f"IDX files in {path.absolute().name}")
    codes: list[int] = []
    for split, begin in _SPLITS.items():
        pictures, labels = (find_file(path / f"{begin}-{kind}") for kind in (_PICTURES, _LABELS))
        if pictures is None and labels is None:
            continue
        if pictures is None or labels is None:
            missing = _PICTURES if pictures is None else _LABELS
            raise CollectionError(
                f"{path}: no {begin}-{missing}, with or without .gz.",
                hint="copy it there too",
                code="no-file-of-digits",
            )
        images, shown = read_idx(pictures, axes=3), read_idx(labels, axes=1)
        if len(images) != len(shown):
            raise CollectionError(
                f"{path}: {len(shown):,} labels for the {len(images):,} pictures of {split}.",
                hint="take both files from one distribution",
            )
        digest = hashlib.blake2b(repr(images.shape).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(images).data)
        archive = str(held_under(digest.hexdigest(), partial(_cells, images)))
        for row in range(len(images)):
            draft.add_image(f"{split}/{row}", None, split)
            draft.paths.append(f"image#{row}")
            draft.archives.append(archive)
        codes += shown.tolist()
    if not codes:
        raise CollectionError(
            f"{path}: no train-{_PICTURES} and no t10k-{_PICTURES}.",
            hint=f"layout: {FORMAT.layout}",
            code="no-train-no-t10k",
        )
    draft.names = []
    names = [name.strip() for name in classes.split(",")] if classes else [str(n) for n in range(max(codes) + 1)]
    if len(names) <= max(codes):
        raise CollectionError(f"{path}: {len(names)} names for {max(codes) + 1} classes.", hint="classes=zero,one,…")
    draft.set_classes([names[code] for code in codes], names)
    return draft


def _cells(images: NDArray[np.uint8]) -> Iterator[bytes]:
    """Each picture as a PGM: its bytes as they are, behind a header. To pack them takes longer than anything else."""
    _, height, width = images.shape
    header = b"P5 %d %d 255\n" % (width, height)
    return (header + image.tobytes() for image in images)


FORMAT = Format(
    name="idx",
    title="IDX files (MNIST, Fashion-MNIST)",
    layout="FOLDER/{train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, plain or .gz",
    reference="LeCun, Cortes, Burges: the MNIST database",
    sniff=lambda path: path.is_dir() and any(find_file(path / f"{begin}-{_PICTURES}") for begin in _SPLITS.values()),
    options=(Option("classes", "the names of the classes, comma-separated (default: 0, 1, …)", ""),),
    read=read,
)
