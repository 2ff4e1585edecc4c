"""Predict purchases: Figures 6.6 and 6.7 of the thesis, out of one prediction study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from visir.errors import VisirError
from visir.files import json_bytes
from visir.fingerprint import hash_json
from visir.sessions.examples import CountedPages, DwellTimes, SettingFrom
from visir.sessions.experiments.log_experiment import SessionLogExperiment, counts_of, sessions_of
from visir.storage import locked, put, read_written_json
from visir.studies.draws import Draws
from visir.studies.experiment import ExperimentContext, InsufficientDataError, Measurement

if TYPE_CHECKING:
    from visir.sessions.prediction.study import PredictionCell

_SUMMARY = "summary.json"
_STEP = "step {}"
MEASURES = {"f1": "", "roc_auc": "ROC-AUC, ", "pr_auc": "PR-AUC, ", "ece": "calibration error, "}
"""Measure → what precedes "step 0" in a label: nothing for F1, which is all that the thesis prints."""


class PredictExperiment(SessionLogExperiment):
    """One curve of the prediction study (`visir sessions predict`): a setting, a model, a feature set."""

    # Labels: "step 0" … for F1, "ROC-AUC, step 0" … for the others of `MEASURES`; the names of features. All cells of a
    # setting share one study of all models, which goes on where it was stopped. A log without sessions of the setting
    # leaves the cell "not run", with the reason.

    experiment: Literal["predict"] = "predict"
    setting: Literal["anonymous", "identified"]  # which sessions are predicted
    # "measures" of `model` with `features`, × 100. "all bought": those of calling every session a purchase, to compare
    # F1 with. Of the random forest with the extended set "importance" (percent of the decrease in impurity, mean over
    # steps) or "static share" (that of all static features by step).
    quantity: Literal["measures", "all bought", "importance", "static share"] = "measures"
    model: Literal["rf", "lr", "knn", "svm", "mlp", "gbdt"] = "rf"  # name of the model
    features: Literal["baseline", "extended"] = "extended"  # the feature set
    sessions: Annotated[int, Field(gt=0)] | None = None  # at most so many; all by default
    # Pages that a session must have. Fewer pages have fewer steps: the last is two before, and never the eleventh.
    min_pages: Annotated[int, Field(ge=3)] = 12
    # Which pages count; see `visir.sessions.examples.Sample`. The thesis (6.5.1) leaves out sessions of fewer than
    # twelve pages: "all".
    counted_pages: CountedPages = "before order"
    # What the setting follows from. The thesis (6.3) gives a session with a later login to the customer: "session".
    setting_from: SettingFrom = "start"
    dwell_times: DwellTimes = "left pages"  # which dwell times are known at a step
    folds: Annotated[int, Field(ge=2)] = 10  # of the cross-validation, grouped by person

    def describe(self) -> str:
        """See `Experiment.describe`."""
        readings = {
            "counted-pages": self.counted_pages,
            "setting-from": self.setting_from,
            "dwell-times": self.dwell_times,
        }
        options = "".join(f' --{name} "{value}"' for name, value in readings.items())
        return f"visir sessions predict{options}, {self.setting}, {self.folds} folds, on {self.log}"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.sessions.prediction.measures import all_bought

        folder = sessions_of(self, context)
        study = self._study(folder, context)
        summary, counts = read_written_json(study / _SUMMARY), counts_of(folder)
        drawn = summary["card"]["drawn"][self.setting]
        if self.quantity == "measures":
            rows = [row for row in summary["rows"] if (row["model"], row["feature_set"]) == (self.model, self.features)]
            values = {
                before + _STEP.format(row["step"]): 100 * row["means"][measure]
                for measure, before in MEASURES.items()
                for row in rows
                if row["means"][measure] is not None  # folds in which nobody buys have no ROC-AUC
            }
        elif self.quantity == "all bought":
            steps = sorted({row["step"] for row in summary["rows"]})
            scores = all_bought(drawn["purchases"] / drawn["sessions"])
            values = {
                MEASURES[measure] + _STEP.format(step): 100 * value
                for measure, value in scores.items()
                for step in steps
            }
        elif self.quantity == "importance":
            part = summary["importance"].get("impurity", {}).get(self.setting, {})
            values = {name: 100 * value for name, value in part.items()}
        else:
            values = {_STEP.format(step): 100 * share for step, share in summary["static_share"].items()}
        bought = f"{drawn['sessions']:,}, {drawn['purchases']:,} with a purchase"
        pages = "before an order" if self.counted_pages == "before order" else "in all"
        facts = {f"{self.setting} sessions": f"{bought}, of at least {self.min_pages} pages {pages}"}
        facts["setting from"] = {
            "start": "the first request",
            "session": "the whole session, logins later on included",
        }[self.setting_from]
        facts["dwell times"] = f"of {self.dwell_times}"
        facts |= {"folds": f"{self.folds}, grouped by person"}
        facts |= {f"version of {name}": version for name, version in summary["card"]["versions"].items()}
        return Measurement(
            values, self.provenance(counts), {**self.protocol(counts), **facts}, draws=self._draws(study, values)
        )

    def _draws(self, study: Path, values: Mapping[str, float]) -> dict[str, Draws]:
        """Draws of the values, paired over all cells of the study; "all bought" is what it is."""
        from visir.sessions.experiments.prediction_draws import curve_draws, importance_draws, static_share
        from visir.sessions.prediction.study import load_study

        if self.quantity == "all bought":
            return {}
        cells = [cell for cell in load_study(study)[1] if (cell.setting, cell.scheme) == (self.setting, "grouped")]
        if self.quantity == "importance":
            draws = importance_draws(cells, study.name)
        elif self.quantity == "static share":
            draws = curve_draws(cells, study.name, lambda cell: {_STEP.format(cell.step): static_share(cell)})
        else:
            draws = curve_draws(cells, study.name, self._scores)
        return {label: drawn for label, drawn in draws.items() if label in values}

    def _scores(self, cell: PredictionCell) -> dict[str, float | None]:
        """Label → measure × 100 of one fold and step."""
        scores = cell.scores.get(self.model, {}).get(self.features, {})
        percent = {name: None if value is None else 100 * value for name, value in scores.items()}
        return {before + _STEP.format(cell.step): percent.get(measure) for measure, before in MEASURES.items()}

    def _study(self, folder: Path, context: ExperimentContext) -> Path:
        """The folder of the study, which is run where it is missing; its summary is in it."""
        from visir.sessions.examples import Sample, draw
        from visir.sessions.prediction.study import STUDY, StudyPlan, load_study, run_study
        from visir.sessions.prediction.summary import summarise

        sample = Sample(
            self.setting,
            self.sessions,
            context.seed,
            self.min_pages,
            self.counted_pages,
            self.setting_from,
            self.dwell_times,
        )
        plan = StudyPlan((sample,), folds=self.folds, schemes=("grouped",), seed=context.seed)
        key = hash_json({"sample": sample.to_dict(), "folds": self.folds, "seed": context.seed})[:10]
        out = folder / f"predict-{self.setting}-{key}"
        # One study at a time: it has a process for every core.
        with context.locks.process, locked(folder / f"{out.name}.lock", waiting=f"{out}: waiting", elsewhere="--out"):
            if not (out / _SUMMARY).is_file():
                if not (out / "study.json").is_file():
                    try:
                        draw(folder / "log", sample)
                    except VisirError as fault:
                        raise InsufficientDataError(fault.message.partition(": ")[2] or fault.message) from fault
                cells = run_study(folder / "log", plan, out)
                put(out, STUDY, {_SUMMARY: json_bytes(summarise(load_study(out)[0], cells).to_json())})
        return out
