"""The door: a path, a short text or an object becomes a collection, or whatever else can be opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias, cast

import visir.collections.readers.choice_table as choice_table
import visir.collections.readers.products as products
from visir.collections.draft import Draft, SourceDraft, TaskDraft, TaskSetDraft
from visir.collections.formats import FORMATS, JUDGEMENTS
from visir.collections.held_pictures import HeldPictures, is_picture
from visir.collections.images import picture_digests
from visir.collections.own_folders import kind_elsewhere
from visir.collections.picture_kinds import is_picture_name
from visir.collections.qrels_reading import judge
from visir.collections.readers.choice_table import has_choices
from visir.collections.readers.huggingface import from_dataset, has_pictures, is_dataset, load_from_hub
from visir.collections.readers.locate import place_images
from visir.collections.readers.mteb_tasks import is_mteb_task, read_mteb_task
from visir.collections.readers.names import gc_paused
from visir.collections.readers.shop_columns import is_shop
from visir.collections.readers.table import COLUMN_OPTIONS, NUMBERED, DraftFiller, TableColumns
from visir.collections.readers.torchvision_sets import from_class_data_set, is_class_data_set
from visir.collections.sources import SourceKind, find_source
from visir.collections.tables import CAPTION_ALSO, CAPTION_COLUMNS, IMAGE_ALSO, IMAGE_COLUMNS, columns_of, read_table
from visir.collections.task_memory import is_task, is_task_set, read_task, read_task_set
from visir.errors import CollectionError
from visir.files import is_there, user_path
from visir.plugins import PARTS, part
from visir.records import Collection, SplitRule, TaskFile, TaskSet
from visir.remote import is_url, local_path
from visir.storage.manifest import read_manifest, reading_folder

# Images and captions that are in memory: lists, pairs, dictionaries, data frames, pictures of PIL.

FORMS = (
    'a path or a text ("photos/", "mine.csv", "scenes:50"), a list of image files, a list of (image, caption) or '
    "(image, [caption, …]), a dictionary {image: caption}, a pandas or polars DataFrame, an Arrow table, or a "
    "datasets.Dataset"
)
"""What can be opened, in words."""
_ENTRIES = TableColumns("image", ("captions",), "id")


def read_memory(source: Any, *, name: str = "", bad_rows: str = "refuse", **columns: str | None) -> Draft:
    """Read images and captions that are in memory."""
    # Pictures in memory are written into visir's cache once, without loss, under a hash of their content; files stay
    # where they are. An image id is the path as it was written; pictures in memory are numbered from 0.
    # source: A list of image files; a list of `(image, caption)` or `(image, [caption, …])`; `{image: caption(s)}` or
    # `{id: image}`; a DataFrame or an Arrow table; anything with a length whose entries are such pairs, as the data
    # sets of torchvision. An image is a path, a PIL picture, an array (height, width, 3), or encoded bytes.
    table = table_in_memory(source, columns.values())
    if table is not None:
        draft = Draft(name or "table", Path.cwd(), f"a table in memory with the columns {', '.join(table)}")
        opened = read_table(table)
        chosen = TableColumns.find(opened, columns)
        if chosen.image is None and chosen.image_id is None:
            raise CollectionError(
                f"the table has no column of images; there are: {', '.join(table) or 'none'}.",
                hint='name it: visir.open(table, image="COLUMN", caption="COLUMN")',
                code="table-no-column-images",
            )
        if not chosen.captions:
            draft.notes.append("no captions: no column has a usual name for them; caption= names it")
        if _names_files(table.get(chosen.image or "")):
            filler = DraftFiller(draft, chosen, bad_rows=bad_rows)
            filler.add_table(opened)
            return filler.finish()
        rows = list(opened.rows())
    else:
        given = [key for key, value in columns.items() if value is not None]
        if given:
            raise CollectionError(
                f"{given[0]}= names a column of a table; a {type(source).__name__} has no columns.",
                code="names-column-table",
            )
        draft = Draft(name or "collection", Path.cwd(), f"a {type(source).__name__} in memory")
        chosen, rows = _ENTRIES, list(_entries(source))
    filler, column = DraftFiller(draft, chosen, bad_rows=bad_rows), chosen.image or ""
    held, places = HeldPictures(), dict[str, str]()
    hold = any(is_picture(row.get(column)) for _, row in rows)
    if chosen is _ENTRIES or hold:
        for place, row in rows:
            cell = row.get(column)
            if cell is None:
                continue
            if is_picture(cell) or chosen is not _ENTRIES:
                number = held.add(cell, place)
                row[column], places[f"image-{number}"] = f"image-{number}", f"image#{number}"
                continue
            path = user_path(local_path(str(cell)))
            row[column] = str(cell)
            if path.is_file():
                places[row[column]] = str(path.absolute())
            else:
                draft.fault(f"{cell}: no such file")
    filler.add(rows)
    filler.finish()
    if chosen is _ENTRIES or hold:
        archive = str(held.write()) if len(held) else None
        draft.paths = [None if file is None else places.get(file) for file in draft.names]
        draft.archives = [archive if path is not None and path.startswith("image#") else None for path in draft.paths]
        draft.names = []
    return draft


def _names_files(cells: list[Any] | None) -> bool:
    """Whether a column of images has names of files alone, and no pictures."""
    return {*map(type, cells or ())} <= {str, type(None)}


_PICTURE = {"bytes", "path"}
"""The keys of a picture as `datasets` has it."""


def table_in_memory(source: Any, named: Iterable[str | None] = ()) -> dict[str, list[Any]] | None:
    """The columns of a data frame, of rows as dictionaries, or of `{"image": […], "caption": […]}`; None for others."""
    # named: What somebody calls columns, which tells those of a dictionary from captions by picture.
    rows = source if isinstance(source, list) else []
    if rows and all(isinstance(row, Mapping) and row.keys() - _PICTURE for row in rows):
        return columns_of(rows, plain=True)
    if not isinstance(source, Mapping) or not all(isinstance(values, (list, tuple)) for values in source.values()):
        return columns_of(source)
    names = {str(name).lower() for name in source}
    has_captions = names & {*CAPTION_COLUMNS, *CAPTION_ALSO} or any(map(NUMBERED.fullmatch, names))
    if not (names & {*IMAGE_COLUMNS, *IMAGE_ALSO} and has_captions) and not {*named} & {*map(str, source)}:
        return None
    return {str(name): list(values) for name, values in source.items()}


def _entries(source: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The images of what is no table as rows with the columns id, image and captions."""
    if isinstance(source, Mapping):
        by_id = not all(map(_names_image, source)) and all(map(_names_image, source.values()))
        for number, (key, value) in enumerate(source.items()):
            if not by_id and not _is_image(key):
                raise CollectionError(
                    f"{_shown(key)} is no image.",
                    hint='visir.open({"a.jpg": "a dog", "b.jpg": ["a cat", "a pet"]}) works',
                )
            yield str(key), _row(str(key), value) if by_id else _row(_id(key, number), key, value)
        return
    if isinstance(source, (str, bytes, int, float)) or not (
        isinstance(source, Iterable) or (hasattr(source, "__getitem__") and hasattr(source, "__len__"))
    ):
        is_model = hasattr(source, "embed_images")  # of any class: models are in a later room
        raise CollectionError(
            f"cannot open a {'model' if is_model else type(source).__name__} as a collection.",
            hint="the source comes first, then the model: visir.evaluate(source, model); only in "
            "visir.encode(model, source) the model comes first"
            if is_model
            else f"visir.open takes {FORMS}",
            code="cannot-open-collection",
        )
    entries = source if isinstance(source, Iterable) else (source[row] for row in range(len(source)))
    for number, entry in enumerate(entries):
        where = f"entry {number}"
        if _is_image(entry):
            yield where, _row(_id(entry, number), entry)
        elif isinstance(entry, (list, tuple)) and len(entry) == 2 and _is_image(entry[0]):
            yield where, _row(_id(entry[0], number), entry[0], entry[1])
        elif isinstance(entry, Mapping):
            raise CollectionError(
                f"{where} is a dictionary with the keys {', '.join(map(repr, entry))}.",
                hint="an item of a text and a picture has the keys 'text' and 'image'; for other columns make a table: "
                "visir.open(pandas.DataFrame(entries))",
            )
        else:
            raise CollectionError(
                f"{where}: expected an image or (image, caption), not {_shown(entry)}.",
                hint=f'visir.open([("a.jpg", "a dog"), ("b.jpg", "a cat")]) works; it takes {FORMS}',
                code="expected-image-image-caption",
            )


