"""Results in the files of mteb: written from an evaluation, and read to stand beside one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from visir.display import Displayed, brief
from visir.errors import VisirError
from visir.evaluation.mteb.model import model_name
from visir.files import json_bytes, read_text
from visir.storage import write_new

CUTOFFS = (1, 3, 5, 10, 20, 100, 1000)
NAMES = {"ndcg": "ndcg", "map": "map", "recall": "recall", "precision": "precision", "mrr": "mrr", "hit": "hit_rate",
         "capped_recall": "R_cap"}  # fmt: skip
"""What mteb calls a measure."""
MTEB_MEASURES = tuple(f"{name}@{cutoff}" for name in NAMES if name != "capped_recall" for cutoff in CUTOFFS)
"""The measures of mteb's retrieval tasks: what `measures="mteb"` stands for."""
_COMMAS = re.compile(r",(?![^()]*\))")
_OWN = {name: measure for measure, name in NAMES.items()}
_SPLITS = {"val": ("validation", "dev", "val")}


def write_mteb(
    evaluation: Any,
    folder: str | Path,
    *,
    task: str | None = None,
    split: str | None = None,
    model: str | None = None,
    revision: str | None = None,
    main_score: str | None = None,
) -> Path:
    """Write an evaluation as a file of results of mteb, where `mteb.ResultCache(folder)` finds it."""
    # The file is `FOLDER/results/MODEL/REVISION/TASK.json`. Values have all their digits; mteb itself rounds to five.
    name = task or evaluation.protocol.collection
    known = _metadata(name)
    main = main_score or (known.main_score if known else "ndcg_at_10")
    split = split or _mteb_split(evaluation.protocol.split, known)
    languages = known.hf_subsets_to_langscripts if known else {}
    entries = []
    for part, measured in evaluation.aggregates.items():
        if part not in evaluation.per_query:
            continue
        scores = {mteb: value for measure, value in measured.items() if (mteb := mteb_name(measure)) is not None}
        if "recall_at_1" in scores:
            scores["accuracy"] = scores["recall_at_1"]
        if main not in scores:
            raise VisirError(
                f"{part}: the main score of {name}, {main}, was not measured.",
                hint='visir.evaluate(…, measures="mteb")',
                code="main-score-not-measured",
            )
        subset = part if len(evaluation.per_query) > 1 or part in languages else "default"
        subset = next(iter(languages)) if len(languages) == 1 else subset
        entries.append({**scores, "main_score": scores[main], "hf_subset": subset,
                        "languages": list(languages.get(subset, ())), "mteb_version": _version()})  # fmt: skip
    content = {
        "dataset_revision": known.revision if known else evaluation.protocol.collection_fingerprint,
        "task_name": name,
        "mteb_version": _version(),
        "scores": {split: entries},
        "evaluation_time": sum(evaluation.timing.values()),
        "kg_co2_emissions": None,
        "date": datetime.now(UTC).timestamp(),
    }
    called = model or model_name(evaluation.system)
    place = Path(folder) / "results" / called.replace("/", "__").replace(" ", "_") / (revision or "visir")
    path = place / f"{name}.json"
    if path.exists():
        raise VisirError(
            f"{path}: there is such a file.", hint="name another folder, model or revision", code="file-there-already"
        )
    about = place / "model_meta.json"
    for file, values in ((about, _meta(called, revision or "visir")), (path, content)):
        if file is path or not file.exists():  # what is known of the model may come from mteb itself
            write_new(file, json_bytes(values))
    return path


def with_mteb(measures: Sequence[str] | str | None) -> Sequence[str] | None:
    """The names of measures as a list, "mteb" spelt out; a text has them by commas: "R@1, AP(rel=2)@10"."""
    names = [name.strip() for name in _COMMAS.split(measures)] if isinstance(measures, str) else measures
    if not isinstance(names, Sequence) or "mteb" not in names:
        return names
    return list(dict.fromkeys([*(name for name in names if name != "mteb"), *MTEB_MEASURES]))


