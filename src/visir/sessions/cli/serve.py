"""`visir sessions serve`: scores over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli.verbs import examples, streams
from visir.sessions.cli.mappings import MappingOption, PresetOption


@examples("visir sessions serve buyers --state shop.state")
@streams
def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder made by visir sessions train.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8766,
    open_to_all: Annotated[
        bool, typer.Option("--open-to-all", help="Let everybody in: listen on other addresses than loopback.")
    ] = False,
    preset: PresetOption = None,
    mapping: MappingOption = None,
    history: Annotated[
        Path | None, typer.Option(help="A folder of sessions: what visitors and customers did before.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Go on from this file; saved every minute and at the end."),
    ] = None,
) -> None:
    """Score events over HTTP: POST /v1/events, GET /health.

    Events are answered in the order in which they come. There are no tokens: let the shop's own servers call it, on
    this machine or behind a proxy that checks who asks.
    """
    from visir.errors import ConfigurationError
    from visir.sessions.prediction.serving import serve as serve_model

    if preset is not None and mapping is not None:
        raise ConfigurationError("sessions serve: --preset and --mapping.", hint="one of them")
    serve_model(
        model,
        host=host,
        port=port,
        open_to_all=open_to_all,
        mapping=mapping or preset,
        history=history,
        state=state,
    )
