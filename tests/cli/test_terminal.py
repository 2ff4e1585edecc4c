"""No text of others commands the terminal: whatever prints it, on a real one."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.console import Console
from visir.serving.logs import ServiceLog
from visir.terminal import SafeStream, one_line, safe, trusted

EVIL = "\x1b]0;gone\x07\x1b[2J\x9b31m\u202egpj\r\x7f\x08"
OWN = re.compile(r"\x1b\]8;id=\d+;[!-~]*?\x1b\\|\x1b\]8;;\x1b\\|\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[12]?[AK]|\r")
"""What Rich writes for links, colours and bars."""
BIDI = ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")


@given(st.text(st.characters()))
def test_nothing_unsafe_is_left_and_nothing_else_changes(text: str) -> None:
    shown = safe(text)
    assert not [one for one in shown if unicodedata.category(one) in ("Cc", "Cs") and one not in "\t\n"]
    assert not [one for one in shown if unicodedata.bidirectional(one) in BIDI]
    assert safe(shown) == shown and (shown == text or "\\u" in shown)
    assert one_line(text).replace("\\u000a", "\n").replace("\\u0009", "\t") == shown or "\\u00" in text
    assert "\n" not in one_line(text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_that_is_printed_stays_the_same_value(text: str) -> None:
    stream = io.StringIO()
    SafeStream(stream).write(json.dumps({"name": text}, ensure_ascii=False))
    assert json.loads(stream.getvalue()) == {"name": text}


def test_by_hand() -> None:
    assert safe("caf\udce9 \x1b[31mred\x1b[0m") == "caf\\udce9 \\u001b[31mred\\u001b[0m"
    joined = "two\nlines\tمی\u200cخواهم \U0001f469\u200d\U0001f467"  # joiners belong to scripts and emoji
    assert safe(joined) == joined and one_line("two\nlines") == "two\\u000alines"
    stream = io.StringIO()
    wrapped = SafeStream(stream)
    wrapped.write("\r50 %")  # a bar goes over its own line
    wrapped.write("a\rb")
    assert stream.getvalue() == "\r50 %a\\u000db" and trusted(wrapped) is stream  # type: ignore[arg-type]


def test_tables_and_colours() -> None:
    from rich.table import Table

    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="standard", width=200)
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    console.print(table, markup=False)
    console.print(EVIL, style="bold", markup=False)
    assert "\\u001b]0;gone" in stream.getvalue() and "\x1b[1m" in stream.getvalue()
    assert not unsafe(stream.getvalue())


def test_the_log_of_the_service() -> None:
    stream = io.BytesIO()
    log = ServiceLog(stream)
    log.write("error", "fault", fault=EVIL)
    assert log.flush()
    assert json.loads(stream.getvalue())["fault"] == EVIL and not unsafe(stream.getvalue().decode())
    log.close()


def test_every_console_is_the_safe_one() -> None:
    """Rich's own console is named in one file."""
    source = Path(__file__).parents[2] / "src" / "visir"
    named = [path.name for path in source.rglob("*.py") if "rich.console import Console" in path.read_text()]
    assert named == ["console.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_verbs_on_a_real_terminal(tmp_path: Path) -> None:
    """Photos, folders and a broken file with evil names, through several verbs and errors."""
    name = EVIL + ".png"
    photos = tmp_path / "photos"
    (photos / f"folder {EVIL}").mkdir(parents=True)
    reader = ImageReader(open_collection("scenes:5?size=64"))
    reader.open(0).save(photos / name)
    reader.open(0).save(photos / f"folder {EVIL}" / name)
    (photos / f"broken {name}").write_bytes(b"no picture")
    library = str(tmp_path / f"place {EVIL}" / "library")
    for arguments in (
        ["library", "make", str(photos), "--model", "pixels", "--out", library],
        ["library", "duplicates", library],
        ["library", "search", library, "--like", f"broken {name}"],
        ["library", "search", library, "--image", str(photos / name), "--no-thumbnails"],
        ["data", "check", str(photos)],
        ["library", "search", library, "--category", EVIL, "--like", EVIL],
    ):
        shown = on_a_terminal([sys.executable, "-m", "visir", *arguments])
        assert "Traceback" not in shown and ("\\u001b" in shown or "\\x1b" in shown), shown
        assert not unsafe(shown), (arguments[:2], unsafe(shown), shown)


def unsafe(shown: str) -> list[str]:
    """Control characters that are not of Rich's own sequences."""
    left = OWN.sub("", shown)
    return [one for one in left if (unicodedata.category(one) == "Cc" and one not in "\t\n") or one == "\u202e"]


def on_a_terminal(command: list[str]) -> str:
    """What a command writes on a terminal of its own."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"}
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # so Linux says that nobody writes any more
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    running.wait()
    return b"".join(parts).decode()
