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
sessionise(folder / "log/events", load_mapping(folder / "log/mapping.toml"), folder / "sessions", **options)
""",
    "describe": """
from visir.sessions.description import describe
describe(folder / "sessions", **options)
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


def run_stage(stage: str, folder: Path, sessions: int, options: dict[str, object]) -> Cost:
    """Run a stage in a process of its own; a stage that fails ends everything."""
    code = f"from pathlib import Path\nfolder, sessions, options = Path({str(folder)!r}), {sessions}, {options!r}\n"
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
    arguments = parser.parse_args()
    options: dict[str, object] = {"threads": arguments.threads} | (
        {"memory": arguments.memory} if arguments.memory else {}
    )
    costs: dict[str, list[tuple[int, Cost]]] = {stage: [] for stage in arguments.stages}
    heads = ("processor s", "wall s", "peak MB", "µs/event")
    print(f"{'events':>12} {'sessions':>11}  {'stage':<9} {heads[0]:>11} {heads[1]:>8} {heads[2]:>8} {heads[3]:>8}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        run_stage("generate", Path(name), 10, options)  # compiles the simulation, where nobody has yet
    for events in sorted(arguments.events):
        sessions = round(events / EVENTS_PER_SESSION)
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            for stage in arguments.stages:
                cost = run_stage(stage, Path(name), sessions, options)
                costs[stage].append((sessions, cost))
                print(
                    f"{events:12,.0f} {sessions:11,}  {stage:<9} {cost.processor:11.1f} {cost.wall:8.1f} "
                    f"{cost.memory / 1e6:8,.0f} {1e6 * cost.processor / events:8.2f}",
                    flush=True,
                )
    if len(arguments.events) > 1:
        print(f"\n{PAPER:,} sessions ({PAPER * EVENTS_PER_SESSION:,.0f} events), linear beyond the two largest:")
        for stage, of_sizes in costs.items():
            (n, small), (m, large) = of_sizes[-2:]
            slope = (large.processor - small.processor) / (m - n)
            print(f"  {stage:<9} {large.processor + slope * (PAPER - m):11,.0f} s processor")


if __name__ == "__main__":
    main()
