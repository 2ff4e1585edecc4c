"""What holds of every perturbation on any text: no exception, no change elsewhere, same draw same text, true flags."""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visir.robustness.perturb import perturb_texts
from visir.robustness.perturbations import PERTURBATIONS, names_in
from visir.robustness.perturbations.order import trigrams, words_at, written_words

NAMES = list(PERTURBATIONS)
TYPOS = [name for name, one in PERTURBATIONS.items() if one.family == "typos"]
SHUFFLES = [name for name, one in PERTURBATIONS.items() if one.family == "word order"]

VOCABULARY = (
    "A a the Two 2 man's t-shirt dogs dog red Large SMALL isn't (brown) cat, runs. on café cafe\u0301 naïve 犬 «rock» !"
)
WORDS = st.sampled_from(VOCABULARY.split())
CAPTIONS = st.lists(WORDS, max_size=9).map(" ".join)
TEXTS = st.text(max_size=40) | CAPTIONS

few = settings(max_examples=60, deadline=None)


def once(name: str, text: str, *, key: str = "7", **options: object) -> str:
    return perturb_texts([text], [key], name, **options).texts[0].as_py()  # type: ignore[arg-type, no-any-return]


@pytest.mark.parametrize(
    ("profile", "name"), [(profile, name) for profile in ("sound", "paper") for name in names_in(profile)]
)
@few
@given(text=TEXTS, severity=st.integers(1, 4))
def test_any_text_goes_in_and_flags_are_true(name: str, profile: str, text: str, severity: int) -> None:
    done = perturb_texts([text, text], ["1", "2"], name, severity=severity, profile=profile)  # type: ignore[arg-type]
    assert [out != text for out in done.texts.to_pylist()] == done.changed.tolist()
    assert done.coverage == done.changed.mean()
    again = perturb_texts([text, "x", text], ["2", "3", "1"], name, severity=severity, profile=profile)  # type: ignore[arg-type]
    assert again.texts.to_pylist()[::2] == done.texts.to_pylist()[::-1]


@pytest.mark.parametrize("name", TYPOS)
@few
@given(text=TEXTS)
def test_typos_change_letters_only(name: str, text: str) -> None:
    out = once(name, text, severity=2)
    same_length = name in ("char_swap", "nearby_char")
    if same_length:
        assert len(out) == len(text)
        for before, after in zip(text, out, strict=True):
            assert after == before if not before.isalpha() else after.isalpha()
            assert not text.isascii() or before.isupper() == after.isupper()  # not all scripts have capitals
    if name == "char_swap":
        assert Counter(out.casefold()) == Counter(text.casefold())
    if name == "missing_char":
        assert _without(text, out).isalpha() or out == text
        assert len(out.split()) == len(text.split())
    if name == "extra_char":
        assert _without(out, text).isalpha() or out == text


def _without(longer: str, shorter: str) -> str:
    """What the longer has that the shorter, a part of it in order, has not."""
    rest, i = "", 0
    for character in longer:
        if i < len(shorter) and shorter[i] == character:
            i += 1
        else:
            rest += character
    assert i == len(shorter)
    return rest


@pytest.mark.parametrize(
    ("name", "statement"), [("distraction_true", "true is true"), ("distraction_false", "false is false")]
)
@few
@given(text=TEXTS)
def test_distractions_add_one_piece(name: str, statement: str, text: str) -> None:
    out = once(name, text)
    pieces = [i for i in range(len(out)) if out.startswith(f" and {statement}", i)]
    added = len(f" and {statement}")
    assert out == text or any(out[:i] + out[i + added :] == text for i in pieces)
    assert (out != text) == any(c.isalnum() or c == "_" for c in text)


@pytest.mark.parametrize("name", ["synonym_noun", "synonym_adj"])
@few
@given(text=TEXTS)
def test_synonyms_change_one_token(name: str, text: str) -> None:
    from visir.robustness.language.tagset import token_spans

    out = once(name, text)
    assert out == text or any(
        out.startswith(text[:start])
        and out.endswith(text[end:])
        and out[start : len(out) - len(text) + end].lower() != text[start:end].lower()
        for start, end in token_spans(text)
    )


@pytest.mark.parametrize("name", SHUFFLES)
@few
@given(text=TEXTS)
def test_shuffles_move_words_and_nothing_else(name: str, text: str) -> None:
    out = once(name, text)
    before, after = written_words(text), written_words(out)
    assert Counter(words_at(text, before)) == Counter(words_at(out, after))
    assert _between(text) == _between(out)


def _between(text: str) -> list[str]:
    edges = [0, *(edge for span in written_words(text) for edge in span), len(text)]
    return [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]


@few
@given(text=st.lists(st.sampled_from("ab"), max_size=8).map(" ".join))
def test_shuffles_differ_whenever_they_can(text: str) -> None:
    words = text.split()
    threes = trigrams(words)
    assert (once("shuffle_all_words", text) != text) == (len(set(words)) > 1)
    assert (once("shuffle_within_trigrams", text) != text) == any(len(set(three)) > 1 for three in threes)
    orders = {" ".join(word for three in order for word in three) for order in permutations(threes)}
    assert (once("shuffle_trigrams", text) != text) == (len(orders) > 1)


@few
@given(texts=st.lists(CAPTIONS, min_size=1, max_size=6), seed=st.integers(0, 3))
def test_a_text_does_not_depend_on_its_company(texts: list[str], seed: int) -> None:
    ids = [f"c{i}" for i in range(len(texts))]
    for name in ("nearby_char", "synonym_noun", "shuffle_nouns_and_adj"):
        together = perturb_texts(texts, ids, name, seed=seed).texts.to_pylist()
        assert together == [once(name, text, key=key, seed=seed) for text, key in zip(texts, ids, strict=True)]


def test_another_process_draws_the_same() -> None:
    """Hash seeds differ from process to process; draws do not."""
    program = (
        "from visir.robustness.perturb import perturb_texts as p\n"
        "from visir.robustness.perturbations import PERTURBATIONS as P\n"
        "for n in P: print(p(['Two large dogs run on a red rock, and a small man sleeps.'], ['9'], n).texts[0])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=_env(seed)
        ).stdout
        for seed in ("1", "2")
    }
    text = "Two large dogs run on a red rock, and a small man sleeps."
    assert said == {"".join(f"{once(name, text, key='9')}\n" for name in NAMES)}


def _env(seed: str) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONHASHSEED": seed}


def test_seed_and_id_make_a_difference() -> None:
    text = "Two large dogs run on a red rock, and a small man sleeps."
    for name in NAMES:
        if PERTURBATIONS.get(name).family != "distractions" and name in names_in("paper"):
            assert len({once(name, text, key=str(i)) for i in range(20)}) > 1, name
            assert len({once(name, text, seed=i) for i in range(20)}) > 1, name


def test_accents_stay_on_their_letters() -> None:
    """A text in decomposed Unicode, put together again, has the same letters as before."""
    text = unicodedata.normalize("NFD", "Ein älterer Hund läuft über die Brücke")
    out = unicodedata.normalize("NFC", once("shuffle_all_words", text))
    assert Counter(out.split()) == Counter(unicodedata.normalize("NFC", text).split())
