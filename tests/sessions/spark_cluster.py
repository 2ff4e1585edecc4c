"""A standalone Spark cluster on this machine: a master and workers, each a process of its own, ended when done."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
PATIENCE = 120.0


@contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[str]:
    """The address of the master, while the context lasts; logs and the workers' files lie in `folder`."""
    with ExitStack() as processes:

        def start(name: str, *arguments: str) -> Path:
            log = folder / f"{name}.log"
            place = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder / "local")}
            with log.open("wb") as stream:
                process = subprocess.Popen(
                    [str(CLASS), *arguments],
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env=place,
                    preexec_fn=_end_with_parent,
                )
            processes.callback(_end, process)
            return log

        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = start("master", "org.apache.spark.deploy.master.Master", *ports)
        address = _said(master, r"Starting Spark master at (spark://\S+)")
        own = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
        logs = [
            start(f"worker-{k}", "org.apache.spark.deploy.worker.Worker", *ports, *own, address) for k in range(workers)
        ]
        for log in logs:
            _said(log, r"(Successfully registered with master)")
        yield address


def _end_with_parent() -> None:
    """Linux ends the process when this one is killed, which no `finally` would see."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _said(log: Path, pattern: str) -> str:
    """What a process wrote into its log, waited for."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text("utf-8", "replace"))
        if found:
            return found[1]
        time.sleep(0.2)
    raise TimeoutError(f"{log.name} does not say {pattern!r}:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
