"""What the service of libraries counts and measures, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from visir.serving.metrics import SECONDS, FrontMetrics

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics(FrontMetrics):
    """Beside what every service counts:"""

    # - `visir_batch_size{library}`, `visir_queue_length{library}`
    # - `visir_stage_seconds{library, stage}`: encode, search, … of each batch
    # - `visir_items{library}`, `visir_generation{library}`
    # - `visir_unconfirmed_seconds{library}`: since what is served was last found on disk

    def __init__(self) -> None:
        from prometheus_client import Gauge, Histogram

        super().__init__()
        registry: dict[str, Any] = {"registry": self.registry}
        self._sizes = Histogram(
            "visir_batch_size", "Searches answered together.", ["library"], buckets=_SIZES, **registry
        )
        self._stages = Histogram(
            "visir_stage_seconds", "Stages of each batch.", ["library", "stage"], buckets=SECONDS, **registry
        )
        self._queue = Gauge("visir_queue_length", "Searches that wait.", ["library"], **registry)
        self._items = Gauge("visir_items", "Pictures that can be found.", ["library"], **registry)
        self._generation = Gauge("visir_generation", "Grows with every update.", ["library"], **registry)
        self._unconfirmed = Gauge(
            "visir_unconfirmed_seconds", "Since what is served was found on disk.", ["library"], **registry
        )
        self._size: Callable[[str], Any] = cache(self._sizes.labels)
        self._stage: Callable[[str, str], Any] = cache(self._stages.labels)

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
