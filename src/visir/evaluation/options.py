"""Checks of the options of an evaluation, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.assembly import Pool
from visir.evaluation.captions import CaptionChoice
from visir.evaluation.cross_modal import NAME as DCG_CM
from visir.evaluation.measures import read_measure
from visir.records import TASKS, Collection, Recall, Ties
from visir.retrieval.answers import depth_fault
from visir.retrieval.vectors import Similarity

CONDITIONS = ("query_template", "rerank", "perturbation", "extra")
"""The fields of `Protocol` that only the caller knows."""


def check_options(
    captions: str,
    recall: str | None,
    ties: str | None,
    gallery: object,
    tasks: Sequence[str] | None,
    folds: int,
    depth: int,
    conditions: Mapping[str, Any] | None,
    source: object,
    split: str | None,
    similarity: str | None = None,
    measures: Sequence[str] | None = None,
) -> None:
    """Check the options of `visir.evaluation.evaluate.evaluate`, which explains them."""
    faults = faults_of_measures(measures)
    for kind, value, known in (("recall", recall or "hit", get_args(Recall)), ("ties", ties or "id", get_args(Ties))):
        if value not in known:
            faults.append(f"unknown {kind} {value!r} ({nearest(str(value), known)})")
    if similarity is not None and similarity not in get_args(Similarity):
        faults.append(f"unknown similarity {similarity!r} ({nearest(similarity, get_args(Similarity))})")
    if isinstance(gallery, str) and gallery not in get_args(Pool):
        faults.append(f"unknown gallery {gallery!r} ({nearest(gallery, get_args(Pool))})")
    if tasks is not None and not tasks:
        faults.append("no task is asked for")
    if not isinstance(folds, int):
        faults.append(f"folds must be a whole number, not {folds!r}")
        folds = 1
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
    if split is not None and not isinstance(split, str):
        faults.append(f"split must be a text, not {split!r}; several are written 'test+val'")
        split = None
    try:
        CaptionChoice.parse(captions if isinstance(captions, str) else repr(captions))
    except ConfigurationError as fault:
        faults.append(f"{fault.message} ({fault.hint})")
    if isinstance(source, Collection):
        faults += [f"unknown task {name!r} ({nearest(str(name), TASKS)})" for name in tasks or () if name not in TASKS]
        for name in (split or "all").split("+"):
            if name != "all" and name not in source.splits:
                missing = "it has none; ?split_by=random(0.8,0.1,0.1,seed=0) behind its path makes train, val and test"
                suggestion = nearest(name, source.splits) if any(source.splits) else missing
                faults.append(f"unknown split {name!r} ({suggestion})")
    else:
        of_captions = {"captions": captions != "all", "folds": folds != 1, "gallery": gallery != "split"}
        faults += [
            f"{name} goes with collections of images and captions only" for name, on in of_captions.items() if on
        ]
    name = getattr(source, "name", "the tasks")
    raise_faults(ConfigurationError, f"evaluate {name}", faults, hint="mend the options above")


def check_plain(
    recall: str | None, ties: str | None, measures: Sequence[str] | None, needless: Sequence[str], has_run: bool
) -> None:
    """Check the options of judgements and a run, without a collection."""
    faults = faults_of_measures(measures)
    for kind, value, known in (("recall", recall or "hit", get_args(Recall)), ("ties", ties or "id", get_args(Ties))):
        if value not in known:
            faults.append(f"unknown {kind} {value!r} ({nearest(value, known)})")
    faults += [
        f"{name} needs a collection; judgements alone have none"
        + ("; measures are named measures=[…]" if name == "tasks" else "")
        for name in needless
    ]
    if not has_run:
        faults.append("there is no run to measure")
    hint = "visir.evaluate(qrels, run, measures=['nDCG@10', 'AP'])"
    raise_faults(ConfigurationError, "evaluate with judgements alone", faults, hint=hint)


def faults_of_measures(measures: Sequence[str] | None) -> list[str]:
    """What is wrong with the names of measures."""
    if measures is None:
        return []
    if not isinstance(measures, Iterable):
        return [f"measures={measures!r}: names of measures are expected, e.g. ['nDCG@10', 'AP']"]
    typed = [str(name) for name in measures]
    of_ranks = [name for name in typed if name.casefold() != "rsum" and not name.startswith("dcg_cm")]
    read = [read_measure(name) for name in of_ranks]
    faults = [fault for fault in read if isinstance(fault, str)]
    faults += [
        f"{name!r}: write dcg_cm@p with a whole number p from 1, dcg_cm@10"
        for name in typed
        if name.startswith("dcg_cm") and not DCG_CM.fullmatch(name)
    ]
    faults += [f"{name!r} is named twice" for name in dict.fromkeys(typed) if typed.count(name) > 1]
    return faults if typed else ["no measure is named"]
