"""The pictures of docs/gallery.md: real runs on generated data, photographed in light and dark.

    python scripts/gallery.py [--keep FOLDER]     # needs Chromium; about five minutes on two cores

Writes docs/images/gallery/NAME-light.webp and NAME-dark.webp.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "images" / "gallery"
RUNS = """
train scenes-heads --out model --set optimiser.epochs=6
evaluate scenes:2000 --model model --split test --out evaluation
stress scenes:2000 --model model --split test --corruptions all --out stress
shortcuts preview scenes:200 --out shortcuts.html
probe scenes:600 --model model --out probes
granularity scenes:600 --out granularity
sessions generate --sessions 4000 --out shop
sessions make shop/events --mapping shop/mapping.toml --out sessions
sessions describe sessions --out what-buys
library make scenes:300?seed=1 --model model --out scenes.visir
"""
PAGES = {
    "training": ("model/training.html", "curves"),
    "evaluation": ("evaluation/report.html", ""),
    "queries": ("evaluation/report.html", "queries"),
    "stress": ("stress/stress.html", ""),
    "shortcuts": ("shortcuts.html", ""),
    "probes": ("probes/*.html", "plots"),
    "granularity": ("granularity/*.html", ""),
    "sessions": ("what-buys/*.html", "length"),
}
"""Name → the page, and the section of it that is shown."""
SEARCH = "http://127.0.0.1:8799/?q=a+red+car+beside+a+house+at+night"


def main() -> None:
    """Run everything, photograph it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a folder for the runs; what is in it is not run again")
    folder = parser.parse_args().keep or Path(tempfile.mkdtemp(prefix="gallery-"))
    folder.mkdir(parents=True, exist_ok=True)
    for line in RUNS.strip().splitlines():
        run(line, folder)
    OUT.mkdir(parents=True, exist_ok=True)
    photograph(folder)


def run(line: str, folder: Path) -> None:
    """Run one command, unless what it makes is there."""
    words = shlex.split(line)
    made = folder / words[words.index("--out") + 1]
    if made.exists():
        return
    print(f"$ visir {line}", flush=True)
    command = [sys.executable, "-m", "visir", *words]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment())


def environment() -> dict[str, str]:
    """The environment of the runs: the `visir` of this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}


def photograph(folder: Path) -> None:
    """Every page in both schemes."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    nowhere = subprocess.DEVNULL
    command = [sys.executable, "-m", "visir", "library", "serve", "scenes.visir", "--port", "8799"]
    with subprocess.Popen(command, cwd=folder, stdout=nowhere, stderr=nowhere, env=environment()) as server:
        try:
            wait(SEARCH)
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
                for scheme in ("light", "dark"):
                    context = browser.new_context(color_scheme=scheme, viewport={"width": 1000, "height": 640})
                    page = context.new_page()
                    for name, (pattern, section) in PAGES.items():
                        place = next(iter(sorted(folder.glob(pattern))))
                        page.goto(place.resolve().as_uri())
                        if section:
                            page.locator(f"#{section}").evaluate("one => one.scrollIntoView({behavior: 'instant'})")
                            page.wait_for_timeout(300)
                        save(page, name, scheme)
                    page.goto(SEARCH)
                    page.wait_for_timeout(3000)
                    save(page, "search", scheme)
        finally:
            server.terminate()


def wait(url: str) -> None:
    """Wait until the service answers."""
    for _ in range(240):
        try:
            urllib.request.urlopen(url, timeout=1)
        except OSError:
            time.sleep(0.5)
        else:
            return


def save(page: Any, name: str, scheme: str) -> None:
    """The upper part of the page, as a small WebP."""
    from PIL import Image

    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    place = OUT / f"{name}-{scheme}.webp"
    shot.save(place, quality=78, method=6)
    print(f"{place.relative_to(ROOT)}: {place.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
