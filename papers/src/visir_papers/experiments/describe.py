"""Logs of shops that cells of studies need: sessions and descriptions are computed once for all studies."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from math import comb
from pathlib import Path
from typing import Any, Literal

import numpy as np

from visir.errors import VisirError, nearest, raise_faults
from visir.files import json_bytes, read_bytes
from visir.fingerprint import hash_json
from visir.options import split_options
from visir.sessions.description import Statistic, StatisticCell
from visir.sessions.description.describe import statistics_of
from visir.sessions.description.outcomes import BUYING, OTHER, OUTCOME_LABELS
from visir.sessions.description.session_log import open_log
from visir.sessions.reports.statistic import outcome_bars, survival, transition_diagram, transition_map
from visir.sessions.table_labels import CHANNELS, DEVICES, table_label
from visir.storage import FolderKind, locked, put, read_written_json, remove_folder
from visir.training.recipe import expand
from visir_papers.draws import (
    DrawFigure,
    Drawing,
    Draws,
    Means,
    PublishedValues,
    TrendCheck,
    chance_of_order,
    few_units,
    listed_checks,
)
from visir_papers.experiment import (
    Experiment,
    ExperimentContext,
    InsufficientDataError,
    Measurement,
    data_requirement,
    data_requirements,
)

# What a description would be without a twentieth of the visitors: for intervals of whatever is made of its values.
#
# The intervals of a description are of one value each. Two shares of one log are not independent, so the interval of
# their difference, or how sure an order of days is, needs them together. Here the units are hashed into groups, and
# everything is counted again without each group in turn (the delete-a-group jackknife, Kott 2001).

GROUPS = 20

Values = dict[str, dict[str, dict[str, float]]]
"""Statistic → column → row → value."""


def leave_one_out(folder: str | Path, *, threads: int | None = None) -> list[Values]:
    """The values of all statistics without each group of visitors; fewer than `GROUPS` for a log of few visitors."""
    groups = []
    for group in range(GROUPS):
        with open_log(folder, threads=threads, left_out=(group, GROUPS)) as log:
            if not log.value(f"SELECT count(*) FROM {log.sessions}"):
                continue
            groups.append(
                {
                    statistic.name: {
                        column: {
                            row: float(value)
                            for row, cells in zip(statistic.rows, statistic.cells, strict=True)
                            if isinstance(value := cells[position].value, int | float)
                        }
                        for position, column in enumerate(statistic.columns)
                    }
                    for statistic in statistics_of(log)
                }
            )
    return groups


GENERATED = "generated:"
"""A generated log of so many sessions: "generated:40000"; its seed is the cell's. Chances of the shop may follow:
"generated:40000?logs_in_at_checkout=0.7"."""
_CHANCES = ("identified", "logs_in", "logs_in_at_checkout")
MAPPING = "mapping.toml"
_SESSIONS = "log"
DESCRIPTION = FolderKind("described", "a description of a log")


class SessionLogExperiment(Experiment):
    """A cell of a study about the sessions of a log."""

    # "generated:40000" (with `?logs_in_at_checkout=0.7`, or another chance of `Shop`), a name of
    # `data_requirements.toml`, or a file or folder.
    log: str
    # How it is read: a preset of `visir sessions make`, or a TOML file. By default a folder that `visir intent
    # generate` wrote (events/, mapping.toml) is read by its own mapping, anything else by the preset of its name.
    mapping: str = ""

    def provenance(self) -> dict[str, str]:
        """What ran, for the card of the cell."""
        name = self.log
        if self.generated:
            count, chances = _generated(self.log)
            name = ", ".join(["generated log", f"{count:,} sessions", *(f"{k} {v:g}" for k, v in chances.items())])
        return {"system": self.system, "collection": name}

    def protocol(self, counts: dict[str, Any]) -> dict[str, str]:
        """Rows of the card of every cell about this log."""
        declared, sizes = counts["declared"], counts["counts"]
        return {
            "log": f"{self.log}: {sizes['sessions']:,} sessions of {sizes['visitors']:,} visitors",
            "session ends": f"after {declared['idle_minutes']:g} minutes without a request",
            "hours": str(declared["zone"]),
            "engine": str(counts["engine"]),
        }

    @property
    def generated(self) -> bool:
        """Whether the log is a generated one."""
        return self.log.startswith(GENERATED)

    def source(self) -> tuple[Path, str]:
        """Where its events are, and its mapping: the path of a TOML file, or the name of a preset."""
        path = Path(expand(data_requirement(self.log).path if self.log in data_requirements() else self.log))
        if self.mapping:
            return path, expand(self.mapping)
        if (path / MAPPING).is_file():
            return path / "events", str(path / MAPPING)
        return path, self.log


def sessions_of(experiment: SessionLogExperiment, context: ExperimentContext) -> Path:
    """The folder of an experiment's log; `visir sessions make` wrote its subfolder "log"."""
    # It is named by the log and the mapping and, of a real log, by the names and sizes of its files: another log in the
    # same place has another folder.
    from visir.sessions import load_mapping, preset, sessionise
    from visir.sessions.simulator import Shop, generate

    folder = context.shared / "sessions" / _folder_name(experiment, context)
    with _alone(folder, context):
        if (folder / _SESSIONS / "counts.json").is_file():
            return folder
        if experiment.generated:
            raw = folder / "raw"
            count, chances = _generated(experiment.log)
            generate(raw, count, seed=context.seed, shop=replace(Shop(), **chances), replace=True)
            sessionise(raw / "events", load_mapping(raw / MAPPING), folder / _SESSIONS)
            remove_folder(raw)
        else:
            events, mapping = experiment.source()
            read = load_mapping(Path(mapping)) if mapping.endswith(".toml") else preset(mapping)
            sessionise(events, read, folder / _SESSIONS)
    return folder


