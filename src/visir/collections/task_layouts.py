"""Published tasks: choices between captions, candidates, pages of documents, composed image retrieval."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from visir.collections.archives import PictureCells, pictures_in_cells
from visir.collections.cells import id_of
from visir.collections.draft import SourceDraft, TaskDraft, TaskSetDraft
from visir.collections.layout import Files, LayoutReading, LayoutTable, SourceLayout, published, reader
from visir.collections.readers import task_reader
from visir.collections.readers.choice_table import has_columns, label_text
from visir.collections.readers.locate import relative
from visir.collections.readers.names import compare_counts, has_key, head, json_head, plain_name, plain_stem
from visir.collections.segments import FRAME
from visir.collections.sources import Format, one_of
from visir.collections.tables import Row, read_rows, sniffed_columns
from visir.display import counted
from visir.errors import CollectionError, nearest
from visir.files import read_json
from visir.records import IMAGE
from visir.records.task import TASK_CANDIDATES

# Choices: files of records, each an item of pictures and captions of which some are right.


def _piece(reading: LayoutReading, place: str, row: Row) -> Row:
    """The row with its label "category", the file ("swap_att"), and "change", the first word of it."""
    return {**row, "category": row["file"], "change": row["file"].partition("_")[0]}


def _also_texts(reading: LayoutReading) -> None:
    reading.draft.also_texts = True  # the right captions are also to be told from the wrong one by the texts alone


sugarcrepe: SourceLayout = published(
    "sugarcrepe",
    sniff=lambda path: bool(sugarcrepe.tables[0].find(path)) and not sugarcrepe_pp.sniff(path),
    row=_piece,
)
sugarcrepe_pp: SourceLayout = published("sugarcrepe-pp", row=_piece, begin=_also_texts)


def _accepted(reading: LayoutReading, place: str, row: Row) -> Row | None:
    """The row, if enough people accept it. The paper counts items of which at least two of three chose the caption."""
    reading.memory = reading.memory or {"items": 0, "refused": 0}
    reading.memory["items"] += 1
    votes, accepted = reading.options["votes"], (row.get("mturk") or {}).get("caption")
    if votes and not isinstance(accepted, int):
        reading.draft.fault(f"{place}: no votes ('mturk'); ?votes=0 takes every item")
        return None
    if isinstance(accepted, int) and accepted < votes:
        reading.memory["refused"] += 1
        return None
    labels = {"phenomenon": row.get("linguistic_phenomena"), "source": row.get("dataset")}
    return {**row, "category": row["file"], **labels}


def _tell_refused(reading: LayoutReading) -> None:
    if reading.memory and (refused := reading.memory["refused"]):
        votes = f"fewer than {reading.options['votes']} of three people accept them"
        reading.draft.remark(f"{refused:,} of {reading.memory['items']:,} items not counted: {votes}")


valse = published(
    "valse", parse={"votes": lambda text: int(one_of(*"0123")(text))}, row=_accepted, finish=_tell_refused
)

_BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")


def _boxed(reading: LayoutReading, place: str, row: Row) -> Row | None:
    """The row with the box of its item: of a picture of Visual Genome only that is shown, as in the paper."""
    row["category"] = row["file"]
    if "relation_name" in row:
        row["relation"] = str(row["relation_name"])
    if isinstance(attributes := row.pop("attributes", None), list):
        row["attributes"] = "_".join(map(str, attributes))
    if "correct_caption" not in row and reading.options["crop"] == "yes":
        values = [row.get(name) for name in _BOX]
        if not all(isinstance(value, (int, float)) for value in values):
            reading.draft.fault(f"{place}: no box ({', '.join(_BOX)}); ?crop=no shows the whole picture")
            return None
        row["crop"] = tuple(round(float(value)) for value in values)  # type: ignore[arg-type]
    return row


aro = published("aro", row=_boxed)


def _in_cells(reading: LayoutReading, place: str, row: Row) -> Row:
    """The row with the cells of its pictures in a Parquet file, or with their names without the ending."""
    names = ("image_0", "image_1")
    if not set(names) & row.keys() and set(names) <= set(pictures_in_cells(reading.file)):
        row["cells"] = [(f"{name}#{row['number']}", relative(reading.file, reading.draft.root)) for name in names]
    for name in names:
        if isinstance(row.get(name), str) and not Path(row[name]).suffix:  # ".png" as published
            row[name] += ".*"
    labels = {name: row.get(name) for name in ("tag", "secondary_tag", "num_main_preds")}
    return {**row, **labels, "category": row.get("collapsed_tag")}


winoground = published("winoground", row=_in_cells)


def _frames(reading: LayoutReading, place: str, row: Row) -> Row | None:
    """The row with its captions and pictures by the names that items have."""
    # Pictures whose names end in ".npy" (YouCook2) are arrays as OpenCV holds them, blue first, as in the evaluation
    # code of the benchmark.
    pictures = [str(row.get(name)) for name in ("image0", "image1")]
    frames = [name.endswith(".npy") for name in pictures]
    if any(frames) and not all(frames):
        reading.draft.fault(f"{place}: one picture is a NumPy file, and the other is not")
        return None
    for side in (0, 1):
        row |= {f"image_{side}": row.get(f"image{side}"), f"caption_{side}": row.get(f"caption{side}")}
    category = pictures[0].partition("/")[0] if "/" in pictures[0] else None
    own = row["key"] if len(reading.files) == 1 else f"{row['file']}/{row['key']}"
    return {**row, "own": own, "category": category, "fragment": FRAME if all(frames) else ""}


def _eqben_lacks(path: Path) -> str:
    """What is missing; the list of the challenge, `{"image", "caption"}`, has its pictures by the parts of EqBen."""
    single = LayoutTable(files=eqben.tables[0].files, columns={"image": "image", "caption": "caption"})
    files = [file for file, _ in single.find(path) if b'"eqben' in head(file)] if path.is_dir() else []
    if files:
        return (
            f"{files[0].name} has single pairs in random order, without their items; take the annotations with "
            "image0, image1, caption0 and caption1"
        )
    return "no file with image0, image1, caption0 and caption1"


eqben = published("eqben", row=_frames, lack=_eqben_lacks)

_COLA = re.compile(rb'\[\s*\[\s*"[^"]+"\s*,\s*"[^"]+"\s*,\s*"[^"]+"\s*,\s*"[^"]+"\s*\]')


def _quadruple(reading: LayoutReading, place: str, row: Row) -> Row | None:
    """A list of picture 1, caption 1, picture 2, caption 2; the pictures are addresses, of which the name counts."""
    values = [row.get(str(position)) for position in range(5)]
    if not all(isinstance(value, str) for value in values[:4]) or values[4] is not None:
        reading.draft.fault(f"{place}: expected [picture, caption, picture, caption]")
        return None
    pictures = [str(values[position]).rsplit("/", 1)[-1] for position in (0, 2)]
    return {**row, "image_0": pictures[0], "image_1": pictures[1], "caption_0": values[1], "caption_1": values[3]}


def _first_cola(path: Path, files: Files, options: Mapping[str, Any]) -> Files:
    return files[:1]


cola = published("cola", row=_quadruple, choose=_first_cola, fits=lambda file: _COLA.match(json_head(file)) is not None)


# Candidates: classes that choose among pictures, queries of any kind that choose among documents of any kind.

_COLA_SINGLE = re.compile(r"COLA_singleobjects_benchmark_\w+\.json")


@reader(
    "cola-single", sniff=lambda path: _COLA_SINGLE.fullmatch(plain_name(path)) is not None and bool(json_head(path))
)
def cola_single(path: Path) -> TaskDraft:
    """Read `COLA_singleobjects_benchmark_GQA.json`, or that of CLEVR or PACO."""
    # Each class ("square white plate") is a query. Its candidates are the pictures of its difficult set (`hard_list`);
    # those that show the class (`label`) are right. Classes without a right picture in their set are left out, as no
    # average precision is defined. COLA's MAP is the measure `map`.
    # The file has `labels`, the names of the classes, and `data`, a row for each picture; both by name, as COLA's
    # README describes it, or in a list, as its `scripts/eval.py` reads it.
    content = read_json(path) if path.is_file() else None
    if isinstance(content, dict) and {"labels", "data"} <= set(content):
        content = [content["labels"], content["data"]]
    if not (isinstance(content, list) and len(content) == 2 and all(isinstance(part, list) for part in content)):
        raise cola_single.lacks(path, "no labels and data in it")
    classes, rows = content
    draft = TaskDraft("COLA single objects", path.parent, f"COLA {plain_name(path)}", task="t2i")
    draft.measures, draft.ties = ("map",), "pessimistic"
    draft.queries.title, draft.documents.title = "classes", "images"
    for number, name in enumerate(classes):
        if not isinstance(name, str) or not name.strip():
            draft.fault(f'class {number}: expected a text such as "square white plate", found {str(name)[:60]!r}')
    marks: list[tuple[list[Any], list[Any]]] = []
    for number, row in enumerate(rows):
        # A picture and two lists of 0 and 1; what stands between them differs, and is not used.
        good = isinstance(row, list) and len(row) in (3, 4) and isinstance(row[0], str)
        lists = row[-2:] if good else [None]
        if not all(isinstance(part, list) and len(part) == len(classes) and set(part) <= {0, 1} for part in lists):
            expected = "[picture, …, 0 or 1 for each class, 0 or 1 for each class]"
            draft.fault(f"picture {number}: expected {expected} for {len(classes):,} classes")
            continue
        draft.add_item("documents", str(number), None, picture=row[0])
        marks.append((row[-2], row[-1]))
    draft.raise_faults()
    shows, difficult = np.array(marks, np.uint8).reshape(len(marks), 2, len(classes)).astype(bool).swapaxes(0, 1)
    queries, documents, left_out = [], [], 0
    for number, name in enumerate(classes):
        pool = np.flatnonzero(difficult[:, number])
        right = pool[shows[pool, number]]
        if not len(right):
            left_out += 1
            continue
        query = str(number)
        draft.add_item("queries", query, name)
        draft.judgements |= {("", query, draft.documents.ids[row]): 1.0 for row in right}
        queries += [query] * len(pool)
        documents += [draft.documents.ids[row] for row in pool]
    draft.pools = pa.table([[""] * len(queries), queries, documents], schema=TASK_CANDIDATES)
    if left_out:
        line = f"{left_out:,} of {len(classes):,} classes not counted: no picture of their difficult set shows them"
        draft.notes.append(line)
        draft.remarks.append(line)
    return draft


_GROUPS: dict[str, tuple[str, str]] = {
    "classification": (
        "ImageNet-1K N24News HatefulMemes VOC2007 SUN397",
        "Place365 ImageNet-A ImageNet-R ObjectNet Country211",
    ),
    "question answering": (
        "OK-VQA A-OKVQA DocVQA InfographicsVQA ChartQA Visual7W",
        "ScienceQA VizWiz GQA TextVQA",
    ),
    "retrieval": (
        "VisDial CIRR VisualNews_t2i VisualNews_i2t MSCOCO_t2i MSCOCO_i2t NIGHTS WebQA",
        "OVEN FashionIQ EDIS Wiki-SS-NQ",
    ),
    "grounding": ("MSCOCO", "Visual7W-Pointing RefCOCO RefCOCO-Matching"),
}
"""MMEB's kinds of data sets: those of which it has training data too (in distribution), and the others."""
_MMEB_LABELS = {
    name: {"meta_task": group, "distribution": distribution}
    for group, halves in _GROUPS.items()
    for distribution, names in zip(("in", "out"), halves, strict=True)
    for name in names.split()
}
_MMEB_ENDINGS = (".parquet", ".jsonl", ".json", ".jsonl.gz", ".json.gz")
_MMEB_SPLITS = ("test", "train", "validation", "val", "data", "part")
_MOST_FOLDERS = 64


