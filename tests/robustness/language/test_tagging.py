"""Parts of speech and lemmas: what HanTa says, whatever comes in, in any order; kept on disk by content."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visir.errors import MissingPackageError
from visir.files import cache_directory
from visir.robustness.language import tagging
from visir.robustness.language.tagging import cut
from visir.robustness.language.tagset import PENN, is_adjective, is_noun

pytest.importorskip("HanTa")

CAPTIONS = [
    *(f"A {size} {animal} is running ." for size in ("big", "tiny", "old") for animal in ("dog", "cat", "sheep")),
    *(f"{n} dogs aren't here" for n in range(240)),
]


def plain(texts: Any) -> list[tuple[Any, ...]]:
    return [(s.text, s.starts, s.ends, s.tags, s.lemmas) for s in cut(texts).sentences()]


def tagged(text: str) -> str:
    (sentence,) = cut([text]).sentences()
    rows = zip(sentence.tokens(), sentence.tags, sentence.lemmas, strict=True)
    return " ".join(f"{token}/{tag}/{lemma}" for token, tag, lemma in rows)


def test_parts_of_speech_and_lemmas() -> None:
    assert tagged("The dogs aren't running, they're wearing men's hats.") == (
        "The/AT0/the dogs/NN2/dog are/VBB/be n't/XX0/not running/VVG/run ,/PUN/, they/PNP/they 're/VBB/be "
        "wearing/VVG/wear men/NN2/man 's/POS/'s hats/NN2/hat ./PUN/."
    )
    assert tagged("Two larger brown geese") == "Two/CRD/two larger/AJC/large brown/AJ0/brown geese/NN2/goose"
    assert tagged("the dogs' bowls") == "the/AT0/the dogs/NN2/dog '/POS/' bowls/NN2/bowl"


def test_typographic_marks_are_read_as_plain_ones_but_stay() -> None:
    assert tagged("It’s “red” …") == "It/PNP/it ’s/VBZ/be “/PUQ/“ red/AJ0/red ”/PUQ/” …/PUN/…"


def test_signs_are_no_nouns() -> None:
    (sentence,) = cut(["a dog 🐶 ★ % ~ ☃\ufe0f"]).sentences()
    assert sentence.tags[2:] == ["UNC"] * 5
    assert sentence.lemmas[2:] == ["🐶", "★", "%", "~", "☃\ufe0f"]


def test_every_tag_is_in_the_table() -> None:
    tagger = tagging._tagger()
    assert {tagging._SAME.get(name, name) for name in map(tagger.int2tag.get, tagger.LP_wtag)} <= set(PENN)


def test_nouns_and_adjectives() -> None:
    assert [tag for tag in PENN if is_noun(tag)] == ["NN", "NN0", "NN1", "NN2"]
    assert [tag for tag in PENN if is_adjective(tag)] == ["AJ0", "AJC", "AJS"]


@settings(deadline=None)
@given(st.lists(st.text() | st.text("abdßİıñ'’.-nst S0\u0301\u200d🐶"), max_size=4))
def test_any_text_is_cut(texts: list[str]) -> None:
    words = cut(texts)
    assert words.texts.to_pylist() == texts
    assert len(words) == len(texts)
    for sentence in words.sentences():
        assert "".join(sentence.tokens()) == "".join(sentence.text.split())
        assert all(sentence.lemmas) and set(sentence.tags) <= set(PENN)


def test_a_caption_is_tagged_the_same_whatever_it_comes_with() -> None:
    together = dict(zip(CAPTIONS, plain(CAPTIONS), strict=True))  # kept on disk
    assert plain(CAPTIONS[::-7]) == [together[caption] for caption in CAPTIONS[::-7]]  # too few to be kept
    assert plain(["", CAPTIONS[3], CAPTIONS[0], CAPTIONS[3]])[1:] == [together[CAPTIONS[i]] for i in (3, 0, 3)]
    assert plain(pa.chunked_array([CAPTIONS[:2], CAPTIONS[2:]])) == list(together.values())


def test_another_process_says_the_same() -> None:
    script = (
        "import sys; from visir.robustness.language.tagging import cut\n"
        "for s in cut(sys.argv[1:]).sentences(): print(s.tags, s.lemmas)"
    )
    some = [*CAPTIONS[:3], "A skateboarding zorgle, multicoloured and blurry"]
    out = subprocess.run(
        [sys.executable, "-c", script, *some],
        env=os.environ | {"PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert out.splitlines() == [f"{s.tags} {s.lemmas}" for s in cut(some).sentences()]


def test_long_tokens_take_no_time() -> None:
    ((_, starts, ends, _, lemmas),) = plain(["a " + "X" * 50_000])
    assert (starts, ends, lemmas) == ([0, 2], [1, 50_002], ["a", "x" * 50_000])


def test_nothing_comes_of_nothing() -> None:
    assert plain([]) == []
    assert plain(["", " "]) == [("", [], [], [], []), (" ", [], [], [], [])]


def test_what_was_tagged_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    before = plain(CAPTIONS)
    monkeypatch.setattr(tagging, "_tagged", None)  # would fail if it were called
    assert plain(CAPTIONS) == before
    assert plain(CAPTIONS[::-1]) == before[::-1]  # the same captions in another order
    monkeypatch.setattr(tagging, "_RULES", 0)
    with pytest.raises(TypeError):
        cut(CAPTIONS)  # other rules: nothing is found


def test_a_few_captions_leave_no_file() -> None:
    cut(CAPTIONS[:10])
    assert not cache_directory().exists()


def test_a_damaged_file_is_replaced() -> None:
    before = plain(CAPTIONS)
    (path,) = cache_directory().rglob("*.parquet")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match=rf"damaged \({path.name} has .*; it is made again. The damaged one is "):
        assert plain(CAPTIONS) == before
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match=r"parts of speech are not kept: .* cannot be made \(Not a directory\)"):
        words = cut(CAPTIONS)
    assert len(words) == len(CAPTIONS)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("visir.errors.find_spec", lambda name: None if name == "HanTa" else found(name))
    with pytest.raises(MissingPackageError) as fault:
        cut(["a dog"])
    assert str(fault.value) == (
        "finding parts of speech needs the package 'HanTa', which is not installed.\n"
        "  → pip install 'visir[robustness]'"
    )
