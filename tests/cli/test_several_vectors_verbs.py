"""The verbs with a model of late interaction: encode, search, evaluate, stress, compare, index, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import visir
from patch_toys import Patches, patches  # noqa: F401  (a fixture)
from verbs import Said, say
from visir.cli.compare import compare
from visir.cli.encode import encode
from visir.cli.evaluate import evaluate
from visir.cli.index import app
from visir.cli.stress import stress
from visir.errors import VisirError
from visir.library.cli.search import search
from visir.records import MultiVectorEmbeddings

SCENES = "scenes:12?size=64"
pytestmark = pytest.mark.usefixtures("patches")


def index(*arguments: object) -> Said:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if isinstance(result.exception, VisirError):
        return Said(2, result.output + str(result.exception))
    return Said(result.exit_code, result.output)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name, colour in (("red", "red"), ("green", "lime"), ("blue", "blue")):
        Image.new("RGB", (16, 12), colour).save(tmp_path / f"{name}.png")
    return tmp_path


def test_encode_says_how_many_vectors_there_are_and_writes_them(tmp_path: Path) -> None:
    said = say(encode, SCENES, "--model", "patches", "--out", tmp_path / "out")
    assert said.status == 0 and "images: 12 × 4 × 3 float16, 12 encoded" in said.text and "texts: 60 × " in said.text
    again = say(encode, SCENES, "--model", "patches")
    assert "images: 12 × 4 × 3 float16, found in the store" in again.text
    folder = visir.load(tmp_path / "out")
    assert folder.form == "multi-vector"
    assert say(evaluate, SCENES, "--model", tmp_path / "out").status == 0


def test_encode_in_parts(tmp_path: Path) -> None:
    for part in ("1/2", "2/2"):
        assert say(encode, SCENES, "--model", "patches", "--modality", "text", "--shard", part).status == 0
    said = say(encode, SCENES, "--model", "patches", "--modality", "text", "--merge")
    assert "texts: 60 × " in said.text and "found in the store" in said.text


def test_search_with_words_and_with_a_picture(photos: Path, tmp_path: Path) -> None:
    said = say(search, photos, "a red boat", "--model", "patches", "-k", "2")
    assert said.status == 0 and said.text.index("red.png") < said.text.index("score", 1) + 10_000
    assert "score" in said.text and "cosine" not in said.text
    picture = say(search, photos, "--model", "patches", "--image", photos / "blue.png", "-k", "1")
    assert picture.status == 0 and "blue.png" in picture.text


def test_evaluate_compare_and_stress(tmp_path: Path) -> None:
    said = say(evaluate, SCENES, "--model", "patches", "--out", tmp_path / "a")
    assert said.status == 0 and "maxsim" in said.text and "4 · " not in said.text.split("\n")[0]
    assert say(evaluate, SCENES, "--model", "patches", "--out", tmp_path / "b").status == 0
    assert say(compare, tmp_path / "a", tmp_path / "b").status == 0
    assert say(stress, SCENES, "--model", "patches", "--perturbations", "char_swap").status == 0
    refused = say(evaluate, SCENES, "--model", "patches", "--similarity", "cosine")
    assert refused.status == 2 and "scored by maxsim; 'cosine' was asked for" in refused.text


def test_index_is_built_of_the_right_kind_changed_and_searched(photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    said = index("build", photos, "--model", "patches", "--out", folder)
    assert said.status == 0 and "kind maxsim" in said.text
    assert "red.png" in index("search", folder, "red red").text.split("2 ")[0]
    Image.new("RGB", (16, 12), (90, 90, 90)).save(photos / "grey.png")
    assert "1 added" in index("add", folder, photos).text
    assert "1 deleted" in index("delete", folder, "grey.png").text
    held = visir.open(folder).documents()
    assert isinstance(held, MultiVectorEmbeddings)
    assert np.array_equal(held["red.png"], visir.encode(Patches(), photos)["red.png"])  # type: ignore[index]
    run = index("search", folder, "--queries", _queries(tmp_path), "--out", tmp_path / "run.trec")
    assert run.status == 0 and (tmp_path / "run.trec").read_text().startswith("q1 Q0 red.png 1 ")
    through = say(search, photos, "blue", "--index", folder, "-k", "1")
    assert "blue.png" in through.text


def _queries(folder: Path) -> Path:
    (folder / "queries.tsv").write_text("q1\tred\nq2\tblue sky\n")
    return folder / "queries.tsv"


def test_kinds_and_forms_that_do_not_fit_name_the_way_on(photos: Path, tmp_path: Path) -> None:
    said = index("build", photos, "--model", "patches", "--kind", "hnsw", "--out", tmp_path / "index")
    assert said.status == 2 and "holds dense vectors; those by patches are multi-vector" in said.text
    assert "kinds for multi-vector vectors: maxsim" in said.text
    said = index("build", photos, "--model", "pixels", "--kind", "maxsim", "--out", tmp_path / "index")
    assert said.status == 2 and "kinds for dense vectors: exact" in said.text
    assert index("build", photos, "--model", "patches", "--out", tmp_path / "index").status == 0
    said = index("export", tmp_path / "index", "--layout", "ciff", "--out", tmp_path / "ciff")
    assert said.status == 2 and "holds no weighted words, which these forms are of" in said.text
    assert "visir encode" in said.text
    said = index("search", tmp_path / "index", "red", "--model", "bow:3")
    assert said.status == 2 and "the index, by patches, holds several vectors for each item" in said.text
