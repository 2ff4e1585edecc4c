"""`visir index`: build an index once, change it, ask it, hand it to other engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli.options import pairs_of

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.records import Embeddings, Modality, Run, SparseEmbeddings
    from visir.search.index import Index
    from visir.search.kinds import Kind

Source = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION",
        help="A file or folder in any known format, FORMAT:PATH, or scenes:2000.",
        show_default=False,
    ),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The index's folder.", show_default=False)]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="The model of the index, where it lies now. Default: where it lay."),
]
Split = Annotated[str | None, typer.Option(help="One split only ('train+val' for several).")]
Images = Annotated[
    list[str] | None, typer.Option("--images", "-i", help="Where the pictures are: folder, zip, tar (repeatable).")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, mps, … Default: the best there is.")]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Leave images aside that cannot be read.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the kind (visir index kinds). May be repeated."),
]
Queries = Annotated[Path | None, typer.Option(help="A file of queries, one a line: id, tab, text.")]


def kinds_command() -> None:
    """List the kinds of index with their settings."""
    from rich.table import Table

    from visir.console import Console
    from visir.search.kinds import KINDS, settings_of_kind

    console = Console()
    for name, kind in KINDS.items():
        needs = f"visir[{kind.extra}]" if kind.extra else "core"
        answers = "exact" if kind.exact else "approximate"
        console.print(f"{name}: {kind.title}", style="bold", markup=False)
        console.print(f"  {kind.vectors} vectors, {answers} answers, needs {needs}", markup=False)
        table = Table.grid(padding=(0, 2))
        for setting, default, about in settings_of_kind(kind):
            table.add_row(f"    {setting}={default}", about)
        console.print(table, markup=False)


def build_command(
    collection: Source,
    model: Annotated[str, typer.Option("--model", "-m", help="A model, or a checkpoint folder.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.", show_default=False)],
    to: Annotated[str, typer.Option(help="What is to be found: images or captions.")] = "images",
    kind: Annotated[
        str | None, typer.Option(help="visir index kinds lists them. Default: exact; inverted for a sparse model.")
    ] = None,
    setting: Settings = None,
    split: Split = None,
    images: Images = None,
    device: Device = None,
    skip_broken: SkipBroken = False,
) -> None:
    """Encode a collection (or take its vectors from the store) and index it.

    Killed, it leaves no folder; the vectors that were encoded are kept, and the same command goes on from them.
    """
    from visir.collections import open_collection
    from visir.encoders import encode_items, load
    from visir.search.folder import check_new_index
    from visir.search.kinds import KINDS, build

    side = _modality(to)
    given = pairs_of(setting)
    check_new_index(out)  # before hours of encoding, not after
    if kind is not None:
        _refuse_settings(KINDS.get(kind), given)
    opened = open_collection(collection, images=_one(images), split=split)
    encoder = load(model, device=device)
    kind = kind or ("inverted" if encoder.form == "sparse" else "exact")
    _refuse_form(KINDS.get(kind), encoder)
    _refuse_settings(KINDS.get(kind), given)
    vectors = encode_items(encoder, opened.items(side), skip_broken=skip_broken)
    index = build(kind, vectors, out, **given)
    said = index.info()
    typer.echo(f"{out}: {said.documents:,} {to}, kind {said.kind}, {said.bytes / 1e6:,.1f} MB")


def add_command(
    folder: Folder,
    collection: Source,
    model: Model = None,
    split: Split = None,
    images: Images = None,
    device: Device = None,
    skip_broken: SkipBroken = False,
) -> None:
    """Add what the index does not hold yet. What it holds is left as it is: delete it first to replace it."""
    import pyarrow.compute as pc

    from visir.collections import open_collection
    from visir.encoders import encode_items
    from visir.search.kinds import load

    index = load(folder)
    opened = open_collection(collection, images=_one(images), split=split)
    encoder = _encoder(index, folder, model, device)
    vectors = encode_items(encoder, opened.items(index.info().modality), skip_broken=skip_broken)
    fresh = vectors.ids.filter(pc.invert(pc.is_in(vectors.ids, index.ids)))
    if len(fresh):
        index.add(vectors.select(fresh))
    typer.echo(f"{folder}: {len(fresh):,} added, {len(vectors) - len(fresh):,} were there; {_counted(index)}")


def delete_command(
    folder: Folder,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Documents to delete.")] = None,
    listed: Annotated[Path | None, typer.Option("--ids", help="A file of ids, one a line.")] = None,
) -> None:
    """Delete documents by id. An unknown id is an error, and then nothing is deleted."""
    from visir.errors import ConfigurationError
    from visir.files import read_lines
    from visir.search.kinds import load

    named = list(dict.fromkeys([*(ids or []), *(line for line in (read_lines(listed) if listed else []) if line)]))
    if not named:
        raise ConfigurationError("no document is named.", hint="visir index delete FOLDER ID…, or --ids FILE")
    index = load(folder)
    index.delete(named)
    typer.echo(f"{folder}: {len(named):,} deleted; {_counted(index)}")


def info_command(folder: Folder) -> None:
    """Say what an index holds."""
    from rich.table import Table

    from visir.console import Console
    from visir.search.kinds import load

    said = load(folder).info()
    table = Table("index", str(folder), show_edge=False)
    rows = {
        "kind": f"{said.kind} ({'exact' if said.exact else 'approximate'})",
        "documents": f"{said.documents:,} {_SIDES[said.modality]}",
        "deleted, not yet removed": f"{said.deleted:,}",
        "dimension": f"{said.dimension:,}",
        "on disk": f"{said.bytes / 1e6:,.1f} MB",
        "encoder": said.encoder,
        **{name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in said.details.items()},
    }
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), value)
    Console().print(table, markup=False)


def search_command(
    folder: Folder,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to look for.")] = None,
    queries: Queries = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers.")] = 10,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write a run: a name in .trec, .parquet or .json.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    model: Model = None,
    setting: Settings = None,
    device: Device = None,
) -> None:
    """Ask an index: one text, or a file of them; captions are found as well as images.

    visir search COLLECTION --index FOLDER shows captions, and where the pictures are.
    """
    from visir.cli.vectors import read_queries
    from visir.errors import ConfigurationError, raise_faults
    from visir.search.formats import write_run
    from visir.search.kinds import load
    from visir.storage import check_new_file

    faults = []
    if (text is None) == (queries is None):
        faults.append("ask with a text or with --queries FILE, one of the two")
    if queries is not None and out is None:
        faults.append("where is the run to be written (--out run.trec)?")
    raise_faults(ConfigurationError, "index search", faults, hint='visir index search FOLDER "a dog on a beach"')
    if out is not None:
        check_new_file(out, replace=force)
    index = load(folder)
    texts = read_queries(queries) if queries else {"query": text or ""}
    asked = _encoder(index, folder, model, device).encode_inputs("text", texts)
    run = index.search(asked, k, **pairs_of(setting))
    if out is not None:
        write_run(run, out, replace=force)
        typer.echo(f"{out}: {len(run):,} queries, {len(run.indices):,} answers")
    else:
        _show(run, asked, index, text or "")


def export_command(
    folder: Folder,
    form: Annotated[str, typer.Option(help="ciff, anserini or seismic.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write into.", show_default=False)],
    queries: Queries = None,
    model: Model = None,
    device: Device = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Write the vectors of a sparse index, and queries, as another engine reads them.

    ciff: PISA and others; anserini: JsonVectorCollection; seismic: JSON lines. Deleted documents are left out.
    """
    from visir.cli.vectors import read_queries
    from visir.errors import ConfigurationError
    from visir.records import SparseEmbeddings
    from visir.search.kinds import load
    from visir.search.sparse.export import EXPORTS, export

    EXPORTS.get(form)
    index = load(folder)
    documents = index.documents()
    if not isinstance(documents, SparseEmbeddings):
        raise ConfigurationError(
            f"{folder}: holds dense vectors; these forms are of weighted words.",
            hint="visir encode COLLECTION --model MODEL --out FOLDER writes dense vectors as NPY",
        )
    asked = None
    if queries:
        asked = _encoder(index, folder, model, device).encode_inputs("text", read_queries(queries))
    for path, weights in export(form, out, documents, asked, replace=force).items():  # type: ignore[arg-type]
        typer.echo(f"{path}: {path.stat().st_size / 1e6:,.1f} MB, {weights}")


