"""Readers of choice tasks: published layouts built small, missing pictures, wrong layouts, real files."""

import json
from pathlib import Path

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
from visir.collections.images import ImageReader
from visir.errors import CollectionError, ImageError
from visir.records import TaskFile, TaskSet


def picture(path: Path, colour: str = "red", size: tuple[int, int] = (8, 6)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def winoground(folder: Path) -> Path:
    rows = [
        {
            "id": number,
            "image_0": f"ex_{number}_img_0",
            "image_1": f"ex_{number}_img_1",
            "caption_0": "a mug in grass",
            "caption_1": "grass in a mug",
            "tag": "Adjective, Noun",
            "secondary_tag": "",
            "num_main_preds": 1,
            "collapsed_tag": "Object" if number else "Relation",
        }
        for number in (0, 1)
    ]
    for row in rows:
        for side in (0, 1):
            picture(folder / "images" / f"{row[f'image_{side}']}.png", ("red", "blue")[side])
    (folder / "examples.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_winoground(tmp_path: Path) -> None:
    source = open_source(str(winoground(tmp_path / "wino")))
    assert isinstance(source, TaskSet) and source.tasks == ("i2t", "t2i")
    task = source.task("i2t")
    assert task.queries.ids.to_pylist() == ["0/image_0", "0/image_1", "1/image_0", "1/image_1"]
    assert task.judgements().to_dict()["0/image_1"] == {"0/caption_1": 1.0}
    assert task.pools is not None and task.pools.candidates("1/image_0") == ["1/caption_0", "1/caption_1"]
    assert task.labels is not None and task.labels.to_pylist()[0] == {
        "query_id": "0/image_0",
        "group": "0",
        "category": "Relation",
        "tag": "Adjective, Noun",
        "secondary_tag": None,
        "num_main_preds": "1",
        "image": "ex_0_img_0",
    }
    assert (task.ties, task.measures) == ("pessimistic", ("all_first", "item_score", "group_score"))
    assert source.task("t2i").judgements().to_dict()["1/caption_0"] == {"1/image_0": 1.0}
    assert ImageReader(task.queries).open(1).getpixel((0, 0)) == (0, 0, 255)


def test_winoground_of_the_hub(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    cell = {"bytes": (tmp_path / "a.png").read_bytes(), "path": "ex_0_img_0.png"}
    table = pa.table(
        {
            "id": pa.array([7], pa.int32()),
            "image_0": [cell],
            "image_1": [cell],
            "caption_0": ["a b"],
            "caption_1": ["b a"],
            "collapsed_tag": ["Object"],
        }
    )
    (tmp_path / "hub" / "data").mkdir(parents=True)
    pq.write_table(table, tmp_path / "hub" / "data" / "test-00000-of-00001.parquet")
    source = open_source(str(tmp_path / "hub"))
    assert isinstance(source, TaskSet) and source.tasks == ("i2t", "t2i")
    assert source.task("i2t").queries.ids.to_pylist() == ["7/image_0", "7/image_1"]
    assert ImageReader(source.task("t2i").documents).open(1).size == (8, 6)


def sugarcrepe(folder: Path, plus: bool = False) -> Path:
    row = {"filename": "000000000001.jpg", "caption": "a red cup", "negative_caption": "a blue cup"}
    if plus:
        row["caption2"] = "a cup that is red"
    rows = [row, {**row, "filename": "000000000002.jpg"}]
    content: object = [{"id": n, **r} for n, r in enumerate(rows)] if plus else dict(enumerate(rows))
    write(folder / "swap_att.json", content)
    write(folder / "replace_obj.json", content)
    picture(folder / "val2017" / "000000000001.jpg")
    return folder


def test_sugarcrepe_counts_what_is_missing(tmp_path: Path) -> None:
    folder = sugarcrepe(tmp_path / "sc")
    source = open_source(str(folder))
    assert isinstance(source, TaskFile) and source.tasks == ("i2t",)
    assert source.queries.ids.to_pylist() == ["replace_obj/0", "swap_att/0"]
    note = "left out: 2 of 4 items have no picture here (1 picture: 000000000002.jpg)"
    assert note in source.source and "val2017.zip" in source.source
    assert source.labels is not None and source.labels["change"].to_pylist() == ["replace", "swap"]
    with refused(CollectionError, "2", "4", code="items-no-picture") as fault:
        open_source(f"{folder}?missing=fault")
    assert "images='none'" in fault.value.hint
    everything = open_source(str(folder), images="none")
    assert isinstance(everything, TaskFile) and len(everything.queries) == 4
    assert source.task("i2t").notes == (note,)
    report = visir.check(str(folder))
    assert report.counts == {"items": 4, "images": 4}


def test_without_any_picture_it_says_what_to_do(tmp_path: Path) -> None:
    folder = sugarcrepe(tmp_path / "sc")
    (folder / "val2017" / "000000000001.jpg").unlink()
    with refused(CollectionError, "4", "4", code="items-no-picture") as fault:
        open_source(str(folder))
    assert "val2017.zip" in fault.value.hint


def test_sugarcrepe_plus_plus(tmp_path: Path) -> None:
    source = open_source(str(sugarcrepe(tmp_path / "pp", plus=True)), images="none")
    assert isinstance(source, TaskSet) and source.tasks == ("i2t", "t2t")
    task = source.task("i2t")
    assert task.judgements().to_dict()["swap_att/1"] == {"swap_att/1/caption": 1.0, "swap_att/1/caption2": 1.0}
    alone = source.task("t2t")
    assert alone.pools is not None
    query = "swap_att/1/caption2"
    assert alone.pools.candidates(query) == ["swap_att/1/caption", "swap_att/1/negative_caption"]
    assert alone.judgements().to_dict()[query] == {"swap_att/1/caption": 1.0}
    texts = {"a red cup": [1, 0.1], "a cup that is red": [1, 0], "a blue cup": [0, 1]}
    images = {name: [0.5, 1] if name.startswith("swap") else [1, 0] for name in task.queries.ids.to_pylist()}
    evaluation = visir.evaluate(source, vectors={"image": images, "text": texts})
    assert evaluation["i2t all_first"] == 0.5 and evaluation["t2t item_score"] == 1.0
    chance = evaluation.result.chance
    assert chance["i2t"]["all_first"][0].as_py() == pytest.approx(1 / 3)
    assert chance["t2t"]["item_score"][0].as_py() == pytest.approx(1 / 3)


def valse(folder: Path) -> Path:
    row = {"dataset": "coco2017", "image_file": "000000000001.jpg", "linguistic_phenomena": "plurals",
           "caption": "one dog", "foil": "two dogs"}  # fmt: skip
    votes = ({"caption": 3, "foil": 0, "other": 0}, {"caption": 1, "foil": 2, "other": 0})
    write(folder / "plurals.json", {f"p{n}": {**row, "mturk": vote} for n, vote in enumerate(votes)})
    write(folder / "existence.json", {"p0": {**row, "mturk": votes[0], "linguistic_phenomena": "existence"}})
    picture(folder / "000000000001.jpg")
    return folder


def test_valse_counts_votes(tmp_path: Path) -> None:
    folder = valse(tmp_path / "valse")
    source = open_source(str(folder))
    assert isinstance(source, TaskFile)
    assert source.queries.ids.to_pylist() == ["existence/p0", "plurals/p0"]
    assert "1 of 3 items not counted: fewer than 2 of three people accept them" in source.source
    assert source.labels is not None and source.labels["category"].to_pylist() == ["existence", "plurals"]
    assert len(open_source(f"{folder}?votes=0").queries) == 3
    assert len(open_source(str(folder / "plurals.json")).queries) == 1
    with refused(CollectionError, "votes", hint=False):
        open_source(f"{folder}?votes=7")


def test_cola(tmp_path: Path) -> None:
    address = "https://cs-people.bu.edu/array/data/vg_gqa_images"
    write(tmp_path / "COLA.json", [[f"{address}/1.jpg", "a red cup, a blue mat", f"{address}/2.jpg", "the reverse"]])
    for name in ("1.jpg", "2.jpg"):
        picture(tmp_path / "images" / name)
    source = open_source(str(tmp_path / "COLA.json"))
    assert isinstance(source, TaskSet) and source.tasks == ("i2t", "t2i")
    assert source.task("t2i").judgements().to_dict() == {
        "0/caption_0": {"0/image_0": 1.0},
        "0/caption_1": {"0/image_1": 1.0},
    }


EQBEN_ROW = {"image0": "eqbensd/1/a.png", "image1": "eqbensd/1/b.png", "caption0": "a", "caption1": "b"}


def eqben(folder: Path) -> Path:
    """Two items: pictures, and frames of YouCook2 as arrays, which OpenCV holds blue first."""
    frames = {"image0": "eqbenyoucook2/v/a.npy", "image1": "eqbenyoucook2/v/b.npy"}
    write(folder / "subset.json", [EQBEN_ROW, {**EQBEN_ROW, **frames}])
    for name in ("a.png", "b.png"):
        picture(folder / "image_subset" / "eqbensd" / "1" / name)
    place = folder / "image_subset" / "eqbenyoucook2" / "v"
    place.mkdir(parents=True)
    for name, colour in (("a", (250, 20, 10)), ("b", (10, 20, 250))):
        frame = np.zeros((4, 6, 3), np.uint8)
        frame[3, 5] = colour
        np.save(place / f"{name}.npy", frame if name == "a" else np.asfortranarray(frame))
    return folder


def test_eqben(tmp_path: Path) -> None:
    source = open_source(str(eqben(tmp_path)))
    assert isinstance(source, TaskSet)
    task = source.task("i2t")
    assert task.labels is not None
    assert task.labels["category"].to_pylist() == ["eqbensd", "eqbensd", "eqbenyoucook2", "eqbenyoucook2"]
    assert task.labels["image"].to_pylist()[2] == "eqbenyoucook2/v/a.npy"
    pictures = ImageReader(task.queries)
    assert pictures.open(2).size == (6, 4)
    assert [pictures.open(row).getpixel((5, 3)) for row in (2, 3)] == [(10, 20, 250), (250, 20, 10)]  # red last in them
    report = visir.check(str(tmp_path))
    assert report.ok and report.decoded == 4
    assert visir.check(str(tmp_path), decode=False).ok


def test_an_array_that_is_no_frame_is_named(tmp_path: Path) -> None:
    place = eqben(tmp_path) / "image_subset" / "eqbenyoucook2" / "v"
    whole = (place / "a.npy").read_bytes()
    for content, reason in (
        (whole[:-1], "truncated or longer"),
        (whole + b"x", "truncated or longer"),
        (whole[:20], "not a NumPy file"),
        (b"", "not a NumPy file"),
        (b"\x89PNG", "not a NumPy file"),
    ):
        (place / "a.npy").write_bytes(content)
        with pytest.raises(ImageError, match=rf"eqbenyoucook2/v/a.npy.*{reason}"):
            ImageReader(open_source(str(tmp_path)).task("i2t").queries).open(2)
    for array in (np.zeros((4, 6), np.uint8), np.zeros((4, 6, 3), np.float32), np.array([{}], object)):
        np.save(place / "a.npy", array, allow_pickle=True)
        with refused(ImageError, code="array-type-frame-height", hint=False):
            ImageReader(open_source(str(tmp_path)).task("i2t").queries).open(2)
    with refused(ImageError, code="over-limit-pixels-decompression"):
        np.save(place / "a.npy", np.zeros((4, 6, 3), np.uint8))
        ImageReader(open_source(str(tmp_path)).task("i2t").queries, max_pixels=20).open(2)


def test_eqben_of_the_challenge_cannot_be_measured(tmp_path: Path) -> None:
    write(tmp_path / "ann.json", [{"image": "eqbensd/1/a.png", "caption": "a"}])
    with refused(CollectionError, "ann.json", "without their items") as fault:
        open_source(f"eqben:{tmp_path}")
    assert "eqben_subset_10percent_final.json" in fault.value.hint
    write(tmp_path / "ann.json", [{**EQBEN_ROW, "image1": "eqbenyoucook2/b.npy"}])
    with pytest.raises(CollectionError, match=r"ann.json, item 0: one picture is a NumPy file, and the other is not"):
        open_source(f"eqben:{tmp_path}")


CLASSES = ["square white plate", "round table", "red cup"]
COLA_ROWS = [
    ["vg/1.jpg", {"plate": ["white", "square"]}, [1, 0, 0], [1, 0, 0]],
    ["vg/2.jpg", {"plate": ["white", "round"]}, [0, 0, 0], [1, 1, 0]],
    ["vg/3.jpg", {"table": ["round"]}, [1, 1, 0], [1, 1, 1]],
    ["vg/4.jpg", {"cup": ["red"]}, [0, 0, 1], [1, 0, 0]],
    ["vg/5.jpg", {"table": ["round"]}, [0, 1, 0], [0, 0, 0]],
]
"""Pictures, what is in them, which classes they show, and of which classes they are in the difficult set."""


@pytest.mark.parametrize("form", ["by name", "in a list", "without objects"])
def test_cola_of_single_objects(tmp_path: Path, form: str) -> None:
    """Plate: pictures 1 to 4, right are 1 and 3. Table: 2 and 3, right is 3 (5 is outside). Cup: nothing right."""
    file = tmp_path / "COLA_singleobjects_benchmark_GQA.json"
    rows = [[row[0], *row[2:]] for row in COLA_ROWS] if form == "without objects" else COLA_ROWS
    write(file, [CLASSES, rows] if form == "in a list" else {"labels": CLASSES, "data": rows})
    for number in range(1, 6):
        picture(tmp_path / "vg" / f"{number}.jpg")
    source = open_source(str(file))
    assert isinstance(source, TaskFile)
    task = source.task("t2i")
    assert task.queries.texts is not None and task.queries.texts.to_pylist() == CLASSES[:2]
    assert task.judgements().to_dict() == {"0": {"0": 1.0, "2": 1.0}, "1": {"2": 1.0}}
    assert task.pools is not None
    assert [task.pools.candidates(query) for query in ("0", "1")] == [["0", "1", "2", "3"], ["1", "2"]]
    note = "1 of 3 classes not counted: no picture of their difficult set shows them"
    assert task.notes == (note,) and note in source.source
    assert ImageReader(task.documents).open(4).size == (8, 6)
    # Scores of the plate: 1 < 2 < 3 < 4, so its right ones are third and last: (1/2 + 2/4)/2. Of the table: 2 before 3.
    vectors = {"image": {"0": [1.0, 0], "1": [0.8, 0.6], "2": [0.6, 0.8], "3": [0, 1.0], "4": [1.0, 0]}}
    texts = {"0": [0.0, 1.0], "1": [1.0, 0.0]}
    evaluation = visir.evaluate(source, vectors={**vectors, "text": texts})
    assert evaluation.values("t2i", "map").tolist() == pytest.approx([(1 / 2 + 2 / 4) / 2, 1 / 2])
    assert evaluation.result.protocol.ties == "pessimistic"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"labels": CLASSES}, "no labels and data in it"),
        ({"labels": [["white"], "plate"], "data": []}, r"class 0: expected a text such as .*found \"\['white'\]"),
        ({"labels": CLASSES, "data": [["1.jpg", {}, [1, 0], [1, 0]]]}, r"picture 0: expected .* for 3 classes"),
        ({"labels": CLASSES, "data": [["1.jpg", {}, [1, 0, 2], [1, 0, 0]]]}, r"picture 0: expected"),
        ({"labels": CLASSES, "data": COLA_ROWS[3:4]}, "no judgements in it"),
    ],
)
def test_cola_of_single_objects_refuses_what_it_is_not(tmp_path: Path, content: object, reason: str) -> None:
    file = tmp_path / "COLA_singleobjects_benchmark_GQA.json"
    write(file, content)
    with pytest.raises(CollectionError, match=reason) as fault:
        open_source(str(file), images="none")
    assert "labels and data" not in reason or "github.com/arijitray1993/COLA" in fault.value.hint