def _mmeb_tables(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.name.lower().endswith(_MMEB_ENDINGS))
    yield from (folder / name for name in names if has_columns(folder / name, "qry_text", "tgt_text"))


def _is_mmeb(path: Path) -> bool:
    try:
        if path.is_file():
            return has_columns(path, "qry_text", "tgt_text")
        folders = [entry for entry in sorted(path.iterdir()) if entry.is_dir()][:_MOST_FOLDERS]
        return any(True for folder in (path, *folders) for _ in _mmeb_tables(folder))
    except OSError:
        return False


@reader("mmeb", sniff=_is_mmeb)
def mmeb(path: Path, *, subset: str | None, instructions: str) -> TaskSetDraft:
    """Read MMEB-eval, or the image part of MMEB-V2: each data set is a task of its own."""
    # The columns are `qry_text`, `qry_img_path`, `tgt_text` and `tgt_img_path`; the last two are lists of candidates,
    # of which the first is right. MMEB-V2 has the instructions apart, in `qry_inst` and `tgt_inst`: they go before the
    # text of a query, and before that of a candidate with a picture, as in the code of the benchmark. In MMEB-eval they
    # are part of the texts. The mark `<|image_1|>` is left out: a model here is given text and picture apart.
    # A candidate that several queries have is one document. Precision@1 is measured over the candidates of each query,
    # ties counted against the model. The labels of queries are "dataset", "meta_task" ("retrieval") and "distribution"
    # ("in": the benchmark has training data of that data set, "out": it has none).
    files = _mmeb_files(path)
    if not files:
        raise mmeb.lacks(path, "no table with the columns qry_text, tgt_text")
    wanted = list(files) if subset is None else subset.split("+")
    unknown = [name for name in wanted if name not in files]
    if unknown:
        raise CollectionError(
            f"{path}: no data set {unknown[0]!r}.", hint=nearest(unknown[0], files), code="no-data-set"
        )
    root = path if path.is_dir() else path.parent
    draft = TaskSetDraft("MMEB", root, f"MMEB {path.absolute().name}")
    for name in wanted:
        _read_mmeb(draft.add_task(name), name, files[name], instructions == "drop")
    if instructions == "drop":
        draft.notes.append("without instructions")
    return draft


