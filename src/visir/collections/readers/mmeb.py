"""MMEB: queries of any kind that choose among a thousand candidates of any kind, in 36 data sets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from visir.collections.readers.choice_table import has_columns, records
from visir.collections.readers.locate import relative
from visir.collections.readers.sniffing import plain_stem
from visir.collections.sources import Format, Option, one_of
from visir.collections.task_draft import TaskDraft, TaskSetDraft
from visir.errors import CollectionError, nearest
from visir.records.task import TASK_CANDIDATES

MEASURES = ("precision@1",)
GROUPS: dict[str, tuple[str, str]] = {
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
"""The kinds of data sets: those of which MMEB has training data too (in distribution), and the others."""
_PICTURE = "<|image_1|>"
"""Stands in the texts where models of chats put the picture."""
_COLUMNS = ("qry_text", "tgt_text")
_ENDINGS = (".parquet", ".jsonl", ".json", ".jsonl.gz", ".json.gz")
_SPLITS = ("test", "train", "validation", "val", "data", "part")
_MOST_FOLDERS = 64


def read(path: Path, *, subset: str | None = None, instructions: str = "keep") -> TaskSetDraft:
    """Read MMEB-eval, or the image part of MMEB-V2: each data set is a task of its own."""
    # The columns are `qry_text`, `qry_img_path`, `tgt_text` and `tgt_img_path`; the last two are lists of candidates,
    # of which the first is right. MMEB-V2 has the instructions apart, in `qry_inst` and `tgt_inst`: they go before the
    # text of a query, and before that of a candidate with a picture, as in the code of the benchmark. In MMEB-eval they
    # are part of the texts. The mark `<|image_1|>` is left out: a model here is given text and picture apart.
    # A candidate that several queries have is one document. Precision@1 is measured over the candidates of each query,
    # ties counted against the model. The labels of queries are "dataset", "meta_task" ("retrieval") and "distribution"
    # ("in": the benchmark has training data of that data set, "out": it has none).
    files = _files(path)
    if not files:
        raise FORMAT.lacks(path, f"no table with the columns {', '.join(_COLUMNS)}")
    wanted = list(files) if subset is None else subset.split("+")
    unknown = [name for name in wanted if name not in files]
    if unknown:
        raise CollectionError(
            f"{path}: no data set {unknown[0]!r}.", hint=nearest(unknown[0], files), code="no-data-set"
        )
    root = path if path.is_dir() else path.parent
    draft = TaskSetDraft("MMEB", root, f"MMEB {path.absolute().name}")
    for name in wanted:
        _DataSet(draft.add_task(name), name, instructions == "drop").read(files[name])
    if instructions == "drop":
        draft.notes.append("without instructions")
    return draft


@dataclass
class _DataSet:
    """One data set on its way into a draft."""

    draft: TaskDraft  # the draft
    name: str  # the name of the data set
    drop: bool  # whether instructions are left out
    _documents: dict[tuple[str, str], int] = field(default_factory=dict)
    _pools: list[list[int]] = field(default_factory=list)

    def read(self, files: Sequence[Path]) -> None:
        """Read the files of the data set."""
        draft = self.draft
        draft.measures, draft.ties = MEASURES, "pessimistic"
        for file in files:
            for number, (_, row) in enumerate(records(file), 1):
                self._add(f"{relative(file, draft.root)}, row {number}", row)
        queries = draft.queries.ids
        if not queries and not draft.faults:
            draft.fault(f"{self.name}: no rows in it")
        for label, value in {"dataset": self.name, **_group(self.name)}.items():
            draft.labels[label] = dict.fromkeys(queries, value)
        self._finish()

    def _add(self, place: str, row: Mapping[str, Any]) -> None:
        if self.drop and "qry_inst" not in row:
            self.draft.fault(
                f"{place}: no column qry_inst: the instructions are part of qry_text and cannot be dropped "
                "(MMEB-V2 has them apart)"
            )
            return
        texts, pictures, problem = _candidates(row)
        text, picture = self._text(row.get("qry_text"), row.get("qry_inst")), _name(row.get("qry_img_path"))
        if not problem and text is None and picture is None:
            problem = "the query has neither a text nor an image"
        inst = row.get("tgt_inst")
        pool: dict[int, None] = {}
        for target, image in zip(texts, pictures, strict=True):
            own = (self._text(target, inst if image else None) or "", image or "")
            if own == ("", ""):
                problem = problem or "a candidate has neither a text nor an image"
                break
            pool[self._documents.setdefault(own, len(self._documents))] = None
        if problem:
            self.draft.fault(f"{place}: {problem}")
            return
        query = str(len(self.draft.queries.ids))
        self.draft.add_item("queries", query, text, picture=picture)
        right = next(iter(pool))
        self.draft.judgements["test", query, str(right)] = 1.0
        self._pools.append(list(pool))

    def _text(self, text: Any, instruction: Any) -> str | None:
        """A text with its instruction before it; None for nothing."""
        parts = [str(part).replace(_PICTURE, "").strip() for part in ([] if self.drop else [instruction]) + [text]
                 if part is not None]  # fmt: skip
        return " ".join(filter(None, parts)) or None

    def _finish(self) -> None:
        """The candidates as documents, and as a table: a thousand for each query are too many for a dictionary."""
        for number, (text, picture) in enumerate(self._documents):
            self.draft.add_item("documents", str(number), text or None, picture=picture or None)
        sizes = [len(pool) for pool in self._pools]
        ids = pa.array(self.draft.documents.ids, pa.string())
        codes = np.concatenate([np.array(pool, np.int64) for pool in self._pools] or [np.empty(0, np.int64)])
        queries = pa.array(self.draft.queries.ids, pa.string()).take(pa.array(np.repeat(np.arange(len(sizes)), sizes)))
        columns = [pa.array([""] * len(codes), pa.string()), queries, ids.take(pa.array(codes))]
        self.draft.pools = pa.table(columns, schema=TASK_CANDIDATES)


def _candidates(row: Mapping[str, Any]) -> tuple[list[str], list[str | None], str]:
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
    names: list[str | None] = [_name(name) for name in given] if any(given) else [None] * len(strings)
    return strings, names, ""


def _name(value: Any) -> str | None:
    return str(value) if value not in (None, "") else None


def _group(name: str) -> dict[str, str]:
    """The kind of a data set, and whether the benchmark has training data of it."""
    for group, (inside, outside) in GROUPS.items():
        for distribution, names in (("in", inside), ("out", outside)):
            if name in names.split():
                return {"meta_task": group, "distribution": distribution}
    return {}


def _files(path: Path) -> dict[str, list[Path]]:
    """The files of each data set."""
    if path.is_file():
        return {_own_name(path): [path]} if _fits(path) else {}
    if not path.is_dir():
        return {}
    files: dict[str, list[Path]] = {}
    for folder in (path, path / "data"):
        for file in _tables(folder) if folder.is_dir() else ():
            files.setdefault(_own_name(file), []).append(file)
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    for folder in folders:
        if folder.name == "data":
            continue
        inside = list(_tables(folder))
        if inside:
            files.setdefault(folder.name, []).extend(inside)
    return files


def _own_name(file: Path) -> str:
    """The data set of a file that is in no folder of its own: its stem, or its folder's for "test-00000-of-00001"."""
    stem = plain_stem(file)
    is_split = stem.partition("-")[0].lower() in _SPLITS
    folder = file.absolute().parent
    return (folder.parent if folder.name == "data" else folder).name if is_split else stem


