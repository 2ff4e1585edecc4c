"""`check`: everything wrong, at once, also where a collection could not be built."""

from __future__ import annotations

import pytest
from toys import jpeg, karpathy

import visir
from visir.collections import open_collection, portable
from visir.collections.check import Report, check, inspect
from visir.records import Collection


def told(report: Report) -> dict[str, tuple[str, int]]:
    return {finding.kind: (finding.level, finding.count) for finding in report.findings}


def test_a_sound_collection(write) -> None:
    path = write("d.json", karpathy())
    write("a.jpg", jpeg("red"))
    write("b.jpg", jpeg("blue", (20, 30), "PNG"))
    report = check(str(path))
    assert report.ok
    assert report.findings == []
    assert (report.counts, report.decoded) == ({"images": 2, "captions": 4}, 2)
    assert report.captions_per_image == {2: 2}
    assert report.formats == {"JPEG": 1, "PNG": 1}
    assert report.sizes == "12–20 × 8–30 pixels"


def test_everything_at_once_where_a_collection_is_refused(write) -> None:
    content = karpathy()
    first, second = content["images"]
    second["filename"] = "a.jpg"  # a duplicate image id
    second["sentences"][0]["sentid"] = 0  # a duplicate caption id
    del second["sentences"][1]["raw"]
    first["sentences"][0]["raw"] = "\ufffd"
    first["sentences"][1]["raw"] = "  "
    content["images"].append({"filename": "c.jpg", "imgid": 2, "split": "x", "sentences": []})
    content["images"].append({"filename": "d.jpg", "imgid": 3, "split": "x", "sentences": []})
    path = write("d.json", content)
    write("a.jpg", jpeg()[:-30])
    write("c.jpg", jpeg())
    report = check(str(path))
    assert not report.ok
    assert told(report) == {
        "faults of the source": ("error", 1),
        "image ids that occur more than once": ("error", 1),
        "caption ids that occur more than once": ("error", 1),
        "images without captions": ("note", 2),
        "captions with the replacement character U+FFFD (lost when somebody decoded them)": ("warning", 1),
        "empty captions": ("warning", 1),
        "captions with white space at an end": ("note", 1),
        "images without a picture": ("error", 1),
        "pictures that cannot be read": ("error", 1),
    }
    examples = {finding.kind: finding.examples for finding in report.findings}
    assert examples["images without a picture"] == ("'d.jpg'",)
    assert "image 'a.jpg': broken or truncated image" in examples["pictures that cannot be read"][0]
    assert examples["image ids that occur more than once"] == ("'a.jpg' × 2",)


def test_captions_without_image_and_null_texts(write) -> None:
    lines = {"images": [{"id": 1, "file_name": "a"}], "annotations": [{"id": 1, "image_id": 2, "caption": "x"}]}
    report = check(str(write("captions.json", lines)))
    assert told(report)["captions of images that are not there"] == ("error", 1)


def test_what_cannot_be_read_at_all(write) -> None:
    report = check(str(write("d.json", b'{"images": [{"sentids": ')))
    assert [finding.kind for finding in report.findings] == ["cannot be read"]
    assert "not valid JSON" in report.findings[0].examples[0]
    assert not report.ok


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("caf\u00c3\u00a9", "captions that look like UTF-8 read as Windows-1252 (“cafÃ©”)"),
        ("it\u00e2\u20ac\u2122s", "captions that look like UTF-8 read as Windows-1252 (“cafÃ©”)"),
        ("it\x92s", "captions with control characters (U+0080–U+009F are Windows-1252 read as Latin-1)"),
        ("a\x00b", "captions with control characters (U+0080–U+009F are Windows-1252 read as Latin-1)"),
        ("\ue001", "captions with private-use characters, which no font knows"),
        ("a\nb", "captions with line breaks or tabs inside"),
        ("cafe\u0301", "captions not in Unicode's composed form (NFC)"),
    ],
)
def test_odd_characters(text: str, expected: str) -> None:
    made = Collection.build(
        "toy", images={"id": ["1"]}, captions={"id": ["x", "y"], "text": [text, "sound"], "image_id": ["1", "1"]}
    )
    assert told(check(made)).get(expected, ("", 0))[1] == 1


@pytest.mark.parametrize(
    "text", ["שלום עולם", "🐕\u200d🦺 a dog", "naïve café", "Ça, é à", "“quoted” – yes…", "ÃO", "雪"]
)
def test_good_text_of_any_script_is_not_odd(text: str) -> None:
    made = Collection.build("toy", images={"id": ["1"]}, captions={"id": ["x"], "text": [text], "image_id": ["1"]})
    assert set(told(check(made))) == {"images without a picture (all: metadata only)"}


