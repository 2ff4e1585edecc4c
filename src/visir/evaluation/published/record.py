"""A published table of retrieval results: its source, its protocol in words, and its values."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from visir.display import Displayed
from visir.errors import ConfigurationError, VisirError, docs_page, nearest, raise_faults
from visir.files import read_bytes, read_json

TASKS = ("i2t", "t2i", "both", "category")
_ROW_KEYS = ("system", "collection", *TASKS, "spread")
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class PublishedRow:
    """The values of one system on one collection, as printed.

    Attributes:
        system: The name of the system.
        values: By task and label. Labels are those of the paper. "R@5" is not translated, because the recall that it
            means may be unknown; every other label is the name of a measure, or "rsum" (in percentage points), or "DCG"
            (`dcg_cm@10`), or "R-P" (`rprecision`, printed as a fraction of 1).
        collection: The name of the collection.
        spread: By task and label: the number after a ±, where there is one. The table's notes explain it (variance,
            standard deviation, over which samples).
        in_percent: Whether a percent sign says that values are percentages. Without one, 0.59 may be 59 %.
    """

    system: str
    values: Mapping[str, Mapping[str, float]]
    collection: str = ""
    spread: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    in_percent: bool = False


@dataclass(frozen=True)
class Doubt:
    """Printed values that cannot be right, or do not agree with their label.

    An empty name means all: `Doubt(reason, system="X-VLM", label="R@10")` is one column of one system, in every
    collection and task. The values themselves stay as printed.

    Attributes:
        reason: Why they are doubtful.
        system: The system.
        collection: The collection.
        task: The task.
        label: The label.
    """

    reason: str
    system: str = ""
    collection: str = ""
    task: str = ""
    label: str = ""

    def covers(self, row: PublishedRow, task: str, label: str) -> bool:
        """Whether one printed value is among the doubtful ones."""
        here = (row.system, row.collection, task, label)
        names = (self.system, self.collection, self.task, self.label)
        return all(not name or name == value for name, value in zip(names, here, strict=True))


@dataclass(frozen=True, repr=False)
class Published(Displayed):
    """A table from a paper, with its source.

    Attributes:
        name: The name of the table.
        title: Its title.
        source: The document and the number.
        rows: One per system and collection.
        decimals: How many decimals are printed.
        protocol: The source's description of its protocol, in words, by field of `Protocol`; hints for a reader, never
            used to change a number.
        notes: What a reader should know before a comparison.
        doubtful: Doubtful printed values, with the reason; `doubt()` looks up one value.
    """

    name: str
    title: str
    source: str
    rows: tuple[PublishedRow, ...]
    decimals: int = 2
    protocol: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    doubtful: tuple[Doubt, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems in the order of the table."""
        return tuple(dict.fromkeys(row.system for row in self.rows))

    @property
    def collections(self) -> tuple[str, ...]:
        """The collections in the order of the table."""
        return tuple(dict.fromkeys(row.collection for row in self.rows))

    def doubt(self, row: PublishedRow, task: str, label: str) -> str:
        """Why a printed value is doubtful.

        Args:
            row: The row.
            task: The task.
            label: The label.

        Returns:
            The reasons; empty if the value is not doubtful.
        """
        return " ".join(doubt.reason for doubt in self.doubtful if doubt.covers(row, task, label))

    def row(self, system: str | None = None, collection: str | None = None) -> PublishedRow:
        """The one row of a system and a collection.

        Args:
            system: The system; case, spaces and punctuation do not matter. None if there is only one.
            collection: The collection, likewise.

        Returns:
            The row.

        Raises:
            VisirError: A name is unknown, or not exactly one row fits; the choices are listed.
        """
        faults = []
        for kind, requested, known in (("system", system, self.systems), ("collection", collection, self.collections)):
            if requested is not None and _plain(requested) not in map(_plain, known):
                faults.append(f"no {kind} {requested!r} ({nearest(requested, known)})")
        raise_faults(
            VisirError,
            self.name,
            faults,
            hint="say which: --as SYSTEM, --on COLLECTION (in Python system=, collection=)",
        )
        matching = [
            row
            for row in self.rows
            if (system is None or _plain(row.system) == _plain(system))
            and (collection is None or _plain(row.collection) == _plain(collection))
        ]
        if len(matching) != 1:
            choices = ", ".join(
                f"{row.system} on {row.collection}" if row.collection else row.system for row in matching
            )
            raise VisirError(
                f"{self.name}: {len(matching)} rows fit: {choices or 'none'}.",
                hint="say which: --as SYSTEM, --on COLLECTION (in Python system=, collection=)",
                code="rows-fit",
            )
        return matching[0]


def shipped() -> tuple[str, ...]:
    """The names of the tables of retrieval results that come with visir; `catalogue.every_table` has all tables."""
    return tuple(sorted(path.stem for path in _HERE.glob("*.json")))


