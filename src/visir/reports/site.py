"""Results of any systems on any tasks as one site, which needs no server: systems × tasks, and all that is behind."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as changed
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa
from markupsafe import Markup

import visir.collections as collections
from visir.display import counted, csv_of
from visir.errors import ConfigurationError
from visir.evaluation.leaderboard import (
    FORMAT,
    MARK,
    SITE,
    Board,
    Leaderboard,
    NamedResult,
    Standing,
    is_low,
    key_of,
    leaderboard,
    of_task,
    packed,
)
from visir.files import json_bytes
from visir.fingerprint import hash_json
from visir.progress import Progress
from visir.records.result import PROTOCOL, Protocol
from visir.reports.evaluation import evaluation_report, expected_by_chance
from visir.reports.formats import to_latex
from visir.reports.page import Notice, Section, environment, page_bytes
from visir.reports.report import STORED, StudyReport
from visir.reports.table import Cell, Column, Number, Table
from visir.reports.words import display, in_reading_order, paper_name, task_words
from visir.storage import new_folder, write_new


def publish(
    *sources: Any,
    out: str | Path | None = None,
    title: str = "",
    data: Any = None,
    images: Any = None,
    pages: bool = True,
    replace: bool = False,
    seed: int = 0,
) -> StudyReport:
    """Show results of any systems on any tasks as one site: every number with its interval, places and protocol.

        visir.publish("results/", out="site")                     all results in a folder
        visir.publish("results/mine", out="mine.json")            one result as a file that others can add

    The site is a folder of plain files: it opens from the disk and on any static host, and fetches nothing. One column
    is one task under one protocol; numbers of other protocols stand in columns of their own, and what differs is named.
    Beside each number stand the places that the system may have in its column (`visir.stats.places`), below it its
    interval. A click shows the protocol, all measures, and the page with queries and answers.

    Args:
        *sources: What `visir.evaluate` and `visir.classify` return, folders that they wrote, folders that hold such
            folders, and packed results of others (JSON); {name: source} names systems.
        out: Where to write: a new folder for the site; or, of one result, a file `NAME.json`. None writes nothing.
        title: The heading; by default the names of the collections.
        data: A collection that was searched (`visir.open` takes it): pages of its results show pictures.
        images: Where its pictures are, if not beside it.
        pages: Whether each result gets a page of its queries and answers, where these are at hand.
        replace: Replace a site that visir wrote.
        seed: Of the places.

    Returns:
        The boards as a report: tables that print, become LaTeX and data frames.

    Raises:
        VisirError: A result cannot be read, or a packed one does not hold what it says; all faults at once.
        FolderError: The folder holds something else.

    Example:
        >>> import visir
        >>> judged = {f"q{n}": {f"d{n}": 1} for n in range(20)}
        >>> right = {query: {document: 1.0, "other": 0.5} for query, (document,) in judged.items()}
        >>> wrong = {query: {document: 0.1, "other": 0.5} for query, (document,) in judged.items()}
        >>> first = visir.evaluate(judged, right, name="a", measures=["P@1"])
        >>> second = visir.evaluate(judged, wrong, name="b", measures=["P@1"])
        >>> visir.publish(second, first).table.texts()
        [['a', '1', '100.0'], ['b', '2', '0.0']]
    """
    results = leaderboard(sources, seed=seed)
    report = _report(results, title)
    if out is None:
        return report
    if Path(out).suffix == ".json":
        if len(results.entries) != 1:
            raise ConfigurationError(
                f"{out}: a file holds one result, not {len(results.entries)}.",
                hint="name one result, or a folder for a site: --out site",
                code="one-result-a-file",
            )
        write_new(out, _pretty(packed(results.entries[0].result)), replace=replace)
        return report
    source = None if data is None else collections.open(data, **({} if images is None else {"images": images}))
    _write_site(Path(out), results, report, source, pages=pages, replace=replace)
    return report


# The boards as tables.


def _report(results: Leaderboard, title: str) -> StudyReport:
    """The boards, each with a column for each measure that papers print."""
    tables = [_table(board) for board in results.boards]
    notes = [*results.notes, *dict.fromkeys(note for board in results.boards for note in board.notes)]
    unlike = [board for board in results.boards if board.differs]
    if unlike:
        notes.append(
            f"{counted(len(unlike), 'boards')} of one task differ in their protocols, and are not ranked together"
        )
    facts = {"systems": str(len(_systems(results))), "tasks": str(len(results.boards))}
    blocks: list[Any] = [*tables, *([Notice(notes)] if notes else [])]
    return StudyReport(
        "results",
        title or _title(results),
        [Section("boards", "Results", blocks)],
        facts,
        headline=tables,
        printed=[*tables, *notes],
    )


def _title(results: Leaderboard) -> str:
    names = list(dict.fromkeys(board.protocol.collection for board in results.boards))
    return f"Results on {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"


def _systems(results: Leaderboard) -> list[str]:
    return list(dict.fromkeys(entry.name for entry in results.entries))


def _measures(board: Board) -> list[str]:
    """The measures of a board as a reader wants them; of those that say the same of one right answer, the named."""
    named = in_reading_order(board.measures, board.protocol)
    families = {"hit", "recall", "capped_recall"} - {board.protocol.recall}
    return [name for name in named if name.partition("@")[0] not in families or "@" not in name] or named


def _table(board: Board) -> Table:
    """The systems of a board, the best first, with places by its first measure."""
    measures = _measures(board)
    shown = [name for name in measures if name.startswith(f"{board.protocol.recall}@") or name == "rsum"] or measures
    is_ranked = any(standing.best for of in board.standings.values() for standing in of.values())
    columns = [Column("system"), *([Column("place")] if is_ranked else [])]
    columns += [
        Column(paper_name(name, board.protocol.recall), display(name).digits, "min" if is_low(name) else "max")
        for name in shown
    ]
    rows: list[list[Cell]] = []
    for system in board.systems:
        standings = board.standings[system]
        first = standings.get(shown[0])
        place = "" if first is None or not first.best else _span(first.best, first.worst)
        values = [standings.get(name) for name in shown]
        cells = [
            None if value is None or not isfinite(value.value) else Number(display(name).scale * value.value)
            for name, value in zip(shown, values, strict=True)
        ]
        rows.append([system, *([place] if is_ranked else []), *cells])
    about = f"{_of(board)}, {task_words(board.task)}" if task_words(board.task) != _of(board) else _of(board)
    heads = [column.name for column in columns[2 if is_ranked else 1 :]]
    sentences = [f"Places by {heads[0]}, all of them right at once with 95 %."] if is_ranked else []
    sentences.append(f"{counted(board.queries, 'queries')}.")
    sentences += [f"R@k is {board.protocol.recall}@k."] if any(head.startswith("R@") for head in heads) else []
    differs = [f"Protocol: {'; '.join(board.differs)}."] if board.differs else []
    return Table.of(columns, rows, caption=about, notes=[" ".join(sentences), *differs])


def _of(board: Board) -> str:
    return " ".join(filter(None, (board.protocol.collection, board.protocol.split)))


def _span(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best}–{worst}"


# The site.


def _write_site(
    out: Path, results: Leaderboard, report: StudyReport, source: Any, *, pages: bool, replace: bool
) -> None:
    """All files of the site, complete or not at all."""
    shown: list[dict[str, Any]] = []
    with (
        new_folder(out, SITE, replace=replace) as change,
        Progress("pages", len(results.entries), "results") as advance,
    ):
        for entry in results.entries:
            name = _file_name(entry)
            change.write(f"systems/{name}.json", json_bytes(packed(entry.result)))
            page = _page(entry, source) if pages and entry.evaluation is not None else None
            if page is not None:
                change.write(f"systems/{name}.html", page)
            shown.append({"file": f"systems/{name}.json", "page": None if page is None else f"systems/{name}.html"})
            advance()
        change.write(STORED, report.to_bytes())
        change.write("index.html", _index(results, report.title, shown))
        rows = [row for board in results.boards for row in _rows(board)]
        change.write("results.csv", _csv(rows))
        protocols = {board.key: board.protocol.to_dict() for board in results.boards}
        change.write("results.json", json_bytes({"protocols": protocols, "results": rows}))
        change.write("results.tex", "\n".join(to_latex(table) for table in report.tables).encode())
        change.write("schema.json", _pretty(schema()))


def _file_name(entry: NamedResult) -> str:
    """A name of plain letters, and no two results with one."""
    plain = unicodedata.normalize("NFKD", entry.name).encode("ascii", "ignore").decode().lower()
    short = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].strip("-") or "system"
    return f"{short}-{hash_json({'name': entry.name, **packed(entry.result)})[:8]}"


def _page(entry: NamedResult, source: Any) -> bytes | None:
    """The page of a result, with pictures where what was searched is at hand; None where there are no answers."""
    assert entry.evaluation is not None, "asked for with answers"
    if not entry.evaluation.runs:
        return None
    evaluation = changed(entry.evaluation, result=changed(entry.result, system=entry.name))
    fits = source is not None and source.fingerprint == entry.result.protocol.collection_fingerprint
    return page_bytes(evaluation_report(evaluation, source=source if fits else evaluation.source).page())


def _index(results: Leaderboard, title: str, shown: list[dict[str, Any]]) -> bytes:
    """The page with the table: the numbers lie in it, so that it opens from the disk."""
    script = (files("visir.reports") / "templates" / "site.js").read_text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(_data(results, shown), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    page = environment().get_template("site.html.j2")
    clustered = any(board.units < board.queries for board in results.boards)
    facts = [counted(len(_systems(results)), "systems"), counted(len(results.boards), "columns")]
    facts.append(counted(sum(len(board.standings) for board in results.boards), "results"))
    rendered = page.render(
        title=title,
        facts=facts,
        notes=[*results.notes],
        units="images, captions of one image together" if clustered else "queries",
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        data=Markup(data.replace("<", "\\u003c")),  # a name cannot end the element that it stands in
    )
    return rendered.encode()


def _data(results: Leaderboard, shown: list[dict[str, Any]]) -> dict[str, Any]:
    """What the page's script shows."""
    systems = {name: number for number, name in enumerate(_systems(results))}
    names = list(dict.fromkeys(board.protocol.collection for board in results.boards))
    measures: dict[str, Any] = {}
    listed: list[dict[str, Any]] = []
    keys: dict[str, list[str]] = {}
    own = [_keys(entry) for entry in results.entries]
    for board in results.boards:
        having = [entry for entry, of in zip(results.entries, own, strict=True) if board.key in of]
        chance = _chance(board, having)
        labels = {measure: paper_name(measure, board.protocol.recall) for measure in _measures(board)}
        for measure, label in labels.items():
            says = display(measure)
            about = {"name": label, "digits": says.digits, "low": is_low(measure), "says": says.says}
            measures.setdefault(label, about)
        rows: dict[int, dict[str, list[float | int | None]]] = {}
        for system, standings in board.standings.items():
            keys.setdefault(system, []).append(board.key)
            rows[systems[system]] = {
                label: _numbers(measure, standings[measure])
                for measure, label in labels.items()
                if measure in standings and isfinite(standings[measure].value)
            }
        listed.append(
            {
                "key": board.key,
                "collection": names.index(board.protocol.collection),
                "split": board.protocol.split,
                "task": board.task,
                "words": task_words(board.task),
                "queries": board.queries,
                "units": board.units,
                "differs": list(board.differs),
                "notes": list(board.notes),
                "card": [(task_words(name), value) for name, value in _common(board.protocol).card()],
                "measures": dict.fromkeys(labels.values(), 1),
                "chance": {labels[name]: round(display(name).scale * value, 3) for name, value in chance.items()},
                "rows": rows,
            }
        )
    order = sorted(measures, key=lambda label: -sum(label in board["measures"] for board in listed))
    return {
        "systems": list(systems),
        "collections": names,
        "tasks": {board.task: task_words(board.task) for board in results.boards},
        "measures": {label: measures[label] for label in order},
        "first": order[0],
        "boards": listed,
        "entries": [
            {
                "system": systems[entry.name],
                "boards": [key for key in keys[entry.name] if key in of],
                "facts": _own(entry.result.protocol) + list(entry.result.versions.items()),
                "notes": list(entry.result.notes),
                **at,
            }
            for entry, at, of in zip(results.entries, shown, own, strict=True)
        ],
    }


