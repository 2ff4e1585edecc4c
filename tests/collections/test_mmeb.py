"""MMEB-eval and the image part of MMEB-V2, in the layouts that their authors publish, built small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import visir
from refusals import refused
from visir.errors import CollectionError
from visir.records import TaskSet

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
MARK = "<|image_1|>\n"


class Colours(visir.Encoder):
    """The colours that a text names, those of a picture, and their sums."""

    def embed_texts(self, texts: Any) -> Any:
        return [[1.0 * (name in text.split()) + 0.01 for name in COLOURS] for text in texts]

    def embed_images(self, batch: Any) -> Any:
        return [[value / 255 + 0.01 for value in image.resize((1, 1)).getpixel((0, 0))] for image in batch]

    def embed_texts_with_images(self, texts: Any, batch: Any) -> Any:
        return np.array(self.embed_texts(texts)) + np.array(self.embed_images(batch))


def table(folder: Path, rows: list[dict[str, Any]], *, lines: bool = False) -> None:
    folder.mkdir(parents=True)
    if lines:
        (folder / "test.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), folder / "test-00000-of-00001.parquet")


def pictures(folder: Path, *names: str) -> None:
    for name in names:
        for colour, values in COLOURS.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), values).save(folder / name / f"{colour}.jpg")


def first_version(root: Path, *, lines: bool = False) -> Path:
    """Three data sets of MMEB-eval: pictures choose texts, texts choose pictures, both choose both."""
    pictures(root / "images", "ImageNet-1K", "MSCOCO_t2i", "OVEN")
    inst = f"{MARK}Represent the given image for classification\n"
    table(
        root / "ImageNet-1K",
        [{"qry_text": inst, "qry_img_path": f"ImageNet-1K/{name}.jpg", "tgt_img_path": [""] * 3,
          "tgt_text": [name, *(other for other in COLOURS if other != name)]} for name in COLOURS],
        lines=lines,
    )  # fmt: skip
    table(
        root / "MSCOCO_t2i",
        [{"qry_text": "Find me an everyday image that matches the given caption: red", "qry_img_path": "",
          "tgt_text": [f"{MARK}Represent the given image.\n"] * 2,
          "tgt_img_path": ["MSCOCO_t2i/red.jpg", "MSCOCO_t2i/blue.jpg"]}],
        lines=lines,
    )  # fmt: skip
    table(
        root / "OVEN",
        [{"qry_text": f"{MARK}Which colour is this?", "qry_img_path": "OVEN/green.jpg",
          "tgt_text": [f"{MARK}it is green", "it is red", f"{MARK}it is blue", f"{MARK}it is green"],
          "tgt_img_path": ["OVEN/green.jpg", "", "OVEN/blue.jpg", "OVEN/green.jpg"]}],
        lines=lines,
    )  # fmt: skip
    return root


def second_version(root: Path) -> Path:
    """MMEB-V2: instructions in columns of their own; no column of pictures where there are none."""
    table(
        root / "OK-VQA",
        [{"qry_inst": f"{MARK}Answer with the colour: ", "qry_text": "what is it?", "qry_img_path": "OK-VQA/red.jpg",
          "tgt_text": ["red", "blue"]}],
    )  # fmt: skip
    table(
        root / "NIGHTS",
        [{"qry_inst": f"{MARK}Find a similar image.", "qry_text": "", "qry_img_path": "NIGHTS/blue.jpg",
          "tgt_inst": f"{MARK}Represent the given image.", "tgt_text": [""],
          "tgt_img_path": ["NIGHTS/blue.jpg", "NIGHTS/red.jpg"]}],
    )  # fmt: skip
    pictures(root / "image-tasks", "OK-VQA", "NIGHTS")
    return root


@pytest.mark.parametrize("lines", [False, True])
def test_the_first_version(tmp_path: Path, lines: bool) -> None:
    source = visir.open(first_version(tmp_path / "MMEB-eval", lines=lines))
    assert isinstance(source, TaskSet) and source.tasks == ("ImageNet-1K", "MSCOCO_t2i", "OVEN")
    classes, images, both = (source.task(name) for name in source.tasks)
    assert classes.queries.texts.to_pylist() == ["Represent the given image for classification"] * 3
    assert classes.queries.holding == "text+image" and classes.documents.holding == "text"
    assert classes.documents.texts.to_pylist() == ["red", "green", "blue"]  # each distinct candidate once
    assert str(classes.pools) == "3 candidates per query" and classes.ties == "pessimistic"
    assert images.queries.holding == "text" and images.documents.holding == "text+image"
    assert both.documents.holding == "1 text, 2 texts with images" and str(both.pools) == "3 candidates per query"
    assert classes.labels.to_pylist()[0] == {
        "query_id": "0", "dataset": "ImageNet-1K", "meta_task": "classification", "distribution": "in",
    }  # fmt: skip
    assert both.labels["distribution"].to_pylist() == ["out"]
    evaluation = visir.evaluate(source, Colours())
    assert [evaluation[f"{name} precision@1"] for name in source.tasks] == [1, 1, 1]
    assert evaluation.result.chance["ImageNet-1K"]["precision@1"].to_pylist() == pytest.approx([1 / 3] * 3)


def test_the_second_version(tmp_path: Path) -> None:
    root = second_version(tmp_path / "MMEB_Test_Instruct")
    source = visir.open(f"mmeb:{root}")
    answers, similar = source.task("OK-VQA"), source.task("NIGHTS")
    assert answers.queries.texts.to_pylist() == ["Answer with the colour: what is it?"]
    assert answers.documents.texts.to_pylist() == ["red", "blue"]
    assert similar.documents.texts.to_pylist() == ["Represent the given image."] * 2
    plain = visir.open(f"mmeb:{root}?instructions=drop&subset=NIGHTS")
    assert plain.tasks == ("NIGHTS",) and plain.task("NIGHTS").queries.holding == "image"
    assert plain.task("NIGHTS").documents.holding == "image"
    assert visir.evaluate(plain, Colours())["precision@1"] == 1


def test_one_data_set_and_pictures_elsewhere(tmp_path: Path) -> None:
    root = first_version(tmp_path / "MMEB-eval")
    (root / "images").rename(tmp_path / "eval_images")
    source = visir.open(root / "OVEN", format="mmeb", images=tmp_path / "eval_images")
    assert source.tasks == ("OVEN",) and visir.evaluate(source, Colours())["precision@1"] == 1
    with refused(visir.errors.ImageError, hint="images=FOLDER_OR_ZIP"):
        visir.evaluate(visir.open(root / "OVEN", format="mmeb"), Colours())


def test_a_model_that_cannot_choose_fails(tmp_path: Path) -> None:
    class Same(visir.Encoder):
        def embed_texts(self, texts: Any) -> Any:
            return [[1.0]] * len(texts)

        def embed_texts_with_images(self, texts: Any, batch: Any) -> Any:
            return [[1.0]] * len(texts)

    source = visir.open(first_version(tmp_path / "MMEB-eval"))
    evaluation = visir.evaluate(source, Same())
    assert [evaluation[f"{name} precision@1"] for name in source.tasks] == [0, 0, 0]


def test_what_is_no_mmeb(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CollectionError, match="not the layout of mmeb: no table with the columns") as caught:
        visir.open(f"mmeb:{tmp_path / 'empty'}")
    assert "https://huggingface.co/datasets/TIGER-Lab/MMEB-eval" in str(caught.value)
    root = first_version(tmp_path / "MMEB-eval")
    with refused(CollectionError, "MSCOCO_i2t", code="no-data-set") as caught:
        visir.open(f"mmeb:{root}?subset=MSCOCO_i2t")
    assert "MSCOCO_t2i" in str(caught.value)
    with refused(CollectionError, "qry_text"):
        visir.open(f"mmeb:{root}?instructions=drop")


def test_every_fault_at_once(tmp_path: Path) -> None:
    good = {"qry_text": "red", "qry_img_path": "", "tgt_text": ["red"], "tgt_img_path": [""]}
    faulty = [
        {**good, "qry_text": MARK},
        {**good, "tgt_text": [], "tgt_img_path": []},
        {**good, "tgt_text": ["red", MARK], "tgt_img_path": ["", ""]},
        {**good, "tgt_text": ["a", "b", "c"], "tgt_img_path": ["x.jpg", "y.jpg"]},
        {**good, "tgt_text": "red"},
    ]
    table(tmp_path / "N24News", [good, *faulty], lines=True)
    with pytest.raises(CollectionError) as caught:
        visir.open(f"mmeb:{tmp_path}")
    for part in ("(5 faults)", "row 2: the query has neither", "row 3: there are no candidates",
                 "row 4: a candidate has neither", "row 5: 3 tgt_text for 2 tgt_img_path",
                 "row 6: tgt_text is no list of candidates, but 'red'"):  # fmt: skip
        assert part in str(caught.value), part
