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
    ModelOption,
    NewFolder,
    OwnModelOption,
    SkipBrokenOption,
    SourceArgument,
    SplitOption,
    name_value_pairs,
    single_or_all,
)
from visir.display import counted

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.records import Modality
    from visir.retrieval.kinds import Kind


def build_command(
    collection: SourceArgument,
    model: ModelOption,
    out: NewFolder,
    to: Annotated[str, typer.Option(help="What is found: images or captions.")] = "images",
    kind: KindOption = None,
    setting: IndexSetOption = None,
    split: SplitOption = None,
    images: ImagesOption = None,
    device: DeviceOption = None,
    skip_broken: SkipBrokenOption = False,
) -> None:
    """Encode a collection (or take its vectors from the store) and index it.

    Killed, it leaves no folder; the vectors that were encoded are kept, and the same command goes on from them. More
    than a million vectors of kind ivf are indexed part by part: that leaves an unfinished folder, and the same command
    goes on in it.
    """
    from visir.cli.encoding_report import remark_on_tars
    from visir.collections import open_collection
    from visir.encoders import encode_items, load
    from visir.retrieval.folder import check_new_index
    from visir.retrieval.kinds import KINDS, USUAL_KINDS, build_index
    from visir.retrieval.remote.addresses import needed_later

    modality = _modality_of(to)
    settings = name_value_pairs(setting)
    check_new_index(out)  # before hours of encoding, not after
    if kind is not None:
        _check_settings(KINDS.get(kind), settings)
    opened = open_collection(collection, images=single_or_all(images), split=split)
    encoder = load(model, device=device)
    kind = kind or USUAL_KINDS[encoder.form]
    _check_form(KINDS.get(kind), encoder)
    _check_settings(KINDS.get(kind), settings)
    vectors = encode_items(encoder, opened.items(modality), skip_broken=skip_broken)
    index = build_index(vectors, kind, out, **settings)
    info = index.info()
    output.facts(out=out.absolute(), **output.plain(info))
    output.line(f"{out}: {counted(info.documents, to)}, kind {info.kind}, {place_in_words(info)}")
    for line in needed_later([info.details]):
        output.note(f"  {line}")
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

    from visir.cli.encoding_report import remark_on_tars
    from visir.collections import open_collection
    from visir.encoders import encode_items
    from visir.retrieval.kinds import open_index
    from visir.retrieval.rows import check_same_model

    index = open_index(folder)
    opened = open_collection(collection, images=single_or_all(images), split=split)
    encoder = model_of_index(index, folder, model, device)
    check_same_model(encoder.card, index.encoder, f"{folder}: vectors by {encoder.card.name}")  # before long work
    vectors = encode_items(encoder, opened.items(index.info().modality), skip_broken=skip_broken)
    new_ids = vectors.ids.filter(pc.invert(pc.is_in(vectors.ids, index.ids)))
    index.add(vectors.select(new_ids))  # none is new: their form and dimension are checked all the same
    output.facts(index=folder, added=len(new_ids), there=len(vectors) - len(new_ids), **output.plain(index.info()))
    output.line(f"{folder}: {len(new_ids):,} added, {len(vectors) - len(new_ids):,} were there; {size_in_words(index)}")
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


def _check_settings(kind: Kind, settings: dict[str, Any]) -> None:
    """Check settings, and that the packages are installed, before a collection is encoded."""
    from visir.retrieval.settings import settings_of

    settings_type = getattr(kind.index(), "settings_type", None)
    if settings_type is not None:
        settings_of(kind.name, settings_type, settings)


def _check_form(kind: Kind, encoder: Encoder) -> None:
    """Check that an index of this kind holds the encoder's vectors, dense or sparse."""
    from visir.errors import ConfigurationError
    from visir.retrieval.kinds import kinds_for

    form = encoder.form
    if kind.vectors != form:
        raise ConfigurationError(
            f"an index of kind {kind.name!r} holds {kind.vectors} vectors; those by {encoder.card.name} are {form}.",
            hint=f"kinds for {form} vectors: {', '.join(kinds_for(form))}",
        )