def _mmeb_files(path: Path) -> dict[str, list[Path]]:
    """The files of each data set: that of a file in no folder of its own is its stem, unless that is a split's."""

    def own_name(file: Path) -> str:
        stem, folder = plain_stem(file), file.absolute().parent
        if stem.partition("-")[0].lower() not in _MMEB_SPLITS:  # "test-00000-of-00001"
            return stem
        return (folder.parent if folder.name == "data" else folder).name

    if path.is_file():
        return {own_name(path): [path]} if _is_mmeb(path) else {}
    files: dict[str, list[Path]] = {}
    for folder in (path, path / "data"):
        for file in _mmeb_tables(folder) if folder.is_dir() else ():
            files.setdefault(own_name(file), []).append(file)
    folders = [entry for entry in sorted(path.iterdir()) if entry.is_dir()] if path.is_dir() else []
    for folder in folders:
        inside = [] if folder.name.startswith(".") or folder.name == "data" else list(_mmeb_tables(folder))
        if inside:
            files.setdefault(folder.name, []).extend(inside)
    return files


def _read_mmeb(draft: TaskDraft, name: str, files: Sequence[Path], drop: bool) -> None:
    """Read the files of one data set; `drop` leaves the instructions out."""
    draft.measures, draft.ties = ("precision@1",), "pessimistic"
    documents: dict[tuple[str, str], int] = {}
    pools: list[list[int]] = []

    def joined(text: Any, instruction: Any) -> str | None:
        """A text with its instruction before it; None for nothing."""
        parts = [text] if drop else [instruction, text]
        return (
            " ".join(filter(None, (str(p).replace("<|image_1|>", "").strip() for p in parts if p is not None))) or None
        )

    for file in files:
        for number, (_, row) in enumerate(read_rows(file), 1):
            place = f"{relative(file, draft.root)}, row {number}"
            if drop and "qry_inst" not in row:
                draft.fault(
                    f"{place}: no column qry_inst: the instructions are part of qry_text and cannot be dropped "
                    "(MMEB-V2 has them apart)"
                )
                continue
            texts, pictures, problem = _mmeb_candidates(row)
            text, picture = joined(row.get("qry_text"), row.get("qry_inst")), label_text(row.get("qry_img_path"))
            if not problem and text is None and picture is None:
                problem = "the query has neither a text nor an image"
            pool: dict[int, None] = {}
            for target, image in zip(texts, pictures, strict=True):
                own = (joined(target, row.get("tgt_inst") if image else None) or "", image or "")
                if own == ("", ""):
                    problem = problem or "a candidate has neither a text nor an image"
                    break
                pool[documents.setdefault(own, len(documents))] = None
            if problem:
                draft.fault(f"{place}: {problem}")
                continue
            query = str(len(draft.queries.ids))
            draft.add_item("queries", query, text, picture=picture)
            draft.judgements["test", query, str(next(iter(pool)))] = 1.0
            pools.append(list(pool))
    queries = draft.queries.ids
    if not queries and not draft.faults:
        draft.fault(f"{name}: no rows in it")
    for label, value in {"dataset": name, **_MMEB_LABELS.get(name, {})}.items():
        draft.labels[label] = dict.fromkeys(queries, value)
    for number, (target, image) in enumerate(documents):
        draft.add_item("documents", str(number), target or None, picture=image or None)
    # The candidates as a table: a thousand for each query are too many for a dictionary.
    ids = pa.array(draft.documents.ids, pa.string())
    codes = np.concatenate([np.array(pool, np.int64) for pool in pools] or [np.empty(0, np.int64)])
    asking = pa.array(queries, pa.string()).take(pa.array(np.repeat(np.arange(len(pools)), list(map(len, pools)))))
    columns = [pa.array([""] * len(codes), pa.string()), asking, ids.take(pa.array(codes))]
    draft.pools = pa.table(columns, schema=TASK_CANDIDATES)


