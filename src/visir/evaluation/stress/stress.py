"""The brittleness study: break the queries of a retrieval system on purpose, and say how badly it breaks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import visir.stats as stats
from visir.display import Plotted, Tabular, brief, counted
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.errors import ConfigurationError, RunError, nearest, raise_faults
from visir.evaluation.assembly import Pool, check_options
from visir.evaluation.assembly import assemble as assemble_tasks
from visir.evaluation.brittleness_runs import Log, evaluate_log, read
from visir.evaluation.compare import few_units_notes, in_words
from visir.evaluation.cross_modal import Estimator, dcg_cm
from visir.evaluation.measures import RSUM_CUTOFFS
from visir.evaluation.results import Saved
from visir.evaluation.scoring import least_depth, score
from visir.evaluation.sources import open_collection_of
from visir.evaluation.stress.answers import RunFolder, is_run_folder, unknown_condition
from visir.evaluation.stress.effect import (
    ConditionOutcome,
    Effect,
    Jaccard,
    StressByLabel,
    effects,
    effects_by_label,
    jaccard,
)
from visir.evaluation.systems import EncoderSystem, System
from visir.records import PLAIN, Collection, Items, Protocol, Qrels, Ranks, Recall, Result, Run, Ties
from visir.retrieval.exact import SearchResult
from visir.robustness.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from visir.robustness.perturb import CHANGED, perturb
from visir.robustness.perturbations import PERTURBATIONS, find, names_in
from visir.robustness.perturbations.base import NOT_DAMAGE, Profile
from visir.stats import TestName

# The record of a brittleness study: the effects of all perturbations, corrected together.


@dataclass(frozen=True, eq=False)
class Stress(Tabular, Plotted, Saved):
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
    adjusted = iter(stats.adjust(values, "holm").tolist() if values else [])
    return [
        replace(
            study,
            effects=tuple(replace(effect, p_corrected=next(adjusted)) for effect in study.effects),
            family=len(values),
        )
        for study in studies
    ]


# The options of a stress study: names and values, with all faults listed at once.


def names_of(
    system: System, perturbations: Sequence[str] | None, pictures: Sequence[str] | None, profile: Profile = "sound"
) -> dict[str, list[str]]:
    """The names of the conditions of a study."""
    requested: dict[str, tuple[Sequence[str] | None, Any]] = {
        "t2i": (perturbations, [name for name in names_in(profile) if find(name).family not in NOT_DAMAGE]),
        "i2t": (pictures, CORRUPTIONS),
    }
    names: dict[str, list[str]] = {}
    faults = []
    for task, (chosen, known) in requested.items():
        offered = system.conditions(task)
        possible = list(known) if offered is None else sorted(offered, key=[*known, *offered].index)
        names[task] = possible if chosen is None else list(dict.fromkeys(chosen))
        for perturbation in names[task]:
            fault = unknown_condition(perturbation, task)
            if fault:
                faults.append(fault)
            elif offered is not None and perturbation not in offered:
                faults.append(
                    f"{system.name} has no answers to {perturbation!r}; it has {', '.join(possible) or 'none'}"
                )
    if not faults and not any(names.values()):
        faults.append("nothing is perturbed: name perturbations of captions or corruptions of pictures")
    raise_faults(ConfigurationError, f"stress of {system.name}", faults)
    return names


def check_study(
    collection: Collection,
    names: Mapping[str, Sequence[str]],
    severity: int,
    picture_severity: int,
    seed: int,
    profile: str,
    estimator: object,
) -> None:
    """Check the other options of a study."""
    faults = []
    if severity < 1:
        faults.append(f"severity {severity}: from 1")
    if picture_severity not in SEVERITIES and names["i2t"]:
        faults.append(f"severity of pictures {picture_severity}: 1 to {SEVERITIES[-1]}")
    if seed < 0:
        faults.append(f"seed {seed} must not be negative")
    if profile not in ("sound", "paper"):
        faults.append(f"profile {profile!r} ({nearest(profile, ('sound', 'paper'))})")
    if estimator is not None and not isinstance(estimator, Encoder):
        faults.append("the estimator is an encoder")
    carried = [str(view) for view in (collection.injected, collection.corrupted) if view is not None]
    faults += [f"the collection is a view already ({view}); begin from the plain one" for view in carried]
    raise_faults(ConfigurationError, f"stress on {collection.name}", faults)


# Merge the answers to plain queries and those to perturbed queries into one run.


def merged(plain: SearchResult, anew: SearchResult) -> SearchResult:
    """Replace the answers of the queries that were searched again."""
    # A query that is not in `anew` is one whose caption the perturbation left as it is: it keeps its plain answer. A
    # query that is in `anew` without documents has no answer.
    assert plain.ranks is not None and anew.ranks is not None, "answers come with ranks"
    before, after = plain.ranks, anew.ranks
    row = pc.fill_null(pc.index_in(before.queries, after.queries), -1).to_numpy(zero_copy_only=False)
    is_new = row >= 0
    ranks, grades = before.ranks.copy(), before.grades.copy()
    inside = np.repeat(is_new, before.positives)
    # Both are in the order of the judgements and have the same positives, so the flat arrays line up.
    ranks[inside], grades[inside] = after.ranks, after.grades
    depths = [part.depth for part in (before, after) if part.depth is not None]
    joined = Ranks(before.queries, before.offsets, ranks, grades, min(depths) if depths else None, before.gallery_size)
    return SearchResult(_joined(plain.run, anew.run, before.queries, is_new), joined)


def _joined(plain: Run, anew: Run, queries: pa.StringArray, is_new: NDArray[np.bool_]) -> Run:
    """For each query the answer in `anew` if it was searched again, otherwise that in `plain`; it may be empty."""
    documents = pa.concat_arrays([plain.documents, anew.documents]).unique()
    indices, offsets = [], []
    for run in (plain, anew):
        number = pc.index_in(run.documents, documents).to_numpy(zero_copy_only=False).astype(np.int32)
        indices.append(number[run.indices])
        row = pc.fill_null(pc.index_in(queries, run.queries), -1).to_numpy(zero_copy_only=False)
        starts = np.where(row < 0, 0, run.offsets[row])
        offsets.append((starts, np.where(row < 0, 0, run.offsets[row + 1] - starts)))
    shift = len(plain.indices)
    starts = np.where(is_new, offsets[1][0] + shift, offsets[0][0])
    lengths = np.where(is_new, offsets[1][1], offsets[0][1])
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1])
    return Run(
        anew.name,
        plain.task,
        queries,
        ends,
        documents,
        np.concatenate(indices)[flat],
        np.concatenate([plain.scores, anew.scores])[flat],
        plain.gallery,
        min(plain.depth, anew.depth),
        dict(anew.provenance),
    )


DCG = "dcg_cm@10"
DEPTH = 10
"""The depth of the runs: rsum and dcg_cm look at ten answers, and pages of examples show fewer."""


def stress(
    source: Any,
    model: Any,
    *,
    images: Any = None,
    split: str | None = None,
    perturbations: Sequence[str] | str | None = None,
    corruptions: Sequence[str] | str | None = None,
    severity: int = 1,
    picture_severity: int = 3,
    seed: int = 0,
    profile: Profile = "sound",
    recall: Recall = "hit",
    ties: Ties = "id",
    relevance: str = "links",
    gallery: Pool = "split",
    estimator: Encoder | str | None = None,
    test: TestName = "t",
    name: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
    **encoding: Any,
) -> Stress:
    """Search a collection with plain and with perturbed queries, and compare query by query.

    Perturbed captions are queries over the plain images (t2i), corrupted pictures are queries over the plain captions
    (i2t). The candidates are never changed, so every difference comes from the query. Only queries that a perturbation
    changed are searched again.

    Args:
        source: The plain collection, or what `visir.open` takes.
        model: A model or its name; a folder of runs, `none.trec` and one for each perturbation; or a `System` that
            answers perturbed queries.
        images: Where the pictures of the source are.
        split: "test", "train+val", …; None is everything.
        perturbations: Perturbations of captions, by name; None or "all" takes all that damage captions and that the
            system can answer (thirteen for an encoder), an empty list or "none" takes none.
        corruptions: Of pictures, in the same way.
        severity: How many units (characters, words) each perturbation changes, from 1.
        picture_severity: How badly pictures are spoilt, 1 to 5.
        seed: The seed of perturbations and tests.
        profile: Rules: "sound", or "paper", which does what the brittleness paper's released code did. See
            `visir.robustness.perturb`.
        recall: The recall that is summed to rsum. The brittleness paper's t2i numbers are the same under all three
            readings, because a caption has one image.
        ties: How equal scores are counted.
        relevance: The set of judgements.
        gallery: The candidates: of the "split" or of the whole "collection".
        estimator: A model that estimates the gains of dcg_cm: what wrong answers are worth. For dcg_cm@10.
        test: "t", "randomisation" or "wilcoxon", over images with their captions; Holm's correction over all effects.
        name: What tables call the system.
        device: Where models that are named are run.
        dtype: Their arithmetic.
        **encoding: Options of `visir.encoders.encode`, if the system is an encoder.

    Returns:
        The study: `study.effect("char_swap")`, `study.save("folder")`.

    Raises:
        ConfigurationError: Options are faulty; all are listed.

    Example:
        >>> from pathlib import Path
        >>> import visir
        >>> collection = Collection.build(
        ...     "two pictures",
        ...     images={"id": ["a", "b"]},
        ...     captions={"id": ["1", "2"], "text": ["a red ball", "a blue car"], "image_id": ["a", "b"]},
        ... )
        >>> rows = {"none": "1a 2b 1b 2a", "char_swap": "1b 2a 1a 2b"}  # query and document, the best first
        >>> Path("runs").mkdir()
        >>> for name, answers in rows.items():
        ...     lines = [f"{q} Q0 {d} {n} {-n} x" for n, (q, d) in enumerate(answers.split(), 1)]
        ...     _ = Path(f"runs/{name}.trec").write_text(chr(10).join(lines))
        >>> effect = visir.stress(collection, "runs").effect("char_swap")
        >>> effect.overall.before, effect.overall.after  # R@1, R@5 and R@10; then R@1 is 0
        (300.0, 200.0)
    """
    started = time.perf_counter()
    timing: dict[str, float] = {}
    collection = open_collection_of(source, images, "stress")
    estimator = load(estimator, device=device, dtype=dtype) if isinstance(estimator, str) else estimator
    subject = _system(model, name, device, dtype, encoding)
    names = names_of(subject, _listed(perturbations), _listed(corruptions), profile)
    check_study(collection, names, severity, picture_severity, seed, profile, estimator)
    stressed = [task for task, conditions in names.items() if conditions]
    check_options(collection, recall=recall, ties=ties, gallery=gallery, split=split)
    part = collection.split(split)
    assembly = assemble_tasks(collection, split=split, relevance=relevance, gallery=gallery, tasks=stressed)
    assembly = replace(assembly, folds={task: assembly.folds[task] for task in stressed})  # captions first
    tasks = {task: assembly.tasks[task] for task in stressed}
    subject.prepare(list(tasks.values()))
    qrels = {task: assembly.qrels[task] for task in stressed}
    plain = {name: subject.checked_search([task], depth=DEPTH, ties=ties)[0] for name, task in tasks.items()}
    judge = None
    if estimator is not None:
        estimating = EncoderSystem(estimator, **encoding)
        estimating.prepare(list(assembly.tasks.values()))
        judge = Estimator.of(estimating.by_modality())
    protocol = assembly.protocol(
        recall=recall,
        ties=ties,
        depth=least_depth({name: [result.ranks] for name, result in plain.items() if result.ranks is not None}),
        estimator=None if judge is None else judge.line,
        **subject.fields(),
    )

    def measured(searched: Mapping[str, SearchResult], perturbation: str | None = None) -> Result:
        """The answers as a result, always with the same judgements, labels, recall and estimator."""
        gains = None
        if judge is not None:
            gains = {name: dcg_cm(result.run, qrels[name], [10], judge) for name, result in searched.items()}
        return score(
            subject.name,
            {name: [result.ranks] for name, result in searched.items() if result.ranks is not None},
            protocol.changed(perturbation=perturbation),
            measures=[*(f"{recall}@{k}" for k in RSUM_CUTOFFS), "mean_rank"],
            further=gains,
            labels={name: [tasks[name].labels] for name in searched},
        )

    outcomes: list[ConditionOutcome] = []
    for task, conditions in names.items():
        for perturbation in conditions:
            condition_started = time.perf_counter()
            view, queries, changed, description = _condition(
                perturbation, task, part, qrels[task], severity, picture_severity, seed, profile
            )
            timing["perturb"] = timing.get("perturb", 0.0) + time.perf_counter() - condition_started
            searched = plain[task]
            if changed.any():
                perturbed = replace(tasks[task], queries=queries, condition=perturbation, labels=None)
                searched = merged(searched, subject.checked_search([perturbed], depth=DEPTH, ties=ties)[0])
            title, family = _called(perturbation, task)
            result = measured({task: searched}, description)
            spoilt = view.corrupted
            texts = _texts(queries)
            outcomes.append(
                ConditionOutcome(
                    perturbation, title, family, description, task, changed, result, searched.run, texts, spoilt
                )
            )
    timing["in the system"] = spent = sum(subject.seconds.values())
    study = assemble(
        subject.name,
        measured(plain),
        {name: searched.run for name, searched in plain.items()},
        qrels,
        outcomes,
        part.captions,
        test=test,
        seed=seed,
        notes=subject.notes,
    )
    timing["elsewhere"] = time.perf_counter() - started - spent
    return replace(study, timing=timing, source=part if gallery == "split" else collection)


def _called(name: str, task: str) -> tuple[str, str]:
    """The title and the family of a perturbation, or of several joined by "+"."""
    if task == "i2t":
        return CORRUPTIONS.get(name).title, CORRUPTIONS.get(name).family
    steps = [find(step) for step in name.split("+")]
    # "nearby_char:azerty" looks at another keyboard than its title says.
    titles = [step.title + f" ({step.name.partition(':')[2]})" * (":" in step.name) for step in steps]
    return " + ".join(titles), " + ".join(dict.fromkeys(step.family for step in steps))


def _condition(
    name: str,
    task: str,
    part: Collection,
    qrels: Qrels,
    severity: int,
    picture_severity: int,
    seed: int,
    profile: Profile,
) -> tuple[Collection, Items, NDArray[np.bool_], str]:
    """The perturbed view, its changed queries, which of the judged queries these are, and the protocol's line."""
    if task == "i2t":
        spoilt = corrupt(part, name, picture_severity, seed)
        return spoilt, _only(spoilt.items("image"), qrels.queries), np.ones(len(qrels), bool), str(spoilt.corrupted)
    view = perturb(part, name, severity=severity, seed=seed, profile=profile)
    assert view.caption_facts is not None, "a perturbed collection says what changed"
    flags = view.caption_facts
    ids = flags["caption_id"].filter(flags[CHANGED]).combine_chunks()
    changed = pc.is_in(qrels.queries, ids).to_numpy(zero_copy_only=False)
    queries = qrels.queries.filter(pa.array(changed))
    counted = " and ".join(dict.fromkeys(filter(None, (find(step).severity for step in name.split("+")))))
    description = (
        f"captions: {name}{f', severity {severity} ({counted})' if counted else ''}, seed {seed}, {profile} profile"
    )
    return view, _only(view.items("text"), queries), changed, description


