"""The libraries that are served: their models, and the queries that wait for each."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import shlex
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.library.layout import LibraryCard
from visir.library.service.responses import ItemCards, library_path, refusal_of, results_json
from visir.library.service.settings import Metrics, ServiceSettings
from visir.progress import quiet
from visir.serving.logs import ServiceLog
from visir.serving.refusals import HttpError, busy, not_found
from visir.threads import cores, one_blas_thread_from_now

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.library.check import Item
    from visir.library.query import Query
    from visir.library.snapshot import LibrarySnapshot


# Micro-batches: requests that wait are encoded and searched together, on a thread of their own.

Input = TypeVar("Input")
Output = TypeVar("Output")

Work = Callable[[Sequence[Input]], Sequence[Output | Exception]]
"""From inputs to outputs, in the same order: an exception for an input that cannot be answered."""


class _WaitingRequest(Generic[Input, Output]):
    """An input that waits, and the future for its output."""

    __slots__ = ("future", "input", "loop")

    def __init__(self, input: Input) -> None:
        self.input = input
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Output] = self.loop.create_future()


class Batcher(Generic[Input, Output]):
    """Hands waiting inputs to `work`, up to `size` at once, and gives each its own output."""

    # The thread takes what has come in as soon as it is idle: an input that comes alone does not wait for others. While
    # it works, inputs gather by themselves; that is where batches come from. Clients that just got an answer tend to
    # ask again at once, so behind a batch of several the thread waits up to `wait` seconds for as many as there were
    # before.
    # `work` reports what is wrong with one input by an exception in its place. Where it raises one instead, the inputs
    # of the batch are tried one by one, so that only the one at fault gets the error.
    # There is one thread, because the work inside is matrix products that release the interpreter's lock: a second
    # would only compete for the cores. It ends with the process, or at `close`.

    def __init__(
        self,
        work: Work[Input, Output],
        *,
        name: str,
        size: int,
        queue: int,
        wait: float,
    ) -> None:
        self._work, self._size, self._limit, self._wait = work, size, queue, wait
        self._queue: deque[_WaitingRequest[Input, Output]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._last = 1
        self._seconds = 0.05  # of the last batches: what a full queue says in Retry-After
        self._thread = threading.Thread(target=self._run, name=f"visir-{name}", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._queue)

    async def ask(self, inputs: Sequence[Input]) -> list[Output]:
        """The answers to these, in order. `HttpError` (503) when the queue is full or the service is closing."""
        # Whoever is cancelled while waiting (the client has gone, the time is over) gives up the place at once.
        waiting = [_WaitingRequest[Input, Output](input) for input in inputs]
        with self._changed:
            if self._closed:
                raise busy("the service is closing.", 5, "another instance may answer")
            if len(self._queue) + len(waiting) > self._limit:
                after = max(1, round(len(self._queue) / self._size * self._seconds))
                raise busy(f"{len(self._queue)} searches are waiting already.", after)
            self._queue.extend(waiting)
            self._changed.notify()
        try:
            return [await request.future for request in waiting]
        except BaseException:
            with self._changed:
                for request in waiting:
                    request.future.cancel()
                    if request in self._queue:
                        self._queue.remove(request)
            raise

    def close(self) -> None:
        """Answer what waits, take nothing new, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _take(self) -> list[_WaitingRequest[Input, Output]]:
        """What is to be answered together; nothing when the batcher was closed and all is done."""
        with self._changed:
            while True:
                while not self._queue and not self._closed:
                    self._last = 1  # idle: the next one is not kept waiting
                    self._changed.wait()
                if self._last > 1 and not self._closed:
                    hoped, until = min(self._last, self._size), time.monotonic() + self._wait
                    while len(self._queue) < hoped and (left := until - time.monotonic()) > 0:
                        self._changed.wait(left)
                if self._queue or self._closed:  # everyone may have gone away during that wait
                    return [self._queue.popleft() for _ in range(min(self._size, len(self._queue)))]

    def _run(self) -> None:
        while batch := self._take():
            began = time.monotonic()
            results = self._answers(batch)
            self._last = len(batch)
            self._seconds = 0.8 * self._seconds + 0.2 * (time.monotonic() - began)
            loops = {request.loop for request in batch}
            for loop in loops:
                mine = [
                    (request, result) for request, result in zip(batch, results, strict=True) if request.loop is loop
                ]
                try:
                    loop.call_soon_threadsafe(_deliver, mine)
                except RuntimeError:  # that loop has ended, and who waited in it with it
                    continue

    def _answers(self, batch: Sequence[_WaitingRequest[Input, Output]]) -> list[Output | Exception]:
        try:
            return list(self._work([request.input for request in batch]))
        except Exception as fault:
            if len(batch) == 1:
                return [fault]
            return [self._answers([request])[0] for request in batch]


