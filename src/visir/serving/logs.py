"""The log, on standard error: a line of JSON for each request and each event, or lines for a person at a terminal."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import traceback
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal
from urllib.parse import unquote

import orjson

from visir.errors import ConfigurationError
from visir.terminal import one_line, safe

LEVELS = ("info", "warning", "error", "critical")
QUEUE = 10_000
"""Lines that wait to be written, some 4 MB: a reader may stand still for as long as it takes to make them."""


class ServiceLog:
    """Writes one JSON object per line. JSON escapes control characters in names and paths: no line can be forged."""

    # For a person it writes short lines of text instead, and leaves out what makes up a page: thumbnails, its files.
    # Queries are not written unless `queries`.
    # A thread of its own writes, so that no request waits for the log: not for a full disk, and not for a blocked
    # reader. Lines that cannot be written are dropped and counted; the next line that can be written says how many
    # (`lost`).

    def __init__(
        self,
        stream: BinaryIO | None = None,
        *,
        queries: bool = False,
        form: Literal["auto", "json", "text"] = "json",
        least: Literal["info", "warning", "error"] = "info",
    ) -> None:
        self.queries = queries
        self.form = form if form != "auto" else "text" if stream is None and os.isatty(2) else "json"
        self._least = LEVELS.index(least)
        self.dropped = 0
        self._stream, self._fault = stream, ""
        self._lines: queue.Queue[bytes | None] = queue.Queue(QUEUE)
        self._counting = threading.Lock()
        self._unsaid = 0
        self._torn = False
        self._written = threading.Condition()
        self._taken = self._done = 0
        self._thread: threading.Thread | None = None

    @property
    def fault(self) -> str:
        """Why the last line could not be written; empty when it could."""
        return self._fault

    def write(self, level: str, event: str, **facts: Any) -> None:
        """One line: time (UTC), level, event, and the facts. Never waits, and never raises."""
        if level in LEVELS and LEVELS.index(level) < self._least:
            return
        line = self._line(level, event, facts)
        if not line:
            return
        with self._counting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="visir-log", daemon=True)
                self._thread.start()
        try:
            with self._counting:
                self._lines.put_nowait(line)
                self._taken += 1
        except queue.Full:
            self._drop(1, "its reader stands still")

    def flush(self, seconds: float = 2.0) -> bool:
        """Wait until everything so far is written or dropped; whether that was in time."""
        with self._counting:
            upto = self._taken
        with self._written:
            return self._written.wait_for(lambda: self._done >= upto, seconds)

    def close(self, seconds: float = 2.0) -> None:
        """Write what waits, for so many seconds at the most, and end the thread."""
        self.flush(seconds)
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            self._write(line)
            with self._written:
                self._done += 1
                self._written.notify_all()

    def _write(self, line: bytes) -> None:
        lost = self._unsaid
        if lost:
            line = self._line("warning", "log", {"lost": lost}) + line
        try:
            self._put(b"\n" + line if self._torn else line)
        except Exception as fault:  # whatever the stream does, the next line is tried again
            self._drop(1, str(getattr(fault, "strerror", None) or fault))
        else:
            self._torn, self._fault = False, ""
            with self._counting:
                self._unsaid -= lost

    def _line(self, level: str, event: str, facts: dict[str, Any]) -> bytes:
        if self.form == "text":
            return _text_line(level, event, facts)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return _line({"time": now, "level": level, "event": event, **facts})

    def _put(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.write(data)
            self._stream.flush()
            return
        # Past Python's own buffer of standard error: a thread that waits in it would keep the process from ending.
        left = memoryview(data)
        while left:
            left = left[os.write(2, left) :]
            self._torn = bool(left)

    def _drop(self, count: int, reason: str) -> None:
        with self._counting:
            self.dropped += count
            self._unsaid += count
            self._fault = reason


def _line(facts: dict[str, Any]) -> bytes:
    """As JSON, in which nothing commands a terminal; names that no UTF-8 can carry are shown escaped."""
    try:
        line = orjson.dumps(facts, default=str, option=orjson.OPT_APPEND_NEWLINE)
    except (TypeError, ValueError):
        escaped = {name: str(value).encode("utf-8", "backslashreplace").decode() for name, value in facts.items()}
        line = orjson.dumps(escaped, option=orjson.OPT_APPEND_NEWLINE)
    return safe(line.decode()).encode()


def log_of(form: str, *, queries: bool = False) -> ServiceLog:
    """The log of a service on standard error. Raises `ConfigurationError` unless the form is json, text or auto."""
    if form not in ("auto", "json", "text"):
        raise ConfigurationError(f"--log {form}: it can be json or text.", hint="--log json", code="json-text")
    return ServiceLog(queries=queries, form=form)  # type: ignore[arg-type]


class ServerLogHandler(logging.Handler):
    """Puts what the HTTP server itself has to say (warnings and errors) into the same log."""

    def __init__(self, log: ServiceLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._log.write(record.levelname.lower(), "server", message=record.getMessage())

    def of_thread(self, ended: threading.ExceptHookArgs) -> None:
        """Write the error that ended a thread; takes the place of `threading.excepthook`."""
        trace = traceback.format_exception(ended.exc_type, ended.exc_value, ended.exc_traceback)
        name = "" if ended.thread is None else ended.thread.name
        self._log.write("error", "fault", task=name, fault=repr(ended.exc_value), traceback=trace)


_PARTS_OF_A_PAGE = ("/thumbnail", "/image", "/similar", "/explain", "/categories")
_NOISE = {"/", "/favicon.ico", "/v1/health", "/v1/ready", "/metrics", "/v1/libraries"}


def _text_line(level: str, event: str, facts: dict[str, Any]) -> bytes:
    """A line with the local time; empty for what a person need not see."""
    text = _request(facts) if event == "request" else _event(event, facts)
    if not text:
        return b""
    mark = "" if level == "info" else f"{level}: "
    return f"{datetime.now():%H:%M:%S}  {mark}{one_line(text)}\n".encode("utf-8", "backslashreplace")


def _request(facts: dict[str, Any]) -> str:
    path, status = str(facts.get("path", "")), facts.get("status", 0)
    shown = path.startswith("/static/") or path in _NOISE or path.endswith(_PARTS_OF_A_PAGE)
    if status < 400 and (shown or (facts.get("method") == "GET" and "/items/" in path)):
        return ""
    parts = [str(facts.get("method", "")), unquote(path).removeprefix("/v1/libraries/"), str(status)]
    parts += [f"{facts.get('ms', 0):,.0f} ms"]
    parts += [f"by {facts['caller']}"] if facts.get("caller") else []
    parts += [repr(query) for query in facts.get("queries", ()) if query]
    return "  ".join(parts)


def _event(event: str, facts: dict[str, Any]) -> str:
    library = facts.get("library", "")
    if event == "start":
        return str(facts["message"])
    if event == "reload":
        return f"{library}: changed on disk; now {facts['items']:,} pictures (generation {facts['generation']})"
    if event == "update" and "fault" not in facts:
        names = ("added", "changed", "moved", "deleted")
        counts = [f"{facts[name]:,} {name}" for name in names if facts.get(name)]
        return f"{library}: updated: {', '.join(counts) or 'nothing new'} ({facts.get('seconds', 0):.1f} s)"
    if event == "log":
        return f"{facts.get('lost', 0):,} lines could not be written"
    trace = list(facts.get("traceback") or [])
    where = f" ({str(trace[-2]).strip().splitlines()[0].strip()})" if len(trace) > 1 else ""
    about = " ".join(str(facts[name]) for name in ("library", "task", "message", "fault") if facts.get(name))
    return f"{event}: {about}{where}"