def aro(folder: Path) -> Path:
    row = {"image_path": "1.png", "bbox_x": 2, "bbox_y": 1, "bbox_w": 4, "bbox_h": 3,
           "true_caption": "the cup is on the mat", "false_caption": "the mat is on the cup"}  # fmt: skip
    write(folder / "visual_genome_relation.json", [{**row, "relation_name": "on"}])
    write(folder / "visual_genome_attribution.json", [{**row, "attributes": ["red", "white"]}])
    pixels = np.zeros((6, 8, 3), np.uint8)
    pixels[1:4, 2:6] = (0, 200, 0)
    (folder / "images").mkdir()
    Image.fromarray(pixels).save(folder / "images" / "1.png")
    return folder


def test_aro_shows_the_box_of_an_item(tmp_path: Path) -> None:
    source = open_source(str(aro(tmp_path / "aro")))
    assert isinstance(source, TaskFile)
    assert source.queries.ids.to_pylist() == ["visual_genome_attribution/0", "visual_genome_relation/0"]
    shown = ImageReader(source.queries).open(0)
    assert shown.size == (4, 3) and set(shown.getdata()) == {(0, 200, 0)}
    whole = open_source(f"{tmp_path / 'aro'}?crop=no")
    assert ImageReader(whole.queries).open(0).size == (8, 6)
    assert visir.check(str(tmp_path / "aro")).sizes == "4–4 × 3–3 pixels"  # what is checked is what is shown
    assert visir.check(str(tmp_path / "aro"), decode=False).ok
    assert source.labels is not None and source.labels["attributes"].to_pylist() == ["red_white", None]


