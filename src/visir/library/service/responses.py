"""From what the library says to JSON: results with what a page needs to show them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

if TYPE_CHECKING:
    from visir.library import Item, Library
    from visir.library.results import ResultPage

_KEPT = 50_000


class ItemCards:
    """What a list shows of each picture, as JSON text that is made once: 50,000 of them take about 20 MB.

    They belong to one generation of a library, and go with it.
    """

    def __init__(self, library: Library, at: str) -> None:
        self.library, self._at = library, at
        self._kept: dict[str, tuple[dict[str, Any], bytes]] = {}
        self._lock = threading.Lock()

    def of(self, ids: Iterable[str]) -> Mapping[str, tuple[dict[str, Any], bytes]]:
        """Item → what is shown, as it is and as JSON without its opening brace; items that are gone are left out."""
        wanted = set(ids)
        with self._lock:
            found = {one: self._kept[one] for one in wanted if one in self._kept}
        missing = wanted - found.keys()
        if missing:
            new = {item.id: self._made(item) for item in self.library.items(self.library.known(missing))}
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


def results(answer: ResultPage, known: Mapping[str, tuple[dict[str, Any], bytes]]) -> bytes:
    """An answer as the JSON of `wire.Results`; `known` is what `ItemCards.of` said of its hits."""
    hits = []
    for hit in answer.hits:
        if hit.item not in known:  # deleted between the search and now
            continue
        parts = {name: {"rank": rank, "score": score} for name, (rank, score) in hit.parts.items()}
        head = orjson.dumps({"rank": hit.rank, "score": hit.score, "parts": parts}, option=orjson.OPT_SERIALIZE_NUMPY)
        hits.append(orjson.Fragment(head[:-1] + b"," + known[hit.item][1]))
    return orjson.dumps(
        {
            "hits": hits,
            "total": answer.total,
            "next_offset": answer.next_offset,
            "system": answer.system,
            "seconds": answer.seconds,
            "generation": answer.generation,
        }
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
