"""Tables 2 to 5 of the brittleness paper, as far as its authors' own logs cover them: ours beside the printed values.

    VISIR_DATA=../shared/data python benchmarks/brittleness_tables.py

The logs hold every query's answers. Unperturbed ones give Tables 2 and 3 (the latter value by value:
benchmarks/brittleness_table3.py), perturbed ones of Flickr30k and Flickr30k-FG parts of Tables 4 and 5.

Table 4 prints means over four models and no unit. No perturbation has logs of all four, so no mean can be recomputed;
for each entry it says what every model at hand lost, in percent of its rsum and in points, and what the models without
a log would have had to lose on average for the printed mean. Of Flickr30k-FG the unperturbed t2i log is not there: its
rsum is taken from Table 3, as printed.

Table 5.3 of the thesis has the models one by one. Its perturbed values are those of the logs plus the mean DCG; the
unperturbed ones are not. Table 4 is computed from it.

Table 5: the similarities of the pairs at hand, their mean, least and largest, and what pairs without a log would have
to have on average for the printed mean over 78.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from visir.evaluation import explain
from visir.evaluation.brittleness_runs import COLLECTIONS, MODELS, evaluate_log, read
from visir.evaluation.published import load
from visir.evaluation.published.judge import digits_of
from visir.evaluation.stress.effect import GROUPS
from visir.evaluation.stress.stress import Stress, stress_logs
from visir.files import data_directory
from visir.robustness.perturbations import PERTURBATIONS

PAIRS = 13 * 12 // 2


def main() -> None:
    folder = data_directory().resolve() / "brittleness-runs"
    tables_2_and_3(folder)
    studies = [stress_logs(path.parent.parent) for path in sorted(folder.glob("*/*/t2i/none.parquet"))]
    table_4(studies, folder)
    thesis_table_5_3(folder)
    table_5(studies)
    estimators(studies)


def tables_2_and_3(folder: Path) -> None:
    """Every value of the unperturbed logs, under the reading of recall that gives the printed ones."""
    second, third = load("brittleness-table-2"), load("brittleness-table-3")
    counts: dict[str, Counter[str]] = {"Table 2": Counter(), "Table 3": Counter()}
    print("Tables 2 and 3: unperturbed logs")
    for path in sorted(folder.glob("*/*/*/none.parquet")):
        log = read(path)
        evaluation = evaluate_log(log)
        found = explain(evaluation, third.row(log.system, log.collection))
        digits = Counter(value.digits for value in found.best.values)
        counts["Table 3"].update(digits)
        printed = second.row(log.system, log.collection).values[log.task]["R@1"]
        ours = 100 * evaluation.result.mean(log.task, "hit@1")
        counts["Table 2"][digits_of(ours, printed, 2)] += 1
        off = [
            f"{one.label} {one.published:.2f}, ours {one.ours:.4f}" for one in found.best.values if one.digits == "off"
        ]
        print(
            f"  {log.collection:<13}{log.system:<9}{log.task}  {found.best.reading}: "
            + ", ".join(f"{count} {name}" for name, count in digits.most_common())
            + (f"; off: {'; '.join(off)}" if off else "")
        )
    for name, counted in counts.items():
        said = ", ".join(f"{count} {kind}" for kind, count in counted.most_common())
        print(f"  {name}: {sum(counted.values())} values covered: {said}")


def table_4(studies: list[Stress], folder: Path) -> None:
    table = load("brittleness-table-4")
    print("\nTable 4: decrease of t2i rsum; printed: mean of four models")
    for collection, label in ((COLLECTIONS["f30k"], "f30k"), (COLLECTIONS["f30k_fg"], "f30k_fg")):
        printed = table.row(None, collection).values["t2i"]
        lost = _lost(studies, folder / label, collection)
        print(f"  {collection}")
        for name in PERTURBATIONS:
            some = {model: losses[name] for model, losses in lost.items() if name in losses}
            if not some:
                continue
            percent = [one[0] for one in some.values()]
            points = [one[1] for one in some.values()]
            missing = len(MODELS) - len(some)
            left = [(len(MODELS) * printed[name] - sum(values)) / missing for values in (percent, points)]
            print(
                f"    {PERTURBATIONS.get(name).title:<27} printed {printed[name]:6.2f}   "
                + "  ".join(f"{model} {one[0]:5.2f} % ({one[1]:5.2f} points)" for model, one in some.items())
                + f"   the other {missing}: {left[0]:6.2f} % each, or {left[1]:6.2f} points"
            )


def _lost(studies: list[Stress], folder: Path, collection: str) -> dict[str, dict[str, tuple[float, float]]]:
    """model → perturbation → (percent, points) lost."""
    lost: dict[str, dict[str, tuple[float, float]]] = {}
    for study in studies:
        if study.collection == collection:
            lost[study.system] = {one.name: (-one.overall.percent, -one.overall.points) for one in study.effects}
    third = load("brittleness-table-3")
    for place in sorted(folder.iterdir()):
        if MODELS[place.name] in lost or (place / "t2i" / "none.parquet").is_file():
            continue
        for path in sorted((place / "t2i").glob("*.parquet")):
            log = read(path)
            before = third.row(log.system, collection).values["t2i"]["rsum"]
            points = before - evaluate_log(log).result.mean("t2i", "rsum")
            lost.setdefault(log.system, {})[path.stem] = (100 * points / before, points)
    return lost


def thesis_table_5_3(folder: Path) -> None:
    """The models one by one, as the thesis prints them, beside the logs; and Table 4 computed from them."""
    table, means = load("thesis-table-5-3"), load("brittleness-table-4")
    print("\nThesis, Table 5.3: rsum under perturbation; ours, and ours with the mean DCG added to the three recalls")
    fitting: Counter[str] = Counter()
    for path in sorted(folder.glob("*/*/t2i/*.parquet")):
        log = read(path)
        printed = table.row(log.system, log.collection).values["t2i"].get(log.perturbation or "rsum")
        if printed is None:
            continue
        rsum = evaluate_log(log).result.mean("t2i", "rsum")
        summed = rsum + float(np.mean(np.asarray(log.authors["dcgs"])))
        # The sum of four means that were each rounded to two digits is off by 0.02 at most.
        which = "rsum" if abs(rsum - printed) < 0.02 else "with DCG" if abs(summed - printed) < 0.02 else "neither"
        fitting[f"{'perturbed' if log.perturbation else 'unperturbed'}: {which}"] += 1
        print(
            f"  {log.collection:<13}{log.system:<9}{log.perturbation or 'none':<30} printed {printed:7.2f}   "
            f"rsum {rsum:8.3f}   with DCG {summed:8.3f}   {which}"
        )
    print("  " + ", ".join(f"{name} {count}" for name, count in fitting.items()))
    print("Table 4 from Table 5.3: mean loss over the four models in percent of the unperturbed rsum")
    for collection in COLLECTIONS.values():
        values = [table.row(model, collection).values["t2i"] for model in MODELS.values()]
        said = means.row(None, collection).values["t2i"]
        for name in (one for one in values[0] if one in said):
            ours = float(np.mean([100 * (1 - one[name] / one["rsum"]) for one in values]))
            print(f"  {collection:<13}{name:<30} printed {said[name]:6.2f}   from Table 5.3 {ours:6.2f}")


def table_5(studies: list[Stress]) -> None:
    table = load("brittleness-table-5")
    print("\nTable 5: Jaccard similarity of the captions that pairs of perturbations made worse, made better, left")
    for study in studies:
        found = study.jaccard
        if found is None:
            continue
        pairs = len(found.names) * (len(found.names) - 1) // 2
        print(f"  {study.collection}, {study.system}: {len(found.names)} of 13 perturbations, {pairs} of {PAIRS} pairs")
        means = {}
        for group in GROUPS:
            printed = table.row(study.system, study.collection).values["t2i"][group]
            means[group] = (found.mean(group), printed)
            least, largest = found.range(group)
            rest = (PAIRS * printed - pairs * found.mean(group)) / (PAIRS - pairs)
            print(
                f"    {group:<10} printed {printed:.4f}   ours {found.mean(group):.4f} ({least:.4f} to {largest:.4f}; "
                f"sets of these sizes at random {found.by_chance(group):.4f})   the other pairs: {rest:.4f} each"
            )
        order = [sorted(GROUPS, key=lambda group: means[group][which]) for which in (0, 1)]
        print(f"    order of the groups: {'as printed' if order[0] == order[1] else 'another'}")


def estimators(studies: list[Stress]) -> None:
    """Whether the authors' estimator read the caption as it was sent: CLIP's own scores are its gains."""
    for study in studies:
        for one in study.effects:
            if study.system == "CLIP" and one.outcome.changed.any():
                path = data_directory().resolve() / "brittleness-runs" / one.outcome.run.provenance["source"]
                theirs = np.asarray(read(path).authors["dcgs"])
                ours = one.outcome.result.values("t2i", "dcg_cm@10")
                print(
                    f"\ndcg_cm of CLIP under {one.name}, recomputed with its own (perturbed) cosines: largest "
                    f"difference from the authors' {np.abs(ours - theirs).max():.1e}: their estimator read the caption "
                    "as it was sent."
                )
                return


if __name__ == "__main__":
    main()
