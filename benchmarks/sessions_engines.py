"""DuckDB and Spark find the sessions of one log: what that costs, and that the features are the same numbers.

    python benchmarks/sessions_engines.py 1e6 10e6 [--threads 2] [--driver-memory 4g] [--folder …]

The log is the generated one; Spark is `local[threads]`, started for each log, because that is what one pays. Each
engine is a process of its own; processor time is of it and what it started (Java, the workers' Python), memory what
one process held at most. Then the thesis's examples are drawn from both folders, and the features of all steps
compared, bit by bit. Needs Java and `pip install 'visir[spark]'`.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from sessions_scale import EVENTS_PER_SESSION, STAGES, run_stage
from visir.sessions.examples import Sample, Setting, draw
from visir.sessions.features import LearntFeatures, features_of

SAMPLES: tuple[tuple[Setting, int], ...] = (("anonymous", 22_982), ("identified", 6_319))
STAGES["spark"] = """
import subprocess
from pyspark.sql import SparkSession
from visir.sessions import load_mapping
from visir.sessions.spark import sessionise_spark
builder = SparkSession.builder.master(f"local[{options['threads']}]").config("spark.driver.memory", options["memory"])
builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
spark = builder.config("spark.sql.shuffle.partitions", 4 * options["threads"]).getOrCreate()
sessionise_spark(spark, folder / "log/events", load_mapping(folder / "log/mapping.toml"), folder / "spark")
workers = subprocess.run(["ps", "-eo", "cputimes=,args="], capture_output=True, text=True).stdout.splitlines()
seconds = sum(int(line.split()[0]) for line in workers if line.split()[2:4] == ["-m", "pyspark.daemon"])
(folder / "workers-seconds").write_text(str(seconds))
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()  # which ends it; what it took is known when it has ended
java.wait()
"""


def same_features(folder: Path, other: Path) -> str:
    """How many examples and numbers were compared, or where they differ first."""
    compared = sessions = 0
    for setting, n in SAMPLES:
        examples, other_examples = draw(folder, Sample(setting, n=n)), draw(other, Sample(setting, n=n))
        learnt, again = (LearntFeatures.of(features_of(setting), each) for each in (examples, other_examples))
        for step in range(11):
            matrix = learnt.matrix(examples, step)
            if matrix.tobytes() != again.matrix(other_examples, step).tobytes():
                return f"DIFFERENT: {setting}, step {step}"
            compared += matrix.size
        sessions += len(examples)
    return f"the same: {compared:,} numbers of {sessions:,} sessions"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", nargs="+", type=float, help="sizes in events, such as 1e6")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--driver-memory", default="4g", help="what Spark's process may hold")
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    arguments = parser.parse_args()
    print(f"{'events':>12}  {'engine':<9} {'processor s':>11} {'wall s':>8} {'peak MB':>8}")
    for events in sorted(arguments.events):
        sessions = round(events / EVENTS_PER_SESSION)
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            folder = Path(name)
            run_stage("generate", folder, sessions, {})
            for engine, stage in (("duckdb", "sessions"), ("spark", "spark")):
                options: dict[str, object] = {"threads": arguments.threads}
                options |= {"memory": arguments.driver_memory} if engine == "spark" else {}
                cost = run_stage(stage, folder, sessions, options)
                if engine == "spark":  # the workers' Python is ended by Java, which does not wait for it
                    workers = float((folder / "workers-seconds").read_text())
                    cost = replace(cost, processor=cost.processor + workers)
                print(
                    f"{events:12,.0f}  {engine:<9} {cost.processor:11.1f} {cost.wall:8.1f} {cost.memory / 1e6:8,.0f}",
                    flush=True,
                )
            print(f"{'':12}  features  {same_features(folder / 'sessions', folder / 'spark')}", flush=True)


if __name__ == "__main__":
    main()
