"""A folder of pictures with `metadata.{jsonl,csv,parquet}`: the `imagefolder` convention of Hugging Face `datasets`."""

from __future__ import annotations

from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.columns import first_columns
from visir.collections.readers.locate import note_unread, walk
from visir.collections.readers.names import SPLITS
from visir.collections.readers.rows import read_rows
from visir.collections.readers.table import COLUMN_OPTIONS, DraftFiller, TableColumns
from visir.collections.sources import Format
from visir.display import counted
from visir.errors import CollectionError

METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")


def read(path: Path, **columns: str | None) -> Draft:
    """Read a folder whose pictures are named by `file_name` in a metadata file, in it or in each split's folder."""
    # - `file_name` is relative to the metadata file's folder. Image ids are the pictures' paths relative to `path`.
    # - Splits are folders called train, test, val, validation or dev, or values of a column `split`.
    # - Captions are in `text` or whatever `caption` says; they may be lists.
    # - Pictures that no metadata names are left out, and counted in the source; names without a picture keep a null
    #   path.
    unread: dict[str, str] = {}
    files = list(walk(path, unread=unread))
    metadata_files = [file for file in files if file.rsplit("/", 1)[-1] in METADATA]
    if not metadata_files:
        raise CollectionError(f"{path}: no {', '.join(METADATA)} in it.", hint="a folder without captions is: photos")
    draft = Draft(path.absolute().name, path, f"image folder with {', '.join(metadata_files)}")
    filler: DraftFiller | None = None
    for file in metadata_files:
        names = first_columns(path / file)
        table_columns = TableColumns.find(path / file, names, **columns)
        if table_columns.image is None:
            raise CollectionError(f"{path / file}: no column file_name.", hint=f"there are: {', '.join(names)}")
        filler = filler or DraftFiller(draft, table_columns)
        filler.columns, filler.folder = table_columns, file.rsplit("/", 1)[0] + "/" if "/" in file else ""
        filler.split = _split_of(filler.folder)
        filler.add(read_rows(path / file), where=f"{file}, ")
    pictures = {file for file in files if is_picture_name(file)}
    named = [name or "" for name in draft.names]
    draft.splits = [split or _split_of(name) for split, name in zip(draft.splits, named, strict=True)]
    # The metadata says exactly where pictures are, so nothing needs to be looked for elsewhere.
    present = {name: (path / name).is_file() for name in named}
    draft.paths = [name if present[name] else None for name in named]
    draft.archives, draft.names = [None] * len(named), []
    left = len(pictures - set(named))
    note_unread(draft, unread)
    draft.notes.append(f"images: {sum(present.values()):,} of {len(named):,} found")
    if left:
        draft.notes.append(f"{counted(left, 'pictures')} without metadata left out")
    return draft


def _split_of(name: str) -> str:
    first = name.split("/", 1)[0].lower() if "/" in name else ""
    return SPLITS.get(first, "")


def _sniff(path: Path) -> bool:
    if not path.is_dir():
        return False
    places = [path, *(entry for entry in path.iterdir() if entry.is_dir() and entry.name.lower() in SPLITS)]
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
