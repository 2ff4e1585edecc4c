"""Bodies that are made to break something: bombs of pixels, frames, passes and zips; JSON and forms that go too far."""

from __future__ import annotations

import base64
import gc
import gzip
import io
import json
import resource
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from PIL import Image
from served import AT, EVENT, KINDS, Scores, Service, make, process

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("bodies"))


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    made = Service(folder)
    yield made
    made.close()


@pytest.fixture(scope="module")
def narrow(folder: Path) -> Iterator[Service]:
    """A service for photos of at most a megapixel."""
    made = Service(folder, pixels=1_000_000)
    yield made
    made.close()


def png(width: int, height: int, rows: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """A PNG (8-bit greys) whose header says one thing and whose data another."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", head), *(chunk(*one) for one in more), chunk(b"IDAT", zlib.compress(rows, 9))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def saved(image: Image.Image, form: str, **more: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **more)
    return stream.getvalue()


def passes(count: int) -> bytes:
    """A progressive JPEG whose last pass is there so many times."""
    data = saved(Image.new("RGB", (400, 400), "red"), "JPEG", progressive=True)
    return data[:-2] + (b"\xff\xda" + data[:-2].split(b"\xff\xda")[-1]) * count + b"\xff\xd9"


def zipped(name: str, data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return stream.getvalue()


def tiff(width: int, height: int) -> bytes:
    """A TIFF header of this size with one strip of nothing."""
    entries = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    entries += [(273, 4, 1, 8), (277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, 1)]
    body = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + body + b"\0\0\0\0"


def webp(width: int, height: int) -> bytes:
    """The header of an extended WebP of this size and nothing behind it."""
    sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    chunk = b"VP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + sizes
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'
FRAME = b"," + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0) + b"\x08\x02\x4c\x01\0;"
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(/etc/passwd) (r) file\nshowpage\n"
TOO_LARGE = {
    "png": lambda: png(2000, 2000, b""),
    "png of the largest size": lambda: png(2**31 - 1, 2**31 - 1, b""),
    "gif": lambda: b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + FRAME,
    "webp": lambda: saved(Image.new("RGB", (2000, 2000)), "WEBP"),
    "webp, its header alone": lambda: webp(16384, 16384),
    "tiff": lambda: tiff(100_000, 100_000),
    "bmp": lambda: saved(Image.new("L", (2000, 2000)), "BMP"),
    "jpeg": lambda: saved(Image.new("L", (2000, 2000)), "JPEG"),
}
NO_PICTURE = {
    "svg": lambda: SVG,
    "svg with an outer entity": lambda: b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///a">]>' + SVG,
    "postscript, which is a program": lambda: EPS,
    "pdf": lambda: b"%PDF-1.7\n" + b"0" * 99,
    "zip bomb": lambda: zipped("a.png", b"\0" * 50_000_000),
    "a picture in a zip": lambda: zipped("a.png", saved(Image.new("L", (9, 9)), "PNG")),
    "gzip": lambda: gzip.compress(saved(Image.new("L", (9, 9)), "PNG")),
    "html": lambda: b"<!doctype html><script>alert(1)</script>",
    "a header and nothing": lambda: png(500, 500, b"")[:40],
    "fewer rows than told": lambda: png(900, 900, b"\0" * 100),
    "broken deflate": lambda: png(90, 90, b"\0" * 8190).replace(b"IDAT\x78", b"IDAT\x00"),
    "text without end": lambda: png(9, 9, b"\0" * 90, (b"zTXt", b"a\0\0" + zlib.compress(b"\0" * 80_000_000, 9))),
    "a JPEG of 5,000 passes": lambda: passes(5000),
    "webp, wrong length": lambda: b"RIFF\xff\xff\xff\xffWEBPVP8 \xff\xff\xff\x7f" + b"\0" * 99,
    "nothing but zeros": lambda: bytes(1_000_000),
}


@pytest.mark.parametrize("way", ["photo", "image.data"])
@pytest.mark.parametrize("name", [*TOO_LARGE, *NO_PICTURE])
def test_bombs(narrow: Service, name: str, way: str) -> None:
    """Refused by their header, or by the decoder, in well under a second."""
    data = ({**TOO_LARGE, **NO_PICTURE}[name])()
    began = time.process_time()
    if way == "photo":
        status, error = narrow.refused("POST", f"{AT}/search/photo", files={"photo": ("x.png", data)})
    else:
        body = {"image": {"data": base64.b64encode(data).decode()}}
        status, error = narrow.refused("POST", f"{AT}/search", json=body)
    assert time.process_time() - began < 2
    assert status == (413 if name in TOO_LARGE else 422) and error["field"] == way, (status, error)
    assert ("over the limit of 1,000,000 pixels" in error["message"]) is (name in TOO_LARGE)


def test_of_many_frames_the_first_is_taken(service: Service) -> None:
    """A GIF of 3,000 frames of 500 × 500 (750 megapixels), a PNG whose profile is a bomb: answered."""
    frames = [Image.new("L", (500, 500), at) for at in range(40)]
    once = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    head, trailer = once[:-1], once[-1:]
    second = head.find(b"\x21\xf9", head.find(b"\x2c") + 1)
    many = head + head[second:] * 75 + trailer
    with Image.open(io.BytesIO(many)) as opened:
        assert getattr(opened, "n_frames", 1) > 2900
    began = time.process_time()
    assert service.ask("POST", f"{AT}/search/photo", files={"photo": ("x", many)}).status_code == 200
    assert time.process_time() - began < 2
    profile = png(9, 9, b"\0" * 90, (b"iCCP", b"a\0\0" + zlib.compress(b"\0" * 50_000_000, 9)))
    assert service.ask("POST", f"{AT}/search/photo", files={"photo": ("x", profile)}).status_code in (200, 422)


@pytest.mark.nightly
def test_the_largest_photo_takes_half_a_gibibyte(folder: Path) -> None:
    """16 bytes for each of 32 million pixels, in a process of its own; one pixel more is refused."""
    side = 5656  # 5656² = 31,990,336
    bomb = saved(Image.new("RGBA", (side, side)), "PNG", compress_level=9)
    with process(folder, rate=0.0) as (running, port):
        for data, status in ((bomb, 200), (png(side + 1, side + 1, b""), 413)):
            answer = httpx.post(f"http://127.0.0.1:{port}{AT}/search/photo", files={"photo": data}, timeout=60)
            assert answer.status_code == status, answer.text
        kibibytes = int(Path(f"/proc/{running.pid}/status").read_text().split("VmHWM:")[1].split()[0])
        empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # this process has the same packages loaded
        assert kibibytes - empty < 600 * 1024, kibibytes


HOSTILE_JSON = {
    "deep lists": (lambda: b"[" * 1_000_000, 400),
    "deep objects": (lambda: b'{"a":' * 200_000, 400),
    "deep value": (b'{"text":' + b"[" * 500 + b"]" * 500 + b"}", 400),
    "long number": (lambda: b'{"text": "a", "k": ' + b"9" * 1_000_000 + b"}", 400),
    "large number": (b'{"text": "a", "k": 1e400}', 422),
    "large exponent": (b'{"text": "a", "weight": 1e-400000}', None),
    "negative zero": (b'{"text": "a", "offset": -0}', None),
    "whole float": (b'{"text": "a", "k": 3.0000000000000001}', None),
    "NaN": (b'{"text": "a", "weight": NaN}', 422),
    "infinity": (b'{"text": "a", "weight": -Infinity}', 422),
    "number as text": (b'{"text": "a", "k": "0x10"}', 422),
    "true as a number": (b'{"text": "a", "where": [{"field": "width", "value": true}]}', 422),
    "half a surrogate": (b'{"text": "\\ud800"}', 400),
    "not UTF-8": (b'{"text": "\xff\xfe"}', 400),
    "UTF-16": ('{"text": "a"}'.encode("utf-16"), 400),
    "a byte order mark": (b'\xef\xbb\xbf{"text": "a"}', 400),
    "two values": (b'{"text": "a"}{"text": "b"}', 400),
    "comments": (b'{"text": "a" /* b */}', 400),
    "a list": (b'[{"text": "a"}]', 422),
    "null": (b"null", 422),
    "prototype": (b'{"text": "a", "__proto__": {"admin": true}}', 422),
    "class": (b'{"text": "a", "__class__": "os.system"}', 422),
    "duplicate keys": (b'{"text": "a", "k": 1, "k": 2}', 200),
    "a huge whole number": (b'{"text": "a", "where": [{"field": "width", "value": 99999999999999999999}]}', None),
    "control characters": (b'{"text": "\\u0000\\u001b[31m\\u202e"}', None),
    "many unknown fields": (lambda: b"{" + b",".join(b'"%x":1' % at for at in range(1_500_000)) + b"}", 422),
    "many conditions": (lambda: b'{"text":"a","where":[' + b"{}," * 5_000_000 + b"{}]}", 422),
    "many wrong values": (
        lambda: b'{"text":"a","where":[{"field":"width","op":"in","value":[' + b"[]," * 5_000_000 + b"1]}]}",
        422,
    ),
    "as many as are read": (lambda: b"{" + b",".join(b'"%x":1' % at for at in range(150_000)) + b"}", 422),
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_json_that_goes_too_far(service: Service, name: str) -> None:
    made, expected = HOSTILE_JSON[name]
    body = made() if callable(made) else made
    began = time.process_time()
    answer = service.ask("POST", f"{AT}/search", content=body, headers=JSON)
    assert time.process_time() - began < 2, "nobody else is answered meanwhile"
    assert answer.status_code in ((200, 422) if expected is None else (expected,)), answer.text[:300]
    assert answer.headers["content-type"] == "application/json" and len(answer.content) < 20_000
    if name == "duplicate keys":
        assert len(answer.json()["hits"]) == 2  # the last one counts, as everywhere


HOSTILE_EVENTS = {
    "a list of nothing": (lambda: b"[" + b"{}," * 9_999 + b"{}]", 422),
    "many events": (lambda: b"[" + b"{}," * 900_000 + b"{}]", 413),
    "many columns": (lambda: b'[{"visitor":"a"' + b"".join(b',"%x":1' % at for at in range(1_100_000)) + b"}]", 413),
    "many lists": (lambda: b'{"events":[' + b"[]," * 5_000_000 + b"[]]}", 413),
    "a value of lists": (
        lambda: b'[{"visitor":[' + b"[]," * 900_000 + b'1],"time":1740787801564468,"action":"page"}]',
        422,
    ),
    "long wrong action": (lambda: json.dumps([{**EVENT, "action": "a" * 10_000_000}]).encode(), 422),
    "long wrong times": (lambda: json.dumps([{**EVENT, "time": "1" * 1_000}] * 9_000).encode(), 422),
    "long visitor": (lambda: json.dumps([{**EVENT, "visitor": "v" * 10_000_000}]).encode(), 422),
    "long page": (lambda: json.dumps([{**EVENT, "page": "/" * 10_000_000}]).encode(), 422),
    "a time of many digits": (lambda: b'[{"visitor":"a","action":"page","time":' + b"9" * 4_000_000 + b"}]", None),
    "a time beyond 64 bits": (b'[{"visitor":"a","action":"page","time":99999999999999999999}]', 422),
    "an object": (b'{"events": {"0": 1}}', 422),
    "nothing": (b"", 400),
}


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Scores(KINDS["sessions"].make(tmp_path_factory.mktemp("hostile-events")))
    gc.freeze()  # a service of its own has no gigabytes of other tests that each collection would go through
    yield made
    gc.unfreeze()
    made.close()


@pytest.mark.parametrize("name", [*HOSTILE_JSON, *HOSTILE_EVENTS])
def test_events_that_go_too_far(scores: Service, name: str) -> None:
    """Refused as a whole, quickly and in few words; no event is read."""
    made, expected = {**{name: (body, None) for name, (body, _) in HOSTILE_JSON.items()}, **HOSTILE_EVENTS}[name]
    body = made() if callable(made) else made
    began = time.process_time()
    answer = scores.ask("POST", "/v1/events", content=body, headers=JSON)
    assert time.process_time() - began < 2, "nobody else is answered meanwhile"
    assert answer.status_code in ((400, 413, 422) if expected is None else (expected,)), answer.text[:300]
    assert answer.headers["content-type"] == "application/json" and len(answer.content) < 100_000
    assert scores.ask("GET", "/health").json()["events"] == 0


def test_bodies_that_are_packed_or_of_another_type(service: Service, scores: Service) -> None:
    """Nothing is unpacked on behalf of a client; the type must be the declared one."""
    body = json.dumps({"text": "a dog"}).encode()
    bomb = gzip.compress(b" " * 100_000_000 + body)
    for packed, coding in ((bomb, "gzip"), (gzip.compress(body), "gzip"), (zlib.compress(body), "deflate")):
        headers = {**JSON, "content-encoding": coding}
        assert service.refused("POST", f"{AT}/search", content=packed, headers=headers)[0] == 400
        assert scores.refused("POST", "/v1/events", content=packed, headers=headers)[0] == 400
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "text/json",
        "application/json-patch+json",
        "x" * 9999,
    ):
        assert service.refused("POST", f"{AT}/search", content=body, headers={"content-type": kind})[0] == 415
        assert scores.refused("POST", "/v1/events", content=body, headers={"content-type": kind})[0] == 415
        assert service.refused("POST", f"{AT}/search/photo", content=body, headers={"content-type": kind})[0] == 415


def form(parts: list[bytes], boundary: bytes = b"x") -> dict[str, Any]:
    body = b"".join(b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + boundary + b"--\r\n"
    return {"content": body, "headers": {"content-type": f"multipart/form-data; boundary={boundary.decode()}"}}


def field(name: bytes, value: bytes, more: bytes = b"") -> bytes:
    return b'Content-Disposition: form-data; name="' + name + b'"' + more + b"\r\n\r\n" + value


@pytest.mark.parametrize(
    "sent",
    [
        form([field(b"a%d" % at, b"1") for at in range(20_000)]),
        form([field(b"photo", b"x", b'; filename="a.png"')] * 5_000),
        form([field(b"text", b"a" * 10_000_000)]),
        form([b"X: y\r\n" * 500_000 + field(b"text", b"a")]),
        form([b"X: " + b"y" * 10_000_000 + b"\r\n" + field(b"text", b"a")]),
        form([field(b"n" * 1_000_000, b"a")]),
        form([field(b"text", b"a", b"; x=y" * 100_000)]),
        form([field(b"photo", b"GIF89a", b'; filename="../../../etc/passwd"')]),
        form([field(b"photo", b"GIF89a", b'; filename="' + b"\\" * 100_000 + b'"')]),
        form([field(b"text", b"a")], boundary=b"y" * 70),
        form([b"\r\n" * 1_000_000]),
        {"content": b"\r\n" * 5_000_000, "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b"--" * 5_000_000, "headers": {"content-type": "multipart/form-data; boundary=" + "-" * 70}},
        {"content": b"--x\r\n", "headers": {"content-type": "multipart/form-data; boundary=" + "x" * 50_000}},
        {"content": b"--x\r\n", "headers": {"content-type": "multipart/form-data" + "; a=b" * 10_000}},
        {"content": b"--x--", "headers": {"content-type": 'multipart/form-data; boundary="' + "\\" * 20_000}},
    ],
    ids=[
        "many fields", "many files", "long value", "many headers of a part", "long header of a part", "long name",
        "many parameters", "a path as the file's name", "backslashes", "no such boundary", "empty lines", "only lines",
        "only dashes", "long boundary", "many parameters of the type", "backslashes in the type",
    ],
)  # fmt: skip
def test_forms_that_go_too_far(service: Service, sent: dict[str, Any]) -> None:
    began = time.process_time()
    status, error = service.refused("POST", f"{AT}/search/photo", **sent)
    assert time.process_time() - began < 2, "nobody else is answered meanwhile"
    assert status in (400, 413, 415, 422) and len(str(error)) < 2000