def _row(identifier: str, image: Any, captions: Any = None) -> dict[str, Any]:
    if captions is not None:
        several = isinstance(captions, Iterable) and not isinstance(captions, (str, Mapping))
        captions = list(captions) if several else [captions]
    return {"id": identifier, "image": image, "captions": captions}


def _id(image: Any, number: int) -> str:
    return str(number) if is_picture(image) else Path(image).as_posix()


def _is_image(value: Any) -> bool:
    return isinstance(value, (str, Path)) or (is_picture(value) and not isinstance(value, Mapping))


def _names_image(value: Any) -> bool:
    return isinstance(value, Path) or is_picture(value) or (isinstance(value, str) and is_picture_name(value))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


AnySource: TypeAlias = Collection | TaskFile | TaskSet
"""What holds tasks."""
COLLECTIONS = SourceKind("collection", "collections", FORMATS, without_path="generated scenes need none: scenes:2000")
JUDGEMENT_SETS = SourceKind(
    "set of judgements", "judgements", JUDGEMENTS, how_to_name="put its name before it (name:path)"
)


def open(
    source: Any,
    *,
    images: object = None,
    format: str | None = None,
    split: str | None = None,
    language: str | None = None,
    judgements: object = None,
    **options: Any,
) -> Any:
    """Open images and captions, whatever form they have; or a folder that visir made.

    Args:
        source: One of

            - a folder of photos, or a file or folder of any known format (`visir data formats` lists them); the format
              is told from the content, or named: `"FORMAT:PATH"`,
            - `"scenes:50"` for generated pictures, a place elsewhere (`"s3://bucket/photos.tar"`), or a data set of the
              Hugging Face hub (`"hf:user/name"`),
            - a list of image files; a list of `(image, caption)` or `(image, [caption, …])`; `{image: caption}`. An
              image is a path, a PIL picture or an array,
            - a pandas or polars DataFrame, an Arrow table, `{column: [cell, …]}` or a list of `{column: cell}` with a
              column of images and one of captions; or the products of a shop (`format="products"`),
            - a `datasets.Dataset`, a data set of torchvision or {"train": …, "test": …} of them,
            - a retrieval task of mteb: `"mteb:NFCorpus"`, or the object; of ir_datasets:
              `"ir_datasets:beir/nfcorpus/test"`,
            - a task: `{"queries": …, "documents": …, "qrels": …}`, where each is a dictionary, a list, a data frame, a
              data set or a file (`visir.collections.task_memory.read_task` lists the forms),
            - a file of results of mteb (`NFCorpus.json`), which becomes `MtebResults`,
            - a library, or the folder of a result, of a classification, of a report (`StudyReport`), of an index or of
              parts, that visir made.

            A collection that is open already is returned as it is.
        images: Where the pictures are: a folder, zip or tar, or a list of them. By default they are looked for beside
            the source. "none" goes without.
        format: The name of the format, when it cannot be told.
        split: Keep one split, or several ("train+val").
        language: Keep the captions in one language ("de"), or in several ("de+fr"), where the source names languages.
        judgements: Further relevance judgements to attach: a file of qrels (TREC, CSV, JSON), `{query: {document:
            grade}}`, a DataFrame, or those of CxC, ECCV Caption, or Flickr8k's experts.
        **options: Those of the format: `image="file", caption="text"` name columns of a table. Every collection has
            `split_by="random(0.8, 0.1, 0.1, seed=0)"`, which makes splits.

    Returns:
        A `Collection`; a `TaskFile` for a task with queries and documents of its own, a `TaskSet` for several; a
        `Library`, an `Evaluation`, a `Classification`, a `StudyReport`, a `TrainedModel`, `Sessions`, a purchase model,
        an index or `Parts` for folders that visir made.

    Raises:
        CollectionError: With all faults of the source at once.

    Example:
        >>> import visir
        >>> scenes = visir.open("scenes:12?size=64")
        >>> scenes.images.num_rows, scenes.captions.num_rows
        (12, 60)
        >>> from PIL import Image
        >>> Image.new("RGB", (64, 48), "red").save("red.png")
        >>> mine = visir.open([("red.png", ["all red", "a red picture"])])
        >>> mine.captions["text"].to_pylist()
        ['all red', 'a red picture']
    """
    if isinstance(source, (str, Path)) and format is None:
        kind = _kind_of_folder(source)
        if f"folder {kind}" in PARTS:
            given = {"images": images, "split": split, "language": language, "judgements": judgements}
            read = part(f"folder {kind}")
            known = signature(read).parameters
            unused = [name for name, value in given.items() if value is not None]
            takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
            unused += [] if takes_any else [name for name in options if name not in known]
            if unused:
                raise CollectionError(
                    f"{source}: a folder that visir made ({kind}) takes no {unused[0]}=.",
                    code="folder-visir-made-takes",
                )
            with reading_folder(source):
                return read(source, **options)
        if kind in _NO_RECORD:
            raise CollectionError(
                f"{source}: {_NO_RECORD[kind][0]}, which is no result.", hint=_NO_RECORD[kind][1], code="no-record-here"
            )
        if _is_mteb_result(Path(source)):
            return part("results of mteb")(source)
    return open_source(
        source, images=images, format=format, split=split, language=language, judgements=judgements, **options
    )


