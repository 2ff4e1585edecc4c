"""The page with five tasks in four toolkits: its cells run, its table counts their lines, and the numbers agree."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from photo_toys import photos_and_clip

PAGE = (Path(__file__).parent.parent / "docs" / "background" / "five-tasks.md").read_text(encoding="utf-8")
TOOLS = ("visir", "sentence-transformers", "ranx", "PyTerrier")
TASKS = re.findall(r"^## \d\. (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M)
(START,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)


def cells(tool: str) -> dict[int, str]:
    """The cells of a tool by the number of their task."""
    found = {}
    for number, (_, text) in enumerate(TASKS, 1):
        match = re.search(rf'^=== "{tool}"\n\n    ```python\n(.*?)^    ```', text, re.S | re.M)
        if match:
            found[number] = textwrap.dedent(match[1])
    return found


def lines(code: str) -> int:
    return sum(bool(line.strip()) for line in code.splitlines())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return photos_and_clip(tmp_path_factory.mktemp("five"))


def run(cell: str) -> tuple[Any, dict[str, Any]]:
    """The value of the last line of a cell, after the start; and all names."""
    *body, last = cell.strip().splitlines()
    while last[0] in " )":  # a call over several lines
        last = f"{body.pop()}\n{last}"
    names: dict[str, Any] = {}
    exec("\n".join([START, *body, f"value = ({last})" if not re.match(r"\w+ = ", last) else last]), names)
    return names.get("value"), names


def hits(task: int, tool: str) -> list[float]:
    """R@1 and R@5 from text to image, as a tool's cell gives them."""
    value, _ = run(cells(tool)[task])
    if tool == "visir":
        return [value.mean("t2i", "hit@1"), value.mean("t2i", "hit@5")]
    if tool == "ranx":
        return [value["hit_rate@1"], value["hit_rate@5"]]
    if tool == "PyTerrier":
        return [value["Success@1"][0], value["Success@5"][0]]
    return [value["cosine"]["accuracy@k"][1], value["cosine"]["accuracy@k"][5]]


def package(tool: str) -> None:
    for name in {"sentence-transformers": ["sentence_transformers"], "PyTerrier": ["pyterrier", "pyterrier_dr"]}.get(
        tool, [tool]
    ):
        pytest.importorskip(name, reason=f"the cells of {tool} run where it is installed")


def test_the_table_counts_the_lines() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.partition("<!-- lines -->")[2].splitlines()[4:9]]
    written = {
        (n, tool): count for n, (_, *counts) in enumerate(rows, 1) for tool, count in zip(TOOLS, counts, strict=True)
    }
    counted = {
        (n, tool): str(lines(cells(tool)[n])) if n in cells(tool) else "–" for n in range(1, 6) for tool in TOOLS
    }
    assert written == counted


def test_no_line_is_longer_than_the_page_says() -> None:
    long = [line for tool in TOOLS for cell in cells(tool).values() for line in cell.splitlines() if len(line) > 100]
    assert long == []


@pytest.mark.parametrize("tool", ["sentence-transformers", "ranx", "PyTerrier"])
@pytest.mark.parametrize("task", [1, 5])
def test_all_toolkits_find_the_same_recall(tool: str, task: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tool)
    monkeypatch.chdir(folder)
    assert hits(task, tool) == pytest.approx(hits(task, "visir"))


@pytest.mark.parametrize("tool", ["visir", "ranx", "PyTerrier"])
def test_systems_are_compared(tool: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tool)
    monkeypatch.chdir(folder)
    value, _ = run(cells(tool)[2])
    if tool == "visir":
        assert "significantly better in 4 of 4" in repr(value)
    else:
        assert value is not None


def test_visir_tunes_and_searches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.warns(UserWarning, match="no split"):
        _, names = run(cells("visir")[3])
    assert len(names["tuned"].curve) == 1
    answers, _ = run(cells("visir")[4])
    assert len(answers.top("a red ball", 5)) == 5


def test_both_searches_answer_alike(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package("sentence-transformers")
    monkeypatch.chdir(folder)
    theirs, _ = run(cells("sentence-transformers")[4])
    ours, _ = run(cells("visir")[4])
    assert ours.top("a red ball", 5) == [path.name for path, _ in theirs]


@pytest.mark.nightly
def test_sentence_transformers_tunes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package("sentence-transformers")
    pytest.importorskip("accelerate")
    monkeypatch.chdir(folder)
    run(cells("sentence-transformers")[3])
    assert (folder / "st-tuned" / "final").is_dir()