def test_aro_order(tmp_path: Path) -> None:
    hard = {f"hard_text_{n}": f"wrong {n}" for n in (1, 2, 3, 4)}
    write(tmp_path / "coco_order.json", [{"image": "val2014/1.png", "correct_caption": "right", **hard}])
    picture(tmp_path / "1.png")
    source = open_source(str(tmp_path / "coco_order.json"))
    assert isinstance(source, TaskFile)
    task = source.task("i2t")
    assert task.pools is not None and len(task.pools.candidates("coco_order/0")) == 5


@pytest.mark.parametrize(
    "name", ["winoground", "sugarcrepe", "sugarcrepe-pp", "valse", "aro", "cola", "cola-single", "eqben"]
)
def test_a_wrong_layout_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path / "other.json", {"a": 1})
    place = tmp_path / "other.json" if name == "cola-single" else tmp_path
    with refused(CollectionError, "no") as fault:
        open_source(f"{name}:{place}")
    assert "http" in fault.value.hint


def test_a_faulty_record_is_named(tmp_path: Path) -> None:
    folder = sugarcrepe(tmp_path / "sc")
    write(folder / "add_obj.json", {"0": {"filename": "1.jpg", "caption": "a", "negative_caption": None}})
    with pytest.raises(CollectionError, match=r"add_obj.json, item 0: 'negative_caption' must be a text; there is no"):
        open_source(str(folder))


