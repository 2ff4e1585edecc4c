"""`visir truncation`: what it costs that a model does not read the end of long captions."""

from __future__ import annotations

from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import DeviceOption, MeasureOption, ModelOption, SplitOption
from visir.cli.verbs import examples


@examples(
    "visir truncation docci/ --model openai/clip-vit-base-patch32 --split test",
    "visir truncation captions.csv --model all-MiniLM-L6-v2 --count-only",
)
def truncation(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION", help="A file or folder in any known format, FORMAT:PATH.", show_default=False
        ),
    ],
    model: ModelOption,
    split: SplitOption = None,
    measure: MeasureOption = None,
    count_only: Annotated[
        bool, typer.Option("--count-only", help="Count tokens and words; encode and search nothing.")
    ] = False,
    device: DeviceOption = None,
) -> None:
    """Say what truncation costs.

    Say how many captions are longer than the model reads, what share of their words is lost, and how often cut and
    whole captions find their image, with intervals, and by length.
    """
    from visir.evaluation.truncation_cost import truncation as measured
    from visir.reports.views import truncation as view

    outcome = measured(collection, model, split=split, measures=measure, evaluate=not count_only, device=device)
    tables = view.tables(outcome)
    parts = {"by_truncation": outcome.by_truncation, "by_length": outcome.by_length, "differences": outcome.differences}
    rows = {name: part.to_arrow().to_pylist() for name, part in parts.items() if part is not None}
    output.answer(output.plain({**outcome.to_arrow().to_pylist()[0], **rows}))
    for table in tables:
        output.table(table)