def _keys(entry: NamedResult) -> set[str]:
    return {key_of(of_task(entry.result.protocol, task), task) for task in entry.result.tasks}


def _numbers(measure: str, standing: Standing) -> list[float | int | None]:
    """[value, low, high, best, worst], as they are printed but with one digit more."""
    digits, scale = display(measure).digits + 1, display(measure).scale
    values = (standing.value, standing.low, standing.high)
    printed = [round(scale * value, digits) if isfinite(value) else None for value in values]
    return [*printed, standing.best, standing.worst]


def _common(protocol: Protocol) -> Protocol:
    """A protocol without what is each system's own."""
    return protocol.changed(**{name: getattr(_PLAIN, name) for name, about in PROTOCOL.items() if about.of_system})


def _own(protocol: Protocol) -> list[tuple[str, str]]:
    own = {name: getattr(protocol, name) for name, about in PROTOCOL.items() if about.of_system}
    return [(name.replace("_", " "), str(value)) for name, value in own.items() if value not in (None, "", "{}")]


_PLAIN = Protocol(collection="", collection_fingerprint="", split="")


def _chance(board: Board, entries: Sequence[NamedResult]) -> dict[str, float]:
    """What a random order reaches on a board, where the answers of one of its systems say how large the gallery is."""
    for entry in entries:
        evaluation = entry.evaluation
        if evaluation is None:
            continue
        hits = expected_by_chance(evaluation.result, evaluation.runs, evaluation.qrels).get(board.task)
        if hits is not None:
            cutoffs = ((name, name.partition("@")[2]) for name in board.measures if name.startswith("hit@"))
            return {name: float(hits[int(k) - 1]) for name, k in cutoffs if k.isdigit() and int(k) <= len(hits)}
    return {}


