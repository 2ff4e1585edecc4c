"""`visir doctor`: what is installed, which devices there are, which models load."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import option
from visir.cli.verbs import examples, heading, streams

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from rich.table import Table


FOR_DEVELOPERS = frozenset({"test", "docs", "dev", "ci"})
"""Extras of those who work on visir: what they bring says nothing to somebody who uses it."""
LOCAL_MODELS = ("pixels", "bow", "mobilenet_v2", "st:all-MiniLM-L6-v2")
"""Models that need no model hub: the ones a doctor can try anywhere."""


@examples(
    "visir doctor",
    "visir doctor --load openai/clip-vit-base-patch32",
)
def doctor(load: Annotated[list[str] | None, option("--load", "-l")] = None) -> None:
    """Say what is installed, and which models work here.

    Say what is installed, which devices there are, and which models load here.

    Args:
        load: Also try to load this model (repeatable).
    """
    output.rich_table(_packages(), markup=True)
    output.rich_table(_machine(), markup=True)
    models, healthy = _models([*LOCAL_MODELS, *(load or [])], required=set(load or []))
    output.rich_table(models, markup=True)
    if not healthy:
        raise typer.Exit(1)


def _packages() -> Table:
    from importlib.metadata import PackageNotFoundError, distribution, version

    from packaging.requirements import Requirement
    from rich.table import Table

    table = Table("package", "installed", "wanted", "for", title="packages", title_justify="left")
    for requirement, extra in _smallest_extras(map(Requirement, distribution("visir").requires or [])):
        name = requirement.name.lower()
        try:
            installed = version(name)
            good = requirement.specifier.contains(installed, prereleases=True)
            state = installed if good else f"[red]{installed}: outside {requirement.specifier}[/]"
        except PackageNotFoundError:
            state = "[red]missing[/]" if extra == "core" else f"[dim]no: pip install 'visir\\[{extra}]'[/]"
        table.add_row(name, state, str(requirement.specifier), extra)
    return table


def _smallest_extras(requirements: Iterable[Requirement]) -> Iterator[tuple[Requirement, str]]:
    """Each package once, with the smallest extra that brings it; "core" for what is always there."""
    by_extra: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        named = re.search(r"extra == ['\"]([^'\"]+)", str(requirement.marker or ""))
        by_extra.setdefault(named[1] if named else "core", []).append(requirement)
    listed = {"visir"}
    for extra in sorted(by_extra, key=lambda item: (item != "core", len(by_extra[item]), item)):
        if extra == "all" or extra in FOR_DEVELOPERS:
            continue
        for requirement in by_extra[extra]:
            if requirement.name.lower() not in listed:
                listed.add(requirement.name.lower())
                yield requirement, extra


def _machine() -> Table:
    import os
    import platform
    from importlib.util import find_spec

    from rich.table import Table

    import visir
    from visir.files import cache_directory, data_directory

    table = Table("what", "is", title="machine", title_justify="left")
    table.add_row("visir", visir.__version__)
    table.add_row("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    table.add_row("cores", str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()))
    if find_spec("torch"):
        import torch

        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        table.add_row("torch devices", ", ".join(["cpu", *gpus]))
    else:
        table.add_row("torch devices", "[dim]torch is not installed[/]")
    data = data_directory()
    if "VISIR_DATA" in os.environ or data.is_dir():
        table.add_row("VISIR_DATA", f"{data} ({'there' if data.is_dir() else 'not there'})")
    table.add_row("cache", str(cache_directory()))
    return table


def _models(names: list[str], required: set[str]) -> tuple[Table, bool]:
    from time import perf_counter

    from rich.markup import escape
    from rich.table import Table

    from visir.encoders import load
    from visir.errors import VisirError

    table = Table("model", "loads?", "encodes", "d", "seconds", title="models", title_justify="left")
    healthy = True
    for name in dict.fromkeys(names):
        start = perf_counter()
        try:
            encoder = load(name)
        except VisirError as fault:
            healthy = healthy and name not in required
            table.add_row(name, f"[{'red' if name in required else 'dim'}]no: {escape(fault.message)}[/]", "", "", "")
            continue
        table.add_row(
            name,
            "[green]yes[/]",
            " and ".join(sorted(encoder.modalities)),
            str(encoder.dimension),
            f"{perf_counter() - start:.1f}",
        )
    return table, healthy


# `visir demo`: the whole road in one command: collect, encode, train, search, measure, report, profile.


SCENES = "scenes:2000"
FLICKR8K = "flickr8k/dataset_flickr8k.karpathy_schema.json.xz"
QUERIES = {
    "scenes": "five kites above a yellow sheep on a farm at night",
    "flickr8k": "a dog runs through the snow",
}
"""What is asked at the end, so that one sees an answer and not only numbers."""
PROFILED = {"scenes": ["--scenes", "100"], "flickr8k": ["--scenes", "0"]}
"""What the profile is made of: so many generated pictures for each task, or the photos."""


@examples("visir demo --out demo")
@streams
def demo(
    context: typer.Context,
    out: Path = Path("demo"),
    data: Annotated[str, option()] = "scenes",
    open_report: Annotated[bool, option("--open/--no-open")] = True,
) -> None:
    """See everything once: data, training, search, report.

    From nothing to a report: a collection, frozen features, trained heads, search both ways, measures; and a profile
    of what the model can do.

    Runs other verbs one after the other and prints each command line, so that every step can be repeated by hand.

    Args:
        out: Where to write: a folder for everything the demo makes.
        data: A collection: scenes (drawn here), or flickr8k (real photos under VISIR_DATA).
        open_report: Open the report in a browser.
    """
    import shlex
    import sys
    import webbrowser
    from time import perf_counter

    from visir.training.trained import STATE_FILE

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
