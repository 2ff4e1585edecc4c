"""A kind of index: the signs of a vector's products with random ones find documents, which visir scores exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visir.retrieval.answers import CandidateRows
from visir.retrieval.index import Finder
from visir.retrieval.settings import Kind, SimilaritySettings, setting


@dataclass(frozen=True)
class SignSettings(SimilaritySettings):
    """What a person may set."""

    bits: int = setting(256, "signs kept of each vector: more find better", least=8)
    looked_at: int = setting(200, "documents scored for each query: more find better", least=1, search=True)


class Signs(Finder):
    """The five functions."""

    settings_type = SignSettings
    dumped_as = ".npy"

    def build(self, rows, settings):
        return signs(rows.compared(), settings.bits)

    def add(self, built, rows, settings):
        return np.concatenate([built, signs(rows.compared(len(built)), settings.bits)])

    def search(self, built, rows, queries, k, settings):
        alike = signs(queries.whole, settings.bits).astype(np.float32) @ built.T
        alike[:, rows.dead] = -np.inf
        return CandidateRows(np.argsort(-alike, axis=1, kind="stable")[:, : max(k, settings.looked_at)])

    def dump(self, built, path):
        np.save(path, built)

    def load(self, path, rows, facts, settings):
        built = np.load(path, allow_pickle=False)
        if built.shape != (len(rows), settings.bits):
            raise ValueError(f"signs of {len(built)} vectors for {len(rows)} rows")
        return built


def signs(vectors, bits):
    """1 or -1 for each vector and each random direction; the same directions at every call."""
    directions = np.random.default_rng(0).standard_normal((vectors.shape[1], bits), np.float32)
    return np.where(vectors @ directions > 0, np.int8(1), np.int8(-1))


SIGNS = Kind("signs", "signs of random products find documents", exact=False, vectors="dense", module=Signs)