def _show(run: Run, asked: Embeddings | SparseEmbeddings, index: Index[Any], text: str) -> None:
    """The answers to one text; with a sparse index also which terms matched."""
    from rich.table import Table

    from visir.cli.explained import explained
    from visir.console import Console

    answers = run.answer("query")
    table = Table(title=f"{_SIDES[run.gallery.modality]} for “{text}”", title_justify="left", box=None)
    table.add_column("rank", justify="right")
    table.add_column("score", justify="right")
    table.add_column("id", overflow="fold")
    terms = explained(asked, index.select([one for one, _ in answers]), answers)
    if terms:
        table.add_column("matched terms", overflow="fold")
    for rank, (one, score) in enumerate(answers, 1):
        table.add_row(str(rank), f"{score:.4f}", one, *([terms[one]] if terms else []))
    Console().print(table, markup=False)
    if not answers:
        typer.echo("no document shares a term with it")


def _encoder(index: Index[Any], folder: Path, model: str | None, device: str | None) -> Encoder:
    """The model of an index."""
    from visir.encoders import load
    from visir.errors import VisirError

    name = model or index.info().encoder
    try:
        return load(name, device=device)
    except VisirError as fault:
        if model is not None:
            raise
        raise type(fault)(
            f"{folder}: its model, {name}, cannot be loaded: {fault.message}", hint="say where it is now: --model MODEL"
        ) from fault


