"""Which printed values are explained: those of a task that can be computed from ranks, or that the result holds."""

from __future__ import annotations

from collections.abc import Sequence

from visir.errors import ConfigurationError, VisirError
from visir.evaluation.explaining.material import Material
from visir.evaluation.measures import MEASURES
from visir.evaluation.published import PublishedRow
from visir.evaluation.published.judge import measure_of
from visir.records import TASKS, Protocol
from visir.robustness.perturbations import PERTURBATIONS


def labels_of(row: PublishedRow, material: Material, tasks: Sequence[str]) -> dict[str, dict[str, float]]:
    """The printed values that are explained, by task and label.

    A table of rsum under perturbations names its columns after them: the column of the result's own perturbation is
    its rsum, and the others are of other results.

    Args:
        row: The published row.
        material: What is at hand.
        tasks: The tasks that are explained.

    Returns:
        {task: {label: printed value}}; tasks without a value are absent.

    Raises:
        ConfigurationError: Labels are no measures; all are named.
        VisirError: Nothing is printed that the runs can give.
    """
    perturbation = None if material.protocol is None else material.protocol.perturbation
    unknown: list[str] = []
    labels: dict[str, dict[str, float]] = {}
    for task in (task for task in TASKS if task in tasks):
        printed = row.values.get(task, {})
        of_perturbations = any(label in PERTURBATIONS for label in printed)
        if perturbation and of_perturbations:
            if perturbation not in printed:
                raise VisirError(
                    f"{row.system}: no value is printed under {perturbation}, which this result is measured under.",
                    hint=f"printed are {', '.join(printed)}",
                )
            labels[task] = {"rsum": printed[perturbation]}
            continue
        part = {}
        for label, value in printed.items():
            name = measure_of(label)
            if _is_measure(name) or name in material.fixed.get(task, {}):
                part[label] = value
            elif not (of_perturbations or name.partition("@")[0] == "dcg_cm"):
                unknown.append(f"{task} {label!r}")
        if part:
            labels[task] = part
    if unknown:
        raise ConfigurationError(
            f"{row.system}: {', '.join(unknown)} {'is no measure' if len(unknown) == 1 else 'are no measures'} that "
            "visir knows.",
            hint="visir.measures() lists them; leave the others out",
        )
    if not labels:
        raise VisirError(
            f"{row.system}: nothing is published for {' and '.join(material.runs)} that these runs can give.",
            hint="is it the right row, and the right task?",
            code="nothing-published-runs-give",
        )
    return labels


def printed_label(label: str, task: str, row: PublishedRow, protocol: Protocol | None) -> str:
    """What the paper calls a value: rsum of a perturbed result is in the column of the perturbation."""
    perturbation = None if protocol is None else protocol.perturbation
    return perturbation if perturbation and label == "rsum" and perturbation in row.values.get(task, {}) else label


def _is_measure(name: str) -> bool:
    return name == "rsum" or name.partition("@")[0] in MEASURES or name in MEASURES


def sum_of_both(row: PublishedRow, tasks: Sequence[str]) -> float | None:
    """The printed rsum over both tasks; None without one."""
    return row.values.get("both", {}).get("rsum") if len(tasks) == 2 else None
