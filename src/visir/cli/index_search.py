"""`visir index search`, `export`: search a single index, or hand it to another engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visir.cli import output
from visir.cli.index_parts import (
    DOCUMENT_NAMES,
    FolderArgument,
    QueriesOption,
    model_of_index,
)
from visir.cli.options import (
    CountOption,
    DeviceOption,
    IndexSetOption,
    OwnModelOption,
    ReplaceOption,
    name_value_pairs,
    out_option,
)
from visir.display import counted

if TYPE_CHECKING:
    from visir.records import Run, Vectors
    from visir.retrieval.index import Index


def search_command(
    folder: FolderArgument,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to look for.")] = None,
    queries: QueriesOption = None,
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Look for what fits this picture, instead of a text.")
    ] = None,
    k: CountOption = 10,
    out: Annotated[Path | None, out_option("a run, named .trec, .parquet or .json")] = None,
    replace: ReplaceOption = False,
    model: OwnModelOption = None,
    setting: IndexSetOption = None,
    device: DeviceOption = None,
) -> None:
    """Search an index with one text, with a picture, or with a file of texts.

    visir search COLLECTION --index FOLDER shows captions, and where the pictures are.
    """
    from visir.cli.vectors import picture_vector, read_queries
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
    form: Annotated[str, typer.Option("--layout", help="ciff, anserini or seismic.", show_default=False)],
    out: Annotated[Path, out_option("a folder", show_default=False)],
    queries: QueriesOption = None,
    model: OwnModelOption = None,
    device: DeviceOption = None,
    replace: ReplaceOption = False,
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
    from rich.table import Table

    from visir.cli.matched_terms import matched_terms

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
    table = Table(
        title=f"{DOCUMENT_NAMES[run.gallery.modality]} for “{next(iter(query.values()))}”",
        title_justify="left",
        box=None,
    )
    table.add_column("rank", justify="right")
    table.add_column("score", justify="right")
    table.add_column("id", overflow="fold")
    if terms:
        table.add_column("matched terms", overflow="fold")
    for rank, (document, score) in enumerate(answers, 1):
        table.add_row(str(rank), f"{score:.4f}", document, *([terms[document]] if terms else []))
    output.rich_table(table)
    if not answers:
        output.line("no document shares a term with it")
