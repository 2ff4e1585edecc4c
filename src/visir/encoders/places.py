"""Where a model lies whose name is a path."""

from __future__ import annotations

from pathlib import Path

from visir.files import is_there
from visir.options import split_mark


def absolute_name(name: str) -> str:
    """A name with the path in it made absolute: "runs/towers", "runs/sparse?expansion=none", "onnx:FILE#tensor"."""
    for prefix, rest in (("", name), name.partition(":")[::2]):
        place = split_mark(rest)[0].partition("#")[0]
        if place and is_there(place):
            return f"{prefix}{':' if prefix else ''}{Path(place).absolute()}{rest[len(place) :]}"
    return name


def is_gone(name: str) -> bool:
    """Whether the name of a model is an absolute path, and nothing is there any more."""
    paths = [Path(split_mark(part)[0].partition("#")[0]) for part in (name, name.partition(":")[2])]
    return any(path.is_absolute() and not is_there(path) for path in paths)
