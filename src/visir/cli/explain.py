"""`visir explain`: which reading of the protocol gives the published number?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from visir.evaluation.rescoring import Material


def explain(
    result: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT_OR_RUN",
            help="A folder that visir evaluate --out wrote, or a log of the brittleness paper.",
            show_default=False,
        ),
    ],
    published: Annotated[
        str, typer.Option(help="The published values: a JSON or TOML file, or the name of a shipped table.")
    ],
    system: Annotated[str | None, typer.Option(help="The system's name in the published table.")] = None,
    row: Annotated[str | None, typer.Option("--on", help="The collection's name in the published table.")] = None,
    collection: Annotated[
        str | None, typer.Option(help="The collection, to search anew with --model where the run is too short.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model to search anew with.")] = None,
    limit: Annotated[int, typer.Option(help="How many readings are shown.")] = 8,
) -> None:
    """Re-score a run under each reading and rank the readings by distance to the published numbers.

    Readings: which recall, which captions of each image, which candidates, folds, ties, depth. What the run does not
    allow to compute is listed with the reason.
    """
    from rich.console import Console

    from visir.evaluation.explain import explain as explain_run
    from visir.evaluation.published import load
    from visir.reports import explain_table, to_terminal

    table = load(published)
    material, name, source = _material(result, collection, model)
    wanted = system or (name if len(table.systems) > 1 else None)
    found = explain_run(
        material,
        table.row(wanted, row or (source if len(table.collections) > 1 else None)),
        decimals=table.decimals,
    )
    console = Console()
    console.print(to_terminal(explain_table(found, limit=limit, decimals=table.decimals)))
    console.print("not computable from this run:", style="dim")
    for reading, reason in found.not_computable:
        console.print(f"  {reading}: {reason}", style="dim", soft_wrap=True, highlight=False, markup=False)


def _material(path: Path, collection: str | None, model: str | None) -> tuple[Material, str, str]:
    """What can be re-scored, and the names of system and collection."""
    from visir.errors import ConfigurationError
    from visir.evaluation.brittleness_runs import evaluate_log, is_log, read
    from visir.evaluation.rescoring import Material
    from visir.evaluation.results import load_evaluation

    evaluation = evaluate_log(read(path)) if is_log(path) else load_evaluation(path)
    result = evaluation.result
    fixed = {
        direction: {name: value for name, value in result.aggregates[direction].items() if name.startswith("dcg_cm")}
        for direction in evaluation.runs
    }
    vectors = None
    if (collection is None) != (model is None):
        raise ConfigurationError("to search anew, both are needed.", hint="--collection COLLECTION --model MODEL")
    if collection is not None and model is not None:
        from visir.collections import open_collection
        from visir.encoders import encode, load

        opened = open_collection(collection)
        if opened.fingerprint != result.protocol.collection_fingerprint:
            raise ConfigurationError(
                f"{collection} is not the collection of this result (fingerprint {opened.fingerprint[:12]}, the "
                f"result's {result.protocol.collection_fingerprint[:12]}).",
                hint="name the collection that was evaluated",
            )
        split = result.protocol.split
        whole = opened if any("of the collection" in line for line in result.protocol.galleries.values()) else None
        part = whole or opened.split(split)
        encoder = load(model)
        vectors = (encode(encoder, part, "image"), encode(encoder, part, "text"))
    material = Material(evaluation.runs, evaluation.qrels, evaluation.captions, vectors, fixed)
    return material, result.system, result.protocol.collection
