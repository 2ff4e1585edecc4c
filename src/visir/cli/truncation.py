"""`visir truncation`: what it costs that a model does not read the end of long captions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from visir.cli import output
from visir.cli.options import (
    BatchSizeOption,
    DeviceOption,
    DtypeOption,
    ImagesOption,
    MeasureOption,
    ModelOption,
    SourceArgument,
    SplitOption,
    single_or_all,
)
from visir.cli.verbs import examples


@examples(
    "visir truncation docci/ --model openai/clip-vit-base-patch32 --split test",
    "visir truncation captions.csv --model all-MiniLM-L6-v2 --count-only",
)
def truncation(
    collection: SourceArgument,
    model: ModelOption,
    split: SplitOption = None,
    images: ImagesOption = None,
    measure: MeasureOption = None,
    count_only: Annotated[
        bool, typer.Option("--count-only", help="Count tokens and words; encode and search nothing.")
    ] = False,
    device: DeviceOption = None,
    dtype: DtypeOption = "float32",
    batch_size: BatchSizeOption = None,
) -> None:
    """Say what truncation costs.

    Say how many captions are longer than the model reads, what share of their words is lost, and how often cut and
    whole captions find their image, with intervals, and by length.
    """
    from visir.evaluation.truncation_cost import truncation as measured
    from visir.reports.views import truncation as view

    options: dict[str, Any] = {"batch_size": batch_size} if batch_size else {}
    outcome = measured(
        collection,
        model,
        split=split,
        measures=measure,
        evaluate=not count_only,
        images=single_or_all(images),
        device=device,
        dtype=dtype,
        **options,
    )
    tables = view.tables(outcome)
    parts = {"by_truncation": outcome.by_truncation, "by_length": outcome.by_length, "differences": outcome.differences}
    rows = {name: part.to_arrow().to_pylist() for name, part in parts.items() if part is not None}
    output.answer(output.plain({**outcome.to_arrow().to_pylist()[0], **rows}))
    for table in tables:
        output.table(table)