def _mmeb_candidates(row: Mapping[str, Any]) -> tuple[list[str], list[str | None], str]:
    """The texts and the pictures of the candidates of a query, and what is wrong with them."""
    texts, pictures = row.get("tgt_text"), row.get("tgt_img_path")
    for name, values in (("tgt_text", texts), ("tgt_img_path", pictures)):
        if values is not None and not isinstance(values, list):
            return [], [], f"{name} is no list of candidates, but {str(values)[:40]!r}"
    given = list(pictures or [])
    strings = [str(text) if text is not None else "" for text in texts or []]
    if given and len(strings) <= 1 and not "".join(strings).strip():
        strings = [""] * len(given)  # pictures alone
    if given and len(given) != len(strings) and any(given):
        return [], [], f"{len(strings):,} tgt_text for {len(given):,} tgt_img_path"
    if not strings:
        return [], [], "there are no candidates (tgt_text, tgt_img_path)"
    return strings, list(map(label_text, given)) if any(given) else [None] * len(strings), ""


# Pages of documents that answer questions.

_FLAT = frozenset({"query", "image", "image_filename"})
"""The columns that every file of the first ViDoRe has."""
_PAGE_IDS = ("corpus-id", "corpus_id")


def _first(columns: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in columns), None)


def _parquet_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _is_vidore(path: Path) -> bool:
    if files := _parquet_files(path / "corpus"):
        return _first(sniffed_columns(files[0]), _PAGE_IDS) is not None and "image" in pictures_in_cells(files[0])
    files = ([path] if path.name.endswith(".parquet") else []) if path.is_file() else _parquet_files(path / "data")
    return bool(files) and set(sniffed_columns(files[0])) >= _FLAT and "image" in pictures_in_cells(files[0])