def _rows(board: Board) -> Iterator[dict[str, Any]]:
    """Every number of a board, fractions as they are."""
    for system in board.systems:
        for measure, standing in board.standings[system].items():
            ends = [value if isfinite(value) else None for value in (standing.value, standing.low, standing.high)]
            yield {
                "system": system,
                "collection": board.protocol.collection,
                "split": board.protocol.split,
                "task": board.task,
                "measure": measure,
                "value": ends[0],
                "low": ends[1],
                "high": ends[2],
                "best_place": standing.best or None,
                "worst_place": standing.worst or None,
                "systems": len(board.standings),
                "queries": board.queries,
                "units": board.units,
                "protocol": board.key,
            }


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return csv_of(pa.Table.from_pylist(list(rows)))


def _pretty(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


def schema() -> dict[str, Any]:
    """The form of a packed result as JSON Schema, for editors and the checks of other tools."""
    text, numbers, whole = {"type": "string"}, {"type": "number"}, {"type": "integer", "minimum": 0}
    fields = {}
    for name, about in PROTOCOL.items():
        default = getattr(_PLAIN, name)
        kinds = {dict: "object", int: "integer", str: "string", type(None): ["integer", "string", "null"]}
        fields[name] = {"type": kinds[type(default)], "description": about.what}
        if type(default) is str and about.choices and not about.form:
            fields[name]["examples"] = list(about.choices)
    task = {
        "type": "object",
        "required": ["queries", "values", "aggregates"],
        "properties": {
            "queries": {"type": "array", "items": text, "minItems": 1, "uniqueItems": True},
            "units": {"type": ["array", "null"], "items": whole, "description": "The image of each query."},
            "values": {"type": "object", "additionalProperties": {"type": "array", "items": numbers}},
            "aggregates": {"type": "object", "additionalProperties": numbers},
            "beyond": {"type": "object", "additionalProperties": whole},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A result of visir",
        "type": "object",
        "required": [MARK, "system", "protocol", "protocol_fingerprint", "tasks"],
        "additionalProperties": False,
        "properties": {
            "$schema": text,
            MARK: {"const": FORMAT},
            "system": {"type": "string", "minLength": 1, "maxLength": 200},
            "protocol": {"type": "object", "properties": fields, "additionalProperties": False},
            "protocol_fingerprint": text,
            "tasks": {"type": "object", "minProperties": 1, "additionalProperties": task},
            "versions": {"type": "object", "additionalProperties": text},
            "notes": {"type": "array", "items": text},
        },
    }
