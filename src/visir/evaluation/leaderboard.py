"""Results of many systems on many tasks: what may stand in one column, and which place each system has there.

A result travels as one JSON file: its protocol, and the value of every query. `packed` writes it, `unpacked` checks it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import visir.stats as stats
from visir.errors import VisirError, raise_faults
from visir.evaluation.classification.labelling import CLASSIFICATION
from visir.evaluation.classification.result import Classification
from visir.evaluation.compare import as_result, result_in
from visir.evaluation.folds import clusters_of, name_codes
from visir.evaluation.measures import MEASURES, base_of, bounds_of, measure_estimate, read_measure, recalls_of
from visir.evaluation.results import Evaluation, is_result, load_evaluation
from visir.files import json_bytes, read_json
from visir.records import IMAGE, Protocol, Result
from visir.records.result import PROTOCOL
from visir.storage import FolderKind, is_made_by_visir

FORMAT = 1
MARK = "visir_results"
"""The key of a packed result that says what it is, with the version of its form."""
SITE = FolderKind("site", "a site of results", remedy="make it again: visir publish RESULTS… --out FOLDER")


@dataclass(frozen=True, eq=False)
class NamedResult:
    """A result with its name on the board.

    Attributes:
        name: What the system is called.
        result: What was measured.
        evaluation: With its answers, where they are at hand.
        origin: Where it was read from; "" for one that was given as an object.
    """

    name: str
    result: Result
    evaluation: Evaluation | None = None
    origin: str = ""


@dataclass(frozen=True)
class Standing:
    """A number of a system on a board; places are 0 where they are not told."""

    value: float
    low: float
    high: float
    best: int = 0
    worst: int = 0


@dataclass(frozen=True, eq=False)
class Board:
    """One task under one protocol: what stands in a column may be compared.

    Attributes:
        protocol: Reduced to this task, of the first system; fields of systems may differ.
        task: The task.
        standings: {system: {measure: its number}}.
        measures: All measures, in the order of the first system.
        queries: How many there are.
        units: How many of them are independent: images with all their captions.
        differs: What tells it from other boards of the same collection, split and task.
        notes: What a reader must know of its places.
    """

    protocol: Protocol
    task: str
    standings: Mapping[str, Mapping[str, Standing]]
    measures: tuple[str, ...]
    queries: int
    units: int
    differs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The fingerprint of its protocol and the task: equal where two numbers may be compared."""
        return key_of(self.protocol, self.task)

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """The systems, the best first by the first measure."""
        first = self.measures[0]
        sign = 1 if is_low(first) else -1
        known = [name for name, of in self.standings.items() if first in of and isfinite(of[first].value)]
        known.sort(key=lambda name: (sign * self.standings[name][first].value, name))
        return (*known, *(name for name in self.standings if name not in known))


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Systems on boards, the boards in the order of collections and tasks."""

    entries: tuple[NamedResult, ...]
    boards: tuple[Board, ...]
    notes: tuple[str, ...] = ()


def key_of(protocol: Protocol, task: str) -> str:
    """What a board is known by, of a protocol reduced to its task."""
    return f"{protocol.fingerprint[:12]}-{task}"


def is_low(measure: str) -> bool:
    """Whether a smaller value of a measure is better: ranks."""
    base = base_of(measure)
    return base in MEASURES and MEASURES.get(base).best == "low"


def leaderboard(sources: Sequence[Any], *, seed: int = 0) -> Leaderboard:
    """Sort results into boards, and say of each system which places it may have there."""
    given, notes = _distinct(_entries(sources))
    entries: list[NamedResult] = []
    boards: dict[str, dict[str, NamedResult]] = {}
    for entry in given:
        keys = [f"{of_task(entry.result.protocol, task).fingerprint} {task}" for task in entry.result.tasks]
        names = (entry.name if number == 1 else f"{entry.name} ({number})" for number in count(1))
        name = next(name for name in names if not any(name in boards.get(key, {}) for key in keys))
        if name != entry.name:
            where = "" if not entry.origin else f" ({entry.origin})"
            notes.append(f"{name}: another result of {entry.name} under the same protocol{where}")
        entries.append(replace(entry, name=name))
        for key in keys:
            boards.setdefault(key, {})[name] = entries[-1]
    made = [_board(key.partition(" ")[2], list(members.values()), seed) for key, members in boards.items()]
    made.sort(key=lambda board: (*_about(board), -len(board.standings), board.key))
    return Leaderboard(tuple(entries), tuple(_told_apart(made)), tuple(notes))


def of_task(protocol: Protocol, task: str) -> Protocol:
    """A protocol reduced to one of its tasks."""
    reduced = {name: {task: of[task]} for name in ("galleries", "queries") if task in (of := getattr(protocol, name))}
    return protocol.changed(**({"galleries": {}, "queries": {}} | reduced))


def _board(task: str, members: Sequence[NamedResult], seed: int) -> Board:
    """The numbers of one task, each with its interval, and the places of the systems that answered every query."""
    protocol = of_task(members[0].result.protocol, task)
    # All results of one protocol have the same queries, if their files say the truth; in which order is their own. What
    # most of them say is taken: no one file decides about the others.
    orders = {entry.name: pc.array_sort_indices(_queries(entry, task)) for entry in members}
    ids = {entry.name: _queries(entry, task).take(orders[entry.name]) for entry in members}
    first = ids[_of_most({name: tuple(of.to_pylist()) for name, of in ids.items()})]
    sorted_clusters = {
        entry.name: name_codes(pa.array(of[orders[entry.name].to_numpy()]))
        for entry in members
        if ids[entry.name].equals(first) and (of := clusters_of(entry.result, task)) is not None
    }
    by_bytes = {name: of.tobytes() for name, of in sorted_clusters.items()}
    clusters = sorted_clusters[_of_most(by_bytes)] if by_bytes else None
    units = len(first) if clusters is None else len(np.unique(clusters))
    standings: dict[str, dict[str, Standing]] = {}
    values: dict[str, dict[str, NDArray[np.float64]]] = {}
    others = [entry.name for entry in members if not ids[entry.name].equals(first)]
    for entry in members:
        own = _values(entry.result, task)
        known = {
            measure: of[orders[entry.name].to_numpy()]
            for measure, of in own.items()
            if np.isfinite(of).all() and not entry.result.beyond.get(task, {}).get(measure)
        }
        is_other = entry.name in others
        standings[entry.name] = {
            measure: _standing(entry.result, task, measure, known.get(measure), None if is_other else clusters)
            for measure in own
        }
        values[entry.name] = {} if is_other else known
    notes = [f"{', '.join(others)}: other queries than the rest, so without places"] if others else []
    if unlike := [name for name, of in by_bytes.items() if clusters is not None and of != clusters.tobytes()]:
        notes.append(f"{', '.join(unlike)}: counts other queries as independent than the rest; those of the rest count")
    if units < stats.FEWEST_FOR_PLACES:
        notes.append(f"{units} independent queries are too few for places (at least {stats.FEWEST_FOR_PLACES})")
    measures = tuple(dict.fromkeys(measure for of in standings.values() for measure in of))
    for measure in measures if units >= stats.FEWEST_FOR_PLACES else ():
        tested = [name for name, of in values.items() if measure in of]
        if len(tested) < 2 or base_of(measure) == "median_rank":  # two medians have no paired test
            continue
        of_all = np.stack([values[name][measure] for name in tested])
        # A few very long ranks decide a mean rank: as in `compare`, the logarithms of ranks are tested.
        of_all = np.log(of_all) if base_of(measure) == "mean_rank" else of_all
        placed = stats.places(of_all, clusters, lower_is_better=is_low(measure), seed=seed)
        for name, best, worst in zip(tested, placed.best.tolist(), placed.worst.tolist(), strict=True):
            standings[name][measure] = replace(standings[name][measure], best=best, worst=worst)
    return Board(protocol, task, standings, measures, len(first), units, (), tuple(notes))


def _of_most(says: Mapping[str, Any]) -> str:
    """The first of those who say what most say."""
    counted = Counter(says.values())
    return max(says, key=lambda name: counted[says[name]])


def _queries(entry: NamedResult, task: str) -> pa.Array:
    return entry.result.per_query[task]["query_id"].combine_chunks()


def _values(result: Result, task: str) -> dict[str, NDArray[np.float64]]:
    """The values of every query, by measure, with the sum of the recalls that the protocol names behind these."""
    recalls = recalls_of(result.protocol.recall)
    by_measure: dict[str, NDArray[np.float64]] = {}
    for name in result.per_query[task].column_names[1:]:  # its own: of another task others may be left out
        by_measure[name] = result.values(task, name)
        if name == recalls[-1] and set(recalls) <= set(by_measure):
            by_measure["rsum"] = 100 * np.sum([by_measure[recall] for recall in recalls], axis=0)
    return by_measure


def _standing(
    result: Result, task: str, measure: str, values: NDArray[np.float64] | None, clusters: NDArray[Any] | None
) -> Standing:
    """A number with its interval; where ranks are not known, and where the mean is decided by a few, there is none."""
    value = result.aggregates[task].get(measure, nan)
    if values is None or base_of(measure) == "mean_rank":
        return Standing(value, nan, nan)
    estimate = measure_estimate(measure, values, clusters)
    return Standing(value, estimate.low, estimate.high)


def _told_apart(boards: Sequence[Board]) -> Iterator[Board]:
    """The boards, those of one collection, split and task with what differs between their protocols."""
    together: dict[Any, list[Board]] = {}
    for board in boards:
        together.setdefault(_about(board), []).append(board)
    for board in boards:
        rivals = [other.protocol for other in together[_about(board)] if other is not board]
        names = list(dict.fromkeys(name for other in rivals for name in board.protocol.differences(other)))
        # Who asks for other captions gets other galleries and queries: what was asked for says it in a word.
        names = [name for name in names if name not in ("galleries", "queries")] or names
        differs = [f"{name.replace('_', ' ')}: {_shown(getattr(board.protocol, name), board.task)}" for name in names]
        yield replace(board, differs=tuple(differs))


def _about(board: Board) -> tuple[str, str, str]:
    return board.protocol.collection.casefold(), board.protocol.split, board.task


def _shown(value: Any, task: str) -> str:
    value = value.get(task, "") if isinstance(value, Mapping) else value
    return "–" if value in (None, "") else str(value)


# Reading: folders of `visir evaluate` and `visir classify`, packed results, and folders that hold either.


def _entries(sources: Sequence[Any]) -> Iterator[NamedResult]:
    """What was given, opened; all faults at once."""
    faults: list[str] = []
    read: list[NamedResult] = []
    for source in sources:
        several = source.items() if isinstance(source, Mapping) else [("", source)]
        for name, thing in several:
            for given in _inside(Path(thing)) if isinstance(thing, (str, Path)) else [thing]:
                try:
                    entry = _opened(given)
                except VisirError as fault:
                    faults.append(fault.message if not isinstance(given, Path) or str(given) in fault.message
                                  else f"{given}: {fault.message}")  # fmt: skip
                    continue
                read.append(replace(entry, name=str(name)) if name else entry)
    if not read and not faults:
        faults.append("nothing there: no folder that visir evaluate --out or classify --out wrote, no packed result")
    raise_faults(VisirError, "results", faults, hint="visir publish results/* --out site")
    return iter(read)


def _inside(path: Path) -> Iterator[Path]:
    """A result, or the results in a folder and below; links are not followed, and sites below are made of results."""
    if path.suffix == ".json" or is_result(path) or is_made_by_visir(path, CLASSIFICATION.name) or not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        here = Path(folder)
        if here != path and (is_result(here) or is_made_by_visir(here, CLASSIFICATION.name)):
            folders.clear()
            yield here
            continue
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and not is_made_by_visir(here / name, SITE.name)
        )
        yield from (here / name for name in sorted(files) if name.endswith(".json") and _is_packed(here / name))


def _opened(given: Any) -> NamedResult:
    """One result, from where it lies."""
    if isinstance(given, Path):
        if given.suffix == ".json" and given.name != "result.json":
            result = unpacked(read_json(given), str(given))
            return NamedResult(result.system, result, origin=str(given))
        if is_result(given):
            evaluation = load_evaluation(given)
            return NamedResult(evaluation.system, evaluation.result, evaluation, str(given))
        result = result_in(given)
        return NamedResult(result.system, result, origin=str(given))
    if isinstance(given, Evaluation):
        return NamedResult(given.system, given.result, given)
    result = as_result(given) if isinstance(given, Classification) else given
    if not isinstance(result, Result):
        raise VisirError(f"a {type(given).__name__} is no result.", hint="what visir.evaluate returns, or its folder")
    return NamedResult(result.system, result)


def _distinct(entries: Iterator[NamedResult]) -> tuple[list[NamedResult], list[str]]:
    """The entries without those that say the same again, as a folder and what was packed of it do."""
    known: dict[bytes, NamedResult] = {}
    notes = []
    for entry in entries:
        says = json_bytes(packed(replace(entry.result, system=entry.name, notes=(), versions={})))
        if says in known:
            notes.append(f"{entry.name}: given twice, counted once")
        before = known.setdefault(says, entry)
        if before.evaluation is None and entry.evaluation is not None:
            known[says] = entry
    return list(known.values()), notes


# A packed result: one JSON file.


def packed(result: Result) -> dict[str, Any]:
    """A result as one JSON file holds it: protocol, numbers, and the value of every query."""
    tasks = {}
    for task, table in result.per_query.items():
        clusters = clusters_of(result, task)
        values = {name: table[name].to_numpy() for name in table.column_names if name != "query_id"}
        tasks[task] = {
            "queries": table["query_id"].to_pylist(),
            "units": None if clusters is None else np.unique(clusters, return_inverse=True)[1].tolist(),
            # A measure that some query has no value of is left out: no mean of others could be checked.
            "values": {name: list(map(_short, of.tolist())) for name, of in values.items() if np.isfinite(of).all()},
            "aggregates": {name: value for name, value in result.aggregates[task].items() if isfinite(value)},
            "beyond": result.beyond.get(task, {}),
        }
    return {
        MARK: FORMAT,
        "system": result.system,
        "protocol": result.protocol.to_dict(),
        "protocol_fingerprint": result.protocol.fingerprint,
        "tasks": tasks,
        "versions": result.versions,
        "notes": list(result.notes),
    }


def _short(value: float) -> float | int:
    """A value of a query with eight digits: the mean of many has six that are right."""
    return int(value) if value == int(value) else float(f"{value:.8g}")


_ENTRIES = ("system", "protocol", "protocol_fingerprint", "tasks", "versions", "notes")


def _is_packed(path: Path) -> bool:
    """Whether a JSON file in a folder says that it is a packed result: only then it is read as a whole."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"{MARK}"'.encode() in file.read(64)


