"""What people hand in as a source: a name, a table, a list; or judgements alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from visir.collections import open_source
from visir.collections.qrels_reading import DOCUMENT_IDS, QUERY_IDS
from visir.collections.task_memory import is_task, is_task_set
from visir.errors import ConfigurationError
from visir.evaluation.assembly import Source
from visir.records import Collection, Qrels, Task, TaskFile, TaskSet

_BEGINNING = 4096
"""Bytes of a file that show whether it holds judgements."""


OPEN_OPTIONS = (
    *("image", "caption", "id", "caption_id", "split_column", "language_column"),
    *("split_by", "format", "judgements", "encoding"),
)
"""Options of `visir.open` that people give to other calls."""


def check_open_options(options: Mapping[str, Any], verb: str) -> None:
    """Refuse options that say how a source is read: they belong to `visir.open`.

    Args:
        options: The options that a call got beside its own.
        verb: The call: "evaluate".

    Raises:
        ConfigurationError: There is such an option; the hint is the call that works.
    """
    misplaced = [name for name in OPEN_OPTIONS if name in options]
    if misplaced:
        given = ", ".join(f"{name}=…" for name in misplaced)
        raise ConfigurationError(
            f"{given} says how a source is read, which is for visir.open.",
            hint=f"visir.{verb}(visir.open(source, {given}), model)",
        )


def open_tasks(source: Any, images: Any = None, split: str | None = None) -> Source:
    """Open whatever has tasks; what is open already stays as it is.

    Args:
        source: A source of tasks, or what `visir.open` takes.
        images: Where its pictures are.
        split: The split that will be measured: tasks are read without their other splits, which may have other texts
            under the same ids, or are not read unless they are named.

    Returns:
        The source.

    Raises:
        ConfigurationError: There is no source, or it is open and `images` is given.
        CollectionError: It cannot be opened.
    """
    if source is None:
        raise ConfigurationError(
            "there is nothing to evaluate on.",
            hint='visir.evaluate("photos.csv", model); with judgements alone: visir.evaluate(qrels, run)',
        )
    tasks = isinstance(source, (list, tuple)) and bool(source) and all(isinstance(task, Task) for task in source)
    if tasks or isinstance(source, (Collection, TaskFile, TaskSet, Task)) or _has_tasks(source):
        if images is not None:
            raise ConfigurationError("images goes with the name of a source.", hint="visir.open(source, images=FOLDER)")
        tasks_of: Source = source
        return tasks_of
    opened: Source = open_source(source, images=images, only_split=split)
    return opened


def open_collection_of(source: Any, images: Any, verb: str) -> Collection:
    """Open what must be images and captions.

    Args:
        source: A `Collection`, or what `visir.open` takes.
        images: Where its pictures are.
        verb: What is to be done, for the message.

    Returns:
        The collection.

    Raises:
        ConfigurationError: It is another kind of source.
        CollectionError: It cannot be opened.
    """
    opened = open_tasks(source, images)
    if not isinstance(opened, Collection):
        raise ConfigurationError(
            f"{verb} goes with images and captions; this is a {type(opened).__name__}.",
            hint=f'visir.{verb}("photos.csv", …)',
        )
    return opened


def is_judgements(source: Any) -> bool:
    """Whether a source is judgements alone: which documents are right for which query, and no more.

    Args:
        source: Anything.

    Returns:
        True if it is.

    Example:
        >>> is_judgements({"q1": {"a.jpg": 1}}), is_judgements([("a.jpg", "a dog")]), is_judgements("scenes:12")
        (True, False, False)
        >>> is_judgements({"queries": {"q1": "a dog"}, "documents": {"d1": "dogs"}, "qrels": {"q1": {"d1": 1}}})
        False
    """
    if isinstance(source, Qrels):
        return True
    if is_task(source) or is_task_set(source):
        return False
    if isinstance(source, Mapping):
        return bool(source) and all(isinstance(judged, Mapping) for judged in source.values())
    if isinstance(source, (str, Path)):
        return _is_qrels_file(Path(source))
    if isinstance(source, (list, tuple)):
        return bool(source) and hasattr(source[0], "query_id") and hasattr(source[0], "relevance")
    if type(source).__module__.partition(".")[0] == "ranx":
        return True
    columns = {str(name).lower() for name in getattr(source, "columns", ()) if isinstance(name, str)}
    columns |= set(getattr(source, "column_names", None) or ())
    return bool(columns & set(QUERY_IDS)) and bool(columns & set(DOCUMENT_IDS)) and "caption" not in columns


def _has_tasks(source: Any) -> bool:
    return all(hasattr(source, name) for name in ("task", "tasks", "split", "splits"))


def _is_qrels_file(path: Path) -> bool:
    """Whether the first line is "query 0 document grade", whatever the file is called."""
    endings = [ending.lower() for ending in path.suffixes if ending not in (".gz", ".xz")]
    if not path.is_file():
        return False
    if endings and endings[-1] in (".qrels", ".qrel"):
        return True
    try:
        with path.open("rb") as stream:
            text = stream.read(_BEGINNING).decode("utf-8", "ignore")
    except OSError:
        return False
    cells = next((line.split() for line in text.splitlines() if line.strip()), [])
    return len(cells) == 4 and cells[1].upper() in ("0", "Q0", "1") and cells[3].lstrip("-").isdigit()
