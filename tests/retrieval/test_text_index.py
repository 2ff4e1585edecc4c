"""The text index: scores by hand and by another package, updates against new builds, spelling, synonyms, damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests import seal
from refusals import refused
from visir.encoders.base import Encoder
from visir.encoders.store import Store
from visir.errors import ConfigurationError
from visir.retrieval.bm25 import Bm25
from visir.retrieval.fusion import fuse
from visir.retrieval.text.index import Bm25F, TextIndex, TextIndexError
from visir.retrieval.text.words import Language, NearWords, Spelling, Synonyms, words_of

TITLES = ["red shoes", "a blue shirt, blue", "Red Shirt", "green shoes for running"]
COLOURS = ["red", "navy blue", "red", ""]
WORDS = ["red", "blue", "shirt", "shirts", "shoe", "shoes", "cotton", "coton"]
documents = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(*[st.lists(st.sampled_from(WORDS), max_size=4)] * 2))


def small() -> TextIndex:
    return TextIndex.build(["d", "b", "c", "a"], {"title": TITLES, "colour": COLOURS})


def by_definition(
    texts: dict[str, dict[str, str]], query: list[str], bm25f: Bm25F, language: Language
) -> dict[str, float]:
    """BM25F as the formula says, one document at a time."""
    fields = list(next(iter(texts.values())))
    terms = {
        name: {field: Counter(language.terms(words_of(text))) for field, text in parts.items()}
        for name, parts in texts.items()
    }
    mean = {field: sum(parts[field].total() for parts in terms.values()) / len(terms) for field in fields}
    scores: dict[str, float] = {}
    for term in dict.fromkeys(language.terms(query)):
        tf = {}
        for name, parts in terms.items():
            tf[name] = sum(
                bm25f.weight_of(field)
                * parts[field][term]
                / (1 - bm25f.length_of(field) + bm25f.length_of(field) * parts[field].total() / (mean[field] or 1))
                for field in fields
            )
        n = sum(value > 0 for value in tf.values())
        idf = log(1 + (len(terms) - n + 0.5) / (n + 0.5))
        for name, value in tf.items():
            if value > 0:
                scores[name] = scores.get(name, 0.0) + idf * value / (bm25f.k1 + value)
    return scores


def test_scores_by_hand() -> None:
    index = TextIndex.build(["a", "b"], {"title": ["red shoe", "shirt"]}, bm25f=Bm25F(k1=1.0, b=0.5))
    # One of two titles has it: idf = ln(1 + 1.5 / 1.5). Lengths 2 and 1, mean 1.5: tf = 1 / (0.5 + 0.5 · 2 / 1.5).
    tf = 1 / (0.5 + 0.5 * 2 / 1.5)
    answer = index.search("red")
    assert answer.ids == ("a",)
    assert answer.scores[0] == pytest.approx(log(2) * tf / (1 + tf), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(documents.filter(bool), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
def test_scores_are_those_of_the_formula(texts: dict[str, tuple[list[str], list[str]]], query: list[str]) -> None:
    parts = {name: {"title": " ".join(title), "note": " ".join(note)} for name, (title, note) in texts.items()}
    bm25f = Bm25F(k1=0.9, b={"title": 0.3, "note": 0.8}, weights={"title": 2.5})
    columns = {field: [part[field] for part in parts.values()] for field in ("title", "note")}
    index = TextIndex.build(list(parts), columns, bm25f=bm25f)
    answer = index.search(" ".join(query), spelling=False)
    wanted = by_definition(parts, query, bm25f, Language("plural"))
    assert dict(zip(answer.ids, answer.scores, strict=True)) == pytest.approx(wanted, rel=1e-5)


def test_one_field_gives_the_scores_of_bm25s() -> None:
    pytest.importorskip("bm25s")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(2, 9))) for _ in range(200)]
    ids = [f"{row:03}" for row in range(200)]
    index = TextIndex.build(ids, {"text": texts}, language="none", bm25f=Bm25F(k1=1.5, b=0.75))
    queries = ["red", "blue shirts", "cotton coton shoe"]
    theirs = Bm25(1.5, 0.75, "none", "none").ranked(texts, queries)
    for query, (rows, scores) in zip(queries, theirs, strict=True):
        answer = index.search(query, k=200)
        assert set(answer.ids) == {ids[row] for row in rows}
        wanted = dict(zip((ids[row] for row in rows), scores.tolist(), strict=True))
        assert dict(zip(answer.ids, answer.scores, strict=True)) == pytest.approx(wanted, rel=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.lists(documents, min_size=3, max_size=3))
def test_an_updated_index_is_that_of_a_new_build(histories: list[dict[str, tuple[list[str], list[str]]]]) -> None:
    index = None
    for texts in histories:
        columns = {name: [" ".join(parts[at]) for parts in texts.values()] for at, name in enumerate(("title", "note"))}
        built = TextIndex.build(list(texts), columns)
        index = built if index is None else index.updated(list(texts), columns)
        assert index.ids.equals(built.ids) and index.terms == built.terms
        assert index.postings.words == built.postings.words
        for name in ("starts", "documents", "counts", "lengths"):
            np.testing.assert_array_equal(getattr(index.postings, name), getattr(built.postings, name))


def test_an_update_reads_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    from visir.retrieval.text import index as postings

    index, read = small(), []
    monkeypatch.setattr(postings, "words_of", lambda text: read.append(text) or words_of(text))
    assert index.updated(["a", "b", "c", "d"], {"title": [TITLES[3], TITLES[1], TITLES[2], TITLES[0]],
                                                "colour": ["", "navy blue", "red", "red"]}) is index  # fmt: skip
    later = index.updated(
        ["b", "c", "e"], {"title": [TITLES[1], TITLES[2], "lamp"], "colour": ["navy blue", "black", ""]}
    )
    assert sorted(read) == ["", "Red Shirt", "black", "lamp"]
    assert later.search("lamp").ids == ("e",) and later.search("shoes", spelling=False).ids == ()


def test_saved_and_opened_it_answers_the_same(tmp_path: Path) -> None:
    index = small()
    index.save(tmp_path / "index")
    again = TextIndex.open(tmp_path / "index")
    for query in ("red shoe", "blue", "nothing", "blu shirt"):
        assert again.search(query) == index.search(query)
    assert again.updated(["a"], {"title": ["a lamp"], "colour": [""]}).search("lamps").ids == ("a",)
    empty = TextIndex.build([], {"title": []})
    empty.save(tmp_path / "empty")
    assert TextIndex.open(tmp_path / "empty").search("red").ids == ()


@pytest.mark.parametrize("name", ["documents.npy", "starts.npy", "words.parquet", "documents.parquet"])
def test_a_damaged_index_is_refused(tmp_path: Path, name: str) -> None:
    folder = small().save(tmp_path / "index")
    (path,) = folder.glob(f"*/{name}")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TextIndexError, match=name):
        TextIndex.open(folder)


def test_postings_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    folder = small().save(tmp_path / "index")
    (path,) = folder.glob("*/documents.npy")
    rows = np.load(path)
    rows[0] = 400
    np.save(path, rows)
    with pytest.raises(TextIndexError, match="not as it was written"):
        TextIndex.open(folder)
    seal(folder)
    with refused(TextIndexError, "lead nowhere"):
        TextIndex.open(folder)


def test_equal_scores_stand_in_order_of_id_and_the_answer_is_cut() -> None:
    index = TextIndex.build(["c", "a", "b", "d"], {"title": ["red", "red", "red red", "blue"]}, bm25f=Bm25F(b=0))
    assert index.search("red").ids == ("b", "a", "c")
    assert index.search("red", k=2).ids == ("b", "a")
    assert index.search("red", within=np.array([True, False, True, True])).ids == ("a", "c")


@cache
def distance(a: str, b: str) -> int:
    """Optimal string alignment by its recursion."""
    if not a or not b:
        return len(a) + len(b)
    best = min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))
    if len(a) > 1 and len(b) > 1 and a[0] == b[1] and a[1] == b[0]:
        best = min(best, distance(a[2:], b[2:]) + 1)
    return best


@settings(max_examples=200, deadline=None)
@given(
    st.text("abcé", min_size=3, max_size=8), st.lists(st.text("abcé", min_size=1, max_size=8), min_size=1, max_size=9)
)
def test_spelling_finds_the_nearest_word(word: str, known: list[str]) -> None:
    known = sorted({*known} - {word})
    nearest = Spelling(known, np.ones(len(known), np.int64)).nearest(word)
    most = 1 if len(word) <= 5 else 2
    distances = {other: distance(word, other) for other in known if distance(word, other) <= most}
    if len(nearest) == 2:
        assert "".join(nearest) == word and 1 not in distances.values()
    elif nearest:
        assert distances[nearest[0]] == min(distances.values())
    else:
        assert not distances


def test_spelling_prefers_frequent_words_and_leaves_sizes_alone() -> None:
    spelling = Spelling(["m64", "shirt", "short", "skirt", "xl"], np.array([1, 5, 9, 2, 4]))
    assert spelling.nearest("shrt") == ("short",)  # both have distance 1
    assert spelling.nearest("shrt", at_least=10) == ()
    assert spelling.nearest("m65") == () and spelling.nearest("xx") == ()


def test_the_answer_says_what_was_searched_instead() -> None:
    index = small()
    assert index.search("blu shirts").changes == ("searched for 'blue' instead of 'blu'",)
    assert index.search("Blu shirts").corrected == "blue shirts" and index.search("Blue!").corrected == "Blue!"
    assert index.search("blu shirts", spelling=False).changes == ()
    assert index.search("blueshirt").changes == ("searched for 'blue shirt' instead of 'blueshirt'",)
    assert index.search("blueshirt").ids == index.search("blue shirt").ids
    assert index.search("zzzz").ids == ()
    ids = [f"{row:03}" for row in range(102)]
    shared = TextIndex.build(ids, {"title": ["cotton"] * 100 + ["coton"] * 2})
    answer = shared.search("coton", k=200)
    assert answer.changes == ("searched for 'cotton' beside 'coton', which is rare",) and len(answer.ids) == 102
    assert shared.search("cotton", k=200).changes == ()


def test_synonyms() -> None:
    index = TextIndex.build(
        ["a", "b", "c", "d"], {"title": ["a sofa", "two couches", "t shirt", "dress shirt with t on it"]}
    )
    rules = Synonyms.of(["# furniture", "", "sofa, couch, settee", "tee => t shirt", "dress shirt, chemise"])
    answer = index.search("sofas", synonyms=rules)
    assert answer.ids == ("a", "b") and answer.changes == ("searched for 'couch' beside 'sofas': synonyms",)
    assert answer.scores[0] == pytest.approx(index.search("couch", synonyms=rules).scores[0])  # one word, two names
    answer = index.search("tee", synonyms=rules)
    assert set(answer.ids) == {"c", "d"} and answer.changes == ("searched for 't shirt' instead of 'tee': synonyms",)
    assert index.search("settee", synonyms=rules).ids == ("a", "b")
    assert index.search("chemise", synonyms=rules).ids == ("d",)
    assert index.search("tee").ids == () and index.search("chemise", spelling=False).ids == ()


@pytest.mark.parametrize("sign", [", ", " => "])
def test_a_short_file_of_synonyms_does_not_fill_the_memory(sign: str) -> None:
    """A rule of n words makes n² pairs: 70 kB would be 25 million, and gigabytes."""
    words = [f"word{number}" for number in range(2_500)]
    half = ", ".join(words)
    with refused(ConfigurationError, "2", "2,000,000", code="line-rules-up-one"):
        Synonyms.of(["sofa, couch", half + sign + half])
    assert len(Synonyms.of([", ".join(words[:300])]).same) == 300


def test_faulty_synonyms_are_named_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "synonyms.txt"
    path.write_text("sofa, couch\nalone\na => b => c\n=> shirt\nred,,blue\n")
    with pytest.raises(ConfigurationError) as failure:
        Synonyms.read(path)
    message = str(failure.value)
    assert "synonyms.txt" in message and all(f"line {number}" in message for number in (2, 3, 4, 5))
    path.write_bytes(b"sofa, caf\xe9")
    with refused(ConfigurationError, code="not-utf-8-byte"):
        Synonyms.read(path)
    with refused(ConfigurationError, code="cannot-read"):
        Synonyms.read(tmp_path / "absent.txt")


def letters(texts: Sequence[str]) -> np.ndarray:
    return np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], np.float32)


def test_near_words_join_where_no_document_has_the_word(tmp_path: Path) -> None:
    index = TextIndex.build(["a", "b", "c"], {"title": ["listen", "a lamp", "silentx"]})
    encoder = Encoder.wrap("letters", text=letters)
    near = NearWords.of(encoder, index.postings.words, threshold=0.9, store=Store(tmp_path))
    cosine = 6 / (6 * 7) ** 0.5  # six letters in common, of six and of seven
    assert near.near("tinsel") == [("listen", pytest.approx(1)), ("silentx", pytest.approx(cosine))]
    answer = index.search("tinsel", near_words=near)
    assert answer.ids == ("a", "c")
    assert answer.changes == ("searched for 'listen' (1.00), 'silentx' (0.93) beside 'tinsel': near in vectors",)
    assert index.search("lamp", near_words=near).changes == ()
    with refused(ConfigurationError, code="smallest-cosine-not", hint=False):
        NearWords.of(encoder, ["a"], threshold=2)


def test_words() -> None:
    assert words_of("Women's T-Shirt (XL), 2-pack; café_noir") == [
        "women",
        "t",
        "shirt",
        "xl",
        "2",
        "pack",
        "café",
        "noir",
    ]
    assert words_of("ＦＵＬＬ Straße l’été") == ["full", "strasse", "l", "été"]
    assert Language("none").terms(["été", "shirts"]) == ["ete", "shirts"]
    assert small().search("shirt shirts SHIRT").scores == small().search("shirt").scores
    assert small().search("the shirt").ids == small().search("shirt").ids
    assert TextIndex.build(["a"], {"title": ["the who"]}).search("the").ids == ("a",)  # nothing else was asked for


@pytest.mark.parametrize("query", ["", "!?", "\ud800\ud800\ud800x", "x" * 5_000, "\0", "red " * 2_000])
def test_strange_queries_are_answered(query: str) -> None:
    assert small().search(query).ids == (small().search("red").ids if "red" in query else ())


def test_languages() -> None:
    pytest.importorskip("snowballstemmer")
    snowball = pytest.importorskip("nltk.stem.snowball").SnowballStemmer
    words = ["tassen", "tasse", "häuser", "rote", "roten", "schönes"]
    assert Language("german").terms(words)[:2] == ["tass", "tass"]
    theirs = [snowball("french").stem(word) for word in ("chaussures", "rouges", "robe")]
    assert Language("french").terms(["chaussures", "rouges", "robe"]) == theirs
    with refused(ConfigurationError, hint="german"):
        Language("germn")


def test_a_run_can_be_fused() -> None:
    index = small()
    run = index.run({"q1": "red shirt", "q2": "nothing at all"}, k=3)
    assert [document for document, _ in run.answer("q1")] == list(index.search("red shirt", k=3).ids)
    assert run.answer("q2") == []
    assert fuse({"a": run, "b": run}).answer("q1")[0][0] == run.answer("q1")[0][0]


def test_faults_are_named() -> None:
    with pytest.raises(TextIndexError) as failure:
        TextIndex.build(["a", "a", "b"], {"title": ["x"], "note": ["x", "y", "z"]})
    assert "'a' is there more than once" in str(failure.value) or "title has 1 texts" in str(failure.value)
    with pytest.raises(ConfigurationError) as wrong:
        Bm25F(k1=-1, b={"title": 2}, weights={"title": float("nan")})
    assert all(part in str(wrong.value) for part in ("k1", "b of title", "weight of title"))
    with refused(ConfigurationError, "title", hint=False):
        TextIndex.build(["a"], {"title": ["x"]}, bm25f=Bm25F(weights={"titel": 2}))
    for k in (0, -1):
        with pytest.raises(ConfigurationError):
            small().search("red", k=k)
    with refused(ConfigurationError, "4", code="within-booleans-not", hint=False):
        small().search("red", within=np.ones(3, np.bool_))
    with refused(TextIndexError, code="index-fields-not"):
        small().updated(["a"], {"title": ["x"]})
