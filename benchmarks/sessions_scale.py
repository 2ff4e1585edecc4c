"""What sessions cost against the size of the log: generate → sessions → describe → examples and features.

    python benchmarks/sessions_scale.py 1e6 3e6 10e6 [--threads 2] [--memory 2GB] [--stages generate sessions …]

Each stage is a process of its own, so that its processor time and peak memory are its own; memory is what the process
held at most, mapped files included. The log is the generated one. Examples are as many as the thesis drew (22,982
anonymous and 6,319 identified sessions, or all there are), and their features are those of all eleven
steps (that stage draws the examples again). Prints a
table, and what the paper's 95.7 million sessions would cost if cost went on growing as between the two largest sizes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PAPER = 95_757_177
EVENTS_PER_SESSION = 8.18
"""Of the generated log."""
STAGES = {
    "generate": """
from visir.sessions.simulator import generate
print(generate(folder / "log", sessions).rows)
""",
    "sessions": """
from visir.sessions import load_mapping, sessionise
sessionise(folder / "log/events", load_mapping(folder / "log/mapping.toml"), folder / "sessions", **how)
""",
    "describe": """
from visir.sessions.describe import describe
describe(folder / "sessions", **how)
""",
    "examples": """
from visir.sessions.examples import Sample, draw
for setting, n in (("anonymous", 22_982), ("identified", 6_319)):
    print(len(draw(folder / "sessions", Sample(setting, n=n))))
""",
    "features": """
from visir.sessions.examples import Sample, draw
from visir.sessions.features import LearntFeatures, features_of
for setting, n in (("anonymous", 22_982), ("identified", 6_319)):
    examples = draw(folder / "sessions", Sample(setting, n=n))
    learnt = LearntFeatures.of(features_of(setting, "extended"), examples)
    for step in range(11):
        learnt.matrix(examples, step)
""",
}


@dataclass(frozen=True)
class Cost:
    """Of one stage: seconds of the processor and of the clock, and bytes of memory."""

    processor: float
    wall: float
    memory: int


def measured(stage: str, folder: Path, sessions: int, how: dict[str, object]) -> Cost:
    """Run a stage in a process of its own; a stage that fails ends everything."""
    code = f"from pathlib import Path\nfolder, sessions, how = Path({str(folder)!r}), {sessions}, {how!r}\n"
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", code + STAGES[stage]], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{stage}: exit status {os.waitstatus_to_exitcode(status)}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss * unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", nargs="+", type=float, help="sizes in events, such as 1e6")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", help="what the engine may hold")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    asked = parser.parse_args()
    how: dict[str, object] = {"threads": asked.threads} | ({"memory": asked.memory} if asked.memory else {})
    costs: dict[str, list[tuple[int, Cost]]] = {stage: [] for stage in asked.stages}
    heads = ("processor s", "wall s", "peak MB", "µs/event")
    print(f"{'events':>12} {'sessions':>11}  {'stage':<9} {heads[0]:>11} {heads[1]:>8} {heads[2]:>8} {heads[3]:>8}")
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        measured("generate", Path(name), 10, how)  # compiles the simulation, where nobody has yet
    for events in sorted(asked.events):
        sessions = round(events / EVENTS_PER_SESSION)
        with tempfile.TemporaryDirectory(dir=asked.folder) as name:
            for stage in asked.stages:
                cost = measured(stage, Path(name), sessions, how)
                costs[stage].append((sessions, cost))
                print(
                    f"{events:12,.0f} {sessions:11,}  {stage:<9} {cost.processor:11.1f} {cost.wall:8.1f} "
                    f"{cost.memory / 1e6:8,.0f} {1e6 * cost.processor / events:8.2f}",
                    flush=True,
                )
    if len(asked.events) > 1:
        print(f"\n{PAPER:,} sessions ({PAPER * EVENTS_PER_SESSION:,.0f} events), linear beyond the two largest:")
        for stage, of_sizes in costs.items():
            (n, small), (m, large) = of_sizes[-2:]
            slope = (large.processor - small.processor) / (m - n)
            print(f"  {stage:<9} {large.processor + slope * (PAPER - m):11,.0f} s processor")


if __name__ == "__main__":
    main()
