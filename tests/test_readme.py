"""The README's Python runs as it stands, and its commands name verbs and options that exist."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import click
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from visir.cli.main import app

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_five_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a checkpoint where the demo leaves it, trained for one epoch on few scenes."""
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    monkeypatch.chdir(tmp_path)
    changes = ["--set", "data.collection=scenes:200", "--set", "optimiser.epochs=1"]
    trained = CliRunner().invoke(app, ["train", "scenes-heads", "--out", "demo/model", *changes])
    assert trained.exit_code == 0, trained.output
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace("scenes:2000", "scenes:200"), "README.md", "exec"), {})
    hit, _, card = printed.getvalue().partition(" ")
    assert 0 < float(hit) <= 1
    assert "'recall', 'hit'" in card


def test_every_command_names_verbs_and_options_that_exist() -> None:
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", README, re.S)).replace("\\\n", " ")
    commands = [shlex.split(line, comments=True) for line in blocks.splitlines() if line.startswith("visir ")]
    assert len(commands) >= 7
    for _, verb, *words in commands:
        command = get_command(app).commands[verb]  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            _, command, words = command.resolve_command(click.Context(command), words)
        known = {option for parameter in command.params for option in parameter.opts}
        used = {word for word in words if word.startswith("-")}
        assert used <= known, f"visir {verb}: {used - known}"


def test_it_is_short_and_its_links_work_on_pypi() -> None:
    assert len(README.splitlines()) <= 120
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert [link for link in links if not link.startswith("https://")] == []
    site, source = "https://visir-project.github.io/visir/", "https://github.com/visir-project/visir/blob/main/"
    raw = "https://raw.githubusercontent.com/visir-project/visir/main/"
    root = Path(__file__).parent.parent
    for link in links:
        if link.startswith(site):
            page = root / "docs" / link.removeprefix(site)
            assert page.with_suffix(".md").is_file() or (page / "index.md").is_file(), link
        else:
            assert (root / link.removeprefix(source).removeprefix(raw)).is_file(), link