def unpacked(content: Any, place: str) -> Result:
    """A packed result, checked: strangers write such files. All that is wrong with it is named at once."""
    faults: list[str] = []
    if not isinstance(content, dict) or MARK not in content:
        raise VisirError(
            f"{place}: no packed result.",
            hint="visir publish FOLDER --out FILE.json writes one",
            code="no-packed-result",
        )
    if content[MARK] != FORMAT:
        raise VisirError(f"{place}: of form {content[MARK]!r}; this visir reads {FORMAT}.", hint="upgrade visir")
    faults += [f"unknown entry {name!r}" for name in sorted(set(content) - {MARK, "$schema", *_ENTRIES})]
    system = content.get("system")
    if not isinstance(system, str) or not _is_name(system):
        faults.append("system: a name of 1 to 200 letters")
    protocol = _protocol(content, faults)
    tasks = content.get("tasks")
    read = {}
    if not isinstance(tasks, dict) or not tasks:
        faults.append("tasks: {task: its values}, at least one")
    else:
        known = protocol.queries if protocol is not None and protocol.queries else tasks
        faults += [
            f"task {task!r}: not one of the protocol ({', '.join(known)})" for task in tasks if task not in known
        ]
        read = {task: _task(task, of, faults) for task, of in tasks.items()}
        for task, of in read.items():
            faults += [] if protocol is None or of is None else _of_sum(task, of[1], recalls_of(protocol.recall))
    versions, notes = content.get("versions", {}), content.get("notes", [])
    if not isinstance(versions, dict) or not all(isinstance(value, str) for value in versions.values()):
        faults.append("versions: {package: version}")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        faults.append("notes: a list of sentences")
    raise_faults(VisirError, place, faults, hint="pack it again: visir publish FOLDER --out FILE.json")
    assert protocol is not None
    return Result(
        str(system),
        protocol,
        {task: of[0] for task, of in read.items() if of},
        {task: of[1] for task, of in read.items() if of},
        versions,
        notes=tuple(notes),
        labels={task: of[2] for task, of in read.items() if of and of[2] is not None},
        beyond={task: of[3] for task, of in read.items() if of and of[3]},
    )


