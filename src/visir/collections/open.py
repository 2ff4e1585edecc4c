"""A path or a short text becomes a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from visir.collections.draft import Draft, SourceDraft
from visir.collections.formats import FORMATS, JUDGEMENTS
from visir.collections.sources import SourceKind, find_source
from visir.collections.task_draft import TaskDraft
from visir.errors import CollectionError
from visir.records import Collection, TaskFile

COLLECTIONS = SourceKind("collection", "collections", FORMATS, without_path="generated scenes need none: scenes:2000")
JUDGEMENT_SETS = SourceKind(
    "set of judgements", "judgements", JUDGEMENTS, how_to_name="put its name before it (name:path)"
)


def open_source(
    path_or_spec: Any,
    *,
    format: str | None = None,
    images: object = None,
    split: str | None = None,
    judgements: object = None,
    **options: Any,
) -> Collection | TaskFile:
    """Open anything that holds tasks of retrieval: a collection of images and captions, or a task from elsewhere.

    Args:
        path_or_spec: A file or folder as its makers distribute it (plain, `.gz` or `.xz`); the format follows from the
            content. A `datasets.Dataset` object, a `Collection` and a `TaskFile` are taken too. `"format:path"` names
            the format; `"scenes:2000"` makes 2,000 scenes. Options may follow as in a web address:
            `"karpathy:dataset_coco.json?restval=keep&images=val2014.zip"`, `"scenes:2000?seed=1&size=128"`.
            A file or folder elsewhere (`"s3://bucket/photos.tar"`; needs `visir[remote]`) is copied into the cache.
        format: The name of the format, when it cannot be told.
        images: Where the pictures are: a folder, zip or tar, or a list of them. By default they are looked for beside
            the source; the record's `source` says where they were found. "none" goes without.
        split: Keep one split, or several ("train+val").
        judgements: Files or folders of further relevance judgements to attach to a collection (CxC, ECCV Caption,
            Flickr8k experts).
        **options: Those of the format; `visir data formats` lists them.

    Raises:
        CollectionError: With all faults of the source at once.

    Example:
        >>> source = open_source("scenes:12?size=64")
        >>> source.tasks, source.split("test").task("t2i")
        (('i2t', 't2i'), Task(t2i: 5 captions, 1 images of scenes))
    """
    if isinstance(path_or_spec, (Collection, TaskFile)):
        return path_or_spec.split(split)
    if not isinstance(path_or_spec, (str, Path)):
        return _with_judgements(_from_object(path_or_spec, options), judgements).split(split)
    source = find_source(str(path_or_spec), COLLECTIONS, format)
    judgements = source.take("judgements", judgements)
    split = source.take("split", split)
    contents = source.read(images=source.take("images", images), **options)
    record: Collection | TaskFile = contents.build() if isinstance(contents, SourceDraft) else contents
    if isinstance(record, Collection):
        record = _with_judgements(record, judgements)
    elif judgements is not None:
        raise CollectionError(f"{path_or_spec}: a task has judgements of its own; judgements= does not apply.")
    return record.split(split)


def open_collection(path_or_spec: Any, **options: Any) -> Collection:
    """Open a collection of images and captions of any known layout.

    Args:
        path_or_spec: As `open_source` takes it.
        **options: As `open_source` takes them: `format`, `images`, `split`, `judgements`, and those of the format.

    Raises:
        CollectionError: With all faults of the source at once; for a source that is no collection.

    Example:
        >>> collection = open_collection("scenes:12?size=64", split="test")
        >>> collection.images["id"].to_pylist()
        ['scene-0-000006']
        >>> collection.captions["text"][0].as_py()
        'Beside a lake, there is a big, chequered green snail.'
    """
    record = open_source(path_or_spec, **options)
    if isinstance(record, TaskFile):
        raise CollectionError(
            f"{path_or_spec}: a task (queries, documents, judgements), not a collection of images and captions.",
            hint="visir.collections.open_source opens both",
        )
    return record


def read_draft(
    path_or_spec: str, *, format: str | None = None, images: object = None, **options: Any
) -> Draft | TaskDraft | Collection:
    """The same, before it is checked: for `visir data check`, which reports faults instead of raising them."""
    source = find_source(path_or_spec, COLLECTIONS, format)
    for name in ("judgements", "split"):  # these do not change what is wrong with the source
        source.take(name)
    contents: Draft | TaskDraft | Collection = source.read(images=source.take("images", images), **options)
    return contents


def attach_judgements(collection: Collection, path_or_spec: str | Path, **options: Any) -> Collection:
    """The collection with the judgements of a file or folder added.

    Args:
        collection: The collection that is judged.
        path_or_spec: A file or folder, as `open_collection` takes it; `visir data formats` lists the formats.
        **options: Those of the format.

    Raises:
        CollectionError: Where the source is no known layout of judgements, or judges other images and captions.
    """
    judged = find_source(str(path_or_spec), JUDGEMENT_SETS).read(collection, **options)
    collection = collection.with_judgements(judged.table)
    return replace(collection, source=f"{collection.source}; {judged.note}")


def _from_object(value: Any, options: dict[str, Any]) -> Collection:
    if not hasattr(value, "save_to_disk"):
        raise CollectionError(
            f"cannot open a {type(value).__name__} as a collection.",
            hint="give a path, a text such as scenes:2000, or a datasets.Dataset",
        )
    from visir.collections.readers.huggingface import from_dataset

    return from_dataset(value, **FORMATS.get("huggingface").resolve(options)).build()


def _with_judgements(collection: Collection, judgements: object) -> Collection:
    for path_or_spec in _as_list(judgements):
        collection = attach_judgements(collection, path_or_spec)
    return collection


def _as_list(value: object) -> Sequence[str | Path]:
    if value is None:
        return []
    return [value] if isinstance(value, (str, Path)) else list(value)  # type: ignore[call-overload]
