"""A purchase model, saved as a folder of open files.

A live model is numbers in one file, `model.json`. A model of the thesis's protocol holds there the card, and what
features and scaling learnt; `anonymous-step-03.skops` is the classifier of step 3.
skops writes scikit-learn's objects as plain data (JSON and NPY in a zip) and builds only types that it, or `TRUSTED`
below, names: loading runs no code of the file, as a pickle would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visir.display import Plotted, Tabular, brief, counted
from visir.errors import VisirError, require
from visir.files import read_json
from visir.sessions.examples import Sample, Setting
from visir.sessions.features import FEATURES, LIVE_FEATURES, LearntFeatures
from visir.sessions.prediction.models import CLASSIFIERS, FittedClassifier, LiveClassifier, Scaling
from visir.sessions.sql import parts_of
from visir.sessions.table_labels import Bools, Floats, Ints, SessionExamples
from visir.storage import MANIFEST, FolderChange, FolderKind, check_version, new_folder, read_checked

# Where a log's purchases went: how many a model learns from and is tested on, and why the others are not used.

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
    """What a live model uses of the purchases of a folder, which learns from one mask and is tested on the other."""
    buys, used = examples.purchase, train | test
    made = len(_pages_of_purchases(sessions))
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
    pages = _pages_of_purchases(sessions)
    used = {str(setting): int(examples.purchase.sum()) for setting, examples in drawn.items()}
    none, short = int((pages == 0).sum()), int(((pages > 0) & (pages < sample.min_pages)).sum())
    others = f"fewer than {sample.min_pages} pages before the order, another setting, or {NOT_DRAWN}"
    rest = len(pages) - none - short - sum(used.values())
    reasons = {"no page": none, f"fewer than {sample.min_pages} pages": short, others: rest}
    return PurchaseUse(len(pages), used, reasons, features=features)


def _pages_of_purchases(sessions: str | Path) -> Ints:
    """The pages of each session of a folder that holds an order."""
    from visir.parquet import read_table

    tables = [read_table(part, ["purchase", "pages"]) for part, _ in parts_of(sessions)]
    pages = [table["pages"].to_numpy()[table["purchase"].to_numpy()] for table in tables]
    return np.concatenate(pages) if pages else np.zeros(0, np.int64)


VERSION = 2
"""Of `model.json`."""
MODEL = FolderKind("purchase-model", "a purchase model", remedy="visir sessions train SESSIONS --out FOLDER")

TRUSTED = (
    "sklearn.tree._tree.Tree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
)
"""scikit-learn's own compiled or private types that its six models hold, and skops does not know."""


@dataclass(frozen=True)
class SettingModel:
    """The model of one setting."""

    learnt: LearntFeatures  # features with what they learnt
    steps: tuple[FittedClassifier, ...]  # a classifier for each step from 0

    def probability(self, examples: SessionExamples, step: int) -> Floats:
        """(n,) chance that each session ends with a purchase, from nothing that is known after the step."""
        return self.steps[step].probability(self.learnt, self.learnt.matrix(examples, step))

    def save(self, setting: str, change: FolderChange) -> dict[str, Any]:
        """Write the estimators of scikit-learn, and return the rest as plain values."""
        require("skops", extra="sessions", purpose="Saving a purchase model of the thesis's protocol")
        import skops.io

        steps = []
        for step, fitted in enumerate(self.steps):
            scaling = None if fitted.scaling is None else fitted.scaling.to_json()
            rates = {"share": fitted.share, "base_rate": fitted.base_rate}
            steps.append({**rates, "scaling": scaling, "numbers": fitted.numbers})
            if fitted.estimator is not None:
                change.write(_name(setting, step), skops.io.dumps(fitted.estimator))
        return {"learnt": self.learnt.to_json(), "steps": steps}

    @classmethod
    def load(cls, setting: str, folder: Path, model: str, values: Mapping[str, Any]) -> SettingModel:
        """Back from what `save` wrote and returned."""
        steps = []
        for step, own in enumerate(values["steps"]):
            scaling = None if own["scaling"] is None else Scaling.from_json(own["scaling"])
            path = folder / _name(setting, step)  # there is none where every feature has one value only at this step
            estimator = _read(path) if path.is_file() else None
            steps.append(FittedClassifier(model, estimator, own["share"], scaling, own["numbers"], own["base_rate"]))
        return cls(LearntFeatures.from_json(values["learnt"], FEATURES), tuple(steps))


