"""What people hand in as a source: a name, a table, a list; or judgements alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.collections import open_source
from visir.collections.qrels_reading import DOCUMENT_IDS, GRADES, QUERY_IDS, is_number, is_qrels_line
from visir.collections.readers.names import head
from visir.collections.tables import find_encoding, sniffed_columns
from visir.collections.task_memory import is_task, is_task_set
from visir.encoders.intake import UNSPACED, TextLimit, in_blocks, last_fitting
from visir.errors import ConfigurationError
from visir.evaluation.assembly import Source
from visir.evaluation.systems.given import is_run, task_and_file
from visir.files import is_comment, is_file, read_json
from visir.records import Collection, Items, Qrels, Task, TaskFile, TaskSet

if TYPE_CHECKING:
    from visir.encoders.base import Encoder


_BEGINNING = 100
"""Lines of a file that show whether it holds judgements: comments stand before them."""
_TEXTS = {"query", "topic", "document", "doc"}
"""Names of columns that may hold texts in place of ids."""


OPEN_OPTIONS = (
    *("image", "caption", "id", "caption_id", "split_column", "language_column"),
    *("split_by", "format", "encoding"),
)
"""Options of `visir.open` that people give to other calls."""


def check_open_options(options: Mapping[str, Any], verb: str) -> None:
    """Refuse options that say how a source is read: they belong to `visir.open`."""
    misplaced = [name for name in OPEN_OPTIONS if name in options]
    if misplaced:
        given = ", ".join(f"{name}=…" for name in misplaced)
        raise ConfigurationError(
            f"{given} says how a source is read, which is for visir.open.",
            hint=f"visir.{verb}(visir.open(source, {given}), model)",
            code="says-how-source-read",
        )


def open_tasks(
    source: Any, images: Any = None, split: str | None = None, *, judgements: Any = None, shortcuts: str | None = None
) -> Source:
    """Open whatever has tasks; what is open already stays as it is."""
    if source is None:
        raise ConfigurationError(
            "there is nothing to evaluate on.",
            hint='visir.evaluate("photos.csv", model); with judgements alone: visir.evaluate(qrels, run)',
            code="nothing-evaluate",
        )
    has_tasks = all(hasattr(source, name) for name in ("task", "tasks", "split", "splits"))
    tasks = isinstance(source, (list, tuple)) and bool(source) and all(isinstance(task, Task) for task in source)
    is_open = tasks or isinstance(source, (Collection, TaskFile, TaskSet, Task)) or has_tasks
    if is_open and images is not None:
        raise ConfigurationError("images goes with the name of a source.", hint="visir.open(source, images=FOLDER)")
    opened: Any = source
    if not is_open or judgements is not None:
        opened = open_source(source, images=images, judgements=judgements, only_split=split)
    if shortcuts is None:
        return opened  # type: ignore[no-any-return]
    if not isinstance(opened, Collection):
        raise ConfigurationError("shortcuts go with images and captions only.", hint="leave --shortcuts out")
    from visir.shortcuts import inject

    return inject(opened, shortcuts)


def open_collection_of(source: Any, images: Any, verb: str) -> Collection:
    """Open what must be images and captions."""
    opened = open_tasks(source, images)
    if not isinstance(opened, Collection):
        raise ConfigurationError(
            f"{verb} goes with images and captions; this is a {type(opened).__name__}.",
            hint=f'visir.{verb}("photos.csv", …)',
            code="goes-images-captions",
        )
    return opened


def is_alone(source: Any, system: Any) -> bool:
    """Whether there is nothing to search: judgements for a run, or a log of the brittleness paper, a run itself."""
    if isinstance(source, (str, Path)) and Path(source).suffix == ".parquet":
        from visir.evaluation.brittleness_runs import is_log

        if is_log(source):
            return True
    first = system[0] if isinstance(system, (list, tuple)) and system else system  # files of several runs
    return is_judgements(source, task_and_file(str(first))[1] if isinstance(first, (str, Path)) else system)


def is_judgements(source: Any, beside: Any = None) -> bool:
    """Whether a source is judgements alone: which documents are right for which query, and no more."""
    if isinstance(source, Qrels):
        return True
    if isinstance(source, (str, Path)):
        return _is_qrels_file(Path(source), beside)
    if is_task(source) or is_task_set(source):
        return False
    if isinstance(source, Mapping):
        return bool(source) and all(isinstance(judged, Mapping) for judged in source.values())
    if isinstance(source, (list, tuple)):
        return bool(source) and hasattr(source[0], "query_id") and hasattr(source[0], "relevance")
    if type(source).__module__.partition(".")[0] == "ranx":
        return True
    columns = {str(name).lower() for name in getattr(source, "columns", ()) if isinstance(name, str)}
    columns |= set(getattr(source, "column_names", None) or ())
    return bool(columns & set(QUERY_IDS)) and bool(columns & set(DOCUMENT_IDS)) and "caption" not in columns


def _is_qrels_file(path: Path, beside: Any) -> bool:
    """Whether a file holds judgements: by its ending, its header, or a first line "query 0 document grade"."""
    endings = [ending.lower() for ending in path.suffixes if ending not in (".gz", ".xz")]
    if not is_file(path):
        return False
    beside_run = is_run(beside)
    if endings and endings[-1] in (".qrels", ".qrel"):
        return True
    if endings and endings[-1] in (".json", ".jsonl", ".ndjson", ".parquet"):
        return beside_run and _is_structured_qrels(path, endings[-1])
    data = head(path)
    lines = data.decode(find_encoding(data), "replace").splitlines()[:_BEGINNING]
    entries = [line for line in lines if line.strip() and not is_comment(line, is_qrels_line)]
    first = entries[0] if entries else ""
    names = {cell.strip().lower() for cell in re.split(r"[,;\t]", first)}
    if names & set(QUERY_IDS) and names & set(DOCUMENT_IDS):
        known = {*QUERY_IDS, *DOCUMENT_IDS, *GRADES, "iteration", "iter", "q0"}
        return names <= known and (beside_run or not names & _TEXTS)
    if is_qrels_line(first) or not beside_run:
        return is_qrels_line(first)
    cells = first.split()
    return (len(cells) == 3 and is_number(cells[2])) or {len(entry.split()) for entry in entries} == {2}


def _is_structured_qrels(path: Path, ending: str) -> bool:
    """Whether a JSON file is {query: {document: grade}}, or a table has columns of judgements."""
    if ending != ".json":
        names = {name.lower() for name in sniffed_columns(path)}
        return bool(names & set(QUERY_IDS)) and bool(names & set(DOCUMENT_IDS))
    content = read_json(path)
    judged = list(content.values()) if isinstance(content, dict) else []
    return bool(judged) and all(
        isinstance(row, dict) and all(isinstance(grade, (int, float)) for grade in row.values()) for row in judged
    )


# How much of each text a model reads: what an evaluation notes, and labels of the queries.

TRUNCATION, LENGTH = "truncation", "tokens"
"""The labels of queries: whether the model reads all of a text, and how many tokens it has."""
WHOLE, CUT = "whole", "cut"
_MARGIN = 2
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
"""A word: what stands between white space; a character of the scripts that put none between words."""


@dataclass(frozen=True, eq=False)
class TextReading:
    """How much a model reads of texts."""

    limit: int  # how many tokens of a text it reads
    # (n,) the tokens of each text before anything is cut; 0 where the text is so short that it surely fits.
    tokens: NDArray[np.int64]
    cut: NDArray[np.bool_]  # (n,) whether the model does not read the end
    words: NDArray[np.int64]  # (n,) the words of each text that is cut; 0 for the others
    words_read: NDArray[np.int64]  # (n,) how many of them the model reads whole

    @property
    def words_lost(self) -> float:
        """The share of the words of the texts that are cut which the model does not read; NaN where none is cut."""
        total = int(self.words.sum())
        return 1.0 - int(self.words_read.sum()) / total if total else float("nan")


def read_texts(texts: Sequence[str], limit: TextLimit, *, count_all: bool = True) -> TextReading:
    """Find out how much of each text is read."""
    room = limit.tokens - (limit.count([""])[0] if texts else 0) - _MARGIN
    tokens = np.zeros(len(texts), np.int64)
    rows = [row for row, text in enumerate(texts) if count_all or len(text.encode()) > room]
    tokens[rows] = in_blocks(limit.count, [texts[row] for row in rows])
    cut = tokens > limit.tokens
    words, words_read = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    too_long = [texts[row] for row in np.flatnonzero(cut).tolist()]
    ends = [[0, *(word.end() for word in _WORD.finditer(text))] for text in too_long]
    words[cut] = [len(places) - 1 for places in ends]
    words_read[cut] = last_fitting(too_long, ends, limit.fits)
    return TextReading(limit.tokens, tokens, cut, words, words_read)


def length_bands(tokens: NDArray[np.int64], limit: int) -> list[str]:
    """The band of each length, in halves of the limit: "1–38", "39–77", "78–154", "155–308", "309 or more"."""
    edges = [limit // 2, limit, 2 * limit, 4 * limit]
    firsts = [1, *(edge + 1 for edge in edges)]
    names = [f"{first}–{last}" for first, last in zip(firsts, edges, strict=False)] + [f"{firsts[-1]} or more"]
    return [names[place] for place in np.searchsorted(edges, tokens, side="left")]


def reading_of(encoder: Encoder, tasks: Mapping[str, Task]) -> tuple[list[str], dict[str, pa.Table]]:
    """Notes on texts that the encoder does not read whole, and labels of the queries among them."""
    # Returns: (notes, labels by task); both empty where everything is read.
    limit = encoder.root_encoder("text").text_limit() if "text" in encoder.modalities else None
    if limit is None:
        return [], {}
    notes: dict[str, None] = {}
    labels: dict[str, pa.Table] = {}
    readings: list[tuple[Items, pa.StringArray, TextReading]] = []
    for name, task in tasks.items():
        for items, ids in ((task.queries, task.measured_queries()), (task.documents, task.gallery.ids)):
            if items.texts is None or not len(items):
                continue
            ids = items.ids if ids is None else ids
            reading = next((known for same, read, known in readings if same is items and read.equals(ids)), None)
            if reading is None:
                reading = read_texts(texts_of(items.select(ids)), limit, count_all=False)
                readings.append((items, ids, reading))
            if not reading.cut.any():
                continue
            notes[_note(reading, items.title)] = None
            if items is task.queries:
                short = np.flatnonzero(reading.tokens == 0)  # not counted yet
                tokens = reading.tokens.copy()
                tokens[short] = in_blocks(limit.count, texts_of(items.select(ids.take(pa.array(short)))))
                kinds = np.where(reading.cut, CUT, WHOLE).tolist()
                columns = {"query_id": ids, TRUNCATION: kinds, LENGTH: length_bands(tokens, limit.tokens)}
                labels[name] = pa.table(columns)
    return list(notes), labels


def texts_of(items: Items) -> list[str]:
    """The texts of items, empty where one has none."""
    return [text or "" for text in ([] if items.texts is None else items.texts.to_pylist())]


def _note(reading: TextReading, title: str) -> str:
    count, total = int(reading.cut.sum()), len(reading.cut)
    return (
        f"{count:,} of {total:,} {title} ({100 * count / total:.1f} %) are longer than the {reading.limit} "
        f"tokens that the model reads; {100 * reading.words_lost:.1f} % of the words of these are not read"
    )
