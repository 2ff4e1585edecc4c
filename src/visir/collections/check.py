"""Everything that is wrong with a collection or a task, all at once: `visir data check`."""

from __future__ import annotations

import hashlib
import io
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from visir.collections.draft import ChoiceDraft, Draft, SourceDraft, TaskDraft, TaskSetDraft
from visir.collections.images import SCENE, ImageReader, decode, readable
from visir.collections.portable import PORTABLE
from visir.collections.segments import file_of
from visir.collections.task_memory import is_task, is_task_set
from visir.display import Tabular, brief, counted
from visir.errors import CollectionError, VisirError, nearest
from visir.plugins import PARTS, part
from visir.progress import Progress
from visir.records import LINKS, TASKS, Collection, HasImages
from visir.storage import MANIFEST, Manifest, is_made_by_visir
from visir.storage.manifest import LOG

# What a check of a source found: errors, warnings and notes.

Level = Literal["error", "warning", "note"]
EXAMPLES = 10


@dataclass(frozen=True)
class Finding:
    """One kind of thing that is wrong, or worth knowing."""

    level: Level  # how grave it is
    kind: str  # what it is, in words: "captions without text"
    count: int  # how many there are
    examples: tuple[str, ...] = ()  # the first few


@dataclass(repr=False)
class Report(Tabular):
    """What a check found. `ok` is whether there is no error; warnings and notes are for the reader to judge."""

    name: str  # the name of the source, and `source` where it comes from
    source: str
    counts: dict[str, int] = field(default_factory=dict)  # how much there is: "images" → 31,783
    # Number of captions → number of images with so many.
    captions_per_image: dict[int, int] = field(default_factory=dict)
    decoded: int = 0  # how many pictures were decoded
    formats: dict[str, int] = field(default_factory=dict)  # format of pictures → how many have it
    sizes: str = ""  # the range of widths and heights, in words
    pictures_looked_for: bool = False  # whether there are places of pictures, which were looked at
    findings: list[Finding] = field(default_factory=list)  # what was found, in the order of the checks

    def __repr__(self) -> str:
        shown = [f"{finding.level}: {finding.kind}: {finding.count:,}" for finding in self.findings[:3]]
        rest = len(self.findings) - len(shown)
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        return brief(self, self.name, counts, *shown, f"… and {counted(rest, 'findings')} more" if rest else "")

    @property
    def ok(self) -> bool:
        """Whether nothing found is an error."""
        return not any(finding.level == "error" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """What was looked at, and whether anything is wrong with it, in one sentence."""
        if not self.counts:
            return "not fit for use as it is: it cannot be read"
        if set(self.counts) == {"files"}:  # a folder of visir's own
            scope = "checked: every byte, against what visir wrote"
            return f"{'no errors found' if self.ok else 'not fit for use as it is'} ({scope})"
        looked_at = "ids, links between images and captions, texts" if "captions" in self.counts else "ids, texts"
        if self.decoded:
            pictures = f"{self.decoded:,} pictures decoded"
        else:
            pictures = "pictures were not decoded" if self.pictures_looked_for else "no pictures at hand"
        scope = f"checked: {looked_at}; {pictures}; not whether captions fit their pictures"
        return f"{'no errors found' if self.ok else 'not fit for use as it is'} ({scope})"

    def add(self, level: Level, kind: str, cases: Iterable[str]) -> None:
        """Add a finding, if there is any case of it."""
        listed = list(cases)
        if listed:
            self.findings.append(Finding(level, kind, len(listed), tuple(listed[:EXAMPLES])))


# What is wrong with the pictures of a source: those that are missing, broken, or there twice.

_CAPTION_COLUMNS = pa.schema([(name, pa.string()) for name in ("id", "text", "image_id")])


def check_pictures(report: Report, images: pa.Table, root: Path, *, decoding: bool, workers: int | None) -> None:
    """Add what is wrong with pictures to a report."""
    # Each id once, so that pictures can be looked at even where ids are faulty.
    first_rows: dict[str | None, int] = {}
    for row, identifier in enumerate(images["id"].to_pylist()):
        if identifier:
            first_rows.setdefault(identifier, row)
    images = images.take(pa.array(first_rows.values(), pa.int64()))
    missing = images.filter(pc.is_null(images["path"]))["id"].to_pylist()
    everything = len(missing) == images.num_rows
    report.add(
        "warning" if everything else "error",
        "images without a picture" + (" (all: metadata only)" if everything else ""),
        [repr(identifier) for identifier in missing],
    )
    present = images.filter(pc.is_valid(images["path"]))
    if not present.num_rows:
        return
    report.pictures_looked_for = True
    reader = ImageReader(Collection(report.name, present, _CAPTION_COLUMNS.empty_table(), root=root))
    if not decoding:
        rows = present.select(["id", "path", "archive"]).to_pylist()
        gone = [
            f"{row['id']!r} ({row['path']})"
            for row in rows
            if row["archive"] is None
            and not row["path"].startswith(SCENE)
            and not (root / file_of(row["path"])).is_file()
        ]
        report.add("error", "pictures that are not where they should be", gone)
        return

    def look(row: int) -> tuple[str, str, tuple[int, int]] | str:
        try:
            data = reader.read(row)
            size = decode(data, reader.where(row)).size
        except VisirError as fault:
            return fault.message
        with Image.open(io.BytesIO(data), formats=readable()) as image:
            return hashlib.blake2b(data, digest_size=16).hexdigest(), image.format or "?", size

    with (
        ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool,
        Progress("decoding", present.num_rows, "images") as advance,
    ):
        looked = []
        for outcome in pool.map(look, range(present.num_rows)):
            looked.append(outcome)
            advance(1)
    report.add("error", "pictures that cannot be read", [outcome for outcome in looked if isinstance(outcome, str)])
    decoded = {row: outcome for row, outcome in enumerate(looked) if not isinstance(outcome, str)}
    report.decoded = len(decoded)
    report.formats = dict(Counter(format for _, format, _ in decoded.values()).most_common())
    if decoded:
        widths, heights = zip(*(size for _, _, size in decoded.values()), strict=True)
        report.sizes = f"{min(widths)}–{max(widths)} × {min(heights)}–{max(heights)} pixels"
    _check_twins(report, present, {row: digest for row, (digest, _, _) in decoded.items()})


def _check_twins(report: Report, images: pa.Table, digests: dict[int, str]) -> None:
    groups: dict[str, list[int]] = {}
    for row, digest in digests.items():
        groups.setdefault(digest, []).append(row)
    ids, splits = images["id"].to_pylist(), images["split"].to_pylist()
    twins = [rows for rows in groups.values() if len(rows) > 1]
    across = [rows for rows in twins if len({splits[row] for row in rows}) > 1]
    within = [rows for rows in twins if len({splits[row] for row in rows}) == 1]
    report.add("warning", "same picture (byte for byte) under several ids", [_names(ids, rows) for rows in within])
    report.add("warning", "same picture in several splits", [_names(ids, rows) for rows in across])


def _names(ids: list[str], rows: list[int]) -> str:
    return " = ".join(repr(ids[row]) for row in rows[:4]) + (" …" if len(rows) > 4 else "")


# What can be wrong with captions, as far as the texts alone show it.

_EXAMPLES = 5

ODD: tuple[tuple[Level, str, str], ...] = (
    ("warning", "captions with the replacement character U+FFFD (lost when somebody decoded them)", "\ufffd"),
    (
        "warning",
        "captions with control characters (U+0080–U+009F are Windows-1252 read as Latin-1)",
        r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}]",
    ),
    (
        "warning",
        "captions that look like UTF-8 read as Windows-1252 (“cafÃ©”)",
        r"[\x{c3}\x{c2}][\x{80}-\x{bf}]|\x{e2}\x{20ac}",
    ),
    ("warning", "captions with private-use characters, which no font knows", r"[\x{e000}-\x{f8ff}]"),
    ("note", "captions with line breaks or tabs inside", r"\S[\t\r]*\n[\s]*\S|\t"),
    ("note", "captions with white space at an end", r"^\s|\s$"),
)
"""(level, kind, RE2 pattern). The texts stay byte for byte as they are: changing them makes another collection."""


