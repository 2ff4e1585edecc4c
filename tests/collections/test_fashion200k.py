"""Fashion200k in a small folder of the official layout, and with the real metadata of 5,000 of its pictures."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import jpeg

from refusals import refused
from visir.collections import open_collection
from visir.collections.draft import Draft
from visir.collections.shop_layouts import judge_groups
from visir.errors import CollectionError
from visir.evaluation.assembly import choose
from visir.files import read_json

DRESS = "women/dresses/casual_and_day_dresses/57996836/57996836"
TOP = "women/tops/blouses/88/88"
LABELS = {
    "dress_train_detect_all.txt": f"{DRESS}_0.jpeg\t-1.780000\tblack short dress\n"
    f"{DRESS}_9.jpeg\t-4.570000\tblack short dress\n",
    "dress_test_detect_all.txt": "women/dresses/prom/90/90_0.jpeg\t0.25\tsilver lam\u00e9 gown\r\n",
    "top_train_detect_all.txt": f"{TOP}_1.jpeg\t-2.0\tgray women's top\t",  # a tab in the text, no last line end
    "top_test_detect_all.txt": "",
}
DETECTION = {
    "women_dress_detection.txt": f"{DRESS}_0.jpeg\tskirt_-4.86_0.35_0.74_0.54_0.86\tdress_-1.78_0.23_0.74_-0.02_0.86\n"
    f"{DRESS}_9.jpeg\tdress_-9.99_0.1_0.2_0.3_0.4\n"
    "women/dresses/not/in/labels_0.jpeg\tdress_-12.26_-0.00_0.41_0.00_1.02\n"
    "women/dresses/nothing/seen_0.jpeg\n",
}


@pytest.fixture
def folder(write, tmp_path) -> Path:
    for name, text in LABELS.items():
        write(f"labels/{name}", text)
    for name, text in DETECTION.items():
        write(f"detection/{name}", text)
    for name in (f"{DRESS}_0.jpeg", f"{DRESS}_9.jpeg", "women/dresses/prom/90/90_0.jpeg"):
        write(name, jpeg())
    return tmp_path


def test_the_official_layout(folder) -> None:
    found = open_collection(folder)
    assert found.describe()["splits"] == {"test": 1, "train": 3}
    assert found.images.select(["id", "path"]).to_pylist()[:2] == [
        {"id": "women/dresses/prom/90/90_0.jpeg", "path": "women/dresses/prom/90/90_0.jpeg"},
        {"id": f"{DRESS}_0.jpeg", "path": f"{DRESS}_0.jpeg"},
    ]
    assert found.images["path"].to_pylist()[3] is None  # listed, but absent
    assert found.captions.to_pylist()[0] == {
        "id": "women/dresses/prom/90/90_0.jpeg#0",
        "text": "silver lam\u00e9 gown",
        "image_id": "women/dresses/prom/90/90_0.jpeg",
    }
    assert found.captions["text"].to_pylist()[3] == "gray women's top\t"
    assert "3 train images (published: 172,049), 1 test image (published: 29,789)" in found.source
    assert open_collection(folder / "labels").fingerprint == found.fingerprint


def test_the_product_is_known(folder) -> None:
    facts = open_collection(folder).facts
    assert facts.column_names == ["image_id", "product_id", "category", "folder", "score"]
    assert facts["product_id"].to_pylist() == ["90", "57996836", "57996836", "88"]
    assert facts["category"].to_pylist() == ["dress", "dress", "dress", "top"]
    assert facts["folder"].to_pylist()[3] == "tops/blouses"
    assert facts["score"].to_pylist()[1] == -1.78


def test_the_box_is_the_one_whose_score_is_labelled(folder) -> None:
    rows = open_collection(f"{folder}?boxes=yes").facts.to_pylist()
    boxes = [(row["box"], row["x_min"], row["x_max"], row["y_min"], row["y_max"]) for row in rows]
    nothing = (None,) * 5
    assert boxes == [nothing, ("dress", 0.23, 0.74, -0.02, 0.86), nothing, nothing]


def test_a_picture_listed_twice(folder, write) -> None:
    again = f"{DRESS}_0.jpeg\t-1.8\tblack short dress\n{DRESS}_0.jpeg\t-1.8\tlong\n"
    write("labels/skirt_test_detect_all.txt.gz", gzip.compress(again.encode()))
    found = open_collection(folder)
    assert found.describe()["splits"] == {"test": 2, "train": 2}
    texts = {row["id"]: row["text"] for row in found.captions.to_pylist()}
    assert texts[f"{DRESS}_0.jpeg#0"] == "black short dress"
    assert texts[f"{DRESS}_0.jpeg#1"] == "long"
    assert "2 lines list a picture again" in found.source  # in the test file, and in the train file


def test_all_pictures_of_a_product_are_right(folder, write) -> None:
    """Dress 57996836 has pictures 0 and 9, one description each; picture 9 gets a second one.

    Its three captions have two positives each, its two pictures three; gown and top have one of each: 2 · 3 + 1 + 1 = 8
    pairs. The gown's words are then also those of another product, which stays wrong.
    """
    again = f"{DRESS}_9.jpeg\t-4.57\tlong\nwomen/dresses/prom/91/91_0.jpeg\t0.5\tsilver lam\u00e9 gown\n"
    write("labels/skirt_train_detect_all.txt", again)
    plain, found = open_collection(folder), open_collection(f"fashion200k:{folder}?relevance=yes")
    assert plain.relevances == ("links",) and found.relevances == ("links", "product")
    gown, other = (f"women/dresses/prom/{n}/{n}_0.jpeg" for n in (90, 91))
    both = {f"{DRESS}_0.jpeg": 1.0, f"{DRESS}_9.jpeg": 1.0}
    assert found.qrels("t2i", "product").to_dict() == {
        f"{DRESS}_0.jpeg#0": both,
        f"{DRESS}_9.jpeg#0": both,
        f"{DRESS}_9.jpeg#1": both,
        f"{gown}#0": {gown: 1.0},
        f"{other}#0": {other: 1.0},
        f"{TOP}_1.jpeg#0": {f"{TOP}_1.jpeg": 1.0},
    }
    captions = {f"{DRESS}_0.jpeg#0": 1.0, f"{DRESS}_9.jpeg#0": 1.0, f"{DRESS}_9.jpeg#1": 1.0}
    assert found.qrels("i2t", "product").to_dict() == {
        f"{DRESS}_0.jpeg": captions,
        f"{DRESS}_9.jpeg": captions,
        gown: {f"{gown}#0": 1.0},
        other: {f"{other}#0": 1.0},
        f"{TOP}_1.jpeg": {f"{TOP}_1.jpeg#0": 1.0},
    }
    assert found.split("test").qrels("t2i", "product").to_dict() == {f"{gown}#0": {gown: 1.0}}
    with refused(CollectionError, "option relevance=", "product", hint=False):
        open_collection(folder, relevance="product")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=1, max_size=12))
def test_groups_are_judged_as_by_two_loops(images: list[tuple[str, int]]) -> None:
    """Images in any order of groups, with 0 to 3 captions each, against every caption beside every image."""
    draft = Draft("toy", Path(), "toy")
    for number, (_, captions) in enumerate(images):
        draft.add_image(f"i{number}", None)
        for one in range(captions):
            draft.add_caption(f"i{number}#{one}", "text", f"i{number}")
    group = {f"i{number}": name for number, (name, _) in enumerate(images)}
    pairs = zip(draft.caption_ids, draft.caption_images, strict=True)
    expected = [("g", "both", text, i, 1.0) for text, own in pairs for i in draft.ids if group[i] == group[own]]
    found = judge_groups(draft, list(group.values()), "g")
    assert [tuple(row.values()) for row in found.to_pylist()] == expected


def test_every_fault_is_named_at_once(folder, write) -> None:
    write("labels/top_train_detect_all.txt", "women/a/1/1_0.jpeg\t0.1\nwomen/a/1/1_0.jpeg\thigh\tred\n\na.jpeg\t0\tb\n")
    write("detection/women_top_detection.txt", "women/a/1/1_0.jpeg\ttop_0.1_0.2\n")
    with pytest.raises(CollectionError) as caught:
        open_collection(folder, boxes="yes")
    assert r"top_train_detect_all.txt, line 1: expected women/…/PRODUCT/NAME.jpeg, score and text" in str(caught.value)
    assert "top_train_detect_all.txt, line 2: expected a detection score, found 'high'" in str(caught.value)
    assert "top_train_detect_all.txt, line 4: expected women/…" in str(caught.value)
    assert "women_top_detection.txt, line 1: expected category_score_xMin_xMax_yMin_yMax" in str(caught.value)


def test_missing_parts_name_what_to_get(folder, tmp_path) -> None:
    (folder / "detection" / "women_dress_detection.txt").unlink()
    with refused(CollectionError, code="no-detection-txt-boxes"):
        open_collection(folder, boxes="yes")
    with refused(CollectionError, code="no-labels-train-detect"):
        open_collection(f"fashion200k:{tmp_path / 'women'}")
    with refused(CollectionError, "option boxes=", "maybe", hint=False):
        open_collection(folder, boxes="maybe")


def test_real_metadata(data_dir: Path, write, tmp_path) -> None:
    """The paths, descriptions and splits of 5,000 pictures, put back into label files; only the scores are made up."""
    manifest = data_dir / "fashion200k_manifest" / "manifest_5000.json.xz"
    if not manifest.is_file():
        pytest.skip(f"no {manifest}")
    items = read_json(manifest)["items"]
    files: dict[str, list[str]] = defaultdict(list)
    for item in items:
        name = f"{item['category']}_{item['split']}_detect_all.txt"
        files[name].append(f"{item['id']}\t-{len(files[name]) % 7}.500000\t{item['title']}\n")
    for name, lines in files.items():
        write(f"labels/{name}", "".join(lines))
    found = open_collection(tmp_path, images="none", relevance="yes")
    assert found.describe()["splits"] == {"test": 733, "train": 4267}
    texts = {row["image_id"]: row["text"] for row in found.captions.to_pylist()}
    assert texts == {item["id"]: item["title"] for item in items}
    facts = found.facts
    assert len(set(facts["product_id"].to_pylist())) == 4810
    assert len(set(facts["folder"].to_pylist())) == 31
    splits: dict[str, set[str]] = defaultdict(set)
    descriptions: dict[str, set[str]] = defaultdict(set)
    for fact, split in zip(facts.to_pylist(), found.images["split"].to_pylist(), strict=True):
        splits[fact["product_id"]].add(split)
        descriptions[fact["product_id"]].add(texts[fact["image_id"]])
    assert {len(one) for one in splits.values()} == {1}  # no product is in both splits
    assert {len(one) for one in descriptions.values()} == {1}  # all pictures of a product bear one description
    assert choose(found, "random(seed=0)").fingerprint == found.fingerprint  # one caption each: nothing to choose
    # 182 products have two of these pictures and four have three: 4,624 + 182 · 2² + 4 · 3² pairs.
    assert Counter(Counter(facts["product_id"].to_pylist()).values()) == {1: 4624, 2: 182, 3: 4}
    for task in ("t2i", "i2t"):
        qrels = found.qrels(task, "product")
        assert (len(qrels), qrels.positives.sum(), qrels.positives.max()) == (5000, 5388, 3)
    assert found.split("test").qrels("t2i", "product").positives.min() == 1