_NO_RECORD = {
    "log": ("a generated log", "make sessions of it: visir sessions make LOG --out FOLDER"),
    "training": ("a training that has not ended", "go on with it: the same command, with --resume"),
    "tokens": ("tokens of a service", "visir library token list FOLDER"),
}
"""Folders of visir that hold nothing to be looked at: what they are, and what to do with them."""


def _kind_of_folder(place: str | Path) -> str | None:
    """The kind of a folder that visir made; of an address that of parts alone, since nothing else is read there."""
    if is_url(place):
        kind = kind_elsewhere(str(place))
        return kind if kind == "parts" else None
    manifest = read_manifest(Path(place)) if is_there(place) and Path(place).is_dir() else None
    return None if manifest is None else manifest.kind


def _is_mteb_result(path: Path) -> bool:
    """Whether a file begins like the results of mteb."""
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(4096)
    return all(name in head for name in (b'"task_name"', b'"scores"', b'"mteb_version"'))


def open_source(
    path_or_spec: Any,
    *,
    format: str | None = None,
    images: object = None,
    split: str | None = None,
    language: str | None = None,
    judgements: object = None,
    only_split: str | None = None,
    **options: Any,
) -> AnySource:
    """Open anything that holds tasks of retrieval: a collection of images and captions, or a task from elsewhere.

    Args:
        path_or_spec: A file or folder as its makers distribute it (plain, `.gz` or `.xz`); the format follows from the
            content. A `datasets.Dataset` object, a `Collection` and a `TaskFile` are taken too. `"format:path"` names
            the format; `"scenes:2000"` makes 2,000 scenes. Options may follow as in a web address:
            `"karpathy:dataset_coco.json?restval=keep&images=val2014.zip"`, `"scenes:2000?seed=1&size=128"`.
            A file or folder elsewhere (`"s3://bucket/photos.tar"`; needs `visir[remote]`) is copied into the cache.
        format: The name of the format, when it cannot be told.
        images: Where the pictures are: a folder, zip or tar, or a list of them. By default they are looked for beside
            the source; the record's `source` says where they were found. "none" goes without.
        split: Keep one split, or several ("train+val").
        language: Keep the captions in one language ("de"), or in several ("de+fr").
        judgements: Files or folders of further relevance judgements to attach to a collection (CxC, ECCV Caption,
            Flickr8k experts).
        only_split: The split that will be used: formats with the option `only` read no other; the rest read everything.
        **options: Those of the format; `visir data formats` lists them. Every collection has `split_by`, a rule that
            makes splits (`visir.records.Collection.split_by`): "random(0.8, 0.1, 0.1, seed=0)", or "group(COLUMN, 0.8,
            0.1, 0.1, seed=0)"; the column "content" keeps the same pictures, byte for byte, together.

    Raises:
        CollectionError: With all faults of the source at once.

    Example:
        >>> source = open_source("scenes:12?size=64")
        >>> source.tasks, len(source.split("test").task("t2i").queries)
        (('i2t', 't2i'), 5)
    """
    if isinstance(path_or_spec, (Collection, TaskFile, TaskSet)):
        rule = options.pop("split_by", None)
        unused = [name for name, value in {"format": format, "images": images, **options}.items() if value is not None]
        if unused:
            raise CollectionError(f"{path_or_spec.name}: it is open already; {unused[0]}= does not apply.")
        return _part(_with_splits(_with_judgements(path_or_spec, judgements), rule), split, language)
    if isinstance(path_or_spec, str) and path_or_spec.startswith("hf:") and not Path(path_or_spec).exists():
        name = path_or_spec.partition("?")[0].rpartition("/")[2]
        path_or_spec, options = load_from_hub(path_or_spec, options)
        if is_task(path_or_spec) or is_task_set(path_or_spec):
            options.setdefault("name", name)
        split = options.pop("split", None) if split is None else split
    if is_mteb_task(path_or_spec):
        return read_mteb_task(path_or_spec, only=split or only_split, **options)
    if not isinstance(path_or_spec, (str, Path)):
        rule = options.pop("split_by", None)
        record = _with_judgements(_from_object(path_or_spec, images, options, format), judgements)
        return _part(_with_splits(record, rule), split, language)
    if not str(path_or_spec):
        raise CollectionError(
            "the name of the source is empty.", hint='the current folder is "."', code="name-source-empty"
        )
    source = find_source(str(path_or_spec), COLLECTIONS, format, options)
    judgements = source.take("judgements", judgements)
    split = source.take("split", split)
    if any(option.name == "only" for option in source.format.options) and (split or only_split) is not None:
        options.setdefault("only", source.take("only", split or only_split))
    if any(option.name == "language" for option in source.format.options):  # the reader chooses among translations
        options |= {} if language is None else {"language": language}
        language = None
    else:
        language = source.take("language", language)
    rule = source.take("split_by", options.pop("split_by", None))
    contents = source.read(images=source.take("images", images), **options)
    record = contents.build() if isinstance(contents, SourceDraft) else contents
    return _part(_with_splits(_with_judgements(record, judgements), rule), split, language)


