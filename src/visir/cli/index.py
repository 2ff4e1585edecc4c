"""`visir index`: build an index once, change it, search it, hand it to other engines."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from visir.cli import output
from visir.cli.options import argument, name_value_pairs, option, single_or_all
from visir.cli.output import ShownAnswer, show_answers
from visir.cli.verbs import group
from visir.display import counted

if TYPE_CHECKING:
    from visir.encoders import Parts
    from visir.encoders.base import Encoder
    from visir.encoders.parts_folder import PartsSummary
    from visir.records import Collection, Modality, Run, Vectors
    from visir.retrieval.index import Index, IndexInfo


# What the commands of `visir index` share: their options, the model of an index, names of what it holds.

FolderArgument = Annotated[Path, argument("FOLDER", about="The index's folder.")]
OwnModelOption = Annotated[
    str | None, option("--model", "-m", about="A model: where that of the index lies now, if it was moved.")
]

DOCUMENT_NAMES: dict[Modality, str] = {"image": "images", "text": "captions"}


def model_of_index(index: Index[Any], folder: Path, model: str | None, device: str | None) -> Encoder:
    """Load the model of an index."""
    from visir.encoders import load
    from visir.encoders.devices import CodeNotTrustedError
    from visir.encoders.loading import load_recorded
    from visir.errors import VisirError

    if model is not None:
        return load(model, device=device)
    name = index.encoder.name
    try:
        return load_recorded(name, folder, allow=f"--model {shlex.quote(name)}", device=device)
    except CodeNotTrustedError:
        raise
    except VisirError as fault:
        raise type(fault)(
            f"{folder}: its model, {name}, cannot be loaded: {fault.message}",
            hint="say where it is now: --model MODEL",
            code=fault.code,
        ) from fault


def size_in_words(index: Index[Any]) -> str:
    """How much an index holds: "1,000 images in all"."""
    info = index.info()
    return f"{counted(info.documents, DOCUMENT_NAMES[info.modality])} in all"


def place_in_words(info: IndexInfo) -> str:
    """How much an index takes, and where: "1.2 MB", "81 kB in the table …", or, where the server does not say how much,
    "in the collection …".
    """
    if not info.place:
        return f"{info.bytes / 1e6:,.1f} MB"
    there = info.details.get("bytes on the server")
    size = "" if there is None else f"{there / 1e6:,.1f} MB " if there >= 1e6 else f"{there / 1e3:,.0f} kB "
    return f"{size}in {info.place}"


def report_index(out: Path, index: Index[Any]) -> None:
    """Print what was built."""
    info = index.info()
    output.facts(out=out.absolute(), **output.plain(info))
    output.line(
        f"{out}: {counted(info.documents, DOCUMENT_NAMES[info.modality])}, kind {info.kind}, {place_in_words(info)}"
    )


def remark_on_servers(index: Index[Any]) -> None:
    """Say what later commands need."""
    from visir.retrieval.remote.engine import needed_later

    for line in needed_later([index.info().details]):
        output.note(f"  {line}")


# `visir index build`, `add`, `delete`: make an index from a collection, and change it.

# What `visir index build` and `add` do with a folder of parts (`visir encode --parts`): nothing is encoded.


def check_options_of_parts(
    modality: Modality, split: str | None, images: list[str] | None, skip_broken: bool, only_device: bool
) -> None:
    """Refuse what is about encoding."""
    from visir.errors import ConfigurationError, raise_faults

    given = {
        "--to captions": modality != "image",
        "--split": split is not None,
        "--images": images is not None,
        "--skip-broken": skip_broken,
        "--device without --model": only_device,
    }
    raise_faults(
        ConfigurationError,
        "parts",
        [f"{name} does not go with a folder of parts" for name, is_given in given.items() if is_given],
        hint="parts are vectors of pictures already: all of them are indexed",
    )


def build_of_parts(
    place: str, model: str | None, device: str | None, kind: str | None, out: Path, settings: dict[str, Any]
) -> None:
    """Index a folder of parts, and print what was done."""
    from visir.retrieval.kinds import index_of_parts, kind_for

    parts = _parts_by(place, model, device)
    index, summary = index_of_parts(parts, kind_for("dense", parts.encoder.name, kind), out, **settings)
    report_index(out, index)
    _print_parts(parts, summary)
    remark_on_servers(index)


def add_of_parts(index: Index[Any], folder: Path, place: str, model: str | None, device: str | None) -> None:
    """Add what the index lacks of a folder of parts, and print what was done."""
    from visir.retrieval.kinds import add_parts

    parts = _parts_by(place, model, device)
    added, summary = add_parts(index, parts)
    there = summary.vectors - added
    output.facts(index=folder, added=added, there=there, **output.plain(index.info()))
    output.line(f"{folder}: {added:,} added, {there:,} were there; {size_in_words(index)}")
    _print_parts(parts, summary)


def _parts_by(place: str, model: str | None, device: str | None) -> Parts:
    """A folder of parts; where a model is named, it must be theirs."""
    from visir.encoders import Parts, load
    from visir.errors import EmbeddingError

    parts = Parts(place)
    if model is not None:
        mine = load(model, device=device).stored_card
        differing = mine.differences(parts.encoder, "image")
        if differing:
            raise EmbeddingError(
                f"{place}: made by {parts.encoder.name}, not by {mine.name} (they differ in {', '.join(differing)}).",
                hint="leave --model out: the parts say which model made them",
            )
    return parts


def _print_parts(parts: Parts, summary: PartsSummary) -> None:
    """Print of which parts an index was made, and what has no vector in them."""
    left_out = {"broken": summary.broken, "given_up": dict(summary.given_up)}
    output.facts(parts=parts.place, files=summary.files, **left_out)
    without = f"; without a vector: {summary.left_out()}" if summary.left_out() else ""
    output.line(f"  of {counted(summary.files, 'parts')} by {parts.encoder.name}{without}")


def build_command(
    collection: str,
    out: Path,
    model: str | None = None,
    to: str = "images",
    kind: str | None = None,
    setting: list[str] | None = None,
    split: str | None = None,
    images: list[str] | None = None,
    device: str | None = None,
    skip_broken: bool = False,
) -> None:
    """Encode a collection (or take its vectors from the store, or from parts) and index it.

    Killed, it leaves no folder; the vectors that were encoded are kept, and the same command goes on from them. More
    than a million vectors of kind ivf are indexed part by part: that leaves an unfinished folder, and the same command
    goes on in it.

    Of a folder of parts nothing is encoded, and no model is needed. The parts must be finished.

    Args:
        collection: A file or folder in any known format, FORMAT:PATH, a folder of photos, or scenes:2000 (generated);
            or a finished folder of parts (visir encode --parts).
        to: What is found: images or captions.
    """
    from visir.cli.encode import print_set_aside, remark_on_tars
    from visir.collections import open_collection
    from visir.collections.own_folders import asked_once
    from visir.encoders import encode_detailed, load
    from visir.encoders.parts_folder import check_parts_can_be_told, is_parts
    from visir.errors import ConfigurationError
    from visir.retrieval.index import check_new_index
    from visir.retrieval.kinds import KINDS, build_index, kind_for

    modality = _modality_of(to)
    settings = name_value_pairs(setting)
    check_new_index(out)  # before hours of encoding, not after
    if kind is not None:
        KINDS.get(kind).check_settings(settings)
    with asked_once():
        if is_parts(collection):
            check_options_of_parts(modality, split, images, skip_broken, device is not None and model is None)
            build_of_parts(collection, model, device, kind, out, settings)
            return
        check_parts_can_be_told(collection, with_model=model is not None)
        if model is None:
            raise ConfigurationError(
                f"--model is missing: {collection} is no folder of parts, so it is to be encoded first.",
                hint="--model MODEL (visir models lists them); if parts are meant, check the name",
            )
        opened = open_collection(collection, images=single_or_all(images), split=split)
    encoder = load(model, device=device)
    chosen = kind_for(encoder.form, encoder.card.name, kind)
    chosen.check_settings(settings)
    encoding = encode_detailed(encoder, opened.items(modality), skip_broken=skip_broken)
    output.facts(broken=encoding.broken)
    index = build_index(encoding.embeddings, chosen.name, out, **settings)
    report_index(out, index)
    print_set_aside(encoding.broken, "they are not in the index")
    remark_on_servers(index)
    remark_on_tars(opened.source)


def add_command(
    folder: FolderArgument,
    collection: str,
    model: OwnModelOption = None,
    split: str | None = None,
    images: list[str] | None = None,
    device: str | None = None,
    skip_broken: bool = False,
) -> None:
    """Add what the index does not hold yet. What it holds is left as it is: delete it first to replace it.

    Of a folder of parts (visir encode --parts) nothing is encoded. Ids of parts begin with the name of their file. So
    add parts to an index of parts, and not the files that they were encoded from: those have other ids.
    """
    import pyarrow.compute as pc

    from visir.cli.encode import print_set_aside, remark_on_tars
    from visir.collections import open_collection
    from visir.collections.own_folders import asked_once
    from visir.encoders import encode_detailed
    from visir.encoders.parts_folder import check_parts_can_be_told, is_parts
    from visir.retrieval.kinds import open_index
    from visir.retrieval.rows import check_same_model

    index = open_index(folder)
    with asked_once():
        if is_parts(collection):
            check_options_of_parts("image", split, images, skip_broken, device is not None and model is None)
            add_of_parts(index, folder, collection, model, device)
            return
        check_parts_can_be_told(collection, with_model=True)
        opened = open_collection(collection, images=single_or_all(images), split=split)
    encoder = model_of_index(index, folder, model, device)
    check_same_model(encoder.card, index.encoder, f"{folder}: vectors by {encoder.card.name}")  # before long work
    encoding = encode_detailed(encoder, opened.items(index.info().modality), skip_broken=skip_broken)
    vectors = encoding.embeddings
    new_ids = vectors.ids.filter(pc.invert(pc.is_in(vectors.ids, index.ids)))
    index.add(vectors.select(new_ids))  # none is new: their form and dimension are checked all the same
    done = {"added": len(new_ids), "there": len(vectors) - len(new_ids), "broken": encoding.broken}
    output.facts(index=folder, **done, **output.plain(index.info()))
    output.line(f"{folder}: {len(new_ids):,} added, {len(vectors) - len(new_ids):,} were there; {size_in_words(index)}")
    print_set_aside(encoding.broken, "they are not in the index")
    remark_on_tars(opened.source)


def delete_command(
    folder: FolderArgument,
    ids: Annotated[list[str] | None, argument("[ID]...")] = None,
    listed: Annotated[Path | None, option("--ids")] = None,
) -> None:
    """Delete documents by id. An unknown id is an error, and then nothing is deleted.

    Args:
        ids: Documents to delete.
        listed: A file of ids, one a line.
    """
    from visir.errors import ConfigurationError
    from visir.files import read_lines
    from visir.retrieval.kinds import open_index

    lines = read_lines(listed) if listed else []
    documents = list(dict.fromkeys([*(ids or []), *filter(None, lines)]))
    if not documents:
        raise ConfigurationError("no document is named.", hint="visir index delete FOLDER ID…, or --ids FILE")
    index = open_index(folder)
    index.delete(documents)
    output.facts(index=folder, **output.plain(index.info()) | {"deleted": len(documents)})
    output.line(f"{folder}: {len(documents):,} deleted; {size_in_words(index)}")


def _modality_of(to: str) -> Modality:
    from visir.errors import ConfigurationError, nearest

    for modality, name in DOCUMENT_NAMES.items():
        if name == to:
            return modality
    raise ConfigurationError(f"--to {to}: there is no such side.", hint=nearest(to, DOCUMENT_NAMES.values()))


# `visir index search`, `export`: search a single index, or hand it to another engine.


def search_command(
    folder: FolderArgument,
    text: str | None = None,
    queries: Path | None = None,
    image: Path | None = None,
    k: int = 10,
    out: Path | None = None,
    replace: bool = False,
    model: OwnModelOption = None,
    setting: list[str] | None = None,
    device: str | None = None,
) -> None:
    """Search an index with one text, with a picture, or with a file of texts.

    visir search COLLECTION --index FOLDER shows captions, and where the pictures are.

    Args:
        out: Where to write: a run, named .trec, .parquet or .json.
    """
    from visir.cli.shortcuts import picture_vector, read_queries
    from visir.errors import ConfigurationError, raise_faults
    from visir.retrieval.formats import write_run
    from visir.retrieval.kinds import open_index
    from visir.storage import check_new_file

    faults = []
    if [text, queries, image].count(None) != 2:
        faults.append("ask with a text, with --image FILE or with --queries FILE: one of the three")
    if queries is not None and out is None:
        faults.append("where is the run to be written (--out run.trec)?")
    raise_faults(ConfigurationError, "index search", faults, hint='visir index search FOLDER "a dog on a beach"')
    if out is not None:
        check_new_file(out, replace=replace)
    index = open_index(folder)
    encoder = model_of_index(index, folder, model, device)
    if image is not None:
        query_vectors = picture_vector(encoder, image)
    else:
        query_vectors = encoder.encode_inputs("text", read_queries(queries) if queries else {"query": text or ""})
    run = index.search(query_vectors, k, **name_value_pairs(setting))
    if out is not None:
        write_run(run, out, replace=replace)
        output.facts(run=out.absolute(), queries=len(run), answers=len(run.indices))
        output.line(f"{out}: {counted(len(run), 'queries')}, {counted(len(run.indices), 'answers')}")
    else:
        query = {"image": str(image)} if image is not None else {"text": text or ""}
        _show(run, query_vectors, index, query)


def export_command(
    folder: FolderArgument,
    form: Annotated[str, option("--layout")],
    out: Path,
    queries: Path | None = None,
    model: OwnModelOption = None,
    device: str | None = None,
    replace: bool = False,
) -> None:
    """Write the vectors of a sparse index, and queries, as another engine reads them.

    ciff: PISA and others; anserini: JsonVectorCollection; seismic: JSON lines. Deleted documents are left out.

    Args:
        form: ciff, anserini or seismic.
        out: Where to write: a folder.
    """
    from visir.cli.shortcuts import read_queries
    from visir.errors import ConfigurationError
    from visir.records import SparseEmbeddings
    from visir.retrieval.kinds import open_index
    from visir.retrieval.sparse.export import EXPORTS, export

    EXPORTS.get(form)
    index = open_index(folder)
    documents = index.documents()
    if not isinstance(documents, SparseEmbeddings):
        raise ConfigurationError(
            f"{folder}: holds no weighted words, which these forms are of.",
            hint="visir encode COLLECTION --model MODEL --out FOLDER writes other vectors as NPY",
        )
    query_vectors = (
        model_of_index(index, folder, model, device).encode_inputs("text", read_queries(queries)) if queries else None
    )
    written = export(form, out, documents, query_vectors, replace=replace)  # type: ignore[arg-type]
    output.answer({"files": [{"path": path.absolute(), "weights": str(weights)} for path, weights in written.items()]})
    for path, weights in written.items():
        output.line(f"{path}: {path.stat().st_size / 1e6:,.1f} MB, {weights}")


def _show(run: Run, query_vectors: Vectors, index: Index[Any], query: dict[str, str]) -> None:
    """The answers to one text or picture; with a sparse index also which terms matched."""
    from visir.cli.shortcuts import matched_terms
    from visir.reports.table import Column, Table, at

    answers = run.answer("query")
    terms = matched_terms(query_vectors, index.select([document for document, _ in answers]), answers)
    output.answer(
        {
            **query,
            "answers": [
                {"rank": rank, "id": document, "score": score, **({"terms": terms[document]} if terms else {})}
                for rank, (document, score) in enumerate(answers, 1)
            ],
        }
    )
    columns = [Column("rank", 0, of=at(0)), Column("score", 4, of=at(2)), Column("id", of=at(1))]
    columns += [Column("matched terms", of=lambda row: terms[row[1]])] if terms else []
    rows = [(rank, *answer) for rank, answer in enumerate(answers, 1)]
    text = next(iter(query.values()))
    output.table(Table.over(rows, columns, caption=f"{DOCUMENT_NAMES[run.gallery.modality]} for “{text}”"))
    if not answers:
        output.line("no document shares a term with it")


def kinds_command() -> None:
    """List the kinds of index with their settings."""
    from rich.table import Table

    from visir.retrieval.kinds import KINDS, settings_of_kind

    output.answer(
        {
            name: {
                "title": kind.title,
                "vectors": kind.vectors,
                "exact": kind.exact,
                "extra": kind.extra,
                "settings": {setting: default for setting, default, _ in settings_of_kind(kind)},
            }
            for name, kind in KINDS.items()
        }
    )
    console = output.console_of_verb()
    for name, kind in KINDS.items():
        needs = f"visir[{kind.extra}]" if kind.extra else "core"
        answers = "exact" if kind.exact else "approximate"
        console.print(f"{name}: {kind.title}", style="bold", markup=False)
        console.print(f"  {kind.vectors} vectors, {answers} answers, needs {needs}", markup=False)
        table = Table.grid(padding=(0, 2))
        for setting, default, description in settings_of_kind(kind):
            table.add_row(f"    {setting}={default}", description)
        console.print(table, markup=False)


def info_command(folder: FolderArgument) -> None:
    """Print what an index holds."""
    from rich.table import Table

    from visir.retrieval.kinds import open_index

    info = open_index(folder).info()
    output.answer({"index": folder.absolute(), **output.plain(info)})
    rows = {
        "kind": f"{info.kind} ({'exact' if info.exact else 'approximate'})",
        "documents": f"{info.documents:,} {DOCUMENT_NAMES[info.modality]}",
        "deleted, not yet removed": f"{info.deleted:,}",
        "dimension": f"{info.dimension:,}",
        "on the server" if info.place else "on disk": place_in_words(info),
        "encoder": info.encoder,
        **{name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in info.details.items()},
    }
    table = Table("index", str(folder), show_edge=False)
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), value)
    output.rich_table(table)


app = group(
    "index",
    "Vector indexes: build, change, search and export them.",
    {
        "build": build_command,
        "add": add_command,
        "delete": delete_command,
        "search": search_command,
        "export": export_command,
        "info": info_command,
        "kinds": kinds_command,
    },
)


# `visir search` of a collection; the verb, which searches libraries too, is in `visir.library.cli.search`.


def search_collection(
    collection: str,
    *,
    text: str | None,
    model: str | None,
    image: Path | None,
    k: int,
    to: str | None,
    index: Path | None,
    split: str | None,
    images: list[str] | None,
    device: str | None,
) -> None:
    """Search a collection with a text or a picture, and show the answers."""
    from visir.cli.encode import print_set_aside
    from visir.cli.shortcuts import matched_terms, picture_vector
    from visir.collections import open_collection
    from visir.encoders import encode_detailed, load
    from visir.errors import ConfigurationError, nearest, raise_faults
    from visir.retrieval.kinds import build_index, open_index

    faults = []
    if not model and index is None:
        faults.append("no model is named (--model)")
    if (text is None) == (image is None):
        faults.append("ask with a text or with --image FILE, one of the two")
    if to not in (None, "images", "captions"):
        faults.append(f"unknown answers {to!r} ({nearest(str(to), ('images', 'captions'))})")
    raise_faults(ConfigurationError, "search", faults, hint=f'visir search {collection} "a dog" --model MODEL')
    built = None if index is None else open_index(index)
    held = None if built is None else "images" if built.info().modality == "image" else "captions"
    if held is not None and to not in (None, held):
        raise ConfigurationError(f"{index}: an index of {held}, not of {to}.", hint="leave --to out, or build another")
    opened = open_collection(collection, images=single_or_all(images), split=split)
    if model or built is None or index is None:
        encoder = load(model or "", device=device)
    else:
        encoder = model_of_index(built, index, None, device)
    if image is not None:
        vectors = picture_vector(encoder, image)
    else:
        vectors = encoder.encode_inputs("text", {"query": text or ""})
    sides = [held] if held else [to] if to else ["images"] if image is None else ["captions", "images"]
    if image is not None and to is None and held is None and opened.captions.num_rows == 0:
        sides = ["images"]
    for side in sides:
        modality: Modality = "image" if side == "images" else "text"
        chosen, broken = built, dict[str, str]()
        if chosen is None:
            encoding = encode_detailed(encoder, opened.items(modality), skip_broken=True)
            chosen, broken = build_index(encoding.embeddings), dict(encoding.broken)
        run = chosen.search(vectors, k)
        ranked = run.answer("query")
        terms = matched_terms(vectors, chosen.select([document for document, _ in ranked]), ranked)
        unit = "cosine" if run.provenance.get("similarity") == "cosine" else "score"
        show_answers(f"{side} for “{text or image}”", side, _answers(ranked, terms, opened, side), unit=unit)
        print_set_aside(broken, "they were not searched")


def _answers(
    ranked: list[tuple[str, float]], terms: dict[str, str], collection: Collection, side: str
) -> list[ShownAnswer]:
    """The answers with their texts and places. A photo of a folder is named by its path alone."""
    texts, places = _texts(collection), _places(collection)
    answers = []
    for rank, (document, score) in enumerate(ranked, 1):
        matched = terms.get(document, "")
        if side == "captions":
            answers.append(
                ShownAnswer(rank, score, document, caption=texts["caption"].get(document, ""), terms=matched)
            )
        else:
            path, shown = places.get(document, (None, "not in the collection"))
            answers.append(ShownAnswer(rank, score, document, shown, path, texts["image"].get(document, ""), matched))
    return answers


def _texts(collection: Collection) -> dict[str, dict[str, str]]:
    """{"caption": caption id → text, "image": image id → its first caption}."""
    columns = collection.captions.to_pydict()
    rows = list(zip(columns["id"], columns["text"], columns["image_id"], strict=True))
    return {
        "caption": {caption: text for caption, text, _ in rows},
        "image": {image: text for _, text, image in reversed(rows)},
    }


def _places(collection: Collection) -> dict[str, tuple[Path | None, str]]:
    """Image id → the picture's file, absolute, and how the place is written: a name inside an archive has no file."""
    columns = collection.images.to_pydict()
    places: dict[str, tuple[Path | None, str]] = {}
    for image, path, archive in zip(columns["id"], columns["path"], columns["archive"], strict=True):
        if path is None:
            places[image] = (None, "")
        elif archive:
            places[image] = (None, f"{Path(collection.root, archive).absolute()}: {path}")
        elif "://" in str(collection.root) or path.startswith("scene:"):
            places[image] = (None, path if path.startswith("scene:") else f"{collection.root}/{path}")
        else:
            file = Path(collection.root, path).absolute()
            places[image] = (file, str(file))
    return places
