"""A long stream with faults through a live model: its sessions, memory and speed.

    python benchmarks/score_stream.py 10e6

A generated log of so many events, in the order of time, with events put in between that must change nothing:
repetitions, events of an earlier moment of their visitor, and stamps of the year 2100 (`--faults` of each kind per
event). A model (`--classifier`) that was trained on a small log of the same shop scores the stream. Then

- every session that the stream closed must be a session of the batch definition on the events without faults, and no
  other (visitor, begin, end, orders);
- what was set aside must be what was put in, by reason;
- memory is shown as the stream goes on: open sessions, remembered visitors and customers' sessions, and the process's.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.sessions import LiveScorer, generate, make, train

EVENTS_PER_SESSION = 8.2
YEAR_2100 = 4_102_444_800_000_000
COLUMNS = ("visitor", "customer", "time", "device", "channel", "page", "query", "price", "action", "key")


def stream(events: Path, faults: float, added: Counter[str]) -> Iterator[dict[str, Any]]:
    """The events of a folder of sessions in the order of time, with faults."""
    rng = np.random.default_rng(0)
    query = f"SELECT {', '.join(COLUMNS)} FROM read_parquet('{events}/*.parquet') ORDER BY time, visitor, place"
    batches = duckdb.sql(query).to_arrow_reader(100_000)
    for batch in batches:
        chances = rng.random((batch.num_rows, 3)) < faults
        for row, (repeated, late, future) in zip(batch.to_pylist(), chances.tolist(), strict=True):
            yield row
            if repeated:
                added["duplicate"] += 1
                yield dict(row)
            if late:
                added["late"] += 1
                yield {**row, "time": row["time"] - 1, "page": "late"}
            if future:
                added["future"] += 1
                yield {**row, "time": YEAR_2100}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=float, help="about how many, such as 1e6")
    parser.add_argument("--faults", type=float, default=0.01, help="of each kind, per event")
    parser.add_argument("--classifier", default="blend", choices=("blend", "lr", "gbdt", "gru"))
    parser.add_argument("--at-once", type=int, default=2_000, help="events that come together; 1: one by one")
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    arguments = parser.parse_args()
    sessions = round(arguments.events / EVENTS_PER_SESSION)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        work = Path(name)
        for log, size in (("small", 10_000), ("large", sessions)):
            generate(work / log, size, seed=len(log))
            make(work / log / "events", work / f"{log}-sessions", mapping=work / log / "mapping.toml", threads=1)
        model = train(work / "small-sessions", arguments.classifier)
        visitors: list[str] = []
        numbers = array("q")

        def closed(session: Any, customer: str | None) -> None:
            visitors.append(session.visitor)
            numbers.extend((session.began, session.ended, session.orders))

        live, added = LiveScorer(model, closed=closed), Counter[str]()
        count = scores = 0
        began, busy = time.perf_counter(), time.process_time()
        heads = ("events", "scores", "open", "visitors", "past", "MB", "events/s")
        print(" ".join(f"{head:>11}" for head in heads))
        every = max(1, round(arguments.events / 10))
        events = stream(work / "large-sessions" / "events", arguments.faults, added)
        while chunk := list(islice(events, arguments.at_once)):
            shown = count // every
            count += len(chunk)
            scores += len(live.observe_all(chunk))
            if count // every > shown:
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                values = (count, scores, live.open_sessions, *live.remembered, round(memory))
                speed = count / (time.perf_counter() - began)
                print(" ".join(f"{value:11,}" for value in values), f"{speed:11,.0f}", flush=True)
        spent, busy = time.perf_counter() - began, time.process_time() - busy
        live.close_all()
        ends = np.frombuffer(numbers, np.int64).reshape(-1, 3)
        live_sessions = pa.table({"visitor": visitors, "began": ends[:, 0], "ended": ends[:, 1], "orders": ends[:, 2]})
        pq.write_table(live_sessions, work / "live_sessions.parquet")
        batch = f"SELECT visitor, began, ended, orders FROM read_parquet('{work}/large-sessions/sessions/*.parquet')"
        stream_rows = f"SELECT visitor, began, ended, orders FROM read_parquet('{work}/live_sessions.parquet')"
        differences = [
            duckdb.sql(f"SELECT count(*) FROM ({a} EXCEPT ALL {b})").fetchall()[0][0]
            for a, b in ((batch, stream_rows), (stream_rows, batch))
        ]
    print(f"{count:,} events, {scores:,} scores in {spent:,.0f} s ({busy:,.0f} s of processor time)")
    print(f"{count / busy:,.0f} events and {scores / busy:,.0f} scores per second of processor time")
    print(f"put in: {dict(sorted(added.items()))}; set aside: {dict(sorted(live.rejected.items()))}")
    print(
        f"{len(visitors):,} sessions; of the batch alone: {differences[0]:,}, of the stream alone: {differences[1]:,}"
    )
    if any(differences) or +live.rejected != +added:
        sys.exit("the stream's sessions or counts are not those of the batch")


if __name__ == "__main__":
    main()
