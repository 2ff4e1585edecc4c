"""Exports, read back by decoders that know nothing of visir."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_data import CARD, TERMS, random_sparse, sparse
from sparse_oracle import OracleIndex

from refusals import refused
from visir.errors import EmbeddingError, VisirError
from visir.records import SparseEmbeddings, Vocabulary
from visir.retrieval.sparse.export import EXPORTS, export, quantise


def protobuf() -> dict[str, Any]:
    """The messages of CIFF by Google's protobuf library, from a description of CommonIndexFileFormat.proto."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = {"int32": 5, "int64": 3, "double": 1, "string": 9, "Posting": 11}
    layout = {
        "Header": "int32 version, int32 num_postings_lists, int32 num_doc_records, int32 total_postings_lists, "
        "int32 total_docs, int64 total_terms_in_collection, double average_doclength, string description",
        "Posting": "int32 docid, int32 tf",
        "PostingsList": "string term, int64 df, int64 cf, Posting postings",
        "DocRecord": "int32 docid, string collection_docid, int32 doclength",
    }
    file = descriptor_pb2.FileDescriptorProto(name="ciff.proto", package="io.osirrc.ciff", syntax="proto3")
    for message, fields in layout.items():
        described = file.message_type.add(name=message)
        for number, (kind, name) in enumerate((one.split() for one in fields.split(", ")), 1):
            field = described.field.add(name=name, number=number, type=kinds[kind], label=3 if kind == "Posting" else 1)
            if kind == "Posting":
                field.type_name = ".io.osirrc.ciff.Posting"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"io.osirrc.ciff.{name}")) for name in layout
    }


def read_ciff(path: Path) -> tuple[Any, list[Any], list[Any]]:
    messages, stream = protobuf(), io.BytesIO(path.read_bytes())

    def following(name: str) -> Any:
        length = shift = 0
        while True:
            byte = stream.read(1)[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        message = messages[name]()
        message.ParseFromString(stream.read(length))
        return message

    header = following("Header")
    lists = [following("PostingsList") for _ in range(header.num_postings_lists)]
    records = [following("DocRecord") for _ in range(header.num_doc_records)]
    assert stream.read() == b""
    return header, lists, records


def test_the_bytes_of_a_small_ciff_file(tmp_path: Path) -> None:
    # Two documents over the words a, b: x = {a: 0.5, b: 1}, y = {b: 2}. The largest weight, 2, becomes 4, so the scale
    # is 2: x = {a: 1, b: 2}, y = {b: 4}; lengths 3 and 4, 7 in all, 3.5 on average.
    words = Vocabulary("test", pa.array(["b", "a"]), np.ones(2, np.bool_))
    documents = SparseEmbeddings.from_scipy("image", ["x", "y"], np.array([[1, 0.5], [2, 0]]), words, CARD)
    export("ciff", tmp_path, documents, levels=4)
    said = b"visir: test; whole = weight \xc3\x97 2, rounded, at least 1, at most 4"
    header = (
        b"\x08\x01"  # field 1, a number: version 1
        b"\x10\x02\x18\x02\x20\x02\x28\x02"  # fields 2 to 5: two lists, two records, the same in all
        b"\x30\x07"  # field 6: seven terms
        b"\x39" + b"\x00\x00\x00\x00\x00\x00\x0c\x40"  # field 7, a double: 3.5
        b"\x42" + bytes([len(said)]) + said
    )
    a = b"\x0a\x01a\x10\x01\x18\x01" + b"\x22\x02\x10\x01"  # df 1, cf 1; a posting of 2 bytes: document 0 unsaid, tf 1
    b = b"\x0a\x01b\x10\x02\x18\x06" + b"\x22\x02\x10\x02" + b"\x22\x04\x08\x01\x10\x04"  # gap 1 to document 1, tf 4
    x, y = b"\x12\x01x\x18\x03", b"\x08\x01\x12\x01y\x18\x04"
    parts = (header, a, b, x, y)
    assert (tmp_path / "documents.ciff").read_bytes() == b"".join(bytes([len(one)]) + one for one in parts)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), levels=st.sampled_from([1, 255, 65_535]))
