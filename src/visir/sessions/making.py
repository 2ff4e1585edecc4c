"""Sessions as a person has them in Python: a log in, a folder of sessions out, and its tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from visir.display import Displayed
from visir.errors import ConfigurationError, VisirError, nearest
from visir.progress import Progress
from visir.sessions.definition import (
    EVENT_COLUMNS,
    IDLE_MINUTES,
    PLACE_COLUMNS,
    LogMapping,
    bounded_columns,
    duplicates_sql,
    late_sql,
    load_mapping,
    logins_sql,
    places_sql,
    positive_minutes,
    preset,
    presets,
    repeats_sql,
    sessions_sql,
    timed_sql,
)
from visir.sessions.reading import read_events, write_malformed
from visir.sessions.source import duckdb_engine, log_files
from visir.sessions.sql import SESSIONS, part_name, parts_of, path_literal
from visir.sessions.table_labels import EVENT_COUNTS, SESSION_COUNTS, LogCounts, counts_document, remarks_of
from visir.storage import FolderChange, Scratch, new_folder, read_written_json

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from duckdb import DuckDBPyConnection


# The sessions of one bucket of visitors: events in, three Parquet files and counts out.

PARTS = ("sessions", "events", "rejected")

_NUMBERED = ("visitor", "customer", "device", "location", "channel", "page", "action")
_COLUMNS, _PLACES = ", ".join(EVENT_COLUMNS), ", ".join(PLACE_COLUMNS)
_FILE = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"  # level 3 takes half as long again for 8 % less


def write_bucket(
    engine: DuckDBPyConnection, events: str, name: str, folder: Path, *, idle_minutes: float, zone: str
) -> Counter[str]:
    """Write the files `folder`/{sessions,events,rejected}/`name` of one bucket."""
    # The tables it makes are temporary tables of this connection, which should be closed afterwards.
    _load(engine, events)
    total: Counter[str] = Counter()
    _add(total, engine, "SELECT count(*) AS read FROM events")
    engine.execute(f"CREATE TEMP TABLE timed AS {timed_sql('events')}")
    engine.execute(f"CREATE TEMP TABLE duplicates AS {duplicates_sql('events', 'timed')}")
    _reject(engine, total, folder / "rejected" / name)
    _place(engine, idle_minutes)
    engine.execute(f"CREATE TEMP TABLE sessions AS {sessions_sql('bounded', zone)} ORDER BY visitor, session")
    for query, part in (
        ("sessions", "sessions"),
        (f"(SELECT {_COLUMNS}, {_PLACES} FROM bounded)", "events"),
    ):
        engine.execute(f"COPY {query} TO {path_literal(folder / part / name)} {_FILE}")
    misplaced = "count(*) FILTER (WHERE arrival IS DISTINCT FROM placed) AS misplaced"
    _add(total, engine, f"SELECT {EVENT_COUNTS}, {misplaced} FROM bounded")
    _add(total, engine, f"SELECT {SESSION_COUNTS} FROM sessions")
    if total.pop("misplaced"):
        raise RuntimeError("events and their places are in two orders: please report this with the log")
    return total


def _load(engine: DuckDBPyConnection, events: str) -> None:
    for column in _NUMBERED:
        texts = f"SELECT DISTINCT {column} FROM {events} WHERE {column} IS NOT NULL ORDER BY {column}"
        engine.execute(f"CREATE TEMP TYPE a_{column} AS ENUM ({texts})")
    numbered = ", ".join(f"CAST({column} AS a_{column}) AS {column}" for column in _NUMBERED)
    engine.execute(
        f"CREATE TEMP TABLE events AS SELECT * REPLACE ({numbered}) FROM (SELECT {_COLUMNS}, reason FROM {events}) "
        "ORDER BY visitor, time, arrival"
    )


def _reject(engine: DuckDBPyConnection, total: Counter[str], target: Path) -> None:
    """Move events that are not accepted from the table `events` into a file."""
    is_rejected = "reason IS NOT NULL OR arrival IN (SELECT arrival FROM duplicates)"
    engine.execute(
        f"CREATE TEMP TABLE rejected AS SELECT {_COLUMNS}, coalesce(reason, 'duplicate') AS reason FROM events "
        f"WHERE {is_rejected} ORDER BY arrival"
    )
    engine.execute(f"COPY rejected TO {path_literal(target)} {_FILE}")
    total.update(dict(engine.execute("SELECT reason, count(*) FROM rejected GROUP BY reason").fetchall()))
    engine.execute(f"DELETE FROM events WHERE {is_rejected}")


def _place(engine: DuckDBPyConnection, idle_minutes: float) -> None:
    """Make the view `bounded`: the events left in `events`, with the `PLACE_COLUMNS`."""
    engine.execute(f"CREATE TEMP TABLE late AS {late_sql('timed')}")
    engine.execute(f"CREATE TEMP TABLE logins AS {logins_sql('timed', 'duplicates', idle_minutes=idle_minutes)}")
    engine.execute(f"CREATE TEMP TABLE repeats AS {repeats_sql('events')}")
    places = places_sql("timed", "duplicates", "late", "logins", "repeats", idle_minutes=idle_minutes)
    engine.execute(
        f"CREATE TEMP TABLE places AS SELECT arrival AS placed, {_PLACES} FROM ({places}) ORDER BY visitor, place"
    )
    engine.execute("DROP TABLE timed")
    columns = bounded_columns("events", "places")
    engine.execute(f"CREATE TEMP VIEW bounded AS SELECT {columns}, placed FROM events POSITIONAL JOIN places")


def _add(total: Counter[str], engine: DuckDBPyConnection, query: str) -> None:
    answer = engine.execute(query)
    names = [column[0] for column in answer.description or ()]
    total.update(dict(zip(names, answer.fetchall()[0], strict=True)))


# What to look at after a log was read: signs that the mapping does not mean what the log says.

EXAMPLES = 3
_OLDEST = 1990
_DIGITS = {10: "s", 13: "ms", 16: "us"}
"""Digits of today's times since 1970 → their unit."""


