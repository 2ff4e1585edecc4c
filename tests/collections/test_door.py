"""`open_collection`: specs, sniffing, options, and what it says when it does not know."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from toys import jpeg, karpathy

from refusals import refused
from visir import collections
from visir.collections import open_collection, portable
from visir.collections.formats import FORMATS, JUDGEMENTS
from visir.collections.sources import Format
from visir.errors import CollectionError, VisirError
from visir.products.opening import FORMATS as CATALOGUES

LISTS = [{"image": "a.jpg", "caption": "x"}]
COCO = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"id": 1, "image_id": 1, "caption": "x"}]}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("d.json", karpathy(), "karpathy"),
        ("captions.json", COCO, "coco_captions"),
        ("list.json", LISTS, "annotation_list"),
        ("X_FG_ann.json", {"a": ["x"]}, "fine_grained"),
        ("x.token", "a.jpg#0\tx\n", "flickr_tokens"),
        ("test_caps.txt", "1\n2\n3\n4\n5\n", "vsepp"),
        ("t.csv", "image,text\na,b\n", "table"),
        ("s.tar", {"a.txt": b"x", "a.jpg": jpeg()}, "webdataset"),
        ("p.zip", {"a.jpg": jpeg()}, "photos"),
        ("dir/a.jpg", jpeg(), "photos"),
        ("dir/metadata.csv", "file_name,text\na.jpg,x\n", "imagefolder"),
        ("dir/qrels/test.tsv", "query-id\tcorpus-id\nq\td\n", "beir"),
    ],
)
def test_exactly_one_format_is_told_from_the_content(write, name: str, content: object, expected: str) -> None:
    path = write(name, content)
    if expected == "beir":
        write("dir/corpus.jsonl", '{"_id": "d", "text": "x"}')
        write("dir/queries.tsv", "_id\ttext\nq\tx\n")
        path = path.parent
    if name.startswith("dir/"):
        path = path.parent
    found = [key for key, one in FORMATS.items() if one.sniff(path)]
    assert found == [expected]


def test_a_prefix_an_option_and_a_split(write) -> None:
    content = karpathy("restval")
    content["images"][1]["split"] = "val"
    path = write("d.json", content)
    assert open_collection(f"karpathy:{path}?restval=keep&split=restval+val&images=none").images.num_rows == 2
    assert open_collection(path, split="val").images["id"].to_pylist() == ["b.jpg"]
    with refused(CollectionError, "tset", code="unknown-split", hint=("known", "train", "val")):
        open_collection(path, split="tset")


def test_a_folder_with_one_or_several_collections(write, tmp_path) -> None:
    write("x/d.json", karpathy())
    write("x/README.md", "about")
    write("x/a.jpg", jpeg())
    assert open_collection(tmp_path / "x").name == "toy"
    write("x/tokens.token", "a.jpg#0\tx\n")
    with refused(CollectionError, "collections", code="several-folder", hint="karpathy"):
        open_collection(tmp_path / "x")


def test_unknown_things_name_the_nearest(write) -> None:
    path = write("d.json", karpathy())
    with refused(VisirError, "collection", "format", "karpaty", code="unknown-name", meant="karpathy"):
        open_collection(path, format="karpaty")
    with refused(VisirError, "collection", "format", "karpaty", code="unknown-name", meant="karpathy"):
        open_collection(f"karpaty:{path}")
    with refused(CollectionError, "karpathy", "unknown option", "restvall", meant="restval"):
        open_collection(path, restvall="keep")
    with refused(CollectionError, "karpathy", "table", code="names-format-format-another", hint=False):
        open_collection(f"karpathy:{path}", format="table")
    with pytest.raises(CollectionError, match=r"no known format of collections\.\n  → put its name before it"):
        open_collection(write("x.bin", b"\x00\x01"))
    with refused(CollectionError, "nowhere", code="no-such-file-folder"):
        open_collection("nowhere")
    with refused(VisirError, code="no-such-file"):
        open_collection("karpathy:nowhere.json")


def test_scenes(write) -> None:
    found = open_collection("scenes:20?seed=3&size=64", split="train")
    assert found.images["split"].to_pylist() == ["train"] * 16
    with refused(CollectionError, "many", code="not-number-scenes"):
        open_collection("scenes:many")
    with refused(CollectionError, "120,60,60", code="not-number-scenes"):
        open_collection("scenes:120,60,60")
    assert open_collection("scenes:1,200").images.num_rows == 1200
    with refused(CollectionError, "option size=", "big", "pixels of a side", hint=False):
        open_collection("scenes:5?size=big")
    with refused(CollectionError, code="holds-pictures", hint=False):
        open_collection("scenes:5", images="x.zip")


def test_a_collection_passes_through(write) -> None:
    found = open_collection(write("d.json", karpathy()))
    assert open_collection(found) is found
    assert open_collection(found, split="test").images.num_rows == 2


def test_the_working_directory_may_change(write, tmp_path, monkeypatch) -> None:
    write("d.json", karpathy())
    write("a.jpg", jpeg())
    monkeypatch.chdir(tmp_path)
    found = open_collection("d.json")
    saved = portable.save(found, "portable")
    monkeypatch.chdir("/")
    from visir.collections.images import ImageReader

    assert ImageReader(found).open(0).size == ImageReader(saved).open(0).size == (12, 8)


def test_every_reader_is_registered() -> None:
    modules = [import_module(entry.name) for entry in pkgutil.walk_packages(collections.__path__, "visir.collections.")]
    described = [value for module in modules for value in vars(module).values() if isinstance(value, Format)]
    registered = [one for registry in (FORMATS, JUDGEMENTS, CATALOGUES) for _, one in registry.items()]
    assert described
    assert [form.name for form in described if not any(form is one for one in registered)] == []


def test_formats_describe_themselves() -> None:
    for registry in (FORMATS, JUDGEMENTS):
        for name, one in registry.items():
            assert one.name == name
            assert one.title
            assert one.layout
            assert callable(one.read)
            assert one.sniff(Path("/nonexistent/path")) is False
            assert all(option.about for option in one.options)


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, visir.collections; print([m for m in ('pyarrow', 'PIL', 'torch', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
