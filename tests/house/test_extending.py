"""The package of docs/how-to/extend-visir.md, installed into a folder of its own: all that it adds is used."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from refusals import refused
from visir.errors import VisirError
from visir.registry import Registry

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip put the example; from a copy, because building leaves files beside the source."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(ROOT / "examples" / "visir-example", folder / "source")
    target = folder / "installed"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
         "--target", target, folder / "source"],
        check=True, capture_output=True,
    )  # fmt: skip
    return target


def visir(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (SOURCE, installed)))
    return subprocess.run(
        [sys.executable, "-m", "visir", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Three pictures of one colour; red has two captions, of which one names no colour."""
    for colour in ("red", "green", "blue"):
        Image.new("RGB", (40, 40), colour).save(tmp_path / f"{colour}.png")
    captions = [("red", "a red square"), ("red", "quite warm"), ("green", "green all over"), ("blue", "the blue one")]
    (tmp_path / "few.pairs").write_text("".join(f"{colour}.png\t{text}\n" for colour, text in captions))
    return tmp_path


def test_everything_that_the_example_adds_is_used(installed: Path, pairs: Path) -> None:
    done = visir(installed, pairs, "evaluate", "few.pairs", "--model", "colour-words",
                 "--measure", "complete@1", "--measure", "complete@2", "--out", "result")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((pairs / "result" / "result.json").read_text())
    # The red picture has two captions, so one place is too few for it. "quite warm" is as near to every picture.
    assert found["aggregates"]["i2t"] == {"complete@1": pytest.approx(2 / 3), "complete@2": 1.0}
    assert found["aggregates"]["t2i"] == {"complete@1": 0.75, "complete@2": 0.75}


def test_the_perturbation_is_one_of_visirs(installed: Path, pairs: Path) -> None:
    done = visir(installed, pairs, "perturb", "few.pairs", "shout", "--out", "loud")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 captions changed" in done.stdout and "+ A RED SQUARE" in done.stdout
    assert "shout (typos)" in visir(installed, pairs, "perturb", "--list").stdout


def test_the_kind_of_index_is_built_searched_and_opened_again(installed: Path, pairs: Path) -> None:
    assert "signs" in visir(installed, pairs, "index", "kinds").stdout
    built = visir(installed, pairs, "index", "build", "few.pairs", "--model", "colour-words", "--kind", "signs",
                  "--set", "bits=64", "--out", "few.index")  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = visir(installed, pairs, "index", "search", "few.index", "red", "--json")
    assert done.returncode == 0 and '"red' in done.stdout, done.stderr
    without = visir(pairs, pairs, "index", "search", "few.index", "red")
    assert without.returncode == 2 and "an index of kind 'signs', which this visir does not know" in without.stderr


def test_the_verb_stands_where_it_asks_to(installed: Path, pairs: Path) -> None:
    done = visir(installed, pairs, "colours", "few.pairs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "red: 1 of 4", "green: 1 of 4", "blue: 1 of 4", "yellow: 0 of 4", "white: 0 of 4", "black: 0 of 4"
    ]  # fmt: skip
    listed = visir(installed, pairs, "--help").stdout
    assert listed.index("  evaluate ") < listed.index("  colours ") < listed.index("  compare ")


def test_a_function_that_returns_a_report_is_a_verb(installed: Path, pairs: Path) -> None:
    shown = visir(installed, pairs, "length", "--help").stdout
    assert "visir length SOURCE MODEL" in shown and "-k K" in shown and "among the first k" in shown
    assert all(option in shown for option in ("--out", "--replace", "--latex", "--json", "--quiet"))
    given = ("length", "few.pairs", "colour-words", "-k", "2", "--out", "made", "--latex", "made.tex")
    done = visir(installed, pairs, *given)
    assert done.returncode == 0 and "R@2" in done.stdout, done.stderr
    assert (
        r"\toprule" in (pairs / "made.tex").read_text() and "visir length" in (pairs / "made/report.html").read_text()
    )
    again = visir(installed, pairs, *given)
    assert again.returncode == 2 and "made.tex" in again.stderr
    assert visir(installed, pairs, *given, "--replace").returncode == 0
    read = json.loads(visir(installed, pairs, "report", "made", "--json").stdout)
    assert read["title"] == "colour-words by length" and read["tables"][0]["rows"][0].keys() >= {
        "words",
        "captions",
        "R@2",
    }
    once = json.loads(visir(installed, pairs, *given[:5], "--json").stdout)
    assert once == read
    listed = visir(installed, pairs, "research", "--help").stdout
    assert "length" in listed and "Say how well short and long captions find their picture." in listed


def test_the_page_on_studies_shows_the_study_that_is_tested() -> None:
    code = (ROOT / "examples/visir-example/src/visir_example/length.py").read_text("utf-8")
    assert code in (ROOT / "docs/how-to/add-a-study.md").read_text("utf-8")


def test_without_it_nothing_is_known_of_it(pairs: Path) -> None:
    assert "there is no command visir colours" in visir(pairs, pairs, "colours", "few.pairs").stderr
    assert (
        "unknown encoder 'colour-words'" in visir(pairs, pairs, "search", "scenes:3", "x", "-m", "colour-words").stderr
    )


def test_a_broken_package_takes_nothing_with_it(installed: Path, pairs: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(installed, broken)
    (broken / "visir_example" / "cli.py").write_text("import nothing_of_this_name\n")
    (broken / "visir_example" / "complete.py").write_text("1 / 0\n")
    done = visir(broken, pairs, "evaluate", "few.pairs", "--model", "colour-words", "--measure", "complete@1")
    assert done.returncode == 2 and "unknown measure 'complete@1'" in done.stderr
    assert (
        "complete = visir_example.complete:COMPLETE of 'visir.measures' is left out: ZeroDivisionError" in done.stderr
    )
    assert "colours, verb colours of 'visir.plugins' is left out: ModuleNotFoundError" in done.stderr
    assert "Traceback" not in done.stderr


def entry(name: str, value: str, group: str) -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint(name, value, group)


def test_a_registry_takes_what_is_of_its_kind_and_no_name_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        entry("own", "string:digits", "some.group"),  # the name is taken
        entry("path", "pathlib:Path", "some.group"),  # no text
        entry("more", "string:hexdigits", "some.group"),
        entry("visirs", "visir.nothing:here", "some.group"),  # visir's own are named in code
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    registry: Registry[str] = Registry("text", group="some.group", of=str)
    registry.add("own", "mine")
    assert registry.get("own") == "mine"  # known names cost no search
    with pytest.warns(UserWarning) as said:
        assert list(registry) == ["own", "more"]
    assert [str(one.message).partition(" is left out: ")[2] for one in said] == [
        "this name is taken by another text", "it is a type, not a str"
    ]  # fmt: skip
    assert registry.get("own") == "mine" and "path" not in registry
    with refused(VisirError, "text", "mor", code="unknown-name"):
        registry.get("mor")
