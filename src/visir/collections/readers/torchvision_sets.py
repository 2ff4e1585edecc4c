"""Data sets of torchvision: by name, from the files that torchvision keeps, or as objects.

torchvision reads its own layouts; pictures that are files stay where they are, others (CIFAR, MNIST) are written once
into visir's cache. Nothing is downloaded.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.collections.draft import Draft
from visir.collections.held_pictures import encoded_picture, held_under
from visir.collections.sources import Option, reader_of
from visir.errors import CollectionError, VisirError, nearest, require
from visir.files import data_directory, find_file, read_bytes, user_path
from visir.options import parse_pairs

_SPLITS = {"train": "train", "trainval": "train", "val": "val", "valid": "val", "test": "test"}
"""torchvision's names of splits, in the order in which they are tried, and those here."""
_FILES = ("_image_files", "_images", "samples", "_samples", "imgs")
_LABELS = ("_labels", "targets", "labels", "y")
_BY_TRAIN = ("EMNIST", "QMNIST")
"""Those whose argument `train` hides among further ones."""


@reader_of(
    name="torchvision",
    title="data set of torchvision",
    layout="torchvision:NAME?root=FOLDER, with the files as torchvision keeps them in FOLDER; nothing is downloaded",
    reference="torchvision.datasets",
    sniff=lambda path: False,
    options=(
        Option("root", "the folder in which torchvision keeps it (default: $VISIR_DATA)", ""),
        Option("arguments", "further arguments of its constructor, comma-separated: partition=2", ""),
    ),
)
def torchvision(path: Path, *, root: str = "", arguments: str = "") -> Draft:
    """Read a data set by its name in `torchvision.datasets`."""
    # All its splits are read. The class of a picture is the fact `class`; image ids are paths, or "train/17".
    require("torchvision", extra="vision", purpose=f"torchvision:{path}")
    import torchvision.datasets as known

    name = str(path)
    if name not in known.__all__:
        raise CollectionError(
            f"torchvision has no data set {name!r}", hint=nearest(name, known.__all__), code="torchvision-no-data-set"
        )
    place = user_path(root) if root else data_directory()
    given = parse_pairs(filter(None, arguments.split(",")), f"torchvision:{name}: arguments", error=CollectionError)
    values = {key: int(value) if value.lstrip("-").isdecimal() else value for key, value in given.items()}
    return _draft(name, _splits(getattr(known, name), name, place, values), place)


def is_class_data_set(value: Any) -> bool:
    """Whether an object is a data set of pictures and classes as torchvision has them, or a subset of one."""
    # Or several: {"train": …, "test": …}.
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(name, str) and is_class_data_set(part) for name, part in value.items())
    base = _base_of(value)
    if not hasattr(base, "__getitem__") or not hasattr(base, "__len__") or isinstance(base, (str, Path, list, tuple)):
        return False
    return hasattr(base, "class_to_idx") or type(base).__module__.startswith("torchvision.datasets")


def from_class_data_set(value: Any) -> Draft:
    """Read a data set object of torchvision, a `torch.utils.data.Subset` of one, or {"train": …, "test": …}."""
    # Its transforms are left out: a model has its own preprocessing.
    parts = dict(value) if isinstance(value, Mapping) else {"": value}
    first = _base_of(next(iter(parts.values())))
    root = Path(getattr(first, "root", "") or ".")
    return _draft(type(first).__name__, parts, root)


