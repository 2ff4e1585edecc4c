"""WordNet: senses in order, lemmas, hypernyms, depth and morphy; the file made anew; NLTK's reader as the referee."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from visir.errors import VisirError
from visir.robustness.language.wordnet import FILE, Pos, WordNet, wordnet

ALL: tuple[Pos, ...] = ("n", "v", "a", "r")


@pytest.fixture(scope="module")
def net() -> WordNet:
    return wordnet()


@pytest.fixture(scope="module")
def database() -> Path:
    """The folder of WordNet's own files; WNSEARCHDIR is how WordNet's programs are told where it is."""
    folder = Path(os.environ.get("WNSEARCHDIR", "/usr/share/wordnet"))
    if not (folder / "data.noun").is_file():
        pytest.skip(f"no WordNet database in {folder} (apt install wordnet-base, or set WNSEARCHDIR)")
    return folder


def first(net: WordNet, lemma: str, pos: Pos) -> list[str]:
    """The first lemma of each sense."""
    return [net.lemmas(synset)[0] for synset in net.synsets(lemma, pos)]


def test_it_has_as_many_synsets_as_wordnet_3_0(net: WordNet) -> None:
    # wnstats(7WN): 82,115 nouns, 13,767 verbs, 18,156 adjectives, 3,621 adverbs.
    kinds = [net.pos_of(synset) for synset in range(len(net))]
    assert (len(net), kinds.count("n"), kinds.count("v"), kinds.count("r")) == (117_659, 82_115, 13_767, 3_621)
    assert kinds.count("a") + kinds.count("s") == 18_156


def test_senses_stand_in_order_of_frequency(net: WordNet) -> None:
    # As `wn dog -over` prints them.
    assert first(net, "dog", "n") == ["dog", "frump", "dog", "cad", "frank", "pawl", "andiron"]
    assert first(net, "dog", "v") == ["chase"]
    assert first(net, "dog", "a") == []
    assert net.lemmas(net.synsets("dog", "n")[0]) == ["dog", "domestic_dog", "Canis_familiaris"]


def test_lemmas_keep_their_capitals_and_asking_needs_none(net: WordNet) -> None:
    assert net.lemmas(net.synsets("new york", "n")[0])[:2] == ["New_York", "New_York_City"]
    assert net.synsets("New_York", "n") == net.synsets("NEW YORK", "n") == net.synsets("new york", "n")


def test_markers_of_position_are_no_part_of_a_lemma(net: WordNet) -> None:
    assert net.lemmas(net.synsets("galore", "a")[0]) == ["galore"]  # written "galore(ip)"


def test_adjectives_include_satellites(net: WordNet) -> None:
    small, tiny = net.synsets("small", "a")[0], net.synsets("tiny", "a")[0]
    assert (net.pos_of(small), net.pos_of(tiny)) == ("a", "s")


def test_a_synset_that_holds_a_lemma_twice_is_listed_once(net: WordNet) -> None:
    twice = [s for s in range(len(net)) if len({one.lower() for one in net.lemmas(s)}) < len(net.lemmas(s))]
    assert twice  # e.g. "Mb", "MB"
    for synset in twice:
        pos: Pos = "a" if net.pos_of(synset) == "s" else net.pos_of(synset)  # type: ignore[assignment]
        for lemma in net.lemmas(synset):
            assert net.synsets(lemma, pos).count(synset) == 1


def test_hypernyms_and_instances(net: WordNet) -> None:
    dog = net.synsets("dog", "n")[0]
    assert [net.lemmas(up)[0] for up in net.hypernyms(dog)] == ["canine", "domestic_animal"]
    einstein = net.synsets("Einstein", "n")[0]
    assert [net.lemmas(up)[0] for up in net.hypernyms(einstein)] == ["physicist"]  # an instance of one


def test_min_depth_takes_the_shortest_way(net: WordNet) -> None:
    # entity 0, physical entity 1, object 2, whole 3, living thing 4, organism 5, animal 6, domestic animal 7, dog 8:
    # five steps shorter than by way of chordate, vertebrate, mammal, placental, carnivore and canine (13).
    assert net.min_depth(net.synsets("dog", "n")[0]) == 8
    assert net.min_depth(net.synsets("entity", "n")[0]) == 0
    assert {net.min_depth(synset) for synset in net.synsets("red", "a")} == {0}
    for synset in range(0, len(net), 7):
        ups = net.hypernyms(synset)
        assert net.min_depth(synset) == (1 + min(map(net.min_depth, ups)) if ups else 0)


def test_unknown_words_have_no_synsets(net: WordNet) -> None:
    assert [net.synsets(word, pos) for word in ("", " ", "zorgle", "日本語", "dogs") for pos in ALL] == [[]] * 20


def test_morphy_by_exceptions_by_endings_and_not_at_all(net: WordNet) -> None:
    assert net.morphy("geese", "n") == "goose"  # an exception
    assert net.morphy("churches", "n") == "church"
    assert net.morphy("Dogs", "n") == "dog"
    assert net.morphy("glasses", "n") == "glasses"  # a lemma itself (spectacles)
    assert net.morphy("hot dogs", "n") == "hot_dog"
    assert net.morphy("running", "v") == "run"  # an exception: the rules would give "runn"
    assert net.morphy("largest", "a") == "large"
    assert net.morphy("quickly", "a") is None
    assert net.base_forms("axes", "n") == ["ax", "axis"]
    assert net.base_forms("saw", "v") == ["saw", "see"]
    assert net.base_forms("zorgles", "n") == []


@pytest.mark.nightly
def test_the_file_is_made_anew_byte_for_byte(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "scripts")
    build: Any = __import__("build_wordnet")
    assert build.build(database) == FILE.read_bytes()


@pytest.mark.nightly
def test_a_database_that_contradicts_itself_is_refused(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "scripts")
    build: Any = __import__("build_wordnet")
    shutil.copytree(database, tmp_path, dirs_exist_ok=True)
    index = (tmp_path / "index.adv").read_text().replace("a_cappella r ", "a_kappella r ")
    (tmp_path / "index.adv").write_text(index)
    with pytest.raises(VisirError) as fault:
        build.build(tmp_path)
    assert str(fault.value).startswith(f"{tmp_path}: no database of WordNet that is whole: KeyError(('a_cappella', ")


@pytest.mark.nightly
def test_nltk_reads_the_same(net: WordNet, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nltk = pytest.importorskip("nltk")
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):  # type: ignore[misc]
        def map_wn(self, version: str = "wordnet") -> None:
            """No mapping from other versions, which would need their files."""

    files = Path(shutil.copytree(database, tmp_path / "corpora" / "wordnet"))
    (files / "lexnames").write_text("".join(f"{i:02d}\tfile{i}\t1\n" for i in range(45)))  # names of no concern here
    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, str(tmp_path)])  # NLTK reads nothing outside
    with pytest.warns(UserWarning, match="multilingual"):
        theirs = Reader(str(files), None)

    lines = ((pos, (files / f"data.{name}").read_text().split("\n")) for pos, name in theirs._FILEMAP.items())
    offsets = {pos: [int(line[:8]) for line in text if line[:1].isdigit()] for pos, text in lines}
    number, at = {}, 0
    for pos in ALL:
        for offset in offsets[pos]:
            number[pos, offset] = at
            at += 1
    checked = 0
    for synset in theirs.all_synsets():
        ours = number[synset.pos().replace("s", "a"), synset.offset()]
        ups = {number[up.pos(), up.offset()] for up in synset.hypernyms() + synset.instance_hypernyms()}
        assert (net.pos_of(ours), net.lemmas(ours)) == (synset.pos(), synset.lemma_names())
        assert (set(net.hypernyms(ours)), net.min_depth(ours)) == (ups, synset.min_depth())
        checked += 1
    assert checked == len(net)
    forms = [form for pos in ALL for form in theirs._exception_map[pos]]
    for lemma, entries in theirs._lemma_pos_offset_map.items():
        for pos in ALL:
            assert net.synsets(lemma, pos) == [number[pos, offset] for offset in entries.get(pos, [])]
    for lemma in list(theirs._lemma_pos_offset_map)[::20]:
        forms += [lemma, *(lemma + ending for ending in ("s", "es", "ed", "ing", "er", "est", "men"))]
        forms += [lemma[:-1] + ending for ending in ("ies", "ves", "ing", "ed")]
    for form in forms:
        for pos in ALL:
            assert net.base_forms(form, pos) == theirs._morphy(form, pos)
            assert net.morphy(form, pos) == theirs.morphy(form, pos)
