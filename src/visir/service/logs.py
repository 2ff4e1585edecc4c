"""The log: one line of JSON for each request and each event, on standard error."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, BinaryIO

import orjson


class Log:
    """Writes one JSON object per line. Control characters in names and paths are escaped by JSON: no line is forged.

    What people look for is not written unless `queries`.
    """

    def __init__(self, stream: BinaryIO | None = None, *, queries: bool = False) -> None:
        self._stream = stream
        self.queries = queries

    def write(self, level: str, event: str, **facts: Any) -> None:
        """One line: time (UTC), level, event, and the facts."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = orjson.dumps(
            {"time": time, "level": level, "event": event, **facts}, default=str, option=orjson.OPT_APPEND_NEWLINE
        )
        stream = self._stream or sys.stderr.buffer
        stream.write(line)
        stream.flush()


class FromServer(logging.Handler):
    """Puts what the HTTP server itself has to say (warnings and errors) into the same log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._log.write(record.levelname.lower(), "server", message=record.getMessage())
