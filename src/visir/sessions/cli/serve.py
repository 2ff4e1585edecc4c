"""`visir sessions serve`: scores over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli.options import (
    AllowHostOption,
    AllowOriginOption,
    BurstOption,
    ConnectionsOption,
    ConnectionsPerAddressOption,
    GraceOption,
    HostOption,
    LogFormOption,
    MaxBodyOption,
    OpenToAllOption,
    PortOption,
    RateOption,
    TimeoutOption,
    TokensOption,
)
from visir.cli.verbs import examples, streams
from visir.sessions.cli.mappings import MappingOption, PresetOption


@examples(
    "visir sessions serve buyers --state shop.state",
    "visir sessions serve buyers --host 0.0.0.0 --tokens tokens",
)
@streams
def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder made by visir sessions train.")],
    host: HostOption = "127.0.0.1",
    port: PortOption = 8766,
    tokens: TokensOption = None,
    open_to_all: OpenToAllOption = False,
    preset: PresetOption = None,
    mapping: MappingOption = None,
    history: Annotated[
        Path | None, typer.Option(help="A folder of sessions: what visitors and customers did before.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Go on from this file; saved every minute and at the end."),
    ] = None,
    allow_host: AllowHostOption = None,
    allow_origin: AllowOriginOption = None,
    rate: RateOption = 200.0,
    burst: BurstOption = 2_000,
    timeout: TimeoutOption = 30.0,
    max_body: MaxBodyOption = 16.0,
    connections: ConnectionsOption = 512,
    connections_per_address: ConnectionsPerAddressOption = 64,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait.")] = 512,
    grace: GraceOption = 20.0,
    log_form: LogFormOption = "auto",
) -> None:
    """Score events over HTTP: POST /v1/events, GET /health.

    Events are answered in the order in which they come.

    On this machine alone it needs no tokens. On any other address it wants --tokens FOLDER (visir sessions token new)
    or --no-tokens.
    """
    from visir.errors import ConfigurationError
    from visir.serving.logs import log_of
    from visir.sessions.prediction.serving import serve as serve_model

    if preset is not None and mapping is not None:
        raise ConfigurationError("sessions serve: --preset and --mapping.", hint="one of them")
    serve_model(
        model,
        host=host,
        port=port,
        hosts=tuple(allow_host or ()),
        open_to_all=open_to_all,
        mapping=mapping or preset,
        history=history,
        state=state,
        log=log_of(log_form),
        ready=lambda address: typer.echo(f"visir scores events at {address}v1/events (Ctrl+C stops it)"),
        tokens=tokens,
        origins=tuple(allow_origin or ()),
        rate=rate,
        burst=burst,
        timeout=timeout,
        body=int(max_body * 2**20),
        connections=connections,
        connections_per_address=connections_per_address,
        queue=queue,
        grace=grace,
    )
