"""A folder of pictures with `metadata.{jsonl,csv,parquet}`: the `imagefolder` convention of Hugging Face `datasets`."""

from __future__ import annotations

from pathlib import Path

from visir.collections.descriptor import Format
from visir.collections.draft import Draft
from visir.collections.readers.columns import first_columns
from visir.collections.readers.locate import PICTURES, note_unread, walk
from visir.collections.readers.names import SPLITS
from visir.collections.readers.rows import read_rows
from visir.collections.readers.table import COLUMN_OPTIONS, DraftFiller, TableColumns
from visir.errors import CollectionError

METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")


def read(path: Path, **columns: str | None) -> Draft:
    """Read a folder whose pictures are named by `file_name` in a metadata file, in it or in each split's folder.

    - `file_name` is relative to the metadata file's folder. Image ids are the pictures' paths relative to `path`.
    - Splits are told by folders called train, test, val, validation or dev, or by a column `split`.
    - Captions are in `text` or whatever `caption_column` says; they may be lists.
    - Pictures that no metadata names are left out, and counted in the source; names without a picture keep a null path.
    """
    unread: dict[str, str] = {}
    files = list(walk(path, unread=unread))
    found = [file for file in files if file.rsplit("/", 1)[-1] in METADATA]
    if not found:
        raise CollectionError(f"{path}: no {', '.join(METADATA)} in it.", hint="a folder without captions is: photos")
    draft = Draft(path.absolute().name, path, f"image folder with {', '.join(found)}")
    filling: DraftFiller | None = None
    for file in found:
        there = first_columns(path / file)
        here = TableColumns.find(path / file, there, **columns)
        if here.image is None:
            raise CollectionError(f"{path / file}: no column file_name.", hint=f"there are: {', '.join(there)}")
        filling = filling or DraftFiller(draft, here)
        filling.columns, filling.folder = here, file.rsplit("/", 1)[0] + "/" if "/" in file else ""
        filling.split = _split_of(filling.folder)
        filling.add(read_rows(path / file), where=f"{file}, ")
    there_are = {file for file in files if Path(file).suffix.lower() in PICTURES}
    named = [name or "" for name in draft.names]
    draft.splits = [split or _split_of(name) for split, name in zip(draft.splits, named, strict=True)]
    # The place is told exactly, so nothing needs to be looked for elsewhere.
    present = {name: (path / name).is_file() for name in named}
    draft.paths = [name if present[name] else None for name in named]
    draft.archives, draft.names = [None] * len(named), []
    left = len(there_are - set(named))
    note_unread(draft, unread)
    draft.notes.append(f"images: {sum(present.values()):,} of {len(named):,} found")
    if left:
        draft.notes.append(f"{left:,} pictures without metadata left out")
    return draft


def _split_of(name: str) -> str:
    first = name.split("/", 1)[0].lower() if "/" in name else ""
    return SPLITS.get(first, "")


def _sniff(path: Path) -> bool:
    if not path.is_dir():
        return False
    places = [path, *(one for one in path.iterdir() if one.is_dir() and one.name.lower() in SPLITS)]
    return any((place / name).is_file() for place in places for name in METADATA)


FORMAT = Format(
    name="imagefolder",
    title="folder of pictures with metadata",
    layout="FOLDER/metadata.{jsonl,csv,parquet} with file_name and text; or the same in FOLDER/{train,test,…}/",
    reference="Hugging Face datasets, imagefolder",
    sniff=_sniff,
    options=COLUMN_OPTIONS,
    read=read,
)
