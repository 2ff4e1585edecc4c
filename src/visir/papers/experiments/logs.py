"""Read what the brittleness paper's authors logged: its Tables 2, 3 and 5, and thesis Tables 5.2 to 5.4."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from visir.papers.published_values import nearest_reading, values_of
from visir.papers.query_draws import query_draws
from visir.records import PLAIN
from visir.studies.draws import Draws
from visir.studies.experiment import Experiment, ExperimentContext, InsufficientDataError, Measurement
from visir.training.recipe import expand

THIRTEEN = 13
"""How many perturbations the paper has; of these the similarity of sets is a mean over all pairs."""
GROUPS = {
    "distraction": ("distraction_true", "distraction_false"),
    "lexical_variation": ("synonym_noun", "synonym_adj"),
    "typos": ("char_swap", "missing_char", "extra_char", "nearby_char"),
}
"""Labels of thesis Table 5.3 that are means of perturbations (which they are is in the notes of the table)."""


class LogsExperiment(Experiment):
    """The authors' own runs, measured anew."""

    # A row without the logs that it needs is "not run", and a log that fills no value of the table is named in a note.

    experiment: Literal["logs"] = "logs"
    # The logs of one model on one collection: `i2t/none.parquet`, `t2i/none.parquet`, `t2i/PERTURBATION.parquet`, or
    # some of them.
    folder: str
    # "plain", recalls and DCG of the unperturbed runs; "perturbed", rsum of text to image under each perturbation;
    # "jaccard", how similar the sets of captions are that perturbations harm, help or leave.
    quantity: Literal["plain", "perturbed", "jaccard"]

    def describe(self) -> str:
        """See `Experiment.describe`."""
        return f"the authors' logs in {self.folder}"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        folder = Path(expand(self.folder)).resolve()
        provenance = {"system": f"{self.system}, by its authors", "collection": f"{self.collection}, by its authors"}
        if self.quantity == "plain":
            return self._plain(folder, provenance, context)
        return (
            self._perturbed(folder, provenance, context)
            if self.quantity == "perturbed"
            else self._jaccard(folder, provenance)
        )

    def _plain(self, folder: Path, provenance: dict[str, str], context: ExperimentContext) -> Measurement:
        from visir.evaluation.brittleness_runs import evaluate_log, read

        values: dict[str, float] = {}
        draws: dict[str, Draws] = {}
        protocol: dict[str, str] = {}
        explained: list[str] = []
        notes: list[str] = []
        for task in ("i2t", "t2i"):
            path = folder / task / "none.parquet"
            if not path.is_file():
                notes.append(f"{task}: there is no unperturbed log")
                continue
            evaluation = evaluate_log(read(path))
            values |= values_of(evaluation.result.aggregates, context.row)
            draws |= query_draws(evaluation.result, context.row)
            protocol |= dict(evaluation.result.protocol.card())
            notes += evaluation.result.notes
            reading = nearest_reading(evaluation, context)
            explained += [reading] if reading else []
        if not protocol:
            raise InsufficientDataError("there is no unperturbed log")
        return Measurement(values, provenance, protocol, " ".join(explained), tuple(dict.fromkeys(notes)), draws=draws)

    def _perturbed(self, folder: Path, provenance: dict[str, str], context: ExperimentContext) -> Measurement:
        from visir.evaluation.brittleness_runs import evaluate_log, read

        paths = sorted((folder / "t2i").glob("*.parquet"))
        if not paths:
            raise InsufficientDataError("there is no log of text to image")
        logs = {path.stem: evaluate_log(read(path)).result for path in paths}
        logs = {"rsum" if name == PLAIN else name: result for name, result in logs.items()}
        rsums = {name: result.mean("t2i", "rsum") for name, result in logs.items()}
        draws = {name: query_draws(result, None)["t2i rsum"] for name, result in logs.items()}
        notes = []
        for group, parts in GROUPS.items():
            there = [part for part in parts if part in rsums]
            if len(there) == len(parts):
                rsums[group] = sum(rsums[part] for part in parts) / len(parts)
                draws[group] = np.mean([draws[part] for part in parts], axis=0)
            else:
                notes.append(f"t2i {group}: the mean of {', '.join(parts)}; {_logs_of(there)}")
        printed = set(rsums) if context.row is None else set(context.row.values["t2i"])
        notes += [f"t2i {name}: there is no log of it" for name in sorted(printed - set(rsums) - set(GROUPS))]
        protocol = dict(next(iter(logs.values())).protocol.card())
        return Measurement(
            {f"t2i {name}": value for name, value in rsums.items()},
            provenance,
            protocol,
            notes=tuple(notes),
            draws={f"t2i {name}": values for name, values in draws.items()},
        )

    def _jaccard(self, folder: Path, provenance: dict[str, str]) -> Measurement:
        from visir.evaluation.stress.jaccard import GROUPS as SETS
        from visir.evaluation.stress.logs import stress_logs
        from visir.papers.stress_draws import jaccard_draws

        perturbed = sorted(path.stem for path in (folder / "t2i").glob("*.parquet") if path.stem != PLAIN)
        if not (folder / "t2i" / f"{PLAIN}.parquet").is_file():
            raise InsufficientDataError(
                "changes are measured from the unperturbed log of text to image; "
                + (f"there are only logs of {', '.join(perturbed)}" if perturbed else "there is none")
            )
        study = stress_logs(folder)
        similarity = study.jaccard
        if similarity is None:
            raise InsufficientDataError(f"a similarity compares two perturbations; {_logs_of(perturbed)}")
        values = {f"t2i {name}": similarity.mean(name) for name in SETS}
        reason = (
            f"the mean over pairs of {len(similarity.names)} perturbations; the paper's is over pairs of {THIRTEEN}, "
            "and there are no logs of the others"
        )
        partial = {} if len(similarity.names) == THIRTEEN else dict.fromkeys(values, reason)
        notes = [*study.notes, *([reason] if partial else [])]
        draws = {f"t2i {group}": drawn for group, drawn in jaccard_draws(study).items()}
        protocol = dict(study.protocol.card())
        return Measurement(values, provenance, protocol, notes=tuple(notes), not_judged=partial, draws=draws)


def _logs_of(perturbations: list[str]) -> str:
    """Which of the logs that a value needs there are."""
    return f"there is only a log of {', '.join(perturbations)}" if perturbations else "there is no log of these"
