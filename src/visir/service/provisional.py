"""Stands in for the Searcher until it is there; to be deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from visir.library import Library
from visir.records import Embeddings


@dataclass
class Hit:
    item: str
    rank: int
    score: float
    parts: dict[str, tuple[int, float]]


@dataclass
class Answer:
    hits: list[Hit]
    total: int
    seconds: dict[str, float]


class Searcher:
    def __init__(self, library: Library, *, device: str | None = None, encoders: Any = None) -> None:
        from visir.encoders import load

        self.library = library
        self.encoder = load(library.model, device=device)

    def search(self, queries: Any) -> list[Answer]:
        import time

        import pyarrow as pa

        out = []
        for query in queries:
            began = time.perf_counter()
            if query.item:
                vectors = self.library.indexes["dense"].select([query.item]).vectors
            elif query.image is not None:
                vectors = self.encoder.encode_images([query.image])
            else:
                vectors = self.encoder.encode_texts([query.said])
            middle = time.perf_counter()
            asked = Embeddings("text", pa.array(["q"]), vectors, self.encoder.card)
            run = self.library.indexes["dense"].search(asked, query.k + query.offset)
            found = run.answer("q")[query.offset :]
            hits = [
                Hit(one, query.offset + i + 1, s, {"dense": (query.offset + i + 1, s)})
                for i, (one, s) in enumerate(found)
            ]
            out.append(
                Answer(hits, len(self.library), {"encode": middle - began, "search": time.perf_counter() - middle})
            )
        return out
