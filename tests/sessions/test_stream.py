"""Streams with faults: nothing late, repeated or from the future makes a session, and a killed reader goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from intent_log import BEGAN, DAY, MINUTE, Row, event, folder_of, random_log

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sessions import make
from visir.sessions.definition import LogMapping
from visir.sessions.examples import EverySession, draw
from visir.sessions.prediction.live import LiveScorer, Score, restore_state, save_state, score
from visir.sessions.prediction.purchase_model import PurchaseModel
from visir.sessions.prediction.stream_events import MOST_OF_A_MOMENT, EndedSession, fault_of, read_stream
from visir.sessions.prediction.training import train

for package in ("duckdb", "sklearn"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")

LOG = random_log(60)
for _row in LOG:  # some log in to pay, or to search, on the page that is open
    if _row["action"] in ("order", "query") and _row["customer"] is None:
        _row["customer"] = _row["visitor"].partition("-")[0]


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(LOG, tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def model(log_folder: Path) -> PurchaseModel:
    return train(log_folder, "lr")


class Ended(list[tuple[str, int, int, int]]):
    """The sessions that a scorer closed: visitor, begin, end, orders."""

    def __call__(self, session: EndedSession, customer: str | None) -> None:
        self.append((session.visitor, session.began, session.ended, session.orders))


def of_batch(folder: Path) -> list[tuple[str, int, int, int]]:
    table = pq.read_table(folder / "sessions").select(["visitor", "began", "ended", "orders"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def disturbed(rows: list[Row], seed: int = 0) -> tuple[list[Row], Counter[str]]:
    """Events beside those of a log: repetitions, old ones again, and stamps of the year 2100."""
    rng = np.random.default_rng(seed)
    stream: list[Row] = []
    added: Counter[str] = Counter()
    for row in rows:
        stream.append(row)
        if rng.random() < 0.05:
            stream.append(dict(row))
            added["duplicate"] += 1
        if rng.random() < 0.05:
            stream.append({**row, "time": row["time"] - 1, "page": "late"})
            added["late"] += 1
        if rng.random() < 0.05:
            stream.append({**row, "time": 4_102_444_800_000_000})
            added["future"] += 1
    return stream, added


def test_the_scores_of_a_stream_are_those_of_the_batch(model: PurchaseModel, log_folder: Path) -> None:
    live = LiveScorer(model)
    scores = {(one.visitor, one.began, one.step): one for row in LOG for one in live.observe(row)}
    drawn = draw(log_folder, EverySession())
    compared = 0
    for step in range(11):
        chances = model.parts["all"].probability(drawn, step)
        for row in np.flatnonzero(drawn.reached >= step):
            one = scores.pop((drawn.visitor[row], int(drawn.began[row]), step))
            assert one.probability == pytest.approx(chances[row], rel=1e-9)
            assert (one.setting == "identified") == (drawn.customer_step[row] <= step)
            assert one.session == drawn.visits[row] + 1
            compared += 1
    assert not scores and compared > 2_000


def test_events_that_come_together_are_scored_as_one_by_one(log_folder: Path) -> None:
    trained = train(log_folder, "blend")
    stream, _ = disturbed(LOG[:1500])
    alone, together = LiveScorer(trained), LiveScorer(trained)
    expected = [one for row in stream for one in alone.observe(row)]
    scores: list[Score] = []
    sizes = np.random.default_rng(0).integers(0, 400, len(stream))
    while stream:
        size, sizes = int(sizes[0]), sizes[1:]
        chunk, stream = stream[:size], stream[size:]
        scores += together.observe_all(chunk)
    assert scores == expected and together.to_state() == alone.to_state()


def test_faults_of_a_stream_change_no_session_and_no_score(model: PurchaseModel, log_folder: Path) -> None:
    stream, added = disturbed(LOG)
    ended = Ended()
    live, plain = LiveScorer(model, closed=ended), LiveScorer(model)
    scores = [one for row in stream for one in live.observe(row)]
    live.close_all()
    assert scores == [one for row in LOG for one in plain.observe(row)]
    assert sorted(ended) == of_batch(log_folder)
    assert live.rejected == added and min(added.values()) > 50


def test_an_event_of_a_session_that_is_over_makes_no_session(model: PurchaseModel) -> None:
    live = LiveScorer(model)
    rows = [event("a", 0), *(event(f"b{number}", 45 + number) for number in range(40)), event("a", 10), event("a", 29)]
    assert {one.visitor for row in rows[-2:] for one in live.observe(row)} == {"a"}, "nothing was closed yet"
    live = LiveScorer(model)
    assert not [one for row in rows for one in live.observe(row)][len(rows[:-2]) * 2 :]
    assert live.rejected == {"late": 2}
    (begins, _) = live.observe(event("a", 90))  # the visitor is back
    assert (begins.session, begins.step) == (2, 0)


def test_one_stamp_from_the_future_keeps_nothing_open(model: PurchaseModel) -> None:
    # The clock of the machine is before the stamp, and then after it: the second is a log that is read later.
    for now, set_aside in ((BEGAN + 365 * DAY, 1), (BEGAN + 4_000 * DAY, 0)):
        live = LiveScorer(model, now=lambda now=now: now)
        live.observe(event("wrong", 2 * 365 * DAY / MINUTE))
        for number in range(3_000):
            live.observe(event(f"v{number}", number * 10))
        assert live.rejected["future"] == set_aside
        assert live.open_sessions < 20 and not live.rejected["late"]


def test_what_is_remembered_has_an_end(model: PurchaseModel) -> None:
    live = LiveScorer(model)
    for number in range(6_000):  # a visitor every 20 minutes for 83 days, every third a customer
        customer = f"c{number}" if number % 3 == 0 else None
        live.observe(event(f"v{number}", number * 20, customer=customer))
    visitors, sessions = live.remembered
    assert 30 * 72 <= visitors <= 32 * 72 and sessions == pytest.approx(2_000, abs=10)
    for number in range(30):
        live.observe(event("later", 500 * DAY / MINUTE + number * 60))
    visitors, sessions = live.remembered
    assert visitors <= 1 and sessions == 0
    assert not live.observe(event("v1", 20)) and live.rejected["late"] == 1, "older than what is remembered"


def test_an_idle_session_of_the_customer_counts_before_it_is_closed(model: PurchaseModel) -> None:
    live = LiveScorer(model)
    live.observe(event("phone", 0, customer="x"))
    live.observe(event("phone", 1, None, "order", customer="x"))
    live.observe(event("pc", 40, customer="x"))
    assert [past.orders for past in live._past_of(live._open["pc"])] == [1] and live.open_sessions == 2


def test_a_state_goes_on_as_if_nothing_had_happened(model: PurchaseModel, tmp_path: Path) -> None:
    stream, _ = disturbed(LOG, 1)
    whole = LiveScorer(model)
    expected = [whole.observe(row) for row in stream]
    path = tmp_path / "state"
    for cut in (0, 1, len(stream) // 3, len(stream) - 1):
        before = LiveScorer(model)
        scores = [before.observe(row) for row in stream[:cut]]
        save_state(before, path, lines=cut)
        after = LiveScorer(model)
        assert restore_state(after, path) == cut
        assert scores + [after.observe(row) for row in stream[cut:]] == expected
        assert after.rejected == whole.rejected and after.to_state() == whole.to_state()


def test_a_state_of_something_else_is_refused(model: PurchaseModel, log_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "state"
    save_state(LiveScorer(model), path, lines=3)
    with refused(VisirError, code="state-of-another-model"):
        restore_state(LiveScorer(train(log_folder, "lr", seed=1)), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "visir_purchase_stream": 2}))
    with refused(VisirError, "newer", code="written-visir-version-one"):
        restore_state(LiveScorer(model), path)
    path.write_text("[1]")
    with refused(VisirError, code="version-not-read"):
        restore_state(LiveScorer(model), path)


@pytest.mark.parametrize("factor, unit", [(1_000_000, "seconds"), (1_000, "milliseconds")])
def test_another_unit_is_refused_with_the_factor(model: PurchaseModel, factor: int, unit: str) -> None:
    row = {**LOG[0], "time": LOG[0]["time"] // factor}
    with pytest.raises(ConfigurationError, match=f"looks like {unit}: microseconds are needed, {factor:,} times"):
        list(score(model, [row]))
    live = LiveScorer(model)  # in the middle of a stream it is set aside
    assert not live.observe(row) and live.rejected == {"wrong_unit": 1}


def test_an_unknown_action_is_refused_with_the_nearest(model: PurchaseModel) -> None:
    with refused(ConfigurationError, "action", "pages", meant="page") as caught:
        list(score(model, [{**LOG[0], "action": "pages"}]))
    assert "--preset" in (caught.value.hint or "")


@pytest.mark.parametrize("value", [["home"], 0.5, True, {"type": "home"}])
def test_a_text_that_is_none_disturbs_no_other_event(model: PurchaseModel, value: object) -> None:
    plain, live = LiveScorer(model), LiveScorer(model)
    expected = plain.observe_all(LOG[:200])
    wrong = [{**event("strange", 0), name: value} for name in ("visitor", "page", "customer", "query", "device")]
    assert live.observe_all([*LOG[:100], *wrong, *LOG[100:200]]) == expected
    assert live.rejected == {"no_text": 5} and live.to_state()["open"] == plain.to_state()["open"]


def test_an_id_may_be_a_number(model: PurchaseModel) -> None:
    texts, numbers = LiveScorer(model), LiveScorer(model)
    rows = [event("17", minute, customer="3") for minute in (0, 5, 90)]
    expected = texts.observe_all(rows)
    assert numbers.observe_all([{**row, "visitor": 17, "customer": 3} for row in rows]) == expected
    assert len(expected) == 5 and texts.to_state() == numbers.to_state()


MAPPING = LogMapping(
    "shop",
    "csv",
    raw={"visitor": ("cookie",), "time": ("at",), "event": ("event",), "page": ("page",), "agent": ("agent",)},
    events={"visitor": "visitor", "time": "time", "action": "event", "page": "page"},
    actions={"view": "page", "buy": "order"},
    unit="s",
    bot="agent LIKE '%bot%'",
)


def test_a_mapping_reads_a_stream_as_it_reads_a_log(model: PurchaseModel, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "cookie": row["visitor"],
            "at": str(row["time"] // 1_000_000),
            "event": {"page": "view", "order": "buy"}.get(row["action"], "look"),
            "page": row["page"],
            "agent": "a bot" if number % 7 == 0 else "a browser",
        }
        for number, row in enumerate(LOG)
    ]
    rejected: Counter[str] = Counter()
    events = [one for chunk in read_stream(rows, MAPPING, rejected) for one in chunk]
    lines = ["cookie,at,event,page,agent"]
    lines += [",".join(row[name] or "" for name in lines[0].split(",")) for row in rows]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    made = make(tmp_path / "log.csv", tmp_path / "made", mapping=MAPPING)
    ended = Ended()
    live = LiveScorer(model, closed=ended)
    for one in events:
        live.observe(one)
    live.close_all()
    assert rejected["bot"] == made.counts["rejected"]["bot"] > 50
    assert sorted(ended) == of_batch(made.folder)
    with pytest.raises(ConfigurationError, match="visitor: none of cookie"):
        list(score(model, [{"at": "1"}], mapping=MAPPING))


def started(model: Path, stream: Path, state: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "visir", "sessions", "score", str(model), "--state", str(state), "--skip-read"]
    with stream.open("rb") as lines, out.open("wb") as answers:
        return subprocess.Popen(
            [*command, "--save-every", "1"],
            stdin=lines,
            stdout=answers,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ),
        )


def answers_of(path: Path) -> list[str]:
    whole, _, _ = path.read_text().rpartition("\n")  # a killed writer may leave half a line
    return whole.splitlines()


def test_a_killed_reader_goes_on_with_the_same_scores(model: PurchaseModel, tmp_path: Path) -> None:
    saved = model.save(tmp_path / "model", even_if_worse=True)
    stream = tmp_path / "events.jsonl"
    stream.write_text("".join(json.dumps(row) + "\n" for row in LOG))
    assert started(saved, stream, tmp_path / "whole.state", tmp_path / "whole").wait() == 0
    expected = answers_of(tmp_path / "whole")
    state, told, kills = tmp_path / "state", [], 0
    for attempt in range(40):
        out = tmp_path / f"out-{attempt}"
        child = started(saved, stream, state, out)
        read_before = state.stat().st_mtime_ns if state.exists() else 0
        if attempt < 3:
            deadline = time.monotonic() + 60
            while child.poll() is None and time.monotonic() < deadline:
                if state.exists() and state.stat().st_mtime_ns != read_before:
                    break
                time.sleep(0.002)
            child.send_signal(signal.SIGKILL)
        code = child.wait()
        kills += code == -signal.SIGKILL
        told += answers_of(out)
        if code == 0:
            break
    assert kills >= 1 and set(told) == set(expected)
    assert json.loads(state.read_text())["state"] == json.loads((tmp_path / "whole.state").read_text())["state"]
    assert Score(**json.loads(expected[0])).step == 0


@pytest.mark.parametrize("part", ["model", "lines", "state", "open", "visitors", "past", "rejected", "clock"])
def test_a_damaged_state_is_refused(model: PurchaseModel, tmp_path: Path, part: str) -> None:
    live, path = LiveScorer(model), tmp_path / "state"
    live.observe_all(LOG[:100])
    save_state(live, path, lines=100)
    document = json.loads(path.read_text())
    del (document if part in document else document["state"])[part]
    path.write_text(json.dumps(document))
    with pytest.raises(VisirError, match=f"state: damaged: KeyError: '{part}'") as caught:
        restore_state(LiveScorer(model), path)
    assert "another file" in (caught.value.hint or "")


def test_numbers_of_numpy_are_numbers(model: PurchaseModel) -> None:
    plain, live = LiveScorer(model), LiveScorer(model)
    rows = [event("17", minute) for minute in (0, 5, 90)]
    expected = plain.observe_all(rows)
    assert (
        live.observe_all([{**row, "visitor": np.int64(17), "time": np.int64(row["time"])} for row in rows]) == expected
    )
    assert len(expected) == 5 and live.to_state() == plain.to_state()
    assert fault_of({**rows[0], "time": np.int64(1_740_787_801)}) == fault_of({**rows[0], "time": 1_740_787_801})


def test_zero_is_an_id(model: PurchaseModel) -> None:
    texts, numbers = LiveScorer(model), LiveScorer(model)
    expected = texts.observe(event("0", 0, customer="0"))
    assert numbers.observe({**event("0", 0), "visitor": 0, "customer": 0}) == expected
    assert [score.setting for score in expected] == ["identified"] * 2 and texts.to_state() == numbers.to_state()


def test_a_strange_price_does_not_keep_a_state_from_being_saved(model: PurchaseModel, tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    for number, price in enumerate((deep, Decimal("1.5"), float("nan"), "1.5", object())):
        live, row = LiveScorer(model), {**event("ann", 0), "price": price}
        assert len(live.observe(row)) == 2
        save_state(live, tmp_path / f"state-{number}", lines=1)
        again = LiveScorer(model)
        restore_state(again, tmp_path / f"state-{number}")
        for each in (live, again):
            assert not each.observe(row) and each.rejected == {"duplicate": 1}


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of Python a piece of work calls."""
    calls = 0

    def count(frame: object, kind: str, argument: object) -> None:
        nonlocal calls
        calls += kind == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


