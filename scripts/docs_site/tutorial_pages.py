"""A tutorial that was run, as a page: Markdown for the code, HTML for what it gave."""

from __future__ import annotations

import base64
import html
import re
from typing import Any

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MARK = '<div class="tutorial-output" data-cell="{}"></div>'


def as_markdown(notebook: Any, name: str) -> tuple[str, dict[str, str]]:
    """The page's Markdown, and the HTML that takes the place of each mark once the Markdown is HTML.

    Args:
        notebook: A notebook, with outputs or without.
        name: The page's name, for the link to the notebook.
    """
    parts: list[str] = []
    outputs: dict[str, str] = {}
    for number, cell in enumerate(notebook.cells):
        if "hide" in cell.metadata.get("tags", []):
            continue
        if cell.cell_type != "code":
            parts.append(cell.source)
            continue
        parts.append(_source(cell.source))
        shown = "".join(map(_output, _joined(cell.outputs)))
        if shown:
            mark = MARK.format(number)
            parts.append(mark)
            outputs[mark] = f'<div class="tutorial-output">{shown}</div>'
    text = "\n\n".join(parts)
    download = f"[:material-download: Download as a notebook]({name}.ipynb){{ .notebook }}"
    title, newline, rest = text.partition("\n")
    return f"{title}\n\n{download}\n{newline}{rest}", outputs


def _source(source: str) -> str:
    language, text = ("bash", source.split("\n", 1)[1]) if source.startswith("%%bash") else ("python", source)
    if all(line.startswith("!") for line in text.splitlines()):
        language, text = "bash", "\n".join(line.removeprefix("!") for line in text.splitlines())
    return f"```{language}\n{text}\n```"


def _joined(outputs: list[Any]) -> list[Any]:
    """The outputs with neighbouring text of a stream as one; both streams are one text, as in a terminal."""
    joined: list[Any] = []
    for one in outputs:
        if one.output_type == "stream" and joined and joined[-1].output_type == "stream":
            joined[-1] = {**joined[-1], "text": joined[-1]["text"] + one["text"]}
            joined[-1] = type(one)(joined[-1])
        else:
            joined.append(one)
    return joined


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return _text(output["text"])
    if output.output_type == "error":
        return _text(f"{output['ename']}: {output['evalue']}", "error")
    data = output["data"]
    if "text/html" in data:
        return f'<div class="html">{data["text/html"]}</div>'
    if "image/svg+xml" in data:
        return f'<div class="html">{data["image/svg+xml"]}</div>'
    for kind in ("image/png", "image/jpeg", "image/webp"):
        if kind in data:
            return f'<img alt="output of the cell above" src="data:{kind};base64,{_base64(data[kind])}">'
    return _text(data.get("text/plain", ""))


def _base64(data: str | bytes) -> str:
    return base64.b64encode(data).decode() if isinstance(data, bytes) else "".join(data.split())


def _text(text: str, kind: str = "text") -> str:
    """Text of a terminal: without colours, of a line that was written over only what was left."""
    lines = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in ANSI.sub("", text).split("\n")]
    left = "\n".join(lines).strip("\n")
    return f'<pre class="{kind}">{html.escape(left)}</pre>' if left else ""