@dataclass(frozen=True)
class MtebResults(Displayed):
    """The numbers of one model on one task, as mteb wrote them. They have no values of single queries."""

    task: str  # the name of the task
    revision: str  # the version of its data
    # By (split, subset): {measure as visir names it: value}; nAUC and the like keep mteb's names.
    scores: Mapping[tuple[str, str], Mapping[str, float]]
    path: str = ""  # the file

    def __repr__(self) -> str:
        lines = [f"{split} {subset}: main score {values.get('main_score', float('nan')):.5f}"
                 for (split, subset), values in self.scores.items()]  # fmt: skip
        return brief(self, f"{self.task} by mteb", *lines)

    def beside(self, evaluation: Any) -> dict[str, dict[str, tuple[float, float]]]:
        """The numbers of an evaluation beside these, where both measured the same."""
        # Returns: By task {measure: (here, in the file)}. Rounding aside, both are equal where ties are counted as mteb
        # does.
        evaluation = getattr(evaluation, "result", evaluation)
        both: dict[str, dict[str, tuple[float, float]]] = {}
        for part, measured in evaluation.aggregates.items():
            for (split, subset), values in self.scores.items():
                fits = split == evaluation.protocol.split or split in _SPLITS.get(evaluation.protocol.split, ())
                if fits and subset in (part, "default"):
                    both[part] = {name: (value, values[name]) for name, value in measured.items() if name in values}
        if not any(both.values()):
            listing = ", ".join(f"{split} {subset}" for split, subset in self.scores)
            raise VisirError(
                f"{self.task}: nothing in common with {', '.join(evaluation.tasks)} of {evaluation.protocol.split}.",
                hint=f"the file has {listing}",
            )
        return both


def read_mteb(path: str | Path) -> MtebResults:
    """Read a file of results of mteb (`TASK.json`)."""
    try:
        content = json.loads(read_text(path))  # mteb writes NaN, which is no JSON for stricter readers
    except ValueError as fault:
        raise VisirError(f"{path}: not valid JSON: {fault}", hint="copy it again", code="not-valid-json") from fault
    if not is_mteb_result(content):
        raise VisirError(f"{path}: not a file of results of mteb.", hint="it has task_name and scores by split")
    scores = {
        (str(split), str(entry["hf_subset"])): {
            own_name(name): float(value) for name, value in entry.items() if isinstance(value, (int, float))
        }
        for split, entries in content["scores"].items()
        for entry in entries
    }
    return MtebResults(content["task_name"], str(content.get("dataset_revision", "")), scores, str(path))


def is_mteb_result(content: object) -> bool:
    """Whether the content of a JSON file is a result of mteb."""
    return isinstance(content, dict) and "task_name" in content and isinstance(content.get("scores"), dict)


def mteb_name(measure: str) -> str | None:
    """What mteb calls a measure; None where it has none."""
    name, _, cutoff = measure.partition("@")
    return f"{NAMES[name]}_at_{cutoff}" if name in NAMES and cutoff.isdecimal() else None


def own_name(name: str) -> str:
    """What visir calls a measure of mteb; other names stay."""
    match = re.fullmatch(r"(.+)_at_(\d+)", name)
    return f"{_OWN[match[1]]}@{match[2]}" if match and match[1] in _OWN else name


def _metadata(name: str) -> Any:
    """What mteb knows of a task; None where it does not know it, or is not installed."""
    if find_spec("mteb") is None:
        return None
    import mteb

    try:
        return mteb.get_task(name).metadata
    except KeyError:
        return None


def _mteb_split(split: str, known: Any) -> str:
    if split == "all" and known is not None and len(known.eval_splits) == 1:
        return str(known.eval_splits[0])
    names = _SPLITS.get(split, (split,))
    return next((name for name in names if known is not None and name in known.eval_splits), names[0])


def _version() -> str:
    try:
        return version("mteb")
    except PackageNotFoundError:
        return "2.0.0"


def _meta(name: str, revision: str) -> dict[str, Any]:
    if find_spec("mteb") is None:
        return {"name": name, "revision": revision}
    from mteb.models import ModelMeta

    meta: dict[str, Any] = ModelMeta.create_empty().model_copy(update={"name": name, "revision": revision}).to_dict()
    return meta