def _protocol(content: Mapping[str, Any], faults: list[str]) -> Protocol | None:
    """The protocol of a packed result; its fingerprint says that nobody changed it."""
    values = content.get("protocol")
    if not isinstance(values, dict) or not {"collection", "collection_fingerprint", "split"} <= set(values):
        faults.append("protocol: what visir.evaluate wrote")
        return None
    if unknown := sorted(set(values) - set(PROTOCOL)):
        faults.append(f"protocol: unknown fields {', '.join(map(repr, unknown))}")
        return None
    plain = Protocol(collection="", collection_fingerprint="", split="")
    for name, value in values.items():
        default = getattr(plain, name)
        fits = value is None or isinstance(value, (int, str)) if default is None else type(value) is type(default)
        if isinstance(value, dict) and name != "extra":
            fits = fits and all(isinstance(line, str) for line in value.values())
        if not fits:
            faults.append(f"protocol: {name}: {value!r} is of the wrong type")
    if any(fault.startswith("protocol: ") for fault in faults):
        return None
    protocol = Protocol.from_dict(values)
    if protocol.fingerprint != content.get("protocol_fingerprint"):
        faults.append("protocol: it was altered after the evaluation (its fingerprint does not fit)")
    return protocol


_LARGEST = 1e12
"""What a value may be: sums of squares of millions of these are numbers still."""
_Task = tuple[pa.Table, dict[str, float], "pa.Table | None", dict[str, int]]


