"""A purchase model: trained, and saved as a folder of open files, one classifier per setting and step.

`model.json` holds the card, and what features and scaling learnt; `anonymous-step-03.skops` the classifier of step 3.
skops writes scikit-learn's objects as plain data (JSON and NPY in a zip) and builds only types that it, or `TRUSTED`
below, names: loading runs no code of the file, as a pickle would.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from visir.display import Tabular, brief
from visir.errors import ConfigurationError, VisirError, nearest, raise_faults, require
from visir.files import read_json
from visir.sessions.examples import MIN_PAGES, SETTINGS, NoSessionError, Sample, Setting, draw, idle_minutes
from visir.sessions.features import FEATURE_SETS, FEATURES, FeatureSet, LearntFeatures, features_of
from visir.sessions.prediction.base_rates import base_rates, rate_at
from visir.sessions.prediction.encoding import Scaling
from visir.sessions.prediction.models import MODELS, FittedClassifier, fit
from visir.sessions.records import Floats, SessionExamples
from visir.storage import FolderKind, check_version, new_folder

VERSION = 1
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
    """The model of one setting.

    Args:
        learnt: Features with what they learnt.
        steps: A classifier for each step from 0.
    """

    learnt: LearntFeatures
    steps: tuple[FittedClassifier, ...]

    def probability(self, examples: SessionExamples, step: int) -> Floats:
        """(n,) chance that each session ends with a purchase, from nothing that is known after the step."""
        features, states = self.learnt.features, self.learnt.states
        return self.steps[step].probability(features, states, self.learnt.matrix(examples, step))


@dataclass(frozen=True, repr=False)
class PurchaseModel(Tabular, view="visir.sessions.reports.model_view"):
    """A model for each setting, and the card: what it was trained on, and how.

    Args:
        parts: Setting → its model.
        card: Plain values: model, features, samples, how many sessions were drawn, base rates by step, versions.
    """

    parts: Mapping[Setting, SettingModel]
    card: dict[str, Any]

    def save(self, out: str | Path, *, replace: bool = False) -> Path:
        """Write the folder of the model, complete or not at all; `load_model` reads it.

        Args:
            out: The folder to make.
            replace: Replace `out` where it is the folder of a model.

        Raises:
            VisirError: `out` exists.
        """
        return save_model(self, out, replace=replace)

    def __repr__(self) -> str:
        drawn = [
            f"{setting}: {n['sessions']:,} sessions, {n['purchases']:,} with a purchase"
            for setting, n in self.card["drawn"].items()
        ]
        return brief(self, f"{self.card['model']}, {self.card['features']} features", *drawn)


def train(
    sessions: str | Path,
    model: str = "gbdt",
    *,
    settings: Sequence[Setting] = SETTINGS,
    n: int | None = None,
    min_pages: int = MIN_PAGES,
    counted_pages: Literal["before order", "all"] = "before order",
    setting_from: Literal["start", "session"] = "start",
    features: FeatureSet = "extended",
    seed: int = 0,
) -> PurchaseModel:
    """Train a model that says, page by page, how likely a session ends with a purchase.

    It learns from all sessions of the folder that are long enough, without validation: `visir.sessions.predict` says
    how good such a model is. Its probabilities are brought to the share of purchases among all sessions that reach a
    step (`base_rates`), so that they are right on average for sessions of any length, not for long ones only.

    A setting of which no session is long enough is left out with a warning, as long as another one can be trained.

    Args:
        sessions: A folder that `visir.sessions.make` wrote.
        model: "rf", "lr", "knn", "svm", "mlp" or "gbdt" (`models.MODELS`).
        settings: "anonymous", "identified", or both: a customer who logs in then changes the model.
        n: At most so many sessions for each setting; all by default.
        min_pages: Pages that a session must have (see `examples.Sample`).
        counted_pages: Which pages count.
        setting_from: What the setting follows from.
        features: "baseline" or "extended", the feature set.
        seed: Of the sample and the model.

    Raises:
        ConfigurationError: An option is unknown.
        VisirError: In no setting a session qualifies, or all have the same outcome.

    Example:
        >>> from visir.sessions import generate, make, train
        >>> log = generate("shop", 2000)
        >>> _ = make("shop/events", "sessions", mapping="shop/mapping.toml")
        >>> trained = train("sessions", "lr", settings=["anonymous"], min_pages=6)
        >>> trained.card["drawn"]["anonymous"]["sessions"] > 100
        True
    """
    import sklearn.ensemble  # loads OpenMP, which must be there to be limited
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    faults = [
        f"unknown {kind} {value!r} ({nearest(value, choices)})"
        for kind, value, choices in (("model", model, MODELS), ("features", features, FEATURE_SETS))
        if value not in choices
    ]
    raise_faults(ConfigurationError, "train a purchase model", faults)
    samples = [Sample(setting, n, seed, min_pages, counted_pages, setting_from) for setting in settings]
    examples_by_sample = _drawn(sessions, samples)
    rates = base_rates(sessions)
    trained: tuple[Setting, ...] = tuple(sample.setting for sample in examples_by_sample)
    parts: dict[Setting, SettingModel] = {}
    drawn: dict[str, Any] = {}
    for sample, examples in examples_by_sample.items():
        learnt = LearntFeatures.of(features_of(sample.setting, features), examples)
        scored: tuple[Setting, ...] = SETTINGS if trained == ("anonymous",) else (sample.setting,)
        steps = []
        with threadpool_limits(1):  # on so few rows threads wait for each other: five times the processor time
            for step in sample.steps:
                matrix = learnt.matrix(examples, step)
                fitted = fit(model, learnt.features, learnt.states, matrix, examples.purchase, seed=seed)
                steps.append(replace(fitted, base_rate=rate_at(rates, scored, step)))
        parts[sample.setting] = SettingModel(learnt, tuple(steps))
        drawn[sample.setting] = {"sessions": len(examples), "purchases": int(examples.purchase.sum())}
    card = {
        "model": model,
        "features": features,
        "seed": seed,
        "samples": [sample.to_dict() for sample in examples_by_sample],
        "drawn": drawn,
        "base_rates": {setting: [fitted.base_rate for fitted in part.steps] for setting, part in parts.items()},
        "zone": read_json(Path(sessions) / "counts.json")["declared"]["zone"],
        "idle_minutes": idle_minutes(Path(sessions)),
        "versions": {"scikit-learn": sklearn.__version__},
    }
    return PurchaseModel(parts, card)


def _drawn(sessions: str | Path, samples: Sequence[Sample]) -> dict[Sample, SessionExamples]:
    """The examples of each sample; one without any is left out with a warning, unless there is no other."""
    examples: dict[Sample, SessionExamples] = {}
    missing: list[VisirError] = []
    for sample in samples:
        try:
            drawn = draw(sessions, sample)
        except NoSessionError as fault:
            missing.append(fault)
            continue
        buyers = int(drawn.purchase.sum())
        if 0 < buyers < len(drawn):
            examples[sample] = drawn
        else:
            same_outcome = NoSessionError(
                f"{sessions}: of {len(drawn):,} {sample.setting} sessions of {sample.min_pages} pages {buyers:,} buy: "
                "nothing to tell apart.",
                hint="learn from shorter sessions too (--min-pages), or from a longer log",
            )
            missing.append(same_outcome)
    if not examples:
        raise missing[0]
    for lacking in missing:
        warnings.warn(f"{lacking.message} No model for it. {lacking.hint}", stacklevel=3)
    return examples


def save_model(model: PurchaseModel, out: str | Path, *, replace: bool = False) -> Path:
    """Write the folder of a model, complete or not at all.

    Args:
        model: The model.
        out: The folder to make.
        replace: Replace `out` where it exists.

    Raises:
        VisirError: `out` exists.
    """
    require("skops", extra="sessions", purpose="Saving a purchase model")
    import skops.io

    document: dict[str, Any] = {"visir_purchase_model": VERSION, **model.card, "parts": {}}
    with new_folder(out, MODEL, replace=replace) as change:
        for setting, part in model.parts.items():
            steps = []
            for step, fitted in enumerate(part.steps):
                scaling = None if fitted.scaling is None else fitted.scaling.to_json()
                steps.append(
                    {
                        "share": fitted.share,
                        "base_rate": fitted.base_rate,
                        "scaling": scaling,
                        "numbers": fitted.numbers,
                    }
                )
                if fitted.estimator is not None:
                    change.write(_name(setting, step), skops.io.dumps(fitted.estimator))
            document["parts"][setting] = {"learnt": part.learnt.to_json(), "steps": steps}
        change.write_json("model.json", document)
    return Path(out)


def load_model(folder: str | Path) -> PurchaseModel:
    """Read a saved model.

    Raises:
        VisirError: It is no model, damaged, or of another version of scikit-learn, whose objects mean something else.
    """
    require("sklearn", "skops", extra="sessions", purpose="Loading a purchase model")
    import sklearn

    folder = Path(folder)
    if not (folder / "model.json").is_file():
        raise VisirError(f"{folder}: no purchase model.", hint="make one: visir sessions train SESSIONS --out FOLDER")
    path = folder / "model.json"
    card = read_json(path)
    check_version(card.pop("visir_purchase_model", None), VERSION, path, what="purchase model", remedy="train it again")
    trained_with, installed = card["versions"]["scikit-learn"], sklearn.__version__
    if trained_with.split(".")[:2] != installed.split(".")[:2]:
        raise VisirError(
            f"{folder} was trained with scikit-learn {trained_with}; this is {installed}.",
            hint=f"train it again, or pip install scikit-learn=={trained_with}",
        )
    parts: dict[Setting, SettingModel] = {}
    for setting, part in card.pop("parts").items():
        steps = [_fitted(folder, setting, step, card["model"], values) for step, values in enumerate(part["steps"])]
        parts[setting] = SettingModel(LearntFeatures.from_json(part["learnt"], FEATURES), tuple(steps))
    return PurchaseModel(parts, card)


def _fitted(folder: Path, setting: str, step: int, model: str, values: dict[str, Any]) -> FittedClassifier:
    path = folder / _name(setting, step)
    scaling = None if values["scaling"] is None else Scaling.from_json(values["scaling"])
    # There is no file where every feature has one value only at this step.
    estimator = _read(path) if path.is_file() else None
    return FittedClassifier(model, estimator, values["share"], scaling, values["numbers"], values["base_rate"])


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
        ) from fault
    raise VisirError(
        f"{path} holds what no purchase model holds: {', '.join(foreign)}.",
        hint="do not load it; train the model again",
    )


def _name(setting: str, step: int) -> str:
    return f"{setting}-step-{step:02d}.skops"
