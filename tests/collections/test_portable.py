"""One folder, read back identical; what is missing or altered is named."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toys import jpeg, karpathy

from manifests import seal
from refusals import refused
from visir.collections import open_collection, portable
from visir.collections.images import ImageReader
from visir.errors import CollectionError, ImageError, VisirError
from visir.records import Collection

TABLES = ("images", "captions", "judgements", "facts", "caption_facts")
text = st.text(st.characters(codec="utf-8"), max_size=30)
names = st.lists(text.filter(bool), min_size=1, max_size=6, unique=True)


@st.composite
def collections(draw: st.DrawFn) -> Collection:
    images = draw(names)
    captions = draw(st.lists(text.filter(bool), max_size=8, unique=True))
    of = [draw(st.sampled_from(images)) for _ in captions]
    pairs = (
        draw(st.lists(st.tuples(st.sampled_from(captions), st.sampled_from(images)), unique=True)) if captions else []
    )
    return Collection.build(
        draw(text),
        images={"id": images, "split": [draw(st.sampled_from(["", "train", "é/\n"])) for _ in images]},
        captions={"id": captions, "text": [draw(text) for _ in captions], "image_id": of},
        judgements={
            "relevance": [draw(text) for _ in pairs],
            "task": [draw(st.sampled_from(["t2i", "i2t", "both"])) for _ in pairs],
            "caption_id": [caption for caption, _ in pairs],
            "image_id": [image for _, image in pairs],
            "grade": [draw(st.floats(0, 5, width=32)) for _ in pairs],
        },
        source=draw(text),
        facts=pa.table({"image_id": images, "k": [draw(st.none() | st.integers(-9, 9)) for _ in images]}),
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(collections())
def test_any_collection_comes_back_identical(tmp_path: Path, made: Collection) -> None:
    folder = tmp_path / "portable"
    portable.save(made, folder, "none", replace=True)
    back = portable.load(folder)
    assert back.fingerprint == made.fingerprint
    assert (back.name, back.source) == (made.name, made.source)
    for name in ("captions", "judgements", "facts"):
        assert getattr(back, name).equals(getattr(made, name))
    assert back.images.select(["id", "split"]).equals(made.images.select(["id", "split"]))


@pytest.fixture
def toy(write) -> Collection:
    write("source/a.jpg", jpeg("red"))
    write("source/deep.zip", {"x/b.jpg": jpeg("blue")})
    return open_collection(write("source/d.json", karpathy()))


@pytest.mark.parametrize("way", ["copy", "link"])
def test_pictures_are_copied_or_linked(toy, tmp_path, way) -> None:
    before = [ImageReader(toy).read(row) for row in (0, 1)]
    saved = portable.save(toy, tmp_path / "p", way)
    back = open_collection(tmp_path / "p")
    for one in (saved, back):
        assert [ImageReader(one).read(row) for row in (0, 1)] == before
        assert one.fingerprint == toy.fingerprint
    if way == "copy":  # the folder may be moved, and needs nothing else
        shutil.move(tmp_path / "p", tmp_path / "moved")
        shutil.rmtree(tmp_path / "source")
        moved = open_collection(tmp_path / "moved")
        assert [ImageReader(moved).read(row) for row in (0, 1)] == before
    else:
        assert not list((tmp_path / "p").glob("*.zip"))


def test_shards_are_cut_and_the_same_bytes_every_time(toy, tmp_path) -> None:
    for name in ("p", "q"):
        portable.save(toy, tmp_path / name, shard_bytes=1)
    assert sorted(path.name for path in (tmp_path / "p").glob("*.zip")) == ["images-00000.zip", "images-00001.zip"]
    for path in (tmp_path / "p").iterdir():
        assert path.read_bytes() == (tmp_path / "q" / path.name).read_bytes(), path.name


def test_equal_file_names_are_kept_apart(write, tmp_path) -> None:
    for n, colour in enumerate(("red", "blue")):
        write(f"photos/{n}/same.jpg", jpeg(colour))
    made = open_collection(tmp_path / "photos")
    back = portable.save(made, tmp_path / "p")
    assert [ImageReader(back).read(row) for row in (0, 1)] == [ImageReader(made).read(row) for row in (0, 1)]


def test_scenes_are_rendered_or_stay_scenes(tmp_path) -> None:
    made = open_collection("scenes:4?size=64")
    drawn = [ImageReader(made).open(row).tobytes() for row in range(4)]
    for way in ("copy", "link"):
        portable.save(made, tmp_path / way, way)
        back = open_collection(tmp_path / way)
        assert [ImageReader(back).open(row).tobytes() for row in range(4)] == drawn
        assert back.facts.schema.equals(made.facts.schema, check_metadata=True)
        assert back.facts.equals(made.facts)
        assert back.caption_facts.equals(made.caption_facts)


def test_pictures_that_cannot_be_copied_are_all_named_and_nothing_is_left(toy, tmp_path) -> None:
    (tmp_path / "source" / "a.jpg").unlink()
    (tmp_path / "source" / "deep.zip").unlink()
    with pytest.raises(ImageError) as caught:
        portable.save(toy, tmp_path / "p")
    assert "images that cannot be copied (2 faults)" in str(caught.value)
    assert "image 'b.jpg' (x/b.jpg in deep.zip): " in str(caught.value)
    assert "deep.zip: no such archive" in str(caught.value)
    assert "image 'a.jpg': cannot be read" in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_an_existing_folder_is_kept_unless_asked(toy, tmp_path) -> None:
    portable.save(toy, tmp_path / "p")
    with refused(VisirError, code="exists-already-folder-kind"):
        portable.save(toy, tmp_path / "p")
    portable.save(toy, tmp_path / "p", "none", replace=True)
    assert portable.load(tmp_path / "p").images["path"].null_count == 2
    with refused(CollectionError, "copi", "copy", "link", "none", code="choose-one", hint=False):
        portable.save(toy, tmp_path / "q", "copi")


def test_everything_missing_or_altered_is_named_at_once(toy, tmp_path) -> None:
    folder = tmp_path / "p"
    portable.save(toy, folder)
    data = bytearray((folder / "captions.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "captions.parquet").write_bytes(data)
    (folder / "judgements.parquet").unlink()
    os.truncate(folder / "images-00000.zip", 10)
    with pytest.raises(CollectionError) as caught:
        portable.load(folder)
    assert "captions.parquet is not the file that was written" in str(caught.value)
    assert "judgements.parquet is missing" in str(caught.value)
    assert "images-00000.zip has 10 bytes, not" in str(caught.value)
    (folder / "images-00000.zip").unlink()
    with pytest.raises(CollectionError, match=r"images-00000\.zip is missing: the pictures in it are lost"):
        portable.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": "0" * 32}, "the fingerprint is .*, but collection.json says 0000"),
        ({"version": 99}, r"newer visir \(visir collection, version 99; this one reads 1\)"),
        ({"kind": "other"}, "not the card of a visir collection"),
        ({"tables": {}}, "captions, images, judgements missing or wrong"),
    ],
)
def test_a_wrong_card(toy, tmp_path, change, message: str) -> None:
    portable.save(toy, tmp_path / "p", "none")
    card = tmp_path / "p" / "collection.json"
    card.write_bytes(orjson.dumps(orjson.loads(card.read_bytes()) | change))
    if "fingerprint" in change:
        with pytest.raises(CollectionError, match=r"collection\.json: has .* bytes|not as visir wrote it"):
            portable.load(tmp_path / "p")
        seal(tmp_path / "p")
    with pytest.raises(CollectionError, match=message):
        portable.load(tmp_path / "p")
    card.unlink()
    with refused(CollectionError, code="no-collection-json-not"):
        portable.load(tmp_path / "p")


def test_the_fingerprint_does_not_depend_on_row_order(write) -> None:
    content = karpathy()
    forward = open_collection(write("d.json", content)).fingerprint
    content["images"].reverse()
    for image in content["images"]:
        image["sentences"].reverse()
    assert open_collection(write("d.json", content)).fingerprint == forward
    content["images"][0]["sentences"][0]["raw"] += " "
    assert open_collection(write("d.json", content)).fingerprint != forward
