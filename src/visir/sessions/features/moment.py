"""What a shop knows beside Table 6.7: the page that is open, items added, searches, earlier visits of the visitor.

A page is known when it opens. Items and searches count up to the page before: a score is asked for when a page opens,
and what is done on it comes later. Earlier visits are those of the browser, customer or not.
"""

from __future__ import annotations

import numpy as np

from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.records import Bools, CodedTexts, Floats, SessionExamples


def _learn_pages(examples: SessionExamples, rows: Bools) -> FeatureState:
    return {"names": examples.pages.used_names(rows)}


def _page(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    if step == 0:
        return np.full(len(examples), np.nan)
    pages = CodedTexts(examples.pages.names, examples.pages.codes[:, step - 1])
    position = pages.codes_in(state["names"], missing=-1, unseen=-1).astype(np.float64)
    return np.where(position < 0, np.nan, position)


def _added(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return examples.added[:, step].astype(np.float64)


def _queried(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return examples.queried[:, step].astype(np.float64)


def _visits(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return examples.visits.astype(np.float64)


PAGE = SessionFeature("current page", "session", True, False, "category", _page, _learn_pages)
ADDED = SessionFeature("items added", "session", True, False, "skewed", _added)
QUERIED = SessionFeature("searches", "session", True, False, "skewed", _queried)
VISITS = SessionFeature("visitor's earlier sessions", "session", False, False, "skewed", _visits)