def advice(folder: str | Path, mapping: LogMapping, counts: LogCounts) -> list[str]:
    """Sentences that name rows and words of the log, and the next action; empty where nothing is remarkable."""
    if not counts.read:
        return ["The log has no row: its files hold a head at most. Is it the right log?"]
    folder = Path(folder)
    sentences = []
    if counts.rejected["no_time"]:
        sentences += _unreadable_times(folder, mapping)
    if counts.accepted:
        sentences += _odd_times(folder, mapping)
    if counts.flags["no_offset"] and counts.flags["no_offset"] < counts.accepted:
        sentences.append(
            f"{counts.flags['no_offset']:,} times have no offset and were read as UTC, the others have one: are all of "
            'one clock? Where none has an offset, unit = "local" with time_zone reads a wall clock.'
        )
    if counts.flags["no_price"]:
        shown = _shown(_written(folder / "events", "written_price", ~pc.field("price").is_valid()))
        sentences.append(f"Prices that cannot be read: {shown}. SQL in [events] can make numbers of them.")
    if counts.flags["open_price"]:
        shown = _shown(_written(folder / "events", "written_price", pc.field("price").is_valid()))
        sentences.append(
            f"{counts.flags['open_price']:,} prices have two readings, and were read as programs write them: {shown}. "
            'decimal = "point" or decimal = "comma" in the mapping says which is meant.'
        )
    if counts.flags["no_id"]:
        shown = _shown(_written(folder / "events", "written_id"))
        sentences.append(f"Ids that are words for nothing are none: {shown}.")
    if counts.flags["unknown_action"]:
        sentences += _unknown_actions(folder, mapping)
    if counts.accepted and not counts.purchases:
        meant = [name for name, action in mapping.actions.items() if action == "order"]
        words = f"{', '.join(map(repr, meant))} never occurs" if meant else 'no word means "order"'
        sentences.append(f"No session has a purchase: {words}. Check [actions] of the mapping.")
    return sentences


