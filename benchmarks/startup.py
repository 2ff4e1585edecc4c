"""What a person waits for: new processes until the first answer, median of 10 after one warm-up, and their memory.

    python benchmarks/startup.py [--runs 10]

`visir --help` stands beside an empty interpreter; a first search in a library (2,000 generated scenes) by a model
without a network, by CLIP ViT-B/32 (random weights, full size) over its kept text tower, and by the same with PyTorch
(`--deterministic` of a service; here: where no tower is kept); a service until it answers its health check, and until
its first answer. Then the same CLIP loaded by `visir.load` and by transformers, and with one text and one picture
encoded. "CPU" is processor time, which other load on the machine changes less; peak memory counts pages of files that
are mapped.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

Measured = tuple[float, float, float]
"""Seconds, seconds of processor time, and the peak memory in MB of one process."""
VISIR_LOADS = "import sys, visir; model = visir.load(sys.argv[1])"
VISIR_ENCODES = f"""{VISIR_LOADS}
from PIL import Image
model.encode_texts(["a red circle"]), model.encode_images([Image.new("RGB", (64, 64), "red")])
"""
TRANSFORMERS_LOADS = """
import sys
from transformers import CLIPModel, CLIPProcessor
model, processor = CLIPModel.from_pretrained(sys.argv[1]).eval(), CLIPProcessor.from_pretrained(sys.argv[1])
"""
TRANSFORMERS_ENCODES = f"""{TRANSFORMERS_LOADS}
import torch
from PIL import Image
with torch.inference_mode():
    model.get_text_features(**processor(text=["a red circle"], return_tensors="pt", padding=True))
    model.get_image_features(**processor(images=[Image.new("RGB", (64, 64), "red")], return_tensors="pt"))
"""
VISIR = str(Path(sys.executable).with_name("visir"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    print(f"{'command':<52}{'median s':>10}{'min s':>8}{'max s':>8}{'CPU s':>8}{'peak MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VISIR_CACHE"] = f"{folder}/cache"
        empty = {**os.environ, "VISIR_CACHE": f"{folder}/empty"}
        clip = f"{folder}/clip"
        # In a process of its own: the peak memory of a child is at least what its parent has when it is started.
        maker = Path(__file__).with_name("random_models.py")
        subprocess.run([sys.executable, str(maker), "clip-vit-base-patch32", clip], check=True, capture_output=True)
        for name, model in (("scenes", "colours"), ("clip-scenes", clip)):
            made = [
                VISIR,
                "library",
                "make",
                "scenes:2000?size=64",
                "--model",
                model,
                "--out",
                f"{folder}/{name}",
                "-q",
            ]
            subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        scenes, clip_scenes = f"{folder}/scenes", f"{folder}/clip-scenes"
        for name, measure in (
            ("python -c pass", lambda: run([sys.executable, "-c", "pass"])),
            ("visir --help", lambda: run([VISIR, "--help"])),
            ("visir data formats", lambda: run([VISIR, "data", "formats"])),
            ("visir search (colours)", lambda: run([VISIR, "search", scenes, "a red circle"])),
            ("visir search (CLIP, kept text tower)", lambda: run([VISIR, "search", clip_scenes, "a red circle"])),
            ("visir search (CLIP, PyTorch)", lambda: run([VISIR, "search", clip_scenes, "a red circle"], empty)),
            ("serve until ready (CLIP, kept text tower)", lambda: serve(clip_scenes, os.environ, answer=False)),
            ("serve until an answer (CLIP, kept text tower)", lambda: serve(clip_scenes, os.environ, answer=True)),
            ("python -c 'import torch'", lambda: run([sys.executable, "-c", "import torch"])),
            ("visir.load (CLIP)", lambda: run([sys.executable, "-c", VISIR_LOADS, clip])),
            ("the same by transformers", lambda: run([sys.executable, "-c", TRANSFORMERS_LOADS, clip])),
            ("visir.load, a text and a picture", lambda: run([sys.executable, "-c", VISIR_ENCODES, clip])),
            ("the same by transformers", lambda: run([sys.executable, "-c", TRANSFORMERS_ENCODES, clip])),
        ):
            report(name, measure, arguments.runs)


def report(name: str, measure: Callable[[], Measured], runs: int) -> None:
    measured = [measure() for _ in range(runs + 1)][1:]
    seconds, processor, memory = zip(*measured, strict=True)
    print(
        f"{name:<52}{statistics.median(seconds):>10.3f}{min(seconds):>8.3f}{max(seconds):>8.3f}"
        f"{statistics.median(processor):>8.2f}{max(memory):>9.0f}",
        flush=True,
    )


def run(command: list[str], environment: dict[str, str] | None = None) -> Measured:
    """One process from its start to its end."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def serve(library: str, environment: dict[str, str], *, answer: bool) -> Measured:
    """A service from its start until it is ready, or until it has answered a text."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    at = f"http://127.0.0.1:{port}/v1"
    start = time.perf_counter()
    command = [VISIR, "library", "serve", library, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        while process.poll() is None:
            with suppress(OSError):
                urllib.request.urlopen(f"{at}/health", timeout=5).read()
                break
            time.sleep(0.01)
        if answer:
            body = json.dumps({"text": "a red circle"}).encode()
            url = f"{at}/libraries/{Path(library).name}/search"
            urllib.request.urlopen(urllib.request.Request(url, body, {"content-type": "application/json"})).read()
        seconds = time.perf_counter() - start
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
        processor = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        memory = Path(f"/proc/{process.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
        process.terminate()
    return seconds, processor, int(memory) / 1024


if __name__ == "__main__":
    main()