def counts_of(folder: Path) -> dict[str, Any]:
    """The counts.json of a folder of `sessions_of`."""
    counts: dict[str, Any] = read_written_json(folder / _SESSIONS / "counts.json")
    return counts


def description_of(folder: Path, context: ExperimentContext) -> tuple[dict[str, dict[str, Any]], list[Values]]:
    """Everything of thesis section 6.4, by name, as `visir sessions describe` writes it; computed once."""
    # And the same values without each group of visitors (`leave_one_out`).
    from visir.sessions.description import describe

    described, left_out = (folder / "described" / name for name in ("described.json", "leave-one-out.json"))
    with _alone(folder, context):
        if not left_out.is_file():
            described_log, groups = (
                describe(folder / _SESSIONS).to_dict(),
                {"groups": leave_one_out(folder / _SESSIONS)},
            )
            put(
                described.parent,
                DESCRIPTION,
                {described.name: json_bytes(described_log), left_out.name: json_bytes(groups)},
            )
    statistics = {statistic["name"]: statistic for statistic in read_written_json(described)["statistics"]}
    return statistics, read_written_json(left_out)["groups"]


@contextmanager
def _alone(folder: Path, context: ExperimentContext) -> Iterator[None]:
    waiting = f"{folder}: another process finds its sessions; waiting for it"
    with context.locks.for_folder(folder), locked(folder / "lock", waiting=waiting, elsewhere="--out"):
        yield


def _folder_name(experiment: SessionLogExperiment, context: ExperimentContext) -> str:
    if experiment.generated:
        count, chances = _generated(experiment.log)
        shop = "".join(f"-{name}-{value:g}" for name, value in sorted(chances.items()))
        return f"generated-{count}{shop}-seed{context.seed}"
    events, mapping = experiment.source()
    files = sorted(file for file in events.rglob("*") if file.is_file()) if events.is_dir() else [events]
    identity = {
        "log": experiment.log,
        "mapping": read_bytes(Path(mapping)).decode() if mapping.endswith(".toml") else mapping,
        "files": [[file.name, file.stat().st_size] for file in files],
    }
    words = re.sub(r"\W+", "-", experiment.log).strip("-")
    return f"{words}-{hash_json(identity)[:10]}"


