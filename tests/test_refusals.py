"""What errors carry besides their sentence, and what `refused` asks for."""

from __future__ import annotations

import pytest

from refusals import check_fault, refused
from visir.errors import (
    CollectionError,
    EncoderError,
    ImageError,
    MissingPackageError,
    RunError,
    VisirError,
    raise_faults,
)

Failed = pytest.fail.Exception


def test_a_fault_without_a_code_has_that_of_its_class() -> None:
    assert [kind("x").code for kind in (VisirError, RunError, CollectionError)] == ["visir", "run", "collection"]
    assert MissingPackageError("faiss", extra="hnsw", purpose="hnsw").code == "missing-package"
    assert ImageError("x", code="too-narrow").code == "too-narrow"
    with pytest.raises(RunError) as caught:
        raise_faults(RunError, "a.tsv", ["line 1: no score"], code="lines")
    assert (caught.value.code, caught.value.place) == ("lines", "a.tsv")


@pytest.mark.parametrize(
    ("message", "place", "names"),
    [
        ("photos.csv, line 3: no picture 'a.jpg' among 20.", "photos.csv, line 3", ("photos.csv", "3", "a.jpg", "20")),
        ("run r (t2i): NaN score for query 'q: 1'.", "run r (t2i)", ("q: 1",)),
        ("image 'a: b' (/photos/x.png): too narrow", "image 'a: b' (/photos/x.png)", ("a: b", "/photos/x.png")),
        ("tiny (2 faults):\n  - 'i1' twice\n  - 'c2' has no text", "tiny", ("2", "i1", "c2")),
        ('--as "it\'s": 1,000 names for -0.5 results', '--as "it\'s"', ("--as", "it's", "1,000", "-0.5")),
        ("the gallery is empty: 0 ids", "", ("0",)),
        ("a query's answer is none", "", ()),
        ("it isn't 'one' of \n 'two': no", "", ("one", "two")),
        ("", "", ()),
        ("'" * 9000, "", ()),
        ("'a\\" * 3000, "", ()),
    ],
)
def test_place_and_names_are_read_from_the_message(message: str, place: str, names: tuple[str, ...]) -> None:
    fault = VisirError(message)
    assert (fault.place, fault.names if len(message) < 1000 else ()) == (place, names)


def refuse() -> None:
    raise RunError(
        "run.tsv, line 12: query 'q7' has no document 3.", hint="did you mean 'd3'? known: d3", code="no-document"
    )


def test_what_was_asked_for_is_there() -> None:
    with refused(RunError, "run.tsv", "line 12", "q7", 3, code="no-document", meant="d3", hint="d3") as caught:
        refuse()
    assert caught.value.code == "no-document"
    with refused(VisirError, "q7"):
        refuse()
    with refused(RunError, hint=False):
        raise RunError("nothing to do")


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ((), {"code": "no-query"}),
        (("q8",), {}),
        (("q",), {}),  # part of q7
        (("1",), {}),  # part of 12
        (("q7", "run.tsv"), {}),  # in another order
        (("q7", "q7"), {}),  # once only
        ((), {"meant": "d4"}),
        ((), {"hint": "d4"}),
        ((), {"hint": ("d3", "d4")}),
        ((), {"hint": False}),
    ],
)
def test_anything_else_fails(values: tuple[str, ...], more: dict[str, str]) -> None:
    with pytest.raises(Failed), refused(RunError, *values, **more):
        refuse()


def test_another_class_none_and_no_next_action_fail() -> None:
    with pytest.raises(RunError), refused(EncoderError):
        refuse()
    with pytest.raises(Failed), refused(RunError):
        pass
    with pytest.raises(Failed):
        check_fault(RunError("nothing to do"))