def test_ciff_is_read_back_by_protobuf(seed: int, levels: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ciff")
    documents = random_sparse("image", 300, seed)
    export("ciff", folder, documents, levels=levels)
    header, lists, records = read_ciff(folder / "documents.ciff")
    whole = quantise(documents, levels).whole
    expected = {}
    for row, one in enumerate(documents.ids.to_pylist()):
        part = slice(*documents.offsets[row : row + 2])
        names = documents.vocabulary.terms.take(pa.array(documents.terms[part])).to_pylist()
        expected[one] = dict(zip(names, whole[part].tolist(), strict=True))
    found: dict[str, dict[str, int]] = {one.collection_docid: {} for one in records}
    ids = [one.collection_docid for one in sorted(records, key=lambda one: one.docid)]
    for one in lists:
        number = 0
        for posting in one.postings:
            number += posting.docid
            found[ids[number]][one.term] = posting.tf
        assert one.df == len(one.postings) and one.cf == sum(posting.tf for posting in one.postings)
    assert found == expected
    assert ids == documents.ids.to_pylist() and [one.docid for one in records] == list(range(300))
    assert [one.term for one in lists] == sorted(one.term for one in lists)
    assert {one.collection_docid: one.doclength for one in records} == {k: sum(v.values()) for k, v in expected.items()}
    assert header.version == 1 and header.total_docs == 300 and header.total_postings_lists == len(lists)
    assert header.total_terms_in_collection == whole.sum()
    assert header.average_doclength == pytest.approx(whole.sum() / 300)


def test_whole_numbers_keep_matches_and_nearly_the_order() -> None:
    # 3 → 255; 0.01 × 85 = 0.85 → 1; 0.001 × 85 = 0.085 would be 0, and becomes 1.
    found = quantise(sparse("image", [[3, 0.01, 0.001, 1.5] + [0] * (TERMS - 4)]))
    assert found.whole.tolist() == [255, 1, 1, 128] and found.scale == 85  # 127.5 to the even 128
    assert str(found) == "weight × 85, rounded, at least 1, at most 255"
    with refused(EmbeddingError, "0", code="levels-least-not", hint=False):
        quantise(random_sparse("image", 3, 1), 0)
    documents, queries = random_sparse("image", 60, 1), random_sparse("text", 20, 2)
    coarse = SparseEmbeddings(
        "image", documents.ids, documents.offsets, documents.terms,
        quantise(documents).whole.astype(np.float32), documents.vocabulary, CARD,
    )  # fmt: skip
    exact, rounded = (OracleIndex.build(one).search(queries, 60) for one in (documents, coarse))
    for query in queries.ids.to_pylist():
        assert dict(exact.answer(query)).keys() == dict(rounded.answer(query)).keys()


def test_anserini_repeats_each_term_as_often_as_its_weight(tmp_path: Path) -> None:
    documents = sparse("image", [[1, 0, 2.5] + [0] * (TERMS - 3), [0] * TERMS], ["x", "empty"])
    queries = sparse("text", [[2, 1] + [0] * (TERMS - 2)], ["q1"])
    said = export("anserini", tmp_path, documents, queries, levels=5)
    lines = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    assert lines == [
        {"id": "x", "contents": "", "vector": {"w0": 2, "w2": 5}},
        {"id": "empty", "contents": "", "vector": {}},
    ]
    # JsonVectorCollection reads a weight with asInt(), so each has to be a whole number in the file.
    assert all(type(weight) is int for line in lines for weight in line["vector"].values())
    assert (tmp_path / "queries.tsv").read_text() == "q1\tw0 w0 w0 w0 w0 w1 w1\n"  # 1 × 2.5 to the even 2
    assert said[tmp_path / "documents.jsonl"] == "weight × 2, rounded, at least 1, at most 5"


def test_pisa_queries(tmp_path: Path) -> None:
    export("ciff", tmp_path, queries=sparse("text", [[2, 1] + [0] * (TERMS - 2)], ["q1"]), levels=2)
    assert [one.name for one in tmp_path.iterdir()] == ["queries.txt"]
    assert (tmp_path / "queries.txt").read_text() == "q1:w0 w0 w1\n"
    with refused(EmbeddingError, "a:b", ":", code="query-id-holds-line"):
        export("ciff", tmp_path / "new", queries=sparse("text", np.ones((1, TERMS)), ["a:b"]))


def test_seismic_reads_its_form(tmp_path: Path) -> None:
    seismic = pytest.importorskip("seismic")
    documents, queries = random_sparse("image", 200, 1), random_sparse("text", 20, 2)
    assert set(export("seismic", tmp_path, documents, queries).values()) == {"weights as they are"}
    index = seismic.SeismicIndex.build(str(tmp_path / "documents.jsonl"))
    text = seismic.get_seismic_string()
    exact = OracleIndex.build(documents).search(queries, 200)
    asked = 0
    for line in (tmp_path / "queries.jsonl").read_text().splitlines():
        query = json.loads(line)
        if not query["vector"]:
            continue
        terms, weights = list(query["vector"]), list(query["vector"].values())
        found = index.search(
            query["id"], np.array(terms, text), np.array(weights, np.float32), k=5, query_cut=TERMS, heap_factor=0.0
        )
        scores = dict(exact.answer(query["id"]))
        asked += len(found)
        assert found and all(score == pytest.approx(scores[one], rel=2e-3) for _, score, one in found)  # half precision
    assert asked > 50


def test_weights_are_written_with_the_digits_that_they_have(tmp_path: Path) -> None:
    weights = np.float32([0.1, 1 / 3, 1e-7, 12345.678])
    export("seismic", tmp_path, sparse("image", [[*weights, *[0] * (TERMS - 4)]]))
    line = (tmp_path / "documents.jsonl").read_text()
    assert '"w0":0.1,' in line
    assert np.array_equal(np.float32(list(json.loads(line)["vector"].values())), weights)


def test_an_unknown_form_is_answered_with_the_nearest() -> None:
    with refused(VisirError, "form", "export", "cif", code="unknown-name") as caught:
        export("cif", Path())
    assert "did you mean 'ciff'? known: anserini, ciff, seismic" in str(caught.value)
    assert [one.title != "" for _, one in EXPORTS.items()] == [True] * 3
