"""Published tasks: choices between captions, classes and queries with candidates, pages of documents."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from visir.collections.archives import PictureCells, pictures_in_cells
from visir.collections.composed_layouts import ids_in
from visir.collections.draft import ChoiceDraft, Missing, TaskDraft, TaskSetDraft
from visir.collections.readers import task_reader
from visir.collections.readers.choice_table import MISSING, has_columns, record_files, records, texts_of
from visir.collections.readers.locate import relative
from visir.collections.readers.names import head, json_head, plain_name, plain_stem
from visir.collections.segments import FRAME
from visir.collections.sources import Format, Option, one_of, reader_of
from visir.collections.tables import read_rows, sniffed_columns
from visir.errors import CollectionError, nearest
from visir.files import read_json
from visir.records.task import TASK_CANDIDATES

# Choices: files of records, each an item of pictures and captions of which some are right.

_Record = Mapping[str, Any]
_MATCHING = ("all_first", "item_score", "group_score")
"""Accuracy of single choices; both choices of a direction (text score, image score); all four (group score)."""


def _choices(
    item: Callable[..., None],
    *columns: tuple[str, ...],
    title: str,
    pictures: str,
    lacks: str | Callable[[Path], str] = "",
    measures: tuple[str, ...] = ("all_first",),
    rows: Callable[[Path], Iterable[tuple[str, _Record]]] = records,
    sniffed: Callable[[Path], bool] = lambda file: True,
    by_file: bool | None = True,
    options: tuple[Option, ...] = (),
    **about: Any,
) -> Format:
    """A layout of files whose records have these columns (or those of another tuple)."""

    # item: Adds a record to the draft: `item(draft, place, id, record, file, **options)`.
    # pictures: Where the pictures are to be had. lacks: What is missing where no file has the columns.
    # rows: The records of a file with their ids. sniffed: Which of the files tell the layout.
    # by_file: Whether the name of the file is a part of the id of an item; None where there are several files.
    def fits(file: Path) -> bool:
        return any(has_columns(file, *names) for names in columns)

    def read(path: Path, *, missing: Missing, **chosen: Any) -> ChoiceDraft:
        files = record_files(path, fits)
        if not files:
            usual = f"no file with {', '.join(columns[0][:-1])} and {columns[0][-1]}"
            raise layout.lacks(path, (lacks(path) if callable(lacks) else lacks) or usual)
        root = path if path.is_dir() else path.parent
        name = title.partition(":")[0]
        source = f"{name} {path.absolute().name}"
        draft = ChoiceDraft(name, root, source, measures=measures, missing=missing, obtain=pictures)
        for file in files:
            for own, row in rows(file):
                unique = f"{plain_stem(file)}/{own}" if by_file is True or (by_file is None and len(files) > 1) else own
                item(draft, f"{file.name}, item {own}", unique, row, file, **chosen)
        return draft

    def sniff(path: Path) -> bool:
        return bool(record_files(path, lambda file: sniffed(file) and fits(file)))

    layout = Format(title=title, sniff=sniff, read=read, options=(*options, MISSING), **about)
    return layout


def _text(value: object) -> str | None:
    """What a label says; None for nothing."""
    return None if value in (None, "") else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _sugarcrepe_item(*captions: str) -> Callable[..., None]:
    """An item with these right captions; its label "category" is the file ("swap_att"), "change" the first word."""

    def item(draft: ChoiceDraft, place: str, own: str, row: _Record, file: Path) -> None:
        category = plain_stem(file)
        texts = texts_of(draft, place, row, ("filename", *captions, "negative_caption"))
        if texts is not None:
            labels = {"category": category, "change": category.partition("_")[0]}
            draft.add(own, {"": texts.pop("filename")}, texts, [range(len(captions))], labels)
        if len(captions) == 2:  # also to be told from the wrong one by the texts alone
            draft.also_texts = True

    return item


_COCO = "the pictures are COCO's val2017, http://images.cocodataset.org/zips/val2017.zip"
sugarcrepe = _choices(
    _sugarcrepe_item("caption"),
    ("filename", "caption", "negative_caption"),
    sniffed=lambda file: not has_columns(file, "caption2"),
    name="sugarcrepe",
    title="SugarCrepe: choose the right one of two captions",
    layout='add_att.json, add_obj.json, replace_att.json, … in one folder: {"0": {"filename", "caption", '
    '"negative_caption"}}; pictures of COCO val2017',
    reference="Hsieh et al., SugarCrepe (NeurIPS 2023)",
    obtain="https://github.com/RAIVNLab/sugar-crepe",
    pictures=_COCO,
)
# There are two tasks. In "i2t" both right captions must be above the wrong one (`all_first`). In "t2t", the text-only
# task, the two right captions must be more alike than each is to the wrong one (`item_score`).
sugarcrepe_pp = _choices(
    _sugarcrepe_item("caption", "caption2"),
    ("filename", "caption", "caption2", "negative_caption"),
    name="sugarcrepe-pp",
    title="SugarCrepe++: two right captions and a wrong one",
    layout="replace_att.json, swap_obj.json, … in one folder: lists of {filename, caption, caption2, "
    "negative_caption}; pictures of COCO val2017",
    reference="Dumpala et al., SugarCrepe++ (NeurIPS 2024)",
    obtain="https://github.com/Sri-Harsha/scpp",
    pictures=_COCO,
    measures=("all_first", "item_score"),
)


@reader_of(
    name="valse",
    title="VALSE: choose between a caption and a foil",
    layout="existence.json, plurals.json, counting-hard.json, … in one folder: {id: {image_file, caption, foil, mturk, "
    "linguistic_phenomena, dataset}}",
    reference="Parcalabescu et al., VALSE (ACL 2022)",
    obtain="https://github.com/Heidelberg-NLP/VALSE",
    sniff=lambda path: bool(record_files(path, _is_valse)),
    # The paper counts items of which at least two of three people chose the caption, and not the foil.
    options=(
        Option(
            "votes",
            "how many of three people must have accepted an item (0: all items)",
            2,
            lambda text: int(one_of(*"0123")(text)),
        ),
        MISSING,
    ),
)
def valse(path: Path, *, votes: int, missing: Missing) -> ChoiceDraft:
    """Read the pieces `existence.json`, `plurals.json`, …: `{id: {"image_file", "caption", "foil", "mturk"}}`."""
    # The label "category" is the name of the piece, "phenomenon" what it is about, "source" whose picture it is.
    files = record_files(path, _is_valse)
    if not files:
        raise valse.lacks(path, "no file with image_file, caption, foil and linguistic_phenomena")
    root = path if path.is_dir() else path.parent
    draft = ChoiceDraft("VALSE", root, f"VALSE {path.absolute().name}", missing=missing,
                        obtain="the pictures are those of COCO, SWiG, VisDial 1.0 and Visual7W")  # fmt: skip
    total = refused = 0
    for file in files:
        category = plain_stem(file)
        for own, row in records(file):
            place = f"{file.name}, item {own}"
            total += 1
            accepted = (row.get("mturk") or {}).get("caption")
            if votes and not isinstance(accepted, int):
                draft.fault(f"{place}: no votes ('mturk'); ?votes=0 takes every item")
                continue
            if isinstance(accepted, int) and accepted < votes:
                refused += 1
                continue
            texts = texts_of(draft, place, row, ("image_file", "caption", "foil"))
            if texts is not None:
                labels = {"category": category, "phenomenon": _text(row["linguistic_phenomena"]),
                          "source": _text(row.get("dataset"))}  # fmt: skip
                draft.add(f"{category}/{own}", {"": texts.pop("image_file")}, texts, [[0]], labels)
    if refused:
        draft.remark(f"{refused:,} of {total:,} items not counted: fewer than {votes} of three people accept them")
    return draft


def _is_valse(file: Path) -> bool:
    return has_columns(file, "image_file", "caption", "foil", "linguistic_phenomena")


_BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
_HARD = tuple(f"hard_text_{number}" for number in (1, 2, 3, 4))


def _aro_item(draft: ChoiceDraft, place: str, own: str, row: _Record, file: Path, *, crop: str) -> None:
    # Of a picture of Visual Genome only the box of the item is shown to the model, as in the paper. A file of order has
    # `image`, `correct_caption` and `hard_text_1` to `hard_text_4` in each record. The paper's code makes these
    # captions at random when it runs; `visir.robustness.perturb.order_choices` makes such a task of any collection.
    # The label "category" is the name of the file; "relation" and "attributes" are what an item is about.
    is_order = "correct_caption" in row
    picture = "image" if is_order else "image_path"
    captions = ("correct_caption", *_HARD) if is_order else ("true_caption", "false_caption")
    texts = texts_of(draft, place, row, (picture, *captions))
    if texts is None:
        return
    labels: dict[str, str | None] = {"category": plain_stem(file)}
    if "relation_name" in row:
        labels["relation"] = str(row["relation_name"])
    if isinstance(row.get("attributes"), list):
        labels["attributes"] = "_".join(map(str, row["attributes"]))
    box = None
    if not is_order and crop == "yes":
        values = [row.get(name) for name in _BOX]
        if not all(isinstance(value, (int, float)) for value in values):
            draft.fault(f"{place}: no box ({', '.join(_BOX)}); ?crop=no shows the whole picture")
            return
        left, top, width, height = (round(float(value)) for value in values)  # type: ignore[arg-type]
        box = (left, top, width, height)
    draft.add(own, {"": texts.pop(picture)}, texts, [[0]], labels, crop=box)


aro = _choices(
    _aro_item,
    ("image_path", "true_caption", "false_caption"),
    ("image", "correct_caption", *_HARD),
    rows=lambda file: ((str(number), row) for number, (_, row) in enumerate(records(file))),
    name="aro",
    title="ARO: relations, attributes and order of words",
    layout="visual_genome_relation.json and visual_genome_attribution.json with images/; or records of {image, "
    "correct_caption, hard_text_1 … hard_text_4}",
    reference="Yuksekgonul et al., ARO (ICLR 2023)",
    obtain="https://github.com/mertyg/vision-language-models-are-bows",
    pictures="vgr_vga_images.zip, which ARO's own code downloads",
    lacks="no visual_genome_relation.json or visual_genome_attribution.json",
    options=(
        Option("crop", "cut pictures of Visual Genome to the box of the item: yes or no", "yes", one_of("yes", "no")),
    ),
)


def _winoground_rows(file: Path) -> Iterator[tuple[str, _Record]]:
    """The records of a file; each says in which cells its pictures are, if they are in cells."""
    cells = {"image_0", "image_1"} <= set(pictures_in_cells(file))
    for number, (own, row) in enumerate(records(file)):
        yield own, {**row, "cells": [f"image_0#{number}", f"image_1#{number}"] if cells else []}


def _winoground_item(draft: ChoiceDraft, place: str, own: str, row: _Record, file: Path) -> None:
    # The label "category" is the collapsed tag ("Object", "Relation", "Both"); "tag", "secondary_tag" and
    # "num_main_preds" are those of the files.
    pictures, captions = ("image_0", "image_1"), ("caption_0", "caption_1")
    texts = texts_of(draft, place, row, captions if row["cells"] else (*pictures, *captions))
    if texts is not None:
        labels = {"category": _text(row.get("collapsed_tag"))}
        labels |= {name: _text(row.get(name)) for name in ("tag", "secondary_tag", "num_main_preds")}
        # `examples.jsonl` leaves out the suffix, which is .png as published.
        names = {name: text if text is None or Path(text).suffix else f"{text}.*"
                 for name in pictures for text in [texts.get(name)]}  # fmt: skip
        places = [(cell, relative(file, draft.root)) for cell in row["cells"]]
        draft.add(own, names, {name: texts[name] for name in captions}, [[0], [1]], labels, cells=places)


winoground = _choices(
    _winoground_item,
    ("caption_0", "caption_1", "image_0", "image_1"),
    rows=_winoground_rows,
    by_file=False,
    name="winoground",
    title="Winoground: match two pictures with two captions of the same words",
    layout="examples.jsonl (id, image_0, image_1, caption_0, caption_1, tag, …) with images/ or images.zip; or "
    "data/test-*.parquet of the hub",
    reference="Thrush et al., Winoground (CVPR 2022)",
    obtain="https://huggingface.co/datasets/facebook/winoground",
    pictures="its pictures come with it, under a licence of their own",
    lacks="no examples.jsonl, or Parquet file with image_0, image_1, caption_0 and caption_1",
    measures=_MATCHING,
)


def _eqben_item(draft: ChoiceDraft, place: str, own: str, row: _Record, file: Path) -> None:
    # The label "category" is the part of the benchmark: the first folder of the pictures ("eqbenag", "eqbensd", …).
    # Pictures whose names end in ".npy" (YouCook2) are arrays as OpenCV holds them, blue first, as in the evaluation
    # code of the benchmark.
    texts = texts_of(draft, place, row, ("caption0", "caption1", "image0", "image1"))
    if texts is None:
        return
    frames = [texts[name].endswith(".npy") for name in ("image0", "image1")]
    if any(frames) and not all(frames):
        draft.fault(f"{place}: one picture is a NumPy file, and the other is not")
        return
    pictures = {f"image_{side}": texts[f"image{side}"] for side in (0, 1)}
    captions = {f"caption_{side}": texts[f"caption{side}"] for side in (0, 1)}
    category = texts["image0"].partition("/")[0] if "/" in texts["image0"] else None
    fragment = FRAME if all(frames) else ""
    draft.add(own, pictures, captions, [[0], [1]], {"category": category}, fragment=fragment)


def _eqben_lacks(path: Path) -> str:
    """What is missing; the list of the challenge, `{"image", "caption"}`, has its pictures by the parts of EqBen."""
    single = record_files(path, lambda file: has_columns(file, "image", "caption") and b'"eqben' in head(file))
    return (
        f"{single[0].name} has single pairs in random order, without their items; take the annotations with image0, "
        "image1, caption0 and caption1"
        if single
        else ""
    )


eqben = _choices(
    _eqben_item,
    ("image0", "image1", "caption0", "caption1"),
    sniffed=lambda file: not plain_name(file).endswith(".parquet"),
    by_file=None,
    name="eqben",
    title="EqBen: match two almost equal pictures with two captions",
    layout="a JSON list of {image0, image1, caption0, caption1}, with the folder of pictures: eqbenag/, eqbengebc/, … "
    "and eqbenyoucook2/ with arrays (.npy: height × width × 3 bytes, blue first)",
    reference="Wang et al., EqBen (ICCV 2023)",
    obtain="https://github.com/Wangt-CN/EqBen, section Data Download: eqben_subset_10percent_final.json and "
    "subset_image.tar.gz (unpack it)",
    pictures="the pictures come in an archive of their own",
    lacks=_eqben_lacks,
    measures=_MATCHING,
)
_COLA = re.compile(rb'\[\s*\[\s*"[^"]+"\s*,\s*"[^"]+"\s*,\s*"[^"]+"\s*,\s*"[^"]+"\s*\]')


def _is_cola(file: Path) -> bool:
    return _COLA.match(json_head(file)) is not None


@reader_of(
    name="cola",
    title="COLA: match two pictures with two captions, several objects",
    layout="COLA_multiobjects_matching_benchmark.json: a list of [picture 1, caption 1, picture 2, caption 2]",
    reference="Ray et al., COLA (NeurIPS 2023)",
    obtain="https://github.com/arijitray1993/COLA",
    sniff=lambda path: bool(record_files(path, _is_cola)),
    options=(MISSING,),
)
def cola(path: Path, *, missing: Missing) -> ChoiceDraft:
    """Read `COLA_multiobjects_matching_benchmark.json`: a list of [picture 1, caption 1, picture 2, caption 2]."""
    # COLA's accuracy is the `item_score` of the task "t2i": each caption must choose its picture.
    files = record_files(path, _is_cola)
    if not files:
        raise cola.lacks(path, "no COLA_multiobjects_matching_benchmark.json")
    root = path if path.is_dir() else path.parent
    draft = ChoiceDraft("COLA", root, f"COLA {files[0].name}", measures=_MATCHING, missing=missing,
                        obtain="the file has their addresses; they are from Visual Genome")  # fmt: skip
    for number, row in enumerate(read_json(files[0])):
        if not isinstance(row, list) or len(row) != 4 or not all(isinstance(value, str) for value in row):
            draft.fault(f"{files[0].name}, item {number}: expected [picture, caption, picture, caption]")
            continue
        pictures = {"image_0": row[0].rsplit("/", 1)[-1], "image_1": row[2].rsplit("/", 1)[-1]}
        draft.add(str(number), pictures, {"caption_0": row[1], "caption_1": row[3]}, [[0], [1]], {})
    return draft


# Candidates: classes that choose among pictures, queries of any kind that choose among documents of any kind.

_COLA_SINGLE = re.compile(r"COLA_singleobjects_benchmark_\w+\.json")


@reader_of(
    name="cola-single",
    title="COLA: find the pictures of an object with several attributes",
    layout="COLA_singleobjects_benchmark_{GQA,CLEVR,PACO}.json: {labels: [class, …], data: [[picture, objects, 0 or 1 "
    "for each class: shown, 0 or 1 for each class: in its difficult set], …]}",
    reference="Ray et al., COLA (NeurIPS 2023)",
    obtain="https://github.com/arijitray1993/COLA, folder data",
    sniff=lambda path: _COLA_SINGLE.fullmatch(plain_name(path)) is not None and bool(json_head(path)),
    one_file=True,
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


@reader_of(
    name="mmeb",
    title="MMEB: choose among candidates that are texts, pictures or both",
    layout="DATASET/test-*.parquet (or .jsonl): qry_text, qry_img_path, tgt_text: [candidates, the right one first], "
    "tgt_img_path: [candidates]; MMEB-V2 also qry_inst and tgt_inst; the folder of pictures with images=",
    reference="Jiang et al., VLM2Vec (ICLR 2025); Meng et al., VLM2Vec-V2 (2025)",
    obtain="https://huggingface.co/datasets/TIGER-Lab/MMEB-eval (with images.zip); MMEB-V2: "
    "https://huggingface.co/datasets/ziyjiang/MMEB_Test_Instruct, pictures: image-tasks/mmeb_v1.tar.gz of "
    "https://huggingface.co/datasets/TIGER-Lab/MMEB-V2",
    sniff=_is_mmeb,
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
        for number, (_, row) in enumerate(records(file), 1):
            place = f"{relative(file, draft.root)}, row {number}"
            if drop and "qry_inst" not in row:
                draft.fault(
                    f"{place}: no column qry_inst: the instructions are part of qry_text and cannot be dropped "
                    "(MMEB-V2 has them apart)"
                )
                continue
            texts, pictures, problem = _mmeb_candidates(row)
            text, picture = joined(row.get("qry_text"), row.get("qry_inst")), _text(row.get("qry_img_path"))
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


def _mmeb_candidates(row: _Record) -> tuple[list[str], list[str | None], str]:
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
    return strings, list(map(_text, given)) if any(given) else [None] * len(strings), ""


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


@reader_of(
    name="vidore",
    title="ViDoRe (pages of documents)",
    layout="corpus/*.parquet {corpus-id, image}, queries/*.parquet {query-id, query, language}, qrels/*.parquet "
    "{query-id, corpus-id, score}; or data/test-*.parquet {query, image, image_filename}",
    reference="Faysse et al., ColPali (ICLR 2025); Macé et al., ViDoRe Benchmark V2 (2025); ViDoRe V3 (2026)",
    obtain="hf download vidore/docvqa_test_subsampled --repo-type dataset --local-dir FOLDER "
    "(https://huggingface.co/vidore lists them all)",
    sniff=_is_vidore,
)
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
    draft = task_reader.read(path, title="join", unknown="fault", task="", **ids, **named)
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
        cells = PictureCells.of(file, "image")
        if cells is None:
            raise vidore.lacks(path, f"no pictures in the column image of {file.name}")
        place = relative(file, root)
        for row, (line, values) in enumerate(read_rows(file, columns=cells.others)):
            page, member = (ids_in([values["image_filename"]]) or [""])[0], cells.member(row)
            if not page or member is None:
                draft.fault(f"{place}, {line}: no {'picture' if page else 'image_filename'}")
                continue
            if page not in draft.documents.known:
                draft.add_item("documents", page, None, cell=(member, place))
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