def open_collection(path_or_spec: Any, **options: Any) -> Collection:
    """Open a collection of images and captions of any known layout.

    Args:
        path_or_spec: As `open_source` takes it.
        **options: As `open_source` takes them: `format`, `images`, `split`, `judgements`, and those of the format.

    Raises:
        CollectionError: With all faults of the source at once; for a source that is no collection.

    Example:
        >>> collection = open_collection("scenes:12?size=64", split="test")
        >>> collection.images["id"].to_pylist()
        ['scene-0-000006']
        >>> collection.captions["text"][0].as_py()
        'Beside a lake, there is a big, chequered green snail.'
    """
    record = open_source(path_or_spec, **options)
    if isinstance(record, (TaskFile, TaskSet)):
        raise CollectionError(
            f"{path_or_spec}: a task (queries, documents, judgements), not a collection of images and captions.",
            hint="visir.collections.open_source opens both",
            code="task-queries-documents-judgements",
        )
    return record


def read_draft(
    path_or_spec: str, *, format: str | None = None, images: object = None, **options: Any
) -> SourceDraft | Collection:
    """The same, before it is checked: for `visir data check`, which reports faults instead of raising them."""
    source = find_source(path_or_spec, COLLECTIONS, format, options)
    for name in {"judgements", "split", "split_by", "language"} - {option.name for option in source.format.options}:
        source.take(name)  # no matter what is wrong
    contents: SourceDraft | Collection = source.read(images=source.take("images", images), **options)
    return contents