@reader("vidore", sniff=_is_vidore)
def vidore(path: Path) -> TaskDraft:
    """Read a data set of ViDoRe as it lies on the hub: text queries, and pages as pictures."""
    # - With `corpus/`, `queries/` and `qrels/` (the second and third ViDoRe, and the first in BEIR's form): ids and
    #   judgements are those of the files. The language of a query is its label "language".
    # - One table with `query`, `image` and `image_filename` (the first ViDoRe), which has a row for each question and
    #   its page: a page is a document once, under its file name; questions with the same text are one query with all
    #   their pages; a row without a question is a page more. Queries are called "query-0", "query-1", … in the order of
    #   rows.
    parts = {name: _parquet_files(path / name) for name in ("corpus", "queries", "qrels")}
    missing = [f"no folder {name}/ with Parquet files" for name, files in parts.items() if not files]
    if len(missing) == 3:
        return _flat_pages(path)
    if missing:
        raise vidore.lacks(path, *missing)
    pages, queries = sniffed_columns(parts["corpus"][0]), sniffed_columns(parts["queries"][0])
    ids = {
        "query_id_column": _first(queries, ("query-id", "query_id")),
        "document_id_column": _first(pages, _PAGE_IDS),
    }
    named = {"query_text_column": _first(queries, ("query",)), "document_image_column": _first(pages, ("image",))}
    lacking = [("corpus-id", "query-id")[name.startswith("query")] for name, column in ids.items() if column is None]
    lacking += [name.removesuffix("_column").rpartition("_")[2] for name, column in named.items() if column is None]
    if lacking:
        raise vidore.lacks(path, f"no column {', '.join(lacking)}")
    columns: dict[str, Any] = {**ids, **named}
    draft = task_reader.read(path, title="join", unknown="fault", task="", **columns)
    assert isinstance(draft, TaskDraft), "parts without the name of a task"
    return draft


def _flat_pages(path: Path) -> TaskDraft:
    """The form with a row for each question and its page."""
    files = [path] if path.is_file() else _parquet_files(path / "data") or _parquet_files(path)
    lacking = sorted({name for file in files for name in _FLAT - set(sniffed_columns(file))})
    if not files:
        raise vidore.lacks(path, "no corpus/, queries/ and qrels/", "no data/test-00000-of-00001.parquet")
    if lacking:
        raise vidore.lacks(path, f"no column {', '.join(lacking)} in {files[0].name}")
    root = path.parent if path.is_file() else path
    draft = TaskDraft(path.absolute().name.removesuffix(".parquet"), root, f"ViDoRe {path.absolute().name}")
    queries: dict[str, str] = {}
    alone = 0
    for file in files:
        split = file.stem.partition("-")[0]
        place = relative(file, root)
        cells, others = PictureCells.of(file, "image", place) or (None, None)
        if cells is None:
            raise vidore.lacks(path, f"no pictures in the column image of {file.name}")
        for row, (line, values) in enumerate(read_rows(file, columns=others)):
            page, cell = (ids_in([values["image_filename"]]) or [""])[0], cells(row)
            if not page or cell is None:
                draft.fault(f"{place}, {line}: no {'picture' if page else 'image_filename'}")
                continue
            if page not in draft.documents.known:
                draft.add_item("documents", page, None, cell=cell)
            text = values["query"]
            if not text:
                alone += 1
                continue
            if text not in queries:
                queries[text] = f"query-{len(queries)}"
                draft.add_item("queries", queries[text], str(text))
            draft.judgements[split, queries[text], page] = 1.0
    draft.names = []
    if alone:
        draft.notes.append(f"{alone:,} pages without a question")
    return draft


# Composed image retrieval: a picture and a change in words as query, pictures as documents.


def _files_like(folder: Path, pattern: str) -> dict[tuple[str, ...], Path]:
    """The files in a folder and the folders in it whose plain names fit a pattern, by the groups of the pattern."""
    files: dict[tuple[str, ...], Path] = {}
    for file in [*sorted(folder.glob("*")), *sorted(folder.glob("*/*"))] if folder.is_dir() else ():
        match = re.fullmatch(pattern, plain_name(file))
        if match is None or not file.is_file():
            continue
        if match.groups() in files:
            first = relative(files[match.groups()], folder)
            raise CollectionError(
                f"{folder}: {first} and {relative(file, folder)}: which of them?",
                hint="leave one of them",
                code="two-of-a-kind",
            )
        files[match.groups()] = file
    return files


def _paired_files(layout: Format, path: Path, kinds: str, example: str) -> list[tuple[tuple[str, ...], Path, Path]]:
    """The files `cap.KIND.SPLIT.json`, each with its kind and split, and its `split.KIND.SPLIT.json`."""
    queries, lists = (_files_like(path, rf"{begin}\.{kinds}\.json") for begin in ("cap", "split"))
    if not queries:
        raise layout.lacks(path, f"no {example} in it")
    without = [f"no split.{'.'.join(key)}.json" for key in queries if key not in lists]
    if without:
        raise layout.lacks(path, *without)
    return [(key, file, lists[key]) for key, file in sorted(queries.items())]


