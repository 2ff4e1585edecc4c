"""A classification: accuracies by method and shots, classes and protocol folded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from visir.display import counted
from visir.errors import VisirError
from visir.evaluation.classification.result import Classification, method_title
from visir.reports.classification import (
    accuracies_table,
    best_key,
    class_bars,
    classes_table,
    classification_protocol,
    confusion_matrix,
    confusions_table,
    shot_curves,
    shown_accuracies,
    tidy_accuracies,
)
from visir.reports.page import Block, Fold
from visir.reports.table import Table
from visir.reports.views.parts import facts

if TYPE_CHECKING:
    import pyarrow as pa

    from visir.reports.plot import Plot


def blocks(result: Classification) -> list[Block]:
    """The accuracies; classes, confusions and protocol, folded."""
    key = best_key(result)
    return [
        facts(result.model, f"on {result.source}", counted(len(result.classes), "classes")),
        shown_accuracies(result),
        Fold(f"By class: {method_title(*key)}", [classes_table(result, key)]),
        Fold("Confusions", [confusions_table(result, key)]),
        Fold("Protocol", [classification_protocol(result)]),
    ]


def table(result: Classification) -> Table:
    """One row per method and number of shots."""
    return accuracies_table(result)


def arrow(result: Classification) -> pa.Table:
    """One row per method, number of shots and measure."""
    from visir.reports.formats import to_arrow

    return to_arrow(tidy_accuracies(result))


def plot(
    result: Classification,
    by: Literal["shots", "class", "confusion"] | None = None,
    *,
    method: str | None = None,
    shots: int | None = None,
) -> Plot:
    """Accuracy over shots, accuracy by class, or the confusion matrix."""
    few = any(count for _, count in result.predictions)
    by = by or ("shots" if few else "class")
    if by == "shots":
        if not few:
            raise VisirError("there are no shots to draw.", hint='plot(by="class"), or classify(…, shots=(1, 2, 4))')
        return shot_curves(result)
    key = best_key(result) if method is None and shots is None else result.key(method, shots)
    if by not in ("class", "confusion"):
        raise VisirError(f"plot(by={by!r}): choose shots, class or confusion.")
    return class_bars(result, key) if by == "class" else confusion_matrix(result, key)
