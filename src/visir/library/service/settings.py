"""The settings of the service of libraries: what it serves, and its limits beside those of every service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.serving.settings import SECONDS, FrontMetrics, FrontSettings, is_alone, suited_to_host

VERB = "visir library serve"


@dataclass(frozen=True)
class ServiceSettings(FrontSettings):
    """Everything `create_app` needs, beside what `FrontSettings` has. Sizes are bytes, times are seconds.

    Work counts as requests (`rate`): each search of a batch as one, a condition a quarter, a re-ranked picture a tenth,
    each 2 megapixels of a photo one more; a thumbnail counts a tenth.

    Attributes:
        libraries: Folders made by `visir library make`; each is served under its name.
        docs: Offer `/docs`, which loads its scripts from elsewhere; off by default.
        log_queries: Write what people look for into the log; off by default.
        device: Of the models; None for the best there is.
        deterministic: Answers are the same to the bit, whatever else is searched at the time; texts cost up to twice
            the work.
        pixels: Of a photo to search with, read from its header before anything is decoded.
        decoded: Bytes of memory that pictures may take together, while they are decoded (three quarters for one;
            6 to 32 bytes a pixel, by its format) and, preprocessed, while they wait (a quarter): one budget for the
            process, updates of the libraries included.
        queue: Searches that wait, of one library; further ones are refused for the moment.
        batch: Searches that are encoded and searched together.
        wait: How long a batch that follows upon another waits for more; nothing waits when nobody else is searching.
        threads: Of one matrix product; 0 takes every core.
        reload: How often the service looks whether another process has changed a library; 0 never.
        stale: How long a library is served that could not be compared with the disk (`visir.library.service.registry`).
        paths: Say where photos lie on this machine: for whoever uses the service on the same one.
    """

    libraries: tuple[Path, ...]
    docs: bool = False
    log_queries: bool = False
    device: str | None = None
    deterministic: bool = False
    pixels: int = 32_000_000
    decoded: int = 768 * 2**20
    queue: int = 512
    batch: int = 64
    wait: float = 0.002
    threads: int = 0
    reload: float = 1.0
    stale: float = 10.0
    paths: bool = False

    VERB: ClassVar[str] = VERB
    AT_LEAST: ClassVar[dict[str, float]] = {
        **FrontSettings.AT_LEAST,
        "pixels": 1,
        "decoded": 2**20,
        "queue": 1,
        "batch": 1,
        "wait": 0,
        "threads": 0,
        "reload": 0,
        "stale": 0,
    }

    def faults(self) -> list[str]:
        """What is wrong with these values."""
        faults = [*([] if self.libraries else ["no library is named"]), *super().faults()]
        if self.stale <= 2 * self.reload:
            faults.append(f"stale ({self.stale}) must be more than twice reload ({self.reload})")
        return faults


def settings_of_host(
    host: str,
    libraries: tuple[Path, ...],
    *,
    hosts: Sequence[str] = (),
    open_to_all: bool = False,
    **settings: Any,
) -> ServiceSettings:
    """Settings that suit the address of the service."""
    # On this machine alone, its own names are `hosts`, connections of one address are not counted, and paths of photos
    # are shown where nobody from elsewhere is let in (by a proxy that has tokens, a name or an origin).
    suited = suited_to_host(
        host,
        {"paths": is_alone(host, settings, hosts), **settings},
        hosts=hosts,
        open_to_all=open_to_all,
        verb=VERB,
        everybody_could="search and change these libraries",
    )
    unknown = settings.keys() - {field.name for field in fields(ServiceSettings)}
    faults = [f"{name}: {nearest(name, ServiceSettings.__dataclass_fields__)}" for name in sorted(unknown)]
    raise_faults(ConfigurationError, "no such settings of a service", faults, hint=f"see {VERB} --help")
    return ServiceSettings(libraries, **suited)


# What the service of libraries counts and measures, for Prometheus.

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
