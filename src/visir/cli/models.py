"""`visir models`: which models there are, and everything about one of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.completion import complete_model, of
from visir.cli.headings import heading
from visir.cli.verbs import examples
from visir.terminal import safe


@examples(
    "visir models",
    "visir models siglip",
    "visir models german --takes image",
    "visir models --takes image --takes text --form multi-vector",
    "visir models google/siglip2-base-patch16-224",
)
def models(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORDS]",
            help="A model's name or folder: everything about it. Other words (siglip, german): models that have them.",
            autocompletion=complete_model,
            show_default=False,
        ),
    ] = None,
    takes: Annotated[
        list[str] | None,
        typer.Option(
            help="Models that encode this: image, text, or text+image (both as one item). Repeatable.",
            autocompletion=of("image", "text", "text+image"),
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            help="Models with such vectors: dense, sparse or multi-vector.",
            show_default=False,
            autocompletion=of("dense", "sparse", "multi-vector"),
        ),
    ] = "",
) -> None:
    """List models by name: what they take, size, licence.

    List well-known models: what they take, which vectors they make, how large they are, under which licence, and
    whether they are on this machine.

    Any other model of a family loads too. Nothing is downloaded, and no weights are read.
    """
    from visir.encoders.known_models import OF_FAMILIES
    from visir.encoders.known_models import models as listed
    from visir.reports.views.models import details, facts

    chosen = listed(" ".join(words or ()), takes=takes or (), form=form)
    output.answer([asdict(model) for model in chosen])
    if output.wants_json():
        return
    if len(chosen) == 1:
        output.table(facts(chosen[0]))
        return
    for group in chosen.groups:
        heading(group)
        members = [model for model in chosen if model.group == group]
        width = max(len(model.name) for model in members)
        for model in members:
            output.line(safe(f"  {model.name:<{width}}  {model.title}"))
            if group != OF_FAMILIES:
                output.text(f"      {details(model)}", "dim")
    if not (words or takes or form):
        output.note("\nEverything about one: visir models NAME. Which ones load here: visir doctor --load NAME")
