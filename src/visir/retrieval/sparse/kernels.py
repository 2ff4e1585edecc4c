"""Compiled kernels of the inverted index: how a query is answered. How postings lie: `layout_kernels`.

One file of more than 400 lines, because all of it is `answer`: compiled code contains what it calls, and the cache on
disk is renewed when the file of the *caller* changes. A kernel in another file could change, and its old code would
still run.

**Answering.** Contributions are added into one 16-bit sum per document, in units so fine that the sum of all cannot
overflow; the sums of a block of documents stay in the first caches while its postings are read. What a sum is made of
is rounded and may be incomplete, so documents with large sums are scored from their own terms and weights.

- within a budget: the postings with the largest *query weight × weight × idf* are read, each with the middle of its
  grade, and the documents with the largest sums are scored. (The factor idf is what makes it work: a posting of a term
  that half of all documents have says little about which is best. Without it, the same recall costs some five times the
  postings.)
- exact: every rounding is upwards, so that a sum never understates what was added. Columns first, then postings, those
  first that lower the bound most for their number. What is not read can add at most R = Σ query weight × the weight
  where the prefix stopped. Once the k-th best exact score is known, only documents with sum + R ≥ that score can be
  better; when these are few they are scored, otherwise more postings are read.

The score of a pair is *defined* as the dot product of the float32 weights summed in float64 in ascending term order and
rounded to float32: a function of the two vectors alone. Equal scores stand in order of their places among the sorted
ids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visir.jit import CompiledInstruction, njit, plain

# Compiled kernels that lay out the postings of the inverted index.

LEVELS, GRADES = 16, 32
BLOCK = (1 << 15) - 1
"""Documents in a block."""
EDGES = np.array([*np.round(255 * 0.91 ** np.arange(GRADES)), 0], np.int64)
"""The largest weight of each grade, in 255ths, and 0."""
GRADE = np.array([np.flatnonzero(byte <= EDGES[:GRADES])[-1] for byte in range(256)], np.int64)


@njit()
def count(terms: Any, values: Any, frequency: Any, maxima: Any) -> None:
    """How many documents have each term, and the term's largest weight."""
    for j in range(terms.shape[0]):
        term = terms[j]
        frequency[term] += 1
        if values[j] > maxima[term]:
            maxima[term] = values[j]


@njit()
def _byte(value: Any, maximum: Any) -> int:
    return max(1, min(255, int(np.ceil(np.float64(value) / np.float64(maximum) * 255.0))))


@njit()
def count_grades(offsets: Any, terms: Any, values: Any, rows: Any, maxima: Any, counts: Any, gap_starts: Any) -> None:
    """Fill `counts` (T, B, G), the documents of each grade, and `gap_starts` (n + 1,), where their gaps will stand."""
    # `rows` (V,) says which of the T terms that occur a term is; `maxima` (T,) are their largest weights.
    for document in range(offsets.shape[0] - 1):
        block, before, size = document // BLOCK, -1, 0
        for j in range(offsets[document], offsets[document + 1]):
            row = int(rows[terms[j]])
            counts[row, block, GRADE[_byte(values[j], maxima[row])]] += 1
            size += 1 + (row - before - 1) // 255
            before = row
        gap_starts[document + 1] = gap_starts[document] + size


