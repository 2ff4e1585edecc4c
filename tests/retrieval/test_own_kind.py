"""The kind of index of docs/how-to/add-a-kind-of-index.md holds what every kind must hold."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_index_kinds as contract
from index_data import dense, random_dense

from refusals import refused
from visir.retrieval.index import IndexFolderError
from visir.retrieval.kinds import KINDS, build_index, open_index

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "visir-example" / "src"


@pytest.fixture(autouse=True)
def kind(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's kind, as if its package were installed."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setattr(os, "fsync", lambda _: None)
    found = importlib.import_module("visir_example.signs").SIGNS
    monkeypatch.setitem(KINDS._things, "signs", found)
    yield found
    sys.modules.pop("visir_example.signs")


def test_it_holds_what_every_kind_holds(tmp_path: Path) -> None:
    contract.test_built_loaded_saved_and_in_memory_answer_alike("signs", tmp_path / "alike")
    contract.test_an_approximate_index_gives_a_pair_its_exact_score_and_never_a_deleted_document("signs")
    contract.test_more_answers_than_documents_one_document_and_equal_documents("signs")
    contract.test_two_stages_retrieve_with_one_form_of_the_queries_and_score_with_the_other("signs")
    contract.test_compact_leaves_one_part_and_the_answers("signs", tmp_path / "compact")


def test_looking_further_finds_more_and_all_of_them_is_exact() -> None:
    rng = np.random.default_rng(3)
    documents, queries = dense("image", rng.standard_normal((600, 24))), dense("text", rng.standard_normal((30, 24)))
    index, truth = build_index(documents, "signs", bits=64), build_index(documents, "exact").search(queries, 10)
    shares = []
    for looked_at in (10, 60, 600):
        run = index.search(queries, 10, looked_at=looked_at)
        shares.append(np.mean([len({*run.top(q)} & {*truth.top(q)}) / 10 for q in queries.ids.to_pylist()]))
    assert shares[0] < shares[1] < shares[2] == 1


def test_a_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    build_index(random_dense("image", 50, 1), "signs", tmp_path / "index", bits=64)
    [built] = [path for path in (tmp_path / "index").iterdir() if path.name.startswith("built")]
    assert np.load(built).shape == (50, 64)
    np.save(built, np.ones((49, 64), np.int8))
    with refused(IndexFolderError):
        open_index(tmp_path / "index")


def test_the_page_shows_the_kind_that_is_tested() -> None:
    code = (EXAMPLE / "visir_example" / "signs.py").read_text("utf-8")
    page = (ROOT / "docs" / "how-to" / "add-a-kind-of-index.md").read_text("utf-8")
    assert code in page and f"{code.count(chr(10))} lines" in page
