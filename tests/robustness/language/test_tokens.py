"""Tokens: punctuation and clitics apart, nothing lost, the Treebank's tokens of real captions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visir.files import read_lines
from visir.robustness.language.tagset import token_spans


def tokens(text: str) -> list[str]:
    return [text[start:end] for start, end in token_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog runs.", "A|dog|runs|."),
        ("Two dogs run.They bark", "Two|dogs|run|.|They|bark"),
        ("the man's hat, the dogs' bowls", "the|man|'s|hat|,|the|dogs|'|bowls"),
        ("a man 's hat", "a|man|'s|hat"),
        ("It's what he’d do", "It|'s|what|he|’d|do"),
        ("doesn't can't CANNOT I'll've", "does|n't|ca|n't|CAN|NOT|I|'ll|'ve"),
        ("n't 's not", "n't|'s|not"),
        ("a T-shirt at five o'clock", "a|T-shirt|at|five|o'clock"),
        ("1,000 at 10:30, 3/4 or 2.5, 50%, $3", "1,000|at|10:30|,|3/4|or|2.5|,|50|%|,|$|3"),
        ("black/white (and red) dogs", "black|/|white|(|and|red|)|dogs"),
        ("In the U.S. at 5 p.m. Mr. Li, etc.", "In|the|U.S.|at|5|p.m.|Mr.|Li|,|etc."),
        ("wait... -- what?!", "wait|...|--|what|?|!"),
        ("\"A dog\" “A cat” 'A cow'", "\"|A|dog|\"|“|A|cat|”|'|A|cow|'"),
        ("a 'sad' dog's 'tis", "a|'|sad|'|dog|'s|'|tis"),
        ("cafe\u0301 naïve 日本語 हिन्दी", "cafe\u0301|naïve|日本語|हिन्दी"),
        ("a dog🐶👨\u200d👩 runs", "a|dog|🐶👨\u200d👩|runs"),
        ("- a dog -", "-|a|dog|-"),
        (" \t\n\u00a0", ""),
        ("", ""),
    ],
)
def test_where_texts_are_cut(text: str, expected: str) -> None:
    assert "|".join(tokens(text)) == expected


@given(st.text() | st.text("aB1'’-.,/nts \u0301\u200d🐶日"))
def test_nothing_is_lost(text: str) -> None:
    spans = token_spans(text)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    assert edges == sorted(edges)
    assert all(start < end for start, end in spans)
    assert not "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)).strip()
    assert not any(map(str.isspace, "".join(tokens(text))))


@given(st.lists(st.text(st.characters(categories=["L", "N", "P"])), max_size=4))
def test_white_space_always_parts(words: list[str]) -> None:
    # Each word is cut as if it were alone, because nothing but the word itself decides where. Abbreviations look at
    # the next character, which is white space or the end in both cases.
    assert tokens(" ".join(words)) == [token for word in words for token in tokens(word)]


def test_long_runs_take_time_in_proportion() -> None:
    for run in ("a" * 100_000, "'" * 100_000, "-a" * 50_000, ".," * 50_000, "1," * 50_000, "a." * 50_000):
        assert "".join(tokens(run)) == run


def test_captions_are_cut_as_the_treebank_cuts_them(data_dir: Path) -> None:
    treebank = pytest.importorskip("nltk.tokenize").TreebankWordTokenizer()
    captions = [line.split("\t")[1] for line in read_lines(data_dir / "flickr8k" / "Flickr8k.token.txt.xz")][::20]
    captions = [re.sub(r"\s+\.$", ".", caption) for caption in captions]
    differ = [c for c in captions if tokens(c) != [re.sub("``|''", '"', token) for token in treebank.tokenize(c)]]
    assert len(captions) == 2023
    assert differ == []
