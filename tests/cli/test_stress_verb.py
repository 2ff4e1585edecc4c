"""`visir stress` end to end: a small trained model, a command, and runs, on generated scenes."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from test_train import RECIPE

from verbs import say
from visir.cli.stress import _listed, stress
from visir.cli.train import train
from visir.files import read_json

SCENES = "scenes:60?size=64"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "small.toml").write_text(RECIPE)
    said = say(train, folder / "small.toml", "--out", folder / "small")
    assert said.status == 0, said.text
    return folder / "small"


def test_a_model_is_broken_and_the_gate_says_so(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--perturbations", "char_swap,distraction_true,shuffle_all_words", "--severity", 3)
    said = say(
        stress, SCENES, "-m", model, *options, "--corruptions", "gaussian_noise", "--fail-under", 99.5, "--out", out
    )
    assert said.status == 1, said.text
    for part in ("Character Swap", "Shuffle All Words", "pictures as they are", "Gaussian Noise", "fails: "):
        assert part in said.text, said.text
    found = read_json(out / "stress.json")
    effects = {one["name"]: one for one in found["effects"]}
    assert effects["shuffle_all_words"]["overall"]["points"] == 0  # a bag of words
    assert effects["gaussian_noise"]["task"] == "i2t" and effects["gaussian_noise"]["queries"] == 60
    assert effects["char_swap"]["said"] == "captions: char_swap, severity 3 (characters), seed 0, sound profile"
    for name, one in effects.items():
        assert (one["overall"]["kept_percent"] < 99.5) == (f"fails: {one['title']}" in said.text), name
    rows = list(csv.reader((out / "stress.csv").read_text().splitlines()))
    assert len(rows) == 1 + 2 + 4 and rows[0][0] == "perturbation"
    queries = pq.read_table(out / "per_query.parquet")
    assert queries.num_rows == 3 * 300 + 60
    page = (out / "stress.html").read_text("utf-8")
    assert "<mark>" in page and "data:image/jpeg;base64" in page and "<script" not in page and "Fails:" in page
    again = say(stress, SCENES, "-m", model, "--out", out)
    assert again.status == 2 and "holds a study already" in again.text


def test_what_a_perturbation_costs_by_language(tmp_path: Path) -> None:
    source = "scenes:12?size=64&language=en+de"
    options = ("-m", "colours", "--perturbations", "char_swap", "--by", "language")
    shown = say(stress, source, *options, "--out", tmp_path / "out")
    assert shown.status == 0, shown.text
    assert "by language" in shown.text and "de" in shown.text
    assert "By language" in (tmp_path / "out" / "stress.html").read_text("utf-8")
    (values,) = say(stress, source, *options, "--json", "--quiet").json["studies"]
    rows = values["by"]["language"]
    assert [(row["perturbation"], row["language"], row["queries"]) for row in rows] == [
        ("char_swap", "en", 60),
        ("char_swap", "de", 60),
    ]
    missing = say(stress, SCENES, "-m", "no-such-model", "--by", "language")
    assert missing.status == 2 and "no query has labels" in missing.text  # before the model is looked for


def test_the_gate_passes(model: Path) -> None:
    said = say(stress, SCENES, "-m", model, "--perturbations", "shuffle_all_words", "--fail-under", 100)
    assert said.status == 0 and "passes: at least 100 % of rsum is left" in said.text


def test_several_models_and_collections_make_the_papers_tables(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    said = say(train, model.parent / "small.toml", "--set", "seed=1", "--out", other)
    assert said.status == 0, said.text
    said = say(
        stress, SCENES, "scenes:30?size=64&seed=4", "-m", model, "-m", other,
        *("--perturbations", "missing_char,synonym_noun", "--out", tmp_path / "out"),
    )  # fmt: skip
    assert said.status == 0, said.text
    for part in ("Decrease of rsum", "Unperturbed", "R@1, collection beside collection", "over 8"):
        assert part in said.text, said.text
    assert len(list((tmp_path / "out").glob("*/stress.html"))) == 4
    assert "| Missing Character" in (tmp_path / "out" / "tables.md").read_text()


SEARCH = """
import sys
from pathlib import Path
queries, run = sys.argv[1:]
lines = [line.split("\\t") for line in Path(queries).read_text("utf-8").splitlines()]
ids = [f"scene-0-{at:06d}" for at in range(60)]
with open(run, "w") as out:
    for name, text in lines:
        own = name.partition("#")[0]
        ranked = [own] + [one for one in ids if one != own] if "true is true" not in text else ids[::-1]
        for rank, one in enumerate(ranked[:10], 1):
            out.write(f"{name} Q0 {one} {rank} {1 / rank} toy\\n")
"""


def test_a_command_and_then_its_runs(tmp_path: Path) -> None:
    script = tmp_path / "search.py"
    script.write_text(SEARCH)
    names = ("--perturbations", "char_swap,distraction_true")
    command = f"{sys.executable} {script} {{queries}} {{run}}"
    said = say(stress, SCENES, "--command", command, *names, "--out", tmp_path / "out", "--fail-under", 90)
    assert said.status == 1 and "fails: Distraction True is True" in said.text
    assert "fails: Character Swap" not in said.text
    # What it left behind is a folder of runs.
    told = say(stress, SCENES, "--runs", tmp_path / "out" / "command", *names, "--out", tmp_path / "again")
    assert told.status == 0, told.text
    first, second = (read_json(tmp_path / one / "stress.json")["effects"] for one in ("out", "again"))
    assert [one["overall"] for one in first] == [one["overall"] for one in second]


def test_faults(tmp_path: Path) -> None:
    said = say(stress, SCENES, "--command", "search {queries} {run}", "--model", "x", "--fail-under", 120)
    assert said.status == 2
    for part in ("3 faults", "exactly one kind of system", "--out, which is not named", "--fail-under 120"):
        assert part in said.text, said.text
    said = say(stress, SCENES, "--runs", tmp_path)
    assert said.status == 2 and "no run: none.trec" in said.text


def test_none_and_all_are_words_of_their_own() -> None:
    assert (_listed("none", None), _listed("all", []), _listed(None, [])) == ([], None, [])
    assert _listed(" typos, ,blur ", None) == ["typos", "blur"]
