"""A text with the mark that stands for a picture in the model is refused, and queries beside it are answered."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

sys.path.insert(0, str(Path(__file__).parents[1] / "encoders"))

import tiny_late
from served import AT, Service, draw, make

from visir.errors import TextError
from visir.library.query import Query, QueryError
from visir.library.query_encoding import TextEncoder
from visir.library.searcher import Searcher
from visir.library.updating import update

BAD = "a <image> dog"
GOOD = ("a red dog", "two men", "snow")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos with a model of late interaction."""
    folder = tmp_path_factory.mktemp("late")
    tiny_late.save("colpali", folder / "colpali")
    draw(folder / "source", range(4))
    update(folder / "source", folder / "photos", model=str(folder / "colpali"), device="cpu")
    return folder / "photos"


def test_the_service_says_that_the_text_is_wrong(library: Path) -> None:
    service = Service(library, device="cpu")
    texts = [GOOD[0], BAD, *GOOD[1:]]
    answers = service.together([("POST", f"{AT}/search", {"json": {"text": text}}) for text in texts])
    assert [answer.status_code for answer in answers] == [200, 422, 200, 200]
    error = answers[1].json()["error"]
    assert error["code"] == "invalid" and "has <image> in it, which stands for a picture" in error["message"]
    assert error["hint"].startswith("take it out")
    assert b"traceback" not in service.written().lower()


def test_one_such_query_does_not_fail_the_others(library: Path) -> None:
    with Searcher.open(library, device="cpu") as searcher:
        together = searcher.search_each([Query(text=text) for text in (BAD, *GOOD)])
    assert isinstance(together[0], QueryError)
    for text, page in zip(GOOD, together[1:], strict=True):
        with Searcher.open(library, device="cpu") as searcher:
            assert not isinstance(page, Exception) and page.hits == searcher.find(text=text).hits


def test_nor_in_a_search_by_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = TextEncoder.vectors

    def refusing(self: TextEncoder, texts: Sequence[str]) -> list[Any]:
        if any("<image>" in text for text in texts):
            raise TextError("the text has <image> in it.")
        return vectors(self, texts)

    monkeypatch.setattr(TextEncoder, "vectors", refusing)
    with Searcher.open(make(tmp_path), device="cpu") as searcher:
        for system in ("sparse", "hybrid"):
            bad, *good = searcher.search_each([Query(text=text, system=system) for text in (BAD, "dog", "red")])
            assert isinstance(bad, QueryError) and not any(isinstance(page, Exception) for page in good)
