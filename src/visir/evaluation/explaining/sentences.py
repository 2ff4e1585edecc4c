"""The answer in words: what is certain, what cannot be told apart, and what could not be computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from visir.evaluation.published import PublishedRow
from visir.evaluation.published.judge import Digits

if TYPE_CHECKING:
    from visir.evaluation.explaining.fit import Fit
    from visir.evaluation.explaining.searching import Outcome

GIVE_VECTORS = "give the collection and the vectors (--data COLLECTION --model MODEL; in Python source= and vectors=)"
_SHOWN = 4
_WAYS: Mapping[Digits, str] = {
    "truncated": "truncated, not rounded",
    "summed": "summed from the rounded recalls",
    "bounded": "known within bounds, because the run goes no deeper",
}


def sentence(
    outcome: Outcome, fits: Sequence[Fit], row: PublishedRow, recall: str, not_computable: Sequence[tuple[str, str]]
) -> str:
    """The answer."""
    named = f"{row.system} on {row.collection}" if row.collection else row.system
    chance = ""
    if outcome.at_chance:
        chance = (
            f"the published {' and '.join(outcome.at_chance)} values of {named} are at chance, no better than a random "
            "ranking: look whether captions stand beside their own images. "
        )
        if outcome.unit == "open":
            chance = chance.replace(
                ": look", " if they are percentages (as fractions of 1 no reading gives them): look"
            )
    elif outcome.unit == "fraction":
        chance = (
            f"the published values of {named} are taken as fractions of 1: as percentages they would be no better than "
            "a random ranking. "
        )
    elif outcome.below_chance:
        chance = (
            f"the published values of {named} are below chance: nearly nothing is found, as when the worst are ranked "
            "first or ids do not match. "
        )
    fitting = fits[: len(outcome.fitting)] if outcome.fitting else ()
    fitting = [fit for fit in fitting if fit.fits]
    if not fitting:
        if outcome.at_chance:
            return chance.rstrip()
        return chance + _nothing(fits, named, not_computable)
    if not outcome.is_certain:
        return chance + _uncertain(outcome, fitting, named)
    if len(fitting) == 1:
        return chance + _stated(fitting[0], named, recall)
    shown = "; or ".join(f"{fit.reading}" for fit in fitting[:_SHOWN])
    more = f"; or {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
    return (
        f"{chance}the printed digits fit {len(fitting)} readings and cannot tell them apart: {shown}{more}. Each "
        f"reproduces {fitting[0].reproduced} of {len(fitting[0].values)} published values of {named}."
    )


def _stated(fit: Fit, named: str, recall: str) -> str:
    what = str(fit.reading)
    if fit.reading.departures == 0:
        what += f" (R@k: {recall})"
    count = f"{fit.reproduced} of {len(fit.values)} published values of {named}"
    special = [f"{fit.count(way)} {words}" for way, words in _WAYS.items() if fit.count(way)]
    text = f"{what}, {over(fit)} reproduces {count} to the printed digits"
    text += f" ({'; '.join(special)})" if special else ""
    if fit.same:
        text += f". The same numbers come from: {' / '.join(map(str, fit.same[:_SHOWN]))}"
    return text + "."


def _uncertain(outcome: Outcome, fitting: Sequence[Fit], named: str) -> str:
    shown = "; or ".join(str(fit.reading) for fit in fitting[:_SHOWN])
    more = f"; or {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
    return (
        f"the published values of {named} are too few, or have too few digits, to tell the protocol: a wrong reading "
        f"fits them by accident ({outcome.accidents:.2g} are expected, of {outcome.tried:,} that were tried). What "
        f"fits: {shown}{more}."
    )


def _nothing(fits: Sequence[Fit], named: str, not_computable: Sequence[tuple[str, str]]) -> str:
    best = fits[0]
    off = [
        f"{value.task} {value.label} {value.ours:.2f}, printed {value.published:.2f}"
        for value in best.values
        if value.digits == "off"
    ]
    text = (
        f"no reading that can be computed gives all published values of {named}; the nearest is {best.reading}, "
        f"{over(best)}, {best.distance:.1%} off, with {best.reproduced} of {len(best.values)} to the printed digits"
    )
    text += f"; off: {', '.join(off[:6])}." if best.reproduced and off else "."
    if any("give the collection" in reason for _, reason in not_computable):
        text += f" Other splits, candidates and similarities could not be computed: {GIVE_VECTORS}."
    return text


def over(fit: Fit) -> str:
    """The number of candidates in words; with folds, of each fold that has some."""
    present = {task: [size for size in sizes if size] or [0] for task, sizes in fit.candidates.items()}
    folds = max(map(len, present.values()), default=1)
    counts = []
    for task, several in present.items():
        low, high = min(several), max(several)
        kind = "images" if task == "t2i" else "captions"
        counts.append(f"{low:,} {kind}" if low == high else f"{low:,} to {high:,} {kind}")
    counted = " and ".join(counts)
    return f"over all {counted}" if folds == 1 else f"each query within its own of {folds} folds of {counted}"
