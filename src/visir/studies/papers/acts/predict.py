"""Predict purchases: Figures 6.6 and 6.7 of the thesis, out of one prediction study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from visir.encoders.locks import locked
from visir.errors import VisirError
from visir.files import read_json, write_json
from visir.fingerprint import hash_json
from visir.studies.papers.act import CannotTell, Measured, Work
from visir.studies.papers.logged import OfLog, sessions_of, told_of

_SUMMARY = "summary.json"


class Predict(OfLog):
    """One curve of the prediction study (`visir intent predict`): a setting, a model, a feature set.

    - `setting`, `sessions` (at most; all by default), `min_pages`: which sessions are predicted. Fewer pages have fewer
      steps: the last is two before, and never the eleventh.
    - `folds`: of the cross-validation, grouped by person
    - `gives`: "f1", percent, of `model` with `features`; of the random forest with the extended set "importance",
      percent of the decrease in impurity, mean over steps, or "static share", that of all static features by step

    Labels: "step 0" …; the names of features. All cells of a setting share one study of all models, which goes on where
    it was stopped. A log without sessions of the setting leaves the cell "not run", with the reason.
    """

    run: Literal["predict"] = "predict"
    setting: Literal["anonymous", "identified"]
    gives: Literal["f1", "importance", "static share"] = "f1"
    model: Literal["rf", "lr", "knn", "svm", "mlp", "gbdt"] = "rf"
    features: Literal["baseline", "extended"] = "extended"
    sessions: Annotated[int, Field(gt=0)] | None = None
    min_pages: Annotated[int, Field(ge=3)] = 12
    folds: Annotated[int, Field(ge=2)] = 10

    def what(self) -> str:
        """In a line."""
        return f"visir intent predict, {self.setting}, {self.folds} folds, on {self.log}"

    def measure(self, work: Work) -> Measured:
        """See `Act.measure`."""
        folder = sessions_of(self, work)
        found, told = self._study(folder, work), told_of(folder)
        if self.gives == "f1":
            rows = [one for one in found["rows"] if (one["model"], one["which"]) == (self.model, self.features)]
            values = {f"step {one['step']}": 100 * one["means"]["f1"] for one in rows}
        elif self.gives == "importance":
            part = found["importance"].get("impurity", {}).get(self.setting, {})
            values = {name: 100 * value for name, value in part.items()}
        else:
            values = {f"step {step}": 100 * share for step, share in found["static_share"].items()}
        drawn = found["card"]["found"][self.setting]
        bought = f"{drawn['sessions']:,}, {drawn['purchases']:,} with a purchase"
        said = {f"{self.setting} sessions": f"{bought}, of at least {self.min_pages} pages before an order"}
        said |= {"folds": f"{self.folds}, grouped by person"}
        said |= {f"version of {name}": one for name, one in found["card"]["versions"].items()}
        return Measured(values, self.ran(told), {**self.protocol(told), **said})

    def _study(self, folder: Path, work: Work) -> dict[str, Any]:
        """The summary of the study, which is run where it is not there yet."""
        from visir.sessions.examples import Sample, draw
        from visir.sessions.predict.study import Plan, load_study, run_study
        from visir.sessions.predict.summary import summarise

        sample = Sample(self.setting, self.sessions, work.seed, self.min_pages)
        plan = Plan((sample,), folds=self.folds, schemes=("grouped",), seed=work.seed)
        key = hash_json({"sample": sample.told_as(), "folds": self.folds, "seed": work.seed})[:10]
        out = folder / f"predict-{self.setting}-{key}"
        # One study at a time: it has a process for every core.
        with work.locks.here, locked(folder / f"{out.name}.lock", waiting=f"{out}: waiting", elsewhere="--out"):
            if not (out / _SUMMARY).is_file():
                if not (out / "study.json").is_file():
                    try:
                        draw(folder / "log", sample)
                    except VisirError as fault:
                        raise CannotTell(fault.message.partition(": ")[2] or fault.message) from fault
                cells = run_study(folder / "log", plan, out)
                write_json(out / _SUMMARY, summarise(load_study(out)[0], cells).to_json())
            found: dict[str, Any] = read_json(out / _SUMMARY)
        return found
