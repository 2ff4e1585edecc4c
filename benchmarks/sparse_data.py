"""Generated sparse and dense vectors with the statistics of images and captions made sparse (thesis chapter 3).

30,522 terms; documents of some 350 weighted terms, expanded queries of some 150 (about 11.5 terms shared with a
document on average), plain queries of some 10 (about 3 shared). Behind them stand 1,500 concepts in 80 groups: a
document shows 3 to 6, most of one group, and a query asks for most of what one document shows. Every document depends
on the seed and on its own number alone, so that a smaller collection is the beginning of a larger one.
"""

# ruff: noqa: NPY002 (compiled code has only the old generator, one for each thread)
from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from visir.records import Embeddings, EncoderCard, SparseEmbeddings, Vocabulary

TERMS, CONCEPTS, GROUPS, DIMENSION = 30_522, 1_500, 80, 256
_SALIENT = 240  # terms that a concept brings along
_SPOKEN = 12_000  # terms that appear without a concept, the frequent ones often
_CARD = EncoderCard("generated", "imported")


def vectors(
    documents: int, queries: int, seed: int = 7, dense: bool = True, with_documents: bool = True
) -> dict[str, Any]:
    """`documents`, `expanded`, `plain` (SparseEmbeddings); if `dense`, `dense_documents` and `dense_queries` too."""
    world = _world(np.random.default_rng(seed))
    rng = np.random.default_rng([seed, documents])
    relevant = np.sort(rng.choice(documents, queries, replace=False))
    every = np.arange(documents)

    def sparse(modality: Any, rows: Any, what: int) -> SparseEmbeddings:
        return _sparse(modality, _ids(modality, range(len(rows))), rows, what, seed, world)

    def directions(modality: Any, rows: Any, what: int) -> Embeddings:
        found = np.empty((len(rows), DIMENSION), np.float32)
        _dense(rows, seed, what, *world[3:6], world[-1], found)
        return Embeddings(modality, _ids(modality, range(len(rows))), found, _CARD, True)

    made: dict[str, Any] = {
        **({"documents": sparse("image", every, 0)} if with_documents else {}),
        "expanded": sparse("text", relevant, 1),
        "plain": sparse("text", relevant, 2),
    }
    if dense:
        made |= {"dense_documents": directions("image", every, 0), "dense_queries": directions("text", relevant, 1)}
    return made


def documents_between(first: int, last: int, seed: int = 7) -> SparseEmbeddings:
    """The documents of these numbers, as in a collection of all: a shard."""
    ids = _ids("image", range(first, last))
    return _sparse("image", ids, np.arange(first, last), 0, seed, _world(np.random.default_rng(seed)))


def _sparse(
    modality: Any, ids: pa.StringArray, rows: Any, what: int, seed: int, world: tuple[NDArray[Any], ...]
) -> SparseEmbeddings:
    words = Vocabulary("generated", pa.array([f"w{i}" for i in range(TERMS)]), np.ones(TERMS, np.bool_))
    some = _rows(rows, seed, what, *world[:-1])
    lengths = np.concatenate([part[2] for part in some])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    terms, values = (np.concatenate([part[i] for part in some]) for i in (0, 1))
    return SparseEmbeddings(modality, ids, offsets, terms, values, words, _CARD)


def _ids(modality: str, numbers: range) -> pa.StringArray:
    return pa.array([f"{modality[0]}{i:07}" for i in numbers], pa.string())