def _deliver(answered: Sequence[tuple[_WaitingRequest[Input, Output], Output | Exception]]) -> None:
    for request, result in answered:
        if request.future.done():
            continue
        if isinstance(result, Exception):
            request.future.set_exception(result)
        else:
            request.future.set_result(result)


# The lease of a library: it is served only while it is known to be what lies on disk.


@dataclass(frozen=True)
class _LeaseState:
    """What the last looks found; replaced as a whole."""

    confirmed: float
    looked: str
    served: int
    on_disk: int | None
    fault: str | None = None


class Lease:
    """How long a library is served that could not be compared with the disk."""

    # A look at the disk that finds there what is served renews the lease. If none does (what lies there cannot be read,
    # the disk is away or hangs, the task that looks is dead), it runs out, and the library is not served until somebody
    # does: so a photo that was deleted on disk is never shown for longer than `seconds`, whatever goes wrong.

    def __init__(self, seconds: float | None, generation: int) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._state = _LeaseState(time.monotonic(), _now(), generation, generation)

    def renew(self, began: float, generation: int) -> None:
        """What is served was found on disk by a look that began then (`time.monotonic()`)."""
        with self._lock:
            latest = max(began, self._state.confirmed)
            self._state = _LeaseState(latest, _now(), generation, generation)

    def failed(self, fault: str, on_disk: int | None) -> None:
        """A look found something else on disk (of this generation, if known) that cannot be served."""
        with self._lock:
            self._state = replace(self._state, looked=_now(), on_disk=on_disk, fault=fault)

    @property
    def age(self) -> float:
        """Seconds since what is served was known to be on disk."""
        return time.monotonic() - self._state.confirmed

    @property
    def status(self) -> Literal["current", "behind", "stale"]:
        """Whether what is served is on disk, was so a moment ago, or is not served any more."""
        if self._seconds is not None and self.age > self._seconds:
            return "stale"
        return "current" if self._state.fault is None else "behind"

    def refusal(self) -> HttpError | None:
        """503 when the lease has run out."""
        if self.status != "stale":
            return None
        return busy("this library is not what lies on disk any more, and that cannot be read.", 5,
                    hint="/v1/ready and the service's log say more")  # fmt: skip

    def status_record(self) -> dict[str, Any]:
        """As `wire.LibraryStatus` has it."""
        state = self._state
        fault = state.fault
        if fault is None and self.status == "stale":
            fault = f"nobody has looked for {self.age:.0f} s"
        return {
            "status": self.status,
            "generation": state.served,
            "on_disk": state.on_disk,
            "looked": state.looked,
            "fault": fault,
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Background tasks that outlive whatever goes wrong in them.

LONGEST = 5.0
"""Seconds after which a task that failed is tried again, at the most."""


class PeriodicTask:
    """Calls `work` at regular intervals on a thread of its own, until `stop`."""

    # Whatever `work` raises is logged, once for each text, and `work` is called again: a little later each time. The
    # task has a thread to itself, so that a task whose disk hangs delays no other.

    def __init__(self, work: Callable[[], object], *, interval: float, name: str, log: ServiceLog) -> None:
        self._work, self._interval, self._name, self._log = work, interval, name, log
        self._stop = threading.Event()
        self._last_message = ""
        self._starting = threading.Lock()
        self._thread = self._started()

    def stop(self) -> None:
        """Call it no more. Does not wait for a call that is under way."""
        self._stop.set()

    @property
    def is_alive(self) -> bool:
        """Whether it is called, or was stopped on purpose."""
        return self._stop.is_set() or self._thread.is_alive()

    def revive(self) -> None:
        """Begin it again, if its thread has ended though nobody has stopped it."""
        with self._starting:
            if not self.is_alive:
                self._log.write("error", "fault", task=self._name, fault="its thread ended; it is begun again")
                self._thread = self._started()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"visir-{self._name}", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        wait = self._interval
        while not self._stop.wait(wait):
            try:
                self._work()
            except BaseException as fault:  # a thread that ends would end in silence
                self._log_once(fault)
                wait = max(self._interval, min(2 * wait, LONGEST))
            else:
                wait, self._last_message = self._interval, ""

    def _log_once(self, fault: BaseException) -> None:
        text = str(fault) or repr(fault)
        if text == self._last_message:
            return
        self._last_message = text
        more = {} if isinstance(fault, VisirError) else {"traceback": traceback.format_exception(fault)}
        self._log.write("error", "fault", task=self._name, fault=text, **more)


class LibraryHandle:
    """One library that is served."""

    # Searches by words wait in one queue, searches with pictures or a second stage in another, because one of these
    # takes as long as a hundred by words.
    # When a library has been updated, or another one lies in its place, the new state is taken. Requests under way keep
    # the old one to their end: it is closed when nothing holds it any more. The handle keeps the name that it had at
    # first. What cannot be compared with the disk is served no longer than its `lease`.

    def __init__(
        self,
        folder: Path,
        settings: ServiceSettings,
        metrics: Metrics,
        log: ServiceLog,
        loaded: dict[str, Encoder],
        callback: Callable[[str], object] = lambda message: None,
    ) -> None:
        from visir.library.layout import LibraryError, check_library_name
        from visir.library.searcher import Searcher
        from visir.library.snapshot import LibrarySnapshot

        self.folder, self._settings, self._metrics, self._log = folder, settings, metrics, log
        library = LibrarySnapshot.open(folder)
        self.name = library.name
        try:
            check_library_name(library.name)
        except LibraryError as fault:
            library.close()
            hint = f"give it another one: visir library update {shlex.quote(str(folder))} --name NAME"
            raise LibraryError(f"{folder}: {fault.message}", hint=hint) from fault
        self._path = library_path(library.name)
        self.searcher = Searcher(
            library,
            device=settings.device,
            loaded=loaded,
            deterministic=settings.deterministic,
            threads=settings.threads or cores(),
        )
        loading = "" if not library.model or library.model in loaded else f"; loading the model {library.model}"
        callback(f"{library.name}: {len(library):,} {library.card.unit}{loading}")
        self.searcher.load()
        self._loaded = loaded
        self._cards = ItemCards(library, self._path)
        self.light = self._batcher("words", settings.batch)
        self.heavy = self._batcher("pictures", min(8, settings.batch))
        self.lease = Lease(settings.stale if settings.reload else None, library.generation)
        self._updating = threading.Lock()
        self._progress: dict[str, Any] = {
            "running": False, "stage": None, "done": 0, "total": None, "last": None, "error": None
        }  # fmt: skip
        metrics.waiting(self.name, lambda: len(self.light) + len(self.heavy))
        metrics.holds(self.name, len(library), library.generation)
        metrics.unconfirmed(self.name, lambda: self.lease.age)

    @property
    def library(self) -> LibrarySnapshot:
        """The newest generation."""
        return self.searcher.library

    @property
    def cards(self) -> ItemCards:
        """What lists show of each picture, of the newest generation."""
        library, cards = self.library, self._cards
        return cards if cards.library is library else ItemCards(library, self._path)

    async def search(self, queries: Sequence[Query], *, heavy: bool) -> list[bytes]:
        """The answers, as JSON. `HttpError` for the first that cannot be answered."""
        return await (self.heavy if heavy else self.light).ask(queries)

    def item(self, item: str) -> Item:
        """Everything known of an item; `HttpError` (404) when there is none."""
        library = self.library
        if not library.existing([item]):
            raise HttpError(404, f"there is no item {item!r}.", hint="was it deleted meanwhile? search again")
        return library.item(item)

    def original(self, item: str, picture: int | None = None) -> tuple[bytes, str]:
        """The bytes of an item and their media type; `HttpError` (404) when no file has them any more."""
        from visir.library.layout import LibraryError

        try:
            return self.library.open_image(item, picture)
        except LibraryError:  # its text names places on this machine
            message = "the original is not where it was: moved, changed, or on a disk that is not there."
            raise HttpError(404, message, hint="bring the library up to date") from None

    def info(self) -> dict[str, Any]:
        """What `/v1/libraries` says."""
        library, searcher = self.library, self.searcher
        fields = [
            {"name": field.name, "type": field.type, "values": list(field.values) or None, "items": field.items}
            for field in searcher.fields().values()
        ]
        return {
            "name": self.name,
            "items": len(library),
            "unit": library.card.unit,
            "ways": list(searcher.ways),
            "systems": list(searcher.systems),
            "labels": {system: library.label(system) for system in searcher.systems},
            "model": model_name(library.model),
            "head": None if library.head is None else model_name(library.head),
            "fields": fields,
            "categories": bool(searcher.categories()),
            "folders": library.card.source.startswith("photos:"),
            "captions": library.captions is not None,
            "rerank": searcher.has_cross_encoder,
            "texts": searcher.takes_texts,
            "generation": library.generation,
            "state": self.lease.status_record(),
        }

    def refresh(self) -> bool:
        """Take what lies on disk, if it is not what is served; whether it was not."""
        # Raises whatever keeps it from being taken; then it is served as it was, for the length of the lease.
        began = time.monotonic()
        try:
            changed = self.searcher.reload()
        except BaseException as fault:
            # A fault for strangers: no place on this machine is named.
            reason, on_disk = "its folder is not there", None
            if self.folder.is_dir():
                reason = f"what lies on disk cannot be taken ({type(fault).__name__}); the service's log says more"
            with contextlib.suppress(VisirError, OSError):
                on_disk = LibraryCard.read(self.folder).generation
            self.lease.failed(reason, on_disk)
            raise
        library = self.library
        self.lease.renew(began, library.generation)
        if not changed:
            return False
        self._cards = ItemCards(library, self._path)
        # A generation is closed when nothing uses it any more. Errors that were answered refer to themselves by their
        # frames, and would hold old generations open, with their files, until some collection comes by.
        gc.collect()
        self._metrics.holds(self.name, len(library), library.generation)
        self._log.write("info", "reload", library=self.name, generation=library.generation, items=len(library))
        return True

    @property
    def progress(self) -> dict[str, Any]:
        """Of the update that runs, and what the last one did."""
        return dict(self._progress)

    def update(self) -> None:
        """Update the library from its source, on a thread of its own. Raises `HttpError` (409) while an update runs."""
        # The thread ends with the process: an update that is cut short goes on where it was when it is started again.
        if not self._updating.acquire(blocking=False):
            raise HttpError(409, "an update is under way.", hint="GET …/update says how far it is")
        self._progress |= {"running": True, "stage": None, "done": 0, "total": None, "error": None}
        threading.Thread(target=self._update, name=f"visir-{self.name}-update", daemon=True).start()

    def _update(self) -> None:
        from visir.library.updating import update

        began = time.perf_counter()

        def callback(stage: str, done: int, total: int) -> None:
            self._progress |= {"stage": stage, "done": done, "total": total or None}

        try:
            with quiet():  # no one reads the progress, and a blocked reader would hold the update up
                report = asdict(
                    update(None, self.folder, loaded=self._loaded, device=self._settings.device, callback=callback)
                )
            report["broken"], report["unavailable"] = len(report["broken"]), len(report["unavailable"])
            self.refresh()
            self._progress |= {"last": report}
            self._log.write("info", "update", library=self.name, **report)
        except Exception as fault:  # whatever it is, the library is served as it was
            message = "see the service's log"
            if isinstance(fault, VisirError) and "is updating" in fault.message:
                message = "another process is updating this library"
            self._progress |= {"error": message}
            seconds = round(time.perf_counter() - began, 3)
            self._log.write("error", "update", library=self.name, fault=str(fault) or repr(fault), seconds=seconds)
        finally:
            self._progress |= {"running": False, "stage": None}
            self._updating.release()

    def remove(self, item: str) -> int:
        """Take an item out of the library, for good; the photo stays. The generation without it."""
        # `HttpError` (404) when there is none, (409) while an update is under way, here or in another process.
        from visir.library.watch import remove

        self.item(item)
        busy = HttpError(409, "an update is under way.", hint="try again when it is done")
        if not self._updating.acquire(blocking=False):
            raise busy
        try:
            remove(self.folder, [item])
        except VisirError as fault:
            if "is updating" in fault.message:
                raise busy from None
            raise
        finally:
            self._updating.release()
        self.refresh()
        return self.library.generation

    def close(self) -> None:
        """Answer what waits, then close the library."""
        self.light.close()
        self.heavy.close()
        self.library.close()

    def _batcher(self, name: str, size: int) -> Batcher[Query, bytes]:
        limits = self._settings
        return Batcher(self._answer, name=f"{self.name}-{name}", size=size, queue=limits.queue, wait=limits.wait)

    def _answer(self, queries: Sequence[Query]) -> list[bytes | Exception]:
        """A whole batch at once, on the batcher's thread."""
        if (refusal := self.lease.refusal()) is not None:
            return [refusal for _ in queries]
        answers = self.searcher.search_each(queries)
        cards = self.cards  # of the newest generation: a photo that was deleted meanwhile is not shown
        pages = [answer for answer in answers if not isinstance(answer, VisirError)]
        if pages:
            self._metrics.batch(self.name, len(queries), pages[0].seconds)
        shown_cards = cards.of(hit.id for answer in pages for hit in answer.hits)
        return [
            (refusal_of(answer) or answer) if isinstance(answer, VisirError) else results_json(answer, shown_cards)
            for answer in answers
        ]


class LibraryRegistry:
    """All libraries, by name. Models that several of them have are loaded once."""

    def __init__(
        self,
        settings: ServiceSettings,
        metrics: Metrics,
        log: ServiceLog,
        *,
        loaded: dict[str, Encoder] | None = None,
        callback: Callable[[str], object] = lambda message: None,
    ) -> None:
        one_blas_thread_from_now()
        self.handles: dict[str, LibraryHandle] = {}
        self._watching: list[PeriodicTask] = []
        faults, encoders = [], {} if loaded is None else loaded
        for folder in settings.libraries:
            handle = LibraryHandle(folder, settings, metrics, log, encoders, callback)
            if handle.name in self.handles:
                faults.append(f"{folder} and {self.handles[handle.name].folder} are both called {handle.name!r}")
            self.handles[handle.name] = handle
        raise_faults(ConfigurationError, "libraries", faults, hint="rename one: visir library make PLACE --name NAME")

    def handle(self, name: str) -> LibraryHandle:
        """The library of this name; `HttpError` (404) with the nearest name."""
        self.revive()
        if name not in self.handles:
            raise not_found("library", name, list(self.handles))
        return self.handles[name]

    def watch(self, interval: float, log: ServiceLog) -> None:
        """Look every so many seconds whether other processes have changed the libraries, until `close`; 0: never."""
        if interval:
            self._watching = [
                PeriodicTask(handle.refresh, interval=interval, name=f"reload {name}", log=log)
                for name, handle in self.handles.items()
            ]

    def revive(self) -> None:
        """Begin the looks for changes again where their thread has ended: nothing else would tell of it in time."""
        for watching in self._watching:
            if not watching.is_alive:
                watching.revive()

    @property
    def stale(self) -> list[str]:
        """The libraries that are not served, because they could not be compared with the disk for too long."""
        return [name for name, handle in self.handles.items() if handle.lease.status == "stale"]

    def close(self) -> None:
        """Close all."""
        for watching in self._watching:
            watching.stop()
        for handle in self.handles.values():
            handle.close()


def model_name(name: str) -> str:
    """A model's name for strangers: of a folder on this machine only its last part."""
    return Path(name).name if Path(name).is_absolute() else name
