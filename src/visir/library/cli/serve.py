"""`visir library serve`: libraries over HTTP, with a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli.options import (
    COMPUTE,
    AllowHostOption,
    AllowOriginOption,
    BurstOption,
    ConnectionsOption,
    ConnectionsPerAddressOption,
    DeviceOption,
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


@examples(
    "visir library serve photos.visir",
    "visir library serve photos.visir --port 9000 --host 0.0.0.0 --tokens tokens",
)
@streams
def serve(
    libraries: Annotated[
        list[Path], typer.Argument(metavar="LIBRARY...", help="Folders made by visir library make.", show_default=False)
    ],
    host: HostOption = "127.0.0.1",
    port: PortOption = 8765,
    tokens: TokensOption = None,
    open_to_all: OpenToAllOption = False,
    allow_host: AllowHostOption = None,
    allow_origin: AllowOriginOption = None,
    docs: Annotated[bool, typer.Option("--docs", help="Offer /docs, which loads scripts from elsewhere.")] = False,
    log_queries: Annotated[bool, typer.Option("--log-queries", help="Write what is looked for into the log.")] = False,
    rate: RateOption = 20.0,
    burst: BurstOption = 200,
    timeout: TimeoutOption = 30.0,
    max_body: MaxBodyOption = 16.0,
    max_pixels: Annotated[float, typer.Option(min=0.01, help="Megapixels of a photo to search with.")] = 32.0,
    connections: ConnectionsOption = 512,
    connections_per_address: ConnectionsPerAddressOption = 64,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait, of each library.")] = 512,
    batch: Annotated[int, typer.Option("--searches", min=1, help="Searches that are answered together.")] = 64,
    threads: Annotated[
        int, typer.Option(min=0, metavar="N", help="Threads. 0: one per core.", rich_help_panel=COMPUTE)
    ] = 0,
    grace: GraceOption = 20.0,
    reload: Annotated[float, typer.Option(min=0, help="Seconds between looks for a changed library; 0: never.")] = 1.0,
    stale: Annotated[
        float, typer.Option(min=0, help="Seconds a library is served that cannot be compared with the disk.")
    ] = 10.0,
    device: DeviceOption = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="The same scores to the last bit, whatever else is searched at the time. Texts cost up to twice as "
            "much.",
            rich_help_panel=COMPUTE,
        ),
    ] = False,
    log_form: LogFormOption = "auto",
) -> None:
    """Serve libraries as a search page and an HTTP API.

    Serve libraries: a search page, and an HTTP API (see /v1/openapi.json).

    On this machine alone it needs no tokens. On any other address it wants --tokens FOLDER (visir library token new)
    or --no-tokens.
    """
    import time

    from visir.library.service.settings import settings_of_host
    from visir.serving.logs import log_of

    began = time.monotonic()
    settings = settings_of_host(
        host,
        tuple(libraries),
        hosts=tuple(allow_host or ()),
        open_to_all=open_to_all,
        tokens=tokens,
        origins=tuple(allow_origin or ()),
        docs=docs,
        log_queries=log_queries,
        device=device,
        deterministic=deterministic,
        body=int(max_body * 2**20),
        pixels=int(max_pixels * 1e6),
        rate=rate,
        burst=burst,
        timeout=timeout,
        connections=connections,
        connections_per_address=connections_per_address,
        queue=queue,
        batch=batch,
        threads=threads,
        grace=grace,
        reload=reload,
        stale=stale,
    )
    log = log_of(log_form, queries=log_queries)
    names = ", ".join(str(folder) for folder in libraries)
    log.write("info", "start", message=f"starting; the page follows when {names} can be searched")
    from visir.library.service.running import serve
    from visir.serving.server import require_packages

    require_packages("visir library serve")

    def ready(address: str) -> None:
        seconds = time.monotonic() - began
        typer.echo(f"visir serves {names} at {address} (ready after {seconds:.0f} s; Ctrl+C stops it)")

    serve(settings, host, port, ready, log=log, callback=lambda message: log.write("info", "start", message=message))