def _only(items: Items, ids: pa.StringArray) -> Items:
    """The items of these ids, in the order of the items."""
    return items.take(np.flatnonzero(pc.is_in(items.ids, ids).to_numpy(zero_copy_only=False)))


def _texts(items: Items) -> dict[str, str]:
    """Texts by id; none for pictures."""
    return {} if items.texts is None else dict(zip(items.ids.to_pylist(), items.texts.to_pylist(), strict=True))


def _listed(names: Sequence[str] | str | None) -> Sequence[str] | None:
    """Names as a list: "all" is all there are (None), "none" is none."""
    if isinstance(names, str):
        return None if names == "all" else [] if names == "none" else [name.strip() for name in names.split(",")]
    return names


def _system(model: Any, name: str | None, device: str | None, dtype: str, encoding: Mapping[str, Any]) -> System:
    """The system. An encoder with precomputed vectors is refused, because it cannot encode perturbed queries."""
    if isinstance(model, (str, PathLike)):
        model = fspath(model)
        model = RunFolder(model, name) if is_run_folder(model) else load(str(model), device=device, dtype=dtype)
    system: Encoder | System = model
    if not isinstance(system, (Encoder, System)):
        raise ConfigurationError(
            f"a {type(model).__name__} cannot be asked perturbed queries.",
            hint="give a model or its name, a folder of runs (visir perturb, then search), or a System",
            code="cannot-asked-perturbed-queries",
        )
    if not isinstance(system, Encoder):
        return system
    for modality in ("image", "text"):
        if system.root_encoder(modality).precomputed:
            raise ConfigurationError(
                f"{system.card.name}: vectors that were made elsewhere cannot be asked perturbed queries.",
                hint="name the model itself; or write the perturbed captions (visir perturb), search them "
                "where the model is, and give the runs (--runs)",
                code="vectors-made-elsewhere-cannot",
            )
    return EncoderSystem(system, None, name, zero_queries="unanswered", **encoding)