def _splits(cls: Any, name: str, root: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    """The data set of each split that is there."""
    parameters = inspect.signature(cls.__init__).parameters
    if "train" in parameters or name in _BY_TRAIN:
        choices: list[tuple[str, dict[str, Any]]] = [("train", {"train": True}), ("test", {"train": False})]
    elif "split" in parameters and "split" not in arguments:
        choices = [(split, {"split": split}) for split in _SPLITS]
    else:
        choices = [(str(arguments.get("split", "")), {})]
    parts: dict[str, Any] = {}
    faults: list[Exception] = []
    for split, choice in choices:
        if _SPLITS.get(split, split) in parts:  # "trainval" only where there is no "train"
            continue
        try:
            parts[_SPLITS.get(split, split)] = cls(str(root), **arguments, **choice)
        except TypeError as fault:
            raise CollectionError(
                f"torchvision:{name}: {fault}.", hint="arguments= goes to its constructor", code="torchvision-refused"
            ) from fault
        except Exception as fault:  # whatever a data set says of missing files, or of a split that it has not
            faults.append(fault)
    if not parts:
        missing = [fault for fault in faults if "Unknown value" not in str(fault)] or faults
        download = f"torchvision.datasets.{name}({str(root)!r}, download=True) downloads it once; "
        raise CollectionError(
            f"torchvision:{name}: not in {root} ({' '.join(str(missing[0]).split())[:160]}).",
            hint=f"{download if 'download' in parameters else ''}?root=FOLDER says where; visir downloads nothing",
            code="no-such-data-set",
        )
    return parts


def _draft(name: str, parts: Mapping[str, Any], root: Path) -> Draft:
    draft = Draft(name, root, f"torchvision {name}")
    labels: list[str | None] = []
    classes: list[str] = []
    for split, given in parts.items():
        data_set, rows = _plain(_base_of(given)), _rows_of(given)
        codes = _codes(data_set, name)
        names = _class_names(data_set, codes)
        classes += [other for other in names if other not in set(classes)]
        used = rows if rows is not None else range(len(data_set))
        labels += [names[codes[row]] if codes[row] >= 0 else None for row in used]
        _add_pictures(draft, data_set, split, used)
    draft.set_classes(labels, classes)
    return draft


def _add_pictures(draft: Draft, data_set: Any, split: str, rows: Sequence[int]) -> None:
    files = _files(data_set)
    archive = None if files is not None else str(held_under(*_cells(data_set)))
    used = set(draft.ids)
    for row in rows:
        if files is None:
            identifier, path = f"{split}/{row}" if split else str(row), f"image#{row}"
        else:
            absolute = Path(files[row]).absolute()
            base = draft.root.absolute()
            path = absolute.relative_to(base).as_posix() if absolute.is_relative_to(base) else str(absolute)
            identifier = path
            if identifier in used:  # a data set that lists a picture twice
                identifier = f"{path}#{row}"
        used.add(identifier)
        draft.add_image(identifier, None, split, place=(path, archive))


def _base_of(value: Any) -> Any:
    return _base_of(value.dataset) if hasattr(value, "dataset") and hasattr(value, "indices") else value


def _rows_of(value: Any) -> Sequence[int] | None:
    """The rows of a subset; None for all."""
    if not (hasattr(value, "dataset") and hasattr(value, "indices")):
        return None
    below = _rows_of(value.dataset)
    rows = [int(row) for row in value.indices]
    return rows if below is None else [below[row] for row in rows]


def _plain(data_set: Any) -> Any:
    """The data set without transforms."""
    plain = copy.copy(data_set)
    for name in ("transform", "target_transform", "transforms"):
        if hasattr(plain, name):
            setattr(plain, name, None)
    return plain


def _entry(data_set: Any, row: int, name: str) -> tuple[Any, int]:
    try:
        picture, label = data_set[row][:2]
        code = int(label)
    except (TypeError, ValueError, IndexError, KeyError) as fault:
        raise CollectionError(
            f"{name}: entry {row} is no picture with one class ({str(fault)[:100]}).",
            hint="classification needs data sets such as CIFAR10 or Food101",
        ) from fault
    return picture, code


def _codes(data_set: Any, name: str) -> list[int]:
    """The class of each entry, as a number; from the data set's own list where it has one that agrees."""
    count = len(data_set)
    if count == 0:
        raise CollectionError(f"{name}: there are no pictures in it.")
    ends = {row: _entry(data_set, row, name)[1] for row in (0, count - 1)}
    lists = [getattr(data_set, attribute, None) for attribute in _LABELS]
    lists += [[entry[1] for entry in entries] for entries in _lists_of_pairs(data_set)]
    for values in lists:
        if values is None or not hasattr(values, "__len__") or len(values) != count:
            continue
        try:
            codes = np.asarray(values)
        except ValueError:
            continue
        is_list = codes.ndim == 1 and np.issubdtype(codes.dtype, np.integer)
        if is_list and all(codes[row] == code for row, code in ends.items()):
            return [int(code) for code in codes]
    return [_entry(data_set, row, name)[1] for row in range(count)]


def _lists_of_pairs(data_set: Any) -> Iterator[Sequence[Any]]:
    for attribute in _FILES:
        entries = getattr(data_set, attribute, None)
        if isinstance(entries, (list, tuple)) and entries and isinstance(entries[0], tuple) and len(entries[0]) == 2:
            yield entries


def _class_names(data_set: Any, codes: Sequence[int]) -> list[str]:
    names = getattr(data_set, "classes", None) or getattr(data_set, "categories", None)
    by_number = getattr(data_set, "class_to_idx", None)
    highest = max(codes)
    if isinstance(names, (list, tuple)) and len(names) > highest:
        listed = [", ".join(name) if isinstance(name, (list, tuple)) else str(name) for name in names]
    elif isinstance(by_number, Mapping) and set(by_number.values()) >= set(range(highest + 1)):
        listed = [str(name) for name, _ in sorted(by_number.items(), key=lambda pair: pair[1])]
    else:
        listed = [str(number) for number in range(highest + 1)]
    return listed if len(set(listed)) == len(listed) else [f"{name} ({place})" for place, name in enumerate(listed)]


def _files(data_set: Any) -> list[str] | None:
    """The file of each picture; None where pictures are no files, or are not shown as they are."""
    from PIL import Image

    count = len(data_set)
    for attribute in _FILES:
        entries = getattr(data_set, attribute, None)
        if not isinstance(entries, (list, tuple)) or len(entries) != count:
            continue
        files = [entry[0] if isinstance(entry, tuple) else entry for entry in entries]
        if not all(isinstance(file, (str, Path)) for file in files):
            continue
        try:
            same = True
            for row in {0, count - 1}:
                with Image.open(files[row]) as picture:
                    own = np.asarray(data_set[row][0].convert("RGB"))
                    same &= bool(np.array_equal(np.asarray(picture.convert("RGB")), own))
        except (OSError, AttributeError, ValueError):
            continue
        if same:
            return [str(file) for file in files]
    return None


def _cells(data_set: Any) -> tuple[str, Callable[[], Iterator[bytes]]]:
    """A key over pictures that are no files, and what makes their bytes."""
    digest = hashlib.blake2b(type(data_set).__name__.encode(), digest_size=16)
    data: Any = getattr(data_set, "data", None)
    if hasattr(data, "numpy"):  # a tensor
        data = data.numpy()
    if isinstance(data, np.ndarray) and len(data) == len(data_set) and data.ndim in (3, 4):
        digest.update(repr((data.shape, data.dtype)).encode())
        digest.update(np.ascontiguousarray(data).data)
        return digest.hexdigest(), lambda: _encoded(data_set)
    cells = list(_encoded(data_set))
    for cell in cells:
        digest.update(len(cell).to_bytes(8, "little"))
        digest.update(cell)
    return digest.hexdigest(), lambda: iter(cells)


def _encoded(data_set: Any) -> Iterator[bytes]:
    for row in range(len(data_set)):
        try:
            yield encoded_picture(data_set[row][0], f"entry {row}")
        except VisirError:
            raise
        except Exception as fault:  # the data set's own reading
            raise CollectionError(f"{type(data_set).__name__}: entry {row} cannot be read ({fault}).") from fault


# Digits and other small grey pictures in IDX files: MNIST, Fashion-MNIST, KMNIST.

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


_IDX_SPLITS = {"train": "train", "test": "t10k"}
_PICTURES, _IDX_LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"


@reader_of(
    name="idx",
    title="IDX files (MNIST, Fashion-MNIST)",
    layout="FOLDER/{train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, plain or .gz",
    reference="LeCun, Cortes, Burges: the MNIST database",
    sniff=lambda path: (
        path.is_dir() and any(find_file(path / f"{begin}-{_PICTURES}") for begin in _IDX_SPLITS.values())
    ),
    options=(Option("classes", "the names of the classes, comma-separated (default: 0, 1, …)", ""),),
)
def idx(path: Path, *, classes: str = "") -> Draft:
    """Read `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same of `t10k`, plain or `.gz`."""
    # The class of a picture is the fact `class`; image ids are "train/17" and "test/17". Pictures are written once into
    # visir's cache.
    draft = Draft(path.absolute().name, path, f"IDX files in {path.absolute().name}")
    codes: list[int] = []
    for split, begin in _IDX_SPLITS.items():
        pictures, labels = (find_file(path / f"{begin}-{kind}") for kind in (_PICTURES, _IDX_LABELS))
        if pictures is None and labels is None:
            continue
        if pictures is None or labels is None:
            missing = _PICTURES if pictures is None else _IDX_LABELS
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
        archive = str(held_under(digest.hexdigest(), partial(_pgms, images)))
        for row in range(len(images)):
            draft.add_image(f"{split}/{row}", None, split, place=(f"image#{row}", archive))
        codes += shown.tolist()
    if not codes:
        raise CollectionError(
            f"{path}: no train-{_PICTURES} and no t10k-{_PICTURES}.",
            hint=f"layout: {idx.layout}",
            code="no-train-no-t10k",
        )
    names = [name.strip() for name in classes.split(",")] if classes else [str(n) for n in range(max(codes) + 1)]
    if len(names) <= max(codes):
        raise CollectionError(f"{path}: {len(names)} names for {max(codes) + 1} classes.", hint="classes=zero,one,…")
    draft.set_classes([names[code] for code in codes], names)
    return draft


def _pgms(images: NDArray[np.uint8]) -> Iterator[bytes]:
    """Each picture as a PGM: its bytes as they are, behind a header. To pack them takes longer than anything else."""
    _, height, width = images.shape
    header = b"P5 %d %d 255\n" % (width, height)
    return (header + image.tobytes() for image in images)
