"""The study of thesis chapter 3: what a dense model's vectors lose, and cost, in weighted words.

`study` trains and measures, `effectiveness` and others are its tables, `cost_and_effect` and `overlap_histogram` its
figure, `sparse_trend_checks` what the chapter says of them. `sparse_tables.py` prints all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.faithfulness import correlations, overlap_at
from visir.evaluation.published import load
from visir.evaluation.results import Evaluation
from visir.reports.plots import DASHES, FAINT, INK, MARKERS, SERIES, drawing
from visir.reports.table import Cell, Column, Table, one_line
from visir.stats import adjust, difference
from visir.stats.differences import paired_t, randomisation
from visir.studies.trial import run_trials
from visir_papers.draws import TrendCheck
from visir_papers.experiments.train import DEVIATIONS, EFFECTS, SparseTrial, dense_evaluation

if TYPE_CHECKING:
    from visir.reports.plot import Plot
    from visir.sparse.recipe import SparseRecipe

VARIANTS = ("none", "free", "caption", "caption+word")
ETAS = (1e-3, 1e-5)
SEEDS = (0, 1, 2)

Floats = NDArray[np.float64]
Key = tuple[str, float]
"""(variant, η)."""


@dataclass(frozen=True, eq=False)
class VariantResults:
    """One variant with one η, trained with several seeds; each list has one entry per seed."""

    variant: str  # "none", "free", "caption" or "caption+word"
    eta: float  # η, the weight of sparsity
    evaluations: Sequence[Evaluation]  # the evaluations
    costs: Sequence[Mapping[str, Any]]  # see `SparseTrial.costs`
    captions: Sequence[pa.Table]  # deviations caption by caption, see `SparseTrial.captions`

    def effects(self, measure: str) -> Floats:
        """(seeds,) The mean of a measure over the captions, as a fraction."""
        return np.array([evaluation.result.mean("t2i", measure) for evaluation in self.evaluations])

    def cost(self, name: str) -> Floats:
        """(seeds,) "flops", "image terms" or "text terms"."""
        return np.array([float(costs[name]) for costs in self.costs])

    def deviation(self, measure: str) -> Floats:
        """(seeds, captions) "exact@20" or "semantic@20"."""
        return np.stack([captions[measure].to_numpy() for captions in self.captions])

    def per_query(self, measure: str) -> Floats:
        """(seeds, captions) A measure query by query, in the order of the first evaluation's queries."""
        return np.stack([evaluation.result.values("t2i", measure) for evaluation in self.evaluations])


