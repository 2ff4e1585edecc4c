"""Folders of studies: every number as JSON, tables as CSV, values as Parquet, and a page."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from visir.errors import VisirError
from visir.evaluation.classification.files import CLASSIFICATION, PREDICTIONS, VALUES
from visir.evaluation.classification.result import Classification
from visir.evaluation.granularity import GranularityStudy
from visir.evaluation.probes import ProbeResult
from visir.evaluation.stress.study import Stress
from visir.records import Collection
from visir.reports.classification import best_key, classes_table, tidy_accuracies, write_classification_report
from visir.reports.formats import to_csv
from visir.reports.granularity import tidy_changes, tidy_means, write_granularity_report
from visir.reports.probes import write_probe_report
from visir.reports.stress import granularity_line, write_stress_report
from visir.reports.stress_tables import as_dict, effects_table, per_query
from visir.robustness.perturbations import find
from visir.storage import FolderChange, FolderKind, new_folder

STRESS = FolderKind("stress", "a stress report")
PROBES = FolderKind("probes", "a probe report")
GRANULARITY = FolderKind("granularity", "a report of granularity")


def save_stress(study: Stress, folder: Path) -> None:
    """Write a stress study into a folder; `study.save` calls this."""
    with new_folder(folder, STRESS, replace=True) as change:
        write_stress(change, study)


def write_stress(
    change: FolderChange,
    study: Stress,
    part: Collection | None = None,
    *,
    folder: str = "",
    fail_under: float | None = None,
    command: str = "",
) -> None:
    """Write the files of a stress study: stress.json, stress.csv, per_query.parquet, stress.html."""
    part = study.source if part is None else part
    if part is None:
        raise VisirError(f"{study.system}: the pictures and captions of this study are not at hand, so it has no page.")
    change.write_json(f"{folder}stress.json", as_dict(study))
    change.write(f"{folder}stress.csv", to_csv(effects_table(study, wide=True)).encode())
    pq.write_table(per_query(study), change.file(f"{folder}per_query.parquet"), compression="zstd")
    write_stress_report(
        change.file(f"{folder}stress.html"),
        study,
        part,
        granularity=granularity_line(part) if _cut_into_words(study) else "",
        fail_under=fail_under,
        command=command,
        beside={
            "stress.json": "every number of this page, and the protocol",
            "stress.csv": "the table",
            "per_query.parquet": "every query: what was sent, rsum before and after",
        },
    )


def save_probes(result: ProbeResult, folder: Path, *, command: str = "") -> None:
    """Write probes into a folder: probes.json and probes.html; `result.save` calls this."""
    with new_folder(folder, PROBES, replace=True) as change:
        change.write_json("probes.json", result.to_dict())
        beside = {"probes.json": "every number of this page"}
        write_probe_report(change.file("probes.html"), result, command=command, beside=beside)


def save_granularity(study: GranularityStudy, folder: Path, *, command: str = "") -> None:
    """Write a study of granularity into a folder: JSON, CSV, the values of every caption, a page."""
    parts = []
    for by_profile in study.counted:
        for profile, counted in by_profile.items():
            table = counted.to_arrow()
            for position, (name, value) in enumerate((("collection", counted.name), ("profile", profile))):
                table = table.add_column(position, name, pa.array([value] * len(counted), pa.string()))
            parts.append(table)
    with new_folder(folder, GRANULARITY, replace=True) as change:
        change.write_json("granularity.json", study.to_dict())
        change.write("granularity.csv", to_csv(tidy_means(study)).encode())
        if study.comparisons:
            change.write("changes.csv", to_csv(tidy_changes(study)).encode())
        pq.write_table(pa.concat_tables(parts), change.file("captions.parquet"))
        write_granularity_report(change.file("granularity.html"), study, shlex.split(command))


def save_classification(result: Classification, folder: Path, *, command: str = "") -> None:
    """Write a classification into a folder: JSON, CSV, every prediction, a page; `result.save` calls this."""
    with new_folder(folder, CLASSIFICATION, replace=True) as change:
        change.write_json(VALUES, result.to_dict())
        change.write("classification.csv", to_csv(tidy_accuracies(result)).encode())
        change.write("classes.csv", to_csv(classes_table(result, best_key(result))).encode())
        pq.write_table(result.predicted(), change.file(PREDICTIONS), compression="zstd")
        beside = {
            VALUES: "every number of this page, and the protocol",
            "classification.csv": "the accuracies",
            "classes.csv": "the table of classes",
            PREDICTIONS: "every prediction: picture, class, method, shots, draw, predicted, rank",
        }
        page = change.file("classification.html")
        write_classification_report(page, result, command=command, beside=beside)


def _cut_into_words(study: Stress) -> bool:
    """Whether some perturbation needed words and their parts of speech: then they are at hand."""
    steps = [step for effect in study.effects if effect.outcome.task == "t2i" for step in effect.name.split("+")]
    return any(find(step).needs_words for step in steps)
