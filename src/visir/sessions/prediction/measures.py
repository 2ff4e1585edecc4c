"""How good predictions are: F1 of the purchase class, ROC-AUC, PR-AUC, and how far probabilities can be believed."""

from __future__ import annotations

import numpy as np

from visir.sessions.prediction.models import at_share
from visir.sessions.records import Bools, Floats

MEASURES = ("f1", "roc_auc", "pr_auc", "brier", "ece")
"""F1 is the thesis's; of the two last, less is better."""

_BINS = 10


def measure_predictions(balanced: Floats, share: float, purchase: Bools) -> dict[str, float]:
    """All `MEASURES`."""
    # The thesis does not say of which class its F1 is. It is the purchase class here, as usual for a rare class.
    # balanced: (n,) chances if half of the sessions bought. F1 counts a chance of one half or more as a purchase.
    # purchase: (n,) whether each session holds an order.
    from sklearn.metrics import average_precision_score, roc_auc_score

    has_both = bool(purchase.any()) and not bool(purchase.all())
    chance = at_share(balanced, share)
    return {
        "f1": f1(balanced >= 0.5, purchase),
        "roc_auc": float(roc_auc_score(purchase, balanced)) if has_both else float("nan"),
        "pr_auc": float(average_precision_score(purchase, balanced)) if has_both else float("nan"),
        "brier": float(np.mean((chance - purchase) ** 2)),
        "ece": calibration_error(chance, purchase),
    }


def all_bought(share: float) -> dict[str, float]:
    """What calling every session a purchase scores where `share` of them are: F1 = 2 · share / (1 + share)."""
    # It ranks nothing, so its ROC-AUC is ½ and its PR-AUC the share; it names no chance that could be off. A model
    # whose F1 is no higher has told nothing of the sessions.
    return {"f1": 2 * share / (1 + share), "roc_auc": 0.5, "pr_auc": share}


def f1(predicted: Bools, purchase: Bools) -> float:
    """2 · hits / (predicted + bought); 0 where nothing was predicted and nothing bought."""
    total = int(predicted.sum()) + int(purchase.sum())
    return 2 * int((predicted & purchase).sum()) / total if total else 0.0


def calibration_error(chance: Floats, purchase: Bools) -> float:
    """Expected calibration error: |mean chance − share of purchases| over ten equally wide bins, by their size."""
    bins = np.minimum((chance * _BINS).astype(np.int64), _BINS - 1)
    off = np.bincount(bins, chance - purchase, minlength=_BINS)
    return float(np.abs(off).sum() / len(chance))