def _generated(log: str) -> tuple[int, dict[str, Any]]:
    """How many sessions a generated log has, and the chances of its shop that are not the default."""
    number, chances = split_options(log.removeprefix(GENERATED), _CHANCES, error=VisirError)
    faults = [] if number.isdecimal() else [f"{number!r} is no number of sessions"]
    values: dict[str, Any] = {}
    for name, text in chances.items():
        try:
            values[name] = float(text)
        except ValueError:
            faults.append(f"{name}={text}: no number")
    raise_faults(VisirError, log, faults, hint="generated:40000, generated:40000?logs_in_at_checkout=0.7")
    return int(number), values


# Describe the sessions of a log: Tables 6.1 to 6.6 and Figures 6.2 to 6.5 of the thesis.


class DescribeExperiment(SessionLogExperiment):
    """One column of a statistic of `visir sessions describe`; labels are its rows, in the words of the thesis."""

    # A log from which it cannot be computed (no customers, no searches) leaves the cell "not run", with the reason.

    experiment: Literal["describe"] = "describe"
    statistic: str  # its name, "table-6-4"
    column: str  # "Purchase sessions"; of Figure 6.5 the device that is gone to; of Figure 6.2 "PC, purchase"

    def describe(self) -> str:
        return f"visir sessions describe, {self.statistic}, of {self.log}"

    def measure(self, context: ExperimentContext) -> Measurement:
        folder = sessions_of(self, context)
        (statistics, left_out), counts = description_of(folder, context), counts_of(folder)
        if self.statistic not in statistics:
            raise VisirError(f"nothing is called {self.statistic!r}.", hint=nearest(self.statistic, statistics))
        statistic = statistics[self.statistic]
        if statistic["unavailable"]:
            raise InsufficientDataError(statistic["unavailable"])
        column = self._column(statistic["columns"])
        cells = {row: cells[column]["value"] for row, cells in zip(statistic["rows"], statistic["cells"], strict=True)}
        named = Counter(map(table_label, cells))
        values: dict[str, float] = {}
        words: dict[str, str] = {}
        notes = []
        for row, value in cells.items():
            label = table_label(row)
            if named[label] > 1:  # two words of the log for one row: neither is the row
                notes.append(
                    f"{label}: the log has several: {', '.join(word for word in cells if table_label(word) == label)}"
                )
            elif isinstance(value, str):
                words |= {label: ", ".join(map(table_label, value.split(", ")))} if label == "Device types" else {}
            elif value is None:
                notes.append(f"{label}: nothing of it in this log")
            else:
                values[label] = float(value)
        for rows in (DEVICES, CHANNELS):
            if set(rows) & set(named):
                notes += [f"{row}: not in this log, which names {', '.join(cells)}" for row in rows if row not in named]
        of_groups = [group.get(self.statistic, {}).get(statistic["columns"][column], {}) for group in left_out]
        groups = [{table_label(row): value for row, value in group.items()} for group in of_groups]
        count = max(len(groups), 1)
        return Measurement(
            values,
            self.provenance(),
            self.protocol(counts),
            notes=tuple(notes),
            words=words,
            # The deviations of a jackknife over visitors, the same visitors for all of the log.
            draws=draws_around(values, groups, (count - 1) ** 2 / count, folder.name),
        )

    def _column(self, columns: list[Any]) -> int:
        named = [", ".join(map(table_label, column.split(", "))) for column in columns]
        if named.count(self.column) > 1:  # two words of the log for one device: neither is the device
            several = [column for column, word in zip(columns, named, strict=True) if word == self.column]
            raise InsufficientDataError(f"the log has several: {'; '.join(several)}")
        if self.column in named:
            return named.index(self.column)
        device = self.column.partition(", ")[0]
        if device in DEVICES:
            devices = dict.fromkeys(
                column.partition(", ")[0] for column in columns[: -1 if device == self.column else None]
            )
            raise InsufficientDataError(f"the log names no {device}: {', '.join(devices)}")
        raise VisirError(f"{self.statistic} has no column {self.column!r}.", hint=nearest(self.column, columns))


