"""The settings of a service: what it serves, and every limit with its default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError, nearest, raise_faults


@dataclass(frozen=True)
class ServiceSettings:
    """Everything `create_app` needs. Sizes are bytes, times are seconds.

    Attributes:
        libraries: Folders made by `visir library make`; each is served under its name.
        tokens: The folder of `visir library token`; None lets everybody search and change, which `visir library serve`
            refuses on any address but loopback unless told otherwise.
        hosts: Names that the Host header may carry; empty accepts all. A page of a stranger can point a name of its own
            at 127.0.0.1 and have the visitor's browser ask this service; the name gives it away.
        origins: Web origins whose pages may send requests (CORS); none by default.
        docs: Offer `/docs`, which loads its scripts from elsewhere; off by default.
        log_queries: Write what people look for into the log; off by default.
        device: Of the models; None for the best there is.
        deterministic: Answers are the same to the bit, whatever else is searched at the time; texts cost up to twice
            the work.
        body: Of one request, counted while it comes in, so that no header needs to be believed.
        bodies: Of all requests at one time.
        pixels: Of a photo to search with, read from its header before anything is decoded.
        decoded: Bytes of memory that pictures may take together, while they are decoded (three quarters for one;
            6 to 32 bytes a pixel, by its format) and, preprocessed, while they wait (a quarter): one budget for the
            process, updates of the libraries included.
        rate: Requests a second for one token (or address, without tokens). Work counts: each search of a batch as a
            request, a condition a quarter, a re-ranked picture a tenth, each 2 megapixels of a photo one more; a
            thumbnail counts a tenth. 0 sets no limit.
        burst: How many requests may come at once.
        timeout: From the last byte of a request to the first of its answer.
        queue: Searches that wait, of one library; further ones are refused for the moment.
        batch: Searches that are encoded and searched together.
        wait: How long a batch that follows upon another waits for more; nothing waits when nobody else is searching.
        threads: Of one matrix product; 0 takes every core.
        connections: Open at once.
        connections_per_address: Of one address, 0 for no limit (behind a proxy all come from the proxy's).
        header_timeout: For the headers of a request; a slower client is disconnected.
        body_timeout: For its body, likewise.
        stall: A client that takes nothing of its answer for so long is disconnected.
        grace: How long running requests may take to finish after SIGTERM.
        reload: How often the service looks whether another process has changed a library; 0 never.
        stale: How long a library is served that could not be compared with the disk (`visir.library.service.lease`).
        paths: Say where photos lie on this machine: for whoever uses the service on the same one.
    """

    libraries: tuple[Path, ...]
    tokens: Path | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    docs: bool = False
    log_queries: bool = False
    device: str | None = None
    deterministic: bool = False
    body: int = 16 * 2**20
    bodies: int = 128 * 2**20
    pixels: int = 32_000_000
    decoded: int = 768 * 2**20
    rate: float = 20.0
    burst: int = 200
    timeout: float = 30.0
    queue: int = 512
    batch: int = 64
    wait: float = 0.002
    threads: int = 0
    connections: int = 512
    connections_per_address: int = 0
    header_timeout: float = 10.0
    body_timeout: float = 60.0
    stall: float = 30.0
    grace: float = 20.0
    reload: float = 1.0
    stale: float = 10.0
    paths: bool = False

    def __post_init__(self) -> None:
        faults = [] if self.libraries else ["no library is named"]
        for name, least in _AT_LEAST.items():
            if getattr(self, name) < least:
                faults.append(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.stale <= 2 * self.reload:
            faults.append(f"stale ({self.stale}) must be more than twice reload ({self.reload})")
        faults += [
            f"{origin!r} is not a web origin, such as https://photos.example.org"
            for origin in self.origins
            if not origin.startswith(("http://", "https://")) or origin.rstrip("/").count("/") != 2
        ]
        raise_faults(ConfigurationError, "service", faults, hint="visir library serve --help")


def settings_of_host(
    host: str,
    libraries: tuple[Path, ...],
    *,
    hosts: Sequence[str] = (),
    open_to_all: bool = False,
    **settings: Any,
) -> ServiceSettings:
    """Settings that suit the address of the service.

    On this machine alone, its own names are `hosts`, connections of one address are not counted, and paths of photos
    are shown where nobody from elsewhere is let in (by a proxy that has tokens, a name or an origin).

    Args:
        host: The address to listen on.
        libraries: Folders of libraries.
        hosts: Further names under which the service is called.
        open_to_all: Whether other addresses than loopback may be served without tokens.
        settings: Further fields of `ServiceSettings`.

    Raises:
        ConfigurationError: Another address than loopback without tokens; wrong settings.
    """
    from visir.retrieval.remote.addresses import is_loopback

    if settings.get("tokens") is None and not is_loopback(host) and not open_to_all:
        raise ConfigurationError(
            f"--host {host} can be reached from other machines, and there are no tokens: everybody could search and "
            "change these libraries.",
            hint="visir library token new tokens --name NAME, then --tokens tokens; or --no-tokens if that is meant",
        )
    unknown = settings.keys() - {field.name for field in fields(ServiceSettings)}
    faults = [f"{name}: {nearest(name, ServiceSettings.__dataclass_fields__)}" for name in sorted(unknown)]
    raise_faults(ConfigurationError, "no such settings of a service", faults, hint="see visir library serve --help")
    if is_loopback(host):
        alone = not hosts and not settings.get("origins") and settings.get("tokens") is None
        settings = {"paths": alone, **settings, "connections_per_address": 0}
        hosts = (*hosts, "localhost", "127.0.0.1", "[::1]", host)
    return ServiceSettings(libraries, hosts=tuple(hosts), **settings)


_AT_LEAST: dict[str, float] = {
    "body": 1024,
    "bodies": 1024,
    "pixels": 1,
    "decoded": 2**20,
    "rate": 0,
    "burst": 1,
    "timeout": 0.01,
    "queue": 1,
    "batch": 1,
    "wait": 0,
    "threads": 0,
    "connections": 1,
    "connections_per_address": 0,
    "header_timeout": 0.01,
    "body_timeout": 0.01,
    "stall": 0.01,
    "grace": 0,
    "reload": 0,
    "stale": 0,
}