SHARED: dict[str, Callable[[int], list[Row]]] = {
    "open at once": lambda n: [event(f"v{i}", i / n, customer="guest") for i in range(n)],
    "quiet, not closed yet": lambda n: [event(f"v{i % n}", i // n * 40 + i / n, customer="0") for i in range(2 * n)],
    "of a long time": lambda n: [event(f"v{i}", i * 10, customer="guest") for i in range(n)],
    "out of order": lambda n: [event(f"v{i}", 500 + i * 7919 % 1000, customer="guest") for i in range(n)],
    "of nobody, one moment": lambda n: [event(f"v{i}", 0) for i in range(n)],
    "clocks that jump": lambda n: [event(f"v{i}", i // 15 % 2 * 3000 + i / n) for i in range(n)],
}


@pytest.mark.parametrize("kind", SHARED)
def test_work_grows_with_the_events_whoever_shares_an_id(
    model: PurchaseModel, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times the events are four times the calls, not sixteen times. Past a few sessions an id is nobody's."""
    for module in ("visir.sessions.prediction.stream_events", "visir.sessions.examples"):
        monkeypatch.setattr(f"{module}.MOST_EARLIER", 20)

    def calls(n: int) -> int:
        live, rows = LiveScorer(model), SHARED[kind](n)
        return calls_of(lambda: [live.observe_all(rows[at : at + 50]) for at in range(0, len(rows), 50)])

    few, many = calls(250), calls(1000)
    assert many < 5 * few, (few, many)


def test_an_event_is_compared_with_few_of_its_moment(model: PurchaseModel) -> None:
    """They are keys, not a list to go through, and there is an end to them."""
    live = LiveScorer(model)
    live.observe_all([{**event("a", 0), "key": str(number)} for number in range(3_000)])
    (session,) = live._open.values()
    assert session.count == 3_000 and isinstance(session.moment, dict) and len(session.moment) == MOST_OF_A_MOMENT
    live.observe_all([{**event("a", 0), "key": "7"}])
    assert live.rejected == {"duplicate": 1}


def test_memory_has_an_end(model: PurchaseModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of open sessions, of visitors, of customers' sessions, of one customer's: though the clock stands still."""
    for name, most in (("MOST_OPEN", 50), ("MOST_VISITORS", 80), ("MOST_PAST", 70)):
        monkeypatch.setattr(f"visir.sessions.prediction.live.{name}", most)
    monkeypatch.setattr("visir.sessions.prediction.stream_events.MOST_EARLIER", 10)
    live = LiveScorer(model)
    for number in range(1_000):
        live.observe(event(f"v{number}", 0, customer=f"c{number}"))
        live.observe(event("shared", number / 1e3, customer=f"d{number % 2}"))  # a session each
    visitors, sessions = live.remembered
    assert live.open_sessions == 50 and visitors <= 80 and sessions <= 70
    assert max(len(past.over) for past in live._past.values()) <= 31
    for ages in (live._quiet, live._away, live._aged):
        assert len(ages._heap) <= 200 and len(ages._names) == len(ages._heap)
    assert all(len(past._waiting) <= 2 * past.open + 16 for past in live._past.values())
    assert set(live.crowded_out) == {"sessions", "visitors", "customers"}
    again = LiveScorer(model)
    again.restore(json.loads(json.dumps(live.to_state())))
    assert again.crowded_out == live.crowded_out and again.remembered[0] == visitors


def test_an_id_of_everybody_has_no_past_in_the_batch_as_in_the_stream(
    model: PurchaseModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few sessions of a customer all count; of more than `MOST_EARLIER` none does; last year's are forgotten."""
    for module in ("visir.sessions.prediction.stream_events", "visir.sessions.examples"):
        monkeypatch.setattr(f"{module}.MOST_EARLIER", 7)
    rng, rows = np.random.default_rng(5), []
    for number in range(400):
        customer = ["guest", "ann", "bob", None][rng.choice(4, p=[0.5, 0.1, 0.1, 0.3])]
        device = [None, "pc", "phone"][rng.integers(0, 3)]
        begins = number * 60 * 24 * 3 + float(rng.integers(0, 2) * rng.exponential(60 * 24 * 4))
        rows += [event(f"v{number}", begins + minute, customer=customer, device=device) for minute in range(3)]
        rows += [event(f"v{number}", begins + 3, None, "order", customer=customer)] * int(rng.integers(0, 2))
    rows.sort(key=lambda row: row["time"])
    drawn = draw(folder_of(rows, tmp_path), EverySession())
    pasts: dict[str, tuple[int, int]] = {}
    live = LiveScorer(model, now=lambda: BEGAN + 10_000 * DAY)
    for row in rows:
        live.observe(row)
        session = live._open.get(row["visitor"])
        if session is not None:
            past = live._past_of(session)
            pasts[row["visitor"]] = len(past), sum(ended.orders for ended in past)
    orders = np.bincount(drawn.earlier.owner, drawn.earlier.orders, minlength=len(drawn))
    counts = zip(drawn.earlier.counts.tolist(), orders.astype(int).tolist(), strict=True)
    batch = dict(zip(drawn.visitor, counts, strict=True))
    assert batch == pasts and max(drawn.earlier.counts) == 7
    guests = [
        batch[visitor] for visitor, customer in zip(drawn.visitor, drawn.customer, strict=True) if customer == "guest"
    ]
    assert guests[-1] == (0, 0) and guests[3][0] == 3