def text_findings(captions: pa.Table) -> Iterator[Finding]:
    """Everything odd about the texts of captions."""
    ids, texts = captions["id"], captions["text"]
    if not len(texts):
        return
    null = pc.is_null(texts)
    yield from _masked("error", "captions without text (null)", ids, texts, null)
    texts = pc.fill_null(texts, "-")
    yield from _masked("warning", "empty captions", ids, texts, pc.equal(pc.utf8_trim_whitespace(texts), ""))
    for level, kind, pattern in ODD:
        yield from _masked(level, kind, ids, texts, pc.match_substring_regex(texts, pattern))
    plain = pc.utf8_normalize(texts, "NFC")
    yield from _masked("note", "captions not in Unicode's composed form (NFC)", ids, texts, pc.not_equal(plain, texts))
    yield from _repeated(captions)


def _repeated(captions: pa.Table) -> Iterator[Finding]:
    table = pa.table({"text": captions["text"], "image_id": captions["image_id"]})
    pairs = table.group_by(["image_id", "text"]).aggregate([([], "count_all")])
    same_image = pairs.filter(pc.greater(pairs["count_all"], 1))
    if same_image.num_rows:
        rows = same_image.slice(0, _EXAMPLES).to_pylist()
        examples = tuple(f"{row['image_id']!r}: {_short(row['text'])} × {row['count_all']}" for row in rows)
        yield Finding("warning", "captions that an image has twice", same_image.num_rows, examples)
    by_text = pairs.group_by("text").aggregate([([], "count_all")])
    several = by_text.filter(pc.greater(by_text["count_all"], 1)).sort_by(
        [("count_all", "descending"), ("text", "ascending")]
    )
    if several.num_rows:
        rows = several.slice(0, _EXAMPLES).to_pylist()
        examples = tuple(f"{_short(row['text'])} at {row['count_all']} images" for row in rows)
        kind = "texts that several images have (to links, the others' images are wrong)"
        yield Finding("note", kind, several.num_rows, examples)


