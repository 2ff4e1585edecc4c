"""A library on a server that goes away: searches are refused with 503, and answered again when it is back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from refusals import refused

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("qdrant_client", reason="Qdrant's client (extra qdrant) is not installed")
sys.path.insert(0, str(Path(__file__).parents[1] / "retrieval"))

from qdrant_wire import WireServer
from served import AT, Service, make

from visir.library.updating import update
from visir.retrieval.remote import engine as engine_module
from visir.retrieval.remote.engine import EngineError


def test_searches_wait_for_the_server_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_PAUSE", 0.001)
    monkeypatch.setattr("os.fsync", lambda _: None)
    library = make(tmp_path)
    with WireServer() as server:
        plain = Service(library)
        body = {"text": "red square", "system": "hybrid", "k": 5}
        before = plain.search(**body)["hits"]
        plain.close()
        update(None, library, kind="qdrant", settings={"url": server.url, "retries": 1})
        service = Service(library)
        try:
            assert service.search(**body)["hits"] == before
            server.away = True
            answer = service.ask("POST", f"{AT}/search", json=body)
            assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0, answer.text
            assert server.url not in answer.text  # where things are goes into the log only
            assert server.url in service.written().decode() and "readyz" in service.written().decode()
            assert service.ask("GET", f"{AT}/items?k=3").status_code == 200  # what needs no index is answered
            assert service.ask("GET", "/v1/health").status_code == 200
            with refused(EngineError, "2", code="no-answer-asked-times"):
                Service(library)
            server.away = False
            assert service.search(**body)["hits"] == before
        finally:
            service.close()