def _counted(index: Index[Any]) -> str:
    said = index.info()
    return f"{said.documents:,} {_SIDES[said.modality]} in all"


_SIDES: dict[Modality, str] = {"image": "images", "text": "captions"}


def _modality(to: str) -> Modality:
    from visir.errors import ConfigurationError, nearest

    for side, name in _SIDES.items():
        if name == to:
            return side
    raise ConfigurationError(f"--to {to}: there is no such side.", hint=nearest(to, _SIDES.values()))


def _refuse_settings(kind: Kind, given: dict[str, Any]) -> None:
    """Settings and packages are looked at before a collection is encoded."""
    from visir.search.settings import settings_of

    stated = getattr(kind.index(), "settings_type", None)
    if stated is not None:
        settings_of(kind.name, stated, given)


def _refuse_form(kind: Kind, encoder: Encoder) -> None:
    from visir.errors import ConfigurationError
    from visir.search.kinds import kinds_for

    if kind.vectors != encoder.form:
        raise ConfigurationError(
            f"an index of kind {kind.name!r} holds {kind.vectors} vectors; those by {encoder.card.name} are "
            f"{encoder.form}.",
            hint=f"kinds for {encoder.form} vectors: {', '.join(kinds_for(encoder.form))}",
        )


def _one(images: list[str] | None) -> Any:
    return images[0] if images and len(images) == 1 else images


COMMANDS: dict[str, Callable[..., None]] = {
    "kinds": kinds_command,
    "build": build_command,
    "add": add_command,
    "delete": delete_command,
    "info": info_command,
    "search": search_command,
    "export": export_command,
}
"""What can be done with a single index, in the order of the help; `visir.library` has more for places."""

app = typer.Typer(name="index", help="Build, change, ask and export single indexes.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Build, change, ask and export single indexes."""


for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
