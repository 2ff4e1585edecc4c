"""What a request costs: charged by its work, and held to the memory that there is."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

sys.path.insert(0, str(Path(__file__).parents[1] / "collections"))

from bombs import icon, tiled_tiff
from PIL import Image
from served import AT, Service, make, process

from visir.collections.budget import DECODING
from visir.collections.images import decode
from visir.library.query import Query
from visir.serving.front import RateLimiter

WORDS = {"text": "a red dog"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("costs"))


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    made = Service(folder)
    yield made
    made.close()


def picture(side: int, mode: str = "1") -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (side, side)).save(stream, "PNG")
    return stream.getvalue()


def inside(data: bytes) -> dict[str, Any]:
    return {"image": {"data": base64.b64encode(data).decode()}}


def conditions(count: int) -> list[dict[str, Any]]:
    return [{"field": "width", "op": ">", "value": at} for at in range(count)]


@pytest.mark.parametrize(
    ("request_", "cost"),
    [
        (("POST", "search", {"json": WORDS}), 1),
        (("POST", "search", {"json": {**WORDS, "where": conditions(16)}}), 1 + 16 / 4),
        (("POST", "search/batch", {"json": {"queries": [{**WORDS, "where": conditions(2)}] * 8}}), 8 + 16 / 4),
        (("POST", "search", {"json": inside(picture(1400))}), 1),
        (("POST", "search", {"json": inside(picture(3000))}), 1 + 4),
        (("POST", "search/photo", {"files": {"photo": picture(3000)}}), 1 + 4),
        (("GET", "items?where=" + quote(json.dumps(conditions(8))), {}), 1 + 8 / 4),
    ],
    ids=["words", "conditions", "a batch", "a small photo", "nine megapixels", "as a form", "a list"],
)
def test_work_is_charged(folder: Path, request_: tuple[str, str, dict[str, Any]], cost: float) -> None:
    """A bucket of 30 that is hardly filled again: so much is left of it."""
    service = Service(folder, rate=1e-9, burst=30)
    method, path, more = request_
    assert service.ask(method, f"{AT}/{path}", **more).status_code == 200
    for _ in range(int(30 - cost)):
        assert service.ask("GET", f"{AT}/items?k=1").status_code == 200
    status, error = service.refused("GET", f"{AT}/items?k=1")
    assert status == 429 and "too many requests" in error["message"]
    service.close()


def test_pictures_are_charged_before_any_is_decoded(folder: Path) -> None:
    """64 pictures of 29 megapixels count 64 × 14 + 63; the bucket has to be full for them, and is then in debt."""
    service = Service(folder, rate=1e-9, burst=200)
    assert service.ask("GET", f"{AT}/items?k=1").status_code == 200  # and so it is not full
    began = time.process_time()
    for _ in range(2):
        request = {"json": {"queries": [inside(picture(5400))] * 64}}
        assert service.refused("POST", f"{AT}/search/batch", **request)[0] == 429
    assert time.process_time() - began < 2 and DECODING.waiting == 0
    service.close()


def test_what_costs_more_than_a_bucket_leaves_a_debt() -> None:
    rate = RateLimiter(10.0, 100)
    assert rate.take("a", 1, 0.0) == 0 and rate.take("a", 399, 0.0) == 0  # 100 - 400
    assert rate.take("a", 1, 0.0) == pytest.approx(30.1) and rate.take("a", 1, 30.2) == 0
    assert rate.take("b", 2, 0.0) == 0 and rate.take("b", 399, 0.0) == pytest.approx(0.1)
    assert RateLimiter(1.0, 1).take("c", 5, 0.0) == 0


def test_what_waits_is_what_the_model_takes(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of a request waited decoded: 64 one-bit PNGs of 32 megapixels, 316 kB, took 8.7 GiB."""
    (handle,) = service.app.state.registry.handles.values()
    seen: list[tuple[int, int, int]] = []
    ask = handle.search

    async def search(queries: list[Query], *, heavy: bool) -> list[bytes]:
        sizes = [query.image.nbytes for query in queries]  # type: ignore[union-attr]
        seen.append((sum(sizes), DECODING.waiting, DECODING.decoding))
        return await ask(queries, heavy=heavy)

    monkeypatch.setattr(handle, "search", search)
    answer = service.ask("POST", f"{AT}/search/batch", json={"queries": [inside(picture(2000))] * 16})
    assert answer.status_code == 200
    [(held, waiting, decoding)] = seen
    assert held == waiting < 16 * 2**20 and decoding == 0
    assert DECODING.waiting == 0, "given back with the answer"


