"""visir-papers is a distribution of its own: what it registers is there, and visir without it says what to install."""

from __future__ import annotations

import importlib.metadata
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import visir_papers
from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.published import every_table, load
from visir.plugins import PUBLISHED, RECIPES, load_target, plugin_folders
from visir.training import find_recipe
from visir_papers.experiment import Experiment
from visir_papers.status import StudyEntry, StudyList
from visir_papers.study import DRAWINGS, EXPERIMENTS, TREND_CHECKS, Targets

PROJECT = tomllib.loads((Path(__file__).parents[2] / "papers" / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]


def points(*entries: tuple[str, str, str]) -> list[importlib.metadata.EntryPoint]:
    return [importlib.metadata.EntryPoint(*entry) for entry in entries]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """visir alone: no package adds anything."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    plugin_folders.cache_clear()
    yield
    plugin_folders.cache_clear()


def test_what_it_names_in_its_project_file_is_there() -> None:
    groups = PROJECT["entry-points"]
    assert load_target(groups["visir.plugins"]["papers"]).name == "papers"
    for group in (RECIPES, PUBLISHED):
        assert load_target(groups[group]["papers"]) in plugin_folders(group)


def test_what_a_study_can_name_is_there() -> None:
    assert all(issubclass(kind, Experiment) for kind in EXPERIMENTS.values())
    assert all(callable(check) for check in TREND_CHECKS.values())
    for draw in DRAWINGS.values():
        assert list(inspect.signature(draw).parameters) == ["means", "printed"]


def test_another_package_adds_a_kind_and_takes_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
        asked.append(group)
        return points(("mine", "string:digits", group), ("own", "string:hexdigits", group))

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    targets: Targets[str] = Targets("experiments", {"own": "string:octdigits"})
    assert dict(targets) == {"mine": "0123456789", "own": "01234567"} and asked == ["visir_papers.experiments"]


def test_no_module_hides_a_name_of_the_package() -> None:
    folder = Path(str(visir_papers.__file__)).parent
    assert {path.stem for path in folder.iterdir()} & set(visir_papers.__all__) == set()


def test_its_records_are_shown_by_its_views() -> None:
    listed = StudyList((StudyEntry("a-table", "Paper, Table 1", "A table", "It claims.", ("smoke",)),))
    assert "a-table" in listed.to_markdown() and "A table" in (listed._repr_html_() or "")


@pytest.mark.usefixtures("without")
def test_visir_alone_says_what_to_install() -> None:
    with pytest.raises(ConfigurationError) as recipe:
        find_recipe("vsepp-coco")
    with pytest.raises(VisirError) as table:
        load("thesis-table-2-1")
    for fault in (recipe.value, table.value):
        assert "pip install visir-papers" in fault.hint
    assert find_recipe("scenes-heads").is_file() and every_table() == ("brittleness-table-1",)


def test_the_verb_of_a_package_that_is_not_installed() -> None:
    import typer

    from visir.cli.verbs import FirstGroup

    app = typer.Typer(cls=FirstGroup)
    app.command("other")(lambda: None)
    app.command("another")(lambda: None)
    with refused(ConfigurationError, code="package-of-its-own"):
        CliRunner().invoke(app, ["papers", "list"], catch_exceptions=False)


def test_what_is_no_folder_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        importlib.metadata,
        "entry_points",
        lambda group: points(("wrong", "string:digits", group)),
    )
    plugin_folders.cache_clear()
    with pytest.warns(UserWarning, match="wrong of 'visir.recipes' is left out: it is no folder"):
        assert plugin_folders(RECIPES) == ()
    plugin_folders.cache_clear()
