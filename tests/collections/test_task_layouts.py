"""Tasks that are in memory, in files anywhere, and in the layouts of the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from toys import jpeg

import visir
from refusals import refused
from visir.collections import open_source
from visir.collections.images import ImageReader
from visir.errors import CollectionError
from visir.records import Items, TaskFile, TaskSet

RED, BLUE = Image.new("RGB", (12, 8), "red"), Image.new("RGB", (12, 8), "blue")


def opened(source: Any, **options: Any) -> TaskFile:
    record = open_source(source, **options)
    assert isinstance(record, TaskFile)
    return record


def test_dictionaries() -> None:
    source = opened({"queries": {"q1": "a boat", 2: "a dog"}, "documents": {"d1": "boats", "d2": "dogs"},
                     "qrels": {"q1": {"d1": 2, "d2": 0}, 2: "d2"}}, name="mine")  # fmt: skip
    assert (source.name, source.tasks, source.splits) == ("mine", ("t2t",), ("",))
    assert source.queries.ids.to_pylist() == ["q1", "2"]
    assert source.task("t2t").judgements().to_dict() == {"2": {"d2": 1.0}, "q1": {"d1": 2.0, "d2": 0.0}}


def test_the_dictionaries_of_beir() -> None:
    corpus = {"d1": {"title": "Boats", "text": "two red boats"}, "d2": {"title": "", "text": "a dog"}}
    source = opened({"corpus": corpus, "queries": {"q1": "boat"}, "qrels": {"q1": {"d1": 1}}})
    assert source.documents.texts is not None
    assert source.documents.texts.to_pylist() == ["Boats two red boats", "a dog"]
    dropped = opened({"corpus": corpus, "queries": {"q1": "boat"}, "qrels": {"q1": {"d1": 1}}}, title="drop")
    assert dropped.documents.texts is not None
    assert dropped.documents.texts.to_pylist() == ["two red boats", "a dog"]


def test_items_of_every_kind_on_one_side(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg())
    source = opened({
        "queries": {"q1": {"text": "but at night", "image": RED}},
        "documents": {"d1": tmp_path / "a.jpg", "d2": "a text", "d3": np.zeros((8, 12, 3), np.uint8),
                      "d4": {"text": "both", "image": BLUE}, "d5": jpeg(colour=(9, 9, 9))},
        "qrels": [("q1", "d1"), ("q1", "d4", 2)],
    }, task="composed", images=tmp_path)  # fmt: skip
    assert source.tasks == ("composed",)
    assert (source.queries.modality, source.documents.modality) == ("text+image", "text+image")
    assert source.documents.texts is not None
    assert source.documents.texts.to_pylist() == [None, "a text", None, "both", None]
    paths = source.documents.images["path"].to_pylist()
    assert [path is None for path in paths] == [False, True, False, False, False]
    reader = ImageReader(source.documents)
    assert [reader.open(row).size for row in (0, 2, 3, 4)] == [(12, 8)] * 4
    assert ImageReader(source.queries).open(0).getpixel((0, 0)) == (255, 0, 0)


def test_strings_that_name_pictures(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(jpeg())
    parts = {"queries": ["two dogs"], "qrels": {0: [1]}}
    source = opened({"documents": ["a.jpg", "b.jpg"], **parts}, images=tmp_path)
    assert source.tasks == ("t2i",)
    assert "images: 2 of 2 found" in source.source
    assert opened({"documents": ["a.jpg", "and a text"], **parts}).tasks == ("t2t",)


@pytest.mark.parametrize(
    "form", ["rows", "columns", "arrow", "pandas", "polars", "dataset", "items", "jsonl", "parquet"]
)
def test_every_form_of_a_side_is_the_same_task(tmp_path: Path, form: str) -> None:
    rows = [{"id": "d1", "text": "boats"}, {"id": "d2", "text": "dogs"}]
    table, documents = pa.Table.from_pylist(rows), None
    if form == "pandas":
        documents = pytest.importorskip("pandas").DataFrame(rows)
    elif form == "polars":
        documents = pytest.importorskip("polars").DataFrame(rows)
    elif form == "dataset":
        documents = pytest.importorskip("datasets").Dataset.from_list(rows)
    elif form == "jsonl":
        documents = tmp_path / "mine.jsonl"
        documents.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif form == "parquet":
        documents = str(tmp_path / "mine.parquet")
        pq.write_table(table, documents)
    else:
        items = Items.of_texts({"d1": "boats", "d2": "dogs"})
        documents = {"rows": rows, "columns": table.to_pydict(), "arrow": table, "items": items}[form]
    parts = {"queries": {"q1": "a boat"}, "qrels": {"q1": ["d1"]}}
    expected = opened({"documents": {"d1": "boats", "d2": "dogs"}, **parts}).fingerprint
    assert opened({"documents": documents, **parts}).fingerprint == expected


def test_judgements_and_pools_by_split() -> None:
    source = opened({
        "queries": {"q1": "a", "q2": "b"}, "documents": {"d1": "x", "d2": "y", "d3": "z"},
        "qrels": {"train": {"q1": {"d1": 1}}, "test": pa.table({"query-id": ["q2"], "corpus-id": ["d3"]})},
        "pools": {"q1": ["d1", "d2"], "q2": ["d3"]},
    })  # fmt: skip
    assert source.splits == ("test", "train")
    assert source.split("test").queries.ids.to_pylist() == ["q2"]
    pools = source.split("train").task("t2t").pools
    assert pools is not None and pools.candidates("q1") == ["d1", "d2"]


def test_a_data_set_with_pictures_is_read_in_place() -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"id": "d1", "image": RED, "text": None}, {"id": "d2", "image": None, "text": "a dog"},
            {"id": "d3", "image": BLUE, "text": "blue"}]  # fmt: skip
    data = datasets.Dataset.from_list(rows).select([2, 0, 1])
    source = opened({"queries": ["red"], "documents": data, "qrels": {0: ["d1"]}})
    assert source.documents.ids.to_pylist() == ["d3", "d1", "d2"]
    assert source.documents.texts is not None
    assert source.documents.texts.to_pylist() == ["blue", None, "a dog"]
    assert source.documents.images["path"].to_pylist() == ["image#0", "image#1", None]
    reader = ImageReader(source.documents)
    assert [reader.open(row).getpixel((0, 0)) for row in (0, 1)] == [(0, 0, 255), (255, 0, 0)]


def test_labels_of_queries() -> None:
    queries = [{"id": "q1", "text": "a", "language": "en", "tone": "dry", "query_types": ["open", "short"]},
               {"id": "q2", "text": "b", "language": "fr", "tone": ""}]  # fmt: skip
    source = {"queries": queries, "documents": {"d1": "x"}, "qrels": {"test": {"q2": ["d1"]}, "dev": {"q1": ["d1"]}}}
    labels = opened(source).labels
    assert labels is not None
    assert labels.to_pydict() == {
        "query_id": ["q1", "q2"],
        "language": ["en", "fr"],
        "query_types": ["open + short", None],
    }
    assert opened(source, split="test").labels.to_pydict()["language"] == ["fr"]  # type: ignore[union-attr]
    assert opened(source, labels="tone").labels.to_pydict() == {"query_id": ["q1", "q2"], "tone": ["dry", None]}  # type: ignore[union-attr]
    with refused(CollectionError, "queries", "no column", "colour", "labels"):
        open_source(source, labels="colour")
    assert [row.label for row in visir.evaluate(source, "bm25").by("language").rows] == ["en", "fr"]


def test_it_goes_where_a_source_goes() -> None:
    source = {"queries": {"q1": "a red boat", "q2": "two dogs"}, "documents": ["dogs in red", "a boat", "two dogs"],
              "qrels": {"q1": [1], "q2": [2]}}  # fmt: skip
    evaluation = visir.evaluate(source, "bm25", measures=["nDCG@10", "R@1"])
    assert evaluation["R@1"] == 1.0
    assert visir.check(source).ok


def test_several_tasks_by_name() -> None:
    english = {"queries": {"q1": "a dog"}, "documents": {"d1": "dogs"}, "qrels": {"q1": ["d1"]}}
    german = {"queries": {"q1": "ein Hund"}, "documents": {"d1": "Hunde"}, "qrels": {"q1": ["d1"]}}
    source = open_source({"en": english, "de": german})
    assert isinstance(source, TaskSet)
    assert source.tasks == ("en", "de")
    assert source.task("de").queries.shown == "'ein Hund'"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qrels": None}, "a task (1 fault):\n  - no qrels"),
        ({"qrels": {"q1": ["d9"]}}, "qrels, query 'q1': unknown document 'd9'"),
        ({"queries": 3}, "queries: a int holds none."),
        ({"queries": "mine.jsonl"}, "queries: mine.jsonl: no such file."),
        ({"documents": {"id": ["d1", "d2"], "text": ["a"]}}, "documents: the columns differ in length: id 2, text 1."),
        ({"documents": {"d1": {"text": 3}}}, "documents, 'd1': the text of document 'd1' is no text: '3'"),
        ({"documents": {"d1": {}}}, "document 'd1' has neither a text nor an image"),
        ({"qrels": [("q1", "d1", -1)]}, None),
        ({"documents": [{"id": "d1", "text": "a"}, {"id": "d1", "text": "b"}]}, "document 'd1' stands twice"),
        ({"pools": {"q2": ["d1"]}}, "pools, 'q2': unknown query 'q2'"),
        ({"pools": 3}, "pools: a int holds none."),
        ({"corpus": {"d1": "again"}}, "'corpus' and another name say the documents of the task."),
    ],
)
def test_what_is_wrong_with_it(change: dict[str, Any], message: str | None) -> None:
    source = {"queries": {"q1": "a"}, "documents": {"d1": "b"}, "qrels": {"q1": ["d1"]}, **change}
    if message is None:
        assert opened(source).judgements["grade"].to_pylist() == [0.0]
        return
    with pytest.raises(CollectionError) as raised:
        open_source(source)
    assert message in str(raised.value)


PICTURE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def cells(*pictures: bytes) -> pa.Array:
    return pa.array([{"bytes": picture, "path": None} for picture in pictures], PICTURE)


def write(folder: Path, **tables: pa.Table) -> Path:
    for name, table in tables.items():
        path = folder / f"{name.replace('__', '/').replace('_0', '-0').replace('_of', '-of')}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
    return folder


def test_pages_of_vidore_from_the_second_version_on(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "esg",
        corpus__test_00000_of_00001=pa.table({"corpus-id": [0, 1], "image": cells(jpeg(), jpeg(colour=(1, 2, 3))),
                                              "doc-id": ["report", "report"], "markdown": ["# A", "# B"]}),
        queries__test_00000_of_00001=pa.table({"query-id": [7], "query": ["what emissions?"], "answer": ["many"]}),
        qrels__test_00000_of_00001=pa.table({"query-id": [7, 7], "corpus-id": [0, 0], "answer": ["many", "many"],
                                             "score": [1, 1]}),
    )  # fmt: skip
    source = opened(folder)
    assert (source.tasks, source.splits) == (("t2i",), ("test",))
    assert source.documents.ids.to_pylist() == ["0", "1"]
    assert source.task("t2i").judgements().to_dict() == {"7": {"0": 1.0}}
    assert "1 judgements stand twice" in source.source


def test_several_languages_of_one_data_set(tmp_path: Path) -> None:
    for language, text in (("en", "a dog"), ("de", "ein Hund")):
        write(tmp_path / f"x/{language}-corpus", test=pa.table({"id": ["d1"], "text": [text]}))
        write(tmp_path / f"x/{language}-queries", test=pa.table({"id": ["q1"], "text": [text]}))
        write(tmp_path / f"x/{language}-qrels", test=pa.table({"query-id": ["q1"], "corpus-id": ["d1"]}))
    source = open_source(tmp_path / "x")
    assert isinstance(source, TaskSet)
    assert (source.tasks, source.splits) == (("de", "en"), ("test",))
    assert opened(f"{tmp_path / 'x'}?subset=en").queries.shown == "'a dog'"
    with refused(CollectionError, "fr", code="collection-no-task"):
        open_source(tmp_path / "x", subset="fr")


def test_folders_that_hold_a_task_each(tmp_path: Path) -> None:
    for name in ("android", "gaming"):
        write(tmp_path / f"cqa/{name}", corpus=pa.table({"id": ["d1"], "text": ["a"]}),
              queries=pa.table({"id": ["q1"], "text": ["b"]}),
              qrels=pa.table({"query-id": ["q1"], "corpus-id": ["d1"]}))  # fmt: skip
    source = open_source(tmp_path / "cqa")
    assert source.tasks == ("android", "gaming")


CARD = """---
configs:
- config_name: default
  data_files:
  - split: test
    path: relevance/test-*
