"""Tasks from elsewhere: BEIR's and MTEB's layout, texts and images on both sides, pools, and every fault at once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toys import jpeg

from refusals import refused
from visir.collections import open_collection, open_source
from visir.collections.check import check
from visir.collections.images import ImageReader
from visir.errors import CollectionError
from visir.records import Collection, TaskFile

CORPUS = [{"_id": "d1", "title": "Boats", "text": "two red boats"}, {"_id": "d2", "title": "", "text": "a dog"}]
QUERIES = [{"_id": "q1", "text": "boat"}, {"_id": "q2", "text": "dog"}, {"_id": "q3", "text": "cat"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td2\t1\n"


def lines(rows: list[Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def make(folder: Path, **files: str | bytes) -> Path:
    """A folder with BEIR's text task, and these files over it; "_" stands for the dot, "__" for a folder."""
    for name, content in {
        "corpus_jsonl": lines(CORPUS), "queries_jsonl": lines(QUERIES), "qrels__test_tsv": QRELS, **files
    }.items():  # fmt: skip
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def opened(folder: Path, **options: Any) -> TaskFile:
    source = open_source(folder, **options)
    assert isinstance(source, TaskFile)
    return source


def test_beirs_layout(tmp_path: Path) -> None:
    source = opened(make(tmp_path / "boats", qrels__dev_tsv="query-id\tcorpus-id\tscore\nq3\td2\t1\n"))
    assert (source.name, source.tasks, source.splits) == ("boats", ("t2t",), ("test", "val"))
    assert source.documents.texts is not None
    assert source.documents.texts.to_pylist() == ["Boats two red boats", "a dog"]  # the title before the text
    test = source.split("test")
    task = test.task("t2t")
    assert (task.queries.ids.to_pylist(), task.documents.ids.to_pylist()) == (["q1", "q2"], ["d1", "d2"])
    assert task.judgements().to_dict() == {"q1": {"d1": 2.0, "d2": 0.0}, "q2": {"d2": 1.0}}
    assert (task.split, task.source, task.source_fingerprint) == ("test", "boats", test.fingerprint)
    assert source.split("test+val").queries.ids.to_pylist() == ["q1", "q2", "q3"]
    assert source.split("all") is source
    assert source.describe()["splits"] == {"test": 2, "val": 1}
    assert opened(tmp_path / "boats", split="val").queries.ids.to_pylist() == ["q3"]
    with refused(CollectionError, "tset", code="unknown-split", meant="test"):
        source.split("tset")
    with refused(CollectionError, "t2i", code="unknown-task"):
        source.task("t2i")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl.gz", "parquet", "folder"])
def test_every_table_gives_the_same_task(tmp_path: Path, suffix: str) -> None:
    expected = opened(make(tmp_path / "a")).fingerprint
    folder = make(tmp_path / "b")
    for name, rows in (("corpus", CORPUS), ("queries", QUERIES)):
        (folder / f"{name}.jsonl").unlink()
        if suffix == "jsonl.gz":
            (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines(rows).encode()))
        elif suffix == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
        elif suffix == "folder":  # as on the Hugging Face hub
            (folder / name).mkdir()
            for number, row in enumerate(rows):
                part = f"test-{number:05d}-of-{len(rows):05d}.parquet"
                pq.write_table(pa.Table.from_pylist([row]), folder / name / part)
        else:
            tab = "," if suffix == "csv" else "\t"
            text = [tab.join(rows[0]), *(tab.join(row.values()) for row in rows)]
            (folder / f"{name}.{suffix}").write_text("\n".join(text))
    source = opened(folder)
    assert source.fingerprint == expected
    assert opened(Path(f"beir:{folder}?title=drop")).documents.texts.to_pylist()[0] == "two red boats"  # type: ignore[union-attr]


def test_texts_search_images(tmp_path: Path) -> None:
    corpus = [{"_id": "d1", "image": "a.jpg"}, {"_id": "d2", "image": "b.jpg"}]
    folder = make(tmp_path / "t", corpus_jsonl=lines(corpus), images__a_jpg=jpeg(), images__b_jpg=jpeg())
    source = opened(folder)
    assert source.tasks == ("t2i",)
    assert source.documents.texts is None
    assert source.documents.images["path"].to_pylist() == ["images/a.jpg", "images/b.jpg"]
    assert "images: 2 of 2 found" in source.source
    assert opened(folder, task="pictures").tasks == ("pictures",)
    assert opened(folder, images="none").documents.images["path"].null_count == 2


