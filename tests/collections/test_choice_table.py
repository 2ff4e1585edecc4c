"""Tables of choices of one's own: files and data frames, columns by other names, faults; equal scores never win."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import visir
from refusals import refused
from verbs import say
from visir.cli.evaluate import evaluate
from visir.collections import open_source
from visir.errors import CollectionError

TABLE = {
    "image": ["a.png", "a.png", "b.png"],
    "caption": ["a dog", "one dog", "a cat"],
    "foil": ["a fox", "two dogs", "a cow"],
    "foil_2": ["an owl", None, ""],
    "category": ["noun", "count", None],
}


def blank() -> Any:
    return visir.Encoder.wrap(
        "blank", image=lambda pictures: np.ones((len(pictures), 2)), text=lambda texts: np.ones((len(texts), 2))
    )


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name, colour in (("a.png", "red"), ("b.png", "blue")):
        Image.new("RGB", (8, 6), colour).save(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "memory", "dictionary"])
def test_the_same_choices_from_any_table(here: Path, ending: str) -> None:
    table, path = pa.table(TABLE), here / f"mine.{ending}"
    if ending == "csv":
        lines = [[cell or "" for cell in row.values()] for row in table.to_pylist()]
        path.write_text("\n".join(map(",".join, [list(TABLE), *lines])))
    elif ending == "jsonl":
        path.write_text(table.to_pandas().to_json(orient="records", lines=True))
    elif ending == "parquet":
        pq.write_table(table, path)
    source: Any = visir.open({"memory": table, "dictionary": TABLE}.get(ending, path), images=here)
    task = source.task("i2t")
    assert task.judgements().to_dict() == {str(row): {f"{row}/caption": 1.0} for row in range(3)}
    assert [task.pools.candidates(str(row)) for row in range(3)] == [
        ["0/caption", "0/foil", "0/foil_2"],
        ["1/caption", "1/foil"],
        ["2/caption", "2/foil"],
    ]
    assert task.labels.select(["image", "category"]).to_pydict() == {
        "image": ["a.png", "a.png", "b.png"],
        "category": ["noun", "count", None],
    }
    report = visir.evaluate(source, blank())
    assert report["all_first"] == 0.0, "equal scores count against the model"
    assert report.by("category").to_pandas()["queries"].tolist() == [1, 1, 1]


def test_pictures_in_memory_and_other_names() -> None:
    pictures = [Image.new("RGB", (8, 6), colour) for colour in ("red", "blue")]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"img": pictures, "yes": ["red", "blue"], "no": ["green", "red"], "id": ["x/y", "ü"]})
    source: Any = visir.open(frame, image="img", caption="yes", wrong="no")
    assert source.task("i2t").pools.candidates("x/y") == ["x/y/no", "x/y/yes"]
    assert visir.evaluate(source, blank())["all_first"] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caption": ["a dog", "", "a cat"]}, "row 2: 'caption' must be a text; there is none"),
        ({"foil": ["a fox", None, "a cow"]}, r"row 2: no wrong caption \(foil, foil_2\)"),
        ({"foil": [1, 2, 3]}, "row 1: 'foil' must be a text; found '1'"),
        ({"id": ["x", "x", "z"]}, "item 'x' stands twice"),
        ({"image": ["a.png", None, "b.png"]}, r"row 2: no picture \(image is empty\)"),
    ],
)
def test_faults(here: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        visir.open(pa.table(TABLE | change), images=here)


def test_columns_that_are_missing(here: Path) -> None:
    (here / "mine.csv").write_text("image,caption,bad\na.png,a dog,a fox\n")
    with refused(
        CollectionError, "wrong", code="collection-no-column", hint=("wrong=COLUMN", "image", "caption", "bad")
    ):
        open_source(f"choices:{here}/mine.csv")
    assert open_source(f"choices:{here}/mine.csv?wrong=bad").task("i2t").pools is not None
    with refused(CollectionError, "worse", code="no-such-column"):
        open_source(f"choices:{here}/mine.csv?wrong=worse")


def test_a_task_of_few_candidates_is_one_of_choices() -> None:
    task = {
        "queries": {"q1": "a dog", "q2": "a cat"},
        "documents": {"a": "dog", "b": "fox", "c": "cat", **{f"d{row}": "cow" for row in range(20)}},
        "qrels": {"q1": ["a"], "q2": ["c"]},
        "pools": {"q1": ["a", "b"], "q2": ["c", "d1"]},
    }
    assert visir.evaluate(task, blank()).measures == ("all_first",)
    assert visir.evaluate(task, blank(), measures="hit@1")["hit@1"] == 0.0
    assert visir.evaluate(task, blank(), measures="hit@1", ties="id")["hit@1"] == 1.0
    many = task | {"pools": {"q1": ["a", *(f"d{row}" for row in range(10))], "q2": ["c", "b"]}}
    assert visir.evaluate(many, blank(), measures="hit@1").protocol.ties == "id"


def test_an_item_that_stands_twice_in_a_benchmark(here: Path) -> None:
    row = '{"id": 7, "image_0": "a", "image_1": "b", "caption_0": "x y", "caption_1": "y x"}'
    (here / "examples.jsonl").write_text(f"{row}\n{row}\n")
    with refused(CollectionError, "item", "7", "stands twice"):
        open_source(str(here))


def test_winoground_with_pictures_of_another_kind(here: Path) -> None:
    for name in ("a", "b"):
        Image.open(here / f"{name}.png").save(here / f"{name}.jpg")
        (here / f"{name}.png").unlink()
    row = '{"id": 7, "image_0": "a", "image_1": "b", "caption_0": "x y", "caption_1": "y x"}'
    (here / "examples.jsonl").write_text(f"{row}\n")
    assert open_source(str(here)).tasks == ("i2t", "t2i")


def test_a_part_of_a_task_that_is_written_wrongly() -> None:
    with refused(CollectionError, "qrel", code="task-no-part", meant="qrels"):
        visir.open({"queries": {"q": "a"}, "docs": {"d": "b"}, "qrel": {"q": ["d"]}})


def test_a_choice_that_lost_a_candidate_is_not_measured(here: Path) -> None:
    (here / "broken.png").write_bytes(b"no picture")
    task = {
        "queries": {"q1": "red", "q2": "blue"},
        "documents": {name: str(here / f"{name}.png") for name in ("a", "b", "broken")},
        "qrels": {"q1": ["a"], "q2": ["b"]},
        "pools": {"q1": ["a", "b"], "q2": ["b", "broken"]},
    }
    report = visir.evaluate(task, blank(), skip_broken=True)
    assert report.per_query["t2i"].num_rows == 1
    assert "1 item is not measured: one of their queries or candidates was set aside" in " ".join(report.notes)


def test_a_label_that_is_not_there_loses_no_result(here: Path) -> None:
    (here / "mine.csv").write_text("image,caption,foil,kind\na.png,red,blue,colour\nb.png,blue,red,colour\n")
    vectors = {side: np.eye(2) for side in ("image",)} | {"text": np.array([[1, 0], [0, 1], [0, 1], [1.0, 0.0]])}
    ids = {"image_ids": ["0", "1"], "text_ids": ["0/caption", "0/foil", "1/caption", "1/foil"]}
    np.savez(here / "v.npz", **vectors, **ids)
    output = say(evaluate, here / "mine.csv", "--embeddings", f"npz:{here}/v.npz", "--by", "knd", "--out", here / "out")
    assert output.status == 2 and "there is no label 'knd'" in output.text
    loaded: Any = visir.open(here / "out")
    assert loaded.by("kind").rows[0].values["all_first"].mean == 1.0