def _has_captions(path: Path, pattern: str) -> bool:
    """Whether a folder, or captions/ in it, has a file whose name without .gz or .xz fits."""
    folders = [folder for folder in (path, path / "captions") if folder.is_dir()]
    return any(re.fullmatch(pattern, plain_name(entry)) for folder in folders for entry in folder.iterdir())


def _composed_rows(draft: SourceDraft, file: Path, texts: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON list, each with its place; a row that lacks one of the named ids or texts is a fault."""
    content = read_json(file)
    if not isinstance(content, list):
        draft.fault(f"{file.name}: expected a list of queries")
        return
    for number, row in enumerate(content):
        place = f"{file.name}, entry {number + 1}"
        if not isinstance(row, dict):
            draft.fault(f"{place}: expected an object")
            continue
        missing = [key for key in texts if not isinstance(row.get(key), str | int)]
        if missing:
            draft.fault(f"{place}: no {', '.join(missing)}")
            continue
        yield place, row


def ids_in(values: object) -> list[str] | None:
    """A list of ids as text; None for anything else."""
    try:
        return [id_of(value) for value in values] if isinstance(values, list) else None
    except TypeError:
        return None


def _add_documents(task: TaskDraft, split: str, pictures: Mapping[str, str]) -> None:
    """The pictures that are searched in a split: their file names, by id."""
    task.galleries |= dict.fromkeys((split, image) for image in pictures)
    for image, name in pictures.items():
        if image not in task.documents.known:
            task.add_item("documents", image, None, picture=name)


def _add_composed(
    tasks: Sequence[TaskDraft],
    split: str,
    query: str,
    place: str,
    text: str,
    reference: str,
    pictures: Mapping[str, str],
    grades: Mapping[str, float] | None,
    *,
    named: Iterable[str] = (),
    searched: str = "",
) -> bool:
    """Add a query of a picture and a text to tasks; False, and a fault of the first, where it cannot be one."""
    # pictures: The file names of those that are searched, by id. grades: None where the answers are not published.
    # named: Further pictures that are to be among them. searched: What these are called in errors.
    missing = [image for image in (reference, *named, *(grades or ())) if image not in pictures]
    if missing:
        where = searched or f"gallery of {split}"
        tasks[0].fault(f"{place}: picture {missing[0]!r} of query {query!r} is not in the {where}")
        return False
    if query in tasks[0].queries.known:
        tasks[0].fault(f"{place}: query {query!r} stands twice")
        return False
    for task in tasks:
        task.add_item("queries", query, text, picture=pictures[reference])
        task.labels.setdefault(IMAGE, {})[query] = reference
        if grades is None:
            task.unjudged[split, query] = None
        task.judgements |= {(split, query, document): grade for document, grade in (grades or {}).items()}
    return True


_GARMENTS = {"dress": 3_817, "shirt": 6_346, "toptee": 5_373}
"""The categories of FashionIQ, and how many images the gallery of val has."""
_FASHIONIQ = r"(dress|shirt|toptee)\.(train|val|test)"


@reader("fashioniq", sniff=lambda path: _has_captions(path, rf"cap\.{_FASHIONIQ}\.json"))
def fashioniq(path: Path, *, captions: str, gallery: str, reference: str) -> TaskSetDraft:
    """Read `cap.CATEGORY.SPLIT.json` and `split.CATEGORY.SPLIT.json`, each category a task of its own."""
    # The two captions of a query are joined by "and", without full stops and commas at their ends. "each" makes every
    # caption a query of its own, as VAL does.
    # The gallery of a category is its image split (the benchmark's). `gallery=val` takes the pictures that the queries
    # of the split name instead, references and targets (VAL's, and of those who compare with it): a smaller gallery
    # makes every number higher. The targets of test are not published, so there it is the image split in both readings.
    files = _paired_files(fashioniq, path, _FASHIONIQ, "cap.dress.val.json, cap.shirt.train.json, …")
    draft = TaskSetDraft("FashionIQ", path, f"FashionIQ {path.absolute().name}/")
    published = {f"{category} images of val": count for category, count in _GARMENTS.items()}
    counts = dict.fromkeys(published, 0)
    for (category, split), file, listed in files:
        task = draft.parts.get(category) or draft.add_task(category)
        task.measures = ("hit@10", "hit@50")
        images = ids_in(read_json(listed))
        if images is None:
            draft.fault(f"{listed.name}: expected a list of image names")
            continue
        if split == "val":
            counts[f"{category} images of val"] = len(images)
        rows = list(_composed_rows(draft, file, ("candidate",)))
        shown = {str(row[key]) for _, row in rows for key in ("candidate", "target") if key in row}
        whole = gallery != "val" or split == "test"
        pictures = {image: f"{image}.*" for image in images if whole or image in shown}
        _add_documents(task, split, pictures)
        lacking = sum(row.get("target") is None for _, row in rows)
        if 0 < lacking < len(rows):
            draft.notes.append(f"{file.name}: {counted(lacking, 'queries')} without a target, not measured")
        repeated = len(rows) - len({json.dumps(row, sort_keys=True) for _, row in rows})
        if repeated:  # as in the published test part, where each is answered
            draft.notes.append(f"{file.name}: {counted(repeated, 'queries')} repeat another one, and count as well")
        for number, (place, row) in enumerate(rows):
            texts, target, garment = row.get("captions"), row.get("target"), str(row["candidate"])
            if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
                draft.fault(f"{place}: no captions")
                continue
            clean = [text.strip(" .,?\n\t") for text in texts]
            queries = {"": clean[0] if captions == "first" else " and ".join(filter(None, clean))}
            if captions == "each":
                queries = {f"#{position}": text for position, text in enumerate(clean)}
            grades = None if target is None else {str(target): 1.0}
            for ending, text in queries.items():
                query = f"{category}-{split}-{number}{ending}"
                is_query = _add_composed([task], split, query, place, text, garment, pictures, grades)
                if is_query and reference == "excluded":
                    task.excluded[query, garment] = None
    if draft.parts.keys() >= _GARMENTS.keys() and gallery == "split":
        compare_counts(draft, published, counts)
    draft.notes.append(f"captions {captions}, gallery {gallery}, reference {reference}")
    return draft


_CIRR = r"(\w+)\.(train|val|test1)"
_CIRR_PUBLISHED = {"queries of val": 4_181, "images of val": 2_297, "queries of test1": 4_148, "images of test1": 2_315}


@reader("cirr", sniff=lambda path: _has_captions(path, r"cap\.rc\d+\.(train|val|test1)\.json"))
def cirr(path: Path, *, reference: str) -> TaskSetDraft:
    """Read `cap.rc2.SPLIT.json` and `split.rc2.SPLIT.json`: two tasks with the same queries."""
    # - `it2i`: all images of the split are candidates; its hit@k is the benchmark's recall@k.
    # - `subset`: the candidates are the five other images of `img_set.members`, alike photos in which the right one is
    #   hard to tell; its hit@k is recall_subset@k.
    # The picture of a query is no candidate, as on the benchmark's server. `reference=candidate` is the other reading;
    # it holds for both tasks. The right answer is `target_hard`. The targets of test1 are not published.
    files = _paired_files(cirr, path, _CIRR, "cap.rc2.val.json")
    draft = TaskSetDraft("CIRR", path, f"CIRR {path.absolute().name}/")
    whole, subset = draft.add_task("it2i"), draft.add_task("subset")
    whole.submission = subset.submission = "cirr"
    whole.measures, subset.measures = ("hit@1", "hit@5", "hit@10", "hit@50"), ("hit@1", "hit@2", "hit@3")
    counts = dict.fromkeys(_CIRR_PUBLISHED, 0)
    for (_, split), file, listed in files:
        images = read_json(listed)
        if not isinstance(images, dict):
            draft.fault(f"{listed.name}: expected {{image: path}}")
            continue
        pictures = {image: str(name).removeprefix("./") for image, name in images.items()}
        for task in (whole, subset):
            _add_documents(task, split, pictures)
        rows = list(_composed_rows(draft, file, ("pairid", "reference", "caption")))
        counts |= {f"queries of {split}": len(rows), f"images of {split}": len(images)}
        for place, row in rows:
            query, photo, target = str(row["pairid"]), str(row["reference"]), row.get("target_hard")
            image_set = row.get("img_set")
            members = ids_in(image_set.get("members")) if isinstance(image_set, dict) else None
            if members is None:
                draft.fault(f"{place}: no img_set.members")
                continue
            if target is not None and str(target) in pictures and str(target) not in members:
                draft.fault(f"{place}: the target {str(target)!r} of query {query!r} is not in its subset")
                continue
            grades = None if target is None else {str(target): 1.0}
            if not _add_composed(
                (whole, subset), split, query, place, row["caption"], photo, pictures, grades, named=members
            ):
                continue
            left = [member for member in members if member != photo or reference != "excluded"]
            subset.candidates |= dict.fromkeys((split, query, member) for member in left)
            if reference == "excluded":
                whole.excluded[query, photo] = None
    compare_counts(draft, {name: count for name, count in _CIRR_PUBLISHED.items() if counts[name]}, counts)
    draft.notes.append(f"reference {reference}")
    return draft


_ASPECTS = (
    *("cardinality", "addition", "negation", "direct_addressing", "compare_change", "comparative_statement"),
    *("statement_with_conjunction", "spatial_relations_background", "viewpoint"),
)
"""CIRCO's semantic aspects of a query: each is a label, "yes" or "no"."""
_CIRCO_INDEX = r"(image_info_unlabeled2017)\.json"


def _circo_files(path: Path) -> dict[str, Path]:
    if path.is_file():
        files = {plain_stem(path): path} if plain_stem(path) in ("val", "test") else {}
    else:
        files = {split: file for (split,), file in _files_like(path, r"(val|test)\.json").items()}
    keys = ("relative_caption", "shared_concept", "reference_img_id")
    return {split: file for split, file in files.items() if has_key(json_head(file), *keys)}


def _is_circo(path: Path) -> bool:
    if path.is_file():
        return bool(_circo_files(path))
    files = [folder / name for folder in (path, path / "annotations") for name in ("val.json", "test.json")]
    return any(file.is_file() and _circo_files(file) for file in files)


@reader("circo", sniff=_is_circo)
def circo(path: Path, *, index: str, text: str, reference: str) -> TaskDraft:
    """Read `val.json` and `test.json`; the documents are the images of COCO's unlabeled2017."""
    # A query has several right answers: `gt_img_ids` with grade 1, `target_img_id` with grade 2. The benchmark's mAP@k
    # is `capped_map@k`, over all of them; its recall@k counts the target alone, which is `hit(rel=2)@k`. The answers of
    # test are not published.
    # The index comes from `image_info_unlabeled2017.json` (123,403 images). Without that file it is the pictures that
    # the annotations name, which is another and much easier benchmark; `index=named` has to be said for it.
    files = _circo_files(path)
    if not files:
        raise circo.lacks(path, "no val.json and no test.json with relative_caption in it")
    draft = TaskDraft("CIRCO", path if path.is_dir() else path.parent, f"CIRCO {path.absolute().name}", task="it2i")
    draft.submission = "circo"
    draft.measures = tuple(f"{name}@{k}" for name in ("capped_map", "hit(rel=2)") for k in (5, 10, 25, 50))
    rows = {
        split: list(_composed_rows(draft, file, ("id", "reference_img_id", "relative_caption")))
        for split, file in sorted(files.items())
    }
    images = _circo_index(path, index, [row for listed in rows.values() for _, row in listed])
    for image, name in images.items():
        draft.add_item("documents", image, None, picture=name)
    for split, listed in rows.items():
        for place, row in listed:
            query, photo = f"{split}-{row['id']}", str(row["reference_img_id"])
            grades: dict[str, float] | None = None
            if split == "val" or "gt_img_ids" in row:
                answers = ids_in(row.get("gt_img_ids"))
                if not answers or "target_img_id" not in row:
                    draft.fault(f"{place}: no {'target_img_id' if answers else 'gt_img_ids'}")
                    continue
                grades = dict.fromkeys(answers, 1.0) | {str(row["target_img_id"]): 2.0}
            caption = str(row["relative_caption"])
            if text == "concept" and isinstance(row.get("shared_concept"), str):
                caption = f"{row['shared_concept']} that {caption}"
            if not _add_composed([draft], split, query, place, caption, photo, images, grades, searched="index"):
                continue
            aspects = row.get("semantic_aspects")
            if isinstance(aspects, list):
                for aspect in _ASPECTS:
                    draft.labels.setdefault(aspect, {})[query] = "yes" if aspect in aspects else "no"
            if reference == "excluded":
                draft.excluded[query, photo] = None
    counts = {f"queries of {split}": len(listed) for split, listed in rows.items()} | {"images": len(images)}
    published = {"queries of val": 220, "queries of test": 800, "images": 123_403}
    compare_counts(draft, {name: count for name, count in published.items() if name in counts}, counts)
    draft.notes.append(f"text {text}, reference {reference}")
    return draft


def _circo_index(path: Path, index: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    """The id of each image of the index → its file name."""
    if index == "named":
        ids = [str(row["reference_img_id"]) for row in rows]
        ids += [image for row in rows for image in ids_in(row.get("gt_img_ids")) or ()]
        return {image: f"{image:0>12}.jpg" for image in ids}
    folder = path if path.is_dir() else path.parent
    files = [Path(index)] if index else [*_files_like(folder, _CIRCO_INDEX).values()]
    files += (folder / "COCO2017_unlabeled").glob("annotations/image_info_*")
    if folder.name == "annotations":
        files += _files_like(folder.parent / "COCO2017_unlabeled", _CIRCO_INDEX).values()
    if not files:
        raise circo.lacks(
            path,
            "no image_info_unlabeled2017.json beside it, which lists the 123,403 images that are searched (index=FILE "
            "names it; index=named searches the pictures of the annotations alone, another and easier benchmark)",
        )
    content = read_json(files[0])
    listed = content.get("images") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not all(isinstance(image, dict) and "id" in image for image in listed):
        raise CollectionError(f"{files[0]}: no list of images.", hint="expected COCO's image_info_unlabeled2017.json")
    return {str(image["id"]): str(image.get("file_name") or f"{image['id']:0>12}.jpg") for image in listed}
