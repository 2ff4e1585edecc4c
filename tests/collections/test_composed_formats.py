"""The benchmarks of composed retrieval, in the layouts of their makers, and with their real annotations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from composed_layouts import circo, cirr, fashioniq, write

import visir
from refusals import refused
from visir.errors import CollectionError
from visir.files import data_directory
from visir.records import TaskFile, TaskSet

REAL = data_directory() / "composed"


def opened(spec: object) -> TaskSet:
    source = visir.open(spec)
    assert isinstance(source, TaskSet)
    return source


def documents(source: TaskSet | TaskFile, task: str, split: str) -> list[str]:
    ids: list[str] = source.split(split).task(task).documents.ids.to_pylist()
    return sorted(ids)


@pytest.mark.parametrize("ending", [".json", ".json.xz"])
def test_fashioniq(tmp_path: Path, ending: str) -> None:
    source = opened(fashioniq(tmp_path / "fashion-iq", ending=ending))
    assert source.tasks == ("dress",)
    assert source.splits == ("test", "train", "val")
    task = source.split("val").task("dress")
    assert task.queries.modality == "text+image"
    assert task.queries.ids.to_pylist() == ["dress-val-0", "dress-val-1"]
    assert task.queries.texts is not None
    assert task.queries.texts.to_pylist() == ["is green and and longer", "is more yellow and brighter"]
    assert [row["path"] for row in task.queries.images.to_pylist()] == ["images/a.png", "images/c.png"]
    assert documents(source, "dress", "val") == list("abcdefg")
    assert task.judgements().to_dict() == {"dress-val-0": {"b": 1.0}, "dress-val-1": {"d": 1.0}}
    assert task.excluded is None
    assert "captions and, gallery split, reference candidate" in source.source
    assert source.split("test").task("dress").queries.texts.to_pylist() == ["is red"]  # type: ignore[union-attr]


def test_fashioniq_as_val_reads_it(tmp_path: Path) -> None:
    source = opened(f"fashioniq:{fashioniq(tmp_path)}?gallery=val&captions=each&reference=excluded")
    task = source.split("val").task("dress")
    assert documents(source, "dress", "val") == list("abcd")
    assert documents(source, "dress", "test") == list("aeg")  # its targets are not published
    assert task.queries.ids.to_pylist() == ["dress-val-0#0", "dress-val-0#1", "dress-val-1#0", "dress-val-1#1"]
    assert task.queries.texts.to_pylist() == ["is green", "and longer", "is more yellow", "brighter"]  # type: ignore[union-attr]
    assert task.excluded is not None
    assert task.excluded.candidates("dress-val-0#1") == ["a"]
    assert source.fingerprint != opened(f"fashioniq:{tmp_path}?captions=each").fingerprint


def test_cirr(tmp_path: Path) -> None:
    source = opened(cirr(tmp_path / "cirr"))
    assert source.tasks == ("it2i", "subset")
    assert source.splits == ("test1", "val")
    whole, subset = (source.split("val").task(name) for name in source.tasks)
    assert len(whole.documents) == 7
    assert whole.excluded is not None
    assert whole.excluded.candidates("7") == ["dev-0"]
    assert whole.pools is None
    assert subset.pools is not None
    assert subset.pools.candidates("7") == ["dev-1", "dev-2", "dev-3", "dev-4", "dev-5"]
    assert subset.excluded is None
    assert whole.judgements().to_dict() == {"7": {"dev-1": 1.0}, "8": {"dev-3": 1.0}}
    assert whole.labels is not None
    assert whole.labels["image"].to_pylist() == ["dev-0", "dev-2"]
    hidden = source.split("test1").task("it2i")
    assert len(hidden.judgements()) == 0
    assert hidden.queries.ids.to_pylist() == ["9"]


def test_cirr_with_the_reference_among_the_candidates(tmp_path: Path) -> None:
    source = opened(f"cirr:{cirr(tmp_path)}?reference=candidate").split("val")
    assert source.task("it2i").excluded is None
    assert len(source.task("subset").pools.candidates("7")) == 6  # type: ignore[union-attr]


def test_circo(tmp_path: Path) -> None:
    source = visir.open(circo(tmp_path / "CIRCO"))
    assert isinstance(source, TaskFile)
    task = source.split("val").task("it2i")
    assert len(task.documents) == 7
    assert task.judgements().to_dict() == {"val-0": {"2": 2.0, "3": 1.0, "4": 1.0}}
    assert task.labels is not None
    assert task.labels["addition"].to_pylist() == ["yes"]
    assert task.labels["negation"].to_pylist() == ["no"]
    assert task.queries.images.to_pylist()[0]["path"].endswith("000000000001.jpg")
    concept = visir.open(f"circo:{tmp_path}/CIRCO?text=concept&reference=excluded").split("val").task("it2i")
    assert concept.queries.texts.to_pylist() == ["a square that is green"]
    assert concept.excluded.candidates("val-0") == ["1"]


def test_published_measures_are_the_default(tmp_path: Path) -> None:
    taken = {
        "circo": ["capped_map@5", "capped_map@10", "capped_map@25", "capped_map@50",
                  "hit(rel=2)@5", "hit(rel=2)@10", "hit(rel=2)@25", "hit(rel=2)@50"],
        "fashioniq": ["hit@10", "hit@50"],
    }  # fmt: skip
    for name, make in (("circo", circo), ("fashioniq", fashioniq)):
        result = visir.evaluate(make(tmp_path / name), "pixels", split="val", compose="image").result
        (aggregates,) = result.aggregates.values()
        assert [measure for measure in aggregates if measure != "rsum"] == taken[name]
    result = visir.evaluate(cirr(tmp_path / "cirr"), "pixels", split="val", compose="image").result
    assert {"hit@1", "hit@2", "hit@3", "hit@5", "hit@10", "hit@50"} <= set(result.aggregates["subset"])
    assert "without 2 excluded documents of single queries" in result.protocol.galleries["it2i"]
    assert result.protocol.galleries["subset"].startswith("5 candidates per query")


def test_circo_needs_its_index(tmp_path: Path) -> None:
    folder = circo(tmp_path)
    (folder / "COCO2017_unlabeled/annotations/image_info_unlabeled2017.json").unlink()
    with refused(CollectionError, "image_info_unlabeled2017.json") as caught:
        visir.open(folder)
    assert "image_info_unlabeled2017.zip" in str(caught.value)
    assert len(visir.open(f"circo:{folder}?index=named").documents) == 5  # those that the annotations name
    file = folder / "annotations/val.json"
    write(file, [row | {"gt_img_ids": 5} for row in json.loads(file.read_text())])
    with refused(CollectionError, "val.json", "entry 1", "no gt_img_ids"):
        visir.open(f"circo:{folder}?index=named")


@pytest.mark.parametrize(
    ("make", "file", "message", "where"),
    [
        (fashioniq, "captions/cap.dress.val.json", "no split.dress", "XiaoxiaoGuo/fashion-iq"),
        (cirr, "image_splits/split.rc2.val.json", "no split.rc2.val.json", "Cuberick-Orion/CIRR"),
    ],
)
def test_a_wrong_layout_is_refused(tmp_path: Path, make, file: str, message: str, where: str) -> None:
    folder = make(tmp_path)
    (folder / file).unlink()
    if make is fashioniq:
        (folder / "image_splits/split.dress.test.json").unlink()
    with refused(CollectionError, code="not-layout") as caught:
        visir.open(folder)
    assert message in str(caught.value)
    assert where in str(caught.value)


@pytest.mark.parametrize("name", ["fashioniq", "cirr", "circo"])
def test_an_empty_folder_says_what_is_missing(tmp_path: Path, name: str) -> None:
    with refused(CollectionError, name, code="not-layout") as caught:
        visir.open(f"{name}:{tmp_path}")
    assert "get it: git clone" in str(caught.value)


def test_faults_are_named(tmp_path: Path) -> None:
    folder = cirr(tmp_path)
    file = folder / "captions/cap.rc2.val.json"
    rows = json.loads(file.read_text())
    rows[0]["target_hard"] = "dev-6"
    rows[1]["reference"] = "nowhere"
    write(file, [*rows, {"pairid": 9}, rows[0] | {"img_set": None}])
    with pytest.raises(CollectionError) as caught:
        visir.open(folder)
    for fault in (
        "cap.rc2.val.json, entry 1: the target 'dev-6' of query '7' is not in its subset",
        "cap.rc2.val.json, entry 2: picture 'nowhere' of query '8' is not in the gallery of val",
        "cap.rc2.val.json, entry 3: no reference, caption",
        "cap.rc2.val.json, entry 4: no img_set.members",
    ):
        assert fault in str(caught.value)


def test_checking_looks_at_every_task(tmp_path: Path) -> None:
    report = visir.check(cirr(tmp_path))
    assert report.ok
    assert report.counts["subset queries"] == 3
    (tmp_path / "img_raw/dev/dev-5.png").write_bytes(b"broken")
    report = visir.check(tmp_path)
    assert not report.ok
    assert "dev-5" in str(report.findings)


def test_each_split_has_its_own_gallery(tmp_path: Path) -> None:
    with refused(CollectionError, code="each-split-searched-documents") as caught:
        visir.evaluate(cirr(tmp_path), "pixels", compose="image")
    assert "split='val'" in str(caught.value)


@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/data/composed")
def test_the_real_annotations_of_fashioniq() -> None:
    source = opened(REAL / "fashion-iq")
    union = opened(f"fashioniq:{REAL / 'fashion-iq'}?gallery=val")
    sizes = {"dress": (2_017, 3_817, 2_628), "shirt": (2_038, 6_346, 3_089), "toptee": (1_961, 5_373, 2_902)}
    for name, (queries, images, named) in sizes.items():
        task = source.split("val").task(name)
        assert (len(task.queries), len(task.documents), len(task.measured_queries())) == (queries, images, queries)
        assert len(union.split("val").task(name).documents) == named  # the sizes that papers state for VAL's protocol
    assert "not the full distribution" not in source.source
    with refused(CollectionError, "dress", code="no-judgements-task-nothing"):
        visir.evaluate(source, "pixels", split="test", compose="image")


@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/data/composed")
def test_the_real_annotations_of_circo() -> None:
    source = visir.open(f"circo:{REAL / 'circo'}?index=named")
    task = source.split("val").task("it2i")
    assert len(task.queries) == 220
    assert len(task.judgements().documents) == 916
    assert len(source.split("test").queries) == 800
    assert "not the full distribution: 1,903 images (published: 123,403)" in source.source


def test_fashioniq_counts_what_has_no_target_and_what_stands_twice(tmp_path: Path) -> None:
    file = fashioniq(tmp_path) / "captions/cap.dress.val.json"
    rows = json.loads(file.read_text())
    write(file, [*rows, rows[0], {"candidate": "e", "captions": ["is red", ""]}])
    source = opened(tmp_path)
    assert "cap.dress.val.json: 1 query without a target, not measured" in source.source
    assert "cap.dress.val.json: 1 query repeat another one" in source.source
    assert len(source.split("val").task("dress").judgements()) == 3
