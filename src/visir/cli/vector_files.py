"""Vectors made elsewhere, named on the command line: one file, or one for each side of a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import ConfigurationError

if TYPE_CHECKING:
    from visir.records import Items, Role, Task


def vectors_of_task(embeddings: list[str], task: Task) -> dict[Role, Any]:
    """The vectors of both sides of a task, from one file, or from "query=FILE" and "document=FILE"."""
    import pyarrow.compute as pc

    from visir.encoders import encode_items, load

    sides: dict[Role, Items] = {"query": task.queries, "document": task.documents}
    files = {role: name.partition("=")[2] for name in embeddings for role in sides if name.startswith(f"{role}=")}
    if len(files) != len(embeddings) and (len(embeddings) > 1 or files):
        raise ConfigurationError(
            f"of {len(embeddings)} files of vectors it is not said which is of the queries and which of the documents.",
            hint="--embeddings query=npz:FILE --embeddings document=npz:FILE",
        )
    if not files and task.queries.modality == task.documents.modality:
        shared_ids = task.queries.ids.filter(pc.is_in(task.queries.ids, task.documents.ids))
        if len(shared_ids):
            raise ConfigurationError(
                f"queries and documents share ids (e.g. {shared_ids[0].as_py()!r}), so one file cannot hold the "
                "vectors of both.",
                hint="--embeddings query=npz:FILE --embeddings document=npz:FILE",
            )
    vectors: dict[Role, Any] = {}
    encoders = {name: load(vector_file(name)) for name in dict.fromkeys(files.values() or embeddings)}
    for role, items in sides.items():
        encoder = encoders[files.get(role, next(iter(encoders)))]
        if items.modality not in encoder.modalities and not set(items.kinds) <= encoder.modalities:
            raise ConfigurationError(f"there are no vectors of the {items.title}.", hint=f"name one: {role}=npz:FILE")
        vectors[role] = encode_items(encoder, items, role)
    return vectors


def vector_file(name: str) -> str:
    """The name of the file as `load` takes it: "npz:FILE"."""
    return name if ":" in name else f"{Path(name).suffix[1:] or 'npy'}:{name}"
