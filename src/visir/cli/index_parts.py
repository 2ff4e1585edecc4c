"""What the commands of `visir index` share: their options, the model of an index, names of what it holds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli import output
from visir.display import counted

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.records import Modality
    from visir.retrieval.index import Index, IndexInfo

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="The index's folder.", show_default=False)]
QueriesOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file of queries, one a line: id, tab, text.")
]

DOCUMENT_NAMES: dict[Modality, str] = {"image": "images", "text": "captions"}


def model_of_index(index: Index[Any], folder: Path, model: str | None, device: str | None) -> Encoder:
    """Load the model of an index.

    Args:
        index: The index.
        folder: Its folder, for the message.
        model: Where the model lies now; None for where it lay when the index was built.
        device: The device; None for the best there is.
    """
    from visir.encoders import load
    from visir.encoders.loading import load_recorded
    from visir.encoders.own_code import CodeNotTrustedError
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
    from visir.retrieval.remote.addresses import needed_later

    for line in needed_later([index.info().details]):
        output.note(f"  {line}")
