"""`visir index search`, `export`: search a single index, or hand it to another engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli.index_parts import (
    DOCUMENT_NAMES,
    FolderArgument,
    IndexModelOption,
    QueriesOption,
    SettingsOption,
    model_of_index,
)
from visir.cli.options import DeviceOption, name_value_pairs

if TYPE_CHECKING:
    from visir.records import Embeddings, Run, SparseEmbeddings
    from visir.retrieval.index import Index


def search_command(
    folder: FolderArgument,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to look for.")] = None,
    queries: QueriesOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers.")] = 10,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write a run: a name in .trec, .parquet or .json.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a file that is there.")] = False,
    model: IndexModelOption = None,
    setting: SettingsOption = None,
    device: DeviceOption = None,
) -> None:
    """Search an index with one text, or with a file of them.

    visir search COLLECTION --index FOLDER shows captions, and where the pictures are.
    """
    from visir.cli.vectors import read_queries
    from visir.errors import ConfigurationError, raise_faults
    from visir.retrieval.formats import write_run
    from visir.retrieval.kinds import open_index
    from visir.storage import check_new_file

    faults = []
    if (text is None) == (queries is None):
        faults.append("ask with a text or with --queries FILE, one of the two")
    if queries is not None and out is None:
        faults.append("where is the run to be written (--out run.trec)?")
    raise_faults(ConfigurationError, "index search", faults, hint='visir index search FOLDER "a dog on a beach"')
    if out is not None:
        check_new_file(out, replace=replace)
    index = open_index(folder)
    query_vectors = model_of_index(index, folder, model, device).encode_inputs(
        "text", read_queries(queries) if queries else {"query": text or ""}
    )
    run = index.search(query_vectors, k, **name_value_pairs(setting))
    if out is not None:
        write_run(run, out, replace=replace)
        typer.echo(f"{out}: {len(run):,} queries, {len(run.indices):,} answers")
    else:
        _show(run, query_vectors, index, text or "")


def export_command(
    folder: FolderArgument,
    form: Annotated[str, typer.Option(help="ciff, anserini or seismic.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write into.", show_default=False)],
    queries: QueriesOption = None,
    model: IndexModelOption = None,
    device: DeviceOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace files that are there.")] = False,
) -> None:
    """Write the vectors of a sparse index, and queries, as another engine reads them.

    ciff: PISA and others; anserini: JsonVectorCollection; seismic: JSON lines. Deleted documents are left out.
    """
    from visir.cli.vectors import read_queries
    from visir.errors import ConfigurationError
    from visir.records import SparseEmbeddings
    from visir.retrieval.kinds import open_index
    from visir.retrieval.sparse.export import EXPORTS, export

    EXPORTS.get(form)
    index = open_index(folder)
    documents = index.documents()
    if not isinstance(documents, SparseEmbeddings):
        raise ConfigurationError(
            f"{folder}: holds dense vectors; these forms are of weighted words.",
            hint="visir encode COLLECTION --model MODEL --out FOLDER writes dense vectors as NPY",
        )
    query_vectors = (
        model_of_index(index, folder, model, device).encode_inputs("text", read_queries(queries)) if queries else None
    )
    for path, weights in export(form, out, documents, query_vectors, replace=replace).items():  # type: ignore[arg-type]
        typer.echo(f"{path}: {path.stat().st_size / 1e6:,.1f} MB, {weights}")


def _show(run: Run, query_vectors: Embeddings | SparseEmbeddings, index: Index[Any], text: str) -> None:
    """The answers to one text; with a sparse index also which terms matched."""
    from rich.table import Table

    from visir.cli.matched_terms import matched_terms
    from visir.console import Console

    answers = run.answer("query")
    table = Table(title=f"{DOCUMENT_NAMES[run.gallery.modality]} for “{text}”", title_justify="left", box=None)
    table.add_column("rank", justify="right")
    table.add_column("score", justify="right")
    table.add_column("id", overflow="fold")
    terms = matched_terms(query_vectors, index.select([document for document, _ in answers]), answers)
    if terms:
        table.add_column("matched terms", overflow="fold")
    for rank, (document, score) in enumerate(answers, 1):
        table.add_row(str(rank), f"{score:.4f}", document, *([terms[document]] if terms else []))
    Console().print(table, markup=False)
    if not answers:
        typer.echo("no document shares a term with it")
