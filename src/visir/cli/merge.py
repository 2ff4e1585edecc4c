"""`visir merge`: adapters become part of the weights of their base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import NewFolder
from visir.cli.verbs import examples


@examples(
    "visir merge runs/mine --out runs/mine-merged",
)
def merge(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A folder of visir train with adapters.", show_default=False)
    ],
    out: NewFolder,
) -> None:
    """Write a model of its own: the adapters of MODEL, added to the weights of their base.

    It gives the same vectors, and needs neither the base nor peft. MODEL stays as it is.
    """
    from visir.encoders.models.adapter_files import merge_checkpoint

    folder = merge_checkpoint(model, out)
    output.facts(model=model, out=folder)
    output.line(f"{folder}: stands by itself")
