"""The brittleness paper's Table 1: printed, ours in the paper profile and in the strict one, and what differs.

    VISIR_DATA=../shared/data python benchmarks/granularity_table1.py

Test splits, the first five captions of each image. For every value: as printed; ours (paper profile) with its 95 %
interval over images; ours − printed; the strict profile. Then, for the original against the refined captions, the
printed change beside ours with intervals and corrected p. Last, what counting costs once the words are tagged.
"""

from __future__ import annotations

import time

from visir.collections import open_collection
from visir.evaluation.assembly import choose
from visir.evaluation.granularity import GranularityStudy
from visir.evaluation.granularity import granularity as study
from visir.files import data_directory
from visir.robustness.granularity import cut_captions, granularity
from visir.robustness.granularity.features import table_1

FILES = {
    "MS-COCO": "coco/karpathy_coco_test_5k.json.xz",
    "MS-COCO-FG": "fg_benchmarks/MSCOCO_FG_ann.json.xz",
    "Flickr30k": "flickr30k/flickr30k_test_1k.json.xz",
    "Flickr30k-FG": "fg_benchmarks/Flickr30K_FG_ann.json.xz",
}


def main() -> None:
    table = table_1()
    folder = data_directory().resolve()
    opened = {name: open_collection(folder / file) for name, file in FILES.items()}
    print(f"{table.title}\n{table.source}")
    differences = []
    for original, refined in (("MS-COCO", "MS-COCO-FG"), ("Flickr30k", "Flickr30k-FG")):
        found = study(opened[refined], opened[original], split="test", captions="first 5")
        for name, which in ((original, 1), (refined, 0)):
            differences += show_means(name, table.values[name], found, which)
        show_changes(table.values[original], table.values[refined], found)
    for label, value in found.protocol:
        print(f"  {label}: {value}")
    print(f"\n{len(differences)} values; |ours − printed|: mean {sum(differences) / len(differences):.3f}")
    print(
        f"  equal when rounded: {sum(one < 0.005001 for one in differences)}, within 0.02: "
        f"{sum(one <= 0.02 for one in differences)}, within 0.1: {sum(one <= 0.1 for one in differences)}"
    )
    chosen = choose(opened["MS-COCO"], "first 5")
    words = cut_captions(chosen)
    for profile in ("paper", "strict"):
        seconds = min(timed(lambda: granularity(chosen, profile, words=words)) for _ in range(3))  # noqa: B023
        print(f"{profile}: {seconds:.2f} s of processor time for {len(words):,} tagged captions")


def show_means(name: str, printed: dict[str, float], found: GranularityStudy, which: int) -> list[float]:
    print(f"\n{name:<20} printed   paper  95 % interval      ours−printed   strict  95 % interval")
    differences = []
    for ours, strict in zip(found.means[which]["paper"], found.means[which]["strict"], strict=True):
        gap = ours.mean - printed[ours.feature]
        differences.append(abs(gap))
        print(
            f"  {ours.feature:<18} {printed[ours.feature]:7.2f} {ours.mean:7.3f}  {ours.low:7.3f} … {ours.high:7.3f}"
            f"  {gap:+12.3f}  {strict.mean:7.3f}  {strict.low:7.3f} … {strict.high:7.3f}"
        )
    return differences


def show_changes(before: dict[str, float], after: dict[str, float], found: GranularityStudy) -> None:
    title = "refined − original"
    print(f"\n{title:<20} printed   paper  95 % interval           p   strict  95 % interval           p")
    for ours, strict in zip(found.comparisons["paper"].changes, found.comparisons["strict"].changes, strict=True):
        cells = [
            f"{one.difference:+7.3f}  {one.low:+7.3f} … {one.high:+7.3f}  {one.p_corrected:8.2g}"
            for one in (ours, strict)
        ]
        print(f"  {ours.feature:<18} {after[ours.feature] - before[ours.feature]:+7.2f} {'  '.join(cells)}")


def timed(work: object) -> float:
    start = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - start


if __name__ == "__main__":
    main()