def _masked(level: Level, kind: str, ids: Any, texts: Any, mask: Any) -> Iterator[Finding]:
    """The texts where the mask is true."""
    count = pc.sum(mask).as_py() or 0
    if count:
        rows = pa.table({"id": ids, "text": texts}).filter(mask).slice(0, _EXAMPLES).to_pylist()
        yield Finding(level, kind, count, tuple(f"{row['id']!r}: {_short(row['text'])}" for row in rows))


def _short(text: str) -> str:
    shown = "".join(
        character if unicodedata.category(character)[0] != "C" else repr(character)[1:-1] for character in text[:60]
    )
    return f"“{shown}{'…' if len(text) > 60 else ''}”"


def check(
    source: Any,
    *,
    format: str | None = None,
    images: object = None,
    decode: bool = True,
    workers: int | None = None,
    **options: Any,
) -> Report:
    """Look for all faults of a collection or a task, all at once; also where opening it would raise.

    Errors are what stops work or falsifies a number: ids missing or twice, captions of no image, pictures that are
    broken or not where they should be. Warnings: empty captions, a caption twice at one image, damaged characters, the
    same picture twice (above all in two splits).

    Args:
        source: Anything that `visir.open` takes: a path, `FORMAT:PATH`, a list, a DataFrame, a `Collection`. Of another
            folder that visir made (results, an index, sessions, a model) every file is held against what was written.
        format, images: As `visir.open` takes them.
        decode: Whether every picture is read and decoded, or only looked for.
        workers: Threads that decode; None for one per core.
        options: Options of the format.

    Returns:
        A `Report`: `report.ok`, `report.findings`. It shows itself as a table.

    Example:
        >>> import visir
        >>> report = visir.check("scenes:3?size=64")
        >>> report.ok, report.counts, report.decoded
        (True, {'images': 3, 'captions': 15}, 3)
    """
    from visir.collections.opening import open as open_anything
    from visir.collections.opening import read_draft, task_in_memory

    opened = source
    if isinstance(source, str | Path) and is_made_by_visir(source) and not is_made_by_visir(source, PORTABLE.name):
        return _check_own_folder(Path(source))
    if not isinstance(source, SourceDraft):
        try:
            if isinstance(source, str | Path):
                opened = read_draft(str(source), format=format, images=images, **options)
            elif is_task(source) or is_task_set(source):
                opened = task_in_memory(source, images, options)
            else:
                opened = open_anything(source, format=format, images=images, **options)
        except VisirError as fault:
            name = str(source) if isinstance(source, str | Path) else f"{type(source).__name__} in memory"
            report = Report(Path(name).name, name)
            report.add("error", "cannot be read", [f"{fault.message} → {fault.hint}" if fault.hint else fault.message])
            return report
    if isinstance(opened, ChoiceDraft):
        return _check_choices(opened, decode=decode, workers=workers)
    if isinstance(opened, TaskDraft):
        return _check_task(opened, decode=decode, workers=workers)
    if isinstance(opened, TaskSetDraft):
        return _check_tasks(opened, decode=decode, workers=workers)
    if not isinstance(opened, Collection | Draft):
        raise CollectionError(
            f"a {type(opened).__name__} is neither a collection nor a task.", hint='visir.check("photos/")'
        )
    return _check_collection(opened, decode=decode, workers=workers)


