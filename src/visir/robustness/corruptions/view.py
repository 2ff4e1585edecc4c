"""A collection with corrupted pictures is a view: each picture is spoilt when a model looks at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from visir.collections.images import ImageReader
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.progress import Progress
from visir.records import Collection, Corrupted, Items
from visir.robustness.corruptions.base import CORRUPTIONS, SEVERITIES
from visir.robustness.random_stream import RandomStream
from visir.storage import FolderKind, new_folder

if TYPE_CHECKING:
    from PIL.Image import Image

PICTURES = FolderKind("pictures", "a folder of pictures")


def corrupt(collection: Collection, name: str, severity: int = 3, seed: int = 0) -> Collection:
    """A view of a collection in which every picture is corrupted; nothing on disk changes.

    Any encoder sees the corrupted picture where it would see the upright decoded one, before its own resizing and
    cropping. The view has a fingerprint of its own, and its vectors are stored under keys of their own.

    Args:
        collection: The collection.
        name: A name of `CORRUPTIONS`: "gaussian_blur", "gaussian_noise", "jpeg", "occlusion", "rotation".
        severity: 1 to 5.
        seed: Of everything that is drawn, from 0.

    Raises:
        ConfigurationError: Listing every fault: an unknown name, a severity that is not 1–5, a negative seed, pictures
            that are corrupted already.

    Example:
        >>> from visir.collections import open_collection
        >>> collection = open_collection("scenes:3?size=64")
        >>> view = corrupt(collection, "jpeg", severity=5)
        >>> str(view.corrupted), view.fingerprint == collection.fingerprint
        ('pictures: jpeg, severity 5, seed 0', False)
    """
    faults = []
    if name not in CORRUPTIONS:
        faults.append(f"no corruption of pictures {name!r} ({nearest(name, CORRUPTIONS)})")
    if severity not in SEVERITIES:
        faults.append(f"severity {severity}: 1 to {SEVERITIES[-1]}")
    if seed < 0:
        faults.append(f"seed {seed} must not be negative")
    if collection.corrupted is not None:
        faults.append(f"its pictures are corrupted already ({collection.corrupted}); begin from the collection without")
    raise_faults(ConfigurationError, f"corrupting {collection.name}", faults)
    return replace(collection, corrupted=Corrupted(name, severity, seed))


def spoilt(items: Items) -> Callable[[int, Image], Image]:
    """A function (row of `items`, upright picture) → what is looked at instead; itself without corruption.

    Thread-safe. The stream of random numbers is named by seed, corruption and image id, not by severity: the same place
    is covered and the same side tilted at every severity.
    """
    carried = items.corrupted
    if carried is None:
        return lambda row, picture: picture
    change = CORRUPTIONS.get(carried.name).change
    ids = items.ids
    name, severity, seed = carried.name, carried.severity, carried.seed
    return lambda row, picture: change(picture, RandomStream(seed, name, ids[row].as_py()), severity)


def pictures(collection: Collection, *, on_screen: bool = False) -> Callable[[int], Image]:
    """A function (row of `collection.images`) → the picture as a model gets it: upright, and corrupted in a view.

    Args:
        collection: The collection, or the view of one.
        on_screen: Whether people look at them, as of `visir.collections.images.to_rgb`.
    """
    reader, change = ImageReader(collection, on_screen=on_screen), spoilt(collection.items("image"))
    return lambda row: change(row, reader.open(row))


def write_pictures(collection: Collection, folder: str | Path) -> Collection:
    """Write the pictures of a view as PNG files into a new folder.

    PNG keeps every pixel; JPEG would corrupt them once more.

    Args:
        collection: The view.
        folder: The folder to make.

    Returns:
        The collection that points at the files. It is no view: other tools can read it, and
            `visir.collections.portable.save` can carry it.

    Raises:
        ImageError: Naming a picture that cannot be read.
    """
    open_picture = pictures(collection)
    rows = collection.images.num_rows
    names = [f"{row:0{len(str(rows))}d}.png" for row in range(rows)]
    with new_folder(folder, PICTURES) as change, Progress("writing corrupted pictures", rows, "images") as advance:
        for row, name in enumerate(names):
            open_picture(row).save(change.file(name), "PNG")
            advance(1)
    columns = {"path": pa.array(names, pa.string()), "archive": pa.nulls(rows, pa.string())}
    images = collection.images
    for name, values in columns.items():
        images = images.set_column(images.schema.get_field_index(name), name, values)
    source = f"{collection.source} · {collection.corrupted}" if collection.corrupted else collection.source
    return replace(collection, images=images, root=Path(folder).absolute(), source=source, corrupted=None)