def test_repeated_captions() -> None:
    made = Collection.build(
        "toy",
        images={"id": ["1", "2", "3"]},
        captions={"id": list("abcd"), "text": ["dog", "dog", "dog", "cat"], "image_id": ["1", "1", "2", "3"]},
    )
    found = {finding.kind: finding for finding in check(made).findings}
    assert found["captions that an image has twice"].examples == ("'1': “dog” × 2",)
    several = next(one for what, one in found.items() if what.startswith("texts that several images have"))
    assert several.examples == ("“dog” at 2 images",)


def test_twins_within_and_across_splits(write, tmp_path) -> None:
    for name, colour in {"test/a": "red", "train/b": "red", "train/c": "blue", "train/d": "blue"}.items():
        write(f"p/{name}.jpg", jpeg(colour))
    report = check(str(tmp_path / "p"))
    assert report.ok
    found = {finding.kind: finding.examples for finding in report.findings}
    assert found["same picture in several splits"] == ("'test/a.jpg' = 'train/b.jpg'",)
    assert found["same picture (byte for byte) under several ids"] == ("'train/c.jpg' = 'train/d.jpg'",)


def test_without_decoding_only_presence_is_looked_at(write, tmp_path) -> None:
    path = write("d.json", karpathy())
    write("a.jpg", b"no picture")
    write("b.jpg", jpeg())
    assert check(str(path), decode=False).ok
    assert not check(str(path)).ok
    portable.save(open_collection(path), tmp_path / "p", "link")
    (tmp_path / "b.jpg").unlink()
    report = check(str(tmp_path / "p"), decode=False)
    assert told(report) == {"pictures that are not where they should be": ("error", 1)}


def test_judgements_about_nothing() -> None:
    made = Collection.build(
        "toy",
        images={"id": ["1"]},
        captions={"id": ["x"], "text": ["t"], "image_id": ["1"]},
        judgements={
            "relevance": ["r", "r"],
            "task": ["both", "t2i"],
            "caption_id": ["x", "gone"],
            "image_id": ["1", "1"],
            "grade": [1, 1],
        },
    )
    assert told(check(made))["judgements about images or captions that are not there"] == ("warning", 1)


def test_inspect(write) -> None:
    content = karpathy("train")
    content["images"][1]["split"] = "test"
    content["images"][1]["sentences"].append({"raw": "three words here", "sentid": 9, "imgid": 1})
    content["images"].append({"filename": "c.jpg", "imgid": 2, "split": "test", "sentences": []})
    found = inspect(open_collection(write("d.json", content), images="none"), examples=2)
    by_name = {one.name: one for one in found.splits}
    assert list(by_name) == ["test", "train", "all"]
    test = by_name["test"]
    assert (test.images, test.pictures, test.captions) == (2, 0, 3)
    assert test.captions_per_image == (0, 1.5, 3)
    assert test.words == (2, 2.0, 3)
    assert [(one.task, one.queries, one.positives) for one in found.relevances] == [("i2t", 2, 5), ("t2i", 5, 5)]
    assert dict(found.examples) == {"a.jpg": ("a 0", "a 1"), "b.jpg": ("b 0", "b 1", "three words here")}


def test_inspect_without_captions(write, tmp_path) -> None:
    write("p/a.jpg", jpeg())
    found = inspect(open_collection(tmp_path / "p"))
    assert found.relevances == ()
    assert found.examples == (("a.jpg", ()),)


def test_objects_are_checked_as_paths_are() -> None:
    report = visir.check(visir.open("scenes:3?size=64"))
    assert report.ok and report.counts == {"images": 3, "captions": 15}
    listed = visir.check([("here/a.jpg", "a dog"), ("here/b.jpg", "")])
    assert not listed.ok
    assert {finding.level for finding in listed.findings} >= {"error"}
    assert len(repr(listed).splitlines()) <= 6
    assert "captions without text" in listed.to_markdown() or "cannot be read" in listed.to_markdown()
    assert "<table" in (listed._repr_html_() or "")
    missing = visir.check("no/such/folder")
    assert [finding.kind for finding in missing.findings] == ["cannot be read"]


def test_what_is_no_collection_is_named() -> None:
    (finding,) = visir.check(3).findings
    assert finding.kind == "cannot be read" and "int" in finding.examples[0]
