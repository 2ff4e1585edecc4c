"""What the search page costs: first paint, layout shift, blocked time, bytes and requests, in headless Chromium.

    python benchmarks/page_load.py [--url http://127.0.0.1:8000/ | --library FOLDER] [--query "a dog on the beach"]

Without `--url` a service is started: over `--library`, or over 300 generated scenes and a small untrained model (what
the page costs does not depend on how good the answers are). Each case is measured in a new browser context, three
times; the median is printed. "slow" is what Lighthouse calls mobile: a quarter of the processor, 150 ms round trip,
1.6 Mbit/s.

- FCP, LCP: first and largest contentful paint, ms after the request
- CLS: layout shift, as the sum over the view (Lighthouse takes its worst window, which is never more)
- TBT: main thread blocked, ms: what is beyond 50 ms of every long task after FCP
- CPU: processor time of the main thread, ms: unlike the others it does not depend on what else the machine does
- bytes: over the wire, headers included; own: of them, the page's own files; shown: the last picture of the view
- search: from Enter to results in the page ("answer"), and to the last picture in view ("shown")

Needs Chromium (`/usr/bin/chromium`, or CHROMIUM) and playwright.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.request import urlopen

SLOW = {"offline": False, "latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 0.75e6 / 8}
FIRST_VIEW = """async () => {
  const seen = (type) => new Promise((resolve) => {
    const observer = new PerformanceObserver((list) => { observer.disconnect(); resolve(list.getEntries()); });
    observer.observe({ type, buffered: true });
    setTimeout(() => resolve([]), 300);
  });
  const [paint, largest, shifts, long] = await Promise.all(
    ["paint", "largest-contentful-paint", "layout-shift", "longtask"].map(seen));
  const fcp = paint.find((entry) => entry.name === "first-contentful-paint")?.startTime ?? NaN;
  return {
    fcp,
    lcp: largest.at(-1)?.startTime ?? NaN,
    cls: shifts.filter((entry) => !entry.hadRecentInput).reduce((sum, entry) => sum + entry.value, 0),
    tbt: long.filter((entry) => entry.startTime > fcp).reduce((sum, entry) => sum + entry.duration - 50, 0),
    shown: Math.max(...performance.getEntriesByType("resource").map((entry) => entry.responseEnd)),
  };
}"""
IN_VIEW = """() => document.querySelectorAll('.grid a').length > 0 && !document.querySelector('.busy') &&
  [...document.querySelectorAll('.grid img')].filter((image) => image.getBoundingClientRect().top < innerHeight)
  .every((image) => image.complete && image.naturalWidth)"""
CLOCK = """() => {
  window.clock = {};
  const old = document.querySelector('.grid').firstChild;
  const form = document.getElementById('search');
  form.addEventListener('submit', () => (window.clock.asked = performance.now()), { once: true, capture: true });
  new MutationObserver((_, observer) => {
    const now = document.querySelector('.grid').firstChild;
    if (!now || now === old || now.className === 'skeleton') return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => (window.clock.answer = performance.now() - window.clock.asked)));
  }).observe(document.querySelector('.grid'), { childList: true });
}"""


COLUMNS = [
    ("FCP", 6, "fcp", ".0f"),
    ("LCP", 6, "lcp", ".0f"),
    ("CLS", 7, "cls", ".3f"),
    ("TBT", 5, "tbt", ".0f"),
    ("CPU", 5, "cpu", ".0f"),
    ("answer", 8, "answer", ".0f"),
    ("shown", 7, "shown", ".0f"),
    ("requests", 10, "requests", ".0f"),
    ("bytes", 9, "bytes", ",.0f"),
    ("own", 8, "own", ",.0f"),
]


class Traffic:
    """Bytes and requests of a page since `clear`."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.of: dict[str, str] = {}
        self.clear()
        session.on("Network.requestWillBeSent", self._asked)
        session.on("Network.loadingFinished", self._finished)
        session.send("Network.enable")

    def clear(self) -> None:
        """Begin to count."""
        self.requests = self.bytes = self.own = 0

    def _asked(self, event: dict[str, Any]) -> None:
        url = event["request"]["url"]
        if url.startswith("http"):
            self.of[event["requestId"]] = url
            self.requests += 1

    def _finished(self, event: dict[str, Any]) -> None:
        url, size = self.of.get(event["requestId"], ""), int(event["encodedDataLength"])
        self.bytes += size
        self.own += size if "/static/" in url or url.count("/") == 3 else 0


