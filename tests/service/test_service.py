"""The service asked without a server: what is answered, and how it refuses."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refusals import refused

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from served import AT, Service, draw, make, until

from visir.errors import ConfigurationError
from visir.library import LibraryError, update
from visir.library.service.app import create_app
from visir.library.service.settings import ServiceSettings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    made = Service(folder)
    yield made
    made.close()


@pytest.fixture
def changing(folder: Path, tmp_path: Path) -> Iterator[Service]:
    """A service over a copy that may be changed."""
    shutil.copytree(folder, tmp_path / "photos")
    made = Service(tmp_path / "photos")
    yield made
    made.close()


def test_what_is_served(service: Service) -> None:
    (said,) = service.ask("GET", "/v1/libraries").json()
    assert said["name"] == "photos" and said["items"] == 24 and said["generation"] == 1
    assert said["systems"] == ["dense", "sparse", "hybrid"] and said["categories"] and not said["captions"]
    assert said["model"] == "dense" and said["head"] == "sparse"  # of a path only the last part
    assert {"name": "width", "type": "number", "values": None, "items": 24} in said["fields"]
    assert service.ask("GET", "/v1/health").json()["status"] == "ok"
    assert service.ask("GET", "/v1/ready").status_code == 200


@pytest.mark.parametrize("system", ["dense", "sparse", "hybrid"])
def test_search_by_words(service: Service, system: str) -> None:
    found = service.search(text="a red kite", system=system, k=5)
    ranks = [hit["rank"] for hit in found["hits"]]
    scores = [hit["score"] for hit in found["hits"]]
    assert ranks == list(range(1, len(ranks) + 1)) and scores == sorted(scores, reverse=True)
    assert found["system"] == system and found["total"] == 24 and found["generation"] == 1
    assert set(found["hits"][0]["parts"]) <= ({"dense", "sparse"} if system == "hybrid" else {system})
    hit = found["hits"][0]
    assert hit["thumbnail"] == f"{AT}/items/{hit['id']}/thumbnail" and hit["name"].endswith(".png")
    assert hit["width"] == hit["height"] == 64


def test_pages_join(service: Service) -> None:
    """Ten and the next ten are the best twenty."""
    first = service.search(text="a boat", system="dense", k=10)
    second = service.search(text="a boat", system="dense", k=10, offset=first["next_offset"])
    both = service.search(text="a boat", system="dense", k=20)
    assert [hit["id"] for hit in first["hits"] + second["hits"]] == [hit["id"] for hit in both["hits"]]
    assert service.search(text="a boat", system="dense", k=24)["next_offset"] is None


def test_search_by_picture_is_the_same_three_ways(service: Service, folder: Path) -> None:
    """A photo as a file, the same in JSON: equal. Like an item: the same but itself."""
    photo = (folder.parent / "source/town/0.png").read_bytes()
    body = {"image": {"data": base64.b64encode(photo).decode()}, "system": "dense", "k": 6}
    told = service.search(**body)
    form = {"system": "dense", "k": "6", "where": "", "text": ""}
    sent = service.ask("POST", f"{AT}/search/photo", files={"photo": ("x.png", photo)}, data=form).json()
    assert sent.get("hits") == told["hits"], sent
    assert told["hits"][0]["score"] == pytest.approx(1)
    item = told["hits"][0]["id"]
    alike = service.ask("GET", f"{AT}/items/{item}/similar?system=dense&k=5").json()
    assert [hit["id"] for hit in alike["hits"]] == [hit["id"] for hit in told["hits"][1:]]


def test_batch(service: Service) -> None:
    queries = [{"text": "a dog", "k": 3}, {"text": "the sea", "system": "dense", "k": 2}]
    said = service.ask("POST", f"{AT}/search/batch", json={"queries": queries}).json()["answers"]
    assert [answer["hits"] for answer in said] == [service.search(**query)["hits"] for query in queries]


def test_conditions_and_categories(service: Service) -> None:
    assert service.search(text="a dog", category="farm", system="dense")["total"] == 16  # two of three of 24
    assert service.search(category="farm/spring")["total"] == 8
    assert service.search(text="a dog", where=[{"field": "width", "op": ">", "value": 64}])["hits"] == []
    (farm, town) = service.ask("GET", f"{AT}/categories").json()
    assert (farm["path"], farm["items"], town["items"]) == ("farm", 16, 8)
    assert [child["path"] for child in farm["children"]] == ["farm/autumn", "farm/spring"]


def test_browsing_goes_by_name(service: Service) -> None:
    seen, offset = [], 0
    while offset is not None:
        page = service.ask("GET", f"{AT}/items?k=10&offset={offset}").json()
        seen += page["items"]
        offset = page["next_offset"]
    assert page["total"] == 24 == len({one["id"] for one in seen})
    assert [one["name"] for one in seen] == sorted(one["name"] for one in seen)
    assert service.ask("GET", f"{AT}/items?category=town").json()["total"] == 8


def test_browsing_takes_the_conditions_of_a_search(service: Service) -> None:
    def browsed(where: object, **more: object) -> dict[str, Any]:
        params = {"where": json.dumps(where), "k": 100, **more}
        return service.ask("GET", f"{AT}/items", params=params).json()  # type: ignore[no-any-return]

    names = [one["name"] for one in browsed([])["items"]]
    where = [{"field": "name", "op": "in", "value": [names[3], names[11], names[20]]}]
    chosen = browsed(where)
    assert [one["name"] for one in chosen["items"]] == [names[3], names[11], names[20]] and chosen["total"] == 3
    sought = service.search(text="a dog", where=where, k=10)
    assert {hit["id"] for hit in sought["hits"]} == {one["id"] for one in chosen["items"]}
    second = browsed(where, k=2, offset=2)
    assert [one["name"] for one in second["items"]] == [names[20]] and second["next_offset"] is None
    assert browsed([{"field": "category", "op": "!=", "value": "town"}], category="town")["total"] == 0
    faults = [("[", "not JSON"), ('{"a": 1}', "list"), ('[{"field": "widht", "value": 1}]', "width")]
    for text, words in [*faults, ('[{"field": "width"}]', "value"), (json.dumps(where * 17), "16")]:
        status, error = service.refused("GET", f"{AT}/items", params={"where": text})
        assert status == 422 and words in error["message"], (text, error)


def test_an_item(service: Service, folder: Path) -> None:
    item = service.ask("GET", f"{AT}/items?category=town&k=1").json()["items"][0]["id"]
    said = service.ask("GET", f"{AT}/items/{item}").json()
    original = (folder.parent / "source" / said["files"][0]["path"]).read_bytes()
    assert said["category"] == "town" and said["format"] == "PNG" and said["bytes"] == len(original)
    assert said["words"] == sorted(said["words"], key=lambda one: -one["weight"])
    image = service.ask("GET", f"{AT}/items/{item}/image")
    assert image.content == original and image.headers["content-type"] == "image/png"
    assert "sandbox" in image.headers["content-security-policy"]
    small = service.ask("GET", f"{AT}/items/{item}/thumbnail")
    assert small.headers["content-type"] == "image/webp" and small.content[8:12] == b"WEBP"


@pytest.mark.parametrize("part", ["thumbnail", "image"])
def test_a_picture_is_asked_for_again_before_it_is_shown(changing: Service, part: str) -> None:
    """A browser that has it is told so in one small answer, until it is taken out."""
    item = changing.ask("GET", f"{AT}/items?k=1").json()["items"][0]["id"]
    place = f"{AT}/items/{item}/{part}"
    first = changing.ask("GET", place)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache" and re.fullmatch('"[0-9a-f]{32}"', tag)
    for sent in (tag, f'"x", {tag}'):
        again = changing.ask("GET", place, headers={"if-none-match": sent})
        assert (again.status_code, again.content) == (304, b"")
        kept = ("etag", "cache-control", "content-security-policy")
        assert [again.headers[name] for name in kept] == [first.headers[name] for name in kept]
    other = changing.ask("GET", place, headers={"if-none-match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)
    changing.ask("DELETE", f"{AT}/items/{item}")
    assert changing.ask("GET", place, headers={"if-none-match": tag}).status_code == 404


def test_an_original_that_changed_is_not_handed_out(service: Service, folder: Path) -> None:
    item = service.ask("GET", f"{AT}/items?k=1").json()["items"][0]["id"]
    path = folder.parent / "source" / service.ask("GET", f"{AT}/items/{item}").json()["files"][0]["path"]
    before = path.read_bytes()
    try:
        path.write_bytes(b"<svg onload='alert(1)'/>")
        status, error = service.refused("GET", f"{AT}/items/{item}/image")
        assert status == 404 and "not where it was" in error["message"] and str(folder.parent) not in str(error)
    finally:
        path.write_bytes(before)


def test_an_explanation_adds_up(service: Service) -> None:
    """The terms are the sparse score: products that sum to it, shares that sum to 1."""
    query = {"text": "a red kite in the sky", "system": "sparse"}
    hit = service.search(**query)["hits"][0]
    said = service.ask("POST", f"{AT}/items/{hit['id']}/explain", json=query).json()
    assert sum(one["query"] * one["document"] for one in said["terms"]) == pytest.approx(hit["score"], rel=1e-5)
    assert sum(one["share"] for one in said["terms"]) == pytest.approx(1)
    assert said["parts"]["sparse"]["rank"] == 1


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "body", "nothing is asked"),
        ({"text": "  "}, "body", "nothing is asked"),
        ({"text": "a", "sytem": "dense"}, "sytem", "unknown field"),
        ({"text": "a", "system": "dens"}, "system", "'dense', 'sparse' or 'hybrid'"),
        ({"text": "a" * 2001}, "text", "2000"),
        ({"text": "a", "k": 101}, "k", "100"),
        ({"text": "a", "k": 100, "offset": 901}, "body", "at most 1000"),
        ({"like": ""}, "like", "at least 1"),
        ({"text": "a", "where": [{"field": "width", "op": "like", "value": 1}]}, "where.0.op", "'contains'"),
        ({"text": "a", "where": [{"field": "width", "value": 10**40}]}, "", ""),
        ({"image": {"data": "AAAA"}}, "image.data", "not an image"),
        ({"image": {"data": "%"}}, "image.data", "not base64"),
        ({"image": {"url": "http://169.254.169.254/"}}, "image.data", "required"),
    ],
)
def test_faults_of_a_search(service: Service, body: dict[str, object], field: str, words: str) -> None:
    status, error = service.refused("POST", f"{AT}/search", json=body)
    assert status == 422 and words in error["message"]
    assert not field or error["field"] == field


def test_the_nearest_name_is_told(service: Service) -> None:
    assert service.refused("GET", "/v1/libraries/photo/items")[1]["hint"].startswith("did you mean 'photos'?")
    hint = service.refused("POST", f"{AT}/search", json={"txt": "a"})[1]["hint"]
    assert hint.startswith("did you mean 'text'?")
    where = [{"field": "widht", "op": "<", "value": 9}]
    assert (
        "did you mean 'width'?"
        in service.refused("POST", f"{AT}/search", json={"text": "a", "where": where})[1]["message"]
    )


def test_what_is_no_request(service: Service) -> None:
    as_json = {"content-type": "application/json"}
    for data in (b"{", b"[" * 100_000, b"\xff", b'{"text": "\\ud800"}', b'{"text": "a", "weight": NaN}', b""):
        status, error = service.refused("POST", f"{AT}/search", content=data, headers=as_json)
        assert status in (400, 422), (data[:20], error)
    assert service.refused("POST", f"{AT}/search", content=b"{}")[0] == 415
    assert service.refused("GET", f"{AT}/search")[0] == 405
    assert service.refused("GET", "/v1/../../etc/passwd")[0] == 404
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x; charset=klingon"):
        status, _ = service.refused("POST", f"{AT}/search/photo", content=b"--x\r\n", headers={"content-type": kind})
        assert status in (400, 422)


def test_a_form_is_strict_too(service: Service) -> None:
    photo = {"photo": ("x.png", b"GIF89a")}
    assert service.refused("POST", f"{AT}/search/photo", files=photo)[1]["field"] == "photo"
    assert service.refused("POST", f"{AT}/search/photo", files=photo, data={"kk": "1"})[1]["field"] == "kk"
    assert service.refused("POST", f"{AT}/search/photo", files=photo, data={"where": "{"})[1]["field"] == "where"
    assert service.refused("POST", f"{AT}/search/photo", files={"x": ("x", b"1")})[0] == 422
    assert service.refused("POST", f"{AT}/search/photo", data={"photo": "text"})[0] in (415, 422)


def test_unknown_items(service: Service) -> None:
    for path in ("", "/thumbnail", "/image"):
        assert service.refused("GET", f"{AT}/items/{'0' * 32}{path}")[0] == 404
        assert service.refused("GET", f"{AT}/items/%2e%2e%2fvisir.json{path}")[0] in (404, 422)
    assert service.refused("GET", f"{AT}/items/{'0' * 32}/similar")[0] in (404, 422)
    assert service.refused("POST", f"{AT}/items/{'0' * 32}/explain", json={"text": "a"})[0] == 404


def test_a_path_alone_is_answered_as_with_its_defaults(service: Service) -> None:
    """Without a question mark FastAPI's solver is passed by (`routers/direct.py`)."""
    item = service.search(text="a red kite", k=1)["hits"][0]["id"]
    for path, defaults in (
        (f"/items/{item}/similar", "k=10&offset=0"), ("/items", "k=50&offset=0&category=&where=[]"),
        ("/facets", "category=&where=[]"),
    ):  # fmt: skip
        alone, solved = (service.ask("GET", f"{AT}{path}{more}") for more in ("", f"?{defaults}"))
        assert alone.status_code == solved.status_code == 200
        assert alone.json() | {"seconds": {}} == solved.json() | {"seconds": {}}
    for path in (
        f"{AT}/items/{item}0/similar",
        f"{AT}/items/{item.upper()}x/similar",
        f"/v1/libraries/{'x' * 201}/items",
    ):
        assert service.refused("GET", path)[0] == service.refused("GET", f"{path}?k=3")[0] == 422
    assert service.refused("GET", "/v1/libraries/photo/items")[0] == 404
    assert service.refused("GET", f"{AT}/items/{item}/similar?colour=red")[0] == 422