def _unreadable_times(folder: Path, mapping: LogMapping) -> list[str]:
    rows = _written(folder / "rejected", "written_time", pc.field("reason") == "no_time")
    if not rows:
        return []
    units = {_unit(text) for text in rows.values()} - {"", mapping.unit}
    guess = f" They look like unit = {min(units)!r}. One log has one unit: convert what differs." if units else ""
    if not guess and any(re.match(r"\d\d?[/-]\d\d?[/-]\d{2}", text) for text in rows.values()):
        guess = " Which is the day? SQL in [events] says it: time = \"strptime(time, '%d/%m/%Y %H:%M')\"."
    if not guess and all(_OF_EXCEL.fullmatch(text) for text in rows.values()):
        guess = f" {_days_of_excel(mapping)}"
    return [f"Times that cannot be read with unit = {mapping.unit!r}: {_shown(rows)}.{guess}"]


_OF_EXCEL = re.compile(r"[2-7]\d{4}(\.\d+)?")
"""Days since the end of 1899, from 1954 to 2119."""


def _days_of_excel(mapping: LogMapping) -> str:
    days = f"(CAST({mapping.events['time']} AS DOUBLE) - 25569) * 86400"
    return f'They look like days as Excel counts them: unit = "s" with time = "{days}" in [events] reads these.'


def _written(folder: Path, column: str, among: pc.Expression | None = None) -> dict[int, str]:
    """The first rows of the log that have a text in a column of what was written: their numbers, and the texts."""
    is_there = pc.field(column).is_valid()
    rows = ds.dataset(folder).to_table(["arrival", column], filter=is_there if among is None else is_there & among)
    rows = rows.sort_by("arrival").slice(0, EXAMPLES)
    return dict(zip(rows["arrival"].to_pylist(), rows[column].to_pylist(), strict=True))


def _shown(rows: Mapping[int, str]) -> str:
    return ", ".join(f"row {number:,}: {text!r}" for number, text in rows.items())


def _unit(text: str) -> str:
    """The unit that a time looks like; "" where that cannot be told."""
    number = text.partition(".")[0]
    if number.isdigit():
        return _DIGITS.get(len(number), "")
    return "iso" if re.match(r"\d{4}-\d\d-\d\d", text) else ""


def _odd_times(folder: Path, mapping: LogMapping) -> list[str]:
    batches = ds.dataset(folder / "sessions").to_batches(columns=["began", "ended"])
    ends = [(pc.min(batch["began"]).as_py(), pc.max(batch["ended"]).as_py()) for batch in batches if len(batch)]
    first, last = min(began for began, _ in ends), max(ended for _, ended in ends)
    earliest, latest = (datetime.fromtimestamp(time / 1e6, UTC) for time in (first, last))
    if earliest.year >= _OLDEST:
        return []
    rest = f", and until {latest:%Y-%m-%d}: are two units mixed?" if latest.year >= _OLDEST else ": is it right?"
    factor = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(mapping.unit)
    if factor and all(_OF_EXCEL.fullmatch(str(time / factor)) for time in (first, last)):
        rest += f" {_days_of_excel(mapping)}"
    return [f"With unit = {mapping.unit!r} the log begins on {earliest:%Y-%m-%d}{rest}"]


def _unknown_actions(folder: Path, mapping: LogMapping) -> list[str]:
    counts = Counter[str]()
    for batch in ds.dataset(folder / "events").to_batches(columns=["unknown_action"]):
        words = batch["unknown_action"].drop_null().value_counts().to_pylist()
        counts.update({word["values"]: word["counts"] for word in words})
    counted = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{word!r} ({count:,})" for word, count in counted[:EXAMPLES])
    more = f" and {len(counted) - EXAMPLES} more" if len(counted) > EXAMPLES else ""
    near = nearest(counted[0][0], list(mapping.actions)) if mapping.actions else "[actions] is empty"
    return [f'Words that [actions] does not name count as "other": {shown}{more}. For the first: {near}.']


