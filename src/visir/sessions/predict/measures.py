"""How good predictions are: F1 of the purchase class, ROC-AUC, PR-AUC, and how far probabilities can be believed."""

from __future__ import annotations

import numpy as np

from visir.sessions.predict.models import at_share
from visir.sessions.records import Bools, Floats

MEASURES = ("f1", "roc_auc", "pr_auc", "brier", "ece")
"""F1 is the thesis's; of the two last, less is better."""

_BINS = 10


def measured(balanced: Floats, share: float, purchase: Bools) -> dict[str, float]:
    """All `MEASURES`; NaN for ROC-AUC and PR-AUC where only one outcome occurs.

    - `balanced`: chances in a world where half buys: "purchase" from one half on, which F1 counts
    - `share`: of purchases in training, to which chances are brought back for the Brier score and the calibration error

    The thesis does not say of which class its F1 is. It is the purchase class here, as usual for a rare class.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    both = bool(purchase.any()) and not bool(purchase.all())
    chance = at_share(balanced, share)
    return {
        "f1": f1(balanced >= 0.5, purchase),
        "roc_auc": float(roc_auc_score(purchase, balanced)) if both else float("nan"),
        "pr_auc": float(average_precision_score(purchase, balanced)) if both else float("nan"),
        "brier": float(np.mean((chance - purchase) ** 2)),
        "ece": calibration_error(chance, purchase),
    }


def f1(said: Bools, purchase: Bools) -> float:
    """2 · right / (said + bought); 0 where nothing was said and nothing bought."""
    total = int(said.sum()) + int(purchase.sum())
    return 2 * int((said & purchase).sum()) / total if total else 0.0


def calibration_error(chance: Floats, purchase: Bools) -> float:
    """Expected calibration error: |mean chance - share of purchases| over ten bins of equal width, by their size."""
    bins = np.minimum((chance * _BINS).astype(np.int64), _BINS - 1)
    off = np.bincount(bins, chance - purchase, minlength=_BINS)
    return float(np.abs(off).sum() / len(chance))
