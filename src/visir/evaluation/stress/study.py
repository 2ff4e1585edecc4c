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
    """The result of a stress study: one system, one collection, many perturbations.

    Attributes:
        system: The name of the system.
        collection: The name of the collection.
        plain: The unperturbed result, of the stressed tasks. A perturbed result has the same protocol except for the
            line on the perturbation.
        runs: By task: the unperturbed runs.
        qrels: By task: the judgements.
        effects: One for each perturbation, those of captions (t2i) first.
        jaccard: Whether perturbations break the same captions; None for fewer than two.
        texts: Caption id → unperturbed text.
        images: Caption id → image id.
        how: The test and the correction in words.
        family: The number of effects that the correction counts.
        timing: Seconds by stage.
        notes: Notes for the reader.
        source: What was searched, to show pictures; None where it is not at hand.
    """

    system: str
    collection: str
    plain: Result
    runs: Mapping[str, Run]
    qrels: Mapping[str, Qrels]
    effects: tuple[Effect, ...]
    jaccard: Jaccard | None
    texts: Mapping[str, str]
    images: Mapping[str, str]
    how: str
    family: int
    timing: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
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
        """The effect of one perturbation.

        Args:
            name: The name of the perturbation.

        Returns:
            The effect.

        Raises:
            ConfigurationError: There is none of this name.
        """
        for effect in self.effects:
            if effect.name == name:
                return effect
        raise ConfigurationError(
            f"{self.system}: no effect of {name!r}.", hint=nearest(name, [effect.name for effect in self.effects])
        )

    def by(self, label: str, *, seed: int = 0) -> StressByLabel:
        """The effects for each value of a label of the queries: by language.

        Args:
            label: The name of the label.
            seed: The seed of the intervals.

        Returns:
            One row for each perturbation and value: the rsum before and after, the change and its 95 % interval.

        Raises:
            VisirError: No query has such a label.
        """
        rows = effects_by_label(self.plain, self.effects, self.images, label, seed=seed)
        return StressByLabel(self.system, self.collection, label, rows)

    def under(self, percent: float) -> list[Effect]:
        """The effects that leave less than a given share of the unperturbed rsum, over all queries.

        Args:
            percent: The limit, in percent.

        Returns:
            The effects, in order.
        """
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
    """Put a study together from results; `stress` and `stress_logs` use it.

    Args:
        system: The name of the system.
        plain: The unperturbed result.
        runs: By task: the unperturbed runs.
        qrels: By task: the judgements.
        outcomes: The outcomes of the perturbations.
        captions: Columns id, text, image_id; of the queried captions at least.
        test: "t", "randomisation" or "wilcoxon".
        seed: The seed of the resampling and of the test.
        notes: Notes for the reader.

    Returns:
        The study, with p-values corrected over its effects.
    """
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
    """Correct the p-values (Holm) over the effects of all studies as one family.

    Args:
        studies: The studies.

    Returns:
        The same studies with new `p_corrected` and `family`.
    """
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
