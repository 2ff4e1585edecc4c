"""From what the library says to JSON: results with what a page needs to show them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from cachetools import LRUCache

from visir.errors import VisirError
from visir.serving.refusals import HttpError

if TYPE_CHECKING:
    from visir.library.check import Item
    from visir.library.results import ResultPage
    from visir.library.snapshot import LibrarySnapshot


# What is raised while a library is searched, as refusals.


def refusal_of(fault: VisirError) -> HttpError | None:
    """A query or a condition that cannot be answered: 422 with the same message and next action; an unknown item:
    404."""
    # None for every other error of visir: it is not the client's, and its text may name places on this machine.
    from visir.library.filters import FilterError
    from visir.library.layout import UnknownItemError
    from visir.library.query import QueryError

    if isinstance(fault, UnknownItemError):
        return HttpError(404, fault.message, hint=fault.hint)
    return HttpError(422, fault.message, hint=fault.hint) if isinstance(fault, FilterError | QueryError) else None


CACHED_CARDS = 50_000


class ItemCards:
    """What a list shows of each picture, as JSON text that is made once: 50,000 of them take about 20 MB."""

    # They belong to one generation of a library, and go with it.

    def __init__(self, library: LibrarySnapshot, address: str) -> None:
        self.library, self._address = library, address
        self._cache: LRUCache[str, tuple[dict[str, Any], bytes]] = LRUCache(CACHED_CARDS)
        self._lock = threading.Lock()

    def of(self, ids: Iterable[str]) -> Mapping[str, tuple[dict[str, Any], bytes]]:
        """From item to its card: a record, and JSON without its opening brace; items that are gone are left out."""
        wanted = set(ids)
        with self._lock:
            cards = {id: self._cache[id] for id in wanted if id in self._cache}
        missing = wanted - cards.keys()
        if missing:
            new = {item.id: self._card(item) for item in self.library.items(self.library.existing(missing))}
            cards |= new
            with self._lock:
                self._cache.update(new)
        return cards

    def _card(self, item: Item) -> tuple[dict[str, Any], bytes]:
        card = {
            "id": item.id,
            "thumbnail": f"{self._address}/items/{item.id}/thumbnail" if item.width is not None else None,
            "width": item.width,
            "height": item.height,
            "name": valid_utf8(item.name),
            "caption": valid_utf8(item.captions[0][1]) if item.captions else None,
            "product": None if item.product is None else valid_utf8(item.product),
            "price": valid_utf8(item.price) or None,
        }
        return card, orjson.dumps(card)[1:]


def results_json(page: ResultPage, cards: Mapping[str, tuple[dict[str, Any], bytes]]) -> bytes:
    """A page of answers as the JSON of `wire.Results`."""
    hits = []
    for hit in page.hits:
        if hit.id not in cards:  # deleted between the search and now
            continue
        parts = {name: {"rank": rank, "score": score} for name, (rank, score) in hit.parts.items()}
        head = orjson.dumps({"rank": hit.rank, "score": hit.score, "parts": parts}, option=orjson.OPT_SERIALIZE_NUMPY)
        hits.append(orjson.Fragment(head[:-1] + b"," + cards[hit.id][1]))
    return orjson.dumps(
        {
            "hits": hits,
            "total": page.total,
            "matched": page.matched,
            "next_offset": page.next_offset,
            "by": page.by,
            "system": page.system,
            "label": page.label,
            "seconds": page.seconds,
            "generation": page.generation,
            "read": [
                {"words": valid_utf8(words.words), "where": [vars(condition) for condition in words.where]}
                for words in page.read
            ],
            "changes": [valid_utf8(change) for change in page.changes],
        }
    )


def batch_json(answers: Sequence[bytes]) -> bytes:
    """Several answers, in order, as the JSON of `wire.BatchResults`."""
    return b'{"answers":[' + b",".join(answers) + b"]}"


def library_path(name: str) -> str:
    """The path under which the service has a library."""
    return f"/v1/libraries/{quote(name, safe='')}"


def valid_utf8(text: str) -> str:
    """Text that UTF-8 can carry: a file name on disk may be any bytes."""
    return text.encode("utf-8", "replace").decode("utf-8")
