"""A dataset of the Hugging Face `datasets` library: saved to disk, as Parquet from the hub, or as an object."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from visir.collections.archives import ArrowArchive, PictureCells, image_columns, pictures_in_cells
from visir.collections.draft import Draft
from visir.collections.readers.locate import relative
from visir.collections.readers.names import SPLITS
from visir.collections.readers.table import DraftFiller, TableColumns
from visir.collections.readers.task_reader import IMAGES, PartFile, TaskTable, part_of
from visir.collections.sources import Format, Option
from visir.collections.tables import CAPTION_COLUMNS, CLASS_COLUMNS, LANGUAGE_COLUMNS, OnFault, OpenTable, pick
from visir.errors import CollectionError, MissingPackageError
from visir.files import read_json
from visir.options import split_options
from visir.parquet import reading_parquet
from visir.storage import ContentStore, FolderKind

DATASETS = FolderKind("datasets", "a saved dataset", remedy="delete it: it is written again")

_SHARD = re.compile(r"^(?P<split>[A-Za-z0-9_.]+)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?\.parquet$")


def read(
    path: Path,
    *,
    image: str | None = None,
    caption: str | None = None,
    id: str | None = None,
    caption_id: str | None = None,
) -> Draft:
    """Read what `save_to_disk` wrote, or a folder of `data/train-00000-of-00004.parquet` from the hub."""
    # So are a single Parquet file with pictures in its cells, and a folder of them that are named for splits
    # (`train.parquet`).
    # It needs no `datasets` package: pictures are read in place, out of the Arrow or Parquet files. Rows with the same
    # id are joined: one picture, the captions of all. Columns of classes (declared as such, or called "label", "class",
    # …) become facts of the images. A column "language" is that of a row's captions. Rows that say different splits or
    # classes of one image are faults.
    parts = _parts(path)
    root = path.parent if path.is_file() else path
    draft = Draft(path.absolute().name.removesuffix(".parquet"), root, f"Hugging Face dataset {path.absolute().name}")
    schema = _schema(parts[0].file)
    if id is None and {"key", "url", "status"} <= {*schema.names}:  # img2dataset's
        id = "key"
    columns = _columns(path, schema, image, caption, id, caption_id)
    rows = [(part, *row) for part in parts for row in _rows(part, columns, root)]
    names = [name for _, _, name, _, _ in rows]
    named = None not in names and len(set(names)) == len(names)
    chosen = TableColumns(None, tuple(columns["captions"]), _ID, caption_id, None, columns["language"])
    labels = columns["labels"]
    filler = DraftFiller(draft, chosen, classes=frozenset(name.lower() for name in labels))
    cells: dict[str, tuple[str, str]] = {}
    for part, place, name, cell, row in rows:
        own = row.pop(id) if id else name if named else place
        if own is None:
            draft.fault(f"{place}: no id ({id} is null)")
            continue
        cells.setdefault(str(own), cell)
        filler.split = part.split
        filler.add([(f"row {place}", row | {_ID: own})])
    filler.finish()
    draft.paths, draft.archives = (list(column) for column in zip(*cells.values(), strict=True)) if cells else ([], [])
    draft.names = []
    fields, values = [pa.field("image_id", pa.string())], []
    for name, classes in labels.items():
        if name not in filler.differing:  # a column with declared names keeps their order
            order = None if classes is None else {"classes": orjson.dumps(classes).decode()}
            fields.append(pa.field(name, pa.string(), metadata=order))
    values = [{"image_id": identifier, **image.facts} for identifier, image in filler.images.items()]
    draft.facts = pa.Table.from_pylist(values, schema=pa.schema(fields)) if len(fields) > 1 else None
    return draft


def from_dataset(dataset: Any, **options: Any) -> Draft:
    """Read a `datasets.Dataset` or `DatasetDict` object."""
    # Its rows are written once into visir's cache, under the object's own fingerprint, and read in place from there.
    draft = read(saved_dataset(dataset), **options)
    first = next(iter(dataset.values()), None) if isinstance(dataset, dict) else dataset
    draft.name = str(getattr(getattr(first, "info", None), "dataset_name", None) or "dataset")
    draft.source = f"Hugging Face dataset {draft.name}"
    return draft


def saved_dataset(dataset: Any) -> Path:
    """The folder of the cache with what `save_to_disk` writes of a `datasets.Dataset` or `DatasetDict`."""
    try:
        import datasets
    except ImportError as fault:
        raise MissingPackageError("datasets", extra="datasets", purpose="reading a dataset object") from fault
    if isinstance(dataset, datasets.IterableDataset):
        raise CollectionError("a streamed dataset cannot be searched.", hint="load it without streaming=True")
    datasets_by_split = dataset.values() if isinstance(dataset, datasets.DatasetDict) else [dataset]
    marks = "-".join(str(part._fingerprint) for part in datasets_by_split)
    store = ContentStore(DATASETS)
    if store.find(marks, hashed=lambda name: False) is None:
        with store.writing(marks, waiting="another process is writing the same dataset; waiting for it") as change:
            if change.manifest.generation == 0:
                dataset.save_to_disk(str(change.subfolder("dataset", "**/*.arrow", "**/*.json")))
                change.written("dataset")
    return store.path(marks) / "dataset"


def load_from_hub(spec: str, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Load a data set of the Hugging Face hub."""
    try:
        import datasets
    except ImportError as fault:
        raise MissingPackageError("datasets", extra="datasets", purpose="a data set of the Hugging Face hub") from fault
    name, written = split_options(spec.removeprefix("hf:"), error=CollectionError)
    name, _, configuration = name.partition(":")
    try:
        parts = _task_parts(datasets, name, configuration)
        return parts or datasets.load_dataset(name, configuration or None), {**written, **options}
    except Exception as fault:  # the hub, the network, scripts that datasets no longer runs: whatever it is
        raise CollectionError(
            f"{spec}: cannot be loaded from the Hugging Face hub ({type(fault).__name__}: {str(fault)[:200]}).",
            hint="is the name right (hf:user/name), and is there a network? a downloaded copy opens by its folder",
            code="cannot-loaded-hugging-face",
        ) from fault


