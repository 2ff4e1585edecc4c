"""The brittleness paper's Table 3 from its authors' own logs: ours beside the printed values.

    VISIR_DATA=../shared/data python benchmarks/brittleness_table3.py

For every log of unperturbed queries: the reading that `visir explain` names, each value under it, and how its printed
digits come out: "rounded", "truncated" (only when further digits are cut off), "summed" (an rsum that is the sum of the
rounded recalls), "off". Beside it the values of the usual reading of image-text retrieval, hit@k.
"""

from __future__ import annotations

from collections import Counter

from visir.evaluation import explain
from visir.evaluation.brittleness_runs import evaluate_log, read
from visir.evaluation.published import load
from visir.files import data_directory


def main() -> None:
    table = load("brittleness-table-3")
    folder = data_directory().resolve() / "brittleness-runs"
    counts: Counter[str] = Counter()
    for path in sorted(folder.glob("*/*/*/none.parquet")):
        log = read(path)
        task = log.task
        evaluation = evaluate_log(log)
        usual = evaluation.result
        found = explain(evaluation, table.row(log.system, log.collection))
        print(f"\n{log.collection}, {log.system}, {task}: {found.best.reading}")
        for note in log.notes:
            print(f"  note: {note}")
        for value in found.best.values:
            hit = {"rsum": usual.mean(task, "rsum"), "DCG": usual.mean(task, "dcg_cm@10")}.get(value.label)
            if hit is None:
                hit = 100 * usual.mean(task, f"hit@{value.label[2:]}")
            print(
                f"  {value.label:<5} printed {value.published:7.2f}  ours {value.ours:9.4f}  {value.digits:<9}  "
                f"hit@k {hit:9.4f}"
            )
            counts[value.digits] += 1
    total = sum(counts.values())
    print(f"\n{total} values: " + ", ".join(f"{count} {digits}" for digits, count in counts.most_common()))


if __name__ == "__main__":
    main()
