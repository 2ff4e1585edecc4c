"""Libraries: made, brought up to date, refused."""

from __future__ import annotations

import io
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_toys import SCENES, draw, head_over, vectors_of_scenes
from PIL import Image

from manifests import rewrite
from refusals import refused
from visir.collections import open_collection
from visir.collections.images import ImageReader, content_id
from visir.encoders import load
from visir.encoders import store as content
from visir.errors import VisirError
from visir.library import Library, LibraryError, UpdateReport, update
from visir.library.layout import LibraryCard, is_library
from visir.library.snapshot import LibrarySnapshot
from visir.library.watch import remove


def counts(found: UpdateReport) -> dict[str, int]:
    names = ("added", "changed", "moved", "deleted", "unchanged", "duplicates", "items", "encoded")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    draw(tmp_path / "photos", range(6))
    return tmp_path / "photos"


def test_a_folder_of_photos_through_all_that_happens_to_it(photos: Path, tmp_path: Path) -> None:
    at = tmp_path / "library"
    assert counts(update(photos, at, model="pixels")) == {"added": 6, "items": 6, "encoded": 6}
    with LibrarySnapshot.open(at) as library:
        assert library.generation == 1 and len(library) == 6 and library.captions is None
        ids = library.indexes["dense"].ids.to_pylist()
        names = {item.files[0].path: item for item in library.items(ids)}
        one = names["odd/3.png"]
        data = (photos / "odd" / "3.png").read_bytes()
        assert one.id == content_id(data) and one.category == "odd" and one.name == "3.png"
        assert (one.width, one.height, one.format, one.bytes) == (64, 64, "PNG", len(data))
        assert library.open_image(one.id) == (data, "image/png")
        small = library.thumbnail(one.id)
        assert small is not None and small.startswith(b"RIFF") and b"WEBP" in small[:16]
        assert library.reload() is library

    assert counts(update(None, at)) == {"unchanged": 6, "items": 6}
    assert LibrarySnapshot.open(at).generation == 1

    (photos / "odd" / "1.png").rename(photos / "moved.png")  # known content, new path
    (photos / "odd" / "3.png").unlink()
    shutil.copy(photos / "2.png", photos / "copy.png")
    draw(photos, [6])
    ImageReader(open_collection(SCENES)).open(7).save(photos / "0.png")  # other content, known path
    (photos / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    # 6 files before: 2.png, 4.png and odd/5.png stay; 0 changed, 1 moved, 3 deleted; copy.png and 6.png are new.
    found = update(None, at)
    assert counts(found) == {
        "added": 2, "changed": 1, "moved": 1, "deleted": 1, "unchanged": 3, "duplicates": 1, "items": 6, "encoded": 2
    }  # fmt: skip
    assert list(found.broken) == ["broken.jpg"] and "begins like a JPEG" in found.broken["broken.jpg"]
    with LibrarySnapshot.open(at) as library:
        assert library.generation == 2
        (two,) = [item for item in library.items(library.indexes["dense"].ids.to_pylist()) if len(item.files) == 2]
        assert [file.path for file in two.files] == ["2.png", "copy.png"]
        with refused(LibraryError, one.id, code="no-picture"):
            library.item(one.id)
        assert not (at / "thumbnails" / one.id[:2] / f"{one.id}.webp").exists()
    assert not (at / "work").exists()


def test_vectors_are_those_of_the_encoder(photos: Path, tmp_path: Path) -> None:
    update(photos, tmp_path / "library", model="pixels")
    draw(photos, [6, 7])
    update(None, tmp_path / "library")
    encoder = load("pixels")
    with LibrarySnapshot.open(tmp_path / "library") as library:
        for item in library.items(library.indexes["dense"].ids.to_pylist()):
            expected = encoder.encode_images([Image.open(photos / item.files[0].path)])
            assert np.array_equal(library.indexes["dense"].select([item.id]).vectors, expected)


def test_a_broken_photo_is_tried_again_only_when_it_changes(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, bad = tmp_path / "library", photos / "bad.png"
    bad.write_bytes((photos / "0.png").read_bytes()[:300])
    assert list(update(photos, at, model="pixels").broken) == ["bad.png"]
    whole = (photos / "odd" / "1.png").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(ImageReader, "read", None)
        assert list(update(None, at).broken) == ["bad.png"]  # size and times are as they were: not looked at
    bad.write_bytes(whole + b" ")
    found = update(None, at)
    assert found.broken == {} and found.added == 1


def test_a_name_that_is_no_unicode_stops_nothing(photos: Path, tmp_path: Path) -> None:
    """Set aside with its name escaped, while all others are indexed; as a new photo once it is renamed."""
    at, bad = tmp_path / "library", photos / os.fsdecode(b"caf\xe9.png")
    good = (photos / "0.png").read_bytes()
    try:
        bad.write_bytes(good + b" ")
    except (OSError, UnicodeError):
        pytest.skip("this file system refuses such names")
    others = len(list(photos.rglob("*.png"))) - 1
    found = update(photos, at, model="pixels")
    assert found.added == others and list(found.broken) == ["caf\\udce9.png"]
    assert "not valid Unicode" in found.broken["caf\\udce9.png"]
    assert update(None, at).same
    bad.rename(photos / "café.png")
    found = update(None, at)
    assert found.broken == {} and found.added == 1
    whole = photos.rename(tmp_path / os.fsdecode(b"phot\xf6s"))
    with refused(LibraryError, "phot\\udcf6s", code="name-not-valid-unicode"):
        update(whole, tmp_path / "second", model="pixels")
    (tmp_path / "link").symlink_to(whole)
    assert update(tmp_path / "link", tmp_path / "second", model="pixels").added == others + 1


def test_times_and_size_decide_unless_verified(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of change of an entry cannot be set; on some network disks it is that of the content."""
    stat = content._stat
    monkeypatch.setattr(content, "_stat", lambda path: content.without_change(stat(path)))
    at, path = tmp_path / "library", photos / "0.png"
    draw(photos, range(12))
    data = path.read_bytes()
    update(photos, at, model="pixels")
    before = path.stat()
    path.write_bytes(data[:-20] + b"x" * 20)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert update(None, at).same
    found = update(None, at, verify=True)
    assert found.changed + found.deleted == 1


@pytest.mark.parametrize("seconds", [0, 1, 4_102_444_800])  # 1970 and 2100
def test_clocks_that_jump_change_nothing(seconds: int, photos: Path, tmp_path: Path) -> None:
    at = tmp_path / "library"
    os.utime(photos / "0.png", (seconds, seconds))
    update(photos, at, model="pixels")
    os.utime(photos / "2.png", (seconds, seconds))  # touched: read again, found to be the same
    found = update(None, at)
    assert counts(found) == {"unchanged": 6, "items": 6}
    assert update(None, at).same and LibrarySnapshot.open(at).generation == 2


def test_a_collection_with_captions_fields_and_words(tmp_path: Path) -> None:
    model = vectors_of_scenes(tmp_path)
    pytest.importorskip("tokenizers")
    at, head = tmp_path / "library", head_over(model, tmp_path)
    assert update(SCENES, at, model=model, head=head).items == 12
    with LibrarySnapshot.open(at) as library:
        assert set(library.indexes) == {"dense", "sparse"} and library.captions is not None
        assert len(library.captions.ids) == 60 and (library.model, library.head) == (model, str(head))
        item = library.item(library.indexes["sparse"].ids[0].as_py())
        assert len(item.captions) == 5 and dict(item.fields)["place"]
        assert library.caption(item.captions[0][0]) == (item.id, item.captions[0][1])
        data, media_type = library.open_image(item.id)
        assert media_type == "image/png" and data.startswith(b"\x89PNG")
    assert update(None, at).same


def test_captions_that_change(tmp_path: Path) -> None:
    """A sheet of captions is edited: one text changes, one caption goes, one comes."""
    draw(tmp_path / "photos", range(3))
    sheet = tmp_path / "photos" / "metadata.csv"
    sheet.write_text("file_name,text,mood\n0.png,a dog,calm\n2.png,a cat,wild\nodd/1.png,a cow,calm\n")
    at = tmp_path / "library"
    update(tmp_path / "photos", at, model="pixels")
    with LibrarySnapshot.open(at) as library:
        texts = sorted(text for (text,) in library.database.rows("SELECT text FROM captions"))
        assert texts == ["a cat", "a cow", "a dog"]
    sheet.write_text("file_name,text,mood\n0.png,a dog asleep,calm\n2.png,,wild\nodd/1.png,a cow,calm\n")
    update(None, at)
    with LibrarySnapshot.open(at) as library:
        texts = sorted(text for (text,) in library.database.rows("SELECT text FROM captions"))
        assert "a dog asleep" in texts and "a cat" not in texts and "a cow" in texts


def test_what_was_taken_out_stays_out(photos: Path, tmp_path: Path) -> None:
    at = tmp_path / "library"
    update(photos, at, model="pixels")
    with LibrarySnapshot.open(at) as library:
        gone = library.indexes["dense"].ids[0].as_py()
        path = photos / library.item(gone).files[0].path
    assert remove(at, [gone]) == 1
    assert len(LibrarySnapshot.open(at)) == 5 and path.exists()
    assert update(None, at).same
    path.rename(photos / "renamed.png")
    update(None, at)
    assert len(LibrarySnapshot.open(at)) == 5 and update(None, at).same
    with refused(LibraryError, gone, code="no-picture", hint=False):
        remove(at, [gone])


def test_what_a_library_refuses(photos: Path, tmp_path: Path) -> None:
    at = tmp_path / "library"
    with refused(LibraryError, code="no-library-yet"):
        update(photos, at)
    update(photos, at, model="pixels")
    other = tmp_path / "other"
    draw(other, [9])
    for arguments, fault in (
        ({"model": "bow"}, "encodes no images, only texts"),
        ({"source": other}, "this library is of photos:.*photos, not of photos:.*other"),
        ({"kind": "inverted"}, "holds sparse vectors, and this library has none"),
        ({"head": "pixels"}, "--sparse pixels: a model of dense vectors, not a head"),
    ):
        with pytest.raises(VisirError, match=fault):
            update(**{"source": None, "folder": at, **arguments})  # type: ignore[arg-type]
    with pytest.raises(LibraryError, match=r"did not write, or no longer knows .*, and no library"):
        update(photos, other, model="pixels")
    aside = photos.rename(tmp_path / "aside")
    photos.mkdir()
    with pytest.raises(Exception, match="is empty: moved, or on a disk"):
        update(None, at)
    assert len(LibrarySnapshot.open(at)) == 6  # an unmounted disk empties nothing
    photos.rmdir()
    assert update(aside, at).unchanged == 6  # the whole folder has moved


def test_a_model_that_was_moved_is_named_anew(tmp_path: Path) -> None:
    model, at = vectors_of_scenes(tmp_path), tmp_path / "library"
    update(SCENES, at, model=model)
    moved = tmp_path / "moved.npz"
    (tmp_path / "vectors.npz").rename(moved)
    with refused(LibraryError, model, code="model-library-not-more") as caught:
        Library.open(at).search("red")
    assert "visir library update LIBRARY --model NEW_PLACE" in caught.value.hint
    with pytest.raises(VisirError, match=r"is no|a file needs a prefix|not there any more"):
        update(None, at, head=moved)
    assert update(None, at, model=f"npz:{moved}").same
    with Library.open(at) as library:
        assert library.model == f"npz:{moved}" and library.check() == []
        assert len(library.search(like=library.ids[0], k=3)) == 3


def test_a_library_inside_its_own_photos(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos)
    assert update(".", "here.visir", model="pixels").items == 6
    assert update(".", "here.visir").same


def test_lost_thumbnails_and_lost_indexes_come_back(photos: Path, tmp_path: Path) -> None:
    at = tmp_path / "library"
    update(photos, at, model="pixels")
    with LibrarySnapshot.open(at) as library:
        one = library.indexes["dense"].ids[0].as_py()
    path = at / "thumbnails" / one[:2] / f"{one}.webp"
    path.unlink()
    update(None, at)
    assert LibrarySnapshot.open(at).thumbnail(one) == path.read_bytes()
    shutil.rmtree(at / "dense")
    with pytest.raises(LibraryError, match=r"dense: no such folder"):
        LibrarySnapshot.open(at)
    assert update(None, at).encoded == 6
    assert len(LibrarySnapshot.open(at)) == 6


class Counting:
    """A real encoder that counts the pictures it embeds."""

    def __init__(self) -> None:
        self.inner, self.seen = load("pixels"), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def for_role(self, role: str) -> Any:
        return self

    def embed_images(self, batch: Any) -> Any:
        self.seen += len(batch)
        return self.inner.embed_images(batch)

    def begin_images(self, batch: Any) -> Any:
        vectors = self.embed_images(batch)
        return lambda: vectors


def test_nothing_is_encoded_twice(photos: Path, tmp_path: Path) -> None:
    at, encoder = tmp_path / "library", Counting()
    loaded: Any = {"pixels": encoder}
    update(photos, at, model="pixels", loaded=loaded)
    assert encoder.seen == 6
    draw(photos, [6, 7])
    (photos / "0.png").rename(photos / "elsewhere.png")
    update(None, at, loaded=loaded)
    assert encoder.seen == 8
    update(None, at, verify=True, loaded=loaded)
    assert encoder.seen == 8


def test_many_small_additions_leave_few_parts(photos: Path, tmp_path: Path) -> None:
    """An added part swallows those before it that are no larger: n additions leave about log n parts."""
    at = tmp_path / "library"
    draw(photos, range(1))
    update(photos, at, model="pixels")
    for number in range(30):
        Image.fromarray(np.full((8, 8, 3), number * 8, np.uint8)).save(photos / f"grey{number}.png")
        update(None, at)
    with LibrarySnapshot.open(at) as library:
        assert len(library) == 36 and library.indexes["dense"].info().details["parts"] <= 6


def test_exif_is_read_and_pictures_stand_upright(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    exif = Image.Exif()
    exif[0x0112], exif[0x010F], exif[0x0110] = 6, "Canon", "Canon EOS 5D"
    block = exif.get_ifd(0x8769)
    block[0x9003], block[0x9011] = "2024:05:01 12:30:00", "+02:00"
    Image.new("RGB", (900, 700), "red").save(photos / "a.jpg", exif=exif)
    exif[0x010F], exif[0x0110] = "NIKON", "D80"
    del block[0x9011]
    Image.new("RGB", (64, 48), "blue").save(photos / "b.jpg", exif=exif)
    update(photos, tmp_path / "library", model="pixels")
    with LibrarySnapshot.open(tmp_path / "library") as library:
        items = {item.name: item for item in library.items(library.indexes["dense"].ids.to_pylist())}
        a, b = items["a.jpg"], items["b.jpg"]
        assert (a.width, a.height, a.taken, a.camera) == (700, 900, "2024-05-01T10:30:00Z", "Canon EOS 5D")
        shown = Image.open(io.BytesIO(library.thumbnail(a.id) or b""))
        assert shown.size == (249, 320)  # upright: 700 × 900, the longer side made 320
        assert (b.width, b.height, b.taken, b.camera) == (48, 64, "2024-05-01T12:30:00", "NIKON D80")


def test_a_picture_on_its_side_changes_height_and_width(tmp_path: Path) -> None:
    from visir.library.pictures import read_exif

    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.new("RGB", (20, 10)).save(tmp_path / "a.jpg", exif=exif)
        with Image.open(tmp_path / "a.jpg") as picture:
            assert read_exif(picture).sideways is (orientation >= 5), orientation


def test_times_that_make_no_sense_are_left_out() -> None:
    from visir.library.pictures import _camera, _taken

    assert _taken("0000:00:00 00:00:00", None) is None and _taken("2024:13:01 00:00:00", None) is None
    assert _taken("yesterday", None) is None and _taken(b"\xff", None) is None
    assert _taken("2024:01:01 01:00:00", "-03:30") == "2024-01-01T04:30:00Z"
    assert _camera(" Canon\0", "Canon EOS 5D ") == "Canon EOS 5D" and _camera(None, b"x") is None


def test_a_folder_that_may_not_be_looked_into_keeps_its_photos(photos: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may look into every folder")
    update(photos, tmp_path / "library", model="pixels")
    (photos / "odd").chmod(0)
    try:
        assert update(None, tmp_path / "library").items == 6
    finally:
        (photos / "odd").chmod(0o755)


def test_an_update_says_what_it_is_doing(photos: Path, tmp_path: Path) -> None:
    said: list[str] = []
    update(photos, tmp_path / "library", model="pixels", callback=lambda stage, done, total: said.append(stage))
    assert list(dict.fromkeys(said)) == ["looking", "reading", "encoding", "writing"]


def test_manifest_round_trip(photos: Path, tmp_path: Path) -> None:
    update(photos, tmp_path / "library", model="pixels", name="Holidays")
    card = LibraryCard.read(tmp_path / "library")
    assert card.name == "Holidays" and card.source == f"photos:{photos}" and card.kinds["dense"] == "exact"
    rewrite(tmp_path / "library", replace(card, name="Other").to_content())
    assert LibraryCard.read(tmp_path / "library").name == "Other"


def test_a_lost_database_is_made_again_and_vectors_are_kept(photos: Path, tmp_path: Path) -> None:
    at, encoder = tmp_path / "library", Counting()
    loaded: Any = {"pixels": encoder}
    update(photos, at, model="pixels", loaded=loaded)
    (at / "items-1.sqlite").unlink()
    with refused(LibraryError, "items-1.sqlite is missing"):
        LibrarySnapshot.open(at)
    assert update(None, at, loaded=loaded).items == 6 and encoder.seen == 6
    with LibrarySnapshot.open(at) as library:
        assert library.generation == 2 and len(library) == 6


def test_vectors_that_another_verb_has_made_are_taken_from_the_store(photos: Path, tmp_path: Path) -> None:
    from visir.encoders import encode

    encoder = Counting()
    loaded: Any = {"pixels": encoder}
    encode(load("pixels"), open_collection(f"photos:{photos}"), "image")
    update(photos, tmp_path / "library", model="pixels", loaded=loaded)
    assert encoder.seen == 0 and len(LibrarySnapshot.open(tmp_path / "library")) == 6


def test_a_killed_first_update_by_another_model_leaves_no_vectors_behind(photos: Path, tmp_path: Path) -> None:
    at = tmp_path / "library"
    stop_at(photos, at, "writing")
    assert (at / "dense").is_dir() and not is_library(at)
    made = vectors_of_photos(photos, tmp_path)
    update(photos, at, model=made)
    with LibrarySnapshot.open(at) as library:
        assert library.indexes["dense"].info().dimension == 8


def stop_at(photos: Path, at: Path, stage: str) -> None:
    """A first update that ends when it comes to this stage."""

    def tell(now: str, done: int, total: int) -> None:
        if now == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(photos, at, model="pixels", callback=tell)


def vectors_of_photos(photos: Path, folder: Path) -> str:
    ids = open_collection(f"photos:{photos}").images["id"].to_pylist()
    vectors = np.random.default_rng(0).normal(size=(len(ids), 8)).astype(np.float32)
    np.savez(folder / "photos.npz", image=vectors, image_ids=np.array(ids))
    return f"npz:{folder / 'photos.npz'}"


def test_a_picture_whose_vector_is_zero_is_set_aside(photos: Path, tmp_path: Path) -> None:
    model = vectors_of_photos(photos, tmp_path)
    held = dict(np.load(tmp_path / "photos.npz"))
    held["image"][0] = 0
    np.savez(tmp_path / "photos.npz", **held)
    found = update(photos, tmp_path / "library", model=model)
    ((path, why),) = found.broken.items()
    assert path == held["image_ids"][0] and "its vector is zero" in why and found.items == 5
    assert update(None, tmp_path / "library").same


def test_another_model_under_the_same_name_is_refused(photos: Path, tmp_path: Path) -> None:
    model = vectors_of_photos(photos, tmp_path)
    update(photos, tmp_path / "library", model=model)
    held = dict(np.load(tmp_path / "photos.npz"))
    np.savez(tmp_path / "photos.npz", **{**held, "image": held["image"] + 1})
    draw(photos, [6])
    with refused(LibraryError, code="not-model-library-made"):
        update(None, tmp_path / "library")


def test_photos_are_listed_newest_first(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for name, taken in {"a": None, "b": "2020:01:01 10:00:00", "c": "2024:01:01 10:00:00", "d": None}.items():
        exif = Image.Exif()
        if taken:
            exif.get_ifd(0x8769)[36867] = taken
        Image.new("RGB", (40, 30), (ord(name), 10, 90)).save(tmp_path / "photos" / f"{name}.jpg", exif=exif)
    update(tmp_path / "photos", tmp_path / "library", model="pixels")
    with Library.open(tmp_path / "library") as library:
        assert [hit.name for hit in library.search(where="width = 40")] == ["c.jpg", "b.jpg", "a.jpg", "d.jpg"]
        assert library.search(where="taken >= 2021").label == "newest first"
        fields = library.fields
        assert (fields["taken"].items, fields["camera"].items, fields["width"].items) == (2, 0, 4)
