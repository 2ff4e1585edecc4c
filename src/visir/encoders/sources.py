"""Whatever a person has (texts, pictures, a folder, a collection) as items to encode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from visir.collections import open_source
from visir.collections.picture_kinds import is_picture_name
from visir.collections.task_memory import read_items
from visir.encoders.base import Encoder
from visir.errors import CollectionError, EncoderError
from visir.records import Collection, Items, Modality, Role, Task, TaskFile, TaskSet, strings


def items_of(
    source: Any,
    encoder: Encoder,
    modality: Modality | None = None,
    role: Role = "document",
    *,
    split: str | None = None,
    images: object = None,
) -> Items:
    """The items of a source that an encoder is to encode."""
    if isinstance(source, Items):
        return source
    texts = None if split or images else _texts(source)
    if texts is not None:
        return Items(strings(texts), strings(texts.values()), title="texts", name="given")
    if split is None and images is None and _is_mixed(source):
        return read_items(source)
    opened = source if isinstance(source, Task) else _opened(source, split, images)
    if isinstance(opened, (TaskFile, TaskSet)):
        opened = opened.task(opened.tasks[0])
    if isinstance(opened, Task):
        return opened.documents if role == "document" else opened.queries
    if modality is None:
        takes_images = "image" in encoder.modalities
        modality = "image" if takes_images and len(opened.images) else "text"
        if not takes_images and not len(opened.captions):
            raise encoder.cannot("image")
    if modality == "text" and not len(opened.captions) and "text" not in encoder.modalities:
        raise encoder.cannot("image")
    return opened.items(modality)


def is_picture(value: object) -> bool:
    """Whether a value is a picture: of PIL, a path, or a text that names a picture file that is there."""
    if isinstance(value, str):
        return is_picture_name(value) and Path(value).is_file()
    if isinstance(value, Path):
        return is_picture_name(value.name)
    return type(value).__module__.startswith("PIL.")


def unique_names(names: Iterable[str]) -> list[str]:
    """Names, with a number behind each repetition."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result


def _texts(source: Any) -> dict[str, str] | None:
    """Id → text, of a list or a dictionary of texts; None for anything else."""
    if isinstance(source, Mapping):
        values = list(source.values())
        if values and all(isinstance(value, str) and not is_picture(value) for value in values):
            return {} if any(is_picture(key) for key in source) else {str(key): text for key, text in source.items()}
        return None
    if isinstance(source, list | tuple) and source and all(isinstance(value, str) for value in source):
        if all(is_picture(value) for value in source):
            return None
        return dict(zip(unique_names(source), source, strict=True))
    return None


def _is_mixed(source: Any) -> bool:
    """Whether it is {id: item} or a list of items: texts, pictures, and both as {"text": …, "image": …}."""
    if isinstance(source, Mapping):
        if any(is_picture(key) for key in source):  # {picture: caption}
            return False
        values: list[Any] = list(source.values())
    elif isinstance(source, (list, tuple)):
        values = list(source)
    else:
        return False
    kinds = {_kind(value) for value in values}
    return kinds <= {"text", "image", "both"} and ("both" in kinds or len(kinds) == 2)


def _kind(value: Any) -> str:
    """What an item holds; "" where it is none."""
    if is_picture(value):
        return "image"
    if isinstance(value, str):
        return "text"
    return "both" if isinstance(value, Mapping) and value and set(value) <= {"text", "image"} else ""


def _opened(source: Any, split: str | None, images: object) -> Collection | TaskFile | TaskSet:
    try:
        return open_source([source] if _is_single(source) else source, split=split, images=images)
    except CollectionError as fault:
        if isinstance(source, str) and " " in source.strip():
            raise EncoderError(
                f"{source!r} is no collection ({fault.message})", hint=f"a text goes in a list: [{source!r}]"
            ) from fault
        raise


def _is_single(source: Any) -> bool:
    """Whether it is one picture."""
    return is_picture(source) and (not isinstance(source, str | Path) or Path(source).is_file())