def attach_judgements(collection: Collection, path_or_spec: Any, **options: Any) -> Collection:
    """The collection with the judgements of a file or folder added.

    Args:
        collection: The collection that is judged.
        path_or_spec: A file or folder, as `open_collection` takes it; `visir data formats` lists the formats. Or
            judgements in memory, as `read_qrels` takes them: `{query: {document: grade}}`, a DataFrame.
        **options: Those of the format.

    Raises:
        CollectionError: Where the source is no known layout of judgements, or judges other images and captions.

    Example:
        >>> toy = Collection.build("toy", images={"id": ["a.jpg"]},
        ...                        captions={"id": ["1"], "text": ["red"], "image_id": ["a.jpg"]})
        >>> judged = attach_judgements(toy, {"1": {"a.jpg": 2}})
        >>> judged.relevances, judged.qrels("t2i", "qrels").to_dict()
        (('links', 'qrels'), {'1': {'a.jpg': 2.0}})
    """
    if isinstance(path_or_spec, (str, Path)):
        judged = find_source(str(path_or_spec), JUDGEMENT_SETS).read(collection, **options)
    else:
        judged = judge(path_or_spec, collection, **options)
    collection = collection.with_judgements(judged.table)
    return replace(collection, source=f"{collection.source}; {judged.note}")


