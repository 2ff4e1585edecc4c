"""From what the library says to JSON: results with what a page needs to show them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from visir.service.wire import DEEPEST

if TYPE_CHECKING:
    from visir.library import Item, Library
    from visir.library.query import Query
    from visir.library.searcher import Answer

_KEPT = 50_000


class Cards:
    """What a list shows of each picture, as JSON text that is made once: 50,000 of them take about 20 MB.

    They belong to one generation of a library, and go with it.
    """

    def __init__(self, library: Library, at: str) -> None:
        self._library, self._at = library, at
        self._kept: dict[str, tuple[dict[str, Any], bytes]] = {}
        self._lock = threading.Lock()

    def of(self, ids: Iterable[str]) -> Mapping[str, tuple[dict[str, Any], bytes]]:
        """Item → what is shown, as it is and as JSON without its opening brace; items that are gone are left out."""
        wanted = set(ids)
        with self._lock:
            found = {one: self._kept[one] for one in wanted if one in self._kept}
        missing = wanted - found.keys()
        if missing:
            new = {item.id: self._made(item) for item in self._library.items(self._library.known(missing))}
            found |= new
            with self._lock:
                if len(self._kept) > _KEPT:
                    self._kept.clear()
                self._kept |= new
        return found

    def _made(self, item: Item) -> tuple[dict[str, Any], bytes]:
        card = {
            "item": item.id,
            "thumbnail": f"{self._at}/items/{item.id}/thumbnail" if item.width is not None else None,
            "width": item.width,
            "height": item.height,
            "name": sayable(item.name),
            "caption": sayable(item.captions[0][1]) if item.captions else None,
        }
        return card, orjson.dumps(card)[1:]


def results(answer: Answer, query: Query, cards: Cards, system: str, generation: int) -> bytes:
    """An answer as the JSON of `wire.Results`."""
    known = cards.of(hit.item for hit in answer.hits)
    hits = []
    for hit in answer.hits:
        if hit.item not in known:  # deleted between the search and now
            continue
        parts = {name: {"rank": rank, "score": score} for name, (rank, score) in hit.parts.items()}
        head = orjson.dumps({"rank": hit.rank, "score": hit.score, "parts": parts})
        hits.append(orjson.Fragment(head[:-1] + b"," + known[hit.item][1]))
    after = query.offset + query.k
    return orjson.dumps(
        {
            "hits": hits,
            "total": answer.total,
            "next_offset": after if len(answer.hits) == query.k and after < min(answer.total, DEEPEST) else None,
            "system": system,
            "seconds": {stage: round(seconds, 6) for stage, seconds in answer.seconds.items()},
            "generation": generation,
        },
        option=orjson.OPT_SERIALIZE_NUMPY,
    )


def batch(answers: Sequence[bytes]) -> bytes:
    """Several of them, in order."""
    return b'{"answers":[' + b",".join(answers) + b"]}"


def address(library: str) -> str:
    """The path under which a library is asked."""
    return f"/v1/libraries/{quote(library, safe='')}"


def sayable(text: str) -> str:
    """Text that UTF-8 can carry: a file name on disk may be any bytes."""
    return text.encode("utf-8", "replace").decode("utf-8")
