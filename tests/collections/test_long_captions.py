"""DOCCI, DCI and Urban1k, in the layouts of their makers."""

from __future__ import annotations

import orjson
import pytest

from refusals import refused
from visir.collections import open_collection
from visir.errors import CollectionError


def _lines(*rows: object) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def test_docci(write, tmp_path) -> None:
    rows = [
        {"example_id": "train_00000", "split": "train", "image_file": "train_00000.jpg", "description": "A long text."},
        {"example_id": "test_00000", "split": "test", "image_file": "test_00000.jpg", "description": "Another."},
        {"example_id": "qual_dev_00000", "split": "train", "image_file": "qual_dev_00000.jpg", "description": "One."},
    ]
    write("docci/docci_descriptions.jsonlines", _lines(*rows))
    write("docci/docci_metadata.jsonlines", _lines({"example_id": "train_00000", "color": []}))
    write("docci/images/test_00000.jpg", b"not looked into")
    docci = open_collection(tmp_path / "docci")
    assert docci.name == "DOCCI"
    assert dict(zip(docci.images["id"].to_pylist(), docci.images["split"].to_pylist(), strict=True)) == {
        "train_00000": "train", "test_00000": "test", "qual_dev_00000": "qual_dev"}  # fmt: skip
    assert docci.split("test").images["path"].to_pylist() == ["images/test_00000.jpg"]
    assert docci.captions["text"].to_pylist() == ["A long text.", "Another.", "One."]
    assert "1 image of train (published: 9,647)" in docci.source


def test_docci_names_what_is_missing(write, tmp_path) -> None:
    write("empty/readme.txt", "nothing")
    with refused(CollectionError, "docci_descriptions.jsonlines") as caught:
        open_collection(f"docci:{tmp_path / 'empty'}")
    assert "https://storage.googleapis.com/docci/data/" in str(caught.value.hint)
    file = write("docci_descriptions.jsonlines", _lines({"example_id": "test_00000", "image_file": "a.jpg"}))
    with refused(CollectionError, "docci_descriptions.jsonlines", "line 1", "no 'description'"):
        open_collection(f"docci:{file}")


def _dci(write, **entry: object) -> None:
    mask = {"label": "Hat", "caption": "A red hat.", "mask_quality": 0}
    first = {
        "image": "sa_1.jpg",
        "short_caption": "A man.",
        "extra_caption": "He waves.",
        "mask_data": {"0": mask, "1": {**mask, "mask_quality": 1}, "2": {**mask, "mask_quality": 2}},
        "summaries": {"base": ["A man with a hat.", "A waving man."], "m-0-sc": "a hat"},
        **entry,
    }
    write("dci/annotations/sa_1.json", first)
    write("dci/annotations/sa_2.json", {"image": "sa_2.jpg", "short_caption": "A cat.", "extra_caption": ""})
    write("dci/splits.json", {"train": ["sa_1.json"], "valid": ["sa_2.json"], "test": []})


@pytest.mark.parametrize(
    ("text", "captions"),
    [
        ("extended", ["A man.\nHe waves.", "A cat."]),
        ("short", ["A man.", "A cat."]),
        ("complete", ["A man.\nHe waves.\nHat: A red hat.\nHat", "A cat."]),
        ("summary", ["A man with a hat."]),
        ("summaries", ["A man with a hat.", "A waving man."]),
    ],
)
def test_dci(write, tmp_path, text: str, captions: list[str]) -> None:
    _dci(write)
    dci = open_collection(tmp_path / "dci", text=text)
    assert dci.captions["text"].to_pylist() == captions
    assert dci.images["split"].to_pylist() == ["train", "val"][: len(dci)]
    assert ("1 photo without" in dci.source) == text.startswith("summar")


def test_dci_of_the_folder_above_and_without_summaries(write, tmp_path) -> None:
    write("all/densely_captioned_images/complete/a.json", {"image": "a.jpg", "short_caption": "A boat."})
    write("all/densely_captioned_images/splits.json", {"test": ["a.json"]})
    write("all/densely_captioned_images/photos/a.jpg", b"-")
    assert open_collection(tmp_path / "all").images["path"].to_pylist() == ["photos/a.jpg"]
    with refused(CollectionError, "summary", code="no-photo") as caught:
        open_collection(tmp_path / "all", text="summary")
    assert "folder complete/" in str(caught.value.hint)


def test_dci_names_what_is_missing(write, tmp_path) -> None:
    write("other/photos/a.jpg", b"-")
    with refused(CollectionError, "annotations/", "complete/", "no splits.json") as caught:
        open_collection(f"dci:{tmp_path / 'other'}")
    assert "dci.tar.gz" in str(caught.value.hint)
    _dci(write, image=None)
    with refused(CollectionError, "sa_1.json", "no 'image'"):
        open_collection(tmp_path / "dci")


def test_urban1k(write, tmp_path) -> None:
    for number in (1, 2, 10):
        write(f"Urban1k/image/{number}.jpg", b"-")
        write(f"Urban1k/caption/{number}.txt", f"A street, {number}.\n")
    urban = open_collection(tmp_path / "Urban1k")
    assert urban.images.to_pylist()[2] == {"id": "10.jpg", "path": "image/10.jpg", "archive": None, "split": "test"}
    assert urban.captions["text"].to_pylist() == ["A street, 1.", "A street, 2.", "A street, 10."]
    assert "3 images (published: 1,000)" in urban.source


def test_urban1k_names_what_is_missing(write, tmp_path) -> None:
    write("Urban1k/image/1.jpg", b"-")
    with refused(CollectionError, "urban1k", "no folder caption/", code="not-layout") as caught:
        open_collection(f"urban1k:{tmp_path / 'Urban1k'}")
    assert "huggingface.co/datasets/BeichenZhang/Urban1k" in str(caught.value.hint)
    write("Urban1k/caption/2.txt", "x")
    with pytest.raises(CollectionError, match=r"caption/1.txt is missing; image/2.jpg is missing|2 faults|is missing"):
        open_collection(tmp_path / "Urban1k")