- config_name: corpus
  data_files:
  - split: test
    path: pages/part-*
- config_name: queries
  data_files: asked/*.parquet
- config_name: other
  data_files: README.md
---
# A data set
"""


def test_what_the_card_of_a_data_set_lists(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "hub",
        relevance__test_00000_of_00001=pa.table({"query-id": ["q1"], "corpus-id": ["d1"], "score": [1]}),
        pages__part_00000=pa.table({"_id": ["d1", "d2"], "text": ["a", "b"]}),
        asked__x=pa.table({"_id": ["q1"], "text": ["c"]}),
    )
    (folder / "README.md").write_text(CARD)
    source = opened(folder)
    assert (source.tasks, source.splits) == (("t2t",), ("test",))
    assert source.documents.ids.to_pylist() == ["d1", "d2"]


def test_judgements_of_the_default_configuration(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "hub",
        data__test_00000_of_00001=pa.table({"query-id": ["q1"], "corpus-id": ["d1"], "score": [1]}),
        corpus__test_00000_of_00001=pa.table({"_id": ["d1"], "text": ["a"]}),
        queries__test_00000_of_00001=pa.table({"_id": ["q1"], "text": ["c"]}),
    )
    assert opened(folder).splits == ("test",)


def test_a_corpus_for_each_split(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "t",
        corpus__train=pa.table({"id": ["d1", "d2"], "text": ["a", "b"]}),
        corpus__test=pa.table({"id": ["d2", "d3"], "text": ["b", "c"]}),
        queries=pa.table({"id": ["q1", "q2"], "text": ["x", "y"]}),
        qrels__train=pa.table({"query-id": ["q1"], "corpus-id": ["d1"]}),
        qrels__test=pa.table({"query-id": ["q2"], "corpus-id": ["d3"]}),
    )
    whole = opened(folder)
    assert whole.documents.ids.to_pylist() == ["d2", "d3", "d1"]
    assert whole.split("test").documents.ids.to_pylist() == ["d2", "d3"]
    assert whole.split("train").documents.ids.to_pylist() == ["d2", "d1"]
    assert opened(folder, split="test").documents.ids.to_pylist() == ["d2", "d3"]
    with refused(CollectionError, "tset", code="unknown-split"):
        open_source(folder, split="tset")
    other = write(tmp_path / "t", corpus__test=pa.table({"id": ["d2", "d3"], "text": ["another", "c"]}))
    with pytest.raises(CollectionError, match="document 'd2' has another text in another split: read one split alone"):
        open_source(other)
    assert opened(other, split="test").documents.shown == "'another', 'c'"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Data sets of a hub by configuration, in place of the real one."""
    datasets = pytest.importorskip("datasets")
    configurations: dict[str, Any] = {}
    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda name: list(configurations))
    monkeypatch.setattr(datasets, "load_dataset", lambda name, configuration: configurations[configuration])
    return configurations


def test_a_task_of_the_hub(hub: dict[str, Any]) -> None:
    datasets = pytest.importorskip("datasets")

    def split(**rows: list[Any]) -> Any:
        return datasets.DatasetDict(test=datasets.Dataset.from_dict(rows))

    hub |= {"corpus": split(id=["d1", "d2"], image=[RED, BLUE]), "queries": split(id=["q1"], text=["red"]),
            "default": split(**{"query-id": ["q1"], "corpus-id": ["d1"], "score": [1]})}  # fmt: skip
    source = opened("hf:user/reds", split="test")
    assert (source.name, source.tasks) == ("reds", ("t2i",))
    assert ImageReader(source.documents).open(1).getpixel((0, 0)) == (0, 0, 255)
    for name in list(hub):
        hub[f"en-{'qrels' if name == 'default' else name}"] = hub.pop(name)
    assert opened("hf:user/reds").tasks == ("t2i",)
    assert opened("hf:user/reds:en").fingerprint == source.fingerprint