def draws_around(
    values: Mapping[str, float], units: Sequence[Mapping[str, float]], variance: float, name: str
) -> dict[str, Draws]:
    """Draws of values by those of few units, folds or logs without a group, the same for all labels that each has."""
    labels = [label for label in values if all(label in unit for unit in units)]
    if len(units) < 2 or not labels:
        return {}
    deviations = few_units(np.array([[unit[label] for label in labels] for unit in units]), variance, name)
    return {label: values[label] + drawn for label, drawn in zip(labels, deviations.T, strict=True)}


# Chapter 6, section 6.4: what distinguishes sessions that buy, in Figures 6.2 to 6.5.

OUTCOMES = {"Purchase": "purchase", "Non-purchase": "non-purchase"}
WORKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
WEEKEND = ("Saturday", "Sunday")
NIGHT, EVENING, DAYTIME = (1, 2, 3), (18, 19, 20), range(10, 17)
"""Hours in which sessions of "1 am to 3 am", "6 pm till 8 pm" (both ends included: the figure has whole hours) and
"10 am till 5 pm" begin."""
STABLE = 0.25
"""How far hours of "stable" activity may be from their mean."""


@listed_checks
def figure_6_2(means: Means) -> Iterator[TrendCheck]:
    """Section 6.4.1: purchase sessions are longer and vary less; sessions are shortest on smartphones."""
    # The thesis says it of the area between P50 and P90, so of both ends of it here; a tie at one of them is none. What
    # varies is read as P90 / P50 of a device, because it is explained by lookers-up and explorers.
    ends: dict[str, dict[str, tuple[float, float]]] = {}  # outcome → device → P50 and P90
    for outcome in OUTCOMES:
        half, ninety = (means.get(f"{outcome}: {percentile}", {}) for percentile in ("P50", "P90"))
        ends[outcome] = {device: (half[device], ninety[device]) for device in half if device in ninety}
    bought, others = ends.values()
    for device in (device for device in bought if device in others):
        buys, stays = bought[device], others[device]
        numbers = f"P50 {buys[0]:g} against {stays[0]:g}, P90 {buys[1]:g} against {stays[1]:g}"
        yield TrendCheck(f"{device}: purchase sessions are longer from P50 to P90", _longer(buys, stays), numbers)
        if buys[0] and stays[0]:
            spread = buys[1] / buys[0], stays[1] / stays[0]
            numbers = f"P90 / P50 {spread[0]:.2f} against {spread[1]:.2f}"
            yield TrendCheck(f"{device}: their length varies less", spread[0] < spread[1], numbers)
    for outcome, word in OUTCOMES.items():
        numbers = ", ".join(f"{device} {half:g}–{ninety:g}" for device, (half, ninety) in ends[outcome].items())
        phone, tablet, pc = (ends[outcome].get(device) for device in ("Smartphone", "Tablet", "PC"))
        rest = [percentiles for device, percentiles in ends[outcome].items() if device != "Smartphone"]
        if phone is not None and rest:
            shortest = all(_longer(percentiles, phone) for percentiles in rest)
            chance = 1 / len(ends[outcome])
            yield TrendCheck(f"{word} sessions are shortest on smartphones", shortest, numbers, chance)
        if tablet is not None and pc is not None:
            yield TrendCheck(f"{word} sessions are longer on PCs than on tablets", _longer(pc, tablet), numbers)