def test_a_photo_is_answered_as_the_library_answers_it(service: Service) -> None:
    (handle,) = service.app.state.registry.handles.values()
    stream = io.BytesIO()
    Image.linear_gradient("L").resize((900, 700)).convert("RGBA").rotate(30).save(stream, "PNG")
    for system in handle.searcher.systems:
        fields = {**inside(stream.getvalue()), "text": "a red dog", "system": system}
        hits = service.search(**fields)["hits"]
        (expected,) = handle.searcher.search(
            [Query(text="a red dog", image=decode(stream.getvalue(), "x"), system=system)]
        )
        assert [(hit["id"], hit["score"]) for hit in hits] == [(hit.id, hit.score) for hit in expected.hits]


def test_pictures_beyond_the_budget_are_told_to_come_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DECODING, "limit", 40 * 2**20)
    status, error = service.refused("POST", f"{AT}/search", json=inside(picture(4000)))
    assert status == 413 and "bytes of memory, over the limit of 31,457,280" in error["message"]
    assert error["field"] == "image.data" and error["hint"] == "send a smaller photo"
    size = service.app.state.registry.handles["photos"].searcher.prepare(Image.new("RGB", (9, 9))).nbytes
    monkeypatch.setattr(DECODING, "limit", 4 * (3 * size + 1))
    status, error = service.refused("POST", f"{AT}/search/batch", json={"queries": [inside(picture(9))] * 4})
    assert status == 503 and "too many pictures are waiting" in error["message"]
    assert service.ask("POST", f"{AT}/search/batch", json={"queries": [inside(picture(9))] * 3}).status_code == 200
    assert (DECODING.waiting, DECODING.decoding) == (0, 0)


def test_who_goes_away_gives_back_what_waited(folder: Path) -> None:
    """Of a request that runs out of time while its pictures are prepared nothing stays counted."""
    service = Service(folder, timeout=0.3)
    status, _ = service.refused("POST", f"{AT}/search/batch", json={"queries": [inside(picture(3000))] * 40})
    assert status == 503

    async def settled() -> bool:
        for _ in range(100):
            if (DECODING.waiting, DECODING.decoding) == (0, 0):
                return True
            await asyncio.sleep(0.05)
        return False

    assert asyncio.run(settled())
    service.close()


@pytest.mark.nightly
def test_memory_under_attack_stays_below_a_gibibyte_and_a_half(folder: Path) -> None:
    """64 one-bit PNGs of 32 megapixels in one request took 8.7 GiB, 150 uploads 8.6 GiB; and bombs, and conditions.

    A service of its own, with no limit of rate, so that the budget of memory stands alone. The attacks come one after
    the other: what one leaves behind counts for the next.
    """
    stream = io.BytesIO()
    Image.new("RGBA", (5600, 5600), (200, 30, 60, 90)).save(stream, "PNG")
    one_bit, clear = picture(5650), stream.getvalue()
    where = [{"field": "name", "op": "!=", "value": f"a{at}"} for at in range(16)]
    with process(folder, rate=0.0) as (running, port):
        at = f"http://127.0.0.1:{port}{AT}"

        def held(what: str) -> float:
            return int(Path(f"/proc/{running.pid}/status").read_text().split(f"{what}:")[1].split()[0]) / 2**20

        def attack(count: int, path: str, **more: Any) -> set[int]:
            def ask(_: int) -> int:
                return httpx.post(f"{at}/{path}", timeout=200, **more).status_code

            with ThreadPoolExecutor(count) as clients:
                return set(clients.map(ask, range(count)))

        assert attack(1, "search", json=WORDS) == {200}
        idle = held("VmRSS")
        assert attack(2, "search/batch", json={"queries": [inside(one_bit)] * 64}) <= {200, 503}
        assert attack(150, "search/photo", files={"photo": one_bit}) <= {200, 503}
        assert attack(150, "search/photo", files={"photo": clear}) <= {200, 503}
        assert attack(20, "search/photo", files={"photo": tiled_tiff(64, 30_000)}) == {413}
        assert attack(20, "search/photo", files={"photo": icon(16, 9_000)}) == {413}
        assert attack(8, "search/batch", json={"queries": [{**WORDS, "where": where}] * 64}) == {200}
        assert held("VmHWM") - idle < 1.5
        assert attack(1, "search", json=WORDS) == {200}