@njit()
def lay_out(counts: Any, levels: Any) -> int:
    """Turn `counts` into the place of each grade's first posting, and fill `levels`; the number of postings."""
    place = 0
    for row in range(counts.shape[0]):
        for block in range(counts.shape[1]):
            last = GRADES - 1
            while last >= 0 and counts[row, block, last] == 0:
                last -= 1
            length = 0
            for grade in range(GRADES):
                size = max(counts[row, block, grade], 1) if grade <= last else 0
                counts[row, block, grade] = place + length
                length += size
                levels[row, block, grade // (GRADES // LEVELS)] = length
            place += length
    return place


@njit()
def invert(
    offsets: Any, terms: Any, values: Any, rows: Any, maxima: Any, place: Any, levels: Any, column_of: Any,
    postings: Any, columns: Any, gaps: Any,
) -> None:  # fmt: skip
    """Fill `postings`, `columns` and `gaps`; `place` is what `lay_out` made of the counts."""
    at, begin = 0, 0
    for document in range(offsets.shape[0] - 1):
        block, before = document // BLOCK, -1
        number = document - block * BLOCK
        for j in range(offsets[document], offsets[document + 1]):
            row = int(rows[terms[j]])
            byte = _byte(values[j], maxima[row])
            grade = GRADE[byte]
            postings[place[row, block, grade]] = number
            place[row, block, grade] += 1
            if column_of[row] >= 0:
                columns[column_of[row], document + block] = byte
            for _ in range((row - before - 1) // 255):
                gaps[at] = 0
                at += 1
            gaps[at] = (row - before - 1) % 255 + 1
            at += 1
            before = row
    for row in range(levels.shape[0]):
        for block in range(levels.shape[1]):
            end = begin + int(levels[row, block, LEVELS - 1])
            for grade in range(GRADES):
                if begin == end:
                    break
                if place[row, block, grade] == begin:  # nothing was written: a grade without documents
                    postings[begin] = BLOCK
                    begin += 1
                begin = max(begin, int(place[row, block, grade]))
                postings[begin - 1] |= np.uint16(1 << 15)


@njit()
def decode(documents: Any, gap_starts: Any, gaps: Any, listed: Any, terms: Any) -> None:
    """Fill `terms` with the terms of these documents, one after another; `listed` (T,): the terms that occur."""
    at = 0
    for i in range(documents.shape[0]):
        row = -1
        for j in range(gap_starts[documents[i]], gap_starts[documents[i] + 1]):
            if gaps[j] == 0:
                row += 255
            else:
                row += int(gaps[j])
                terms[at] = listed[row]
                at += 1


@njit()
def first_fault(offsets: Any, gap_starts: Any, gaps: Any, count: int) -> int:
    """The first document whose gaps are not those of as many terms, of `count`, as it has weights; -1 if none."""
    for document in range(offsets.shape[0] - 1):
        row, size = -1, 0
        begin, end = gap_starts[document], gap_starts[document + 1]
        if begin < 0 or end < begin or end > gaps.shape[0]:
            return document
        for j in range(begin, end):
            row += 255 if gaps[j] == 0 else int(gaps[j])
            size += gaps[j] > 0
        if row >= count or size != offsets[document + 1] - offsets[document] or (end > begin and gaps[end - 1] == 0):
            return document
    return -1


STRIPES = 16
PAD = 64 * STRIPES
MAX_DOCUMENTS = 1 << 24
MAX_QUERY_TERMS = 16_384
_CHUNK = 8192  # documents whose sums stay in the first-level cache while columns are added
_SHORT = 30_000  # postings that are read faster than one thinks about them
_FEW = 256  # documents that are cheaper to score than to rule out
_PER = GRADES // LEVELS
_MIDDLES = np.sqrt(EDGES[:GRADES] * np.maximum(EDGES[1:], 6.0)).astype(np.float32) / np.float32(255)
"""What a weight of each grade is about, as a share of the term's largest weight."""


@CompiledInstruction
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:  # pragma: no cover - compiled
    """Ask for the cache line of `array[index]`; the forward index is far larger than any cache."""
    from numba import types
    from numba.core import cgutils

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
def _add_postings(sums: Any, postings: Any, steps: Any, grade: Any) -> None:
    """Add postings, from the beginning of a grade on, to the sums of their block."""
    at = np.uint64(grade)
    for i in range(postings.shape[0]):
        posting = postings[i]
        sums[posting & np.uint16(BLOCK)] += steps[at & np.uint64(GRADES - 1)]
        at += np.uint64(posting >> np.uint16(15))


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
    for start in range(0, width, 32):
        if _reaching(maxima[start : start + 32], low) == 0:
            continue
        for i in range(start, start + 32):
            if maxima[i] >= low:
                for stripe in range(STRIPES):
                    value = sums[stripe * width + i]
                    if value >= low and value < high:
                        slot = stripe * width + i
                        candidates[n] = slot - (slot >> 15)
                        n += 1
    return n


@njit()
def _ask_for(document: Any, vectors: Any) -> None:
    offsets, gap_starts, gaps, values = vectors
    for j in range(gap_starts[document], gap_starts[document + 1], 64):
        _prefetch(gaps, j)
    for j in range(offsets[document], offsets[document + 1], 16):
        _prefetch(values, j)


@njit()
def _rows_of(gaps: Any, rows: Any) -> None:
    """The rows of a document's terms."""
    at, row = np.uint64(0), np.int64(-1)
    for j in range(gaps.shape[0]):
        gap = np.int64(gaps[j])
        longer = (gap - np.int64(1)) >> np.int64(8)  # -1 where the next gap is longer by 255, otherwise 0
        row += gap + (longer & np.int64(255))
        rows[at] = np.uint32(row)
        at += np.uint64(longer + np.int64(1))


@njit("reassoc")
def _sum(query: Any, rows: Any, values: Any) -> Any:
    """The sum of products in an order that vector units like."""
    total = 0.0
    for j in range(values.shape[0]):
        total += query[np.uint64(rows[j])] * np.float64(values[j])
    return total


@njit()
def _score(query: Any, rows: Any, values: Any) -> Any:
    """The score (by its definition), and whether a term is shared; `query` (T,) float64 is 0 where it has no term."""
    # Two orders of m products, all positive, differ by less than 2 m 2⁻⁵³ of the sum. Unless this much decides to which
    # float32 the sum is rounded, which is rare, the order makes no difference.
    total = _sum(query, rows, values)
    slack = 2.3e-16 * (values.shape[0] + 2)
    score = np.float32(total * (1.0 - slack))
    if score != np.float32(total * (1.0 + slack)):
        total = 0.0
        for j in range(values.shape[0]):
            total += query[np.uint64(rows[j])] * np.float64(values[j])
        score = np.float32(total)
    return score, total > 0.0


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
def _score_documents(candidates: Any, n: int, query: Any, vectors: Any, places: Any, keys: Any, filled: int) -> int:
    """Append the keys of those of `candidates[:n]` that share a term with the query; how many there are then."""
    offsets, gap_starts, gaps, values = vectors
    weights, rows = query
    for i in range(min(4, n)):
        _ask_for(candidates[i], vectors)
    for i in range(n):
        if i + 4 < n:
            _ask_for(candidates[i + 4], vectors)
        document = candidates[i]
        _rows_of(gaps[gap_starts[document] : gap_starts[document + 1]], rows)
        score, shared = _score(weights, rows, values[offsets[document] : offsets[document + 1]])
        if shared:
            keys[filled] = _key(score, places[document])
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
    """How many levels of each query term to read so that the most telling postings, at most `budget`, are read."""
    # A posting is worth query weight × weight × idf. Worths are counted by the leading bits of their float32 form, 16
    # classes per factor of two.
    classes = np.zeros(4096, np.int64)
    for j in range(m):
        worth, before = np.float32(bound[j]) * informative[row[j]], np.uint32(0)
        for level in range(LEVELS):
            middle = np.float32(worth * _MIDDLES[_PER * level])
            until = levels[row[j], level]
            classes[middle.view(np.uint32) >> np.uint32(19)] += np.int64(until - before)
            before = until
    read, lowest = 0, 4095
    while lowest >= 0 and (read == 0 or read + classes[lowest] <= budget):
        read += classes[lowest]
        lowest -= 1
    for j in range(m):
        worth = np.float32(bound[j]) * informative[row[j]]
        taken[j] = 0
        for level in range(LEVELS):
            middle = np.float32(worth * _MIDDLES[_PER * level])
            if np.int64(middle.view(np.uint32) >> np.uint32(19)) <= lowest:
                break
            taken[j] = level + 1


@njit()
def _price(bound: Any, number: Any) -> Any:
    """A class of postings per unit by which reading them lowers the bound, two classes per factor of two."""
    return np.int64(np.float32((np.float64(number) + 1.0) / bound).view(np.uint32) >> np.uint32(22))


@njit()
def _prefixes_by_price(m: int, row: Any, bound: Any, levels: Any, rest: Any, taken: Any) -> Any:
    """Read (further) levels of the terms, cheapest first, until all that is unread adds at most `rest`; what it
    adds."""
    # `bound` is query weight × largest weight, 0 for terms that need no postings.
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
            gains[dearest] += bound[j] * (EDGES[_PER * level] - EDGES[_PER * (level + 1)]) / 255.0
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
        if taken[j] == 0 or levels[row[j], taken[j] - 1] < levels[row[j], LEVELS - 1]:
            left += bound[j] * EDGES[_PER * taken[j]] / 255.0
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
def _read_columns(m: int, row: Any, factor: Any, column_of: Any, columns: Any, sums: Any) -> None:
    for start in range(0, sums.shape[0], _CHUNK):
        stop = start + _CHUNK
        for j in range(m):
            column = column_of[row[j]]
            if column >= 0:
                _add_column(sums[start:stop], columns[column, start:stop], np.ceil(factor[j] * (256.0 / 255.0)))


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
    room: Any,
    keys: Any,
    fill: Any,
) -> None:
    """The best k documents of the queries `first:last` as sorted keys `keys[q, :fill[q]]`, score and place."""
    # - `queries`: (offsets, terms, values); `vectors`: (offsets, gap_starts, gaps, values) of the documents
    # - `rows` (V,): the row that a term has in the lists, -1 for a term that no document has
    # - `lists`: (starts, maxima, idf, totals, levels, postings, column_of, columns); `starts` (T, B): where the
    #   postings of a term in a block begin; `totals` (T, L): the prefixes of `levels` (T, B, L), all blocks together
    # - `places` (n,): the place of each document among the sorted ids; `dead`: the numbers of deleted documents
    # - `budget`: how many postings are read for a query, 0 for as many as an exact answer takes
    # - `candidates`: when there is a budget, how many documents with the largest sums are scored
    # - `room`: (sums, maxima, promising, scored, query): scratch; `query`: weights (T,) float64, rows of a document;
    #   sums and weights are all 0 before and after
    starts, maxima, informative, totals, levels, postings, _, _ = lists
    sums, peaks, promising, scored, query = room
    offsets = queries[0]
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    row, taken, done = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    bound, listed, factor = np.empty(longest, np.float64), np.empty(longest, np.float64), np.empty(longest, np.float64)
    steps = np.empty((longest, GRADES), np.uint16)
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
                query[0][at] = values[j]
        filled = 0
        if m > MAX_QUERY_TERMS:  # more terms than the sums have room for: score every document
            filled = _score_all(n, promising, query, vectors, places, scored)
        else:
            # One unit of a sum is 1 / scale. A term adds at most its bound and 2 units, and all of them 65,535.
            scale = (65_000.0 - 3.0 * m) / total
            for j in range(m):
                factor[j] = bound[j] * scale
                done[j] = 0
            if budget > 0:
                _prefixes_by_worth(m, row, bound, informative, totals, budget, taken)
                for j in range(m):
                    for grade in range(GRADES):
                        steps[j, grade] = np.uint16(factor[j] * _MIDDLES[grade] + 1.0)
                reached = _most_promising(
                    m, row, steps, taken, starts, levels, postings, dead, candidates, sums, peaks, promising, scored
                )
                filled = _score_documents(promising, reached, query, vectors, places, scored, 0)
            if budget == 0 or filled < k:  # too few: what was not read may hold more
                for j in range(m):
                    done[j] = 0
                    for grade in range(GRADES):
                        steps[j, grade] = np.uint16(np.ceil(factor[j] * EDGES[grade] / 255.0))
                filled = _exactly(
                    m, row, bound, listed, factor, steps, done, taken, scale, k, lists, vectors, places, dead, room
                )
                _clear(sums)
        for j in range(m):
            query[0][row[j]] = 0.0
        size = min(k, filled)
        if filled > k:
            _smallest_first(scored, filled, k)
        keys[q, :size] = np.sort(scored[:size])
        fill[q] = size


@njit()
def _drop(dead: Any, sums: Any) -> None:
    """Clear the sums of deleted documents, and of the numbers that no document has."""
    for i in range(dead.shape[0]):
        sums[dead[i] + dead[i] // BLOCK] = 0
    for i in range(BLOCK, sums.shape[0], BLOCK + 1):
        sums[i] = 0


@njit()
def _ask_for_postings(row: int, block: int, done: int, starts: Any, levels: Any, postings: Any) -> None:
    first = starts[row, block] + (np.int64(levels[row, block, done - 1]) if done > 0 else 0)
    for i in range(4):
        _prefetch(postings, first + 32 * i)


@njit()
def _read(
    m: int, row: Any, steps: Any, done: Any, taken: Any, starts: Any, levels: Any, postings: Any, block: int, sums: Any
) -> None:
    """Add one block's postings of the levels from `done` to `taken` of each term, those to come already asked for."""
    for j in range(m):
        if j + 4 < m:
            _ask_for_postings(row[j + 4], block, done[j + 4], starts, levels, postings)
        if j + 12 < m:
            _prefetch(levels[row[j + 12], block], 0)
            _prefetch(starts[row[j + 12]], block)
        if taken[j] > done[j]:
            begin, ends = starts[row[j], block], levels[row[j], block]
            first = begin + (np.int64(ends[done[j] - 1]) if done[j] > 0 else 0)
            _add_postings(sums, postings[first : begin + np.int64(ends[taken[j] - 1])], steps[j], _PER * done[j])


@njit()
def _most_promising(
    m: int, row: Any, steps: Any, taken: Any, starts: Any, levels: Any, postings: Any, dead: Any, wanted: int,
    sums: Any, peaks: Any, promising: Any, keys: Any,
) -> int:  # fmt: skip
    """Put the documents with the `wanted` largest sums into `promising`; how many they are (fewer if fewer have
    any)."""
    # Blocks are read one after another into the sums of the first, which stay in the first caches.
    part, tops, done = sums[: BLOCK + 1], peaks[: (BLOCK + 1) // STRIPES], np.zeros(m, np.int64)
    n, low, buried = 0, np.uint16(1), 0
    for block in range(levels.shape[1]):
        _read(m, row, steps, done, taken, starts, levels, postings, block, part)
        while buried < dead.shape[0] and dead[buried] < (block + 1) * BLOCK:
            part[dead[buried] - block * BLOCK] = 0
            buried += 1
        part[BLOCK] = 0
        _stripe_maxima(part, tops)
        if n < wanted:
            low = max(np.uint16(1), _floor(tops, wanted))
        reached = _collect(part, tops, low, 65_536, promising)
        for i in range(reached):
            number = np.uint64(65_535 - np.int64(part[promising[i]]))
            keys[n + i] = (number << np.uint64(32)) | np.uint64(promising[i] + block * BLOCK)
        n += reached
        if n > wanted:
            _smallest_first(keys, n, wanted)
            n, worst = wanted, keys[0]
            for i in range(1, n):
                worst = max(worst, keys[i])
            low = np.uint16(np.uint64(65_535) - (worst >> np.uint64(32)))
        _clear(part)
    for i in range(n):
        promising[i] = np.int64(keys[i] & np.uint64(0xFFFFFFFF))
    return n


@njit()
def _score_all(n: int, candidates: Any, query: Any, vectors: Any, places: Any, scored: Any) -> int:
    living = 0
    for document in range(n):
        if places[document] >= 0:
            candidates[living] = document
            living += 1
    return _score_documents(candidates, living, query, vectors, places, scored, 0)


@njit()
def _exactly(
    m: int,
    row: Any,
    bound: Any,
    listed: Any,
    factor: Any,
    steps: Any,
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
    starts, _, _, totals, levels, postings, column_of, columns = lists
    sums, peaks, candidates, scored, query = room
    number, total = 0, 0.0
    for j in range(m):
        listed[j] = bound[j] if column_of[row[j]] < 0 else 0.0
        taken[j] = 0
        if listed[j] > 0:
            number += int(totals[row[j], LEVELS - 1])
            total += listed[j]
    _read_columns(m, row, factor, column_of, columns, sums)
    rest = 0.0 if number <= _SHORT else 0.12 * total
    while True:
        left = _prefixes_by_price(m, row, listed, totals, rest, taken)
        for block in range(levels.shape[1]):
            part = sums[block * (BLOCK + 1) : (block + 1) * (BLOCK + 1)]
            _read(m, row, steps, done, taken, starts, levels, postings, block, part)
        for j in range(m):
            done[j] = max(done[j], taken[j])
        _drop(dead, sums)
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
        filled = _score_documents(candidates, reached, query, vectors, places, scored, 0)
        bar = np.floor(np.float64(_best(scored, filled, k)) * scale * (1.0 - 1e-6)) - 1.0
        low = max(np.int64(1), np.int64(bar) - unread)
        if left > 0.0 and np.int64(bar) - unread < 1:
            rest = 0.0
            continue
        if low < kth:
            reached = _collect(sums, peaks, np.uint16(low), kth, candidates)
            filled = _score_documents(candidates, reached, query, vectors, places, scored, filled)
        return filled


@njit()
def score_again(
    first: int, last: int, queries: Any, rows: Any, vectors: Any, offsets: Any, documents: Any, places: Any, room: Any,
    keys: Any, fill: Any,
) -> None:  # fmt: skip
    """Score `documents[offsets[q]:offsets[q + 1]]` for the queries `first:last`: as many keys, unsorted, from
    `offsets[q]` on, of which the first `fill[q]` count (the others share no term)."""
    query = room[4]
    for q in range(first, last):
        terms = queries[1][queries[0][q] : queries[0][q + 1]]
        values = queries[2][queries[0][q] : queries[0][q + 1]]
        for j in range(terms.shape[0]):
            if rows[terms[j]] >= 0:
                query[0][rows[terms[j]]] = values[j]
        candidates, out = documents[offsets[q] : offsets[q + 1]], keys[offsets[q] : offsets[q + 1]]
        fill[q] = _score_documents(candidates, candidates.shape[0], query, vectors, places, out, 0)
        for j in range(terms.shape[0]):
            if rows[terms[j]] >= 0:
                query[0][rows[terms[j]]] = 0.0


def rehearse() -> None:
    """Call every loop with few numbers, of the types that all searches have: that compiles it, or loads it."""
    n, terms = 3, 2
    offsets, numbers, values = plain(np.arange(n + 1)), plain(np.zeros(n, np.int32)), plain(np.ones(n, np.float32))
    frequency, maxima, rows = np.zeros(terms, np.int64), np.ones(terms, np.float32), np.arange(terms, dtype=np.int32)
    count(numbers, values, frequency, maxima)
    place, gap_starts = np.zeros((terms, 1, GRADES), np.int64), np.zeros(n + 1, np.int64)
    count_grades(offsets, numbers, values, rows, maxima, place, gap_starts)
    levels = np.zeros((terms, 1, LEVELS), np.uint16)
    postings, columns = np.empty(lay_out(place, levels), np.uint16), np.zeros((1, BLOCK + 1), np.uint8)
    gaps, column_of = np.empty(gap_starts[-1], np.uint8), np.array([0, -1], np.int32)
    invert(offsets, numbers, values, rows, maxima, place, levels, column_of, postings, columns, gaps)
    starts, totals, informative = np.array([[0], [n]]), levels.sum(axis=1, dtype=np.uint32), np.ones(terms, np.float32)
    listed, documents, dead = plain(rows), np.arange(n), np.empty(0, np.int64)
    vectors = offsets, plain(gap_starts), plain(gaps), values
    first_fault(offsets, vectors[1], vectors[2], terms)
    decode(documents, vectors[1], vectors[2], listed, np.empty(n, np.int32))
    lists = starts, plain(maxima), informative, totals, plain(levels), plain(postings), column_of, plain(columns)
    width = BLOCK + 1
    room = (
        np.zeros(width, np.uint16), np.empty(width // STRIPES, np.uint16), np.empty(width, np.int64),
        np.empty(width + 1, np.uint64), (np.zeros(terms), np.empty(terms + 1, np.uint32)),
    )  # fmt: skip
    keys, fill, k = np.empty((1, 1), np.uint64), np.zeros(1, np.int64), 1
    queries = offsets, numbers, values
    answer(0, 1, queries, rows, lists, vectors, documents, dead, k, 0, 0, room, keys, fill)
    score_again(0, 1, queries, rows, vectors, np.arange(2), documents, documents, room, keys[0], fill)