@listed_checks
def figure_6_3(means: Means) -> Iterator[TrendCheck]:
    """Section 6.4.2: most activity on weekdays, and which days lead; per day, where a log has more of some days."""
    covered = means.get("Days in the log", {})
    top: dict[str, float] = {}
    leading = {"Purchase": {"Tuesday", "Wednesday", "Thursday"}, "Non-purchase": {"Monday", "Wednesday", "Thursday"}}
    for outcome, word in OUTCOMES.items():
        shares = means.get(f"{outcome} sessions", {})
        days = {day: share / (covered.get(day) or 1) for day, share in shares.items()}
        whole = sum(days.values())
        if len(days) < len(WORKDAYS + WEEKEND) or not whole:
            numbers = f"only {', '.join(days)}" if days else "no day"
            yield TrendCheck(f"{word} sessions: more on a weekday than on a day of the weekend", None, numbers)
            continue
        days = {day: 100 * share / whole for day, share in days.items()}
        workdays, rest = (sum(days[day] for day in group) / len(group) for group in (WORKDAYS, WEEKEND))
        numbers = f"{workdays:.1f} against {rest:.1f} % of a week"
        yield TrendCheck(f"{word} sessions: more on a weekday than on a day of the weekend", workdays > rest, numbers)
        best = sorted(days, key=lambda day: -days[day])[:3]
        top[outcome] = sum(days[day] for day in best)
        numbers = f"{', '.join(best)}: {top[outcome]:.1f} %"
        named = ", ".join(day for day in WORKDAYS if day in leading[outcome])
        most = set(best) == leading[outcome]
        yield TrendCheck(f"{word} sessions: most on {named}", most, numbers, 1 / comb(len(days), len(best)))
    if len(top) == len(OUTCOMES):
        numbers = f"{top['Non-purchase']:.1f} against {top['Purchase']:.1f} %"
        more = top["Non-purchase"] > top["Purchase"]
        yield TrendCheck("their three leading days hold more of the non-purchase sessions", more, numbers)


@listed_checks
def figure_6_4(means: Means) -> Iterator[TrendCheck]:
    """Section 6.4.2: least activity from 1 am to 3 am, most from 6 pm till 8 pm, stable from 10 am till 5 pm."""
    for outcome, word in OUTCOMES.items():
        shares = {int(hour): share for hour, share in means.get(f"{outcome} sessions", {}).items()}
        if len(shares) < 24:
            continue
        quietest, busiest = min(shares, key=lambda hour: shares[hour]), max(shares, key=lambda hour: shares[hour])
        numbers = f"{quietest:02d}, {shares[quietest]:.2f} %"
        statement, chance = f"{word} sessions: the quietest hour is among 1 to 3 am", len(NIGHT) / len(shares)
        yield TrendCheck(statement, quietest in NIGHT, numbers, chance)
        numbers = f"{busiest:02d}, {shares[busiest]:.2f} %"
        statement, chance = f"{word} sessions: the busiest hour is among 6 to 8 pm", len(EVENING) / len(shares)
        yield TrendCheck(statement, busiest in EVENING, numbers, chance)
        hours = [shares[hour] for hour in DAYTIME]
        mean = sum(hours) / len(hours)
        numbers = f"{min(hours):.2f} to {max(hours):.2f} %"
        stable = max(abs(share - mean) for share in hours) <= STABLE * mean
        yield TrendCheck(
            f"{word} sessions: hours from 10 am to 5 pm within {STABLE:.0%} of their mean", stable, numbers
        )


@listed_checks
def figure_6_5(means: Means) -> Iterator[TrendCheck]:
    """Section 6.4.4: who was on a device stays on it, except on TV; PC holds best, and TV is hardly gone to."""
    # Systems are the devices gone to, labels those left.
    left: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for to, chances in means.items():
        for before, share in chances.items():
            left[before][to] = share
    for before, after in left.items():
        if before not in after or len(after) < 2:
            continue
        others = {to: share for to, share in after.items() if to != before}
        best = max(others, key=lambda to: others[to])
        numbers = f"stays {after[before]:.2f} %; to {best} {others[best]:.2f} %"
        if before == "TV":
            pc_first = "PC" in others and others["PC"] > after["TV"]
            yield TrendCheck("TV: one goes to a PC rather than stay", pc_first, numbers)
        else:
            stays_most = after[before] > others[best]
            yield TrendCheck(f"{before}: to stay is most likely", stays_most, numbers, 1 / len(after))
        if "TV" in others:
            rare = others["TV"] <= min(share for to, share in after.items() if to != "TV")
            yield TrendCheck(f"{before}: TV is gone to least", rare, _percentages(after), 1 / len(after))
    stays = {before: after[before] for before, after in left.items() if before in after}
    order = [stays[device] for device in ("PC", "Smartphone", "Tablet") if device in stays]
    if len(order) == 3:
        falls = all(earlier > later for earlier, later in pairwise(order))
        statement, chance = "PCs are stayed on most, then smartphones, then tablets", chance_of_order(len(order))
        yield TrendCheck(statement, falls, _percentages(stays), chance)


