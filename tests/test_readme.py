"""The README's Python runs as it stands; commands of all documents name verbs and options that exist."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from visir.cli.main import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


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
    assert "'recall': 'hit'" in card


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_names_verbs_and_options_that_exist(page: Path) -> None:
    blocks = "\n".join(re.findall(r"^ *```bash\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.S | re.M))
    lines = [line.strip() for line in blocks.replace("\\\n", " ").splitlines()]
    faults = [fault for line in lines if line.startswith("visir ") if (fault := fault_of(line))]
    assert not faults
    if page.name == "README.md":
        assert sum(line.startswith("visir ") for line in lines) >= 7


def fault_of(line: str) -> str:
    """What is wrong with a command; "" if nothing is."""
    parts = shlex.split(line, comments=True)
    end = min((parts.index(mark) for mark in ("|", "<") if mark in parts), default=len(parts))
    _, verb, *words = parts[:end]
    verbs = get_command(app).commands  # type: ignore[attr-defined]
    if verb.startswith("-"):
        return ""
    if verb not in verbs:
        return f"no verb {verb}: {line}"
    command = verbs[verb]
    while hasattr(command, "commands"):
        if words[0] not in command.commands:
            return f"no verb {verb} {words[0]}: {line}"
        command, words = command.commands[words[0]], words[1:]
    known = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}
    unknown = {word.partition("=")[0] for word in words if word.startswith("-") and not word[1:2].isdigit()} - known
    return f"{sorted(unknown)}: {line}" if unknown else ""


def test_it_is_short_and_its_links_work_on_pypi() -> None:
    assert len(README.splitlines()) <= 120
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert [link for link in links if not link.startswith("https://")] == []
    site, source = "https://visir-project.github.io/visir/", "https://github.com/visir-project/visir/blob/main/"
    raw = "https://raw.githubusercontent.com/visir-project/visir/main/"
    root = Path(__file__).parent.parent
    for link in links:
        if link.startswith(site):
            address, _, heading = link.removeprefix(site).partition("#")
            page = root / "docs" / address
            titles = (
                re.findall(r"^#+ (.+)$", page.with_suffix(".md").read_text(encoding="utf-8"), re.M) if heading else ()
            )
            assert not heading or heading in [title.lower().replace(" ", "-") for title in titles], link
            assert page.with_suffix(".md").is_file() or (page / "index.md").is_file(), link
        else:
            assert (root / link.removeprefix(source).removeprefix(raw)).is_file(), link
