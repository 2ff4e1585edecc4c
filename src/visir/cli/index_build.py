"""`visir index build`, `add`, `delete`: make an index from a collection, and change it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli import output
from visir.cli.index_parts import (
    DOCUMENT_NAMES,
    FolderArgument,
    model_of_index,
    place_in_words,
    size_in_words,
)
from visir.cli.options import (
    DeviceOption,
    ImagesOption,
    IndexSetOption,
    KindOption,
    NewFolder,
    OptionalModelOption,
    OwnModelOption,
    SkipBrokenOption,
    SourceArgument,
    SplitOption,
    name_value_pairs,
    single_or_all,
)
from visir.display import counted

if TYPE_CHECKING:
    from visir.records import Modality
    from visir.retrieval.index import Index


def build_command(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION",
            help="A file or folder in any known format, FORMAT:PATH, a folder of photos, or scenes:2000 (generated); "
            "or a finished folder of parts (visir encode --parts).",
            show_default=False,
        ),
    ],
    out: NewFolder,
    model: OptionalModelOption = None,
    to: Annotated[str, typer.Option(help="What is found: images or captions.")] = "images",
    kind: KindOption = None,
    setting: IndexSetOption = None,
    split: SplitOption = None,
    images: ImagesOption = None,
    device: DeviceOption = None,
    skip_broken: SkipBrokenOption = False,
) -> None:
    """Encode a collection (or take its vectors from the store, or from parts) and index it.

    Killed, it leaves no folder; the vectors that were encoded are kept, and the same command goes on from them. More
    than a million vectors of kind ivf are indexed part by part: that leaves an unfinished folder, and the same command
    goes on in it.

    Of a folder of parts nothing is encoded, and no model is needed. The parts must be finished.
    """
    from visir.cli.encoding_report import print_set_aside, remark_on_tars
    from visir.collections import open_collection
    from visir.encoders import encode_detailed, load
    from visir.encoders.parts_folder import is_parts
    from visir.errors import ConfigurationError
    from visir.retrieval.folder import check_new_index
    from visir.retrieval.kinds import KINDS, build_index, kind_for

    modality = _modality_of(to)
    settings = name_value_pairs(setting)
    check_new_index(out)  # before hours of encoding, not after
    if kind is not None:
        KINDS.get(kind).check_settings(settings)
    if is_parts(collection):
        _check_options_of_parts(modality, split, images, skip_broken, device is not None and model is None)
        _build_of_parts(collection, model, device, kind, out, settings)
        return
    if model is None:
        raise ConfigurationError(
            "--model is missing: a collection is encoded first.", hint="--model MODEL; visir models lists them"
        )
    opened = open_collection(collection, images=single_or_all(images), split=split)
    encoder = load(model, device=device)
    chosen = kind_for(encoder.form, encoder.card.name, kind)
    chosen.check_settings(settings)
    encoding = encode_detailed(encoder, opened.items(modality), skip_broken=skip_broken)
    output.facts(broken=encoding.broken)
    index = build_index(encoding.embeddings, chosen.name, out, **settings)
    _report(out, index)
    print_set_aside(encoding.broken)
    _remark_on_servers(index)
    remark_on_tars(opened.source)


def add_command(
    folder: FolderArgument,
    collection: SourceArgument,
    model: OwnModelOption = None,
    split: SplitOption = None,
    images: ImagesOption = None,
    device: DeviceOption = None,
    skip_broken: SkipBrokenOption = False,
) -> None:
    """Add what the index does not hold yet. What it holds is left as it is: delete it first to replace it."""
    import pyarrow.compute as pc

    from visir.cli.encoding_report import print_set_aside, remark_on_tars
    from visir.collections import open_collection
    from visir.encoders import encode_detailed
    from visir.retrieval.kinds import open_index
    from visir.retrieval.rows import check_same_model

    index = open_index(folder)
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
    print_set_aside(encoding.broken)
    remark_on_tars(opened.source)


def delete_command(
    folder: FolderArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Documents to delete.")] = None,
    listed: Annotated[Path | None, typer.Option("--ids", help="A file of ids, one a line.")] = None,
) -> None:
    """Delete documents by id. An unknown id is an error, and then nothing is deleted."""
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


def _check_options_of_parts(
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
        "index build",
        [f"{name} does not go with a folder of parts" for name, is_given in given.items() if is_given],
        hint="parts are vectors of pictures already: all of them are indexed",
    )


def _build_of_parts(
    place: str, model: str | None, device: str | None, kind: str | None, out: Path, settings: dict[str, Any]
) -> None:
    """Index a folder of parts, and print what was done."""
    from visir.encoders import Parts, load
    from visir.errors import EmbeddingError
    from visir.retrieval.kinds import kind_for
    from visir.retrieval.parts_index import index_of_parts

    parts = Parts(place)
    if model is not None:
        mine = load(model, device=device).stored_card
        differing = mine.differences(parts.encoder, "image")
        if differing:
            raise EmbeddingError(
                f"{place}: made by {parts.encoder.name}, not by {mine.name} (they differ in {', '.join(differing)}).",
                hint="leave --model out: the parts say which model made them",
            )
    index, summary = index_of_parts(parts, kind_for("dense", parts.encoder.name, kind), out, **settings)
    left_out = {"broken": summary.broken, "given_up": dict(summary.given_up)}
    output.facts(parts=place, files=summary.files, **left_out)
    _report(out, index)
    without = f"; without a vector: {summary.left_out()}" if summary.left_out() else ""
    output.line(f"  of {counted(summary.files, 'parts')} by {parts.encoder.name}{without}")
    _remark_on_servers(index)


def _report(out: Path, index: Index[Any]) -> None:
    """Print what was built."""
    info = index.info()
    output.facts(out=out.absolute(), **output.plain(info))
    output.line(
        f"{out}: {counted(info.documents, DOCUMENT_NAMES[info.modality])}, kind {info.kind}, {place_in_words(info)}"
    )


def _remark_on_servers(index: Index[Any]) -> None:
    """Say what later commands need."""
    from visir.retrieval.remote.addresses import needed_later

    for line in needed_later([index.info().details]):
        output.note(f"  {line}")
