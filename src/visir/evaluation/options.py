"""Checks of the options of an evaluation, before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.assembly import Pool
from visir.evaluation.captions import Choice
from visir.records import TASKS, Collection, Recall, Ties
from visir.retrieval.depth import depth_fault
from visir.retrieval.vectors import Similarity

CONDITIONS = ("query_template", "rerank", "perturbation", "extra")
"""The fields of `Protocol` that only the caller knows."""


def check_options(
    captions: str,
    recall: str,
    ties: str,
    gallery: object,
    tasks: Sequence[str] | None,
    folds: int,
    depth: int,
    conditions: Mapping[str, Any] | None,
    source: object,
    split: str | None,
    similarity: str | None = None,
) -> None:
    """Check the options of `visir.evaluation.evaluate.evaluate`, which explains them.

    Raises:
        ConfigurationError: Options are faulty; all are listed.
    """
    faults = []
    for kind, value, known in (("recall", recall, get_args(Recall)), ("ties", ties, get_args(Ties))):
        if value not in known:
            faults.append(f"unknown {kind} {value!r} ({nearest(str(value), known)})")
    if similarity is not None and similarity not in get_args(Similarity):
        faults.append(f"unknown similarity {similarity!r} ({nearest(similarity, get_args(Similarity))})")
    if isinstance(gallery, str) and gallery not in get_args(Pool):
        faults.append(f"unknown gallery {gallery!r} ({nearest(gallery, get_args(Pool))})")
    if tasks is not None and not tasks:
        faults.append("no task is asked for")
    if folds < 1:
        faults.append(f"folds must be at least 1, not {folds}")
    if folds > 1 and gallery != "split":
        faults.append("folds cut the split into galleries of their own: they go with gallery='split' only")
    if fault := depth_fault(depth, "depth"):
        faults.append(fault)
    faults += [
        f"unknown condition {condition!r} ({nearest(condition, CONDITIONS)})"
        for condition in conditions or {}
        if condition not in CONDITIONS
    ]
    try:
        Choice.parse(captions)
    except ConfigurationError as fault:
        faults.append(f"{fault.message} ({fault.hint})")
    if isinstance(source, Collection):
        faults += [f"unknown task {name!r} ({nearest(str(name), TASKS)})" for name in tasks or () if name not in TASKS]
        for name in (split or "all").split("+"):
            if name != "all" and name not in source.splits:
                faults.append(f"unknown split {name!r} ({nearest(name, source.splits)})")
    else:
        of_captions = {"captions": captions != "all", "folds": folds != 1, "gallery": gallery != "split"}
        faults += [
            f"{name} goes with collections of images and captions only" for name, on in of_captions.items() if on
        ]
    name = getattr(source, "name", "the tasks")
    raise_faults(ConfigurationError, f"evaluate {name}", faults, hint="mend the options above")
