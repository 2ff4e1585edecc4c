"""Whatever a file holds, a reader returns a collection or raises a `VisirError`: never anything else."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toys import jpeg, karpathy

from visir.collections import attach_judgements, open_collection, portable
from visir.collections.check import check
from visir.collections.images import decode
from visir.errors import ImageError, VisirError
from visir.records import Collection

COCO = {
    "images": [{"id": 1, "file_name": "a.jpg"}],
    "annotations": [{"id": 1, "image_id": 1, "caption": "x"}, {"id": 2, "image_id": 1, "caption": "y"}],
}
LISTS = [{"image": "a.jpg", "caption": ["x", "y"]}, {"image": "b.jpg", "caption": "z"}]
FILES: dict[str, tuple[str, Any]] = {
    "karpathy": ("d.json", karpathy("test", cocoid=None, filepath="x")),
    "coco_captions": ("captions_val2017.json", COCO),
    "annotation_list": ("list.json", LISTS),
    "fine_grained": ("X_FG_ann.json", {"a": ["x"], "b": ["y", "z"]}),
}
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a JSON value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [here, *(place for key in keys for place in places(value[key], (*here, key)))]


@st.composite
def damaged(draw: st.DrawFn, content: Any) -> Any:
    """The content with one value anywhere replaced, or one key taken away."""
    content = copy.deepcopy(content)
    place = draw(st.sampled_from(places(content)))
    if not place:
        return draw(values)
    parent = content
    for key in place[:-1]:
        parent = parent[key]
    if isinstance(parent, dict) and draw(st.booleans()):
        del parent[place[-1]]
    else:
        parent[place[-1]] = draw(values)
    return content


@pytest.mark.parametrize("format", FILES)
@quick
@given(data=st.data())
def test_damaged_json(tmp_path: Path, format: str, data: st.DataObject) -> None:
    name, content = FILES[format]
    path = tmp_path / name
    path.write_bytes(orjson.dumps(data.draw(damaged(content))))
    options = {"pool": "none"} if format == "fine_grained" else {}
    check(str(path), format=format, decode=False, **options)  # reports, never raises
    try:
        found = open_collection(path, format=format, **options)
    except VisirError:
        return
    assert isinstance(found, Collection)


@quick
@given(data=st.data())
def test_damaged_card_of_a_portable_folder(tmp_path: Path, data: st.DataObject) -> None:
    folder = tmp_path / "p"
    if not folder.exists():
        (tmp_path / "d.json").write_bytes(orjson.dumps(karpathy()))
        portable.save(open_collection(tmp_path / "d.json"), folder, "none")
        (tmp_path / "card.json").write_bytes((folder / "collection.json").read_bytes())
    card = orjson.loads((tmp_path / "card.json").read_bytes())
    (folder / "collection.json").write_bytes(orjson.dumps(data.draw(damaged(card))))
    try:
        assert isinstance(open_collection(folder, format="portable"), Collection)
    except VisirError:
        return


@quick
@given(data=st.data())
def test_damaged_eccv(tmp_path: Path, data: st.DataObject) -> None:
    toy = Collection.build("toy", images={"id": ["1"]}, captions={"id": ["11"], "text": ["t"], "image_id": ["1"]})
    content = data.draw(damaged([{"11": [1, 2]}, {"1": [11, 12]}]))
    halves = content if isinstance(content, list) and len(content) == 2 else [content, content]
    for name, half in zip(("caption_to_image", "image_to_caption"), halves, strict=True):
        (tmp_path / f"eccv_{name}.json").write_bytes(orjson.dumps(half))
    try:
        assert attach_judgements(toy, f"eccv:{tmp_path}").relevances == ("links", "eccv")
    except VisirError:
        return


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.token", b"a.jpg#0\tx\nb.jpg#0\ty\n"),
        ("test_caps.txt", b"1\n2\n3\n4\n5\n"),
        ("t.csv", b'image,text\na.jpg,"x"\n'),
        ("t.jsonl", b'{"image":"a","text":["x"]}\n'),
        ("s.tar", None),
        ("p.zip", None),
    ],
)
@quick
@given(data=st.data())
def test_damaged_bytes(tmp_path: Path, write, name: str, start: bytes | None, data: st.DataObject) -> None:
    if start is None:
        start = write(name, {"a.jpg": b"1234", "a.txt": b"x"}).read_bytes()
    path = write(name, damage(data, start))
    try:
        assert isinstance(open_collection(path), Collection)
    except VisirError:
        return


def damage(data: st.DataObject, start: bytes) -> bytes:
    """A few bytes changed, and perhaps the end cut off."""
    changed = bytearray(start)
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    return bytes(changed[: data.draw(st.integers(0, len(changed)))])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
@quick
@given(data=st.data())
def test_damaged_pictures(form: str, data: st.DataObject) -> None:
    try:
        image = decode(damage(data, jpeg("red", (16, 16), form)), "x", max_pixels=10_000)
    except ImageError as fault:
        assert fault.message.startswith("x: ")
        return
    assert image.mode == "RGB"