def _tables(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.name.lower().endswith(_ENDINGS))
    for name in names:
        if _fits(folder / name):
            yield folder / name


def _fits(file: Path) -> bool:
    return has_columns(file, *_COLUMNS)


def _sniff(path: Path) -> bool:
    try:
        if path.is_file():
            return _fits(path)
        if any(True for _ in _tables(path)):
            return True
        folders = [entry for entry in sorted(path.iterdir()) if entry.is_dir()][:_MOST_FOLDERS]
        return any(True for folder in folders for _ in _tables(folder))
    except OSError:
        return False


FORMAT = Format(
    name="mmeb",
    title="MMEB: choose among candidates that are texts, pictures or both",
    layout="DATASET/test-*.parquet (or .jsonl): qry_text, qry_img_path, tgt_text: [candidates, the right one first], "
    "tgt_img_path: [candidates]; MMEB-V2 also qry_inst and tgt_inst; the folder of pictures with images=",
    reference="Jiang et al., VLM2Vec (ICLR 2025); Meng et al., VLM2Vec-V2 (2025)",
    obtain="https://huggingface.co/datasets/TIGER-Lab/MMEB-eval (with images.zip); MMEB-V2: "
    "https://huggingface.co/datasets/ziyjiang/MMEB_Test_Instruct, pictures: image-tasks/mmeb_v1.tar.gz of "
    "https://huggingface.co/datasets/TIGER-Lab/MMEB-V2",
    sniff=_sniff,
    read=read,
    options=(
        Option("subset", "the data sets to read, joined by + (default: all)"),
        Option(
            "instructions",
            "keep (before the texts, as in the benchmark) or drop (of MMEB-V2, where they have columns of their own)",
            "keep",
            one_of("keep", "drop"),
        ),
    ),
)