# Sessions of a log of any size, in bounded memory: the definition, run bucket by bucket.


def sessionise(
    source: Any,
    mapping: LogMapping,
    out: str | Path,
    *,
    idle_minutes: float = IDLE_MINUTES,
    buckets: int | None = None,
    threads: int | None = None,
    memory: str | None = None,
    replace: bool = False,
    bad_rows: str = "skip",
) -> LogCounts:
    """Write the sessions of a log into a new folder, and return what was counted.

    The folder appears complete or not at all. It holds

    - `sessions/*.parquet`: one row per session
    - `events/*.parquet`: the accepted events, each with its session. Both are sorted by visitor and time within a file,
      and each visitor is in one file.
    - `rejected/*.parquet`: the rejected events, each with the reason
    - `malformed.parquet`: the lines of CSV and JSON files that are not rows
    - `counts.json`: all counts, with the declarations they depend on, and what to look at

    Args:
        source: A file, a folder, a tar archive, or several of these; or a data frame or an Arrow table.
        mapping: How the log's columns become events.
        out: The folder to make.
        idle_minutes: More minutes than this without a request end a session.
        buckets: Parts of the work; by default one per `reading.ROWS_PER_BUCKET` rows. Changes no result.
        threads: Default: one per core. Changes no result.
        memory: What the engine may hold ("2GB"); more is spilled to disk beside `out`. Changes no result.
        replace: Replace `out` where it exists.
        bad_rows: What becomes of lines that are no rows: "skip" lists them, "refuse" raises.

    Raises:
        VisirError: `out` exists, or a file is damaged as a whole.
        ConfigurationError: The mapping does not fit the log.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> from visir.sessions import preset
        >>> log = pa.table({"visitor": ["ann", "ann", None], "time": [0, 1, 2], "action": ["page", "order", "page"]})
        >>> pq.write_table(log, "log.parquet")
        >>> counts = sessionise("log.parquet", preset("events"), "out")
        >>> counts.sessions, counts.purchases, counts.rejected["no_visitor"]
        (1, 1, 1)
    """
    positive_minutes(idle_minutes)
    if bad_rows not in ("skip", "refuse"):
        raise ConfigurationError(f"bad_rows={bad_rows!r}", hint='"skip" or "refuse"')
    out = Path(out)
    purpose, kept_order = "Finding sessions in a log", {"preserve_insertion_order": True}
    with (
        new_folder(out, SESSIONS, replace=replace) as change,
        Scratch.beside(out) as scratch,
        duckdb_engine(out, purpose, scratch=scratch, threads=threads, memory=memory, **kept_order) as engine,
    ):
        files = log_files(source, mapping, scratch)
        mapping = files.mapping
        tables = read_events(engine, mapping, files.read, scratch, buckets)
        malformed = write_malformed(engine, scratch, change.file("malformed.parquet"))
        if malformed and bad_rows == "refuse":
            rows = ds.dataset(change.folder / "malformed.parquet").to_table().slice(0, EXAMPLES).to_pylist()
            shown = "; ".join(f"{row['file']}, line {row['line']}: {row['fault']}" for row in rows)
            raise VisirError(
                f"{malformed:,} lines are no rows ({shown}).",
                hint='mend them, or leave them out, listed in malformed.parquet: bad_rows="skip"',
            )
        total = _write(engine, tables, mapping, idle_minutes, change)
        counts = LogCounts.of(total, malformed=malformed, passed_over=files.passed_over)
        signs = advice(change.folder, mapping, counts)
        engine_name = f"duckdb {version('duckdb')}"
        change.write_json("counts.json", counts_document(counts, mapping, idle_minutes, engine_name, signs))
    return counts


