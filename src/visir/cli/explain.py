"""`visir explain`: which reading of the protocol gives the published number?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.completion import complete_published
from visir.cli.options import (
    OptionalModelOption,
    PublishedCollectionOption,
    PublishedSystemOption,
)
from visir.cli.verbs import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visir.evaluation.explaining import Explanation
    from visir.evaluation.published import Published, PublishedRow
    from visir.evaluation.explaining import Material


@examples(
    "visir explain results/clip --published brittleness-table-2 --as CLIP",
)
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
        str,
        typer.Option(
            help="Published values: a JSON or TOML file, or the name of a table that comes with visir.",
            autocompletion=complete_published,
            show_default=False,
        ),
    ],
    system: PublishedSystemOption = None,
    row: PublishedCollectionOption = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="COLLECTION",
            help="A collection: the one of the result, to search anew with --model where the run is too short.",
        ),
    ] = None,
    model: OptionalModelOption = None,
    limit: Annotated[int, typer.Option(help="How many readings are shown.")] = 5,
) -> None:
    """Find the reading that gives a published number.

    Re-score a run under each reading and rank the readings by distance to the published numbers.

    Readings: which recall, which captions of each image, which candidates, folds, ties, depth. What the run does not
    allow to compute is listed with the reason.
    """
    from visir.evaluation.explaining import explain as explain_run
    from visir.evaluation.published import load

    table = load(published)
    material, name, source = _material(result, data, model)
    system_name = system or (name if len(table.systems) > 1 else None)
    chosen = table.row(system_name, row or (source if len(table.collections) > 1 else None))
    explanation = explain_run(material, chosen, decimals=table.decimals)
    output.answer(
        {
            "sentence": explanation.sentence,
            "remarks": explanation.remarks,
            "ranks": explanation.scored,
            "readings": [
                {
                    "reading": str(fit.reading),
                    "distance": fit.distance,
                    "reproduced": fit.reproduced,
                    "values": fit.values,
                    "same": [str(item) for item in fit.same],
                }
                for fit in explanation.fits[:limit]
            ],
            "not_computable": dict(explanation.not_computable),
        }
    )
    _show(explanation, limit, table.decimals)
    show_doubts(table, chosen, [(value.task, value.label) for value in explanation.best.values])


def _show(explanation: Explanation, limit: int, decimals: int) -> None:
    """Readings are numbered and listed below the values: their words would not fit beside them."""
    from rich import box
    from rich.table import Table

    from visir.evaluation.published.judge import decimals_of

    console = output.console_of_verb()
    fits = explanation.fits[:limit]
    values = Table(box=box.SIMPLE_HEAD)
    values.add_column("", no_wrap=True)
    for heading in ("published", *(f"[{number}]" for number in range(1, len(fits) + 1))):
        values.add_column(heading.replace("[", "\\["), justify="right", no_wrap=True)
    names = {(value.task, value.label): value.published for fit in fits for value in fit.values}
    for (task, label), published in names.items():
        printed = decimals_of(label, decimals)
        cells = [f"{task} {label}", f"{published:.{printed}f}"]
        for fit in fits:
            ours = [value for value in fit.values if (value.task, value.label) == (task, label)]
            digits = f"{ours[0].ours:.{printed}f}" if ours else "–"
            cells.append(f"[bold]{digits}[/bold]" if ours and ours[0].digits != "off" else digits)
        values.add_row(*cells)
    console.print(values)
    console.print(f"Ranks: {explanation.scored}", markup=False, soft_wrap=True)
    console.print("Bold: to the printed digits. Readings, the nearest first (mean relative difference):")
    for number, fit in enumerate(fits, 1):
        exact = f"{fit.reproduced} of {len(fit.values)} to the printed digits"
        console.print(f"[{number}] {fit.reading}: {fit.distance:.2%}, {exact}", markup=False, soft_wrap=True)
        if fit.same:
            same = " / ".join(map(str, fit.same))
            console.print(f"    the same numbers come from: {same}", style="dim", markup=False, soft_wrap=True)
    if len(explanation.fits) > limit:
        console.print(f"{len(explanation.fits) - limit} further readings are not shown (--limit)", style="dim")
    console.print("Not computable from what is at hand:", style="dim")
    for reading, reason in explanation.not_computable:
        console.print(f"- {reading}: {reason}", style="dim", soft_wrap=True, markup=False)
    for sentence in (explanation.sentence, *explanation.remarks):
        console.print(f"\n→ {sentence}", style="bold", markup=False, soft_wrap=True)


def show_doubts(table: Published, row: PublishedRow, values: Sequence[tuple[str, str]]) -> None:
    """Which of these (task, label) are doubtful in print, and why: once for each reason."""

    doubts = {label: table.doubt(row, *label) for label in values}
    for reason in dict.fromkeys(filter(None, doubts.values())):
        about = ", ".join(" ".join(name) for name, doubt in doubts.items() if doubt == reason)
        output.console_of_verb().print(
            f"doubtful in print, {about}: {reason}", style="dim", markup=False, soft_wrap=True
        )


def _material(path: Path, collection: str | None, model: str | None) -> tuple[Material, str, str]:
    """What can be re-scored, and the names of system and collection."""
    from visir.errors import ConfigurationError
    from visir.evaluation.brittleness_runs import evaluate_log, is_log, read
    from visir.evaluation.explaining import Material
    from visir.evaluation.results import load_evaluation

    evaluation = evaluate_log(read(path)) if is_log(path) else load_evaluation(path)
    result = evaluation.result
    vectors = None
    if (collection is None) != (model is None):
        raise ConfigurationError("to search anew, both are needed.", hint="--data COLLECTION --model MODEL")
    if collection is not None and model is not None:
        if result.protocol.rerank:
            raise ConfigurationError(
                f"{path} is re-ranked ({result.protocol.rerank}); a new search would leave the second stage out.",
                hint="explain it without --data and --model",
            )
        from visir.collections import open_collection
        from visir.encoders import load
        from visir.evaluation.systems import EncoderSystem

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
        system = EncoderSystem(encoder)
        vectors = (system.vectors(part.items("image"), "document"), system.vectors(part.items("text"), "query"))
    return Material.of(evaluation, vectors), result.system, result.protocol.collection
