"""The record of a brittleness study: the effects of all perturbations, corrected together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from visir.display import Plotted, Tabular, brief, counted
from visir.errors import ConfigurationError, nearest
from visir.evaluation.paired_difference import few_units_notes, in_words
from visir.evaluation.saved import Saved
from visir.evaluation.significance import TestName, corrected
from visir.evaluation.stress.by_label import StressByLabel, effects_by_label
from visir.evaluation.stress.effect import ConditionOutcome, Effect, effects
from visir.evaluation.stress.jaccard import Jaccard, jaccard
from visir.records import Collection, Protocol, Qrels, Result, Run


@dataclass(frozen=True, eq=False)
class Stress(Tabular, Plotted, Saved, view="visir.reports.views.stress", writer="visir.reports.saving:save_stress"):
    """The result of a stress study: one system, one collection, many perturbations."""

    system: str  # the name of the system
    collection: str  # the name of the collection
    # The unperturbed result, of the stressed tasks. A perturbed result has the same protocol except for the line on the
    # perturbation.
    plain: Result
    runs: Mapping[str, Run]  # by task: the unperturbed runs
    qrels: Mapping[str, Qrels]  # by task: the judgements
    effects: tuple[Effect, ...]  # one for each perturbation, those of captions (t2i) first
    jaccard: Jaccard | None  # whether perturbations break the same captions; None for fewer than two
    texts: Mapping[str, str]  # caption id → unperturbed text
    images: Mapping[str, str]  # caption id → image id
    how: str  # the test and the correction in words
    family: int  # the number of effects that the correction counts
    timing: Mapping[str, float] = field(default_factory=dict)  # seconds by stage
    notes: tuple[str, ...] = ()  # notes for the reader
    # What was searched, to show pictures; None where it is not at hand.
    source: Collection | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        rsum = {task: values["rsum"] for task, values in self.plain.aggregates.items() if "rsum" in values}
        worst = sorted(self.effects, key=lambda effect: effect.overall.points)[:3]
        return brief(
            self,
            f"{self.system} on {self.collection}: {counted(len(self.effects), 'perturbations')}",
            f"unperturbed rsum: {', '.join(f'{task} {value:.1f}' for task, value in rsum.items())}",
            *(f"{effect.name}: {effect.overall.percent:+.1f} %, p {effect.p_corrected:.2g}" for effect in worst),
        )

    @property
    def protocol(self) -> Protocol:
        """The protocol of the unperturbed search."""
        return self.plain.protocol

    def effect(self, name: str) -> Effect:
        """The effect of one perturbation."""
        for effect in self.effects:
            if effect.name == name:
                return effect
        raise ConfigurationError(
            f"{self.system}: no effect of {name!r}.", hint=nearest(name, [effect.name for effect in self.effects])
        )

    def by(self, label: str, *, seed: int = 0) -> StressByLabel:
        """The effects for each value of a label of the queries: by language."""
        rows = effects_by_label(self.plain, self.effects, self.images, label, seed=seed)
        return StressByLabel(self.system, self.collection, label, rows)

    def under(self, percent: float) -> list[Effect]:
        """The effects that leave less than a given share of the unperturbed rsum, over all queries."""
        return [effect for effect in self.effects if effect.overall.percent_left < percent]


def assemble(
    system: str,
    plain: Result,
    runs: Mapping[str, Run],
    qrels: Mapping[str, Qrels],
    outcomes: Sequence[ConditionOutcome],
    captions: pa.Table,
    *,
    test: TestName = "t",
    seed: int = 0,
    notes: Sequence[str] = (),
) -> Stress:
    """Put a study together from results; `stress` and `stress_logs` use it."""
    images = dict(zip(captions["id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
    all_effects: list[Effect] = []
    units: dict[str, int] = {}
    for task in ("t2i", "i2t"):
        task_outcomes = [outcome for outcome in outcomes if outcome.task == task]
        if task_outcomes:
            ids = plain.per_query[task]["query_id"].to_pylist()
            clusters = [images[identifier] for identifier in ids] if task == "t2i" else None
            units[task] = len(set(clusters or ids))
            all_effects += effects(plain, task_outcomes, clusters, test=test, seed=seed)
    limits = few_units_notes(units, test, intervals=False)
    limits += [f"not testable, because there is only one image: {task}" for task, count in units.items() if count == 1]
    of_captions = {effect.name: effect.after - effect.before for effect in all_effects if effect.outcome.task == "t2i"}
    study = Stress(
        system,
        plain.protocol.collection,
        plain,
        runs,
        qrels,
        tuple(all_effects),
        jaccard(of_captions) if len(of_captions) > 1 else None,
        dict(zip(captions["id"].to_pylist(), captions["text"].to_pylist(), strict=True)),
        images,
        f"{in_words(test, seed, units)} over images, with all their captions",
        len(all_effects),
        notes=tuple(dict.fromkeys([*notes, *limits])),
    )
    return with_correction([study])[0]


def with_correction(studies: Sequence[Stress]) -> list[Stress]:
    """Correct the p-values (Holm) over the effects of all studies as one family."""
    values = [effect.p for study in studies for effect in study.effects]
    adjusted = iter(corrected(values, "holm").tolist() if values else [])
    return [
        replace(
            study,
            effects=tuple(replace(effect, p_corrected=next(adjusted)) for effect in study.effects),
            family=len(values),
        )
        for study in studies
    ]