def _check_own_folder(folder: Path) -> Report:
    """Every file that a manifest in a folder of visir's names, and those of the folders inside it, read wholly."""
    report = Report(folder.name, str(folder))
    manifests = sorted(path.parent for path in folder.rglob(MANIFEST))
    looked_at: set[Path] = set()
    wrong: dict[str, None] = {}
    for place in manifests:
        below = "" if place == folder else f"{place.relative_to(folder).as_posix()}/"
        try:
            manifest = Manifest.read(place)
        except VisirError as fault:
            report.add("error", "cannot be read", [fault.message])
            continue
        names, faults, unfinished = {*manifest.files}, manifest.faults(place), list[str]()
        if f"check {manifest.kind}" in PARTS:  # files that no manifest names, but another file of its own
            more, of_kind, unfinished = part(f"check {manifest.kind}")(place)
            names, faults = names | more, faults + of_kind
        looked_at |= {place / name for name in names}
        wrong |= dict.fromkeys(below + fault for fault in faults)
        report.add("warning", "not finished", [below + line for line in unfinished])
    report.add("error", "files that are not as visir wrote them", wrong)
    others = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.name not in (MANIFEST, LOG) and not path.is_dir() and path not in looked_at
    )
    report.add("note", "files that visir did not write, or not finish: not checked", others)
    report.counts = {"files": len(looked_at)}
    return report


def _check_collection(source: Collection | Draft, *, decode: bool, workers: int | None) -> Report:
    if isinstance(source, Draft):
        images, captions = source.tables()
        report = Report(source.name, "; ".join([source.source, *source.notes]))
        report.add("error", "faults of the source", source.faults)
        root, judgements = source.root, source.judgements
    else:
        images, captions = source.images, source.captions
        report = Report(source.name, source.source)
        root, judgements = Path(source.root), source.judgements
    report.counts = {"images": images.num_rows, "captions": captions.num_rows}
    _check_ids(report, images, captions)
    if judgements is not None:
        _check_judgements(report, images, captions, judgements)
    report.findings += text_findings(captions)
    check_pictures(report, images, root, decoding=decode, workers=workers)
    return report