def _task_parts(datasets: Any, name: str, task: str) -> dict[str, Any]:
    """The parts of a task as data sets; of several tasks by name; nothing where the configurations are no parts."""
    tasks: dict[str, dict[str, str]] = {}
    for configuration in datasets.get_dataset_config_names(name):
        named = part_of(configuration)
        if named is not None:
            tasks.setdefault(named[0], {})[named[1]] = configuration
        elif configuration == "default":
            tasks.setdefault("", {}).setdefault("judgements", configuration)
    complete = {key: parts for key, parts in tasks.items() if {"queries", "documents", "judgements"} <= parts.keys()}
    if not complete or (task and task not in complete):
        return {}
    loaded = {
        key or "default": {part: datasets.load_dataset(name, configuration) for part, configuration in parts.items()}
        for key, parts in complete.items()
        if not task or key == task
    }
    return loaded if len(loaded) > 1 else next(iter(loaded.values()))


def _parts(path: Path) -> list[PartFile]:
    if path.is_file():
        return [PartFile(path, _split_of(path))]
    if (path / "dataset_dict.json").is_file():
        splits = read_json(path / "dataset_dict.json").get("splits", [])
        return [PartFile(file, SPLITS.get(split, split)) for split in splits for file in saved_files(path / split)]
    if (path / "state.json").is_file():
        split = str(read_json(path / "state.json").get("_split") or "")
        return [PartFile(file, SPLITS.get(split, split)) for file in saved_files(path)]
    folder = path / "data" if (path / "data").is_dir() else path
    shards = [(match, file) for file in sorted(folder.glob("*.parquet")) if (match := _SHARD.match(file.name))]
    if not shards and (named := _named_for_splits(folder)):
        return [PartFile(file, _split_of(file)) for file in named]
    if not shards:
        raise CollectionError(f"{path}: neither a saved dataset nor train-00000-of-00001.parquet files in it.")
    return [PartFile(file, SPLITS.get(match["split"], match["split"])) for match, file in shards]


def _split_of(file: Path) -> str:
    match = _SHARD.match(file.name)
    return SPLITS.get(match["split"], match["split"]) if match else SPLITS.get(file.stem.lower(), "")


