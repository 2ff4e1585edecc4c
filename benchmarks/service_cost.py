"""What a hostile request costs `visir library serve`: peak memory over idle, seconds, and what it answers.

    python benchmarks/service_cost.py Photos.visir
    python benchmarks/service_cost.py --synthetic 100000 --model runs/towers

One service for each attack, without a limit of rate (`--rate 0`), so that the limits of memory stand alone; `--limited`
leaves the rate as it is. Memory is that of the process (VmRSS, and its peak VmHWM) as Linux tells it.
"""

from __future__ import annotations

import argparse
import base64
import collections
import concurrent.futures
import http.client
import io
import json
import signal
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from service_load import cpu, make, serve

Request = tuple[str, str, bytes]
"""Path below the library, type, body."""
JSON = "application/json"


def one_bit(side: int = 5650) -> bytes:
    """A PNG of 32 megapixels in 4 kB."""
    stream = io.BytesIO()
    Image.new("1", (side, side)).save(stream, "PNG")
    return stream.getvalue()


def clear(side: int = 5650) -> bytes:
    """A PNG of 32 megapixels with transparency, which takes most while it is brought to RGB."""
    stream = io.BytesIO()
    Image.new("RGBA", (side, side), (200, 30, 60, 90)).save(stream, "PNG")
    return stream.getvalue()


def photo() -> bytes:
    """A JPEG of 12 megapixels, in passes, of some MB."""
    stream = io.BytesIO()
    Image.effect_noise((4000, 3000), 60).convert("RGB").save(stream, "JPEG", progressive=True, quality=80)
    return stream.getvalue()


def tiff(side: int = 64, tile: int = 30_000) -> bytes:
    """A TIFF of 64 × 64 pixels in a tile of 30,000 × 30,000."""
    data = zlib.compress(bytes(10**8))
    entries = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)]
    entries += [(322, 4, 1, tile), (323, 4, 1, tile), (324, 4, 1, 200), (325, 4, 1, len(data))]
    body = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return (b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + body + b"\0\0\0\0").ljust(200, b"\0") + data


def icon() -> bytes:
    """An icon of 16 × 16 that holds a PNG of 9,000 × 9,000."""
    frame = one_bit(9000)
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 8, len(frame), 22) + frame


def batch(queries: list[dict[str, object]]) -> Request:
    """Searches that are asked together."""
    return "search/batch", JSON, json.dumps({"queries": queries}).encode()


def inside(data: bytes) -> dict[str, object]:
    """A search with a picture."""
    return {"image": {"data": base64.b64encode(data).decode()}}


def upload(data: bytes) -> Request:
    """A search with a picture, as a form."""
    head = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="x"\r\n\r\n'
    return "search/photo", "multipart/form-data; boundary=x", head + data + b"\r\n--x--\r\n"


def conditions() -> Request:
    """64 searches of 16 conditions on captions, all of them different."""
    return batch(
        [
            {"text": "a dog", "where": [{"field": "caption", "op": "!=", "value": f"{query} {at}"} for at in range(16)]}
            for query in range(64)
        ]
    )


ATTACKS: dict[str, Callable[[], list[Request]]] = {
    "64 one-bit PNGs of 32 megapixels, one request": lambda: [batch([inside(one_bit())] * 64)],
    "64 one-bit PNGs, eight requests at once": lambda: [batch([inside(one_bit())] * 64)] * 8,
    "150 uploads of one-bit PNGs of 32 megapixels": lambda: [upload(one_bit())] * 150,
    "150 uploads of transparent PNGs of 32 megapixels": lambda: [upload(clear())] * 150,
    "150 uploads of JPEGs of 12 megapixels, in passes": lambda: [upload(photo())] * 150,
    "150 uploads of a TIFF of one tile of 900 megapixels": lambda: [upload(tiff())] * 150,
    "150 uploads of an icon that holds 81 megapixels": lambda: [upload(icon())] * 150,
    "64 × 16 conditions `caption !=`, one request": lambda: [conditions()],
    "64 × 16 conditions, eight requests at once": lambda: [conditions()] * 8,
    "200 times everything of a picture": lambda: [("items/{item}", "", b"")] * 200,
}


def attack(library: Path, requests: list[Request], options: list[str]) -> tuple[float, float, float, float, str]:
    """MiB idle, MiB more at most, seconds, processor seconds, answers by status."""
    from visir.library.snapshot import LibrarySnapshot

    with LibrarySnapshot.open(library) as opened:
        at, item = f"/v1/libraries/{opened.name}/", str(opened.columns.ids[0])
    process, port = serve(library, 0, options)

    def ask(request: Request) -> str:
        path, kind, body = request
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        try:
            headers = {"Content-Type": kind} if kind else {}
            connection.request("POST" if body else "GET", at + path.format(item=item), body or None, headers)
            answer = connection.getresponse()
            answer.read()
            return str(answer.status)
        except OSError:
            return "closed"  # before the whole body was sent: the answer is lost with the connection
        finally:
            connection.close()

    try:
        ask(("search", JSON, json.dumps({"text": "a dog"}).encode()))
        idle, began, worked = status(process.pid, "VmRSS"), time.perf_counter(), cpu(process.pid)
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as clients:
            answers = collections.Counter(clients.map(ask, requests))
        took, worked = time.perf_counter() - began, cpu(process.pid) - worked
        said = ", ".join(f"{count} × {code}" for code, count in sorted(answers.items()))
        return idle, max(0.0, status(process.pid, "VmHWM") - idle), took, worked, said
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def status(pid: int, what: str) -> float:
    """MiB of a process."""
    return int(Path(f"/proc/{pid}/status").read_text().split(f"{what}:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path, nargs="?")
    parser.add_argument("--synthetic", type=int, metavar="N")
    parser.add_argument("--model", default="", help="for --synthetic")
    parser.add_argument("--limited", action="store_true", help="with the usual limit of rate")
    parser.add_argument("--only", default="", help="attacks with this in their name")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        library = given.library
        if given.synthetic:
            library = Path(scratch) / "synthetic"
            make(library, given.synthetic, given.model, "exact")
        if library is None:
            parser.error("name a library, or --synthetic N")
        print("| attack | kB sent | idle (MiB) | over idle (MiB) | seconds | processor (s) | answers |")
        print("|---|--:|--:|--:|--:|--:|---|")
        for name, requests in ATTACKS.items():
            if given.only not in name:
                continue
            sent = requests()
            idle, more, took, worked, said = attack(library, sent, [] if given.limited else ["--rate", "0"])
            size = sum(len(body) for _, _, body in sent) / 1000
            print(
                f"| {name} | {size:,.0f} | {idle:,.0f} | {more:,.0f} | {took:.1f} | {worked:.1f} | {said} |", flush=True
            )


if __name__ == "__main__":
    main()