def test_both_sides_may_hold_both(tmp_path: Path) -> None:
    """Composed retrieval: a picture and what is to change, among pictures of which some have a text."""
    corpus = [{"_id": "d1", "image": "a.jpg", "text": ""}, {"_id": "d2", "text": "a dog", "photo": 3}]
    queries = [{"_id": "q1", "image": "b.jpg", "text": "but red"}, {"_id": "q2", "text": "no picture", "image": None}]
    qrels = "query-id,corpus-id\nq1,d1\nq2,d2\n"
    folder = make(tmp_path / "t", corpus_jsonl=lines(corpus), queries_jsonl=lines(queries), qrels_csv=qrels,
                  images__a_jpg=jpeg(), images__b_jpg=jpeg())  # fmt: skip
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "qrels").rmdir()
    source = opened(folder)
    assert (source.tasks, source.splits) == (("it2it",), ("",))
    assert source.documents.texts is not None and source.queries.texts is not None
    assert source.documents.texts.to_pylist() == [None, "a dog"]
    assert source.documents.images["path"].to_pylist() == ["images/a.jpg", None]
    assert source.queries.images["path"].to_pylist() == ["images/b.jpg", None]
    assert source.task("it2it").judgements().to_dict() == {"q1": {"d1": 1.0}, "q2": {"d2": 1.0}}


def test_pictures_in_cells_of_parquet_files(tmp_path: Path) -> None:
    folder = make(tmp_path / "t")
    (folder / "corpus.jsonl").unlink()
    for number, row in enumerate(({"bytes": jpeg(), "path": None}, None)):
        cells = pa.array([row], pa.struct({"bytes": pa.binary(), "path": pa.string()}))
        text = [None if row else "a dog"]
        table = pa.table({"id": [f"d{number + 1}"], "text": text, "modality": ["image"], "image": cells})
        (folder / "corpus").mkdir(exist_ok=True)
        pq.write_table(table, folder / "corpus" / f"test-{number:05d}-of-00002.parquet")
    source = opened(folder)
    assert source.tasks == ("t2it",)
    images = source.documents.images
    assert images["path"].to_pylist() == ["image#0", None]
    assert images["archive"].to_pylist() == ["corpus/test-00000-of-00002.parquet", None]
    pictures = Collection.build("toy", images={"id": ["d1"], "path": ["image#0"], "archive": images["archive"][:1]},
                                root=source.documents.root)  # fmt: skip
    assert ImageReader(pictures).open(0).size == (12, 8)


@pytest.mark.parametrize("rows", ["query-id\tcorpus-id\nq1\td1\nq1\td2\nq2\td2\n", None])
def test_pools(tmp_path: Path, rows: str | None) -> None:
    listed = lines([{"query-id": "q1", "corpus-ids": ["d2", "d1"]}, {"query-id": "q2", "corpus-ids": ["d2"]}])
    folder = make(tmp_path / "t", **({"pools_tsv": rows} if rows else {"top-ranked_jsonl": listed}))
    if rows is None:
        (folder / "top-ranked.jsonl").rename(folder / "top_ranked.jsonl")
    task = opened(folder, split="test").task("t2t")
    assert task.pools is not None
    assert (task.pools.candidates("q1"), task.pools.candidates("q2")) == (["d1", "d2"], ["d2"])
    assert opened(folder).fingerprint != opened(make(tmp_path / "other")).fingerprint


def test_pools_by_split(tmp_path: Path) -> None:
    folder = make(
        tmp_path / "t", qrels__dev_tsv="query-id\tcorpus-id\nq1\td1\n",
        pools__dev_tsv="query-id\tcorpus-id\nq1\td1\n", pools__test_tsv="query-id\tcorpus-id\nq1\td2\nq2\td1\nq2\td2\n",
    )  # fmt: skip
    source = opened(folder)
    pools = [source.split(split).task("t2t").pools for split in ("val", "test", "all")]
    assert [pool.candidates("q1") for pool in pools if pool is not None] == [["d1"], ["d2"], ["d1", "d2"]]
    assert "1 positive is outside the candidates of the query" in source.source  # d1 of q1 in test