def load(name_or_path: str | Path) -> Published:
    """Read a published table of retrieval results.

    Args:
        name_or_path: A name of `shipped`, or a `.json` or `.toml` file with `title`, `source`, optional `decimals`,
            `protocol`, `notes`, `doubtful` (a list of `{reason, system?, collection?, task?, label?}`), and `rows`: a
            list of `{system, collection?, i2t?: {label: value}, t2i?: {…}, both?: {…}, spread?: {i2t?: {…}, …}}`.

    Returns:
        The table.

    Raises:
        VisirError: There is no such file or table, or the table has no retrieval results.
        ConfigurationError: The file has faults; all are listed.

    Example:
        >>> load("brittleness-table-3").systems
        ('ALIGN', 'AltCLIP', 'CLIP', 'GroupViT')
    """
    path = Path(name_or_path)
    if not path.suffix and str(name_or_path) in shipped():
        path = _HERE / f"{name_or_path}.json"
    elif not path.suffix and (_HERE / "plain" / f"{name_or_path}.json").is_file():
        raise VisirError(
            f"{name_or_path}: this table is not of systems and tasks of search, so no result compares with it.",
            hint="read it with visir.evaluation.published.open_table; it is printed on "
            + docs_page("background/published-values"),
            code="table-not-systems-tasks",
        )
    elif not path.is_file():
        raise VisirError(
            f"{name_or_path}: no such file, and no published table of that name.",
            hint=nearest(str(name_or_path), shipped()),
        )
    if path.suffix == ".toml":
        try:
            content = tomllib.loads(read_bytes(path).decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
            raise ConfigurationError(
                f"{path}: not valid TOML: {fault}", hint="mend the file", code="not-valid-toml"
            ) from fault
    else:
        content = read_json(path)
    return _parse(path, content)


def _parse(path: Path, content: Any) -> Published:
    known = ("title", "source", "decimals", "protocol", "notes", "doubtful", "rows")
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{path}: expected an object with {', '.join(known)}.", hint=f"see {docs_page('background/significance')}"
        )
    faults = [f"unknown key {key!r} ({nearest(key, known)})" for key in content if key not in known]
    faults += [f"{key!r} is missing" for key in ("title", "source", "rows") if not content.get(key)]
    decimals = content.get("decimals", max(2, _most_decimals(content.get("rows") or [])))
    if not isinstance(decimals, int) or decimals < 0:
        faults.append(f"'decimals' is the number of printed decimals, not {decimals!r}")
    rows = []
    for index, row in enumerate(content.get("rows") or []):
        where = f"row {index + 1} ({row.get('system', 'no system')}, {row.get('collection', 'no collection')})"
        if not row.get("system"):
            faults.append(f"{where}: 'system' is missing")
        faults += [f"{where}: unknown key {key!r} ({nearest(key, _ROW_KEYS)})" for key in row if key not in _ROW_KEYS]
        values = {task: row[task] for task in TASKS if task in row}
        if not values:
            faults.append(f"{where}: no values under i2t, t2i, both or category")
        spread = row.get("spread", {})
        faults += [
            f"{where}: {task} {label} is {value!r}, not a number"
            for task, part in (*values.items(), *((f"± {name}", part) for name, part in spread.items()))
            for label, value in part.items()
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value)
        ]
        faults += [
            f"{where}: ± of {task} {label}, which has no value"
            for task, part in spread.items()
            for label in part
            if label not in values.get(task, {})
        ]
        rows.append(PublishedRow(str(row.get("system", "")), values, str(row.get("collection", "")), spread))
    doubtful = tuple(_doubt(entry, index, rows, faults) for index, entry in enumerate(content.get("doubtful", ())))
    hint = f"mend the file; its form is in {docs_page('background/significance')}"
    raise_faults(ConfigurationError, str(path), faults, hint=hint)
    return Published(
        path.stem,
        content["title"],
        content["source"],
        tuple(rows),
        decimals,
        content.get("protocol", {}),
        tuple(content.get("notes", ())),
        doubtful,
    )


def _most_decimals(rows: Sequence[Any]) -> int:
    """The most decimals of a value of a table that does not state them: fractions of 1 have three or four."""
    parts = [row.get(task) for row in rows if isinstance(row, dict) for task in TASKS]
    values = [value for part in parts if isinstance(part, dict) for value in part.values()]
    return max((len(repr(value).partition(".")[2]) for value in values if isinstance(value, float)), default=0)


def _doubt(content: Mapping[str, str], index: int, rows: Sequence[PublishedRow], faults: list[str]) -> Doubt:
    """One doubt of a file; checks that it has a reason and covers a printed value."""
    known = tuple(entry.name for entry in fields(Doubt))
    where = f"doubt {index + 1}"
    faults += [f"{where}: unknown key {key!r} ({nearest(key, known)})" for key in content if key not in known]
    doubt = Doubt(**{"reason": "", **{key: value for key, value in content.items() if key in known}})
    if not doubt.reason:
        faults.append(f"{where}: 'reason' is missing")
    printed = ((row, task, label) for row in rows for task, part in row.values.items() for label in part)
    if not any(doubt.covers(*value) for value in printed):
        faults.append(f"{where}: no printed value has these names")
    return doubt


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