def _world(rng: np.random.Generator) -> tuple[NDArray[Any], ...]:
    """Terms and weights of the concepts, the order of terms, popularities, and dense directions."""
    permutation = rng.permutation(TERMS).astype(np.int32)
    spoken = 1 / (np.arange(1, TERMS + 1) + 3.0) ** 1.05
    common = 1 / (np.arange(1, TERMS + 1) + 60.0) ** 0.8
    popular = 1 / (np.arange(1, CONCEPTS + 1) + 10.0) ** 0.85
    group = rng.integers(0, GROUPS, CONCEPTS)
    own = [rng.choice(TERMS, 600, replace=False) for _ in range(GROUPS)]
    main = rng.choice(np.arange(40, 6000), CONCEPTS, replace=False)
    terms, salience = np.zeros((CONCEPTS, _SALIENT), np.int32), np.zeros((CONCEPTS, _SALIENT), np.float32)
    for concept in range(CONCEPTS):
        general = rng.permutation(np.unique(rng.choice(TERMS, size=260, p=common / common.sum())))[:150]
        some = np.unique(np.concatenate([rng.choice(own[group[concept]], 110, replace=False), general]))
        some = rng.permutation(some[some != main[concept]])[: _SALIENT - 1]
        terms[concept, 0], terms[concept, 1 : len(some) + 1] = main[concept], some
        salience[concept, 0] = 6.0
        place = rng.permutation(len(some)) / 12.0
        salience[concept, 1 : len(some) + 1] = 2.2 / (1 + place) ** 0.9 * rng.lognormal(0, 0.35, len(some))
    weight = (0.15 + 1.6 * rng.gamma(1.2, 0.35, TERMS)) * np.where(np.arange(TERMS) < 60, 1.6, 1.0)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(GROUPS + 1))
    share = np.cumsum(popular[order])
    directions = rng.standard_normal((CONCEPTS, DIMENSION)) + 0.8 * rng.standard_normal((GROUPS, DIMENSION))[group]
    return (
        terms, salience, permutation, order, first, share / share[-1], spoken / spoken.sum(), weight,
        directions.astype(np.float32),
    )  # fmt: skip


