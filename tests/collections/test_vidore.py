"""ViDoRe's layouts, built small: pages as pictures in Parquet."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from refusals import refused
from visir.collections import open_source
from visir.collections.images import ImageReader
from visir.errors import CollectionError
from visir.records import TaskFile


def _page(colour: str) -> dict[str, object]:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 10), colour).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": f"{colour}.png"}


def _write(folder: Path, rows: list[dict[str, object]], name: str = "test-00000-of-00001.parquet") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / name)


def _in_parts(folder: Path, dash: str = "-", **changes: list[dict[str, object]]) -> Path:
    query, page = f"query{dash}id", f"corpus{dash}id"
    parts = {
        "corpus": [{page: 0, "image": _page("red"), f"doc{dash}id": "report"},
                   {page: 1, "image": _page("blue"), f"doc{dash}id": "report"}],
        "queries": [{query: 0, "query": "Which is red?", "language": "english", "answer": "the first"},
                    {query: 1, "query": "Laquelle est bleue ?", "language": "french", "answer": ""}],
        "qrels": [{query: 0, page: 0, "score": 2}, {query: 1, page: 1, "score": 1}],
        **changes,
    }  # fmt: skip
    for part, rows in parts.items():
        if rows:
            _write(folder / part, rows)
    return folder


@pytest.mark.parametrize("dash", ["-", "_"])
def test_with_corpus_queries_and_qrels(tmp_path, dash: str) -> None:
    pages = open_source(_in_parts(tmp_path / "esg_reports", dash))
    assert isinstance(pages, TaskFile)
    assert (pages.tasks, pages.splits, len(pages.queries), len(pages.documents)) == (("t2i",), ("test",), 2, 2)
    assert pages.qrels("t2i").to_dict() == {"0": {"0": 2.0}, "1": {"1": 1.0}}
    assert pages.labels is not None
    assert pages.labels["language"].to_pylist() == ["english", "french"]
    assert ImageReader(pages.documents).open(1).getpixel((0, 0)) == (0, 0, 255)


def test_one_table_of_questions_and_pages(tmp_path) -> None:
    rows = [
        {"query": "Which is red?", "image": _page("red"), "image_filename": "a_1.jpg", "page": "1"},
        {"query": "Which is red?", "image": _page("blue"), "image_filename": "a_2.jpg", "page": "2"},
        {"query": "And blue?", "image": _page("blue"), "image_filename": "a_2.jpg", "page": "2"},
        {"query": None, "image": _page("green"), "image_filename": "b_1.jpg", "page": "1"},
    ]
    _write(tmp_path / "docvqa" / "data", rows)
    for path in (tmp_path / "docvqa", tmp_path / "docvqa" / "data" / "test-00000-of-00001.parquet"):
        pages = open_source(path)
        assert isinstance(pages, TaskFile)
        assert pages.documents.ids.to_pylist() == ["a_1.jpg", "a_2.jpg", "b_1.jpg"]
        assert pages.queries.to_arrow().to_pylist() == [
            {"id": "query-0", "text": "Which is red?"}, {"id": "query-1", "text": "And blue?"}]  # fmt: skip
        judged = {"query-0": {"a_1.jpg": 1.0, "a_2.jpg": 1.0}, "query-1": {"a_2.jpg": 1.0}}
        assert pages.qrels("t2i").to_dict() == judged
        assert (pages.splits, "1 pages without a question" in pages.source) == (("test",), True)
        assert ImageReader(pages.documents).open(2).getpixel((0, 0)) == (0, 128, 0)


def test_names_what_is_missing(tmp_path) -> None:
    with refused(CollectionError, "qrels/") as caught:
        open_source(f"vidore:{_in_parts(tmp_path / 'half', qrels=[])}")
    assert "hf download vidore/" in str(caught.value.hint)
    with refused(CollectionError, "no column query-id"):
        open_source(f"vidore:{_in_parts(tmp_path / 'ids', queries=[{'query': 'a'}])}")
    (tmp_path / "empty").mkdir()
    with refused(CollectionError, "no corpus/", "queries/ and qrels/", "no data/test-00000-of-00001.parquet"):
        open_source(f"vidore:{tmp_path / 'empty'}")
    _write(tmp_path / "flat" / "data", [{"query": "a", "image": _page("red")}])
    with refused(CollectionError, "image_filename", "test-00000-of-00001.parquet"):
        open_source(f"vidore:{tmp_path / 'flat'}")
