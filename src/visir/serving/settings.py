"""What the front of a service lets in: tokens, names, origins, sizes, rates and times, and what it counts of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from visir.errors import ConfigurationError, raise_faults


@dataclass(frozen=True, kw_only=True)
class FrontSettings:
    """What every service of visir limits. Sizes are bytes, times are seconds."""

    # The folder of tokens (`visir library token`, `visir sessions token`); None lets everybody in, which the command
    # line refuses on any address but loopback unless told otherwise.
    tokens: Path | None = None
    # Names that the Host header may carry; empty accepts all. A page of a stranger can point a name of its own at
    # 127.0.0.1 and have the visitor's browser ask this service; the name gives it away.
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # web origins whose pages may send requests (CORS); none by default
    body: int = 16 * 2**20  # of one request, counted while it comes in, so that no header needs to be believed
    bodies: int = 128 * 2**20  # of all requests at one time
    # Requests a second for one token (or address, without tokens). Work counts more. 0 sets no limit.
    rate: float = 20.0
    burst: int = 200  # how many requests may come at once
    timeout: float = 30.0  # from the last byte of a request to the first of its answer
    connections: int = 512  # open at once
    connections_per_address: int = 0  # of one address, 0 for no limit (behind a proxy all come from the proxy's)
    header_timeout: float = 10.0  # for the headers of a request; a slower client is disconnected
    body_timeout: float = 60.0  # for its body, likewise
    stall: float = 30.0  # a client that takes nothing of its answer for so long is disconnected
    grace: float = 20.0  # how long running requests may take to finish after SIGTERM

    VERB: ClassVar[str]
    """The verb that serves: advice names its options."""
    AT_LEAST: ClassVar[dict[str, float]] = {
        "body": 1024,
        "bodies": 1024,
        "rate": 0,
        "burst": 1,
        "timeout": 0.01,
        "connections": 1,
        "connections_per_address": 0,
        "header_timeout": 0.01,
        "body_timeout": 0.01,
        "stall": 0.01,
        "grace": 0,
    }

    def __post_init__(self) -> None:
        raise_faults(ConfigurationError, "service", self.faults(), hint=f"{self.VERB} --help")

    def faults(self) -> list[str]:
        """What is wrong with these values."""
        return [
            f"{name} must be at least {least}, not {getattr(self, name)}"
            for name, least in self.AT_LEAST.items()
            if not getattr(self, name) >= least  # NaN is no limit either
        ] + [
            f"{origin!r} is not a web origin, such as https://photos.example.org"
            for origin in self.origins
            if not origin.startswith(("http://", "https://")) or origin.rstrip("/").count("/") != 2
        ]


def is_alone(host: str, settings: dict[str, Any], hosts: Sequence[str]) -> bool:
    """Whether nobody from elsewhere is let in: on loopback, without a proxy that has tokens, a name or an origin."""
    from visir.remote import is_loopback

    return is_loopback(host) and not hosts and not settings.get("origins") and settings.get("tokens") is None


def suited_to_host(
    host: str, settings: dict[str, Any], *, hosts: Sequence[str], open_to_all: bool, verb: str, everybody_could: str
) -> dict[str, Any]:
    """Settings that suit the address of a service."""
    # On this machine alone its own names are `hosts`, and connections of one address are not counted.
    from visir.remote import is_loopback

    if settings.get("tokens") is None and not is_loopback(host) and not open_to_all:
        raise ConfigurationError(
            f"--host {host} can be reached from other machines, and there are no tokens: everybody could "
            f"{everybody_could}.",
            hint=f"{token_verb(verb)} new tokens --name NAME, then --tokens tokens; or --no-tokens if that is meant "
            "(in Python: tokens=…, open_to_all=True)",
            code="everybody-could",
        )
    if is_loopback(host):
        settings = {**settings, "connections_per_address": 0}
        hosts = (*hosts, "localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host)
    return {**settings, "hosts": tuple(hosts)}


def token_verb(verb: str) -> str:
    """The verb that makes tokens for the one that serves."""
    return f"{verb.removesuffix(' serve')} token"


# What the front counts and measures, for Prometheus.

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class FrontMetrics:
    """The metrics of one service, in a registry of their own (two services in one process do not mix)."""

    # - `visir_requests_total{endpoint, method, status}`, `visir_request_seconds{endpoint}`
    # - `visir_refused_total{reason}`, `visir_log_lines_lost`
    # Endpoints are named by their pattern, never by what a client wrote, so there are as many series as endpoints.

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        from prometheus_client.platform_collector import PlatformCollector
        from prometheus_client.process_collector import ProcessCollector

        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        registry: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter("visir_requests", "Requests answered.", ["endpoint", "method", "status"], **registry)
        self._seconds = Histogram(
            "visir_request_seconds", "From headers to last byte.", ["endpoint"], buckets=SECONDS, **registry
        )
        self._refused = Counter("visir_refused", "Requests refused by a limit.", ["reason"], **registry)
        self._lost = Gauge("visir_log_lines_lost", "Lines that the log could not be written.", **registry)
        # Looking up a series by its labels costs as much as counting; there are few, so each is looked up once.
        self._request: Callable[[str, str, int], Any] = cache(
            lambda endpoint, method, status: self._requests.labels(endpoint, method, str(status))
        )
        self._latency: Callable[[str], Any] = cache(self._seconds.labels)

    def answered(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._request(endpoint, method, status).inc()
        self._latency(endpoint).observe(seconds)

    def refused(self, reason: str) -> None:
        """One request met a limit ("rate", "queue", "token", "connections", "body", "timeout")."""
        self._refused.labels(reason).inc()

    def lost(self, lines: Callable[[], float]) -> None:
        """Call `lines` for the number of lost lines at each scrape."""
        self._lost.set_function(lines)

    def text(self) -> bytes:
        """In the text format of Prometheus."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