def _write(
    engine: DuckDBPyConnection, buckets: Sequence[str], mapping: LogMapping, idle_minutes: float, change: FolderChange
) -> Counter[str]:
    for number in range(len(buckets)):
        for part in PARTS:
            change.file(f"{part}/{part_name(number)}")
    threads: int = engine.execute("SELECT current_setting('threads')").fetchall()[0][0]
    workers = max(1, min(threads, len(buckets)))
    engine.execute(f"SET threads = {threads - workers + 1}")  # those who work on buckets, and who helps them
    total: Counter[str] = Counter()

    def write(number: int) -> Counter[str]:
        with engine.cursor() as cursor:
            name, folder = part_name(number), change.folder
            return write_bucket(cursor, buckets[number], name, folder, idle_minutes=idle_minutes, zone=mapping.zone)

    with ThreadPoolExecutor(workers) as pool, Progress("finding sessions", len(buckets), "buckets") as advance:
        tasks = [pool.submit(write, number) for number in range(len(buckets))]
        try:
            for task in as_completed(tasks):
                total.update(task.result())
                advance()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return total


@dataclass(frozen=True, repr=False)
class Sessions(Displayed):
    """A folder of sessions that visir made of a log. It can stand wherever the folder can.

    Args:
        folder: Where it lies.
        counts: What became of the log's rows, as `counts.json` has it.
        advice: Signs that the mapping does not mean what the log says, each with the next action.
    """

    folder: Path
    counts: dict[str, Any]
    advice: tuple[str, ...] = ()

    @classmethod
    def open(cls, folder: str | Path) -> Sessions:
        """Open a folder that `visir.sessions.make` wrote.

        Raises:
            FolderError: It is no folder of sessions.
        """
        folder = Path(folder)
        parts_of(folder)  # raises
        document = read_written_json(folder / "counts.json")
        with SESSIONS.reading(folder, "counts.json"):
            return cls(folder, {**document["counts"]}, tuple(map(str, document.get("advice", ()))))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What `visir sessions make` says: rows rejected or accepted with a remark, lines that are none, the advice."""
        return (*remarks_of(self.counts), *self.advice)

    def __fspath__(self) -> str:
        return str(self.folder)

    def __len__(self) -> int:
        return int(self.counts["sessions"])

    def __repr__(self) -> str:
        accepted = f"{self.counts['accepted']:,} of {self.counts['read']:,} rows accepted"
        without = self.counts.get("purchases_without_page")
        no_page = f" ({without:,} of these without a page)" if without else ""
        return (
            f"Sessions({self.folder}: {len(self):,} sessions, "
            f"{self.counts['purchases']:,} with a purchase{no_page}, "
            f"{self.counts['visitors']:,} visitors)\n  " + "\n  ".join([accepted, *self.remarks])
        )

    def to_arrow(self) -> pa.Table:
        """One row per session: visitor, session, customer, began and ended (µs, UTC), pages, orders, purchase, ….

        Sorted by the beginning.
        """
        return self._table(0)

    def events(self) -> pa.Table:
        """One row per accepted event, with the session that it belongs to."""
        return self._table(1)

    def to_pandas(self) -> pd.DataFrame:
        """The table of `to_arrow`, with `began` and `ended` as times (UTC)."""
        import pyarrow as pa

        table = self.to_arrow()
        for name in ("began", "ended"):
            times = table[name].cast(pa.timestamp("us", tz="UTC"))
            table = table.set_column(table.column_names.index(name), name, times)
        frame: pd.DataFrame = table.to_pandas()
        return frame

    def _table(self, part: int) -> pa.Table:
        import pyarrow as pa

        from visir.parquet import read_table

        table = pa.concat_tables([read_table(files[part]) for files in parts_of(self.folder)])
        return table.sort_by([("began" if part == 0 else "time", "ascending"), ("visitor", "ascending")])


def make(
    log: Any,
    out: str | Path,
    *,
    mapping: str | Path | LogMapping,
    idle_minutes: float = IDLE_MINUTES,
    zone: str | None = None,
    locations: Sequence[str] = (),
    buckets: int | None = None,
    threads: int | None = None,
    memory: str | None = None,
    replace: bool = False,
    bad_rows: str = "skip",
) -> Sessions:
    """Find the sessions of a raw log and write them into a folder.

    Rejected rows are counted by reason and written beside the sessions; nothing of the log is changed.

    Args:
        log: A file, a folder, a tar archive, or several of these: CSV, JSON lines or Parquet; or a data frame or an
            Arrow table.
        out: The folder to make.
        mapping: How the log's columns become events: the name of a preset ("shop-events"; `presets()` lists them), a
            TOML file, or a `LogMapping`.
        idle_minutes: More minutes than this without a request end a session.
        zone: Time zone of hours, weekdays and days. Default: the mapping's. Such as "Europe/Amsterdam".
        locations: Only events of these locations are accepted, in the log's own words; by default the mapping's.
        buckets: Parts of the work. Default: by the log's rows. Changes no result.
        threads: Default: one per core. Changes no result.
        memory: What the engine may hold ("2GB"); more is spilled to disk beside `out`. Changes no result.
        replace: Replace `out` where it is a folder of sessions.
        bad_rows: What becomes of lines that are no rows: "skip" lists them in `malformed.parquet`, "refuse" raises.

    Returns:
        The sessions: a record that has their counts, remarks and tables, and stands wherever the folder can.

    Raises:
        VisirError: `out` exists, or a file is damaged as a whole.
        ConfigurationError: The mapping is unknown or does not fit the log.

    Example:
        >>> from pathlib import Path
        >>> lines = ["visitor,time,action", "ann,0,page", "ann,60000000,order", "bob,0,page"]
        >>> _ = Path("log.csv").write_text("\\n".join(lines))
        >>> from visir.sessions import LogMapping
        >>> mapping = LogMapping(
        ...     "mine", "csv", raw={name: (name,) for name in ("visitor", "time", "action")},
        ...     events={"visitor": "visitor", "time": "time", "action": "action"},
        ...     actions={"page": "page", "order": "order"},
        ... )
        >>> sessions = make("log.csv", "sessions", mapping=mapping)
        >>> len(sessions), sessions.to_arrow()["purchase"].to_pylist()
        (2, [True, False])
        >>> sessions.remarks
        ("With unit = 'us' the log begins on 1970-01-01: is it right?",)
    """
    sessionise(
        log,
        adapted(mapping_of(mapping), zone=zone, locations=locations),
        out,
        idle_minutes=idle_minutes,
        buckets=buckets,
        threads=threads,
        memory=memory,
        replace=replace,
        bad_rows=bad_rows,
    )
    return Sessions.open(out)


def adapted(mapping: LogMapping, *, zone: str | None = None, locations: Sequence[str] = ()) -> LogMapping:
    """A mapping with another time zone, or for some locations only."""
    changes: dict[str, Any] = {"zone": zone} if zone is not None else {}
    changes |= {"locations": tuple(locations)} if locations else {}
    return replace(mapping, **changes) if changes else mapping


def mapping_of(mapping: str | Path | LogMapping) -> LogMapping:
    """A mapping from itself, the name of a preset, or a TOML file."""
    if isinstance(mapping, LogMapping):
        return mapping
    if str(mapping) in presets():
        return preset(str(mapping))
    if Path(mapping).suffix == ".toml" or Path(mapping).exists():
        return load_mapping(mapping)
    raise ConfigurationError(
        f"mapping {str(mapping)!r}: no preset and no file.",
        hint=f'a preset ({", ".join(presets())}), or a TOML file: mapping="shop.toml"',
    )
