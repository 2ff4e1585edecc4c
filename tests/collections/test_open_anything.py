"""`visir.open`: whatever holds images and captions, in memory or on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from toys import jpeg

import visir
from refusals import refused
from visir.collections.images import ImageReader
from visir.errors import CollectionError
from visir.evaluation.results import save
from visir.evaluation.scoring import score
from visir.library import update
from visir.records import Collection, Embeddings, EncoderCard, Protocol, Ranks
from visir.retrieval.kinds import build_index

RED, BLUE = jpeg("red", form="PNG"), jpeg("blue", form="PNG")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics/a.png").write_bytes(RED)
    (tmp_path / "pics/b.png").write_bytes(BLUE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def captions_of(collection: Collection) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {image: [] for image in collection.images["id"].to_pylist()}
    for row in collection.captions.to_pylist():
        texts[row["image_id"]].append(row["text"])
    return texts


def colours_of(collection: Collection) -> list[tuple[int, ...]]:
    reader = ImageReader(collection)
    return [reader.open(row).getpixel((0, 0)) for row in range(len(reader))]  # type: ignore[misc]


def test_paths_pairs_and_dictionaries(here: Path) -> None:
    whole = {"pics/a.png": ["red"], "pics/b.png": ["blue", "sea"]}
    for source in (
        [("pics/a.png", "red"), ("pics/b.png", ["blue", "sea"])],
        [("pics/a.png", "red"), ("pics/b.png", "blue"), ("pics/b.png", "sea")],
        {"pics/a.png": "red", Path("pics/b.png"): ["blue", "sea"]},
        (pair for pair in [("pics/a.png", ("red",)), (Path("pics/b.png"), ("blue", "sea"))]),
    ):
        collection = visir.open(source)
        assert captions_of(collection) == whole
        assert colours_of(collection) == [(255, 0, 0), (0, 0, 255)]
        assert collection.captions["id"].to_pylist() == ["pics/a.png#0", "pics/b.png#0", "pics/b.png#1"]
    bare = visir.open([here / "pics/a.png", "pics/b.png"])
    assert bare.images["id"].to_pylist() == [(here / "pics/a.png").as_posix(), "pics/b.png"]
    assert bare.captions.num_rows == 0
    assert visir.open(here / "pics").images["id"].to_pylist() == ["a.png", "b.png"]


def test_it_does_not_matter_where_it_is_used_later(
    here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = visir.open(["pics/a.png"])
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert colours_of(collection) == [(255, 0, 0)]


def test_pictures_in_memory_are_kept_in_the_cache_without_loss(here: Path) -> None:
    red, array = Image.open("pics/a.png"), np.full((4, 6, 3), (1, 2, 3), np.uint8)
    collection = visir.open([(red, "red"), (array, ["dark", "night"]), (jpeg("blue"), [])])
    assert captions_of(collection) == {"0": ["red"], "1": ["dark", "night"], "2": []}
    assert colours_of(collection)[:2] == [(255, 0, 0), (1, 2, 3)]
    assert visir.open([(red, "red"), (array, ["dark", "night"]), (jpeg("blue"), [])]).images.equals(collection.images)
    assert colours_of(visir.open([red, array])) == [(255, 0, 0), (1, 2, 3)]
    named = visir.open({"x": red, "y": array})
    assert named.images["id"].to_pylist() == ["x", "y"]
    assert visir.open({"x": "pics/a.png"}).images["id"].to_pylist() == ["x"]


def test_a_data_set_of_torchvision(here: Path) -> None:
    class Pairs:  # what CocoCaptions looks like: no iterator, a length, pairs by number
        def __len__(self) -> int:
            return 2

        def __getitem__(self, row: int) -> tuple[Image.Image, list[str]]:
            return Image.open(f"pics/{'ab'[row]}.png"), ["one", "two"]

    assert captions_of(visir.open(Pairs())) == {"0": ["one", "two"], "1": ["one", "two"]}


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    import pandas as pd
    import polars as pl

    return [pa.table(columns), pd.DataFrame(columns), pl.DataFrame(columns)]


def test_tables_in_memory(here: Path) -> None:
    columns = {"file_name": ["pics/a.png", "pics/b.png", "pics/b.png"], "caption": ["red", "blue", "sea"],
               "split": ["train", "test", "test"]}  # fmt: skip
    for frame in frames(columns):
        collection = visir.open(frame)
        assert captions_of(collection) == {"pics/a.png": ["red"], "pics/b.png": ["blue", "sea"]}
        assert collection.splits == ("test", "train")
        assert colours_of(collection) == [(255, 0, 0), (0, 0, 255)]
    for frame in frames({"foto": ["a.png"], "worte": ["rot"], "jahr": [1999]}):
        collection = visir.open(frame, image="foto", caption="worte", images="pics")
        assert captions_of(collection) == {"a.png": ["rot"]}
        assert collection.facts.to_pylist() == [{"image_id": "a.png", "jahr": 1999}]
        with refused(CollectionError, "foto", "worte", "jahr", code="table-no-column-images") as fault:
            visir.open(frame)
        assert 'visir.open(table, image="COLUMN", caption="COLUMN")' in fault.value.hint


def test_a_dictionary_of_columns(here: Path) -> None:
    columns = {"image": ["pics/a.png", "pics/b.png"], "caption": ["red", ["blue", "sea"]]}
    assert captions_of(visir.open(columns)) == {"pics/a.png": ["red"], "pics/b.png": ["blue", "sea"]}
    with refused(CollectionError, "image 1", "caption 2", code="columns-differ-length", hint=False):
        visir.open({"image": ["a"], "caption": ["x", "y"]})


def test_pictures_in_the_cells_of_a_table(here: Path) -> None:
    import pandas as pd

    cells = [Image.open("pics/a.png"), Image.open("pics/b.png")]
    frame = pd.DataFrame({"image": pd.Series(cells, dtype=object), "text": ["red", "blue"]})
    assert colours_of(visir.open(frame)) == [(255, 0, 0), (0, 0, 255)]
    table = pa.table({"image": [{"bytes": RED, "path": "a.png"}, {"bytes": BLUE, "path": "b.png"}], "text": ["r", "b"]})
    assert colours_of(visir.open(table)) == [(255, 0, 0), (0, 0, 255)]


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (7, "cannot open a int as a collection", "visir.open takes a path or a text"),
        ([("a", "b", "c")], r"entry 0: expected an image or \(image, caption\), not \('a', 'b'", "works; it takes"),
        ([{"image": "a.png"}, 3], "entry 0 is a dictionary with the keys 'image'", "pandas.DataFrame"),
        ({1: "x"}, "1 is no image", '"b.jpg": ["a cat", "a pet"]'),
        (["gone.jpg", "too.jpg"], r"(?s)gone.jpg: no such file.*too.jpg: no such file", "mend the source"),
        ([(np.zeros((3, 3, 9), np.uint8), "x")], "entry 0: an array of this shape or type is no picture", "uint8"),
    ],
)  # fmt: skip
def test_misuse_says_what_works(source: Any, message: str, hint: str) -> None:
    with pytest.raises(CollectionError, match=message) as fault:
        visir.open(source)
    assert hint in fault.value.hint


def test_column_names_of_what_has_no_columns(here: Path) -> None:
    with refused(CollectionError, "image", "list", code="names-column-table", hint=False):
        visir.open(["pics/a.png"], image="file")


def test_what_is_open_already_and_folders_of_visir(here: Path) -> None:
    collection = visir.open("scenes:6?size=64")
    assert visir.open(collection) is collection
    card = EncoderCard("by hand", "example", revision="1")
    build_index(Embeddings("image", ["a"], np.ones((1, 2), np.float32), card), "exact", here / "vectors")
    assert visir.open("vectors").ids.to_pylist() == ["a"]
    ranks = Ranks(pa.array(["q"]), np.array([0, 1]), np.array([1]), np.ones(1, np.float32), None, 4)
    protocol = Protocol(collection="toy", collection_fingerprint="stated", split="test")
    save(score("by hand", {"t2i": [ranks]}, protocol, measures=["hit@1"]), here / "mine")
    assert visir.open(here / "mine").result.aggregates["t2i"]["hit@1"] == 1.0
    with refused(CollectionError, "mine", "result", "images", code="folder-visir-made-takes", hint=False):
        visir.open("mine", images="pics")
    update("pics", "pics.visir", model="pixels")
    with visir.open("pics.visir") as library:
        assert len(library) == 2


def test_a_data_set_of_the_hub(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    loaded: list[tuple[object, ...]] = []

    def load(name: str, configuration: str | None) -> Any:
        loaded.append((name, configuration))
        if name == "nobody/nothing":
            raise FileNotFoundError("not on the hub")
        rows = datasets.Dataset.from_dict({"image": ["pics/a.png", "pics/b.png"], "title": ["red", "blue"]})
        rows = rows.cast_column("image", datasets.Image())
        return datasets.DatasetDict({"train": rows, "test": rows.select([1])})

    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda name: ["default", "large"])
    collection = visir.open("hf:user/name:large?split=test&caption=title")
    assert loaded == [("user/name", "large")]
    assert captions_of(collection) == {collection.images["id"][0].as_py(): ["blue"]}
    with refused(CollectionError, "hf:nobody/nothing", code="cannot-loaded-hugging-face") as fault:
        visir.open("hf:nobody/nothing")
    assert "hf:user/name" in fault.value.hint


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell expands it, Python does not: visir.index("~/Photos", …) is in the documents."""
    Image.new("RGB", (8, 8)).save(tmp_path / "one.png")
    (tmp_path / "mine.csv").write_text("image,caption\none.png,all black\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert visir.open("~/mine.csv").captions["text"].to_pylist() == ["all black"]
    assert visir.open("table:~/mine.csv?images=none").captions.num_rows == 1
