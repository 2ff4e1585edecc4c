"""The log for a person at a terminal: one short line for what happens, nothing for what only makes up the page."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import unquote

from visir.terminal import one_line

_PARTS_OF_A_PAGE = ("/thumbnail", "/image", "/similar", "/explain", "/categories")
_NOISE = {"/", "/favicon.ico", "/v1/health", "/v1/ready", "/metrics", "/v1/libraries"}


def text_line(level: str, event: str, facts: dict[str, Any]) -> bytes:
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