# The study of the brittleness paper, computed from its authors' logs instead of our own searches.


def stress_logs(folder: str | Path, *, recall: Recall = "hit") -> Stress:
    """Compute the effects in the logs of one model on one collection."""
    # Text-to-image only: the authors perturbed no pictures. A caption counts as changed if its text differs from that
    # in the unperturbed log.
    place = Path(folder).resolve() / "t2i"
    if not (place / f"{PLAIN}.parquet").is_file():
        raise RunError(f"{place}: no unperturbed log ({PLAIN}.parquet).", hint="changes are measured from it")
    plain = read(place / f"{PLAIN}.parquet")
    before = evaluate_log(plain, recall=recall)
    outcomes = []
    for name in PERTURBATIONS:
        path = place / f"{name}.parquet"
        if path.is_file():
            outcomes.append(_outcome(plain, read(path), name, recall))
    queries = plain.qrels.queries.to_pylist()
    captions = pa.table(
        {
            "id": plain.qrels.queries,
            "text": [plain.texts[query] for query in queries],
            "image_id": plain.qrels.documents,  # each caption has one image
        }
    )
    return assemble(
        plain.system, before.result, before.runs, before.qrels, outcomes, captions, notes=before.result.notes
    )


def _outcome(plain: Log, log: Log, name: str, recall: Recall) -> ConditionOutcome:
    if not log.qrels.queries.equals(plain.qrels.queries):
        raise RunError(f"{log.run.provenance['source']}: asks other queries than the unperturbed log.")
    perturbation = PERTURBATIONS.get(name)
    changed = {
        query: log.texts[query] for query in log.qrels.queries.to_pylist() if log.texts[query] != plain.texts[query]
    }
    evaluated = evaluate_log(log, recall=recall)
    return ConditionOutcome(
        name,
        perturbation.title,
        perturbation.family,
        name,
        "t2i",
        np.array([query in changed for query in log.qrels.queries.to_pylist()]),
        evaluated.result,
        log.run,
        changed,
    )
