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
    from visir.errors import ConfigurationError, require
    from visir.sessions.making import mapping_of
    from visir.sessions.prediction.live import LiveScorer
    from visir.sessions.prediction.purchase_model import load_model
    from visir.sessions.prediction.stream_state import restore_state

    if preset is not None and mapping is not None:
        raise ConfigurationError("sessions serve: --preset and --mapping.", hint="one of them")
    if host not in ("127.0.0.1", "::1", "localhost") and not open_to_all:
        raise ConfigurationError(
            f"--host {host}: anybody who reaches it could ask.",
            hint="listen on 127.0.0.1 behind a proxy, or let everybody in: --open-to-all",
        )
    require("fastapi", "uvicorn", extra="serve", purpose="Serving purchase scores")
    import uvicorn

    from visir.sessions.prediction.service import ScoreService, create_app

    named = mapping or preset
    scorer, lines = LiveScorer(load_model(model)), 0
    if state is not None and state.exists():
        lines = restore_state(scorer, state)
    elif history is not None:
        scorer.remember_sessions(history)
    service = ScoreService(scorer, mapping=None if named is None else mapping_of(named), state=state, lines=lines)
    uvicorn.run(create_app(service), host=host, port=port, log_level="info", server_header=False)