def test_real_files(data_dir: Path) -> None:
    published = {"existence": 505, "plurals": 851, "relations": 535, "action-replacement": 648, "actant-swap": 949,
                 "coreference-standard": 708, "coreference-hard": 104, "foil-it": 943}  # fmt: skip
    source = open_source(str(data_dir / "choice" / "valse"), images="none")
    assert isinstance(source, TaskFile) and source.labels is not None
    counts = {row["values"]: row["counts"] for row in source.labels["category"].value_counts().to_pylist()}
    assert {name: counts[name] for name in published} == published
    triplets = open_source(str(data_dir / "choice" / "sugarcrepe_pp"), images="none")
    assert isinstance(triplets, TaskSet)
    assert len(triplets.task("i2t").queries) == 788 + 1652 + 1406 + 666 + 245


def test_the_command_shows_chance_categories_and_notes(tmp_path: Path) -> None:
    folder = valse(tmp_path / "valse")
    model = "blind:scenes:30?size=64"
    arguments = ("--model", model, "--blind", "scenes:30?size=64", "--by", "category", "--out", tmp_path / "out")
    output = say(evaluate, folder, *arguments)
    assert output.status == 0, output.text
    for expected in ("all_first", "chance", "50.0", "plurals", "existence", "1 of 3 items not counted"):
        assert expected in output.text
    loaded = visir.open(tmp_path / "out")
    assert loaded.by("category").rows[0].label == "existence"
    assert (tmp_path / "out" / "report.html").is_file()
