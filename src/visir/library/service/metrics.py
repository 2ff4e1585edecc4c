"""What the service counts and measures, for Prometheus."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one service, in a registry of their own (two services in one process do not mix).

    - `visir_requests_total{endpoint, method, status}`, `visir_request_seconds{endpoint}`
    - `visir_batch_size{library}`, `visir_queue_length{library}`, `visir_refused_total{reason}`
    - `visir_stage_seconds{library, stage}`: encode, search, … of each batch
    - `visir_items{library}`, `visir_generation{library}`, `visir_connections`
    - `visir_unconfirmed_seconds{library}`: since what is served was last found on disk; `visir_log_lines_lost`

    Endpoints are named by their pattern, never by what a client wrote, so there are as many series as endpoints.
    """

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
            "visir_request_seconds", "From headers to last byte.", ["endpoint"], buckets=_SECONDS, **registry
        )
        self._refused = Counter("visir_refused", "Requests refused by a limit.", ["reason"], **registry)
        self._sizes = Histogram(
            "visir_batch_size", "Searches answered together.", ["library"], buckets=_SIZES, **registry
        )
        self._stages = Histogram(
            "visir_stage_seconds", "Stages of each batch.", ["library", "stage"], buckets=_SECONDS, **registry
        )
        self._queue = Gauge("visir_queue_length", "Searches that wait.", ["library"], **registry)
        self._items = Gauge("visir_items", "Pictures that can be found.", ["library"], **registry)
        self._generation = Gauge("visir_generation", "Grows with every update.", ["library"], **registry)
        self._unconfirmed = Gauge(
            "visir_unconfirmed_seconds", "Since what is served was found on disk.", ["library"], **registry
        )
        self._lost = Gauge("visir_log_lines_lost", "Lines that the log could not be written.", **registry)
        # Looking up a series by its labels costs as much as counting; there are few, so each is looked up once.
        self._request: Callable[[str, str, int], Any] = cache(
            lambda endpoint, method, status: self._requests.labels(endpoint, method, str(status))
        )
        self._latency: Callable[[str], Any] = cache(self._seconds.labels)
        self._size: Callable[[str], Any] = cache(self._sizes.labels)
        self._stage: Callable[[str, str], Any] = cache(self._stages.labels)

    def answered(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._request(endpoint, method, status).inc()
        self._latency(endpoint).observe(seconds)

    def refused(self, reason: str) -> None:
        """One request met a limit ("rate", "queue", "token", "connections", "body", "timeout")."""
        self._refused.labels(reason).inc()

    def batch(self, library: str, size: int, stages: Mapping[str, float]) -> None:
        """One batch was answered."""
        self._size(library).observe(size)
        for stage, seconds in stages.items():
            self._stage(library, stage).observe(seconds)

    def waiting(self, library: str, length: Callable[[], float]) -> None:
        """Call `length` for the queue's length at each scrape."""
        self._queue.labels(library).set_function(length)

    def holds(self, library: str, items: int, generation: int) -> None:
        """What a library holds now."""
        self._items.labels(library).set(items)
        self._generation.labels(library).set(generation)

    def unconfirmed(self, library: str, seconds: Callable[[], float]) -> None:
        """Call `seconds` for the age of what is served at each scrape."""
        self._unconfirmed.labels(library).set_function(seconds)

    def lost(self, lines: Callable[[], float]) -> None:
        """Call `lines` for the number of lost lines at each scrape."""
        self._lost.set_function(lines)

    def text(self) -> bytes:
        """In the text format of Prometheus."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
