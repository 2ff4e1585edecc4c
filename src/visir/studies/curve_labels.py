"""Labels of values that are points of a curve: a measure, and where on the curve, "ROC-AUC, step 3"."""

from __future__ import annotations

POINT = ", step "


def measure_of(label: str) -> str:
    """ "ROC-AUC" of "ROC-AUC, step 3"; "" where a label is the figure's own."""
    return label.partition(POINT)[0] if POINT in label else ""


def point_of(label: str) -> str:
    """ "step 3" of "ROC-AUC, step 3"; a label without a measure is itself."""
    return POINT[2:] + label.partition(POINT)[2] if POINT in label else label
