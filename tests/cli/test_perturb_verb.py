"""`visir perturb`: from a source on disk to collections on disk, what is printed on the way, what is refused."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from verbs import say
from visir.cli.stress import perturb
from visir.collections import open_collection
from visir.robustness.perturbations import PERTURBATIONS, names_in


@pytest.fixture
def source(tmp_path: Path) -> Path:
    captions = ["A large dog runs.", "A man [b]sleeps[/b].", "Red."]
    (tmp_path / "coco_test.json").write_bytes(
        orjson.dumps([{"image": f"{n}.png", "caption": [text]} for n, text in enumerate(captions)])
    )
    return tmp_path / "coco_test.json"


def test_one_collection_per_name(source: Path, tmp_path: Path) -> None:
    said = say(
        perturb,
        source,
        "synonym_adj",
        "distraction_true+shuffle_trigrams",
        "nearby_char:azerty",
        "--out",
        tmp_path / "out",
    )
    assert said.status == 0, said.text
    assert f"{tmp_path}/out/synonym_adj: 1 of 3 captions changed (33.3 %)\n" in said.text
    assert "  - A large dog runs.\n  + A big dog runs.\n" in said.text
    assert "  - A man [b]sleeps[/b].\n" in said.text  # as it is, not as markup
    made = open_collection(tmp_path / "out" / "synonym_adj")
    assert made.captions["text"].to_pylist() == ["A big dog runs.", "A man [b]sleeps[/b].", "Red."]
    assert made.captions["id"] == open_collection(source).captions["id"]
    assert made.caption_facts is not None
    assert made.caption_facts["text_changed"].to_pylist() == [True, False, False]
    assert (tmp_path / "out" / "nearby_char-azerty" / "collection.json").is_file()
    assert (tmp_path / "out" / "distraction_true+shuffle_trigrams" / "collection.json").is_file()


def test_all_of_them_and_a_split(tmp_path: Path) -> None:
    said = say(perturb, "scenes:20", "all", "-o", tmp_path, "--split", "test", "--profile", "paper", "--severity", 2)
    assert said.status == 0, said.text
    assert sorted(folder.name for folder in tmp_path.iterdir()) == sorted(names_in("paper"))
    made = open_collection(tmp_path / "distraction_true")
    assert made.splits == ("test",)
    assert made.captions["text"][0].as_py().endswith(" and true it true.")
    assert open_collection(tmp_path / "char_swap").name == "scenes, char_swap (severity 2, paper)"


def test_what_is_there_is_kept_unless_forced(source: Path, tmp_path: Path) -> None:
    arguments = (source, "char_swap", "--out", tmp_path / "out")
    assert say(perturb, *arguments).status == 0
    again = say(perturb, *arguments)
    assert again.status == 2
    assert "exists already" in again.text
    assert say(perturb, *arguments, "--replace", "--seed", 1).status == 0


def test_list() -> None:
    said = say(perturb, "--list")
    assert said.status == 0
    for name, one in PERTURBATIONS.items():
        assert f"{name} ({one.family}" in said.text
        assert one.about in said.text


def test_faults_are_told_before_anything_is_read(tmp_path: Path) -> None:
    unknown = say(perturb, "no-such-file", "shufle_trigrams", "--out", tmp_path)
    assert unknown.status == 2
    assert "unknown perturbation 'shufle_trigrams'" in unknown.text
    assert "did you mean 'shuffle_trigrams'?" in unknown.text
    assert "names: visir perturb --list" in say(perturb, "scenes:20").text
    assert "--out FOLDER" in say(perturb, "scenes:20", "char_swap").text
