"""Folders of pictures: alone, or with metadata, the `imagefolder` convention of Hugging Face `datasets`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path

from visir.collections.archives import Archive, TarArchive, open_archive
from visir.collections.draft import Draft
from visir.collections.picture_kinds import (
    HEIF,
    RAW,
    begins_like_picture,
    has_no_ending,
    is_picture_name,
    left_out,
    picture_endings,
)
from visir.collections.readers.locate import base_of, file_key, note_unread, spelling_note, walk
from visir.collections.readers.names import CAPTION_ENDINGS, METADATA, SPLITS, escaped
from visir.collections.readers.table import COLUMN_OPTIONS, DraftFiller, TableColumns
from visir.collections.sources import bad_rows_option, reader_of
from visir.collections.tables import is_table, read_table
from visir.collections.tars import tar_notes
from visir.display import counted
from visir.errors import CollectionError
from visir.storage import MANIFEST, Scratch

_DEPTH, _LOOKED_AT = 8, 20_000
"""How deep, and at how many files, a folder is looked at to tell whether there are pictures in it."""


@reader_of(
    name="photos",
    title="photos without captions",
    layout="any folder of pictures, or a zip or tar of them; subfolders train/, val/, test/ are splits",
    reference="",
    sniff=lambda path: _photos_sniff(path),
    last=True,
)
def photos(path: Path) -> Draft:
    """Read all pictures under a folder (or in a zip or tar), whatever lies between them.

    Image ids are paths relative to the folder. A first folder called train, val or test (or the like) is the split.
    Hidden files and folders are left out, as are files whose names do not end like a picture's; the source counts them
    by kind, and the links of a tar. In a folder, a file whose name has no ending is a picture when it begins like one.
    A name that is not Unicode (a byte of Latin-1 from an old disk) appears with that byte escaped, `caf\\udce9.jpg`;
    reading that picture raises an error until it is renamed. Texts of the same name beside pictures, or in captions/
    for images/, are their captions.
    """
    if path.is_file() and is_picture_name(path.name):
        draft = Draft(path.name, path.parent, f"the picture {path.name}")
        draft.add_image(path.name, None, place=(path.name, None))
        return draft
    archive = None if path.is_dir() else path.name
    unread: dict[str, str] = {}
    opened = None if path.is_dir() else open_archive(path)
    files = list(walk(path, unread=unread)) if opened is None else sorted(opened.names())
    visible = [name for name in files if not any(part.startswith((".", "__MACOSX")) for part in name.split("/"))]
    if opened is not None and any(base_of(name) in METADATA for name in visible):
        return _with_metadata(path, visible, unread, opened)
    pictures = [name for name in visible if is_picture_name(name) or _is_unnamed_picture(path, name)]
    captions, beside, notes = _captions_beside(path if opened is None else opened, visible, pictures)
    unused = sorted(set(visible) - set(pictures) - beside - _of_visir(files))
    others = left_out(unused)
    if not pictures:
        endings = f"it looks for names that end in {', '.join(sorted(picture_endings()))}"
        raise CollectionError(
            f"{path}: no pictures in it that can be read.", hint=others or endings, code="no-pictures-read"
        )
    root = path if path.is_dir() else path.parent
    draft = Draft(path.absolute().name, root, f"photos in {path.absolute().name}")
    used_names = set(pictures)
    for real in pictures:
        name = escaped(real)
        while name != real and name in used_names:  # another file has just that name
            name += "?"
        used_names.add(name)
        first = name.split("/", 1)[0].lower() if "/" in name else ""
        draft.add_image(name, None, SPLITS.get(first, ""), place=(name, archive))
        for number, text in enumerate(captions.get(real, ())):
            draft.add_caption(f"{name}#{number}", text, name)
    draft.notes += notes
    if opened is None:
        draft.tables_beside = [name for name in unused if is_table(Path(name))]
    note_unread(draft, unread)
    if others:
        draft.notes.append(others)
    if isinstance(opened, TarArchive):
        draft.notes += tar_notes(
            [f"{path.name}: {name}" for name in opened.links], [path.name] if opened.goes_on else []
        )
    return draft


_PICTURE_FOLDERS = frozenset(("images", "image", "imgs", "img", "pictures", "photos"))
_TEXT_FOLDERS = frozenset(("captions", "caption", "texts", "text", "prompts"))
"""Folders side by side whose files of the same name belong together: images/001.jpg and captions/001.txt."""


def _captions_beside(
    place: Path | Archive, names: Iterable[str], pictures: Sequence[str]
) -> tuple[dict[str, list[str]], set[str], list[str]]:
    """The captions of pictures, each line of a text of the same name, as of img2dataset; these texts; notes."""
    # Where fewer than half of the pictures have one, texts are something else: a note, a licence, a page that was read.
    texts = {_stem(name, _TEXT_FOLDERS): name for name in names if name.rpartition(".")[2].lower() in CAPTION_ENDINGS}
    captions, used, encoded = dict[str, list[str]](), set[str](), list[str]()
    for name in pictures if texts else ():
        text = texts.get(_stem(name, frozenset())) or texts.get(_stem(name, _PICTURE_FOLDERS))
        if text is not None:
            data = (place / text).read_bytes() if isinstance(place, Path) else place.read(text)
            try:
                lines = _caption_lines(data)
            except UnicodeDecodeError:
                encoded.append(text)
                continue
            if lines:
                captions[name] = lines
                used.add(text)
    if not captions or 2 * len(captions) < len(pictures):
        rule = "captions are read where half of the pictures have one"
        return {}, set(), [f"texts beside {counted(len(captions), 'pictures')} left out: {rule}"] if captions else []
    notes = [f"captions of {counted(len(captions), 'pictures')} from texts beside them, e.g. {min(used)}"]
    if encoded:
        notes.append(f"texts left out that are not UTF-8: {len(encoded):,}, e.g. {encoded[0]}")
    return captions, used, notes


def _stem(name: str, passed_over: frozenset[str]) -> str:
    """The key of a path without its ending and without the folders that are passed over."""
    stem = file_key(name).rpartition(".")[0] or name
    return "/".join(part for part in stem.split("/") if part not in passed_over)


_LONGEST_TEXT, _MOST_LINES = 16 * 1024, 20
_NUMBER = re.compile(r"[\d.eE+-]+")
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


def _caption_lines(data: bytes) -> list[str]:
    """The lines of a text that can be captions: nothing of what is no text, is too long, or is mostly numbers."""
    if len(data) > _LONGEST_TEXT:
        return []
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = text.split()
    numbers = sum(_NUMBER.fullmatch(word) is not None for word in words)  # boxes of objects are written with these
    if _NO_TEXT.search(text) or len(lines) > _MOST_LINES or 2 * numbers > len(words):
        return []
    return lines


def _of_visir(files: Sequence[str]) -> set[str]:
    """The files in folders that visir made, such as a library among its photos: nobody need be told of these."""
    made = tuple(name.removesuffix(MANIFEST) for name in files if name.endswith(f"/{MANIFEST}"))
    return {name for name in files if name.startswith(made)} if made else set()


def _is_unnamed_picture(path: Path, name: str) -> bool:
    return has_no_ending(name) and path.is_dir() and begins_like_picture(path / name)


def _photos_sniff(path: Path) -> bool:
    if not path.is_dir():
        return path.suffix.lower() == ".zip" or is_picture_name(path.name)
    names = islice(walk(path, depth=_DEPTH), _LOOKED_AT)
    return any(
        Path(name).suffix.lower() in picture_endings() | HEIF | RAW or _is_unnamed_picture(path, name) for name in names
    )


# A folder of pictures with `metadata.{jsonl,csv,parquet}`: the `imagefolder` convention of Hugging Face `datasets`.


@reader_of(
    name="imagefolder",
    title="folder of pictures with metadata",
    layout="FOLDER/metadata.{jsonl,csv,parquet} with file_name and text; or the same in FOLDER/{train,test,…}/",
    reference="Hugging Face datasets, imagefolder",
    sniff=lambda path: _metadata_sniff(path),
    options=(*COLUMN_OPTIONS, bad_rows_option("refuse")),
)
def imagefolder(path: Path, bad_rows: str = "refuse", **columns: str | None) -> Draft:
    """Read a folder whose pictures are named by `file_name` in a metadata file, in it or in each split's folder."""
    # - `file_name` is relative to the metadata file's folder. Image ids are the pictures' paths relative to `path`.
    # - Splits are folders called train, test, val, validation or dev, or values of a column `split`.
    # - Captions are in `text` or whatever `caption` says; they may be lists.
    # - Pictures that no metadata names are left out, and counted in the source; names without a picture keep a null
    #   path.
    # A name with another spelling (slashes, accents, case) is that of the one file of the same key.
    unread: dict[str, str] = {}
    archive = None if path.is_dir() else open_archive(path)
    return _with_metadata(
        path, list(archive.names() if archive else walk(path, unread=unread)), unread, archive, bad_rows, **columns
    )


