"""What the front of a service counts and measures, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

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
