"""Which numbers of queries can give printed percentages? From the digits alone: no run, no vectors, no data.

R@1 is k of n queries. With two decimals printed, 37.82 is possible for 5,000 queries (1,891 of them) and impossible for
1,000 (378 give 37.80, 379 give 37.90). The values of one row share their queries, so that a few values leave few n.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visir.display import Tabular, brief, counted
from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.evaluation.published.judge import LABEL, measure_of, published_rows
from visir.evaluation.published.record import PublishedRow
from visir.records import Protocol
from visir.records.collection import task_words

Rule = Literal["rounded", "cut"]
RULES: tuple[Rule, ...] = ("rounded", "cut")

COUNTED = re.compile(
    rf"{LABEL.pattern}|R_?s(?:ub(?:set)?)?@\d+|(?:[Hh]its?|Success)@\d+|(?:P|Precision)@1|[Tt]op-?\d+|[Rr]ank[- @]?\d+"
    r"|[Aa]cc(?:uracy)?"
)
"""Labels whose value is the share of queries for which something holds."""
DECIMALS = 6
"""So many decimals are looked at: a value with more is no printed one, and is read as it is printed with these."""
MOST, MOST_QUERIES = 10**6, 10**9
"""Up to it smaller numbers of queries are counted (four decimals of a percentage); and numbers may be stated."""
TELLING = 0.15
"""A size that fits by accident with this probability says nothing."""
SHOWN = 4
"""How many rows a sentence names."""
NO_SHARE = (
    "A size that cannot may still be the true one where values are means: of runs, or of recalls over right answers"
)
"""What an impossible size leaves open: such means are no share of so many queries."""


class Size(NamedTuple):
    """A number of queries that means something."""

    queries: int
    collection: str
    what: str


_FLICKR, _COCO = "Flickr30k", "MS-COCO"
SIZES = (
    Size(1_000, _FLICKR, "test, one caption an image"),
    Size(5_000, _FLICKR, "test, all captions"),
    Size(1_014, _FLICKR, "val, one caption an image"),
    Size(5_070, _FLICKR, "val, all captions"),
    Size(29_000, _FLICKR, "train, one caption an image"),
    Size(31_014, _FLICKR, "all images"),
    Size(1_000, _COCO, "one fold of 1,000 images"),
    Size(5_000, _COCO, "test, one caption an image; or one fold with its captions; or five folds of 1,000"),
    Size(25_000, _COCO, "test, five captions an image"),
    Size(25_010, _COCO, "test, all captions"),
    Size(40_504, _COCO, "val2014, one caption an image"),
    Size(1_261, _COCO, "ECCV Caption, images"),
    Size(1_332, _COCO, "ECCV Caption, captions"),
    Size(1_000, "Flickr8k", "test, one caption an image"),
    Size(5_000, "Flickr8k", "test, all captions"),
    Size(2_933, "CUB-200", "50 test classes"),
    Size(5_794, "CUB-200", "test"),
    Size(11_788, "CUB-200", "all images"),
    Size(29_789, "Fashion200k", "test"),
    Size(1_000, "Multi30k", "test 2016"),
    Size(3_600, "XM3600", "images of one language"),
    Size(1_000, "XTD", "images of one language"),
    Size(4_500, "NoCaps", "val, one caption an image"),
    Size(45_000, "NoCaps", "val, all captions"),
    Size(5_000, "DOCCI", "test"),
    Size(1_000, "Urban1k", "all"),
    Size(400, "Winoground", "all"),
    Size(4_181, "CIRR", "val"),
    Size(4_148, "CIRR", "test, as published"),
    Size(4_150, "CIRR", "test, as the digits of its server say"),
    Size(220, "CIRCO", "val"),
    Size(800, "CIRCO", "test"),
    Size(2_017, "FashionIQ", "val, dresses"),
    Size(2_038, "FashionIQ", "val, shirts"),
    Size(1_961, "FashionIQ", "val, tops"),
    Size(4_034, "FashionIQ", "val, dresses, each caption"),
    Size(4_076, "FashionIQ", "val, shirts, each caption"),
    Size(3_922, "FashionIQ", "val, tops, each caption"),
    Size(1_093, "RSICD", "test, one caption an image"),
    Size(5_465, "RSICD", "test, all captions"),
    Size(452, "RSITMD", "test, one caption an image"),
    Size(2_260, "RSITMD", "test, all captions"),
    Size(1_000, "MSR-VTT", "1k-A"),
    Size(50_000, "ImageNet", "val"),
    Size(10_000, "CIFAR", "test"),
)
"""Sizes of splits as their authors publish them, the usual ones first; looked at where no collection is named."""
FURTHER = (
    Size(24_972, "CxC", "captions of MS-COCO with a judged image"),
    Size(5_000, "CxC", "images"),
    Size(1_000, "COCO-CN", "test, images"),
    Size(1_053, "COCO-CN", "test, captions"),
    Size(210, "UCM-Captions", "test, one caption an image"),
    Size(1_050, "UCM-Captions", "test, all captions"),
    Size(58, "Sydney-Captions", "test, one caption an image"),
    Size(290, "Sydney-Captions", "test, all captions"),
    Size(6_156, "CUHK-PEDES", "test"),
    Size(19_848, "ICFG-PEDES", "test"),
    Size(2_000, "RSTPReid", "test"),
    Size(1_000, "Recipe1M", "one sample of 1,000"),
    Size(10_000, "Recipe1M", "one sample of 10,000, or ten of 1,000"),
    Size(816, "AudioCaps", "test, one caption a sound"),
    Size(4_080, "AudioCaps", "test, all captions"),
    Size(1_045, "Clotho", "test, one caption a sound"),
    Size(5_225, "Clotho", "test, all captions"),
    Size(3_610, "Natural Questions", "open test"),
    Size(11_313, "TriviaQA", "open test"),
    Size(2_032, "WebQuestions", "test"),
    Size(694, "CuratedTREC", "test"),
    Size(10_570, "SQuAD", "dev"),
)
"""The same of collections that are looked at only by name: more sizes that nobody asked about fit by accident."""
USUAL = tuple(Size(number, "", "a usual round number") for number in (1_000, 2_000, 5_000, 10_000))
"""What is looked at of a collection whose sizes are not known."""
_ALIASES = {"f30k": "flickr30k", "flickr30": "flickr30k", "coco": "mscoco", "cub": "cub200"}


@dataclass(frozen=True)
class Denominator:
    """The numbers of queries that can give the printed values of one row and direction.

    Attributes:
        system: The system, as printed.
        collection: The collection, as printed.
        task: The direction ("t2i").
        values: The values by label, with the decimals that they were read with.
        possible: {n: rule} of the sizes that can give all of them: "rounded", or only "cut", all values cut.
        impossible: {n: labels} of the sizes that cannot, with the values that they cannot give.
        named: What the sizes are: sizes of test sets, and those that were stated. Of a known collection its own alone.
        chance: {n: probability} that a possible size fits by accident, were the digits of other origin: the share of
            all printed values that n queries can give, to the power of the number of values but for 0 and 100 %, which
            every number can give; twice that where they fit only cut, as rounding was tried before. Each size has its
            own: of ten sizes at 5 %, one fits by accident in four rows of ten.
        smaller: {n: how many smaller numbers can give all values too} of the possible sizes.
        decimals: How many decimals they were read with.
        of_one: Whether they are fractions of 1, not percentages.
    """

    system: str
    collection: str
    task: str
    values: Mapping[str, str]
    possible: Mapping[int, Rule]
    impossible: Mapping[int, tuple[str, ...]]
    named: Mapping[int, tuple[str, ...]]
    chance: Mapping[int, float]
    smaller: Mapping[int, int]
    decimals: int
    of_one: bool = False

    @property
    def title(self) -> str:
        """System, collection and direction."""
        return " ".join(filter(None, [self.system, self.collection, task_words(self.task)]))

    @property
    def likely(self) -> tuple[int, ...]:
        """The possible sizes whose fit says something, the least accidental first."""
        return tuple(
            sorted((size for size in self.possible if self.chance[size] < TELLING), key=self.chance.__getitem__)
        )

    def can(self, queries: int) -> Rule | None:
        """How the values can come from so many queries: rounded, cut, or not at all (None)."""
        given = [_Printed.read(text, self.decimals, of_one=self.of_one) for text in self.values.values()]
        return _rule_of(queries, given)

    def __str__(self) -> str:
        return f"{self.printed}: {self.answer}"

    @property
    def printed(self) -> str:
        """The values as they were read, with their decimals."""
        return ", ".join(f"{label} {text}" for label, text in self.values.items()) + (" of 1" if self.of_one else "")

    @property
    def answer(self) -> str:
        """What the digits say, in words."""
        says = []
        if self.likely:
            sizes = []
            for size in self.likely[:2]:
                how = "cut and not rounded, " if self.possible[size] == "cut" else ""
                how += f"by accident {100 * self.chance[size]:.2g} %"
                sizes.append(f"{size:,} queries ({self.named[size][0]}; {how})")
            says.append(f"{' or '.join(sizes)} can give these digits")
        if self.impossible:
            shown = [f"{size:,}" for size in list(self.impossible)[:3]]
            more = len(self.impossible) - len(shown)
            also = f" and {counted(more, 'more sizes')}" if more else ""
            says.append(f"{', '.join(shown)}{also} cannot")
        if not self.likely:
            least = f"{min(self.possible):,} or more can, which tells nothing" if self.possible else ""
            says.append(least or "no size that is known can")
        return "; ".join(says)


@dataclass(frozen=True)
class Denominators(Tabular):
    """What the printed digits of a row or a table say of the numbers of queries; rows read together share a number.

    Attributes:
        name: The name of the table, or what was given.
        rows: One for each system, collection and direction with values that are shares of queries.
        together: {(collection, task): {n: chance}} of the sizes that can give the values of every system, where there
            are several: systems that were measured on one test set share its size.
        left_out: What is no share of queries (rsum, median rank, DCG), by label.
    """

    name: str
    rows: tuple[Denominator, ...]
    together: Mapping[tuple[str, str], Mapping[int, float]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return brief(self, self.name, *(f"{row.system} {row.collection} {row.task}: {row}" for row in self.rows[:4]))

    def __getitem__(self, task: str) -> Denominator:
        """The first row of a direction."""
        for row in self.rows:
            if row.task == task:
                return row
        known = ", ".join(dict.fromkeys(row.task for row in self.rows))
        raise KeyError(f"no values of {task!r}; there are {known}")

    @property
    def sentence(self) -> str:
        """The answer in words."""
        telling = [row for row in self.rows if row.likely or row.impossible]
        if not telling:
            return (
                "the digits cannot tell the number of queries: every usual number can give values of so few decimals. "
                "More decimals, or more values of the row, would tell more."
            )
        says = [f"{row.title or 'the printed digits'}: {row.answer}" for row in telling[:SHOWN]]
        if len(telling) > SHOWN:
            says.append(f"{len(telling) - SHOWN} more rows are in the table")
        if any(row.impossible for row in telling):
            says.append(NO_SHARE)
        return ". ".join(says) + "."


class _Printed(NamedTuple):
    """A printed percentage as a whole number of its last decimal."""

    units: int
    whole: int  # how many units all queries are

    @classmethod
    def read(cls, text: str, decimals: int, *, of_one: bool = False) -> _Printed:
        return cls(round(float(text) * 10**decimals), (1 if of_one else 100) * 10**decimals)

    def fits(self, queries: NDArray[np.int64], rule: Rule) -> NDArray[np.bool_]:
        """Whether k of n is printed so, for some whole k, for each n."""
        product = self.units * queries
        if rule == "rounded":
            k = (2 * product + self.whole) // (2 * self.whole)
            near: NDArray[np.bool_] = (2 * np.abs(k * self.whole - product) <= queries) & (k <= queries)
            return near
        k = -(-product // self.whole)
        fits: NDArray[np.bool_] = (k * self.whole < product + queries) & (k <= queries)
        return fits


def of_queries(row: PublishedRow, ours: Protocol) -> list[str]:
    """What a protocol with its numbers of queries cannot give, in sentences."""
    numbers = {task: re.match(r"\d[\d,]*", text) for task, text in ours.queries.items()}
    queries = {task: int(number[0].replace(",", "")) for task, number in numbers.items() if number}
    says = []
    counts = sorted(set(queries.values()))
    for judged in _judged(row, LABEL, counts):
        task = judged.task
        if task not in queries:
            continue
        # R@k may also be the mean of recalls over the right answers, which the other direction counts.
        if any(number in judged.possible for number in counts):
            continue
        can = " or ".join(f"{size:,}" for size in judged.likely[:3])
        says.append(
            f"{row.system}: no share of {queries[task]:,} queries is printed as {task} "
            + ", ".join(f"{label} {judged.values[label]}" for label in judged.impossible[queries[task]][:3])
            + f": there were others{f' ({can} can give it)' if can else ''}, or it is a mean of several runs."
        )
    return says


def denominators(
    published: Any,
    *,
    queries: int | Sequence[int] = (),
    system: str | None = None,
    collection: str | None = None,
    decimals: int | None = None,
) -> Denominators:
    """Find the numbers of queries that can give printed values, from their digits alone.

    A value is possible for n queries where k of n, for some whole k, is printed so: rounded, or with further digits cut
    off. The values of a row and direction share n and the rule. A mean of folds of m queries counts as one of all their
    queries. R@k is taken as a hit (a share of queries); where it is the mean of recalls over several right answers, the
    number is that of the right answers. A row whose values are all at most 1 is read as fractions of 1, if no percent
    sign says otherwise.

    Args:
        published: The printed values: {"t2i R@1": "37.82", …} or "t2i R@1=37.82,R@5=82.36"; a row; a table, by its name
            or its file (JSON, TOML, CSV with the columns `system`, `collection`, "t2i R@1", …). Text keeps the zeros at
            the end, which count as digits.
        queries: Further numbers of queries to judge, those that the text of a paper states.
        system: Only the rows of this system of a table.
        collection: Only the rows of this collection.
        decimals: How many decimals are printed; None takes the most that a value of the row has, in any direction.

    Returns:
        For each row and direction the sizes of known test sets that can and that cannot give its values, and how many
        other numbers can by accident.

    Raises:
        ConfigurationError: A value is no number, or no value is a share of queries.

    Example:
        >>> import visir
        >>> digits = visir.denominators("t2i R@1=37.82,R@5=82.36,R@10=82.48", collection="Flickr30k")
        >>> digits["t2i"].likely, digits["t2i"].can(1_000) is None
        ((5000,), True)
    """
    stated = [queries] if isinstance(queries, int) else list(queries)
    for number in stated:
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_QUERIES:
            raise ConfigurationError(
                f"queries: {number!r} is no number of queries.", hint="queries=1000", code="no-number-of-queries"
            )
    if decimals is not None and decimals not in range(DECIMALS + 1):
        raise ConfigurationError(
            f"decimals: {decimals!r} is not from 0 to {DECIMALS}.", hint="decimals=2", code="no-number-of-decimals"
        )
    name, printed, written = published_rows(published, system=system, collection=collection)
    decimals = min(written, DECIMALS) if decimals is None and written is not None else decimals
    rows: list[Denominator] = []
    left_out: list[str] = []
    for row in printed:
        left_out += [label for values in row.values.values() for label in values if not COUNTED.fullmatch(label)]
        rows += _judged(row, COUNTED, stated, decimals)
    if not rows:
        raise VisirError(
            f"{name}: no value is a share of queries (R@k, hit@k, accuracy).",
            hint='visir.denominators({"t2i R@1": "37.82", "t2i R@5": "82.36"})',
            code="no-share-of-queries",
        )
    return Denominators(name, tuple(rows), _together(rows), tuple(dict.fromkeys(left_out)))


def _judged(
    row: PublishedRow, labels: re.Pattern[str], stated: Sequence[int], decimals: int | None = None
) -> list[Denominator]:
    """Each direction of a row, with one number of decimals for all, as numbers lose their zeros, and one unit."""
    shares = {
        task: {label: value for label, value in values.items() if labels.fullmatch(label)}
        for task, values in row.values.items()
    }
    faults = [
        f"{task} {label}: {value:g} is not between 0 and 100".strip()
        for task, values in shares.items()
        for label, value in values.items()
        if not 0 <= value <= 100
    ]
    hint = "divide a count by the queries, or leave the value out"
    raise_faults(ConfigurationError, row.system or "published values", faults, hint=hint)
    if decimals is None:
        decimals = max((_decimals(value) for values in shares.values() for value in values.values()), default=0)
    of_one = not row.in_percent and all(value <= 1 for values in shares.values() for value in values.values())
    return [_judge(row, task, values, stated, decimals, of_one) for task, values in shares.items() if values]


def _judge(
    row: PublishedRow, task: str, values: Mapping[str, float], stated: Sequence[int], places: int, of_one: bool
) -> Denominator:
    """One row and direction."""
    texts = {label: f"{value:.{places}f}" for label, value in values.items()}
    given = {label: _Printed.read(text, places, of_one=of_one) for label, text in texts.items()}
    whole = next(iter(given.values())).whole
    numbers = np.arange(1, min(whole, MOST) + 1, dtype=np.int64)
    fitting: dict[Rule, NDArray[np.bool_]] = {
        rule: np.logical_and.reduce([value.fits(numbers, rule) for value in given.values()]) for rule in RULES
    }
    either = fitting["rounded"] | fitting["cut"]
    named: dict[int, list[str]] = {number: ["as stated"] for number in stated}
    for size in _sizes(row.collection):
        named.setdefault(size.queries, []).append(f"{size.collection} {size.what}".strip())
    possible: dict[int, Rule] = {}
    impossible: dict[int, tuple[str, ...]] = {}
    for number in named:
        rule = _rule_of(number, given.values())
        if rule is not None:
            possible[number] = rule
            continue
        alone = tuple(label for label, value in given.items() if _rule_of(number, [value]) is None)
        impossible[number] = alone or tuple(given)
    telling = sum(0 < value.units < whole for value in given.values())
    # A size that only fits cut had two tries.
    tries = {"rounded": 1, "cut": 2}
    chance = {n: min(1.0, tries[rule] * min(1.0, (n + 1) / whole) ** telling) for n, rule in possible.items()}
    smaller = {n: int(either[: n - 1].sum()) for n in possible}
    return Denominator(
        row.system, row.collection, task, texts, possible, impossible, {n: tuple(what) for n, what in named.items()},
        chance, smaller, places, of_one,
    )  # fmt: skip


def _rule_of(queries: int, values: Iterable[_Printed]) -> Rule | None:
    """The first rule by which so many queries can give all values."""
    sizes, values = np.asarray([queries], dtype=np.int64), list(values)
    return next((rule for rule in RULES if all(value.fits(sizes, rule)[0] for value in values)), None)


def _together(rows: Sequence[Denominator]) -> dict[tuple[str, str], dict[int, float]]:
    """The sizes that can give the values of every system of a collection, and the chance that all fit by accident."""
    shared: dict[tuple[str, str], list[Denominator]] = {}
    for row in rows:
        shared.setdefault((row.collection, row.task), []).append(row)
    return {
        key: {size: math.prod(row.chance[size] for row in parts) for size in parts[0].possible
              if all(size in row.possible for row in parts)}
        for key, parts in shared.items() if len(parts) > 1
    }  # fmt: skip


def _sizes(collection: str) -> Sequence[Size]:
    """Those of a known collection, round numbers for one that is not known, all where none is named."""
    if not collection:
        return SIZES
    plain = _plain(collection)
    names = {_plain(size.collection) for size in (*SIZES, *FURTHER)}
    keys = [name for name in names if name in plain]
    keys += [_ALIASES[alias] for alias in _ALIASES if not keys and alias in plain]
    return [size for size in (*SIZES, *FURTHER) if _plain(size.collection) in keys] or USUAL


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _decimals(value: float) -> int:
    """The decimals of a value as Python shows it."""
    text = f"{value:.{DECIMALS}f}".rstrip("0")
    return len(text.partition(".")[2])


# Signs of a protocol in its numbers: what a published row shows by itself.

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
    if ours is not None:
        lines += of_queries(row, ours)
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
