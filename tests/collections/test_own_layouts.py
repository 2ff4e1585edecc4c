"""A layout of one's own: a TOML file says which files and columns a source has, without code."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import visir
from refusals import refused
from verbs import say
from visir.cli.data import inspect_command
from visir.collections import open_collection, open_source
from visir.errors import CollectionError, ConfigurationError
from visir.records import TaskFile, TaskSet


def rows(collection) -> list[tuple[str, str, str]]:
    return [(row["id"], row["text"], row["image_id"]) for row in collection.captions.to_pylist()]


def test_lists_inside_json(write, tmp_path) -> None:
    for split, start in (("train", 0), ("dev", 10)):
        said = [{"txt": "a"}, {"txt": "b"}]
        images = [{"nr": start + n, "file": f"{start + n}.jpg", "said": said, "cam": {"type": "x"}} for n in (1, 2)]
        write(f"birds/lists/birds_{split}.json", {"photos": images})
    write("birds/photos/1.jpg", b"-")
    layout = write("birds/birds.toml", """
        title = "Birds of my university"
        [[tables]]
        files = "lists/birds_{split}.json"
        rows = "photos"
        once = true
        columns = { id = "nr", image = "file", caption = "said[].txt", split = "split" }
        further = ["cam"]
    """)  # fmt: skip
    birds = visir.open(tmp_path / "birds", layout=layout)
    assert birds.name == "birds" and birds.source.startswith("Birds of my university birds_dev.json, birds_train.json")
    assert rows(birds)[:3] == [("11#0", "a", "11"), ("11#1", "b", "11"), ("12#0", "a", "12")]
    assert birds.splits == ("train", "val")
    assert birds.images["path"].to_pylist() == [None, None, "photos/1.jpg", None]
    assert birds.facts["cam"].to_pylist() == [{"type": "x"}] * 4
    assert open_collection(f"{tmp_path / 'birds'}?layout=birds.toml").fingerprint == birds.fingerprint
    inspected = say(inspect_command, tmp_path / "birds", "--option", f"layout={layout}")
    assert inspected.status == 0 and "Birds of my university" in inspected.text


def test_two_tables_that_belong_together(write, tmp_path) -> None:
    write("s/images.csv", "nr,file\n1,a.jpg\n2,b.jpg\n")
    write(
        "s/texts.jsonl",
        b"".join(orjson.dumps({"of": n, "t": t, "lang": "de"}) + b"\n" for n, t in ((1, "x"), (2, "y"), (1, "z"))),
    )
    write("two.toml", """
        [[tables]]
        files = "images.csv"
        columns = { id = "nr", image = "file" }
        [[tables]]
        files = "texts.jsonl"
        columns = { id = "of", caption = "t", language = "lang" }
    """)  # fmt: skip
    found = visir.open(tmp_path / "s", layout=tmp_path / "two.toml")
    assert rows(found) == [("1#0", "x", "1"), ("2#0", "y", "2"), ("1#1", "z", "1")]
    assert found.languages == ("de",)
    write("s/texts.jsonl", orjson.dumps({"of": 3, "t": "no such image"}) + b"\n")
    with refused(CollectionError, "'3'", "not in the collection"):
        visir.open(tmp_path / "s", layout=tmp_path / "two.toml")


def test_lines_and_files_of_text(write, tmp_path) -> None:
    write("lines/all.txt", "a.jpg|0|first | with a bar\nb.jpg|1|second\nno bars\n")
    layout = write("lines.toml", """
        [[tables]]
        files = "*.txt"
        line = "{photo}|{number}|{words}"
        columns = { image = "photo", caption = "words", caption_id = "{photo}-{number}" }
    """)  # fmt: skip
    with refused(CollectionError, "all.txt, line 3", "photo|number|words", "no bars"):
        visir.open(tmp_path / "lines", layout=layout)
    write("lines/all.txt", "a.jpg|0|first | with a bar\nb.jpg|1|second\n")
    assert rows(visir.open(tmp_path / "lines", layout=layout))[0] == ("a.jpg-0", "first | with a bar", "a.jpg")
    write("texts/captions/de/1.txt", "ein Hund")
    write("texts/captions/en/1.txt", "a dog")
    layout = write("texts.toml", """
        [[tables]]
        files = "captions/{language}/{stem}.txt"
        columns = { image = "photos/{stem}.jpg", caption = "text", language = "language" }
    """)  # fmt: skip
    texts = visir.open(tmp_path / "texts", layout=layout)
    assert texts.languages == ("de", "en") and len(texts) == 1 and texts.captions.num_rows == 2


def test_choices(write, tmp_path) -> None:
    items = {"x": {"photo": "a.jpg", "yes": "a dog", "no1": "a fox", "no2": "a cow", "kind": "noun"}}
    write("c/pairs.json", items)
    layout = write("c.toml", """
        make = "choices"
        [[tables]]
        columns = { image = "photo", caption = "yes", wrong = "no1, no2" }
        further = ["kind"]
    """)  # fmt: skip
    task = open_source(tmp_path / "c", layout=layout, images="none")
    assert isinstance(task, TaskFile) and task.task("i2t").pools.candidates("x") == ["x/no1", "x/no2", "x/yes"]
    assert task.labels["kind"].to_pylist() == ["noun"]
    write("c/pairs.json", {"x": {"p": "a.jpg", "q": "b.jpg", "s": "a b", "t": "b a"}})
    write("c.toml", 'make = "choices"\n[[tables]]\ncolumns = { image = "p, q", caption = "s, t" }\n')
    both = open_source(tmp_path / "c", layout=layout, images="none")
    assert isinstance(both, TaskSet) and both.task("t2i").judgements().to_dict()["x/t"] == {"x/q": 1.0}


def test_a_task(write, tmp_path) -> None:
    write("t/pages.csv", "nr,body,head\n1,two boats,Sea\n2,a dog,\n")
    write("t/ask.json", [{"own": "q1", "words": "boats", "lang": "en"}])
    write("t/right_test.tsv", "q\tp\tgood\nq1\t1\t2\n")
    layout = write("t.toml", """
        make = "task"
        [[tables]]
        part = "queries"
        files = "ask.json"
        columns = { id = "own", text = "words" }
        further = ["lang"]
        [[tables]]
        part = "documents"
        files = "pages.csv"
        columns = { id = "nr", text = "body", title = "head" }
        [[tables]]
        part = "judgements"
        files = "right_{split}.tsv"
        columns = { query = "q", document = "p", grade = "good", split = "split" }
    """)  # fmt: skip
    task = visir.open(tmp_path / "t", layout=layout)
    assert task.splits == ("test",) and task.documents.texts.to_pylist() == ["Sea two boats", "a dog"]
    assert task.split("test").task(task.tasks[0]).judgements().to_dict() == {"q1": {"1": 2.0}}
    assert task.labels["lang"].to_pylist() == ["en"]
    write("t/right_test.tsv", "q\tp\tgood\nq9\t1\t2\n")
    with refused(CollectionError, "line 2", "'q9'"):
        visir.open(tmp_path / "t", layout=layout)


def test_all_that_is_wrong_with_a_layout_is_told_at_once(write, tmp_path) -> None:
    layout = write("bad.toml", """
        mak = "captions"
        title = 7
        [[tables]]
        files = ["../elsewhere.json", "/etc/passwd"]
        columns = { imag = "file", caption = "text" }
        [[tables]]
        once = "yes"
        files = "a.json"
    """)  # fmt: skip
    with pytest.raises(CollectionError) as caught:
        visir.open(tmp_path, layout=layout)
    for part in (
        "(7 faults)", "unknown key 'mak'", "title must be a text", "table 1: files: '../elsewhere.json'",
        "'/etc/passwd'",
        "table 1: columns: unknown 'imag'", "table 2: once must be true or false", "table 2: columns must say",
    ):  # fmt: skip
        assert part in str(caught.value), part
    for text in ("[[", "a = " + "[" * 3000):
        with refused(ConfigurationError, "bad.toml", code="not-valid-toml"):
            visir.open(tmp_path, layout=write("bad.toml", text))
    with refused(CollectionError, "nowhere.toml", "no such file", code="no-layout"):
        visir.open(tmp_path, layout="nowhere.toml")


@pytest.mark.parametrize("name", ["../up.jpg", "/home/{name}.jpg", "~/{name}.jpg", "..\\\\x.jpg", "file:///x"])
def test_pictures_outside_of_the_source_are_refused(write, tmp_path, name: str) -> None:
    layout = write("o.toml", f'[[tables]]\nfiles = "a.json"\ncolumns = {{ image = "{name}", caption = "text" }}\n')
    with refused(CollectionError, "image", "is not inside the source"):
        visir.open(tmp_path, layout=layout)


def test_a_link_out_of_the_source_is_not_followed(write, tmp_path) -> None:
    write("secret/a.json", [{"image": "a.jpg", "text": "secret"}])
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.json").symlink_to(tmp_path / "secret" / "a.json")
    layout = write("l.toml", '[[tables]]\nfiles = "a.json"\ncolumns = { image = "image", caption = "text" }\n')
    with refused(CollectionError, "a.json is a link out of it"):
        visir.open(tmp_path / "s", layout=layout)


def test_what_a_source_lacks_is_named(write, tmp_path) -> None:
    layout = write(
        "x.toml", 'obtain = "ask me"\n[[tables]]\nfiles = "a.json"\ncolumns = { image = "image", caption = "text" }\n'
    )
    (tmp_path / "empty").mkdir()
    with refused(CollectionError, "no a.json in it", code="not-layout") as fault:
        visir.open(tmp_path / "empty", layout=layout)
    assert "ask me" in fault.value.hint
    write("lacking/a.json", [{"image": "a.jpg", "txt": "x"}])
    with refused(CollectionError, "a.json has no 'text'", "image, txt", code="not-layout"):
        visir.open(tmp_path / "lacking", layout=layout)
    lines = write("y.toml", '[[tables]]\nfiles = "a.txt"\nline = "{p}|{t}"\ncolumns = { image = "p", caption = "t" }\n')
    write("lacking/a.txt", "a line without a bar\n")
    with refused(CollectionError, "a.txt does not begin with a line '{p}|{t}'", code="not-layout"):
        visir.open(tmp_path / "lacking", layout=lines)
    write("s/a.json", [{"image": "a.jpg", "text": "x"}, {"image": "b.jpg"}, 3])
    with refused(CollectionError, "a.json, item 1", "no 'text'", "item 2", "expected an object"):
        visir.open(tmp_path / "s", layout=layout)


def test_the_published_layouts_have_the_form_of_ones_own(tmp_path: Path) -> None:
    from visir.collections.layout import _OF_LAYOUT, _OF_ROWS, _listed

    for name, about in _listed().items():
        for table in about.get("tables", ()):
            assert table.keys() <= {*_OF_ROWS}, name
    assert {"title", "cite", "obtain"} <= {*_OF_LAYOUT}


SOURCES = {
    "images": ("", """
        files = "images_{split}.csv"
        columns = { id = "nr", image = "file", split = "split" }
        further = ["camera"]
        [[tables]]
        files = "texts.jsonl"
        columns = { id = "of", caption = "t | u", language = "lang" }
    """, {
        "images_train.csv": "nr,file,camera\n1,a.jpg,x\n2,b.jpg,x\n2,b.jpg,y\n",
        "images_dev.csv": "nr,file,camera\n3,c.jpg,x\n",
        "texts.jsonl": b"".join(
            orjson.dumps({"of": n % 3 + 1, "t" if n % 2 else "u": f"t{n}", "lang": "de" if n % 4 else None}) + b"\n"
            for n in range(5_000)
        ),
    }),
    "lists": ("own_ids = true", """
        files = "all.json"
        columns = { image = "{folder}/{name} | name", caption = "said[].txt", language = "said[].l", split = "part" }
    """, {
        "all.json": [
            {"folder": "p" if n % 2 else "", "name": f"{n}.jpg", "part": ("train", "dev", None)[n % 3],
             "said": [{"txt": f"{n} {m}", "l": "en"} for m in range(n % 4)]}
            for n in range(3_000)
        ],
    }),
    "lines": ("", """
        files = "all.txt"
        line = "{photo}#{number} {words}"
        columns = { image = "photo", caption = "words" }
    """, {"all.txt": "".join(f"{n // 3}.jpg#{n} some words\n" + "\n" * (n % 7 == 0) for n in range(5_000))}),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_rows_are_read_the_same_together_and_one_by_one(write, tmp_path, monkeypatch, name: str) -> None:
    about, table, files = SOURCES[name]
    for file, content in files.items():
        write(f"s/{file}", content)
    layout = write("l.toml", f"{about}\n[[tables]]\n{table}")
    together = visir.open(tmp_path / "s", layout=layout)
    monkeypatch.setattr("visir.collections.layout._Images.add_plain", lambda *row, **columns: False)
    one_by_one = visir.open(tmp_path / "s", layout=layout)
    assert together.fingerprint == one_by_one.fingerprint and together.source == one_by_one.source
    for part in ("images", "captions", "facts"):
        assert getattr(together, part) == getattr(one_by_one, part)


def test_faults_come_in_the_order_of_the_lines(write, tmp_path) -> None:
    write("s/all.jsonl", '{"image": "a.jpg"}\n{"image"\n{"image": "b.jpg", "text": 7}\n[1]\n{"text": "x"}\n')
    layout = write("l.toml", '[[tables]]\nfiles = "all.jsonl"\ncolumns = { image = "image", caption = "text" }\n')
    with pytest.raises(CollectionError) as caught:
        visir.open(tmp_path / "s", layout=layout)
    places = [str(caught.value).index(f"line {number}") for number in range(1, 6)]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ('files = "{x}-{x}.csv"', "{x} stands there twice"),
        ('files = "t.csv"\nline = "{a},{a}"', "{a} stands there twice"),
        ('files = "t.csv"\nline = "{a b},{c}"', "{a b} is no name"),
        ('files = "t.csv"\nline = "{a}{c}"', "nothing between them"),
        ('files = "*a*b*c*d*.csv"', "more than 4"),
        ('files = "t.csv"\nfurther = [1, 2]', "further must be a list of names"),
        ('files = "t.csv"\nhas = [1]', "has must be a list of names"),
    ],
)
def test_fields_that_no_name_can_fit_are_refused(table: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\nx.jpg,hello\n")
    (tmp_path / "own.toml").write_text(f'[[tables]]\n{table}\ncolumns = {{ image = "a", caption = "b" }}\n')
    with pytest.raises(CollectionError) as caught:
        visir.open(tmp_path, layout="own.toml")
    assert fault in str(caught.value)
