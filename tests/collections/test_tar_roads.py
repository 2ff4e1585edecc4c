"""Cut tars, and tars with links, by every road to pictures: as a user meets them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from toys import jpeg, karpathy
from typer.testing import CliRunner

from cut_tars import ADDS_THE_MARK, CUTS, ENDED, NO_END, PLAIN, WITHIN, cut_tar, linked_tar, tar_of
from verbs import say
from visir.cli import data, index
from visir.cli.encode import encode
from visir.collections import open_collection
from visir.encoders import Parts
from visir.errors import CollectionError
from visir.library import cli as library

PICTURES = {"a.jpg": jpeg("red"), "b.jpg": jpeg("green"), "c.jpg": jpeg("blue")}
LINKS = "2 links in tars passed over"
REMEDY = "(pack the files themselves: tar --dereference --hard-dereference)"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))


def flat(text: str) -> str:
    """On one line, however the terminal broke it."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", CUTS)
def test_encode_refuses_it(tmp_path: Path, name: str) -> None:
    path, out = tmp_path / name, tmp_path / "vectors"
    path.write_bytes(cut_tar(name, PICTURES))
    done = say(encode, path, "--model", "pixels", "--out", out)
    assert done.status == 2 and not out.exists()
    if name in PLAIN or name.startswith("empty"):
        assert re.search(rf"{re.escape(name)}: .*{CUTS[name]}", flat(done.text))
        assert bool(re.search(ADDS_THE_MARK, flat(done.text))) == (CUTS[name] == NO_END)
        assert "copy it again" in flat(done.text)
    else:
        assert f"{name}: a compressed tar; its members cannot be read one by one." in flat(done.text)
        assert "decompress it first (gunzip, bunzip2, unxz)" in flat(done.text)


@pytest.mark.parametrize("name", CUTS)
def test_encode_into_parts_refuses_it_and_makes_the_others(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(cut_tar(name, PICTURES))
    (tmp_path / "in" / "whole.tar.gz").write_bytes(gzip.compress(tar_of(PICTURES)))
    done = say(encode, tmp_path / "in", "--model", "pixels", "--parts", tmp_path / "parts")
    assert done.status == 2 and "1 of 2 files could not be encoded" in flat(done.text)
    assert re.search(rf"{re.escape(name)}: damaged or truncated \({CUTS[name]}", flat(done.text))
    status = Parts(tmp_path / "parts").status()
    assert (status.finished, status.files, list(dict(status.failed))) == (1, 2, [name])


@pytest.mark.parametrize("name", PLAIN)
def test_verbs_refuse_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(cut_tar(name, PICTURES))
    for app, arguments in (
        (library.app, ["make", path, "--model", "pixels", "--out", tmp_path / "made"]),
        (index.app, ["build", path, "--model", "pixels", "--out", tmp_path / "index"]),
        (data.app, ["check", path]),
        (data.app, ["inspect", path]),
        (data.app, ["convert", path, tmp_path / "converted"]),
    ):
        done = run(app, arguments)
        assert done.exit_code != 0 and re.search(
            rf"{re.escape(name)}: .*{PLAIN[name]}", f"{done.output}{done.exception}"
        )
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == [name]


@pytest.mark.parametrize("name", CUTS)
def test_pictures_beside_a_list_are_not_taken_from_it(tmp_path: Path, name: str) -> None:
    """Named, it is refused; found beside the list, it is left aside with the reason."""
    (tmp_path / "dataset.json").write_text(json.dumps(karpathy()))
    (tmp_path / name).write_bytes(cut_tar(name, PICTURES))
    says = PLAIN.get(name, "not an archive that can be read from")
    with pytest.raises(CollectionError, match=rf"{re.escape(name)}: .*{says}"):
        open_collection(tmp_path / "dataset.json", images=tmp_path / name)
    with pytest.raises(CollectionError, match=rf"{re.escape(name)}: .*{says}"):
        open_collection(f"photos:{tmp_path / name}")
    source = open_collection(tmp_path / "dataset.json").source
    assert "images: 0 of 2 found" in source
    if name in PLAIN:
        assert re.search(rf"{re.escape(name)} left aside: .*{says}", source)


def test_links_are_told_by_every_verb(tmp_path: Path) -> None:
    path = tmp_path / "linked.tar"
    path.write_bytes(linked_tar(PICTURES, "hard.jpg", "soft.jpg"))
    told = f"{LINKS}, e.g. linked.tar: hard.jpg {REMEDY}"
    done = say(encode, path, "--model", "pixels", "--out", tmp_path / "vectors")
    assert done.status == 0 and told in flat(done.text) and "linked: 3 images" in done.text
    for app, arguments in (
        (library.app, ["make", path, "--model", "pixels", "--out", tmp_path / "made"]),
        (index.app, ["build", path, "--model", "pixels", "--out", tmp_path / "index"]),
        (index.app, ["add", tmp_path / "index", path, "--model", "pixels"]),
        (data.app, ["check", path]),
        (data.app, ["inspect", path]),
    ):
        answer = run(app, arguments)
        assert answer.exit_code == 0 and told in flat(answer.output), (arguments[0], answer.output)


def test_what_is_behind_the_end_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "two.tar"
    path.write_bytes(tar_of(PICTURES) + tar_of({"d.jpg": jpeg("teal")}))
    done = say(encode, path, "--model", "pixels")
    assert "two: 3 images" in done.text
    assert "1 tar with more behind the mark of the end, not read, e.g. two.tar (as of tars joined by cat" in done.text
    assert "behind" not in say(encode, path, "--model", "pixels", "--json").text.split("{", 1)[0]


def test_links_that_a_list_names_are_told(tmp_path: Path) -> None:
    """Photo "b" is a link: it is not found, and the note says why. Links that nobody looks for are no news."""
    (tmp_path / "dataset.json").write_text(json.dumps(karpathy()))
    (tmp_path / "x.tar").write_bytes(linked_tar({"a.jpg": jpeg("red")}, "b.jpg", "other.jpg"))
    collection = open_collection(tmp_path / "dataset.json")
    assert f"1 link in tars passed over, e.g. x.tar: b.jpg {REMEDY}; images: 1 of 2 found in x.tar" in collection.source
    (tmp_path / "x.tar").write_bytes(linked_tar(PICTURES, "other.jpg", "more.jpg"))
    assert "links" not in open_collection(tmp_path / "dataset.json").source
    assert f"{LINKS}, e.g. x.tar: other.jpg {REMEDY}" in open_collection(f"photos:{tmp_path / 'x.tar'}").source
    (tmp_path / "x.tar").write_bytes(tar_of(PICTURES) + tar_of(PICTURES))
    for spec in (tmp_path / "dataset.json", f"photos:{tmp_path / 'x.tar'}"):
        assert "1 tar with more behind the mark of the end, not read, e.g. x.tar" in open_collection(spec).source


def run(app: Any, arguments: list[Any]) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "400", "NO_COLOR": "1"})


def test_the_reasons_differ() -> None:
    assert len({ENDED, NO_END, WITHIN, *CUTS.values()}) == 5
