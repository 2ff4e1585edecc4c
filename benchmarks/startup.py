"""What a person waits for in a terminal: whole new processes, median of 10 after one warm-up, and their memory.

`visir --help` stands beside an empty interpreter; a first search in a library (2,000 generated scenes) beside the
import of PyTorch alone, which models with a PyTorch tower need.

Run: python benchmarks/startup.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 10


def main() -> None:
    visir = str(Path(sys.executable).with_name("visir"))
    print(f"{'command':<44}{'median s':>10}{'min s':>10}{'max s':>10}{'peak MB':>10}")
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/scenes"
        made = [visir, "library", "make", "scenes:2000?size=64", "--model", "colours", "--out", library, "-q"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        for name, command in (
            ("python -c pass", [sys.executable, "-c", "pass"]),
            ("visir --help", [visir, "--help"]),
            ("visir data formats", [visir, "data", "formats"]),
            ("visir search LIBRARY 'a red circle' (colours)", [visir, "search", library, "a red circle"]),
            ("python -c 'import torch'", [sys.executable, "-c", "import torch"]),
        ):
            measured = [run(command) for _ in range(RUNS + 1)][1:]
            times = [seconds for seconds, _ in measured]
            print(
                f"{name:<44}{statistics.median(times):>10.3f}{min(times):>10.3f}{max(times):>10.3f}"
                f"{max(memory for _, memory in measured):>10.0f}"
            )


def run(command: list[str]) -> tuple[float, float]:
    """The seconds and the peak memory in MB of one process."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
