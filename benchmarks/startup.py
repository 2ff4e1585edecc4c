"""How long `visir --help` takes: the whole process, median of 20 after one warm-up, beside an empty interpreter.

Run: python benchmarks/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 20


def main() -> None:
    visir = str(Path(sys.executable).with_name("visir"))
    print(f"{'command':<24}{'median s':>10}{'min s':>10}{'max s':>10}")
    for name, command in (
        ("visir --help", [visir, "--help"]),
        ("visir data formats", [visir, "data", "formats"]),
        ("python -c pass", [sys.executable, "-c", "pass"]),
    ):
        times = []
        for run in range(RUNS + 1):
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if run:
                times.append(time.perf_counter() - start)
        print(f"{name:<24}{statistics.median(times):>10.3f}{min(times):>10.3f}{max(times):>10.3f}")


if __name__ == "__main__":
    main()
