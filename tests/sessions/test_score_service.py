"""`visir sessions serve`: events in, probabilities out, over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from intent_log import event, folder_of, random_log

from visir import sessions
from visir.errors import ConfigurationError, VisirError
from visir.sessions.mapping import LogMapping
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
    with pytest.raises(ConfigurationError, match=r"0\.0\.0\.0 can be reached .* no tokens: everybody could post"):
        sessions.serve(model, host="0.0.0.0", port=0, background=True)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigurationError, match="in use"):
        sessions.serve(model, port=taken.getsockname()[1], background=True)
    with pytest.raises(VisirError, match="no purchase model"):
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
    with pytest.raises(VisirError, match="is a folder"):
        handle.stop()
    assert not handle.is_alive
    with pytest.raises(VisirError, match="is a folder"):  # before anything is served
        sessions.serve(model, port=0, state=state, background=True)
