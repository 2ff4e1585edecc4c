"""What a visit of the search page costs the service: a real page's requests, recorded in Chromium and replayed.

    visir library make 'scenes:300?size=224' --out scenes.visir --model MODEL
    python benchmarks/page_replay.py replay --library scenes.visir [--clients 1 8 64]
    python benchmarks/page_replay.py record --library Photos.visir --requests visit.jsonl
    python benchmarks/page_replay.py replay --library Photos.visir --requests visit.jsonl

The visit: open the page, search, scroll twice, open a photo, look at the next one, "More like this", add a filter, go
back twice. The browser's cache is empty at first. A line of the file is a request: method, path, body, and the ETag
that the browser had (304 answers it). The file fits the library that it was recorded with: it names its items;
`page_visit.jsonl`, beside this script, fits 300 generated scenes.

A client replays visits over one connection, a request as soon as the one before is answered; a person waits between,
and a browser has six connections. Texts are other ones in each visit, so that no cache answers. "cpu ms" is the
processor time of the service for a visit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from page_load import IN_VIEW
from service_load import WORDS, cpu, serve

TEXT = "a dog on the beach"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("record", "replay", "drive"))
    parser.add_argument("--library", type=Path)
    parser.add_argument("--requests", type=Path, default=Path(__file__).with_name("page_visit.jsonl"))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.do == "drive":
        print(json.dumps(drive(given.port, read(given.requests), given.clients[0], given.seconds)))
        return
    if given.library is None:
        parser.error("name a library by --library")
    process, port = serve(given.library, 0)
    try:
        if given.do == "record":
            lines = record(f"http://127.0.0.1:{port}")
            given.requests.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
            print(f"{len(lines)} requests of a visit: {given.requests}")
        else:
            replay(process.pid, port, given)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def record(url: str) -> list[dict[str, Any]]:
    """The requests of a visit, in the order in which the browser sent them."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no Chromium here: install it, or name it by CHROMIUM")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        sent: list[Any] = []
        page.on("request", lambda request: sent.append(request) if request.url.startswith(url) else None)

        def settle() -> None:
            page.wait_for_function(IN_VIEW, timeout=60_000)
            page.wait_for_load_state("networkidle")

        page.goto(url)
        settle()
        page.locator("#text").fill(TEXT)
        page.locator("#text").press("Enter")
        page.wait_for_timeout(500)
        settle()
        for _ in range(2):
            page.locator(".grid a").last.scroll_into_view_if_needed()
            page.wait_for_timeout(500)
            page.wait_for_load_state("networkidle")
        page.locator(".grid a").nth(1).click()
        page.locator("#details .near, #details .strip a").first.wait_for(timeout=60_000)
        page.wait_for_load_state("networkidle")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(500)
        page.wait_for_load_state("networkidle")
        page.locator("#details").get_by_role("button", name="More like this").click()
        page.wait_for_timeout(500)
        settle()
        page.get_by_role("button", name="Filter", exact=True).click()
        page.get_by_label("Field").select_option("width")
        page.get_by_label("Value").fill("100")
        page.get_by_role("button", name="Add").click()
        page.wait_for_timeout(500)
        settle()
        for _ in range(2):
            page.go_back()
            page.wait_for_timeout(500)
            settle()
        lines = []
        for request in sent:
            tag = request.all_headers().get("if-none-match")
            body = request.post_data
            lines.append({"method": request.method, "path": request.url.removeprefix(url), "body": body, "tag": tag})
        browser.close()
    return lines


def read(requests: Path) -> list[dict[str, Any]]:
    """The recorded requests."""
    return [json.loads(line) for line in requests.read_text(encoding="utf-8").splitlines()]


def replay(pid: int, port: int, given: argparse.Namespace) -> None:
    """The table."""
    lines = read(given.requests)
    searches = sum(line["method"] == "POST" for line in lines)
    thumbnails = sum(line["path"].endswith("/thumbnail") for line in lines)
    print(f"a visit: {len(lines)} requests, of which {searches} search or explain and {thumbnails} are thumbnails")
    print(f"{'clients':>7} {'visits/s':>9} {'req/s':>8} {'p50 ms':>8} {'p95 ms':>8} {'errors':>6} {'cpu ms':>8}")
    for clients in given.clients:
        command = [sys.executable, __file__, "drive", "--requests", str(given.requests), "--port", str(port)]
        command += ["--clients", str(clients), "--seconds", str(given.seconds)]
        before = cpu(pid)
        seen = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        visits = seen["requests"] / len(lines)
        print(
            f"{clients:7} {visits / seen['wall']:9.2f} {seen['requests'] / seen['wall']:8.1f} {seen['p50']:8.1f} "
            f"{seen['p95']:8.1f} {seen['errors']:6} {(cpu(pid) - before) / visits * 1000:8.0f}",
            flush=True,
        )


def drive(port: int, lines: list[dict[str, Any]], clients: int, seconds: float) -> dict[str, Any]:
    """Play all clients, each of which begins somewhere in the visit, until the time is over; what they saw."""
    took: list[float] = []
    errors: list[bytes] = []

    async def client(number: int, until: float) -> None:
        draw = random.Random(f"{number} {until}")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        text, at = TEXT, number * len(lines) // clients
        while (began := time.perf_counter()) < until:
            if at % len(lines) == 0 or text == TEXT:
                text = " ".join(draw.choices(WORDS, k=draw.randint(5, 12)))
            writer.write(request_bytes(lines[at % len(lines)], text))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"content-length: " in head and head[9:12] != b"304":
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
            if head[9:12] not in (b"200", b"304"):
                errors.append(head[9:12])
            took.append(time.perf_counter() - began)
            at += 1
        writer.close()

    async def everybody() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(client(number, until) for number in range(clients)))

    began = time.perf_counter()
    asyncio.run(everybody())
    p50, p95 = (float(value) * 1000 for value in np.percentile(took, [50, 95]))
    return {"requests": len(took), "wall": time.perf_counter() - began, "p50": p50, "p95": p95, "errors": len(errors)}


def request_bytes(line: dict[str, Any], text: str) -> bytes:
    """A request as it goes over the wire, with another text."""
    body = (line["body"] or "").replace(json.dumps(TEXT), json.dumps(text)).encode()
    head = f"{line['method']} {line['path']} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept-encoding: gzip\r\n"
    if line["tag"]:
        head += f"if-none-match: {line['tag']}\r\n"
    if body:
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


if __name__ == "__main__":
    main()