@dataclass(frozen=True, repr=False)
class PurchaseModel(Tabular, Plotted):
    """A trained model, and the card: what it was trained on, how, and how good it is on later sessions.

    Args:
        parts: Of the live protocol one model, "all"; of the thesis's one for each setting.
        card: Plain values: protocol, classifier, seed, sessions, versions, and the report of a live model.
    """

    parts: Mapping[str, SettingModel | LiveClassifier]
    card: dict[str, Any]

    def part(self, setting: Setting) -> SettingModel | LiveClassifier | None:
        """The model that scores a session of this setting; None where none was trained for it."""
        for name in ("all", setting, "anonymous"):
            if name in self.parts:
                return self.parts[name]
        return None

    @property
    def loses_to(self) -> list[str]:
        """The references ("base rate", "plain LR") whose log loss on later sessions is below the model's."""
        report = self.card.get("report")
        return [] if report is None else list(report["loses_to"])

    @property
    def purchases(self) -> PurchaseUse | None:
        """How many purchases the log has, how many of them it learnt from and was tested on, and why not the others.

        None for a model of an earlier visir, whose card does not say.
        """
        counts = self.card.get("purchases")
        return None if counts is None else PurchaseUse.of(counts)

    def save(self, out: str | Path, *, replace: bool = False, even_if_worse: bool = False) -> Path:
        """Write the folder of the model, complete or not at all; `load_model` reads it.

        Args:
            out: The folder to make.
            replace: Replace `out` where it is the folder of a model.
            even_if_worse: Save a model too that loses to a reference on later sessions.

        Raises:
            VisirError: `out` exists, the model loses to a reference on later sessions, or these have one outcome.
        """
        report, anyway = self.card.get("report"), "to save it all the same: --even-if-worse (even_if_worse=True)"
        if report is not None and not even_if_worse:
            count, buys = report["sessions"], report["purchases"]
            if buys in (0, count):
                raise VisirError(
                    f"{'none' if not buys else 'every one'} of the {count:,} later sessions has a purchase, so they "
                    "cannot say whether the model is better than the references: it was not saved.",
                    hint=f"test on more sessions (--test-share, --test-from), or take a longer log; {anyway}",
                    code="visir-not-saved",
                )
            if self.loses_to:
                raise VisirError(
                    f"on later sessions the model loses to {' and '.join(self.loses_to)} "
                    f"({verdict(report)}): it was not saved.",
                    hint=f"take a longer log, or another classifier (--classifier lr), or look at the report; {anyway}",
                    code="not-saved",
                )
        with new_folder(out, MODEL, replace=replace) as change:
            parts = {
                setting: part.save(setting, change) if isinstance(part, SettingModel) else part.to_json()
                for setting, part in self.parts.items()
            }
            change.write_json("model.json", {"visir_purchase_model": VERSION, **self.card, "parts": parts})
        return Path(out)

    def __repr__(self) -> str:
        drawn = [
            f"{name}: {n['sessions']:,} sessions, {n['purchases']:,} with a purchase"
            for name, n in self.card["drawn"].items()
        ]
        report = self.card.get("report")
        later = [] if report is None else [verdict(report)]
        few = [] if self.purchases is None or not self.purchases.warning else [self.purchases.warning]
        return brief(self, f"{self.card['model']}, protocol {self.card['protocol']}", *drawn, *few, *later)


def verdict(report: Mapping[str, Any]) -> str:
    """A report in a sentence: the log loss of each reference against the model's, from the first page on."""
    parts = []
    for name, (value, low, high) in report["less_loss"].items():
        ends = "(too few buy for an interval)" if low is None else f"[{low:+.4f}, {high:+.4f}]"
        parts.append(f"{'–' if value is None else f'{value:+.4f}'} {ends} less log loss than {name}")
    return f"{report['sessions']:,} later sessions, {report['purchases']:,} with a purchase: " + ", ".join(parts)


def load_model(folder: str | Path) -> PurchaseModel:
    """Read a saved model.

    Raises:
        VisirError: It is no model, damaged, or a model of the thesis's protocol from another version of scikit-learn,
            whose objects mean something else.
    """
    folder = Path(folder)
    if not (folder / "model.json").is_file():
        raise VisirError(
            f"{folder}: no purchase model.",
            hint="make one: visir sessions train SESSIONS --out FOLDER",
            code="no-purchase-model",
        )
    path = folder / "model.json"
    card = read_json(path)
    with MODEL.reading(folder, "model.json"):
        version = card.pop("visir_purchase_model", None)
        check_version(version, VERSION, path, what="purchase model", remedy="train it again")
        if (folder / MANIFEST).is_file():  # a model may travel as its model.json alone
            read_checked(folder, MODEL)
        return _loaded(folder, card, card.pop("parts"))


def _loaded(folder: Path, card: dict[str, Any], saved: Mapping[str, Any]) -> PurchaseModel:
    """The model of what `model.json` holds."""
    if card["protocol"] == "live":
        return PurchaseModel({name: CLASSIFIERS[card["model"]].from_json(part) for name, part in saved.items()}, card)
    require("sklearn", "skops", extra="sessions", purpose="Loading a purchase model of the thesis's protocol")
    import sklearn

    trained_with, installed = card["versions"]["scikit-learn"], sklearn.__version__
    if trained_with.split(".")[:2] != installed.split(".")[:2]:  # its objects mean something else
        raise VisirError(
            f"{folder} was trained with scikit-learn {trained_with}; this is {installed}.",
            hint=f"train it again, or pip install scikit-learn=={trained_with}",
        )
    return PurchaseModel(
        {setting: SettingModel.load(setting, folder, card["model"], part) for setting, part in saved.items()}, card
    )


def _read(path: Path) -> Any:
    import skops.io

    try:
        foreign = [name for name in skops.io.get_untrusted_types(file=path) if name not in TRUSTED]
        if not foreign:
            return skops.io.load(path, trusted=list(TRUSTED))
    except Exception as fault:  # a damaged file, or one of something else, raises nearly anything
        raise VisirError(
            f"{path}: damaged, or no model ({type(fault).__name__}: {fault}).",
            hint="copy the model again, or train it again: visir sessions train SESSIONS --out FOLDER",
            code="damaged-no-model",
        ) from fault
    raise VisirError(
        f"{path} holds what no purchase model holds: {', '.join(foreign)}.",
        hint="do not load it; train the model again",
        code="holds-no-purchase-model",
    )


def _name(setting: str, step: int) -> str:
    return f"{setting}-step-{step:02d}.skops"