def _check_task(draft: TaskDraft, *, decode: bool, workers: int | None) -> Report:
    report = Report(draft.name, draft.described_source())
    report.counts = {"queries": len(draft.queries.ids), "documents": len(draft.documents.ids),
                     "judgements": len(draft.judgements)}  # fmt: skip
    report.add("error", "faults of the source", draft.faults)
    judged = {query for _, query, _ in draft.judgements} | {query for _, query in draft.unjudged}
    without = [repr(query) for query in draft.queries.ids if query not in judged]
    report.add("note", "queries without judgements", without)
    positives = {query for (_, query, _), grade in draft.judgements.items() if grade > 0}
    report.add("warning", "judged queries without a positive", [repr(query) for query in sorted(judged - positives)])
    for side, items in (("queries", draft.queries), ("documents", draft.documents)):
        empty = [repr(item) for item, text in zip(items.ids, items.texts, strict=True) if text == ""]
        report.add("warning", f"{side} whose text is empty", empty)
        _check_drawn(report, draft, [row for row in items.pictures if row is not None], decode, workers)
    return report


def _check_choices(draft: ChoiceDraft, *, decode: bool, workers: int | None) -> Report:
    report = Report(draft.name, draft.described_source())
    report.counts = {"items": len(draft.items), "images": len(draft.ids)}
    report.add("error", "faults of the source", draft.faults)
    _check_drawn(report, draft, range(len(draft.ids)), decode, workers)
    return report


def _check_drawn(report: Report, draft: SourceDraft, rows: Sequence[int], decode: bool, workers: int | None) -> None:
    """The pictures in these rows of a draft."""
    values: dict[str, Sequence[str | None]] = {"id": draft.ids, "path": draft.paths, "archive": draft.archives}
    columns = {name: draft.column([column[row] for row in rows]) for name, column in values.items()} if rows else {}
    if columns:
        images = pa.table({**columns, "split": pa.array([""] * len(rows), pa.string())})
        check_pictures(report, images, draft.root, decoding=decode, workers=workers)


def _check_tasks(draft: TaskSetDraft, *, decode: bool, workers: int | None) -> Report:
    """Each task of a set; pictures that two tasks share are looked at once."""
    report = Report(draft.name, draft.described_source())
    report.add("error", "faults of the source", draft.faults)
    seen: set[tuple[str | None, str | None]] = set()
    for name, half in draft.parts.items():
        for items in (half.queries, half.documents):
            places = [None if row is None else (draft.paths[row], draft.archives[row]) for row in items.pictures]
            items.pictures = [
                None if place is None or place in seen else row
                for row, place in zip(items.pictures, places, strict=True)
            ]
            seen |= {place for place in places if place is not None and place[0] is not None}
        half.faults = []
        of_part = _check_task(half, decode=decode, workers=workers)
        report.counts |= {f"{name} {kind}": count for kind, count in of_part.counts.items()}
        report.findings += of_part.findings
    return report


def _check_ids(report: Report, images: pa.Table, captions: pa.Table) -> None:
    for kind, table in (("image", images), ("caption", captions)):
        without = pc.sum(pc.or_kleene(pc.is_null(table["id"]), pc.equal(table["id"], ""))).as_py() or 0
        report.add("error", f"{kind}s without an id", [f"{without} rows"] * without)
        counts = Counter(table["id"].to_pylist())
        report.add(
            "error",
            f"{kind} ids that occur more than once",
            [f"{identifier!r} × {n}" for identifier, n in counts.items() if n > 1],
        )
    if images.num_rows == 0:
        report.add("error", "no images at all", [report.source])
    has_image = pc.is_in(captions["image_id"], pc.unique(images["id"]))
    orphans = captions.filter(pc.invert(has_image)).select(["id", "image_id"]).to_pylist()
    listed = [f"{caption['id']!r} of {caption['image_id']!r}" for caption in orphans]
    report.add("error", "captions of images that are not there", listed)
    counted = Counter(captions["image_id"].to_pylist())
    per_image = Counter(counted.get(image, 0) for image in images["id"].to_pylist())
    report.captions_per_image = dict(sorted(per_image.items()))
    if captions.num_rows:
        silent = images.filter(pc.invert(pc.is_in(images["id"], pc.unique(captions["image_id"]))))
        report.add("note", "images without captions", [repr(image) for image in silent["id"].to_pylist()])