def _with_metadata(
    path: Path,
    files: list[str],
    unread: Mapping[str, str],
    archive: Archive | None,
    bad_rows: str = "refuse",
    **columns: str | None,
) -> Draft:
    """The same of a folder or an archive whose files are known."""
    metadata_files = [file for file in files if base_of(file) in METADATA]
    if not metadata_files:
        raise CollectionError(f"{path}: no {', '.join(METADATA)} in it.", hint="a folder without captions is: photos")
    root = path if archive is None else path.parent
    draft = Draft(path.absolute().name, root, f"image folder with {', '.join(metadata_files)}", whole_paths=True)
    filler = DraftFiller(draft, bad_rows=bad_rows)
    with nullcontext() if archive is None else Scratch.temporary("metadata") as unpacked:
        for number, file in enumerate(metadata_files):
            metadata = path / file
            if (
                archive is not None and unpacked is not None
            ):  # under a name of ours: its own could lead out of the folder
                metadata = unpacked.file(str(number) + Path(file).suffix)
                metadata.write_bytes(archive.read(file))
            table = replace(read_table(metadata, header="yes"), name=str(path / file))
            table_columns = TableColumns.find(table, columns)
            if table_columns.image is None:
                raise CollectionError(
                    f"{table.name}: no column file_name.", hint=f"there are: {', '.join(table.columns)}"
                )
            filler.bad.name = file
            filler.columns, filler.folder = table_columns, file.rsplit("/", 1)[0] + "/" if "/" in file else ""
            filler.split = _metadata_split_of(filler.folder)
            if len(metadata_files) == 1:
                filler.add_table(table, where=f"{file}, ")
            else:
                filler.add(table.rows(filler.bad.row), where=f"{file}, ")
    filler.finish()
    # The metadata says exactly where pictures are, so nothing needs to be looked for elsewhere.
    pictures = {file for file in files if is_picture_name(file)}
    by_key: dict[str, str | None] = {}
    missing = any(name not in pictures for name in draft.names)
    for picture in pictures if missing else ():
        key = file_key(picture)
        by_key[key] = None if key in by_key else picture
    draft.splits = [
        split or _metadata_split_of(name or "") for split, name in zip(draft.splits, draft.names, strict=True)
    ]
    respelled: list[tuple[str, str]] = []
    for name in draft.names:
        is_there = name in pictures or (archive is None and bool(name) and (path / (name or "")).is_file())
        place = name if is_there else by_key.get(file_key(name or ""))
        draft.paths.append(place)
        if name and place and place != name:
            respelled.append((name, place))
    draft.archives = [None if archive is None or place is None else path.name for place in draft.paths]
    draft.names = [name if place is None else None for name, place in zip(draft.names, draft.paths, strict=True)]
    note_unread(draft, unread)
    if respelled:
        draft.notes.append(spelling_note(respelled))
    if left := len(pictures.difference(draft.paths)):
        draft.notes.append(f"{counted(left, 'pictures')} without metadata left out")
    return draft


def _metadata_split_of(name: str) -> str:
    first = name.split("/", 1)[0].lower() if "/" in name else ""
    return SPLITS.get(first, "")


def _metadata_sniff(path: Path) -> bool:
    if not path.is_dir():
        return False
    places = [path, *(entry for entry in path.iterdir() if entry.is_dir() and entry.name.lower() in SPLITS)]
    return any((place / name).is_file() for place in places for name in METADATA)
