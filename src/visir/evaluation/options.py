"""The options of an evaluation, checked before anything is computed: every fault is named at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from visir.errors import CollectionError, ConfigurationError, nearest, raise_faults
from visir.evaluation.captions import Choice
from visir.records import TASKS, Collection, Recall, Ties
from visir.search.depth import depth_fault
from visir.search.vectors import Similarity

Pool = Literal["split", "collection"]
"""Where candidates come from: the split that is evaluated, or all of the collection."""
CONDITIONS = ("query_template", "rerank", "perturbation", "extra")
"""Fields of `Protocol` that only the caller can know."""


def refuse_faulty(
    captions: str,
    recall: str,
    ties: str,
    gallery: object,
    tasks: Sequence[str],
    folds: int,
    depth: int,
    conditions: Mapping[str, Any] | None,
    collection: Collection,
    split: str | None,
    similarity: str | None = None,
) -> None:
    """Raise `ConfigurationError` listing every faulty option of `evaluate`."""
    faults = []
    for kind, value, known in (("recall", recall, get_args(Recall)), ("ties", ties, get_args(Ties))):
        if value not in known:
            faults.append(f"unknown {kind} {value!r} ({nearest(str(value), known)})")
    if similarity is not None and similarity not in get_args(Similarity):
        faults.append(f"unknown similarity {similarity!r} ({nearest(similarity, get_args(Similarity))})")
    if isinstance(gallery, str) and gallery not in get_args(Pool):
        faults.append(f"unknown gallery {gallery!r} ({nearest(gallery, get_args(Pool))})")
    faults += [f"unknown task {one!r} ({nearest(str(one), TASKS)})" for one in tasks if one not in TASKS]
    if not tasks:
        faults.append("no task is asked for")
    if folds < 1:
        faults.append(f"folds must be at least 1, not {folds}")
    if folds > 1 and gallery != "split":
        faults.append("folds cut the split into galleries of their own: they go with gallery='split' only")
    if fault := depth_fault(depth, "depth"):
        faults.append(fault)
    faults += [
        f"unknown condition {one!r} ({nearest(one, CONDITIONS)})" for one in conditions or {} if one not in CONDITIONS
    ]
    try:
        Choice.parse(captions)
    except ConfigurationError as fault:
        faults.append(f"{fault.message} ({fault.hint})")
    for one in (split or "all").split("+"):
        if one != "all" and one not in collection.splits:
            faults.append(f"unknown split {one!r} ({nearest(one, collection.splits)})")
    raise_faults(ConfigurationError, f"evaluate {collection.name}", faults, hint="mend the options above")


def refuse_empty(part: Collection, split: str | None) -> None:
    """Raise `CollectionError` when there is nothing to search, or nothing to measure by."""
    where = f"{part.name}, split {split!r}" if split else part.name
    if part.images.num_rows == 0:
        raise CollectionError(f"{where}: there are no images.", hint="is it the right split?")
    if part.captions.num_rows == 0:
        raise CollectionError(
            f"{where}: {part.images.num_rows:,} images but no captions; there is nothing to measure by.",
            hint="to search images without captions, use: visir search",
        )