def test_headers_of_every_answer(service: Service) -> None:
    for path in ("/", "/v1/health", "/nothing", f"{AT}/items", "/static/page.css"):
        headers = service.ask("GET", path, headers={"x-request-id": "abc-1"}).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-request-id"] == "abc-1" and "access-control-allow-origin" not in headers
    odd = service.ask("GET", "/v1/health", headers={"x-request-id": "a b"}).headers["x-request-id"]
    assert odd != "a b" and len(odd) == 16


def test_the_page_comes_from_a_fixed_list(service: Service) -> None:
    page = service.ask("GET", "/")
    assert page.headers["content-type"] == "text/html; charset=utf-8" and page.headers["content-encoding"] == "gzip"
    again = service.ask("GET", "/", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304 and again.content == b""
    for path in ("/static/app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/"):
        assert service.refused("GET", path)[0] == 404


def test_openapi_has_an_example_for_every_body(service: Service) -> None:
    said = service.ask("GET", "/v1/openapi.json").json()
    schemas = said["components"]["schemas"]
    assert (
        schemas["SearchBody"]["examples"] and schemas["BatchBody"]["examples"] and "HTTPValidationError" not in schemas
    )
    for path, methods in said["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            assert path.startswith(("/v1/health", "/v1/ready")) or "503" in operation["responses"]
    assert service.refused("GET", "/docs")[0] == 404


def test_metrics_and_log(folder: Path) -> None:
    service = Service(folder)
    service.search(text="a secret kite")
    service.refused("GET", "/v1/libraries/none%0a/items")
    said = service.ask("GET", "/metrics").text
    assert 'visir_requests_total{endpoint="/v1/libraries/{library}/search",method="POST",status="200"} 1.0' in said
    assert 'visir_items{library="photos"} 24.0' in said and 'visir_batch_size_count{library="photos"} 1.0' in said
    assert 'visir_queue_length{library="photos"} 0.0' in said and "visir_stage_seconds" in said
    assert "none" not in said  # a client cannot make series of its own
    first, second, _ = service.lines()
    assert first["status"] == 200 and first["library"] == "photos" and first["ms"] > 0 and len(first["id"]) == 16
    assert second["path"] == "/v1/libraries/none\n/items"  # one line all the same
    assert b"secret" not in service.written()
    service.close()
    told = Service(folder, log_queries=True)
    told.search(text="a secret kite")
    assert told.lines()[0]["queries"] == ["a secret kite"]
    told.close()


def test_an_item_is_taken_out(changing: Service) -> None:
    item = changing.search(text="a dog", system="dense", k=1)["hits"][0]["id"]
    said = changing.ask("DELETE", f"{AT}/items/{item}").json()
    assert said == {"id": item, "generation": 2}
    after = changing.search(text="a dog", system="dense", k=24)
    assert after["total"] == 23 and after["generation"] == 2 and item not in {hit["id"] for hit in after["hits"]}
    assert changing.refused("DELETE", f"{AT}/items/{item}")[0] == 404


def test_an_update_in_the_background(changing: Service, folder: Path, tmp_path: Path) -> None:
    source = folder.parent / "source"
    draw(source, range(24, 26))
    try:
        assert changing.ask("POST", f"{AT}/update").status_code == 202
        until(lambda: not changing.ask("GET", f"{AT}/update").json()["running"], 120)
        said = changing.ask("GET", f"{AT}/update").json()
        assert said["error"] is None and said["last"]["added"] == 2
        assert changing.search(text="a dog", system="dense")["total"] == 26
    finally:
        for number in (24, 25):
            next(source.rglob(f"{number}.png")).unlink()


def test_another_process_updates(changing: Service, tmp_path: Path) -> None:
    """Who took an item out elsewhere is followed at the next look."""
    from visir.library.watch import remove

    item = changing.search(text="a dog", k=1)["hits"][0]["id"]
    remove(tmp_path / "photos", [item])
    handle = changing.app.state.registry.handles["photos"]
    assert handle.refresh() and not handle.refresh()
    assert changing.ask("GET", "/v1/libraries").json()[0]["items"] == 23


def test_what_cannot_be_served(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="no such folder"):
        create_app(ServiceSettings((tmp_path / "none",)))
    with refused(ConfigurationError, "both called", "photos"):
        create_app(ServiceSettings((folder, folder)))
    with refused(ConfigurationError, "2", "faults") as said:
        ServiceSettings((folder,), queue=0, origins=("example.org",))
    assert "'example.org' is not a web origin" in str(said.value)


def test_a_library_that_takes_no_text_is_served_for_pictures(tmp_path: Path) -> None:
    draw(tmp_path / "source", range(6))
    update(tmp_path / "source", tmp_path / "photos", model="pixels")
    service = Service(tmp_path / "photos")
    (about,) = service.ask("GET", "/v1/libraries").json()
    assert about["texts"] is False and about["systems"] == ["dense"]
    item = service.ask("GET", f"{AT}/items").json()["items"][0]["id"]
    assert len(service.search(like=item)["hits"]) == 5
    assert len(service.ask("GET", f"{AT}/items/{item}/similar").json()["hits"]) == 5
    status, error = service.refused("POST", f"{AT}/search", json={"text": "a dog"})
    assert status == 422 and "takes no text" in error["message"] and "picture" in error["hint"]
    service.close()


@pytest.mark.parametrize("k", [0, -1, 2**31, 2**63, 2**64, 10**30, 1.5])
def test_no_number_of_answers_breaks_it(service: Service, k: object) -> None:
    item = service.search(text="a dog")["hits"][0]["id"]
    for method, path, more in (
        ("POST", f"{AT}/search", {"json": {"text": "a dog", "k": k}}),
        ("POST", f"{AT}/search/batch", {"json": {"queries": [{"text": "a dog", "k": k}]}}),
        ("GET", f"{AT}/items/{item}/similar", {"params": {"k": str(k)}}),
        ("GET", f"{AT}/items", {"params": {"k": str(k)}}),
    ):
        answer = service.ask(method, path, **more)
        assert answer.status_code == 422, (path, answer.text)