def test_all_faults_at_once_with_file_and_line(tmp_path: Path) -> None:
    corpus = [*CORPUS, {"_id": "d1", "text": "again"}, {"text": "x"}, {"_id": "d4"}, {"_id": "d5", "text": 5}]
    qrels = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td1\t2\nq9\td2\t1\nq2\td8\tmany\nq2\td2\tinf\nq2\n"
    folder = make(tmp_path / "t", corpus_jsonl=lines(corpus) + "{\n", qrels__test_tsv=qrels)
    with pytest.raises(CollectionError) as raised:
        opened(folder)
    faults = [line.removeprefix("  - ") for line in raised.value.message.splitlines()[1:]]
    assert faults == [
        "corpus.jsonl, line 3: document 'd1' stands twice",
        "corpus.jsonl, line 4: no document id",
        "corpus.jsonl, line 5: document 'd4' has neither a text nor an image",
        "corpus.jsonl, line 6: the text of document 'd5' is no text: '5'",
        "corpus.jsonl, line 7: not valid JSON: unexpected end of data: line 1 column 2 (char 1); mend it, or leave "
        "such rows out: bad_rows=skip",
        "qrels/test.tsv, line 3: query 'q1' and document 'd1' are judged twice, with the grades 1 and 2",
        "qrels/test.tsv, line 4: unknown query 'q9'",
        "qrels/test.tsv, line 5: unknown document 'd8'",
        "qrels/test.tsv, line 5: a grade must be a finite number, found 'many'",
        "qrels/test.tsv, line 6: a grade must be a finite number, found 'inf'",
        "qrels/test.tsv, line 7: 1 values for 3 columns; mend it, or leave such rows out: bad_rows=skip",
    ]
    report = check(str(folder))
    assert not report.ok
    assert report.counts == {"queries": 3, "documents": 2, "judgements": 1}
    assert report.findings[0].kind == "faults of the source"
    assert report.findings[0].count == len(faults)


def test_unknown_ids_may_be_dropped(tmp_path: Path) -> None:
    folder = make(tmp_path / "t", qrels__test_tsv=f"{QRELS}q9\td1\t1\nq2\td9\t1\n")
    source = opened(folder, unknown="drop")
    assert source.judgements.num_rows == 3
    assert source.source.endswith("2 judgements of unknown ids left out")


def test_what_is_missing(tmp_path: Path) -> None:
    folder = make(tmp_path / "t")
    (folder / "queries.jsonl").unlink()
    (folder / "corpus.jsonl").rename(folder / "corpus.txt")
    with refused(CollectionError, "2", "faults", "- no corpus", "- no queries"):
        open_source(f"beir:{folder}")
    twice = make(tmp_path / "twice", corpus_csv="_id,text\nd1,x\n")
    with refused(CollectionError, "corpus.csv", "corpus.jsonl", code="two-of-a-kind"):
        open_source(twice)
    with pytest.raises(CollectionError, match="query 'q2' of test is judged, and has no candidates"):
        open_source(make(tmp_path / "pools", pools_tsv="query-id\tcorpus-id\nq1\td1\n"))
    with refused(CollectionError, "no column", "body", "there", "_id", "title", "text"):
        open_source(make(tmp_path / "column"), document_text_column="body")


def test_a_task_is_no_collection(tmp_path: Path) -> None:
    folder = make(tmp_path / "t")
    with refused(CollectionError, code="task-queries-documents-judgements"):
        open_collection(folder)
    with refused(CollectionError, code="task-judgements", hint=False):
        open_source(folder, judgements="x.csv")
    source = opened(folder)
    assert open_source(source, split="test").queries.ids.to_pylist() == ["q1", "q2"]
    assert isinstance(open_source("scenes:3"), Collection)


def test_a_check_that_finds_nothing_wrong(tmp_path: Path) -> None:
    corpus = [{"_id": "d1", "image": "a.jpg"}, {"_id": "d2", "image": "b.jpg"}]
    folder = make(
        tmp_path / "t", corpus_jsonl=lines(corpus), images__a_jpg=jpeg(), images__b_jpg=jpeg(colour=(9, 9, 9))
    )
    report = check(str(folder))
    assert report.ok
    assert report.decoded == 2
    assert [(finding.level, finding.kind, finding.examples) for finding in report.findings] == [
        ("note", "queries without judgements", ("'q3'",))
    ]


@pytest.mark.parametrize("lacking", ["corpus.jsonl", "queries.jsonl"])
def test_a_folder_that_lacks_a_part_is_known_without_its_format(tmp_path: Path, lacking: str) -> None:
    folder = make(tmp_path / "t")
    (folder / lacking).unlink()
    with refused(CollectionError, f"no {lacking.partition('.')[0]}"):
        open_source(folder)