@njit(cache=True)
def _shown(row: int, seed: int, order: Any, first: Any, share: Any, concepts: Any, strengths: Any) -> int:
    """What a document shows: distinct concepts and how strongly."""
    np.random.seed((seed * 1_000_003 + row) % 2**32)
    at = order.shape[0] - 1
    group = np.searchsorted(first, min(np.searchsorted(share, np.random.random()), at), side="right") - 1
    wanted, n = np.random.randint(3, 7), 0
    low = share[first[group] - 1] if first[group] > 0 else 0.0
    high = share[first[group + 1] - 1]
    for i in range(wanted):
        inside = i < max(1, wanted * 2 // 3)
        drawn = low + (high - low) * np.random.random() if inside else np.random.random()
        concept = order[min(np.searchsorted(share, drawn), at)]
        seen = False
        for j in range(n):
            seen = seen or concepts[j] == concept
        if not seen:
            concepts[n], strengths[n] = concept, np.random.gamma(3.0, 0.4)
            n += 1
    return n


@njit(cache=True)
def _part(
    rows: Any, seed: int, what: int, terms: Any, salience: Any, permutation: Any, order: Any, first: Any, share: Any,
    spoken: Any, weight: Any,
) -> Any:  # fmt: skip
    """(terms, values, lengths) of some rows; `what`: 0 documents, 1 expanded queries, 2 plain queries."""
    size = (450, 260, 40)[what]
    out_terms, out_values = np.empty(rows.shape[0] * size, np.int32), np.empty(rows.shape[0] * size, np.float32)
    lengths = np.zeros(rows.shape[0], np.int64)
    concepts, strengths = np.empty(8, np.int64), np.empty(8)
    found, filled = np.zeros(terms.shape[1] * 8 + _SPOKEN, np.int64), 0
    weights = np.zeros(spoken.shape[0])
    scale, mean, spread = (90.0, 350.0, 60.0) if what == 0 else (40.0, 150.0, 40.0)
    rare = 0
    while scale * spoken[rare] > 0.03:
        rare += 1
    cumulative = np.cumsum(spoken[rare:_SPOKEN])
    for r in range(rows.shape[0]):
        n = _shown(rows[r], seed, order, first, share, concepts, strengths)
        if what > 0:
            np.random.seed((seed * 7_000_003 + rows[r] * 3 + what) % 2**32)
            for c in range(n):
                if c > 0 and np.random.random() > 0.85:
                    strengths[c] = 0.0
        count = 0
        if what == 2:
            for c in range(n):
                if strengths[c] > 0:
                    found[count], weights[terms[concepts[c], 0]] = terms[concepts[c], 0], np.random.gamma(6.0, 0.22)
                    count += 1
            for i in range(np.random.randint(4, 8)):
                edge = np.sum(spoken[:40]) if i < 4 else 1.0
                term = np.searchsorted(np.cumsum(spoken), np.random.random() * edge)
                if weights[term] == 0.0:
                    found[count] = term
                    weights[term] = np.random.gamma(2.0, 0.12) if term < 40 else np.random.gamma(6.0, 0.22)
                    count += 1
            for i in range(count):
                weights[found[i]] *= 2.0
        else:
            for c in range(n):
                if strengths[c] > 0:
                    for i in range(terms.shape[1]):
                        if salience[concepts[c], i] > 0:
                            term = terms[concepts[c], i]
                            if weights[term] == 0.0:
                                found[count] = term
                                count += 1
                            noise = np.exp(0.5 * np.random.standard_normal())
                            weights[term] += strengths[c] * salience[concepts[c], i] * noise
            for term in range(rare):
                if np.random.random() < min(0.97, scale * spoken[term]):
                    if weights[term] == 0.0:
                        found[count] = term
                        count += 1
                    weights[term] += weight[term] * np.exp(0.5 * np.random.standard_normal())
            for _ in range(np.random.poisson(scale * cumulative[-1])):
                term = rare + np.searchsorted(cumulative, np.random.random() * cumulative[-1])
                if weights[term] == 0.0:
                    found[count] = term
                    count += 1
                    weights[term] = weight[term] * np.exp(0.5 * np.random.standard_normal())
        keep = size if what == 2 else int(min(size, max(20.0, mean + spread * np.random.standard_normal())))
        cut = 0.0
        if count > keep:
            cut = np.partition(weights[found[:count]], count - keep)[count - keep]
        kept = np.empty(count, np.int64)
        m = 0
        for i in range(count):
            if weights[found[i]] >= cut and m < size:
                kept[m] = permutation[found[i]] * np.int64(1 << 32) + found[i]
                m += 1
        for key in np.sort(kept[:m]):
            term = key & 0xFFFFFFFF
            out_terms[filled] = key >> 32
            out_values[filled] = min(3.0, np.log1p(weights[term] - 0.85 * cut))
            filled += 1
        lengths[r] = m
        for i in range(count):
            weights[found[i]] = 0.0
    return out_terms[:filled].copy(), out_values[:filled].copy(), lengths


def _rows(rows: Any, *world: Any) -> list[Any]:
    return [_part(rows[start : start + 8192], *world) for start in range(0, len(rows), 8192)]


@njit(cache=True)
def _dense(rows: Any, seed: int, what: int, order: Any, first: Any, share: Any, directions: Any, out: Any) -> None:
    concepts, strengths = np.empty(8, np.int64), np.empty(8)
    for r in range(rows.shape[0]):
        n = _shown(rows[r], seed, order, first, share, concepts, strengths)
        np.random.seed((seed * 9_000_011 + rows[r] * 3 + what) % 2**32)
        total = np.zeros(directions.shape[1])
        for c in range(n):
            if what == 0 or c == 0 or np.random.random() < 0.85:
                for i in range(total.shape[0]):
                    total[i] += strengths[c] * directions[concepts[c], i]
        total /= np.sqrt(np.sum(total * total))
        for i in range(total.shape[0]):
            total[i] += 0.7 / 16 * np.random.standard_normal()
        total /= np.sqrt(np.sum(total * total))
        for i in range(total.shape[0]):
            out[r, i] = total[i]