def task_in_memory(value: Any, images: object, options: Mapping[str, Any]) -> TaskDraft | TaskSetDraft:
    """A task, or several by name, that are in memory, before they are checked; see `read_task`."""
    known = FORMATS.get("beir").resolve({key: option for key, option in options.items() if key != "name"})
    given = {key: option for key, option in known.items() if key not in ("subset", "only")}
    reading = read_task if is_task(value) else read_task_set
    with gc_paused():
        draft = reading(value, name=str(options.get("name") or ""), **given)
    place_images(draft, images)
    return draft


def _from_object(value: Any, images: object, options: dict[str, Any], format: str | None = None) -> AnySource:
    if is_task(value) or is_task_set(value):
        return task_in_memory(value, images, options).build()
    draft: Draft
    is_saved = hasattr(value, "save_to_disk")
    table = table_in_memory(value) if not is_saved or (is_dataset(value) and not has_pictures(value)) else None
    own = {name: option for name, option in options.items() if name != "name" and option is not None}
    if format == "products" or (table is not None and format is None and is_shop(table)):
        draft = products.read(value if table is None else table, **FORMATS.get("products").resolve(own))
    elif is_saved and table is None:
        draft = from_dataset(value, **FORMATS.get("huggingface").resolve(options))
    elif is_class_data_set(value):
        draft = from_class_data_set(value)
    elif table is not None and ("wrong" in options or has_choices(list(table))):
        choices = choice_table.read(table, name=str(options.get("name") or ""), **FORMATS.get("choices").resolve(own))
        place_images(choices, images)
        return choices.build()
    else:
        known = FORMATS.get("table").resolve({name: str(option) for name, option in own.items()})
        names = {option.name: known[option.name] for option in COLUMN_OPTIONS}
        draft = read_memory(value, name=options.get("name", ""), bad_rows=known["bad_rows"], **names)
    place_images(draft, images)
    return draft.build()


def _with_judgements(record: AnySource, judgements: object) -> AnySource:
    if judgements is not None and isinstance(record, (TaskFile, TaskSet)):
        raise CollectionError(
            f"{record.name}: a task has judgements of its own; judgements= does not apply.", code="task-judgements"
        )
    files = isinstance(judgements, (list, tuple)) and all(isinstance(entry, (str, Path)) for entry in judgements)
    given: list[Any] = [] if judgements is None else list(judgements) if files else [judgements]  # type: ignore[call-overload]
    for path_or_spec in given:
        record = attach_judgements(cast(Collection, record), path_or_spec)
    return record


def _with_splits(record: AnySource, rule: str | SplitRule | None) -> AnySource:
    if rule is None:
        return record
    if isinstance(record, (TaskFile, TaskSet)):
        raise CollectionError(f"{record.name}: a task has splits of its own; split_by= does not apply.")
    parsed = SplitRule.parse(rule) if isinstance(rule, str) else rule
    facts = record.facts.column_names if record.facts is not None else []
    if parsed.group != "content" or "content" in facts:
        return record.split_by(parsed)
    ids = record.images["id"].to_pylist()
    return record.with_splits(parsed.assign(ids, list(picture_digests(record))), str(parsed))


def _part(
    record: Collection | TaskFile | TaskSet, split: str | None, language: str | None
) -> Collection | TaskFile | TaskSet:
    """The chosen part of a record."""
    part = record.split(split)
    if language is None:
        return part
    if not isinstance(part, Collection):
        raise CollectionError(f"{record.name}: a task, not captions in languages; language= does not apply.")
    return part.keep_languages(language)
