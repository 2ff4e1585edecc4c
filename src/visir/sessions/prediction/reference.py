"""What a live model must beat: the base rate of a step, and a plain logistic regression on the first page.

The regression is scikit-learn's with its defaults, on what the first page says (channel, hour, weekday, device, type of
page; at step 0 what the first request says), one column for each name. Both learn from the same sessions as the model:
all training sessions that reach the step.
"""

from __future__ import annotations

import numpy as np

from visir.sessions.features import LIVE_FEATURES, LearntFeatures
from visir.sessions.prediction.encoding import expanded
from visir.sessions.records import Bools, Floats, SessionExamples

REFERENCES = ("base rate", "plain LR")

_FIRST_PAGE = ("channel type", "start hour", "week day", "device type", "current page")


def reference_chances(examples: SessionExamples, train: Bools, test: Bools, step: int) -> dict[str, Floats]:
    """Reference → (tested,) the chances of the test sessions that reach the step."""
    # train: (n,) those to learn from; both outcomes must occur.
    # test: (n,) those to predict.
    from sklearn.linear_model import LogisticRegression

    reached = examples.reached >= step
    purchase = examples.purchase[train & reached]
    tested = int((test & reached).sum())
    rate = (float(purchase.sum()) + 0.5) / (len(purchase) + 1)
    constant = np.full(tested, rate)
    if not tested or not purchase.any() or purchase.all():
        return {"base rate": constant, "plain LR": constant}
    features = [feature for feature in LIVE_FEATURES if feature.name in _FIRST_PAGE]
    learnt = LearntFeatures.of(features, examples, train)
    columns = np.nan_to_num(expanded(features, learnt.states, learnt.matrix(examples, min(step, 1))))
    model = LogisticRegression(max_iter=1000).fit(columns[train & reached], purchase)
    return {"base rate": constant, "plain LR": model.predict_proba(columns[test & reached])[:, 1]}
