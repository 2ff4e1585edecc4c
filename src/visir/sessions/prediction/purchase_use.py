"""Where a log's purchases went: how many a model learns from and is tested on, and why the others are not used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visir.display import counted
from visir.sessions.examples import Sample, Setting
from visir.sessions.features import LIVE_FEATURES
from visir.sessions.folder import parts_of
from visir.sessions.records import Bools, SessionExamples

PER_FEATURE = 10
"""Purchases for each feature, the usual least for a model of chances: with fewer its weights follow chance (Peduzzi and
others, 1996, "A simulation study of the number of events per variable in logistic regression analysis")."""

ORDERED_FIRST = "their first request is the order"
UNDER_WAY = "under way at the moment from which sessions are tested"
NOT_DRAWN = "not drawn (n)"


@dataclass(frozen=True)
class PurchaseUse:
    """What became of the sessions with a purchase. `made` is the sum of `used` and `not_used`."""

    made: int  # in the folder of sessions
    used: dict[str, int]  # by what for: "train", "test"; or by setting
    not_used: dict[str, int]  # by the reason
    without_page: int = 0  # those of `used` that order before a page opens: they teach the chance at step 0 alone
    features: int = 0  # that a model has; 0 where it is not of one model

    @property
    def wanted(self) -> int:
        """How many purchases more a model should have learnt from; 0 where there are enough."""
        return max(0, PER_FEATURE * self.features - self.used.get("train", sum(self.used.values())))

    @property
    def warning(self) -> str:
        """A sentence where there are few; empty where there are enough."""
        if not self.wanted:
            return ""
        learnt = self.used.get("train", sum(self.used.values()))
        return (
            f"{self.wanted:,} more purchases are wanted: it learnt from {learnt:,}, and {PER_FEATURE} for each of its "
            f"{self.features} features are a usual least; take a longer log"
        )

    @property
    def sentence(self) -> str:
        """All counts."""
        used = ", ".join(f"{count:,} {name}" for name, count in self.used.items())
        reasons = [f"{count:,}: {reason}" for reason, count in self.not_used.items() if count]
        rest = f"; not used: {'; '.join(reasons)}" if reasons else "; all are used"
        early = f"; {self.without_page:,} of the used ones order before a page opens" if self.without_page else ""
        return f"of {counted(self.made, 'sessions')} with a purchase: {used}{rest}{early}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for cards, with `wanted`."""
        return asdict(self) | {"wanted": self.wanted}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> PurchaseUse:
        """The counts of a card."""
        return cls(**{name: value for name, value in values.items() if name != "wanted"})


def use_by_live_model(
    sessions: str | Path, examples: SessionExamples, train: Bools, test: Bools, *, drawn_all: bool
) -> PurchaseUse:
    """What a live model uses of the purchases of a folder."""
    # train: (n,) what the model learns from.
    # test: (n,) what it is tested on.
    buys, used = examples.purchase, train | test
    made = int(_purchases(sessions)["purchase"].sum())
    missing = ORDERED_FIRST if drawn_all else f"{ORDERED_FIRST}, or {NOT_DRAWN}"
    return PurchaseUse(
        made,
        {"train": int((buys & train).sum()), "test": int((buys & test & ~train).sum())},
        {missing: made - int(buys.sum()), UNDER_WAY: int((buys & ~used).sum())},
        int((buys & used & (examples.reached < 1)).sum()),
        len(LIVE_FEATURES),
    )


def use_by_samples(
    sessions: str | Path, drawn: Mapping[Setting, SessionExamples], sample: Sample, features: int = 0
) -> PurchaseUse:
    """What samples of long sessions use of the purchases of a folder."""
    columns = _purchases(sessions)
    made, pages = int(columns["purchase"].sum()), columns["pages"][columns["purchase"]]
    used = {str(setting): int(examples.purchase.sum()) for setting, examples in drawn.items()}
    none, short = int((pages == 0).sum()), int(((pages > 0) & (pages < sample.min_pages)).sum())
    others = f"fewer than {sample.min_pages} pages before the order, another setting, or {NOT_DRAWN}"
    rest = made - none - short - sum(used.values())
    return PurchaseUse(
        made, used, {"no page": none, f"fewer than {sample.min_pages} pages": short, others: rest}, features=features
    )


def _purchases(sessions: str | Path) -> dict[str, Any]:
    """Columns `purchase` and `pages` of the sessions of a folder."""
    from visir.parquet import read_table

    tables = [read_table(part, ["purchase", "pages"]) for part, _ in parts_of(sessions)]
    columns = {name: [table[name].to_numpy() for table in tables] for name in ("purchase", "pages")}
    return {name: np.concatenate(parts) if parts else np.zeros(0, int) for name, parts in columns.items()}