def _named_for_splits(folder: Path) -> list[Path]:
    """The Parquet files of a folder with pictures in their cells, where each is named for a split."""
    files = sorted(folder.glob("*.parquet"))
    return files if all(file.stem.lower() in SPLITS and pictures_in_cells(file) for file in files) else []


def saved_files(folder: Path) -> list[Path]:
    """The Arrow files of a saved data set, in the order of its rows."""
    state = read_json(folder / "state.json")
    files = [folder / entry["filename"] for entry in state["_data_files"]]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise CollectionError(
            f"{folder}: {', '.join(missing)} of the saved dataset missing.",
            hint="copy it again",
            code="saved-dataset-missing",
        )
    return files


def _schema(file: Path) -> pa.Schema:
    with reading_parquet(file, CollectionError):
        return pq.read_schema(file) if file.suffix == ".parquet" else ArrowArchive(file).table.schema


def _columns(
    path: Path, schema: pa.Schema, image: str | None, caption: str | None, identifier: str | None, own: str | None
) -> dict[str, Any]:
    declared = [name for name, feature in _features(schema).items() if feature.get("_type") == "Image"]
    declared = declared or image_columns(schema)
    if image is None and len(declared) != 1:
        problem = f"several columns of images: {', '.join(declared)}" if declared else "no column of images"
        raise CollectionError(f"{path}: {problem}.", hint=f"image= says which; there are {', '.join(schema.names)}")
    image = image or declared[0]
    rest = OpenTable(str(path), [name for name in schema.names if name != image])
    if image not in schema.names:
        raise CollectionError(
            f"{path}: no column {image!r}.", hint=f"there are: {', '.join(schema.names)}", code="no-such-column"
        )
    names = caption.split(",") if caption else [None]
    captions = [pick(rest, {"caption": name}, caption=CAPTION_COLUMNS)["caption"] for name in names]
    for name in (identifier, own):
        pick(rest, {"id": name}, id=())
    captions = [name for name in captions if name]
    labels = {
        name: names for name, names in _classes(schema).items() if name not in (image, *captions, identifier, own)
    }
    language = pick(rest, first=("language",), language=LANGUAGE_COLUMNS)["language"]
    language = None if language in captions else language
    return {
        "image": image, "captions": captions, "id": identifier, "caption_id": own, "labels": labels,
        "language": language if captions and language and pa.types.is_string(schema.field(language).type) else None,
    }  # fmt: skip


def _classes(schema: pa.Schema) -> dict[str, list[str] | None]:
    """The columns of classes; the names of the classes, where they are declared."""
    declared: dict[str, list[str] | None] = {
        name: feature["names"]
        for name, feature in _features(schema).items()
        if feature.get("_type") == "ClassLabel" and feature.get("names")
    }
    usual = [
        part.name
        for part in schema
        if part.name.lower() in CLASS_COLUMNS and (pa.types.is_integer(part.type) or pa.types.is_string(part.type))
    ]
    return dict.fromkeys(usual) | declared


def _features(schema: pa.Schema) -> dict[str, dict[str, Any]]:
    """What a dataset says of its columns."""
    metadata = (schema.metadata or {}).get(b"huggingface")
    features = orjson.loads(metadata).get("info", {}).get("features", {}) if metadata else {}
    return {name: feature for name, feature in features.items() if isinstance(feature, dict)}


_ID = "the id of the image"
"""What rows have besides the columns of a data set; no column is called so."""
_Row = tuple[str, str | None, tuple[str, str], dict[str, Any]]
"""The place of a row, the file name of its picture, where that is, and the other columns."""


