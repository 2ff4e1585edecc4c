"""The options that say how a log's columns become events, shared by `make`, `score` and `serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PresetOption = Annotated[str | None, typer.Option("--preset", help="A mapping that comes with visir.")]
MappingOption = Annotated[
    Path | None, typer.Option("--mapping", metavar="FILE", help="A mapping of your own: a TOML file.")
]
