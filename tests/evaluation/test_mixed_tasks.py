"""Tasks of which some queries and documents are texts, some pictures, some both: opened, encoded, searched, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from composed_toys import Colours, paint

import visir
from refusals import refused
from visir.errors import CollectionError, ConfigurationError, EncoderError, ImageError, RunError
from visir.records import Embeddings, EncoderCard, Task


def source(folder: Path, **changes: Any) -> dict[str, Any]:
    """Queries and documents of all kinds; the colours say what is right."""
    paint(folder)
    picture = {name: str(folder / f"{name}.png") for name in ("red", "green", "blue", "yellow")}
    return {
        "queries": {
            "q1": {"text": "red"},
            "q2": {"image": picture["green"]},
            "q3": {"text": "green", "image": picture["red"]},
        },
        "documents": {
            "d1": {"image": picture["red"]},
            "d2": {"text": "green"},
            "d3": {"text": "red", "image": picture["green"]},
            "d4": {"text": "blue", "image": None},
        },
        "qrels": {"q1": ["d1"], "q2": ["d2"], "q3": ["d3"]},
        **changes,
    }


MODEL = "sum(0.5)"


def test_every_kind_finds_every_kind(tmp_path: Path) -> None:
    task = visir.open(source(tmp_path))
    evaluation = visir.evaluate(task, Colours(), compose=MODEL, measures=["R@1"])
    assert evaluation["it2it R@1"] == 1
    protocol = evaluation.result.protocol
    assert protocol.queries["it2it"].startswith("3 queries (1 text, 1 image, 1 text with an image) · ")
    assert protocol.galleries["it2it"].startswith("4 documents (2 texts, 1 image, 1 text with an image) · ")
    assert protocol.composition == MODEL
    labels = evaluation.result.labels["it2it"]
    assert dict(zip(labels["query_id"].to_pylist(), labels["holds"].to_pylist(), strict=True)) == {
        "q1": "text", "q2": "image", "q3": "text+image",
    }  # fmt: skip
    card = repr(task.task("it2it"))
    assert "3 queries" in card and "4 documents" in card
    shown = task.task("it2it")._repr_html_()
    assert "queries: 1 text, 1 image, 1 text with an image" in shown


@pytest.mark.parametrize("form", ["beir", "parquet", "frame"])
def test_absent_cells_of_every_layout(tmp_path: Path, form: str) -> None:
    given = source(tmp_path / "pictures")
    rows = {
        side: [{"_id": name, "text": None, "image": None, **item} for name, item in given[side].items()]
        for side in ("queries", "documents")
    }
    folder = tmp_path / "task"
    (folder / "qrels").mkdir(parents=True)
    if form == "beir":
        for side, name in (("queries", "queries"), ("documents", "corpus")):
            lines = [{key: value for key, value in row.items() if value is not None} for row in rows[side]]
            (folder / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    if form == "parquet":  # pictures in cells
        for side, name in (("queries", "queries"), ("documents", "corpus")):
            cells = [None if row["image"] is None else {"bytes": Path(row["image"]).read_bytes(), "path": None}
                     for row in rows[side]]  # fmt: skip
            columns = {"_id": [row["_id"] for row in rows[side]], "text": [row["text"] for row in rows[side]]}
            kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
            pq.write_table(pa.table({**columns, "image": pa.array(cells, kind)}), folder / f"{name}.parquet")
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d[0]}\t1\n" for q, d in given["qrels"].items())
    )
    opened: Any
    if form == "frame":
        pandas = pytest.importorskip("pandas")
        opened = visir.open({**{side: pandas.DataFrame(rows[side]) for side in rows}, "qrels": given["qrels"]})
    else:
        opened = visir.open(folder)
    task = opened.task("it2it")
    assert task.queries.holding == "1 text, 1 image, 1 text with an image"
    assert task.documents.holding == "2 texts, 1 image, 1 text with an image"
    assert visir.evaluate(opened, Colours(), compose=MODEL, measures=["R@1"])["R@1"] == 1


def test_documents_without_any_of_both_need_no_rule(tmp_path: Path) -> None:
    given = source(tmp_path)
    task = visir.open(
        {
            "queries": {"q1": "red", "q2": "green"},
            "documents": {name: given["documents"][name] for name in ("d1", "d2", "d4")},
            "qrels": {"q1": ["d1"], "q2": ["d2"]},
        }
    )
    evaluation = visir.evaluate(task, Colours(), measures=["R@1"])
    assert evaluation["t2it R@1"] == 1 and evaluation.result.protocol.composition == ""


def test_all_that_a_model_cannot_take_is_said_first(tmp_path: Path) -> None:
    model = Colours()
    with pytest.raises(EncoderError) as caught:
        visir.evaluate(visir.open(source(tmp_path)), model, measures=["R@1"])
    assert "1 text with an image among 3 queries: q3" in str(caught.value)
    assert "1 text with an image among 4 documents: d3" in str(caught.value)
    assert 'compose="sum(0.5)"' in str(caught.value) and (model.pictures, model.texts) == (0, 0)
    with refused(EncoderError, "1 image among 3 queries", "q2"):
        visir.evaluate(visir.open(source(tmp_path)), "bow:64", measures=["R@1"])
    assert model.cannot("text+image").hint


def test_a_picture_that_is_not_there_is_no_absent_picture(tmp_path: Path) -> None:
    given = source(tmp_path)
    given["documents"]["d3"]["image"] = str(tmp_path / "nowhere.png")
    task = visir.open(given)
    assert task.task("it2it").documents.holding == "2 texts, 1 image, 1 text with an image"
    with pytest.raises(ImageError, match=r"image 'd3' \(.*nowhere\.png\): cannot be read"):
        visir.evaluate(task, Colours(), compose=MODEL)
    evaluation = visir.evaluate(task, Colours(), compose=MODEL, skip_broken=True, measures=["R@1"])
    assert any("1 document could not be encoded; set aside: d3" in note for note in evaluation.result.notes)


def test_items_of_nothing_and_names_among_texts(tmp_path: Path) -> None:
    given = source(tmp_path)
    given["documents"] |= {"x": {"text": None, "image": None}, "y": {"text": "", "image": None}}
    with pytest.raises(CollectionError, match="document 'x' has neither a text nor an image"):
        visir.open(given)
    empty = source(tmp_path)
    empty["documents"]["d1"] = {"text": "  ", "image": str(tmp_path / "red.png")}  # says nothing: a picture alone
    assert visir.open(empty).task("it2it").documents.holding == "2 texts, 1 image, 1 text with an image"
    named = {"queries": {"q": "red"}, "documents": {"d1": "boat.jpg", "d2": "two dogs"}, "qrels": {"q": ["d2"]}}
    assert visir.open(named).task("t2t").documents.holding == "text"  # no such file: a text
    named["documents"] = {"d1": str(tmp_path / "red.png"), "d2": "two dogs"}
    assert visir.open(named).task("t2it").documents.holding == "1 text, 1 image"


def test_search_of_all_kinds(tmp_path: Path) -> None:
    opened = visir.open(source(tmp_path))
    model = visir.encoders.compose(Colours(), MODEL)
    both = visir.Query(text="green", image=str(tmp_path / "red.png"))
    queries = {"t": "red", "i": tmp_path / "green.png", "ti": both}
    run = visir.search(opened, model, queries, k=2)
    assert [run.top(query, 1) for query in queries] == [["d1"], ["d2"], ["d3"]]
    page = run._repr_html_()
    assert ">green<" in page  # among pictures, a document of text shows its text


def open_all(task: Any, texts: dict[str, list[float]], rows: dict[str, list[float]]) -> Any:
    """The same from a system whose vectors of a side are all under what its columns hold."""
    from visir.evaluation.systems import VectorSystem

    card = EncoderCard("given", "test", revision="1")
    sides = {"text": texts, "image": {"d1": rows["d1"]}, "text+image": rows}
    given = {kind: Embeddings(kind, list(own), np.array(list(own.values()), np.float32), card)  # type: ignore[arg-type]
             for kind, own in sides.items()}  # fmt: skip
    return visir.evaluate(task, VectorSystem(given), measures=["R@1"])


def test_given_vectors_by_kind(tmp_path: Path) -> None:
    given = source(tmp_path)
    given["documents"].pop("d3")
    task = visir.open({"queries": {"q1": "red", "q2": "green"}, "documents": given["documents"],
                       "qrels": {"q1": ["d1"], "q2": ["d2"]}})  # fmt: skip
    rows = {"d1": [1.0, 0, 0], "d2": [0, 1.0, 0], "d4": [0, 0, 1.0]}
    texts = {"q1": [1.0, 0, 0], "q2": [0, 1.0, 0], "d2": rows["d2"], "d4": rows["d4"]}
    by_kind = visir.evaluate(task, vectors={"image": {"d1": rows["d1"]}, "text": texts}, measures=["R@1"])
    roles = {"query": {name: texts[name] for name in ("q1", "q2")}, "document": rows}
    by_role = visir.evaluate(task, vectors=roles, measures=["R@1"])
    assert by_kind["R@1"] == by_role["R@1"] == 1
    two = open_all(task, texts, rows)
    assert two["R@1"] == 1
    with refused(ConfigurationError, "documents", "2 texts", "1 image", "1 text", code="no-vectors-given-vectors"):
        visir.evaluate(visir.open(source(tmp_path, queries={"q1": "red"}, qrels={"q1": ["d1"]})),
                       vectors={"image": {"d1": rows["d1"]}, "text": texts})  # fmt: skip


def test_words_find_texts_alone(tmp_path: Path) -> None:
    task: Task = visir.open(source(tmp_path, queries={"q1": "red", "q2": "green"}, qrels={"q1": ["d3"], "q2": ["d2"]}))
    evaluation = visir.evaluate(task, "bm25", measures=["R@1"])
    assert evaluation["R@1"] == 1
    assert "1 of 4 documents have no text: BM25 cannot find them" in evaluation.result.notes


def test_pairs_of_mixed_items_are_not_re_ranked(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from visir.retrieval.rerank import _sides

    task = visir.open(source(tmp_path)).task("it2it")
    evaluation = visir.evaluate(task, Colours(), compose=MODEL)
    with pytest.raises(RunError, match="the queries are 1 text, 1 image, 1 text with an image and the documents are"):
        _sides(evaluation.runs["it2it"], {"it2it": task})


def test_the_vectors_of_an_evaluation_are_those_of_the_items_alone(tmp_path: Path) -> None:
    task = visir.open(source(tmp_path)).task("it2it")
    model = visir.encoders.compose(Colours(), MODEL)
    whole = visir.encode(model, task)
    for row, name in enumerate(task.documents.ids.to_pylist()):
        alone = visir.encode(model, task.documents.take(np.array([row])))
        assert np.array_equal(alone[name], whole[name])