def once(browser: Any, url: str, words: str, slow: bool) -> dict[str, dict[str, float]]:
    """First view with an empty cache, again with a warm one, and a search."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    session = context.new_cdp_session(page)
    traffic = Traffic(session)
    if slow:
        session.send("Network.emulateNetworkConditions", SLOW)
        session.send("Emulation.setCPUThrottlingRate", {"rate": 4})

    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu() -> float:
        measured = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        return 1000 * float(measured["TaskDuration"])

    def view() -> dict[str, float]:
        traffic.clear()
        page.goto(url)
        page.wait_for_function(IN_VIEW, timeout=60_000)
        page.wait_for_load_state("networkidle")
        found: dict[str, float] = page.evaluate(FIRST_VIEW)
        found["cpu"] = cpu()  # counted anew for every document
        return found | {"requests": traffic.requests, "bytes": traffic.bytes, "own": traffic.own}

    empty, warm = view(), view()
    traffic.clear()
    before = cpu()
    page.evaluate(CLOCK)
    page.locator("#text").fill(words)
    page.locator("#text").press("Enter")
    page.wait_for_function("() => window.clock.answer")
    page.wait_for_function(IN_VIEW, timeout=60_000)
    page.wait_for_load_state("networkidle")
    shifts = page.evaluate(FIRST_VIEW)["cls"] - warm["cls"]
    search = page.evaluate(
        "() => ({ answer: window.clock.answer, shown: Math.max(window.clock.answer,"
        " ...performance.getEntriesByType('resource').map((entry) => entry.responseEnd - window.clock.asked)) })"
    )
    search["cpu"] = cpu() - before
    search |= {"cls": max(0.0, shifts), "requests": traffic.requests, "bytes": traffic.bytes, "own": traffic.own}
    context.close()
    return {"first view, empty cache": empty, "first view, warm cache": warm, "search": search}


def sizes() -> None:
    """The page's own files: as they are, and as gzip would send them."""
    first = {"index.html", "page.css", "theme.js", "page.js", "api.js", "column.js", "dom.js", "drop.js", "state.js"}
    table = {Path(one.name).name: one.read_bytes() for one in files("visir.library.service").joinpath("page").iterdir()}
    for title, names in (("first view", first), ("all", set(table))):
        held = [table[name] for name in sorted(names)]
        packed = sum(len(gzip.compress(one)) for one in held)
        print(f"own files, {title}: {len(held)}, {sum(map(len, held)) / 1000:.1f} kB, gzip {packed / 1000:.1f} kB")


def main() -> None:
    from playwright.sync_api import sync_playwright

    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--url")
    options.add_argument("--library", type=Path)
    options.add_argument("--query", default="a dog on the beach")
    options.add_argument("--times", type=int, default=3)
    given = options.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        print("no Chromium here: install it, or name it by CHROMIUM")
        return
    sizes()
    with ExitStack() as stack:
        url = given.url or stack.enter_context(served(given.library))
        play = stack.enter_context(sync_playwright())
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        print(f"{'':36}" + "".join(f"{title:>{width}}" for title, width, _, _ in COLUMNS))
        for slow in (False, True):
            runs = [once(browser, url, given.query, slow) for _ in range(given.times)]
            for case in runs[0]:
                of = {name: statistics.median(run[case][name] for run in runs) for name in runs[0][case]}
                cells = [f"{format(of[name], form) if name in of else '':>{width}}" for _, width, name, form in COLUMNS]
                print(f"{'slow' if slow else 'plain':10}{case:26}" + "".join(cells))
        browser.close()


@contextmanager
def served(library: Path | None) -> Iterator[str]:
    """A service of its own process, on a free port; the address of its page."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = library or made(Path(scratch))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "visir", "library", "serve", str(folder), "--port", str(port), "--rate", "0"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as service:
            url = f"http://127.0.0.1:{port}/"
            try:
                while True:
                    if service.poll() is not None:
                        raise SystemExit(f"the service ended: {' '.join(command)}")
                    try:
                        urlopen(f"{url}v1/ready", timeout=1).close()
                        break
                    except OSError:
                        time.sleep(0.2)
                yield url
            finally:
                service.terminate()


def made(scratch: Path) -> Path:
    """300 scenes, and a model trained for one epoch."""
    from visir.library import update
    from visir.training import train

    model = train("scenes-heads", "scenes:100?size=64", out=scratch / "model", epochs=1)
    update("scenes:300?size=224", scratch / "scenes", model=str(model))
    return scratch / "scenes"


if __name__ == "__main__":
    main()