@dataclass(frozen=True, eq=False)
class SparseStudy:
    """The results of a study."""

    name: str  # the recipe's name
    dense: Evaluation  # the evaluation of the dense model
    models: Mapping[Key, VariantResults]  # (variant, η) → results of the sparse models
    seeds: Sequence[int]  # the seeds of each

    def faithfulness(self, key: Key) -> dict[str, Floats]:
        """Pearson's ρ with the dense model of each measure of Table 3.5, (seeds,) each."""
        by_seed = [
            correlations(self.dense.result, evaluation.result, measures=EFFECTS)
            for evaluation in self.models[key].evaluations
        ]
        return {name: np.array([values[name] for values in by_seed]) for name in EFFECTS}

    def overlap(self, key: Key, k: int = 10) -> Floats:
        """(seeds, captions) The share of the dense model's first `k` images that are among the sparse model's."""
        runs = [evaluation.runs["t2i"] for evaluation in self.models[key].evaluations]
        return np.stack([overlap_at(self.dense.runs["t2i"], run, k) for run in runs])

    @cached_property
    def thesis_p(self) -> dict[tuple[Key, str], float]:
        """p of each model and measure against the dense model, as in Table 3.1."""
        # The test is a paired two-tailed t-test over captions, with Bonferroni's correction over all pairs. Values are
        # means over seeds, caption by caption.
        pairs = [(key, measure) for key in self.models for measure in EFFECTS]
        raw = [paired_t(self._gaps(key, measure).mean(axis=0)).p for key, measure in pairs]
        return dict(zip(pairs, map(float, adjust(raw, "bonferroni")), strict=True))

    @cached_property
    def house_p(self) -> dict[tuple[Key, str], float]:
        """p of each model and measure against the dense model by visir's tests, with Holm's correction."""
        # Captions of one image are one sample (`significance`), and so are trainings (`crossed`). With one seed it is a
        # randomisation test over images.
        pairs = [(key, measure) for key in self.models for measure in EFFECTS]
        raw = [self._by_image_and_seed(self._gaps(key, measure)) for key, measure in pairs]
        return dict(zip(pairs, map(float, adjust(raw, "holm")), strict=True))

    def deviation_p(self, eta: float, measure: str, variant: str = "caption", baseline: str = "free") -> float:
        """p of a variant against another in `DEVIATIONS` (Table 3.3): paired two-tailed t-test over captions."""
        ours, baselines = (self.models[name, eta].deviation(measure).mean(axis=0) for name in (variant, baseline))
        return paired_t(ours - baselines).p

    @cached_property
    def owners(self) -> NDArray[np.str_]:
        """(captions,) The image of each query, in the order of the queries."""
        captions = self.dense.captions
        assert captions is not None, "an evaluation knows its captions"
        owner = dict(zip(captions["id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
        return np.array([owner[query] for query in self.dense.result.per_query["t2i"]["query_id"].to_pylist()])

    def _gaps(self, key: Key, measure: str) -> Floats:
        """(seeds, captions) sparse minus dense; queries of one protocol are in one order."""
        gaps: Floats = self.models[key].per_query(measure) - self.dense.result.values("t2i", measure)
        return gaps

    def _by_image_and_seed(self, gaps: Floats) -> float:
        if len(gaps) == 1:
            return randomisation(gaps[0], self.owners).p
        _, image = np.unique(self.owners, return_inverse=True)
        counts = np.bincount(image)
        return difference(np.stack([np.bincount(image, gap) / counts for gap in gaps]), 0).p


def trials_of(
    recipe: SparseRecipe,
    variants: Sequence[str] = VARIANTS,
    etas: Sequence[float] = ETAS,
    seeds: Sequence[int] = SEEDS,
    split: str = "test",
) -> list[SparseTrial]:
    """A recipe in every variant, with every η and seed; seeds outermost, so that a first table is there early."""
    faults = [f"variant {variant!r} ({nearest(variant, VARIANTS)})" for variant in variants if variant not in VARIANTS]
    faults += [f"η {eta}: 0 or more" for eta in etas if eta < 0]
    for name, values in (("variants", variants), ("η", etas), ("seeds", seeds)):
        if not values or len(set(values)) < len(values):
            faults.append(f"{name} {list(values)}: at least one, each once")
    raise_faults(ConfigurationError, f"sparse study of {recipe.name}", faults)
    return [
        SparseTrial(f"{variant}/eta{eta:g}/seed{seed}", _changed(recipe, variant, eta, seed), split)
        for seed in seeds
        for eta in etas
        for variant in variants
    ]


def study(
    recipe: SparseRecipe,
    out: Path,
    *,
    variants: Sequence[str] = VARIANTS,
    etas: Sequence[float] = ETAS,
    seeds: Sequence[int] = SEEDS,
    split: str = "test",
    jobs: int | None = None,
) -> SparseStudy:
    """Train a recipe in all variants with all η and seeds, and evaluate them beside the dense model."""
    # All results stay in `out` and are not computed again: a killed study goes on, and more variants, η or seeds can be
    # added later.
    trials = trials_of(recipe, variants, etas, seeds, split)
    for trial in trials:
        trial.is_finished(out)  # raises for a folder of another study, before anything runs
    dense = dense_evaluation(recipe, out, split)  # first: trials that start together find the vectors in the store
    run_trials(trials, out, jobs=jobs)
    by_key: dict[Key, list[SparseTrial]] = {(variant, eta): [] for eta in etas for variant in variants}
    for trial in trials:
        by_key[trial.recipe.expansion.variant, trial.recipe.loss.eta].append(trial)
    models = {
        key: VariantResults(
            *key,
            [trial.evaluation(out) for trial in trials_of_key],
            [trial.costs(out) for trial in trials_of_key],
            [trial.captions(out) for trial in trials_of_key],
        )
        for key, trials_of_key in by_key.items()
    }
    return SparseStudy(recipe.name, dense, models, list(seeds))


def _changed(recipe: SparseRecipe, variant: str, eta: float, seed: int) -> SparseRecipe:
    changes = {
        "seed": seed,
        "expansion": recipe.expansion.model_copy(update={"variant": variant}),
        "loss": recipe.loss.model_copy(update={"eta": eta}),
    }
    return recipe.model_copy(update=changes)


# The tables of the chapter, beside the published ones as quoted rows.

PUBLISHED_AS = {"none": "0", "free": "1", "caption": "c", "caption+word": "c+w"}
"""The thesis's names of the variants."""
QUOTED = "MS COCO (5k)"
_DAGGER, _SIGNIFICANT = 0.05, 0.01


def effectiveness(study: SparseStudy, quoted: str | None = QUOTED) -> Table:
    """Table 3.1: the published baselines, the dense model, and the study's models; `quoted` names a collection."""
    # † as in the thesis: different from the dense model (paired two-tailed t-test over captions, p < 0.05, Bonferroni).
    # ‡: also by the house's test, which takes captions of one image, and trainings, as the samples they are.
    rows = _quoted("thesis-table-3-1", ("R@1", "R@5", "mrr@10", "flops"), quoted)
    dense = study.dense.result
    rows.append([dense.system, *(f"{100 * dense.mean('t2i', measure):.1f}" for measure in EFFECTS), None, "visir"])
    for key, model in study.models.items():
        cells = [_spread(100 * model.effects(measure)) + _marks(study, key, measure) for measure in EFFECTS]
        rows.append([_name(key), *cells, _spread(model.cost("flops")), "visir"])
    notes = [
        "† differs from the dense model: paired two-tailed t-test over captions, p < 0.05, Bonferroni (as the thesis)",
        "‡ also with images and trainings as samples, p < 0.05, Holm (visir)",
        f"visir: {study.name}, mean ± standard deviation over seeds {_numbers(study.seeds)}; text to image",
    ]
    notes += _of_quoted("thesis-table-3-1", quoted)
    head = [Column("model"), *(Column(name) for name in ("R@1", "R@5", "MRR@10", "FLOPs", "source"))]
    return Table.of(head, rows, caption="Table 3.1: effectiveness and cost", notes=notes)


def coactivation(study: SparseStudy, quoted: str | None = QUOTED) -> Table:
    """Table 3.2: effectiveness against cost by variant and η, with active terms and the longest list of images."""
    rows: list[list[Cell]] = [
        [*row[:-1], None, None, None, row[-1]]
        for row in _quoted("thesis-table-3-2", ("R@1", "R@5", "mrr@10", "flops"), quoted)
    ]
    for key, model in study.models.items():
        lists = [cost["longest image lists"] for cost in model.costs]
        longest = [
            100 * images[0][1] / cost["images"] if images else 0.0
            for images, cost in zip(lists, model.costs, strict=True)
        ]
        rows.append(
            [
                _name(key),
                *(_spread(100 * model.effects(measure)) for measure in EFFECTS),
                *(_spread(model.cost(cost)) for cost in ("flops", "text terms", "image terms")),
                f"{np.mean(longest):.0f}",
                "visir",
            ]
        )
    head = ("model", "R@1", "R@5", "MRR@10", "FLOPs", "terms/text", "terms/image", "longest list %", "source")
    notes = [
        "exp: 0 none, 1 free, c caption, c+w caption+word",
        "longest list: the share of the images that have the most frequent term",
        *_of_quoted("thesis-table-3-2", quoted),
    ]
    return Table.of([Column(name) for name in head], rows, caption="Table 3.2: dimension co-activation", notes=notes)


def deviation(study: SparseStudy, quoted: str | None = QUOTED) -> Table:
    """Table 3.3: how far the captions' terms are from their words; † different from `free` at the same η (p < 0.01)."""
    rows = _quoted("thesis-table-3-3", DEVIATIONS, quoted)
    for key, model in study.models.items():
        cells = []
        for measure in DEVIATIONS:
            mark = ""
            if key[0] != "free" and ("free", key[1]) in study.models:
                mark = " †" if study.deviation_p(key[1], measure, key[0]) < _SIGNIFICANT else ""
            cells.append(_spread(100 * model.deviation(measure).mean(axis=1)) + mark)
        rows.append([_name(key), *cells, "visir"])
    table = next((str(costs["static vectors"]) for model in study.models.values() for costs in model.costs), "")
    notes = [
        "† differs from exp=1 with the same η: paired two-tailed t-test over captions, p < 0.01 (as the thesis)",
        f"Semantic@20 by {table}; levels of another table do not compare",
        *_of_quoted("thesis-table-3-3", quoted),
    ]
    head = [Column("model"), Column("Exact@20"), Column("Semantic@20"), Column("source")]
    return Table.of(head, rows, caption="Table 3.3: semantic deviation of captions", notes=notes)


def faithfulness(study: SparseStudy, quoted: str | None = QUOTED) -> Table:
    """Table 3.5: Pearson's ρ with the dense model, query by query, times 100; and the overlap@10 of Fig. 3.2b."""
    rows: list[list[Cell]] = [
        [*row[:-1], None, row[-1]] for row in _quoted("thesis-table-3-5", ("ρ R@1", "ρ R@5", "ρ mrr@10"), quoted)
    ]
    for key in study.models:
        cells = [_spread(100 * correlation) for correlation in study.faithfulness(key).values()]
        rows.append([_name(key), *cells, _spread(100 * study.overlap(key).mean(axis=1)), "visir"])
    head = ("model", "ρ R@1", "ρ R@5", "ρ MRR@10", "overlap@10 %", "source")
    notes = ["overlap@10: the share of the dense model's first ten images that are among the sparse model's first ten"]
    notes += _of_quoted("thesis-table-3-5", quoted)
    return Table.of(
        [Column(name) for name in head], rows, caption="Table 3.5: faithfulness to the dense model", notes=notes
    )


def _quoted(name: str, labels: Sequence[str], collection: str | None) -> list[list[Cell]]:
    table = load(name)
    return [
        [row.system, *(_printed(row.values["t2i"].get(label)) for label in labels), "quoted"]
        for row in table.rows
        if row.collection == collection
    ]


def _of_quoted(name: str, collection: str | None) -> list[str]:
    """What is to be known of the quoted rows."""
    if not collection:
        return []
    return [f"quoted: the thesis's, on {collection}: another collection, other encoders", *load(name).notes]


def _numbers(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _printed(value: float | None) -> Cell:
    return None if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _name(key: Key) -> str:
    variant, eta = key
    return f"D2S (η={eta:.0e}, exp={PUBLISHED_AS[variant]})".replace("e-0", "e-").replace("e+00", "")


def _spread(values: NDArray[np.float64]) -> str:
    """The mean over seeds, with the standard deviation where there are several."""
    return f"{values.mean():.1f}" + (f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "")


def _marks(study: SparseStudy, key: Key, measure: str) -> str:
    thesis, house = study.thesis_p[key, measure] < _DAGGER, study.house_p[key, measure] < _DAGGER
    return " " + "†" * thesis + "‡" * house if thesis or house else ""


# Its figure; each part is the same bytes for the same input.

Point = tuple[float, float, float]
"""(η, FLOPs, value in percent)."""
_SHAPES = (*MARKERS, "v", "P")


def cost_and_effect(curves: Mapping[str, Sequence[Point]], dense: float, measure: str = "R@1") -> Plot:
    """Fig. 3.2a: effectiveness over FLOPs (logarithmic), one curve per variant through its η, the dense model a
    line."""
    # Colour and dash tell variants apart, markers η.
    # - `curves`: name → points
    # - `dense`: the dense model's value in percent
    etas = sorted({eta for points in curves.values() for eta, *_ in points}, reverse=True)
    shape = {eta: _SHAPES[position % len(_SHAPES)] for position, eta in enumerate(etas)}
    with drawing(6.6, 3.8) as (figure, axes):
        axes.axhline(dense, color=FAINT, linewidth=1.0, zorder=1, label="dense")
        for number, (name, points) in enumerate(curves.items()):
            ordered = sorted(points, reverse=True)
            colour = SERIES[number % len(SERIES)]
            places = [(max(cost, 1e-3), value) for _, cost, value in ordered]
            look = {"color": colour, "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.7}
            axes.plot(*zip(*places, strict=True), label=one_line(name), **look)
            for (eta, *_), place in zip(ordered, places, strict=True):
                axes.plot(*place, shape[eta], color=colour, markersize=6)
        for eta in etas:
            axes.plot([], [], shape[eta], color=INK, markersize=5, label=_eta(eta))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.margins(x=0.08, y=0.08)
        axes.set_xlabel("FLOPs: terms that a text and an image have in common")
        axes.set_ylabel(f"{measure}, text to image, %")
        figure.legend(loc="outside right upper", fontsize=8.5)
        return figure


def overlap_histogram(shares: NDArray[np.float64], k: int = 10) -> Plot:
    """Fig. 3.2b: how many queries have which share of the first `k` answers in common with the dense model."""
    # - `shares`: (n,) of `visir.evaluation.faithfulness.overlap_at`, multiples of 1/k
    counts = np.bincount(np.rint(k * shares).astype(int), minlength=k + 1)
    heights = 100 * counts / len(shares)
    mean = float(shares.mean())
    with drawing(5.6, 3.2) as (figure, axes):
        bars = axes.bar(range(k + 1), heights, 0.85, color=SERIES[0])
        axes.bar_label(bars, fmt="%.0f", fontsize=7.5, padding=1.5, color=INK)
        mark = f"mean: {100 * mean:.0f} %"
        axes.plot(k * mean, 1.12 * heights.max(), "v", color=SERIES[1], markersize=7, linestyle="none", label=mark)
        axes.set_ylim(0, 1.18 * heights.max())
        axes.set_xticks(range(k + 1))
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel(f"images that both rankings have among their first {k}")
        axes.set_ylabel("queries, %")
        axes.legend(loc="upper left", fontsize=8.5)
        return figure


def _eta(eta: float) -> str:
    return f"η={eta:.0e}".replace("e-0", "e-").replace("e+00", "")


# The trends of chapter 3 in a study of sparse heads, whatever the collection.


def sparse_trend_checks(study: SparseStudy) -> list[TrendCheck]:
    """What the chapter says of its variants, for every η that has them; means over seeds."""
    # - `free` has the most FLOPs and the lowest Exact@20 (Tables 3.2, 3.3).
    # - `none` has the fewest FLOPs and the lowest R@1 (Table 3.2).
    # - `caption` lies between them in both (Table 3.2).
    # - Lower η: more FLOPs, and R@1 not lower (Fig. 3.2a).
    checks = []
    etas = sorted({eta for _, eta in study.models}, reverse=True)
    for eta in etas:
        models = {variant: model for (variant, model_eta), model in study.models.items() if model_eta == eta}
        if not {"none", "free", "caption"} <= set(models):
            continue
        costs = {name: float(model.cost("flops").mean()) for name, model in models.items()}
        hits = {name: 100 * float(model.effects("hit@1").mean()) for name, model in models.items()}
        exact = {name: 100 * float(model.deviation("exact@20").mean()) for name, model in models.items()}
        flops, recalls = _listed(costs, "FLOPs"), _listed(hits, "R@1")
        between = costs["none"] < costs["caption"] < costs["free"] and hits["none"] < hits["caption"] <= hits["free"]
        checks += [
            TrendCheck(f"η={eta:g}: free costs most", max(costs, key=costs.__getitem__) == "free", flops),
            TrendCheck(
                f"η={eta:g}: free says least", min(exact, key=exact.__getitem__) == "free", _listed(exact, "Exact@20")
            ),
            TrendCheck(f"η={eta:g}: none costs least", min(costs, key=costs.__getitem__) == "none", flops),
            TrendCheck(f"η={eta:g}: none finds least", min(hits, key=hits.__getitem__) == "none", recalls),
            TrendCheck(f"η={eta:g}: caption lies between none and free", between, f"{flops}; {recalls}"),
        ]
    for variant in dict.fromkeys(variant for variant, _ in study.models):
        by_eta = {eta: study.models[variant, eta] for eta in etas if (variant, eta) in study.models}
        if len(by_eta) > 1:
            costs = {f"η={eta:g}": float(model.cost("flops").mean()) for eta, model in by_eta.items()}
            hits = {f"η={eta:g}": 100 * float(model.effects("hit@1").mean()) for eta, model in by_eta.items()}
            is_rising = list(costs.values()) == sorted(costs.values()) and list(hits.values()) == sorted(hits.values())
            numbers = f"{_listed(costs, 'FLOPs')}; {_listed(hits, 'R@1')}"
            checks.append(TrendCheck(f"{variant}: less η, more FLOPs and R@1", is_rising, numbers))
    return checks


def _listed(values: dict[str, float], name: str) -> str:
    return f"{name} " + ", ".join(f"{key} {value:.1f}" for key, value in values.items())