def _task(task: str, given: Any, faults: list[str]) -> _Task | None:
    """The tables of one task of a packed result, whose aggregates are the means of its values."""
    where = f"task {task!r}"
    if (
        not isinstance(given, dict)
        or not isinstance(given.get("queries"), list)
        or not isinstance(given.get("values"), dict)
    ):
        faults.append(f"{where}: queries, and the values of each measure")
        return None
    queries, units, beyond = given["queries"], given.get("units"), given.get("beyond", {})
    before = len(faults)
    if not queries or not all(isinstance(query, str) for query in queries) or len(set(queries)) != len(queries):
        faults.append(f"{where}: queries are texts, each once")
    if units is not None and not (_is_whole(units) and len(units) == len(queries)):
        faults.append(f"{where}: units are one whole number for each query, or null")
    if not isinstance(beyond, dict) or not _is_whole(list(beyond.values())):
        faults.append(f"{where}: beyond: {{measure: queries}}")
    columns: dict[str, NDArray[np.float64]] = {}
    if not _is_name(task):
        faults.append(f"task {task[:40]!r}: a name of 1 to 200 letters")
    for name, values in given["values"].items():
        if not _is_measure(name):
            faults.append(f"{where}: {name[:40]!r} is no name of a measure")
            continue
        if not isinstance(values, list) or len(values) != len(queries) or not all(map(_is_number, values)):
            faults.append(f"{where}: {name}: one number for each of {len(queries):,} queries")
            continue
        columns[name] = np.asarray(values, np.float64)
        low, high = bounds_of(name)
        if (columns[name] < low).any() or (columns[name] > high).any():
            faults.append(f"{where}: {name}: values lie between {low:g} and {high:g}")
    stated = given.get("aggregates", {})
    if not isinstance(stated, dict) or not all(map(_is_number, stated.values())):
        faults.append(f"{where}: aggregates: {{measure: number}}")
    if len(faults) > before or not columns:
        faults += [] if columns else [f"{where}: no measure"]
        return None
    for name, values in columns.items():
        mean = float(np.median(values) if _is_median(name) else values.mean())
        if name not in stated or abs(stated[name] - mean) > 1e-6 * max(1.0, abs(mean)):
            other = f"not {stated[name]}" if name in stated else "and its aggregate is missing"
            faults.append(f"{where}: {name}: the values have the mean {mean:.6g}, {other}")
    table = pa.table({"query_id": pa.array(queries), **columns})
    labels = None if units is None else pa.table({"query_id": pa.array(queries), IMAGE: pa.array(map(str, units))})
    return table, {name: float(value) for name, value in stated.items()}, labels, beyond


def _of_sum(task: str, stated: Mapping[str, float], recalls: Sequence[str]) -> list[str]:
    """What is wrong with the sum of recalls: it has no values of its own."""
    if "rsum" not in stated or not set(recalls) <= set(stated):
        return []
    total = 100 * sum(stated[recall] for recall in recalls)
    wrong = abs(stated["rsum"] - total) > 1e-3
    return [f"task {task!r}: rsum: the recalls have the sum {total:.6g}, not {stated['rsum']}"] * wrong


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 200 and text.isprintable()


def _is_measure(text: str) -> bool:
    """Whether a text can be the name of a measure: with a cutoff from 1, if it has one, and none of those made here."""
    _, sign, cutoff = text.rpartition("@")
    fits = not sign or cutoff == "r" or re.fullmatch("[1-9][0-9]{0,8}", cutoff)
    if not fits or not _is_name(text) or not base_of(text) or text in ("rsum", "query_id"):
        return False
    known = read_measure(text)  # "R@1" or "MRR" would stand in the column of what visir calls so
    return isinstance(known, str) or known.name == text


def _is_median(measure: str) -> bool:
    return base_of(measure) in MEASURES and MEASURES.get(base_of(measure)).aggregate == "median"


def _is_whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST
