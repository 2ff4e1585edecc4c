"""`visir submit`: answers to a test split whose judgements are not published, as the benchmark takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from visir.cli import output
from visir.cli.options import (
    BatchSizeOption,
    ComposeOption,
    DeviceOption,
    DtypeOption,
    ImagesOption,
    OptionalModelOption,
    ReplaceOption,
    out_option,
    single_or_all,
)
from visir.cli.verbs import examples
from visir.errors import ConfigurationError


@examples(
    "visir submit CIRCO/ --model openai/clip-vit-base-patch32 --compose 'sum(0.5)' --out submission.json",
    "visir submit cirr/ --model runs/combiner --out submission.json",
)
def submit(
    benchmark: Annotated[
        str,
        typer.Argument(metavar="BENCHMARK", help="The folder of CIRCO or CIRR, or FORMAT:PATH.", show_default=False),
    ],
    out: Annotated[Path, out_option("the file; CIRR's two files end in -recall and -recall_subset")],
    model: OptionalModelOption = None,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="TASK=FILE", help="A run made elsewhere: it2i=FILE. Repeatable."),
    ] = None,
    split: Annotated[str, typer.Option(help="The split: test. Its judgements are not published.")] = "test",
    images: ImagesOption = None,
    compose: ComposeOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = "float32",
    batch_size: BatchSizeOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Write the answers that a benchmark's server takes.

    Answer the queries of a split whose judgements the makers of a benchmark keep. Nothing is measured here: the file is
    handed in on their page.
    """
    from visir.evaluation.submit import submit as write

    if (model is None) == (not run):
        raise ConfigurationError("name a model or runs.", hint="--model NAME, or --run it2i=FILE")
    system: Any = model
    if run:
        pairs = [name.partition("=") for name in run]
        if not all(equals for _, equals, _ in pairs):
            raise ConfigurationError("of which task is a run?", hint="--run it2i=FILE")
        system = {task: path for task, _, path in pairs}
    options: dict[str, Any] = {"batch_size": batch_size} if batch_size else {}
    submission = write(
        benchmark,
        system,
        out,
        split=split,
        images=single_or_all(images),
        compose=compose,
        replace=replace,
        device=device,
        dtype=dtype,
        **options,
    )
    for note in submission.notes:
        output.line(note)
    output.facts(files=[str(file.absolute()) for file in submission.files], where=submission.where)
    for file in submission.files:
        output.line(f"written: {file}")
    output.line(f"hand in: {submission.where}")