def _rows(part: PartFile, columns: dict[str, Any], root: Path) -> Iterator[_Row]:
    own = [columns[key] for key in ("id", "caption_id", "language") if columns[key]]
    columns_read = list(dict.fromkeys([*columns["captions"], *own, *columns["labels"]]))
    image = columns["image"]
    schema = _schema(part.file)
    has_names = pa.types.is_struct(schema.field(image).type) and schema.field(image).type.get_field_index("path") >= 0
    if part.file.suffix == ".parquet":
        # Of the image column only the names are read; the bytes stay where they are.
        with reading_parquet(part.file, CollectionError):
            table = pq.ParquetFile(part.file).read(columns=[*columns_read, *([f"{image}.path"] if has_names else [])])
            table.validate(full=True)
            count = pq.read_metadata(part.file).num_rows
    else:
        table = ArrowArchive(part.file).table
        count = table.num_rows
    names = pc.struct_field(table[image], "path").to_pylist() if has_names else [None] * count
    values = {name: table[name].to_pylist() for name in columns_read}
    for name, classes in columns["labels"].items():
        values[name] = [_label(value, classes) for value in values[name]]
    file = relative(part.file, root)
    for row, name in enumerate(names):
        place = f"{part.split or file}/{row}" if part.split else str(row)
        name = None if name is None else str(name).rsplit("/", 1)[-1]
        yield place, name, (f"{image}#{row}", file), {column: cells[row] for column, cells in values.items()}


def _label(value: Any, names: list[str] | None) -> str | None:
    """A class as text: the declared name of its number (-1 is none), or the value itself."""
    if value is None or names is None or not isinstance(value, int):
        return None if value is None else str(value)
    return names[value] if 0 <= value < len(names) else None


def _sniff(path: Path) -> bool:
    if not path.is_dir():
        return path.is_file() and bool(pictures_in_cells(path))
    if (path / "dataset_dict.json").is_file() or ((path / "state.json").is_file() and any(path.glob("*.arrow"))):
        return True
    folder = path / "data" if (path / "data").is_dir() else path
    return any(_SHARD.match(file.name) for file in folder.glob("*.parquet")) or bool(_named_for_splits(folder))


FORMAT = Format(
    name="huggingface",
    title="Hugging Face dataset",
    layout="folder of Dataset.save_to_disk or DatasetDict.save_to_disk; or data/{split}-00000-of-00001.parquet; or one "
    "Parquet file with pictures in its cells",
    reference="Hugging Face datasets",
    sniff=_sniff,
    options=(
        Option("image", "the column of pictures (default: the only one)"),
        Option("caption", "the column of the caption(s), or several, comma-separated (default: text, …)"),
        Option("id", "the column of the image's id (default: file names, else split/row)"),
        Option("caption_id", "the column of the caption ids (default: image#n)"),
    ),
    read=read,
)


# A `datasets.Dataset` as a table of a task: texts are read as they are, pictures in place.

_BATCH = 1_000


def is_dataset(value: object) -> bool:
    """Whether an object is a `datasets.Dataset`. It imports nothing."""
    return hasattr(value, "save_to_disk") and hasattr(value, "column_names") and not isinstance(value, dict)


def has_pictures(dataset: Any) -> bool:
    """Whether a `datasets.Dataset` has pictures in its cells."""
    return bool(image_columns(dataset.features.arrow_schema))


def is_dataset_dict(value: object) -> bool:
    """Whether an object is a `datasets.DatasetDict`: data sets by split."""
    return isinstance(value, dict) and hasattr(value, "save_to_disk")


def dataset_table(dataset: Any, name: str, image: str | None = None, split: str = "") -> TaskTable:
    """A data set as a table of a task."""
    # A data set with pictures is written once into the cache, under its own fingerprint, and its pictures are read in
    # place from there.
    columns = image_columns(dataset.features.arrow_schema)
    texts = [column for column in dataset.column_names if column not in columns]

    def rows(report: OnFault) -> Iterator[tuple[str, dict[str, Any]]]:
        plain = dataset.select_columns(texts).with_format("arrow")
        number = itertools.count(1)
        for start in range(0, len(plain), _BATCH):
            for row in plain[start : start + _BATCH].to_pylist():
                yield f"row {next(number)}", row

    if not columns:
        return TaskTable(name, rows, split)
    usual = [column for column in columns if column.lower() in IMAGES]
    column = image or (columns[0] if len(columns) == 1 else usual[0] if len(usual) == 1 else None)
    if column is None or column not in columns:
        raise CollectionError(
            f"{name}: which column has the pictures: {', '.join(columns)}?",
            hint='say it: query_image_column="COLUMN", or document_image_column="COLUMN"',
        )
    files = saved_files(saved_dataset(dataset.select_columns([column])))
    return TaskTable(name, rows, split, PictureCells({str(file.absolute()): file for file in files}, column))
