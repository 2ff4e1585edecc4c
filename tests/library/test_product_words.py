"""Libraries of products that are searched by words: alone, and joined with vectors."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import visir
from refusals import refused
from visir.library import Library, LibraryError
from visir.library.layout import LIBRARY, LibraryCard
from visir.library.product_words import texts_of
from visir.library.query import QueryError
from visir.library.snapshot import LibrarySnapshot
from visir.library.watch import remove
from visir.retrieval.text.index import TextIndex
from visir.storage import changing

SHOP = """id;title;category;price;brand;material;size;description
p1;red dress;Clothes > Dresses;1.299,00 €;Acme;wool;42;warm
p2;blue dress;Clothes > Dresses | Sale;49,90 €;acme;cotton;40;for parties
p3;wooden dog;;;Zeta;oak;;on wheels
p4;yellow hat;Clothes > Hats;9,90 €;Zeta;wool;;
AB-77;;Clothes > Hats;19,90 €;Zeta;straw;;
"""


def texts(values: list[str]) -> NDArray[np.float32]:
    """(n, 3): red things, blue things, the rest."""
    return np.array([["red" in text, "blue" in text, 0.1] for text in values], np.float32)


def colours() -> visir.Encoder:
    return visir.Encoder.wrap("colours", text=texts, version="1")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.csv").write_text(SHOP, encoding="utf-8")
    return tmp_path / "shop.csv"


@pytest.fixture
def library(shop: Path) -> Library:
    return visir.index(shop, "none", out=shop.with_name("words.visir"))


@pytest.fixture
def both(shop: Path) -> Library:
    return visir.index(shop, colours(), out=shop.with_name("both.visir"))


def products(library: Library, text: str | None = None, **options: object) -> list[str | None]:
    return [hit.item.product for hit in library.search(text, **options)]  # type: ignore[arg-type]


def assert_as_built_anew(library: Library) -> None:
    snapshot = library.snapshot
    assert snapshot.words is not None
    index = snapshot.words.index
    anew = TextIndex.build(*texts_of(snapshot.database, snapshot.card), language=index.language)
    assert index.ids.equals(anew.ids)
    assert (index.postings.words, index.terms) == (anew.postings.words, anew.terms)
    for name in ("starts", "documents", "counts", "lengths"):
        assert np.array_equal(getattr(index.postings, name), getattr(anew.postings, name)), name
    assert library.check() == []


# ---- words alone ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dresses", {"p1", "p2"}),
        ("zeta", {"p3", "p4", "AB-77"}),
        ("hats", {"p4", "AB-77"}),  # the second has no title: its category
        ("wool", {"p1", "p4"}),
        ("parties", {"p2"}),
        ("size 42", {"p1", "p2"}),  # the name of an attribute too; that with 42 first
        ("AB-77", {"AB-77"}),
        ("eur", set()),
        ("1299", set()),
    ],
)
def test_every_field_is_searched(library: Library, text: str, expected: set[str]) -> None:
    assert set(products(library, text)) == expected
    if text == "size 42":
        assert products(library, text)[0] == "p1"


def test_no_model_is_needed_and_torch_is_not_imported(shop: Path) -> None:
    code = (
        "import sys, visir\n"
        f"library = visir.index({str(shop)!r}, out={str(shop.with_name('made.visir'))!r})\n"
        "assert [hit.item.product for hit in library.search('drss under 50')] == ['p2']\n"
        "assert library.report.encoded == 0 and library.model == ''\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "model none: products are searched by words" in done.stderr


def test_pictures_need_no_model_either_and_take_a_language(tmp_path: Path) -> None:
    made = visir.index("scenes:5?size=64", "none", language="german", out=tmp_path / "made.visir")
    assert made.snapshot.words is not None and made.snapshot.words.index.language.name == "german"
    assert made.search("red or green or blue or yellow circles").by == "words"


def test_prices_are_conditions_before_words_are_searched(library: Library) -> None:
    assert products(library, "dress under 50 €") == ["p2"]
    answer = library.search("under 20")  # nothing but a price: all that cost less
    assert {hit.item.product for hit in answer} == {"p4", "AB-77"}
    assert (answer.total, [words.words for words in answer.read]) == (2, ["under 20"])
    assert products(library, "under 20", k=1) + products(library, "under 20", k=1, offset=1) == [
        hit.item.product for hit in answer
    ]
    assert products(library, "under 20", read_prices=False) == []


def test_filters_categories_and_facets(library: Library) -> None:
    assert products(library, "wool", where="price < 50") == ["p4"]
    assert set(products(library, category="Clothes/Hats")) == {"p4", "AB-77"}
    assert products(library, "acme", category="Sale") == ["p2"]
    assert library.facets(where="brand = Zeta").total == 3


def test_pages_are_one_list(library: Library) -> None:
    whole = products(library, "wool acme zeta dress")
    assert len(whole) == 5
    assert [products(library, "wool acme zeta dress", k=1, offset=n)[0] for n in range(5)] == whole
    assert library.search("wool acme zeta dress", k=5).next_offset is None
    assert library.search("wool acme zeta dress", k=2).next_offset == 2


def test_misspelt_words_are_named(library: Library) -> None:
    answer = library.search("blue drss")
    assert answer[0].item.product == "p2"
    assert answer.changes == ("searched for 'dress' instead of 'drss'",)
    assert "searched for 'dress' instead of 'drss'" in repr(answer)
    assert answer.to_dict()["changes"] == list(answer.changes)
    assert (answer.by, answer.system, answer.label) == ("words", None, "words")


def test_what_words_alone_cannot_answer(library: Library) -> None:
    for request in ({"like": "p1"}, {"text": "dress", "by": "vectors"}, {"text": "dress", "system": "dense"}):
        with pytest.raises(QueryError, match=r"words and no vectors \(visir library update LIBRARY --model MODEL"):
            library.search(**request)  # type: ignore[arg-type]
    with refused(QueryError, "unknown", "word", meant="words"):
        library.search("dress", by="word")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="by=words: there is no text"):
        library.search(like="p1", by="words")
    with pytest.raises(QueryError, match="rerank: this library's model has no matching head"):
        library.search("dress", rerank=5)


def test_words_of_pictures_are_those_of_their_captions(tmp_path: Path) -> None:
    photos = visir.index("scenes:5?size=64", "pixels", out=tmp_path / "drawn.visir")
    word = photos[photos.ids[0]].caption.split()[-1].strip(".")  # type: ignore[union-attr]
    found = photos.search(word)
    assert found.by == "words" and photos.ids[0] in {hit.id for hit in found}
    assert "caption" in photos.explain(found[0], word).explanation.found_words[0].fields


# ---- updates ----


def test_words_follow_the_table(library: Library, shop: Path) -> None:
    place = library.snapshot.words.place  # type: ignore[union-attr]
    shop.write_text(SHOP.replace("49,90", "39,90"), encoding="utf-8")
    assert library.update().rewritten == 1
    assert library.snapshot.words.place == place, "a price is no word: nothing is written"  # type: ignore[union-attr]
    changed = SHOP.replace("yellow hat", "green cap").replace("p3;wooden", "p9;wooden").replace("cotton", "silk")
    shop.write_text(changed, encoding="utf-8")
    library.update()
    assert products(library, "cap") == ["p4"]
    assert products(library, "silk") == ["p2"]
    assert products(library, "cotton") == []
    assert products(library, "dog") == ["p9"]
    assert_as_built_anew(library)
    remove(library.folder, [library["p9"].id])
    assert products(library, "dog") == []
    assert_as_built_anew(library)


def test_any_history_gives_the_index_of_a_new_build(library: Library, shop: Path) -> None:
    drawn = random.Random(0)
    words = ["red", "blue", "dress", "shirt", "wool", "oak", "été", "x1"]
    for _ in range(8):
        rows = [
            f"p{number};{' '.join(drawn.choices(words, k=drawn.randint(0, 3)))};"
            f"{drawn.choice(['A > B', 'A', ''])};5,00;{drawn.choice(words)};;;{' '.join(drawn.choices(words, k=2))}"
            for number in drawn.sample(range(9), drawn.randint(1, 9))
        ]
        shop.write_text("\n".join([SHOP.splitlines()[0], *rows]) + "\n", encoding="utf-8")
        library.update()
        assert_as_built_anew(library)


def test_another_language_makes_the_words_anew(library: Library) -> None:
    assert set(products(library, "dresses")) == {"p1", "p2"}
    visir.index(library.folder, language="none")
    assert set(products(library, "dresses")) == {"p1", "p2"}  # the category has this very word
    assert products(library, "dogs") == ["p3"], "the spelling is corrected, as no product has this word"
    assert library.search("dogs").changes == ("searched for 'dog' instead of 'dogs'",)
    assert library.update().same
    with refused(visir.VisirError, "germn", code="unknown-language"):
        visir.index(library.folder, language="germn")
    assert_as_built_anew(library)


def test_a_library_without_words_opens_and_an_update_adds_them(both: Library, shop: Path) -> None:
    folder = both.folder
    with changing(folder, LIBRARY, busy="busy") as change:  # as visir wrote it before there were words
        content = {name: value for name, value in change.manifest.content.items() if name != "words"}
        card = LibraryCard.of(change.manifest)
        change.keep_only(card.database)
        change.commit(content)
    old = Library.open(folder, model=colours())
    assert old.snapshot.words is None
    assert old.search("red", k=1)[0].item.product == "p1"
    assert (old.search("red").by, old.search("red").label) == ("vectors", "dense")
    with pytest.raises(QueryError, match="by=words: this library was made without words; visir library update LIBRARY"):
        old.search("red", by="words")
    assert old.update().encoded == 0
    assert products(old, "zeta", by="words") == products(both, "zeta", by="words") != []
    assert_as_built_anew(old)


def test_words_of_another_version_are_made_anew(library: Library) -> None:
    with changing(library.folder, LIBRARY, busy="busy") as change:
        content = dict(change.manifest.content)
        content["words"] = {**content["words"], "version": 99}
        change.commit(content)
    with LibrarySnapshot.open(library.folder) as opened:
        assert opened.words is None
    with refused(QueryError, code="library-no-words"):
        library.search("dress")
    library.update()
    assert set(products(library, "dress")) == {"p1", "p2"}


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_damaged_words_are_named_and_made_anew(library: Library, damage: str) -> None:
    folder = library.folder
    [place] = [path for path in folder.iterdir() if path.name.startswith("words-")]
    part = place / "documents.npy"
    part.write_bytes(part.read_bytes()[:-1] + b"\7") if damage == "changed" else part.unlink()
    with refused(LibraryError, "words-", "/documents.npy"):
        LibrarySnapshot.open(folder)
    part.unlink(missing_ok=True)  # what the message says to do
    visir.index(folder)
    assert set(products(library, "dress")) == {"p1", "p2"}
    assert_as_built_anew(library)


def test_a_manifest_cannot_lead_out_of_the_library(library: Library) -> None:
    with changing(library.folder, LIBRARY, busy="busy") as change:
        content = json.loads(json.dumps(change.manifest.content))
        content["words"]["place"] = "../elsewhere"
        change.commit(content)
    with refused(LibraryError, "words", code="visir-json-not-describe"):
        LibrarySnapshot.open(library.folder)


# ---- both ----


def test_a_model_can_be_added(library: Library, shop: Path) -> None:
    model = visir.index(library.folder, colours())
    assert (model.report.encoded, len(model)) == (5, 5)  # type: ignore[union-attr]
    answer = model.search("red dress")
    assert (answer.by, answer.system, answer.label) == ("both", "dense", "words and dense")
    with refused(LibraryError, "colours", code="model-none"):
        visir.index(model.folder, "none")
    assert_as_built_anew(model)


def test_both_is_the_fusion_of_both(both: Library) -> None:
    searcher = both._searcher
    for weight in (0.0, 0.3, 1.0):
        page = searcher.find(text="red zeta wool", weight=weight, k=5)
        parts = {by: searcher.find(text="red zeta wool", by=by, k=5).hits for by in ("words", "vectors")}
        best = {by: max(hits[0].score, 0) for by, hits in parts.items()}
        shares = {"words": 1 - weight, "vectors": weight}
        expected: dict[str, float] = {}
        for by, hits in parts.items():
            for hit in hits:
                expected[hit.id] = expected.get(hit.id, 0) + shares[by] * max(hit.score, 0) / best[by]
        assert {hit.id: hit.score for hit in page.hits} == pytest.approx(expected)
        assert [hit.id for hit in page.hits] == sorted(expected, key=lambda item: (-expected[item], item))


def test_one_of_both(both: Library) -> None:
    assert products(both, "wool", by="words") == products(both, "wool", by="both", weight=0.0)[:2]
    assert len(products(both, "wool", by="vectors")) == 5
    assert both.search("wool", system="dense").by == "vectors"
    assert both.search(like="p1").by == "vectors"
    assert both.search("red", like="p2").by == "vectors"
    assert both.search("red", like="p2", by="both").by == "both"
    assert "p2" not in products(both, "blue dress", like="p2", by="both")


def test_vectors_get_the_corrected_words(both: Library) -> None:
    answer = both.search("blue drss", k=5)
    assert answer.changes == ("searched for 'dress' instead of 'drss'",)
    exact = both.search("blue dress", k=5)
    assert [hit.id for hit in answer] == [hit.id for hit in exact]
    assert [hit.parts for hit in answer] == [hit.parts for hit in exact]
    assert answer.title == "'blue drss'"


def test_both_with_filters_and_pages(both: Library) -> None:
    assert products(both, "dress under 50", k=1) == ["p2"]
    assert set(products(both, "dress under 50")) == {"p2", "p4", "AB-77"}
    whole = products(both, "red dress")
    assert [products(both, "red dress", k=1, offset=n)[0] for n in range(5)] == whole


def test_a_model_of_pictures_leaves_texts_to_words(shop: Path) -> None:
    ids = ["p1", "p2", "p3", "p4", "AB-77"]
    np.savez(shop.with_name("v.npz"), image=np.eye(5, dtype=np.float32), image_ids=np.array(ids))
    library = visir.index(shop, f"npz:{shop.with_name('v.npz')}", out=shop.with_name("given.visir"))
    assert library.takes_texts
    assert (library.search("dress").by, set(products(library, "dress"))) == ("words", {"p1", "p2"})
    assert library.search(like="p1", k=2).by == "vectors"


def test_both_is_explained(both: Library) -> None:
    searcher = both._searcher
    query = visir.library.Query(text="red wool")
    page = searcher.find(query)
    for hit in page.hits:
        explained = searcher.explain(query, hit.id)
        assert set(explained.parts) == {"words", "dense"}
        assert sum(part.contribution for part in explained.parts.values()) == pytest.approx(hit.score)
        for name, part in explained.parts.items():
            assert (part.rank, part.score) == hit.parts.get(name, (None, pytest.approx(part.score)))


# ---- synonyms ----


def test_synonyms_are_copied_and_named(library: Library, shop: Path) -> None:
    rules = shop.with_name("synonyms.txt")
    rules.write_text("# of the shop\nfrock, dress\npuppy => dog\n", encoding="utf-8")
    assert products(library, "frock") == []
    visir.index(library.folder, synonyms=rules)
    rules.unlink()
    answer = library.search("frock")
    assert {hit.item.product for hit in answer} == {"p1", "p2"}
    assert answer.changes == ("searched for 'dress' beside 'frock': synonyms",)
    assert products(library, "puppy") == ["p3"]
    shop.write_text(SHOP.replace("yellow hat", "frock"), encoding="utf-8")
    library.update()
    assert set(products(library, "dresses")) == {"p1", "p2", "p4"}
    other = shop.with_name("other.txt")
    other.write_text("")
    visir.index(library.folder, synonyms=other)
    assert set(products(library, "dresses")) == {"p1", "p2"}
    assert_as_built_anew(library)


def test_faulty_rules_change_nothing(library: Library, shop: Path) -> None:
    rules = shop.with_name("synonyms.txt")
    rules.write_text("sofa\na => b => c\n", encoding="utf-8")
    with refused(visir.VisirError, "line 1", "one word alone", "line 2", "more than one =>"):
        visir.index(library.folder, synonyms=rules)
    with refused(visir.VisirError, code="cannot-read"):
        visir.index(library.folder, synonyms=shop.with_name("away.txt"))
    with refused(visir.VisirError, "line 1", "line 2"):
        visir.index("scenes:5?size=64", "pixels", out=shop.with_name("x"), language="none", synonyms=rules)
    assert library.update().same


def test_a_text_that_the_model_cannot_read_is_left_to_words(shop: Path) -> None:
    bow = visir.index(shop, "bow", out=shop.with_name("bow.visir"))
    assert bow.search("...", by="words").hits == ()
    answer = bow.search("...")
    assert (answer.by, answer.hits) == ("words", ())


# ---- what is counted ----


@pytest.mark.parametrize(
    ("text", "options", "total", "of"),
    [("dress", {}, 2, "found"), ("wool acme zeta dress", {}, 5, "found"), ("zzzqqq", {}, 0, "found"),
     ("dress", {"where": "price < 60"}, 1, "found"), ("dress under 60", {}, 1, "found"), ("under 60", {}, 3, "all")],
)  # fmt: skip
def test_totals_pages_and_facets_are_of_what_was_found(
    library: Library, text: str, options: dict[str, str], total: int, of: str
) -> None:
    answer = library.search(text, k=2, **options)  # type: ignore[arg-type]
    assert (answer.total, answer.matched) == (total, total if of == "found" else None)
    pages, offset = list(answer), answer.next_offset
    while offset is not None:
        page = library.search(text, k=2, offset=offset, **options)  # type: ignore[arg-type]
        assert page.total == total
        pages, offset = [*pages, *page], page.next_offset
    assert len(pages) == total
    facets = library.facets(text, **options)  # type: ignore[arg-type]
    assert (facets.total, facets.of) == (total, of)
    for facet in facets.facets:
        for value in facet.values:
            left = [condition for condition in value.where if facet.left_out]
            if not left and value.category is None and facet.type == "text":
                assert library.search(text, where=[*answer.query.where, *value.where]).total == value.count
    past = library.search(text, offset=50, **options)  # type: ignore[arg-type]
    assert (len(past), past.total, past.next_offset) == (0, total, None)
    assert ("nothing found" if not total else "nothing behind rank") in repr(past)


def test_vectors_rank_everything_and_words_are_counted_beside_them(both: Library) -> None:
    joined, vectors, words = (both.search("dress", by=by) for by in ("both", "vectors", "words"))  # type: ignore[arg-type]
    assert (joined.total, joined.matched) == (5, 2) and "5 products, ranked; 2 found by words" in repr(joined)
    assert (vectors.total, vectors.matched) == (5, None) and "5 of 5 products, ranked" in repr(vectors)
    assert (words.total, words.matched) == (2, 2) and "2 of 2 products found" in repr(words)
    assert (both.facets("dress").of, both.facets("dress").total) == ("found", 2)
    assert (both.facets("zzzqqq").of, both.facets("zzzqqq").total) == ("ranked", 5)
    assert (both.facets("dress", by="vectors").of, both.facets("dress", by="vectors").total) == ("ranked", 5)


def test_a_facet_says_which_conditions_it_leaves_out(library: Library) -> None:
    facets = library.facets("dress hats", where=["price < 60", "brand = acme"])
    assert [str(condition) for condition in facets["brand"].left_out] == ["brand = acme"]
    assert sum(value.count for value in facets["brand"].values) == 3, "all under 60, whatever the brand"
    assert facets["category"].left_out == ()
    assert facets.to_dict()["facets"][0]["left_out"] == []


def test_filters_alone_in_python(library: Library) -> None:
    answer = library.search(where="price < 60")
    assert [hit.item.product for hit in answer] == ["AB-77", "p2", "p4"]
    assert (answer.by, answer.label, answer.total) == ("filters", "by name", 3)
    with pytest.raises(QueryError, match="by=words: there is no text"):
        library.search(where="price < 60", by="words")
    with pytest.raises(QueryError, match="nothing is asked"):
        library.search()


def test_words_that_were_found_are_named(library: Library) -> None:
    answer = library.search("red dresses wool")
    [best, *_] = library.explain("p1", "red dresses wool").explanation.found_words
    matches = library.explain("p1", "red dresses wool").explanation.found_words
    assert {word for match in matches for word in match.words} >= {"red", "dress", "wool"}
    assert best.score == max(match.score for match in matches)
    assert sum(match.score for match in matches) == pytest.approx(answer[0].score)
    assert {match.words[-1]: match.fields for match in matches}["red"] == ("title",)


def test_a_changed_price_is_not_unchanged(library: Library, shop: Path) -> None:
    shop.write_text(SHOP.replace("49,90", "39,90"), encoding="utf-8")
    report = library.update()
    assert (report.rewritten, report.unchanged) == (1, 4)
