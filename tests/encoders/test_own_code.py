"""Code that comes with a model runs when the user names the model, and not when a file from elsewhere names it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_transformers as tiny
from PIL import Image

import visir
from manifests import content_of, rewrite
from refusals import refused
from verbs import say
from visir.cli.index import search_command as search_index
from visir.encoders import devices
from visir.encoders.checkpoints import write_description
from visir.encoders.devices import NAMES, CodeNotTrustedError, check_code, name_model
from visir.encoders.loading import load, load_recorded
from visir.errors import EncoderError
from visir.library.cli.search import search as search_photos
from visir.library.models import LibraryModels
from visir.library.searcher import Searcher
from visir.library.updating import update
from visir.records import Embeddings
from visir.retrieval.kinds import build_index

CODE = """
from pathlib import Path

from transformers import CLIPConfig, CLIPModel

Path("{marker}").touch()


class X7Config(CLIPConfig):
    model_type = "x7"


class X7(CLIPModel):
    config_class = X7Config
"""


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    tiny.save("clip", folder)
    return folder


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """The file that the code of the model makes."""
    return tmp_path / "ran"


@pytest.fixture
def name(clip: Path, tmp_path: Path, marker: Path) -> str:
    """A model with code of its own, under the name that lets it run."""
    folder = tmp_path / f"own_{abs(hash(tmp_path))}"  # transformers remembers code by the name of its folder
    shutil.copytree(clip, folder)
    values = {"model_type": "x7", "auto_map": {"AutoModel": "modeling_own.X7", "AutoConfig": "modeling_own.X7Config"}}
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | values))
    (folder / "modeling_own.py").write_text(CODE.replace("{marker}", str(marker)))
    return f"{folder}?code=trusted"


@pytest.fixture
def index(name: str, tmp_path: Path) -> Path:
    """An index as anybody may write it: it says that its model is `name`."""
    vectors = Embeddings.of(["a", "b"], np.eye(2, 16, dtype=np.float32), modality="image", name=name)
    build_index(vectors, out=tmp_path / "photos.index")
    return tmp_path / "photos.index"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for colour in ("red", "blue"):
        Image.new("RGB", (64, 48), colour).save(tmp_path / "photos" / f"{colour}.png")
    return tmp_path / "photos"


@pytest.fixture
def library(name: str, photos: Path, tmp_path: Path) -> Path:
    """A library of which somebody wrote into `visir.json` that its model is `name`."""
    folder = tmp_path / "photos.visir"
    update(photos, folder, model="pixels")
    rewrite(folder, content_of(folder) | {"model": name})
    return folder


def checkpoint(folder: Path, part: dict[str, object]) -> Path:
    """A checkpoint whose part is the model that `part` names."""
    folder.mkdir()
    write_description(folder, "joined", {"parts": [part]})
    return folder


OPENINGS: dict[str, Callable[[Path, Path, str], object]] = {
    "search of an index": lambda index, library, name: visir.search(index, None, "a dog"),
    "search beside an index": lambda index, library, name: visir.search(["x"], None, "a dog", index=index),
    "models of a library": lambda index, library, name: LibraryModels(name, None).encoder,
    "search of a library": lambda index, library, name: Searcher.open(library).find(text="a dog"),
    "library in Python": lambda index, library, name: visir.Library.open(library).search("a dog"),
    "part of a checkpoint": lambda index, library, name: load(
        checkpoint(index.parent / "joined", {"name": name, "revision": None})
    ),
    "folder of a checkpoint": lambda index, library, name: load(
        checkpoint(index.parent / "joined", {"folder": Path(name).name})
    ),
}


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_file_from_elsewhere_lets_no_code_run(
    opening: str, index: Path, library: Path, name: str, marker: Path
) -> None:
    with refused(CodeNotTrustedError, code="names-model-runs-code") as caught:
        OPENINGS[opening](index, library, name)
    assert not marker.exists() and f"export {NAMES}=" in caught.value.hint


def test_an_index_lets_no_code_run_on_the_command_line(index: Path, name: str, marker: Path) -> None:
    said = say(search_index, index, "a dog", "--device", "cpu")
    assert said.status == 2 and not marker.exists()
    assert f"{index}: it names the model {name}" in said.text and f"--model '{name}'" in said.text
    say(search_index, index, "a dog", "--device", "cpu", "--model", name)
    assert marker.exists()  # the user named it


def test_a_search_beside_an_index_lets_no_code_run(index: Path, photos: Path, name: str, marker: Path) -> None:
    said = say(search_photos, photos, "a dog", "--index", index, "--device", "cpu")
    assert said.status == 2 and not marker.exists() and f"{index}: it names the model {name}" in said.text


def test_an_updated_library_lets_no_code_run(library: Path, photos: Path, marker: Path) -> None:
    Image.new("RGB", (64, 48), "green").save(photos / "green.png")
    with refused(CodeNotTrustedError, library, code="names-model-runs-code"):
        update(None, library)
    assert not marker.exists()


def test_an_adapter_within_a_name_does_not_hide_the_word(name: str) -> None:
    with pytest.raises(CodeNotTrustedError):
        check_code(f"adapter?base={name}", "photos.index")


def test_the_owner_of_a_library_names_its_model(
    name: str, photos: Path, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visir.index(photos, name, out=tmp_path / "own.visir", device="cpu").close()
    with visir.Library.open(tmp_path / "own.visir", device="cpu") as library:  # named in this process
        assert len(library.search("a dog")) == 2
        assert library.model == name

    def another_process() -> None:
        monkeypatch.setattr(devices, "_named", set())

    def search() -> int:
        with visir.Library.open(tmp_path / "own.visir", device="cpu") as library:
            return len(library.search("a dog"))

    another_process()
    with refused(CodeNotTrustedError, code="names-model-runs-code"):
        search()
    Image.new("RGB", (64, 48), "green").save(photos / "green.png")
    with refused(CodeNotTrustedError, code="names-model-runs-code"):
        update(None, tmp_path / "own.visir", device="cpu")
    assert update(None, tmp_path / "own.visir", model=name, device="cpu").encoded == 1
    another_process()
    model = load(name, device="cpu")
    another_process()
    with visir.Library.open(tmp_path / "own.visir", model=model) as library:
        assert len(library.search("a dog")) == 3
    with monkeypatch.context() as environment:
        environment.setenv(NAMES, f"another?code=trusted\n{name}\n")
        assert search() == 3
    with refused(EncoderError, code="names-model-runs-code"):
        search()


def test_a_model_that_the_user_named_is_no_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMES, name)
    check_code(name, "photos.index")
    for other in (f"st:{name}", f"{name}&code_revision=1", name.replace("own_", "other_")):
        with pytest.raises(CodeNotTrustedError):
            check_code(other, "photos.index")


@pytest.mark.parametrize("name", ["memory://models/evil", "http://127.0.0.1:9/evil", "ADAPTER?base=memory://evil"])
def test_a_name_in_a_file_asks_no_address(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.encoders.devices._named", set())
    monkeypatch.setattr("visir.encoders.loading._load", lambda *_: pytest.fail("it was asked for"))
    with refused(CodeNotTrustedError, code="names-model-address-nobody"):
        load_recorded(name, "photos.index")
    name_model(name)
    check_code(name, "photos.index")
