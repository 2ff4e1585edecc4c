"""`visir sessions serve`: events in, probabilities out, over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from intent_log import event, folder_of, random_log

from refusals import refused
from visir import sessions
from visir.errors import ConfigurationError, VisirError
from visir.sessions.definition import LogMapping
from visir.sessions.prediction.live import LiveScorer
from visir.sessions.prediction.purchase_model import load_model
from visir.sessions.prediction.service import RefusedError, ScoreService
from visir.sessions.prediction.training import train

for package in ("duckdb", "sklearn", "fastapi", "uvicorn"):
    pytest.importorskip(package, reason="needs the extras 'sessions' and 'serve'")

LOG = random_log(40)


def asked(url: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        kind = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, data, kind), timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def started(model: Path, state: Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "visir", "sessions", "serve", str(model), "--port", str(port)]
    child = subprocess.Popen([*command, "--state", str(state)], stderr=subprocess.DEVNULL, env=dict(os.environ))
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 120
    while True:
        assert child.poll() is None and time.monotonic() < deadline
        try:
            if asked(f"{url}/health")[0] == 200:
                return child, url
        except OSError:
            time.sleep(0.1)


def test_a_service_answers_as_the_scorer_does_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    folder = folder_of(LOG, tmp_path)
    model = train(folder, "lr").save(tmp_path / "model", even_if_worse=True)
    scorer = LiveScorer(load_model(model))
    expected = [[score.__dict__ for row in part for score in scorer.observe(row)] for part in (LOG[:150], LOG[150:300])]
    child, url = started(model, tmp_path / "state")
    try:
        status, answer = asked(f"{url}/v1/events", {"events": [*LOG[:150], LOG[149]]})
        assert (status, answer) == (200, {"scores": expected[0], "set_aside": {"duplicate": 1}})
        wrong = [event("a", 0, action="pages"), {**event("b", 0), "time": 1_740_787_801}, event("", 0)]
        status, answer = asked(f"{url}/v1/events", wrong)
        assert status == 422 and len(answer["error"]["faults"]) == 3 and "no event was read" in answer["error"]["hint"]
        assert asked(f"{url}/v1/events", b"{")[0] == 400
        assert asked(f"{url}/v1/events", {"events": 3})[0] == 422
        assert asked(f"{url}/v1/events", b" " * (17 << 20))[0] == 413
        assert asked(f"{url}/health")[1]["events"] == 151
        child.send_signal(signal.SIGTERM)
        child.wait(60)
        child, url = started(model, tmp_path / "state")
        assert asked(f"{url}/v1/events", LOG[150:300]) == (200, {"scores": expected[1], "set_aside": {}})
        health = asked(f"{url}/health")[1]
        assert health["events"] == 301 and health["set_aside"] == {"duplicate": 1}
    finally:
        child.kill()
        child.wait()


def test_a_service_with_a_mapping_opens_one_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    mapping = LogMapping(
        "shop",
        "json",
        raw={"visitor": ("cookie",), "time": ("at",), "event": ("event",), "page": ("page",)},
        events={"visitor": "visitor", "time": "time", "action": "event", "page": "page"},
        actions={"view": "page", "buy": "order"},
        unit="us",
    )
    model = train(folder_of(LOG, tmp_path), "lr")
    rows = [
        {"cookie": row["visitor"], "at": row["time"], "event": "view", "page": row["page"]}
        for row in LOG
        if row["action"] == "page"
    ]
    scorer = LiveScorer(model)
    expected = scorer.observe_all(
        [{"visitor": row["cookie"], "time": row["at"], "action": "page", "page": row["page"]} for row in rows]
    )
    opened: list[object] = []
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *a, **k: opened.append(a) or connect(*a, **k))
    service = ScoreService(LiveScorer(model), mapping=mapping)
    answers = [service.observe(rows[begin : begin + 50]) for begin in range(0, len(rows), 50)]
    assert service.observe([]) == {"scores": [], "set_aside": {}}
    with pytest.raises(RefusedError, match="visitor: none of cookie"):
        service.observe([{"at": 1, "event": "view"}])
    assert service.observe([{**rows[-1], "event": "look", "at": rows[-1]["at"] + 1}])["scores"] == []
    service.close()
    assert len(opened) == 1 and len(answers) > 5
    assert [score for answer in answers for score in answer["scores"]] == [asdict(score) for score in expected]


def test_serve_is_a_call_and_goes_on_from_its_state(tmp_path: Path) -> None:
    model = train(folder_of(LOG, tmp_path), "lr")
    expected = [asdict(score) for score in LiveScorer(model).observe_all(LOG[:200])]
    state, scores = tmp_path / "state", []
    for part in (LOG[:90], LOG[90:200]):
        with sessions.serve(model, port=0, state=state, background=True) as service:
            scores += asked(f"{service.url}/v1/events", part)[1]["scores"]
            assert service.is_alive and service.url in repr(service)
        assert not service.is_alive and "stopped" in repr(service)
    assert scores == expected
    assert asked_nobody(service.url)


def asked_nobody(url: str) -> bool:
    try:
        asked(f"{url}/health")
    except OSError:
        return True
    return False


def test_serve_refuses_what_cannot_be_served(tmp_path: Path) -> None:
    model = train(folder_of(LOG, tmp_path), "lr")
    with refused(ConfigurationError, "0.0.0.0", "post", code="everybody-could"):
        sessions.serve(model, host="0.0.0.0", port=0, background=True)
    with socket.create_server(("127.0.0.1", 0)) as taken, refused(ConfigurationError, code="port-in-use"):
        sessions.serve(model, port=taken.getsockname()[1], background=True)
    with refused(VisirError, code="no-purchase-model"):
        sessions.serve(tmp_path, port=0, background=True)


def test_a_state_that_cannot_be_saved_costs_no_score_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.sessions.prediction.service.SAVE_SECONDS", 0.0)
    model = train(folder_of(LOG, tmp_path), "lr")
    expected = [asdict(score) for score in LiveScorer(model).observe_all(LOG[:200])]
    state, scores = tmp_path / "state", []
    handle = sessions.serve(model, port=0, state=state, background=True)
    assert handle is not None
    scores += asked(f"{handle.url}/v1/events", LOG[:90])[1]["scores"]
    assert asked(f"{handle.url}/health")[1]["not_saved"] is None
    state.unlink()
    state.mkdir()  # something else has taken its place
    status, answer = asked(f"{handle.url}/v1/events", LOG[90:200])
    assert status == 200 and scores + answer["scores"] == expected
    assert "is a folder" in asked(f"{handle.url}/health")[1]["not_saved"]
    with refused(VisirError, code="is-a-folder"):
        handle.stop()
    assert not handle.is_alive
    with refused(VisirError, code="is-a-folder"):  # before anything is served
        sessions.serve(model, port=0, state=state, background=True)


def begun(model: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    """A service that took any free port, and the line that it prints."""
    command = [sys.executable, "-m", "visir", "sessions", "serve", str(model), "--port", "0", *more]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    return child, child.stdout.readline()


def test_the_verb_prints_its_address_and_wants_a_token_where_there_are_some(tmp_path: Path) -> None:
    model = train(folder_of(LOG, tmp_path), "lr").save(tmp_path / "model", even_if_worse=True)
    make = [sys.executable, "-m", "visir", "sessions", "token", "new", str(tmp_path / "tokens"), "--name", "shop"]
    token = subprocess.run(make, capture_output=True, text=True, check=True).stdout.strip()
    child, line = begun(model, "--tokens", str(tmp_path / "tokens"), "--max-body", "1", "--rate", "1", "--burst", "3")
    try:
        found = re.search(r"http://127\.0\.0\.1:\d+/v1/events", line)
        assert found is not None, line
        url, rows = found.group(), json.dumps([event("a", 0)]).encode()
        kind = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        with urllib.request.urlopen(urllib.request.Request(url, rows, kind), timeout=30) as answer:
            assert len(json.load(answer)["scores"]) == 2
        status, answer = asked(url, [event("b", 0)])
        assert status == 401 and "visir sessions token new" in answer["error"]["hint"]
        with pytest.raises(urllib.error.HTTPError, match="413"):
            urllib.request.urlopen(urllib.request.Request(url, b" " * (2 << 20), kind), timeout=30)
    finally:
        child.kill()
        child.communicate()


def test_a_request_whose_time_is_over_is_not_begun_and_one_that_is_begun_is_answered(tmp_path: Path) -> None:
    """To post events again that were read would find them set aside: what is refused for its time was not read."""
    import asyncio

    import httpx

    from visir.sessions.prediction.service import ScoreSettings, create_app

    service = ScoreService(LiveScorer(train(folder_of(LOG, tmp_path), "lr")))
    app, read, reading = create_app(service, ScoreSettings(timeout=0.5, queue=3)), service.observe, threading.Event()

    def slowly(rows: Any) -> Any:
        reading.set()
        time.sleep(1.0)
        return read(rows)

    service.observe = slowly  # type: ignore[method-assign]

    async def together() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, client=("192.0.2.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30) as client:
            posts = [asyncio.create_task(client.post("/v1/events", json=[event("a", 0)]))]
            await asyncio.to_thread(reading.wait)
            posts += [asyncio.create_task(client.post("/v1/events", json=[event(f"b{n}", 0)])) for n in range(5)]
            return await asyncio.gather(*posts)

    first, *later = asyncio.run(together())
    assert first.status_code == 200 and len(first.json()["scores"]) == 2
    assert [answer.status_code for answer in later] == [503] * 5
    assert sum("too many requests are waiting" in answer.text for answer in later) == 3
    assert sum("longer than 0.5 s" in answer.text for answer in later) == 2
    assert service.health()["events"] == 1


def test_events_count_as_requests(tmp_path: Path) -> None:
    model = train(folder_of(LOG, tmp_path), "lr")
    with sessions.serve(model, port=0, rate=0.01, burst=5, background=True) as service:
        assert asked(f"{service.url}/v1/events", LOG[:200])[0] == 200  # one, and four for 200 events
        status, answer = asked(f"{service.url}/v1/events", LOG[200:201])
        assert status == 429 and "try again" in answer["error"]["hint"]
        assert asked(f"{service.url}/v1/health")[0] == 200
    with refused(ConfigurationError, "rates", meant="rate"):
        sessions.serve(model, port=0, rates=3, background=True)


def test_what_a_service_holds_is_told_while_it_changes(tmp_path: Path) -> None:
    """`/health` is answered beside the thread that reads: it goes through no dictionary that may grow meanwhile."""
    live = LiveScorer(train(folder_of(LOG, tmp_path), "lr"))
    live.observe_all([event(f"v{n}", n * 40, customer=f"c{n}") for n in range(300)])
    held = live.remembered
    assert held == (len(live._visitors), sum(len(past.over) for past in live._past.values())) and held[1] > 200

    class Growing(dict[Any, Any]):
        def __iter__(self) -> Any:
            raise RuntimeError("dictionary changed size during iteration")

        values = items = keys = __iter__  # type: ignore[assignment]

    live._past, live._visitors, live._open = Growing(live._past), Growing(live._visitors), Growing(live._open)
    health = ScoreService(live).health()
    assert health["remembered"] == {"visitors": held[0], "customers_sessions": held[1]}
