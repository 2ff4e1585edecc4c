"""Signs of a protocol in its numbers: what a published row shows by itself."""

from __future__ import annotations

from collections.abc import Mapping

from visir.evaluation.published import PublishedRow
from visir.evaluation.published.judge import measure_of
from visir.records import Protocol

_CHANCE = 0.01
"""The share of the missed positives that a random ranking may find at ranks 6 to 10: 5 of 500 candidates."""
_SMALL = 0.1
"""The same, relative to the found ones: a weak system that ranks further finds about as many again."""
_SATURATED = 99.5
"""Above this recall there is almost nothing left to find at ranks 6 to 10."""


def ends_early(values: Mapping[str, float]) -> bool:
    """Whether the ranking of one task ends before rank 6: R@10 is R@5, except for random hits."""
    # A ranking that continues finds more at 10 than at 5. A ranking that stops does not; or hardly, if the rest ties
    # and is ranked by the order of an array (the official evaluation of ALBEF and X-VLM gives −100 to everything that
    # was not re-ranked). Then it finds a share of 5 / (gallery − k_test) of the missed ones, 0.5 % in a gallery of
    # 1,000. X-VLM in thesis Table 2.1, Flickr30k, text-to-image: 82.36 and 82.48, 0.7 % of the missed ones.
    five, ten = values.get("R@5"), values.get("R@10")
    if five is None or ten is None or not 0 < five < _SATURATED or ten < five:
        return False
    return ten - five <= _CHANCE * (100 - five) and ten - five <= _SMALL * five


def remarks(row: PublishedRow, ours: Protocol | None = None) -> tuple[str, ...]:
    """Describe the signs in a published row."""
    lines = [_of_cut_run(row, task, part) for task, part in row.values.items() if _is_of_cut_run(part)]
    early = {task: row.values[task] for task in row.values if ends_early(row.values[task])}
    if not early:
        return tuple(lines)
    shown = ", ".join(f"{name} {values['R@5']:.2f} and {values['R@10']:.2f}" for name, values in early.items())
    least = 2 if any(values.get("R@1", 0) < values["R@5"] for values in early.values()) else 1
    lines.append(
        f"{row.system}: the published R@5 and R@10 are the same ({shown}). So the ranking ends within the first five: "
        f"the mark of a second stage that re-ranked {least} to 5 candidates (k_test) and finds nothing behind them. "
        f"R@5 and R@10 are then R@k_test of the first stage, whatever the second one does."
    )
    if ours is not None:
        lines.append(
            f"These runs were re-ranked too: {ours.rerank} ({ours.matcher})."
            if ours.rerank
            else "To evaluate so: visir evaluate … --rerank MODEL --k-test 2"
        )
    return tuple(lines)


def _ranks(values: Mapping[str, float]) -> dict[str, float]:
    """The printed mean and median rank, by the names of visir."""
    return {
        measure_of(label): value for label, value in values.items() if measure_of(label) in ("mean_rank", "median_rank")
    }


def _is_of_cut_run(values: Mapping[str, float]) -> bool:
    """Whether the mean rank is below the median, as where every query without a right answer has the same last rank."""
    # Ranks that go on to the end of a gallery have a long tail, which lifts their mean above the median.
    ranks = _ranks(values)
    return len(ranks) == 2 and ranks["mean_rank"] < ranks["median_rank"]


def _of_cut_run(row: PublishedRow, task: str, values: Mapping[str, float]) -> str:
    ranks = _ranks(values)
    last = ranks["median_rank"] - 1
    return (
        f"{row.system}: the published mean rank of {task} ({ranks['mean_rank']:g}) is below the median "
        f"({ranks['median_rank']:g}): the mark of a run that was cut at about {last:g} answers and counts what is "
        "deeper as the next rank. The mean rank of such a run is not known, and no better than it looks."
    )
