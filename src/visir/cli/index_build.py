"""`visir index build`, `add`, `delete`: make an index from a collection, and change it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.index_parts import (
    DOCUMENT_NAMES,
    FolderArgument,
    model_of_index,
    remark_on_servers,
    report_index,
    size_in_words,
)
from visir.cli.indexed_parts import add_of_parts, build_of_parts, check_options_of_parts
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

if TYPE_CHECKING:
    from visir.records import Modality


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
    from visir.collections.own_folders import asked_once
    from visir.encoders import encode_detailed, load
    from visir.encoders.parts_folder import check_parts_can_be_told, is_parts
    from visir.errors import ConfigurationError
    from visir.retrieval.folder import check_new_index
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
    collection: SourceArgument,
    model: OwnModelOption = None,
    split: SplitOption = None,
    images: ImagesOption = None,
    device: DeviceOption = None,
    skip_broken: SkipBrokenOption = False,
) -> None:
    """Add what the index does not hold yet. What it holds is left as it is: delete it first to replace it.

    Of a folder of parts (visir encode --parts) nothing is encoded. Ids of parts begin with the name of their file. So
    add parts to an index of parts, and not the files that they were encoded from: those have other ids.
    """
    import pyarrow.compute as pc

    from visir.cli.encoding_report import print_set_aside, remark_on_tars
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
