"""The shelf: every library that is served, its models, and who is waiting for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.service.answers import Cards, address, results
from visir.service.batching import Batcher
from visir.service.errors import Refused, of_visir, unknown
from visir.service.logs import Log
from visir.service.metrics import Metrics
from visir.service.settings import Settings

if TYPE_CHECKING:
    from visir.library import Item, Library
    from visir.library.query import Query
    from visir.library.searcher import Searcher


_WORDS = 30


@dataclass
class Edition:
    """One generation of a library, with everything that belongs to it."""

    library: Library
    searcher: Searcher
    cards: Cards
    users: int = 0
    retired: bool = False

    def known(self, item: str) -> Item:
        """Everything known of an item; `Refused` (404) when there is none."""
        if not self.library.known([item]):
            raise Refused(404, f"there is no item {item!r}.", hint="was it deleted meanwhile? search again")
        return self.library.item(item)

    def original(self, item: str) -> tuple[bytes, str]:
        """The bytes of an item and their media type; `Refused` (404) when no file has them any more."""
        from visir.library import LibraryError

        try:
            return self.library.open_image(item)
        except LibraryError:  # its text names places on this machine
            message = "the original is not where it was: moved, changed, or on a disk that is not there."
            raise Refused(404, message, hint="bring the library up to date") from None

    def words(self, item: str) -> list[dict[str, Any]]:
        """The heaviest words of an item, in a library that has weighted words."""
        if "sparse" not in self.library.indexes:
            return []
        return [{"word": word, "weight": weight} for word, weight in self.searcher.words(item, _WORDS)]

    def duplicates(self, item: Item) -> list[str]:
        """Items that look nearly the same."""
        return []

    @cached_property
    def categories(self) -> list[dict[str, Any]]:
        """The tree of categories."""
        return tree(self.library)

    @cached_property
    def info(self) -> dict[str, Any]:
        """What `/v1/libraries` says."""
        from visir.library.filters import fields_of

        library, have = self.library, list(self.library.indexes)
        fields = fields_of(library.database.rows).values()
        return {
            "name": library.name,
            "items": len(library),
            "systems": [*have, "hybrid"] if len(have) == 2 else have,
            "model": model_name(library.model),
            "head": None if library.head is None else model_name(library.head),
            "fields": [{"name": one.name, "type": one.type, "values": list(one.values) or None} for one in fields],
            "categories": bool(self.categories),
            "captions": library.captions is not None,
            "rerank": False,
            "generation": library.generation,
        }


class Desk:
    """Where one library is asked. Searches by words wait in one queue, searches with pictures or a second stage in
    another, because one of them takes as long as a hundred by words.
    """

    def __init__(self, folder: Path, settings: Settings, metrics: Metrics, log: Log, threads: int) -> None:
        from visir.library import Library

        self.folder, self._settings, self._metrics, self._log = folder, settings, metrics, log
        self._lock = threading.Lock()
        library = Library.open(folder)
        self.name = library.name
        self._edition = self._opened(library)
        self._threads = threads
        self.light = self._batcher("words", settings.batch)
        self.heavy = self._batcher("pictures", 8)
        metrics.waiting(self.name, lambda: len(self.light) + len(self.heavy))
        metrics.holds(self.name, len(library), library.generation)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Edition]:
        """The newest edition, which stays open until the end of the block, whatever is published meanwhile."""
        with self._lock:
            edition = self._edition
            edition.users += 1
        try:
            yield edition
        finally:
            with self._lock:
                edition.users -= 1
                done = edition.retired and not edition.users
            if done:
                edition.library.close()

    async def search(self, queries: Sequence[Query], *, heavy: bool) -> list[bytes]:
        """The answers, as JSON."""
        return await (self.heavy if heavy else self.light).ask(queries)

    def explain(self, query: Query, item: str) -> dict[str, Any]:
        """Why an item is an answer, as `wire.Explained`."""
        with self.reading() as edition:
            edition.known(item)
            return {"terms": [], "captions": [], "parts": {}, "words": edition.words(item)}

    def refresh(self) -> bool:
        """Take the newest state from disk; whether there was a newer one. Who is being served keeps the old one."""
        with self.reading() as before:
            newest = before.library.reload()
            if newest is before.library:
                return False
            edition = self._opened(newest, before.searcher)
        with self._lock:
            old, self._edition = self._edition, edition
            old.retired = True
            done = not old.users
        if done:
            old.library.close()
        self._metrics.holds(self.name, len(newest), newest.generation)
        self._log.write("info", "reload", library=self.name, generation=newest.generation, items=len(newest))
        return True

    def close(self) -> None:
        """Answer what waits, then close the library."""
        self.light.close()
        self.heavy.close()
        self._edition.library.close()

    def _opened(self, library: Library, before: Searcher | None = None) -> Edition:
        from visir.service.provisional import Searcher

        return Edition(library, Searcher(library), Cards(library, address(library.name)))

    def _batcher(self, name: str, size: int) -> Batcher[Query, bytes]:
        return Batcher(
            self._answer,
            name=f"{self.name}-{name}",
            size=size,
            queue=self._settings.queue,
            wait=self._settings.wait,
            begin=self._pin,
        )

    def _answer(self, queries: Sequence[Query]) -> list[bytes]:
        """A whole batch at once, on the batcher's thread."""
        with self.reading() as edition:
            try:
                answers = edition.searcher.search(queries)
            except VisirError as fault:
                raise of_visir(fault) from fault
            self._metrics.batch(self.name, len(queries), dict(answers[0].seconds))
            systems = tuple(edition.library.indexes)
            return [
                results(answer, query, edition.cards, query.among(systems), edition.library.generation)
                for answer, query in zip(answers, queries, strict=True)
            ]

    def _pin(self) -> None:
        """Matrix products of this thread run on so many cores: the rest of the service needs one too."""
        with contextlib.suppress(ImportError):
            import torch

            torch.set_num_threads(self._threads)


class Shelf:
    """All libraries, by name."""

    def __init__(self, settings: Settings, metrics: Metrics, log: Log) -> None:
        from visir.threads import cores

        threads = settings.threads or max(1, cores() - 1)
        self.desks: dict[str, Desk] = {}
        faults = []
        for folder in settings.libraries:
            desk = Desk(folder, settings, metrics, log, threads)
            if desk.name in self.desks:
                faults.append(f"{folder} and {self.desks[desk.name].folder} are both called {desk.name!r}")
            self.desks[desk.name] = desk
        raise_faults(ConfigurationError, "libraries", faults, hint="rename one: visir index PLACE --name NAME")

    def desk(self, name: str) -> Desk:
        """The desk of a library; `Refused` (404) with the nearest name."""
        if name not in self.desks:
            raise unknown("library", name, list(self.desks))
        return self.desks[name]

    def refresh(self, log: Log) -> None:
        """Look whether another process has updated a library; one that cannot be read is served as it was."""
        for desk in self.desks.values():
            try:
                desk.refresh()
            except VisirError as fault:
                log.write("error", "reload", library=desk.name, fault=str(fault))

    def close(self) -> None:
        """Close all."""
        for desk in self.desks.values():
            desk.close()


def tree(library: Library) -> list[dict[str, Any]]:
    """Categories and those below them, by name; each counts the items in it and below it."""
    return []


def model_name(name: str) -> str:
    """A model's name for strangers: of a folder on this machine only its last part."""
    return Path(name).name if Path(name).is_absolute() else name
