"""SugarCrepe: a right caption and one with a small mistake. SugarCrepe++: two right captions and a wrong one."""

from __future__ import annotations

from pathlib import Path

from visir.collections.choice_draft import ChoiceDraft, Missing
from visir.collections.readers.choice_table import MISSING, has_columns, record_files, records, texts_of
from visir.collections.readers.sniffing import plain_stem
from visir.collections.sources import Format

COCO = "the pictures are COCO's val2017, http://images.cocodataset.org/zips/val2017.zip"
_RIGHT = ("caption",)
_BOTH_RIGHT = ("caption", "caption2")
_WRONG = "negative_caption"


def read(path: Path, *, missing: Missing = "drop") -> ChoiceDraft:
    """Read `add_att.json`, `replace_obj.json`, …: `{"0": {"filename", "caption", "negative_caption"}}`."""
    # The label "category" is the name of the file ("swap_att"), "change" its first word ("swap").
    files = record_files(path, lambda file: has_columns(file, *_RIGHT, _WRONG))
    if not files:
        raise FORMAT.lacks(path, "no file with caption and negative_caption")
    return _read(path, files, _RIGHT, missing)


def read_pp(path: Path, *, missing: Missing = "drop") -> ChoiceDraft:
    """Read SugarCrepe++: lists of `{"filename", "caption", "caption2", "negative_caption"}`."""
    # There are two tasks. In "i2t" both right captions must be above the wrong one (`all_first`). In "t2t", the
    # text-only task, the two right captions must be more alike than each is to the wrong one (`item_score`).
    files = record_files(path, lambda file: has_columns(file, *_BOTH_RIGHT, _WRONG))
    if not files:
        raise FORMAT_PP.lacks(path, "no file with caption, caption2 and negative_caption")
    draft = _read(path, files, _BOTH_RIGHT, missing)
    draft.also_texts = True
    draft.measures = ("all_first", "item_score")
    return draft


def _read(path: Path, files: list[Path], right: tuple[str, ...], missing: Missing) -> ChoiceDraft:
    root = path if path.is_dir() else path.parent
    title = "SugarCrepe" if len(right) == 1 else "SugarCrepe++"
    draft = ChoiceDraft(title, root, f"{title} {path.absolute().name}", missing=missing, obtain=COCO)
    for file in files:
        category = plain_stem(file)
        for identifier, row in records(file):
            place = f"{file.name}, item {identifier}"
            texts = texts_of(draft, place, row, ("filename", *right, _WRONG))
            if texts is not None:
                picture = {"": texts.pop("filename")}
                labels = {"category": category, "change": category.partition("_")[0]}
                draft.add(f"{category}/{identifier}", picture, texts, [range(len(right))], labels)
    return draft


FORMAT = Format(
    name="sugarcrepe",
    title="SugarCrepe: choose the right one of two captions",
    layout='add_att.json, add_obj.json, replace_att.json, … in one folder: {"0": {"filename", "caption", '
    '"negative_caption"}}; pictures of COCO val2017',
    reference="Hsieh et al., SugarCrepe (NeurIPS 2023)",
    obtain="https://github.com/RAIVNLab/sugar-crepe",
    sniff=lambda path: (
        bool(record_files(path, lambda file: has_columns(file, "filename", *_RIGHT, _WRONG))) and not _is_pp(path)
    ),
    read=read,
    options=(MISSING,),
)
FORMAT_PP = Format(
    name="sugarcrepe-pp",
    title="SugarCrepe++: two right captions and a wrong one",
    layout="replace_att.json, swap_obj.json, … in one folder: lists of {filename, caption, caption2, "
    "negative_caption}; pictures of COCO val2017",
    reference="Dumpala et al., SugarCrepe++ (NeurIPS 2024)",
    obtain="https://github.com/Sri-Harsha/scpp",
    sniff=lambda path: _is_pp(path),
    read=read_pp,
    options=(MISSING,),
)


def _is_pp(path: Path) -> bool:
    return bool(record_files(path, lambda file: has_columns(file, "filename", *_BOTH_RIGHT, _WRONG)))
