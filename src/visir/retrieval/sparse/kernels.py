"""Compiled kernels of the inverted index: how a query is answered. How postings lie: `layout_kernels`.

One file of more than 400 lines, because all of it is `answer`: compiled code contains what it calls, and the cache on
disk is renewed when the file of the *caller* changes. A kernel in another file could change, and its old code would
still run.

**Answering.** Contributions are added into one 16-bit sum per document, in units so fine that the sum of all cannot
overflow. Every rounding is upwards: a sum never understates what was added. What a sum is made of may be incomplete, so
documents with large sums are looked at twice more, at falling numbers and rising cost: estimated from their digests
(all terms, 3 bytes each, some 0.3 µs a document), then scored from their weights (some 1.2 µs).

- within a budget: the postings with the largest *query weight × weight × idf* are read, the documents with the largest
  sums are estimated, and the best of these, hardly more than are wanted, are scored. (The factor idf is what makes it
  work: a posting of a term that half of all documents have says little about which is best. Without it, the same recall
  costs some five times the postings.)
- exact: columns first, then postings, those first that lower the bound most for their number. What is not read can add
  at most R = Σ query weight × the weight where the prefix stopped. Once the k-th best exact score is known, only
  documents with sum + R ≥ that score can be better; when these are few they are estimated, and scored where the
  estimate still allows it, otherwise more postings are read.

The score of a pair is *defined* as the dot product of the float32 weights summed in float64 in ascending term order and
rounded to float32: a function of the two vectors alone. Equal scores stand in order of their places among the sorted
ids.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from visir.jit import njit

LEVELS = 16
STRIPES = 16
PAD = 64 * STRIPES
MAX_DOCUMENTS = 1 << 24
MAX_QUERY_TERMS = 16_384
_CHUNK = 8192  # documents whose sums stay in the first-level cache while columns are added
_SHORT = 30_000  # postings that are read faster than one thinks about them
_FEW = 256  # documents that are cheaper to estimate than to rule out


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:  # pragma: no cover - compiled
    """Ask for the cache line of `array[index]`; the forward index is far larger than any cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, signature.args[0], view, [arguments[1]])
        byte, word = cgutils.voidptr_t, cgutils.int32_t
        from llvmlite import ir  # type: ignore[import-untyped]

        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, word, word, word]), "llvm.prefetch.p0i8"
        )
        read, keep, data = (ir.Constant(word, n) for n in (0, 3, 1))
        builder.call(function, [builder.bitcast(place, byte), read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@njit()
def _add_column(sums: Any, column: Any, weight: Any) -> None:
    factor = np.uint32(weight)
    for i in range(sums.shape[0]):
        byte = np.uint32(column[i])
        sums[i] += np.uint16((factor * (byte << np.uint32(8))) >> np.uint32(16)) + np.uint16(min(byte, np.uint32(1)))


@njit()
def _add_postings(sums: Any, postings: Any, weight: Any) -> None:
    factor = np.uint32(weight)
    for i in range(postings.shape[0]):
        posting = postings[i]
        sums[posting >> np.uint32(8)] += np.uint16(
            ((factor * (posting & np.uint32(255))) >> np.uint32(8)) + np.uint32(1)
        )


@njit()
def _stripe_maxima(sums: Any, maxima: Any) -> None:
    """`maxima[i]` of the sums of documents i, i + W, i + 2 W, …, where W is the number of maxima."""
    width = maxima.shape[0]
    first, second = sums[:width], sums[width : 2 * width]
    for i in range(width):
        maxima[i] = max(first[i], second[i])
    for stripe in range(2, STRIPES):
        part = sums[stripe * width : (stripe + 1) * width]
        for i in range(width):
            maxima[i] = max(maxima[i], part[i])


@njit()
def _reaching(values: Any, low: Any) -> Any:
    total = np.uint16(0)
    for i in range(values.shape[0]):
        total = np.uint16(total + np.uint16(values[i] >= low))
    return total


@njit()
def _reached(values: Any, low: Any) -> Any:
    """How many values are `low` or more; counted 16,384 at a time so that 16-bit counters suffice."""
    total = 0
    for start in range(0, values.shape[0], 16_384):
        total += int(_reaching(values[start : start + 16_384], low))
    return total


@njit()
def _floor(maxima: Any, wanted: int) -> Any:
    """The largest value (1 or more) that at least `wanted` maxima reach, or 1: by bisection."""
    low, high = 1, 65_536
    while high - low > 1:
        middle = (low + high) // 2
        reached = _reached(maxima, np.uint16(middle))
        if reached >= wanted:
            low = middle
            if reached <= wanted + wanted // 16:
                break
        else:
            high = middle
    return np.uint16(low)


@njit()
def _collect(sums: Any, maxima: Any, low: Any, high: int, candidates: Any) -> int:
    """The documents whose sums are from `low` to less than `high`, and how many."""
    width, n = maxima.shape[0], 0
    for start in range(0, width, 64):
        if _reaching(maxima[start : start + 64], low) == 0:
            continue
        for i in range(start, start + 64):
            if maxima[i] >= low:
                for stripe in range(STRIPES):
                    value = sums[stripe * width + i]
                    if value >= low and value < high:
                        candidates[n] = stripe * width + i
                        n += 1
    return n


@njit()
def _ask_for(document: Any, offsets: Any, terms: Any, values: Any) -> None:
    first, last = offsets[document], offsets[document + 1]
    for j in range(first, last, 64 // terms.itemsize):
        _prefetch(terms, j)
    for j in range(first, last, 64 // values.itemsize):
        _prefetch(values, j)


@njit()
def _score(query: Any, terms: Any, values: Any, products: Any) -> Any:
    """The score (by its definition) and how many terms are shared; `query` (T,) float64 is 0 where it has no term."""
    shared = np.uint64(0)
    for j in range(terms.shape[0]):
        product = query[np.uint64(terms[j])] * np.float64(values[j])
        products[shared] = product
        shared += np.uint64(product > 0.0)
    total = 0.0
    for j in range(np.int64(shared)):
        total += products[j]
    return np.float32(total), shared


@njit()
def _key(score: Any, place: Any) -> Any:
    """A number that orders by falling score (not negative), then by rising place."""
    bits = np.uint32(np.float32(score).view(np.uint32) ^ np.uint32(0x7FFFFFFF))
    return (np.uint64(bits) << np.uint64(32)) | np.uint64(place)


@njit()
def _score_of(key: Any) -> Any:
    """The score inside a key."""
    bits = np.uint32(np.uint32(key >> np.uint64(32)) ^ np.uint32(0x7FFFFFFF))
    return bits.view(np.float32)


@njit()
def _score_documents(
    candidates: Any, n: int, query: Any, vectors: Any, places: Any, products: Any, keys: Any, filled: int
) -> int:
    """Append the keys of those of `candidates[:n]` that share a term with the query; how many there are then."""
    offsets, terms, values = vectors
    for i in range(min(2, n)):
        _ask_for(candidates[i], offsets, terms, values)
    for i in range(n):
        if i + 2 < n:
            _ask_for(candidates[i + 2], offsets, terms, values)
        first, last = offsets[candidates[i]], offsets[candidates[i] + 1]
        score, shared = _score(query, terms[first:last], values[first:last], products)
        if shared > 0:
            keys[filled] = _key(score, places[candidates[i]])
            filled += 1
    return filled


@njit()
def _smallest_first(keys: Any, n: int, k: int) -> None:
    """Move the k smallest of `keys[:n]` to the front, unsorted (Hoare's selection)."""
    left, right = 0, n - 1
    while left < right:
        pivot = keys[(left + right) // 2]
        i, j = left, right
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            right = j
        elif k - 1 >= i:
            left = i
        else:
            break


@njit()
def _prefixes_by_worth(m: int, row: Any, bound: Any, informative: Any, levels: Any, budget: Any, taken: Any) -> None:
    """How many levels of each query term to read so that the most telling postings, at most `budget`, are read.

    A posting is worth query weight × weight × idf. Worths are counted by the leading bits of their float32 form, 16
    classes per factor of two.
    """
    classes = np.zeros(4096, np.int64)
    for j in range(m):
        worth, before = np.float32(bound[j]) * informative[row[j]] / np.float32(LEVELS), np.uint32(0)
        for level in range(LEVELS):
            middle = np.float32(worth * (np.float32(LEVELS - level) - np.float32(0.5)))
            until = levels[row[j], level]
            classes[middle.view(np.uint32) >> np.uint32(19)] += np.int64(until - before)
            before = until
    read, lowest = 0, 4095
    while lowest >= 0 and (read == 0 or read + classes[lowest] <= budget):
        read += classes[lowest]
        lowest -= 1
    for j in range(m):
        worth = np.float32(bound[j]) * informative[row[j]] / np.float32(LEVELS)
        taken[j] = 0
        for level in range(LEVELS):
            middle = np.float32(worth * (np.float32(LEVELS - level) - np.float32(0.5)))
            if np.int64(middle.view(np.uint32) >> np.uint32(19)) <= lowest:
                break
            taken[j] = level + 1


@njit()
def _price(bound: Any, number: Any) -> Any:
    """A class of postings per unit by which reading them lowers the bound, two classes per factor of two."""
    return np.int64(np.float32((np.float64(number) + 1.0) / bound).view(np.uint32) >> np.uint32(22))


@njit()
def _prefixes_by_price(m: int, row: Any, bound: Any, levels: Any, rest: Any, taken: Any) -> Any:
    """Read (further) levels of the terms, cheapest first, until all that is unread adds at most `rest`; what it adds.

    `bound` is query weight × largest weight, 0 for terms that need no postings.
    """
    gains = np.zeros(512, np.float64)
    unread = 0.0
    for j in range(m):
        if bound[j] <= 0:
            continue
        dearest, before = np.int64(0), np.uint32(0)
        for level in range(LEVELS):
            until = levels[row[j], level]
            dearest = max(dearest, _price(bound[j], until - before))
            before = until
            gains[dearest] += bound[j] / LEVELS
        unread += bound[j]
    price = 0
    left = unread
    while price < 511 and left > rest:
        left -= gains[price]
        price += 1
    if rest <= 0:
        price = 512
    left = 0.0
    for j in range(m):
        if bound[j] <= 0:
            continue
        dearest, before = np.int64(0), np.uint32(0)
        reach = 0
        for level in range(LEVELS):
            until = levels[row[j], level]
            dearest = max(dearest, _price(bound[j], until - before))
            before = until
            if dearest >= price:
                break
            reach = level + 1
        taken[j] = max(taken[j], reach)
        if taken[j] < LEVELS and levels[row[j], taken[j] - 1 if taken[j] else 0] < levels[row[j], LEVELS - 1]:
            left += bound[j] * (255.0 - 16.0 * taken[j]) / 255.0
        elif taken[j] == 0:
            left += bound[j]
    return left


@njit()
def _best(keys: Any, n: int, k: int) -> Any:
    """The score of the k-th best of `keys[:n]`, whose best k are moved to the front; -1 when there are fewer."""
    if n < k:
        return np.float32(-1.0)
    _smallest_first(keys, n, k)
    worst = keys[0]
    for i in range(1, k):
        worst = max(worst, keys[i])
    return _score_of(worst)


@njit()
def _read_columns(m: int, row: Any, factor: Any, column_of: Any, columns: Any, sums: Any, width: int) -> None:
    for start in range(0, width, _CHUNK):
        stop = min(width, start + _CHUNK)
        for j in range(m):
            column = column_of[row[j]]
            if column >= 0:
                _add_column(sums[start:stop], columns[column, start:stop], factor[j])


@njit()
def _ask_for_postings(m: int, row: Any, starts: Any, levels: Any, postings: Any) -> None:
    for j in range(m):
        _prefetch(levels[row[j]], 0)
    for j in range(m):
        _prefetch(postings, starts[row[j]])


@njit()
def _estimate(candidates: Any, n: int, factors: Any, offsets: Any, numbers: Any, digests: Any, keys: Any) -> None:
    """`keys[i]` orders `candidates[i]` by falling sum of *all* it shares with the query, in 256ths, then by number.

    It never understates the score either, and reads 3 bytes for each of the document's terms.
    """
    for i in range(min(4, n)):
        _ask_for(candidates[i], offsets, numbers, digests)
    for i in range(n):
        if i + 4 < n:
            _ask_for(candidates[i + 4], offsets, numbers, digests)
        first, last = offsets[candidates[i]], offsets[candidates[i] + 1]
        terms, weights = numbers[first:last], digests[first:last]
        total = np.uint32(0)
        for j in range(terms.shape[0]):
            total += factors[np.uint64(terms[j])] * np.uint32(weights[j])
        keys[i] = (np.uint64(np.uint32(0xFFFFFFFF) - total) << np.uint64(32)) | np.uint64(candidates[i])


@njit()
def _best_estimates(
    candidates: Any, n: int, finalists: int, factors: Any, vectors: Any, digests: Any, keys: Any
) -> int:
    """Move the `finalists` of `candidates[:n]` that share most with the query to the front; how many they are."""
    if n <= finalists:
        return n
    _estimate(candidates, n, factors, vectors[0], vectors[1], digests, keys)
    _smallest_first(keys, n, finalists)
    for i in range(finalists):
        candidates[i] = np.int64(keys[i] & np.uint64(0xFFFFFFFF))
    return finalists


@njit()
def _passing(candidates: Any, n: int, low: Any, factors: Any, vectors: Any, digests: Any, keys: Any) -> int:
    """Move those of `candidates[:n]` to the front that have `low` units or more in common; how many they are."""
    _estimate(candidates, n, factors, vectors[0], vectors[1], digests, keys)
    most = (np.uint64(0xFFFFFFFF) - (np.uint64(low) << np.uint64(8))) << np.uint64(32) | np.uint64(0xFFFFFFFF)
    count = 0
    for i in range(n):
        if keys[i] <= most:
            candidates[count] = candidates[i]
            count += 1
    return count


@njit()
def _clear(sums: Any) -> None:
    for i in range(sums.shape[0]):
        sums[i] = np.uint16(0)


@njit()
def answer(
    first: int,
    last: int,
    queries: Any,
    rows: Any,
    lists: Any,
    vectors: Any,
    places: Any,
    dead: Any,
    k: int,
    budget: int,
    candidates: int,
    finalists: int,
    room: Any,
    keys: Any,
    fill: Any,
) -> None:
    """The best k documents of the queries `first:last` as sorted keys `keys[q, :fill[q]]`, score and place.

    - `queries`: (offsets, terms, values); `vectors`: the same of the documents, with the terms as rows of the lists
    - `rows` (V,): the row that a term has in the lists, -1 for a term that no document has
    - `lists`: (starts, maxima, idf, levels, postings, column_of, columns, digests)
    - `places` (n,): the place of each document among the sorted ids; `dead`: the numbers of deleted documents
    - `budget`: how many postings are read for a query, 0 for as many as an exact answer takes
    - `candidates`, `finalists`: when there is a budget, how many documents with the largest sums are estimated, and how
      many of those are scored
    - `room`: (sums, maxima, found, query, products, scored, factors): scratch; sums, query and factors are all 0 before
      and after
    """
    starts, maxima, informative, levels, postings, _, _, digests = lists
    sums, peaks, reached_documents, query, products, scored, factors = room
    offsets = queries[0]
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    row, taken, done = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    bound, listed, factor = np.empty(longest, np.float64), np.empty(longest, np.float64), np.empty(longest, np.uint32)
    n = places.shape[0]
    for q in range(first, last):
        terms, values = queries[1][offsets[q] : offsets[q + 1]], queries[2][offsets[q] : offsets[q + 1]]
        m, total = 0, 0.0
        for j in range(terms.shape[0]):
            at = rows[terms[j]]
            if at >= 0:
                row[m] = at
                bound[m] = np.float64(values[j]) * np.float64(maxima[at])
                total += bound[m]
                m += 1
        fill[q] = 0
        if m == 0:
            continue
        for j in range(terms.shape[0]):
            at = rows[terms[j]]
            if at >= 0:
                query[at] = values[j]
        filled = 0
        if m > MAX_QUERY_TERMS:  # more terms than the sums have room for: score every document
            filled = _score_all(n, reached_documents, query, vectors, places, products, scored)
        else:
            # One unit of a sum is 1 / scale. A term adds at most factor * 255 / 256 + 1 units, and all of them 65,535.
            scale = (65_000.0 - 3.0 * m) / total
            for j in range(m):
                factor[j] = np.uint32(np.ceil(bound[j] * scale * (256.0 / 255.0)))
                done[j] = 0
                factors[row[j]] = factor[j]
            if budget > 0:
                _ask_for_postings(m, row, starts, levels, postings)
                _prefixes_by_worth(m, row, bound, informative, levels, budget, taken)
                _read(m, row, factor, done, taken, starts, levels, postings, sums)
                for i in range(dead.shape[0]):
                    sums[dead[i]] = 0
                _stripe_maxima(sums, peaks)
                low = _floor(peaks, candidates)
                reached = _collect(sums, peaks, low, 65_536, reached_documents)
                reached = _best_estimates(reached_documents, reached, finalists, factors, vectors, digests, scored)
                filled = _score_documents(reached_documents, reached, query, vectors, places, products, scored, 0)
                _clear(sums)
            if budget == 0 or filled < k:  # too few: what was not read may hold more
                for j in range(m):
                    done[j] = 0
                filled = _exactly(
                    m, row, bound, listed, factor, done, taken, scale, k, lists, vectors, places, dead, room
                )
                _clear(sums)
        for j in range(m):
            query[row[j]] = 0.0
            factors[row[j]] = 0
        size = min(k, filled)
        if filled > k:
            _smallest_first(scored, filled, k)
        keys[q, :size] = np.sort(scored[:size])
        fill[q] = size


@njit()
def _read(
    m: int, row: Any, factor: Any, done: Any, taken: Any, starts: Any, levels: Any, postings: Any, sums: Any
) -> None:
    """Add the postings of the levels from `done` to `taken` of each term, with those to come already asked for."""
    for j in range(m):
        if j + 2 < m and taken[j + 2] > done[j + 2]:
            ahead = row[j + 2]
            first = starts[ahead] + (np.int64(levels[ahead, done[j + 2] - 1]) if done[j + 2] > 0 else 0)
            last = min(first + 512, starts[ahead] + np.int64(levels[ahead, taken[j + 2] - 1]))
            for i in range(first, last, 16):
                _prefetch(postings, i)
        if taken[j] > done[j]:
            at = row[j]
            first = starts[at] + (np.int64(levels[at, done[j] - 1]) if done[j] > 0 else 0)
            _add_postings(sums, postings[first : starts[at] + np.int64(levels[at, taken[j] - 1])], factor[j])
            done[j] = taken[j]


@njit()
def _score_all(n: int, candidates: Any, query: Any, vectors: Any, places: Any, products: Any, scored: Any) -> int:
    living = 0
    for document in range(n):
        if places[document] >= 0:
            candidates[living] = document
            living += 1
    return _score_documents(candidates, living, query, vectors, places, products, scored, 0)


@njit()
def _exactly(
    m: int,
    row: Any,
    bound: Any,
    listed: Any,
    factor: Any,
    done: Any,
    taken: Any,
    scale: float,
    k: int,
    lists: Any,
    vectors: Any,
    places: Any,
    dead: Any,
    room: Any,
) -> int:
    """The keys of documents among which are, for certain, the best k (all that share a term, if fewer)."""
    starts, _, _, levels, postings, column_of, columns, digests = lists
    sums, peaks, candidates, query, products, scored, factors = room
    number, total = 0, 0.0
    for j in range(m):
        listed[j] = bound[j] if column_of[row[j]] < 0 else 0.0
        taken[j] = 0
        if listed[j] > 0:
            number += int(levels[row[j], LEVELS - 1])
            total += listed[j]
    _read_columns(m, row, factor, column_of, columns, sums, places.shape[0])
    rest = 0.0 if number <= _SHORT else 0.12 * total
    while True:
        left = _prefixes_by_price(m, row, listed, levels, rest, taken)
        _read(m, row, factor, done, taken, starts, levels, postings, sums)
        for i in range(dead.shape[0]):
            sums[dead[i]] = 0
        _stripe_maxima(sums, peaks)
        kth = int(_floor(peaks, k))
        unread = np.int64(np.ceil(left * scale))
        if left > 0.0:
            # A guess of how many will have to be scored, with the k-th largest sum in place of the k-th best score.
            guess = kth - unread
            if guess < 1 or _reached(peaks, np.uint16(guess)) > k + _FEW:
                rest = 0.0 if left < 0.02 * total else min(0.5 * left, 0.25 * np.float64(kth) / scale)
                continue
        reached = _collect(sums, peaks, np.uint16(kth), 65_536, candidates)
        filled = _score_documents(candidates, reached, query, vectors, places, products, scored, 0)
        bar = np.floor(np.float64(_best(scored, filled, k)) * scale * (1.0 - 1e-6)) - 1.0
        low = max(np.int64(1), np.int64(bar) - unread)
        if left > 0.0 and np.int64(bar) - unread < 1:
            rest = 0.0
            continue
        if low < kth:
            reached = _collect(sums, peaks, np.uint16(low), kth, candidates)
            if left > 0.0:
                reached = _passing(
                    candidates, reached, max(0, np.int64(bar)), factors, vectors, digests, scored[filled:]
                )
            filled = _score_documents(candidates, reached, query, vectors, places, products, scored, filled)
        return filled


@njit()
def score_again(
    first: int, last: int, queries: Any, rows: Any, vectors: Any, offsets: Any, documents: Any, places: Any, room: Any,
    keys: Any, fill: Any,
) -> None:  # fmt: skip
    """Score `documents[offsets[q]:offsets[q + 1]]` for the queries `first:last`: as many keys, unsorted, from
    `offsets[q]` on, of which the first `fill[q]` count (the others share no term).
    """
    query, products = room[3], room[4]
    for q in range(first, last):
        terms = queries[1][queries[0][q] : queries[0][q + 1]]
        values = queries[2][queries[0][q] : queries[0][q + 1]]
        for j in range(terms.shape[0]):
            if rows[terms[j]] >= 0:
                query[rows[terms[j]]] = values[j]
        candidates, out = documents[offsets[q] : offsets[q + 1]], keys[offsets[q] : offsets[q + 1]]
        fill[q] = _score_documents(candidates, candidates.shape[0], query, vectors, places, products, out, 0)
        for j in range(terms.shape[0]):
            if rows[terms[j]] >= 0:
                query[rows[terms[j]]] = 0.0
