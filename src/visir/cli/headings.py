"""A heading between lines of text."""

from __future__ import annotations

import sys

import typer

from visir.terminal import safe, trusted


def heading(text: str) -> None:
    """Print a line in bold, where the output is a terminal."""
    typer.secho(safe(text), file=trusted(sys.stdout), bold=True)