def _check_judgements(report: Report, images: pa.Table, captions: pa.Table, judgements: pa.Table) -> None:
    is_known = pc.and_(
        pc.is_in(judgements["image_id"], pc.unique(images["id"])),
        pc.is_in(judgements["caption_id"], pc.unique(captions["id"])),
    )
    outside = judgements.filter(pc.invert(is_known)).to_pylist()
    report.add(
        "warning",
        "judgements about images or captions that are not there",
        [f"{row['relevance']}: {row['caption_id']!r} and {row['image_id']!r}" for row in outside],
    )


# A collection at a glance: `visir data inspect`.


@dataclass(frozen=True)
class SplitSummary:
    """One split in numbers. Captions per image and words per caption are (least, median, most)."""

    name: str
    images: int
    pictures: int
    captions: int
    captions_per_image: tuple[int, float, int]
    words: tuple[int, float, int]


@dataclass(frozen=True)
class RelevanceSummary:
    """One relevance in one task: its queries, and its positives in all."""

    name: str
    task: str
    queries: int
    positives: int


@dataclass(frozen=True)
class Inspection:
    """What `inspect` tells."""

    about: dict[str, Any]
    splits: tuple[SplitSummary, ...]
    relevances: tuple[RelevanceSummary, ...]
    facts: tuple[str, ...]
    examples: tuple[tuple[str, tuple[str, ...]], ...]


def inspect(collection: Collection, *, examples: int = 3, seed: int = 0) -> Inspection:
    """Counts, splits, caption lengths (words between white space), relevances, and some examples drawn by `seed`."""
    splits = [_summary(name, collection.split(name)) for name in collection.splits]
    if len(splits) > 1:
        splits.append(_summary("all", collection))
    relevances = []
    for name in collection.relevances:
        for task in TASKS:
            if name == LINKS and collection.captions.num_rows == 0:
                continue
            rows = collection.judgements
            judged = pc.and_(pc.equal(rows["relevance"], name), pc.is_in(rows["task"], pa.array([task, "both"])))
            if name != LINKS and not pc.any(judged).as_py():
                continue
            qrels = collection.qrels(task, name)
            relevances.append(RelevanceSummary(name, task, len(qrels), int(qrels.positives.sum())))
    facts = collection.facts.column_names[1:] if collection.facts is not None else []
    return Inspection(
        collection.describe(), tuple(splits), tuple(relevances), tuple(facts), _examples(collection, examples, seed)
    )


def _summary(name: str, part: Collection) -> SplitSummary:
    counted = part.captions.group_by("image_id").aggregate([([], "count_all")])["count_all"].to_numpy()
    counted = np.concatenate([counted, np.zeros(part.images.num_rows - len(counted), counted.dtype)])
    words = pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(part.captions["text"]))).to_numpy()
    pictures = part.images.num_rows - part.images["path"].null_count
    return SplitSummary(name, part.images.num_rows, pictures, part.captions.num_rows, _three(counted), _three(words))


def _three(values: Any) -> tuple[int, float, int]:
    if len(values) == 0:
        return 0, 0.0, 0
    return int(values.min()), float(np.median(values)), int(values.max())


def _examples(collection: Collection, count: int, seed: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    captioned = pc.unique(collection.captions["image_id"]) if collection.captions.num_rows else collection.images["id"]
    rows = np.random.default_rng(seed).permutation(len(captioned))[:count]
    ids = [captioned[int(row)].as_py() for row in rows]
    chosen = collection.captions.filter(pc.is_in(collection.captions["image_id"], pa.array(ids, pa.string())))
    texts: dict[str, list[str]] = {image: [] for image in ids}
    for row in chosen.to_pylist():
        texts[row["image_id"]].append(row["text"])
    return tuple((image, tuple(listed)) for image, listed in texts.items())


# One picture of a collection by its id.


def picture_of(source: HasImages, id: str) -> Image.Image:
    """The picture of an id, upright RGB."""
    row = pc.index(source.images["id"], id).as_py()
    if row < 0:
        ids = source.images["id"].slice(0, 10_000).to_pylist()
        raise CollectionError(
            f"no image {id!r}.", hint=nearest(id, ids) if ids else "the collection is empty", code="no-image"
        )
    return ImageReader(source).open(row)
