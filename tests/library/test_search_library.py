"""`visir search LIBRARY`: a table, the service's JSON, pictures; faults."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pyarrow as pa
import pytest

from asked_toys import make_library
from verbs import say
from visir.library.cli.search import search
from visir.library.snapshot import LibrarySnapshot


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISIR_CACHE", str(made / "cache"))
        return make_library(made)


def test_a_table_with_what_matched(library: Path) -> None:
    said = say(search, library, "a red boat", "-k", "3", "--system", "hybrid")
    assert said.status == 0, said.text
    assert (
        "library: “a red boat” (hybrid)" in said.text.replace("scenes", "library")
        or "“a red boat” (hybrid)" in said.text
    )
    assert "matched terms: " in said.text and "first caption" not in said.text
    assert (
        "1–3 of 48 pictures, ranked; 48 found by words; the next: --offset 3" in said.text and "\x1b" not in said.text
    )


def test_the_services_json(library: Path) -> None:
    said = say(search, library, "a red boat", "--system", "dense", "-k", "2", "--offset", "1", "--json")
    answer = json.loads(said.text)
    assert [hit["rank"] for hit in answer["hits"]] == [2, 3] and answer["next_offset"] == 3
    assert answer["system"] == "dense" and answer["total"] == 48
    first = answer["hits"][0]
    assert first["parts"] == {"dense": {"rank": 2, "score": first["score"]}}
    assert {"id", "thumbnail", "width", "height", "name", "caption", "path"} < set(first)


def test_filters_pictures_and_likeness(library: Path, tmp_path: Path) -> None:
    opened = LibrarySnapshot.open(library)
    item = opened.item(opened.indexes["dense"].ids[5].as_py())
    (tmp_path / "asked.png").write_bytes(opened.open_image(item.id)[0])
    like = json.loads(say(search, library, "--like", item.files[0].path, "--json").text)
    assert like["total"] == 47 and item.id not in [hit["id"] for hit in like["hits"]]
    assert like == {
        **json.loads(say(search, library, "--like", item.id[:12], "--json").text),
        "seconds": like["seconds"],
    }
    by = say(search, library, "--image", tmp_path / "asked.png", "--system", "dense", "--json")
    assert json.loads(by.text)["hits"][0]["id"] == item.id
    none = say(search, library, "a dog", "--where", "width > 9999")
    assert none.status == 0 and "nothing found: no picture passes the filters and the search" in none.text


def test_thumbnails_where_the_terminal_can(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.library.cli.search.graphics_protocol", lambda environment, terminal: "blocks")
    said = say(search, library, "a red boat", "-k", "2")
    assert said.text.count("▀") == 2 * 24 * 12 and "\x1b[38;2;" in said.text  # square scenes: 24 × 12 cells
    assert "▀" not in say(search, library, "a red boat", "-k", "2", "--no-thumbnails").text


@pytest.mark.parametrize("options", [["--json"], ["--system", "none"]])
def test_what_one_answer_changes_in_the_process_is_put_back(library: Path, options: list[str]) -> None:
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.mimalloc_memory_pool())
    try:
        say(search, library, "a red boat", *options)
        assert (pa.default_memory_pool().backend_name, gc.isenabled()) == ("mimalloc", True)
    finally:
        pa.set_memory_pool(before)


def test_faults(library: Path) -> None:
    said = say(search, library, "x", "--model", "pixels", "--to", "images")
    assert said.status == 2 and "--model" in said.text and "--to" in said.text and "has its own model" in said.text
    assert "visir search --help" in said.text
    plain = say(search, library, "a red boat", "-k", "2", "--json")
    assert [hit["rank"] for hit in plain.json["hits"]] == [1, 2]
    assert "did you mean 'hybrid'" in say(search, library, "x", "--system", "hybird").text
    unknown = say(search, library, "x", "--where", "widht > 3").text
    assert "unknown field 'widht' (did you mean 'width'?" in unknown
    assert "no picture 'nobody'" in say(search, library, "--like", "nobody").text
    assert "nothing is asked" in say(search, library).text
    assert r"text: not valid Unicode text: 'caf\udce9'" in say(search, library, "caf\udce9").text


def test_conditions_alone_are_listed_and_pages_agree(library: Path) -> None:
    said = say(search, library, "--where", "width >= 1", "-k", "5", "--json")
    answer = json.loads(said.text)
    assert (answer["by"], answer["label"], answer["total"], answer["next_offset"]) == ("filters", "by name", 48, 5)
    names = [hit["name"] for hit in answer["hits"]]
    assert names == sorted(names)
    shown = say(search, library, "--where", "width >= 1", "-k", "5")
    assert "1–5 of 48 pictures that pass the filters, by name; the next: --offset 5" in shown.text
    assert "0.0000" not in shown.text, "nothing was compared"
    name = json.dumps(names[0])
    single = say(search, library, "--where", f"name = {name}")
    assert "1–1 of 1 picture that passes the filters, by name" in single.text
    past = say(search, library, "--where", "width >= 1", "--offset", "100")
    assert "nothing behind --offset 100: 48 pictures that pass the filters" in past.text
    assert "conditions alone are listed" in say(search, library, "--where", "width > 1", "--system", "dense").text