def _longer(percentiles: tuple[float, float], other: tuple[float, float]) -> bool:
    return percentiles != other and percentiles[0] >= other[0] and percentiles[1] >= other[1]


def _percentages(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.2f} %" for name, share in shares.items())


# Figures 6.2 to 6.5 of the thesis, drawn from what a study found in one log, beside what the text prints.
#
# The values behind the printed figures are not available; the numbers of the text are drawn or quoted below.

MOST_ROUND = 6
"""Devices that the round diagram has room for."""


def lengths(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.2: how many sessions are longer than so many actions."""
    curves = {name: curve for name, curve in means.items() if name.partition(", ")[2] in ("purchase", "non-purchase")}
    counts = {length for curve in curves.values() for length in curve}
    if counts:
        lengths = sorted(counts, key=lambda length: int(length.replace(",", "")))
        yield (
            survival(_statistic("figure-6-2", lengths, curves)),
            "Share of sessions longer than x actions. Where a curve crosses the dotted lines, half of its sessions "
            "(P50), or one in ten (P90), are longer. The thesis prints no number of it.",
        )


def _bars(name: str, axis: str, thesis: str) -> DrawFigure:
    def draw(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
        outcomes = {outcome: means.get(outcome, {}) for outcome in (BUYING, OTHER)}
        rows = list(dict.fromkeys(label for values in outcomes.values() for label in values))
        if rows:
            svg = outcome_bars(_statistic(name, rows, outcomes), (BUYING, OTHER), labels=OUTCOME_LABELS, axis=axis)
            yield svg, f"Bars of one colour add up to 100 %; intervals are in visir sessions describe. {thesis}"

    return draw


weekdays = _bars(
    "figure-6-3",
    "day on which the session begins",
    "The thesis: Tuesday, Wednesday and Thursday hold 48.55 % of the purchase sessions; Monday, Wednesday and Thursday "
    "58.55 % of the others.",
)
"""Figure 6.3: on which days sessions begin."""
hours = _bars("figure-6-4", "hour in which the session begins", "The thesis prints no number of it.")
"""Figure 6.4: at which hours sessions begin."""


def switches(means: Means, printed: PublishedValues) -> Iterator[Drawing]:
    """Figure 6.5: from which device people go on to which."""
    devices = [device for device in DEVICES if device in means]
    if not devices:
        return
    transitions = _statistic("figure-6-5", devices, {device: means[device] for device in devices})
    printed_chances = {(left, to): value for (to, left), value in printed.items()}
    caption = "From the device of the row to that of the column; each row adds up to 100 %. A dash: nobody left there."
    yield transition_map(transitions, printed=printed_chances), f"{caption} Small: what the text of the thesis prints."
    if 2 <= len(devices) <= MOST_ROUND:
        yield (
            transition_diagram(transitions),
            "As the thesis draws it: in each circle the chance of staying, arrows as thick as the step is likely; "
            "steps below 0.5 % are left out, the weakest drawn is dashed.",
        )


def _statistic(name: str, rows: list[str], columns: Means) -> Statistic:
    """Values as `visir sessions describe` has them, without their intervals, which cells of a study do not have."""
    cells = tuple(tuple(StatisticCell(column.get(row)) for column in columns.values()) for row in rows)
    return Statistic(name, "", "", "", tuple(rows), tuple(columns), ("%",) * len(columns), cells)
