"""`visir demo`: the whole road in one command: collect, encode, train, search, measure, report, profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli.options import (
    out_option,
)
from visir.cli.verbs import examples, heading, streams

SCENES = "scenes:2000"
FLICKR8K = "flickr8k/dataset_flickr8k.karpathy_schema.json.xz"
QUERIES = {
    "scenes": "five kites above a yellow sheep on a farm at night",
    "flickr8k": "a dog runs through the snow",
}
"""What is asked at the end, so that one sees an answer and not only numbers."""
PROFILED = {"scenes": ["--scenes", "100"], "flickr8k": ["--scenes", "0"]}
"""What the profile is made of: so many generated pictures for each task, or the photos."""


@examples(
    "visir demo --out demo",
)
@streams
def demo(
    context: typer.Context,
    out: Annotated[Path, out_option("a folder for everything the demo makes")] = Path("demo"),
    data: Annotated[
        str,
        typer.Option(help="A collection: scenes (drawn here), or flickr8k (real photos under VISIR_DATA)."),
    ] = "scenes",
    open_report: Annotated[bool, typer.Option("--open/--no-open", help="Open the report in a browser.")] = True,
) -> None:
    """See everything once: data, training, search, report.

    From nothing to a report: a collection, frozen features, trained heads, search both ways, measures; and a profile
    of what the model can do.

    Runs other verbs one after the other and prints each command line, so that every step can be repeated by hand.
    """
    import shlex
    import sys
    import webbrowser
    from time import perf_counter

    from visir.training.folder import STATE_FILE

    verbs = context.find_root().command
    which, collection = _choose(data)
    model, result, page = out / "model", out / "result", out / "profile.html"
    steps = [
        ["data", "inspect", collection],
        ["train", f"{which}-heads", "--out", str(model)],
        ["evaluate", collection, "--model", str(model), "--split", "test", "--out", str(result), "--replace"],
        ["search", collection, "--model", str(model), "--split", "test", "-k", "3", QUERIES[which]],
        ["profile", str(model), *PROFILED[which], "--no-at-hand", "--out", str(page)],
    ]
    if which == "flickr8k":
        steps[-1] += ["--data", collection]
    if (model / "visir.json").is_file():
        typer.echo(f"{model} is trained already and is used as it is; remove it to train again")
        del steps[1]
    elif (model / STATE_FILE).is_file():
        steps[1].append("--resume")
    started = perf_counter()
    for step in steps:
        heading(f"\n$ visir {shlex.join(step)}")
        ended = verbs.main(step, standalone_mode=False)
        if isinstance(ended, int) and ended:  # Ctrl-C in the step, for one
            again = ["visir", "demo", "--out", str(out), "--data", data]
            typer.echo(f"\nstopped in this step; to go on from there: {shlex.join(again)}", err=True)
            raise typer.Exit(ended)
    report = (result / "report.html").resolve()
    heading(f"\nDone in {perf_counter() - started:.0f} s. The report: {report}")
    heading(f"What the model can do: {page.resolve()}")
    if open_report and sys.stdout.isatty():
        webbrowser.open(report.as_uri())


def _choose(data: str) -> tuple[str, str]:
    from visir.errors import VisirError, nearest
    from visir.files import data_directory

    if data not in QUERIES:
        raise VisirError(f"unknown --data {data!r}", hint=nearest(data, QUERIES))
    if data == "scenes":
        return data, SCENES
    photos = data_directory() / FLICKR8K
    if not photos.is_file():
        raise VisirError(
            f"{photos}: no such file.",
            hint="set VISIR_DATA to the folder that holds flickr8k/, or use --data scenes",
            code="no-such-file",
        )
    return data, str(photos)
