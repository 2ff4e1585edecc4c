"""A purchase model: trained, and saved as a folder of open files, one classifier per setting and step.

`model.json` holds the card, and what features and scaling learnt; `anonymous-step-03.skops` the classifier of step 3.
skops writes scikit-learn's objects as plain data (JSON and NPY in a zip) and builds only types that it, or `TRUSTED`
below, names: loading runs no code of the file, as a pickle would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visir.errors import VisirError, require
from visir.files import read_json
from visir.sessions.examples import Sample, Setting, draw, idle_minutes
from visir.sessions.features import FEATURES, FeatureSet, LearntFeatures, features_of
from visir.sessions.prediction.encoding import Scaling
from visir.sessions.prediction.models import FittedClassifier, fit
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


@dataclass(frozen=True)
class PurchaseModel:
    """A model for each setting, and the card: what it was trained on, and how."""

    parts: Mapping[Setting, SettingModel]
    card: dict[str, Any]


def train(
    sessions: str | Path,
    samples: Sequence[Sample],
    model: str,
    *,
    feature_set: FeatureSet = "extended",
    seed: int = 0,
) -> PurchaseModel:
    """Train on all examples of each sample, without validation; the prediction study says how good a model is.

    Args:
        sessions: A folder that `sessionise` wrote.
        samples: One per setting.
        model: One of `models.MODELS`.
        feature_set: The feature set.
        seed: Of the model.

    Raises:
        VisirError: No session qualifies, or all have the same outcome.
    """
    import sklearn.ensemble  # loads OpenMP, which must be there to be limited
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    parts: dict[Setting, SettingModel] = {}
    drawn: dict[str, Any] = {}
    for sample in samples:
        examples = draw(sessions, sample)
        learnt = LearntFeatures.of(features_of(sample.setting, feature_set), examples)
        with threadpool_limits(1):  # on so few rows threads wait for each other: five times the processor time
            fitted = tuple(
                fit(
                    model,
                    learnt.features,
                    learnt.states,
                    learnt.matrix(examples, step),
                    examples.purchase,
                    seed=seed,
                )
                for step in sample.steps
            )
        parts[sample.setting] = SettingModel(learnt, fitted)
        drawn[sample.setting] = {"sessions": len(examples), "purchases": int(examples.purchase.sum())}
    card = {
        "model": model,
        "features": feature_set,
        "seed": seed,
        "samples": [sample.to_dict() for sample in samples],
        "drawn": drawn,
        "zone": read_json(Path(sessions) / "counts.json")["declared"]["zone"],
        "idle_minutes": idle_minutes(Path(sessions)),
        "versions": {"scikit-learn": sklearn.__version__},
    }
    return PurchaseModel(parts, card)


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
                steps.append({"share": fitted.share, "scaling": scaling, "numbers": fitted.numbers})
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
    return FittedClassifier(model, _read(path) if path.is_file() else None, values["share"], scaling, values["numbers"])


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
