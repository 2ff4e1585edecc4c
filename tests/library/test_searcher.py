"""A library asked: every way of asking, paging, pinned answers, threads, explanations."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from asked_toys import make_library, texts
from matching_toys import Nearness
from visir.collections.images import decode
from visir.errors import VisirError
from visir.library.filters import FieldCondition, FilterError
from visir.library.layout import LibraryError
from visir.library.query import Query, QueryError
from visir.library.results import ResultPage
from visir.library.searcher import Searcher
from visir.library.updating import update


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISIR_CACHE", str(made / "cache"))
        return make_library(made)


@pytest.fixture(scope="module")
def searcher(folder: Path) -> Searcher:
    return Searcher.open(folder, device="cpu")


def same(one: ResultPage | VisirError, other: ResultPage | VisirError) -> bool:
    """All but the time it took, scores to the bit."""
    assert isinstance(one, ResultPage) and isinstance(other, ResultPage)
    return (one.hits, one.total, one.next_offset, one.system) == (
        other.hits,
        other.total,
        other.next_offset,
        other.system,
    )


def mixture(seed: int, searcher: Searcher) -> list[Query]:
    """Queries of every kind, in random company."""
    drawn, items = random.Random(seed), searcher.library.indexes["dense"].ids.to_pylist()
    narrowed = [(), (FieldCondition("width", ">=", 10),), (FieldCondition("caption", "contains", "a"),)]
    return [
        Query(
            text=drawn.choice(texts()),
            like=drawn.choice([None, None, drawn.choice(items)]),
            text_weight=drawn.choice([0.2, 0.5]),
            system=drawn.choice(["dense", "sparse", "hybrid", None]),  # type: ignore[arg-type]
            fusion=drawn.choice(["rrf", "weighted"]),  # type: ignore[arg-type]
            where=drawn.choice(narrowed),
            k=drawn.choice([1, 5, 60]),
            offset=drawn.choice([0, 3]),
        )
        for _ in range(drawn.randint(2, 24))
    ]


def test_the_answer_does_not_depend_on_the_company(folder: Path, searcher: Searcher) -> None:
    queries = [query for seed in range(6) for query in mixture(seed, searcher)]
    alone = [Searcher.open(folder, device="cpu", deterministic=True).search([query])[0] for query in queries[:12]]
    pinned = Searcher.open(folder, device="cpu", deterministic=True)
    alone += [pinned.search([query])[0] for query in queries[12:]]
    drawn = random.Random(1)
    for _ in range(4):
        order = drawn.sample(range(len(queries)), len(queries))
        fresh = Searcher.open(folder, device="cpu", deterministic=True)
        at = 0
        while at < len(order):
            some = order[at : at + drawn.randint(1, 30)]
            at += len(some)
            for place, answer in zip(some, fresh.search([queries[one] for one in some]), strict=True):
                assert same(answer, alone[place])


def test_company_changes_scores_by_rounding_only(folder: Path, searcher: Searcher) -> None:
    """Unless `deterministic` is asked for, texts are encoded together as they come."""
    queries = [query for query in mixture(0, searcher) if query.system == "dense"]
    together = Searcher.open(folder, device="cpu").search(queries)
    assert queries
    for query, page in zip(queries, together, strict=True):
        [alone] = Searcher.open(folder, device="cpu").search([query])
        scores = {hit.id: hit.score for hit in alone.hits}
        common = [hit for hit in page.hits if hit.id in scores]
        assert len(common) >= len(page.hits) - 1
        assert all(abs(hit.score - scores[hit.id]) < 1e-5 for hit in common)


def test_many_threads_get_the_same_answers(folder: Path, searcher: Searcher) -> None:
    batches = [mixture(seed, searcher)[:6] for seed in range(24)]
    wanted = [Searcher.open(folder, device="cpu", deterministic=True).search(batch) for batch in batches]
    fresh = Searcher.open(folder, device="cpu", deterministic=True)
    with ThreadPoolExecutor(8) as pool:
        for found, expected in zip(pool.map(fresh.search, batches * 2), wanted * 2, strict=True):
            assert all(map(same, found, expected))


@pytest.mark.parametrize("system", ["dense", "sparse", "hybrid"])
@pytest.mark.parametrize("fusion", ["rrf", "weighted"])
def test_pages_continue_one_another(searcher: Searcher, system: str, fusion: str) -> None:
    ask = {"text": "a red boat on the sea", "system": system, "fusion": fusion}
    whole = searcher.search([Query(**ask, k=100)])[0]  # type: ignore[arg-type]
    assert whole.next_offset is None
    found, offset = [], 0
    while offset is not None:
        page = searcher.search([Query(**ask, k=7, offset=offset)])[0]  # type: ignore[arg-type]
        assert page.next_offset == (None if len(page.hits) < 7 or len(found) + 7 >= len(whole.hits) else offset + 7)
        found += page.hits
        offset = page.next_offset
    assert tuple(found) == whole.hits
    assert [hit.rank for hit in found] == list(range(1, len(found) + 1))
    assert all(one.score >= two.score for one, two in pairwise(found))


def test_dense_and_sparse_answers_are_those_of_the_index(searcher: Searcher) -> None:
    from visir.encoders import load

    library = searcher.library
    for system, name in (("dense", library.model), ("sparse", library.head)):
        vectors = load(str(name), device="cpu").encode_inputs("text", {"q": "a red boat"})
        run = library.indexes[system].search(vectors, 6).answer("q")
        answer = searcher.search([Query(text="a red boat", k=6, system=system)])[0]  # type: ignore[arg-type]
        assert [hit.id for hit in answer.hits] == [item for item, _ in run]
        assert [hit.score for hit in answer.hits] == pytest.approx([score for _, score in run], rel=1e-5)
        assert answer.total == 48 and answer.hits[2].parts == {system: (3, answer.hits[2].score)}


def test_hybrid_is_the_fusion_of_both(searcher: Searcher) -> None:
    ask = {"text": "a green house near the tree", "k": 48}
    lists = {one: searcher.search([Query(**ask, system=one)])[0] for one in ("dense", "sparse")}  # type: ignore[arg-type]
    scores: dict[str, float] = {}
    for answer in lists.values():
        for hit in answer.hits:
            scores[hit.id] = scores.get(hit.id, 0) + 1 / (60 + hit.rank)
    found = searcher.search([Query(**ask, system="hybrid")])[0]  # type: ignore[arg-type]
    assert found.system == "hybrid" and searcher.search([Query(**ask)])[0].system == "dense"  # type: ignore[arg-type]
    assert [hit.id for hit in found.hits] == sorted(scores, key=lambda one: (-scores[one], one))
    assert found.hits[0].score == pytest.approx(scores[found.hits[0].id])
    first = found.hits[0]
    assert first.parts["dense"][0] == next(hit.rank for hit in lists["dense"].hits if hit.id == first.id)


def test_a_picture_finds_itself_and_an_item_is_left_out(searcher: Searcher) -> None:
    item = searcher.library.indexes["dense"].ids[7].as_py()
    picture = decode(searcher.library.open_image(item)[0], item)
    for system in ("dense", "sparse"):
        by_picture = searcher.search([Query(image=picture, k=5, system=system)])[0]  # type: ignore[arg-type]
        by_item = searcher.similar(item, 4, system=system)  # type: ignore[arg-type]
        assert by_item.total == 47
        if system == "dense":  # by dot product another may have heavier words
            assert by_picture.hits[0].id == item and by_picture.hits[0].score == pytest.approx(1)
            assert [hit.id for hit in by_item.hits] == [hit.id for hit in by_picture.hits[1:]]
        assert item not in [hit.id for hit in by_item.hits]


def test_a_mean_of_text_and_picture_goes_from_one_to_the_other(searcher: Searcher) -> None:
    items = searcher.library.indexes["dense"].ids.to_pylist()
    texts_only = searcher.search([Query(text="a blue kite", system="dense", k=48)])[0]
    items_only = searcher.similar(items[3], 47, system="dense")
    ask = {"text": "a blue kite", "like": items[3], "system": "dense", "k": 47}
    first, last = searcher.search([Query(**ask, text_weight=1.0), Query(**ask, text_weight=0.0)])  # type: ignore[arg-type]
    assert [hit.id for hit in first.hits] == [hit.id for hit in texts_only.hits if hit.id != items[3]]
    assert [hit.id for hit in last.hits] == [hit.id for hit in items_only.hits]
    # Half and half: the cosine is the mean of both cosines, divided by the length of the mean vector.
    half = searcher.search([Query(**ask)])[0]  # type: ignore[arg-type]
    one, two = ({hit.id: hit.score for hit in answer.hits} for answer in (texts_only, items_only))
    ratios = np.array([hit.score / (one[hit.id] + two[hit.id]) for hit in half.hits])
    assert np.allclose(ratios, ratios[0], rtol=1e-3)


def test_conditions_and_categories_narrow_every_system(searcher: Searcher) -> None:
    library = searcher.library
    word = library.item(library.indexes["dense"].ids[0].as_py()).captions[0][1].split()[1]
    condition = FieldCondition("caption", "contains", word)
    allowed = {item for (item,) in library.database.rows("SELECT item FROM captions WHERE text LIKE ?", (f"%{word}%",))}
    assert 0 < len(allowed) < 48
    for system in ("dense", "sparse", "hybrid"):
        ask = {"text": "a dog", "system": system, "k": 48}
        whole, part = searcher.search([Query(**ask), Query(**ask, where=(condition,))])  # type: ignore[arg-type]
        assert part.total == len(allowed)
        kept = [hit.id for hit in whole.hits if hit.id in allowed]
        assert {hit.id for hit in part.hits} == set(kept)
        if system != "hybrid":
            assert [hit.id for hit in part.hits] == kept
    nothing = searcher.search([Query(text="a dog", where=(FieldCondition("width", ">", 9999),))])[0]
    assert (nothing.hits, nothing.total, nothing.next_offset) == ((), 0, None)


def test_explanations_add_up(searcher: Searcher) -> None:
    query = Query(text="a red house near the sea", system="hybrid", k=3)
    answer = searcher.search([query])[0]
    hit = answer.hits[0]
    told = searcher.explain(query, hit.id)
    assert sum(part.contribution for part in told.parts.values()) == pytest.approx(hit.score)
    assert {name: (part.rank, part.score) for name, part in told.parts.items()} == dict(hit.parts)
    assert sum(one.query * one.document for one in told.terms) == pytest.approx(hit.parts["sparse"][1], rel=1e-5)
    assert list(told.words) == searcher.words(hit.id)
    weighted = Query(text="a red house near the sea", system="hybrid", fusion="weighted", weight=0.3, k=48)
    listed = searcher.search([weighted])[0]
    for one in (listed.hits[0], listed.hits[5], listed.hits[-1]):
        gives = sum(part.contribution for part in searcher.explain(weighted, one.id).parts.values())
        assert gives == pytest.approx(one.score, abs=1e-9)


def test_nearest_captions_are_those_of_the_index(searcher: Searcher) -> None:
    item = searcher.library.indexes["dense"].ids[2].as_py()
    found = searcher.captions(item, 4)
    assert len(found) == 4 and all(one[1] >= two[1] for one, two in pairwise(found))
    known = {text for (text,) in searcher.library.database.rows("SELECT text FROM captions")}
    assert {text for text, _ in found} <= known


def test_faults_stay_with_their_query(searcher: Searcher) -> None:
    good = Query(text="a dog", k=2)
    found = searcher.search_each(
        [
            good,
            {},
            Query(like="no such item"),
            Query(text="a", where=(FieldCondition("widht", ">", 3),)),
            {"text": "a", "k": 0, "text_weight": 2, "system": "dence", "rerank": 5},
            good,
        ]
    )
    assert same(found[0], found[5]) and same(found[0], searcher.search([good])[0])
    for fault, kind in zip(found[1:5], [QueryError, LibraryError, FilterError, QueryError], strict=True):
        assert isinstance(fault, kind)
    assert "nothing is asked" in str(found[1]) and "no such item" in str(found[2])
    assert "did you mean 'width'?" in str(found[3])
    for part in (
        "did you mean 'dense'",
        "text_weight must lie between 0 and 1",
        "k must be at least 1",
        "no matching head",
    ):
        assert part in str(found[4])
    with pytest.raises(QueryError, match="nothing is asked"):
        searcher.search([good, {}])


def test_the_best_few_go_through_the_matching_head_once_for_all_pages(folder: Path) -> None:
    searcher = Searcher.open(folder, device="cpu")
    searcher.encoder.models.encoder.cross_encoder = head = Nearness()
    ask = {"text": "3 red boats", "system": "dense"}
    plain = searcher.search([Query(**ask, k=48)])[0]  # type: ignore[arg-type]
    whole = searcher.search([Query(**ask, k=48, rerank=7)])[0]  # type: ignore[arg-type]
    reds = {hit.id: float(np.asarray(_picture(searcher, hit.id))[0, 0, 0]) for hit in plain.hits[:7]}
    best = sorted(reds, key=lambda item: (abs(reds[item] - 30), item))
    assert [hit.id for hit in whole.hits] == best + [hit.id for hit in plain.hits[7:]]
    assert [hit.score for hit in whole.hits[:7]] == [-abs(reds[item] - 30) for item in best]
    assert whole.hits[0].parts["matching"] == (1, whole.hits[0].score) and "matching" not in whole.hits[7].parts
    assert all(one.score >= two.score for one, two in pairwise(whole.hits))
    assert head.pairs == 7
    pages = [searcher.search([Query(**ask, k=6, offset=at, rerank=7)])[0] for at in (0, 6, 12)]  # type: ignore[arg-type]
    assert tuple(hit for page in pages for hit in page.hits) == whole.hits[:18] and head.pairs == 7
    with pytest.raises(QueryError, match="there is no text"):
        searcher.search([Query(like=best[0], rerank=3)])


def _picture(searcher: Searcher, item: str):  # type: ignore[no-untyped-def]
    return decode(searcher.library.open_image(item)[0], item)


def test_a_category_alone_asks_for_its_name(tmp_path: Path) -> None:
    from PIL import Image

    for at, name in enumerate(["boats/red/a", "boats/b", "trees/c", "boats/red/d"]):
        path = tmp_path / "photos" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 30), (60 * at, 90, 200)).save(path)
    with Searcher.open(make_library(tmp_path, tmp_path / "photos"), device="cpu") as searcher:
        by_name = searcher.search([Query(text="red", category="boats/red")])[0]
        alone = searcher.search([Query(category="boats/red")])[0]
        assert same(by_name, alone) and alone.text == "red" and alone.total == 2
        assert searcher.search([Query(text="sea", category="boats")])[0].total == 3
        [boats, trees] = searcher.categories()
        assert (boats.path, boats.items, trees.items) == ("boats", 3, 1) and boats.children[0].path == "boats/red"


def test_a_searcher_goes_over_to_the_next_generation(tmp_path: Path) -> None:
    from PIL import Image

    photos = tmp_path / "photos"
    photos.mkdir()
    for at in range(3):
        Image.new("RGB", (30, 30), (80 * at, 90, 200)).save(photos / f"{at}.png")
    folder = make_library(tmp_path, photos)
    with Searcher.open(folder, device="cpu") as searcher:
        assert searcher.search([Query(text="sea")])[0].total == 3 and not searcher.reload()
        (photos / "0.png").unlink()
        update(None, folder)
        stale = searcher.search([Query(text="sea", system="dense")])[0]
        assert len(stale.hits) == 3  # one state from beginning to end, until the next one is taken
        assert searcher.reload()
        fresh = searcher.search([Query(text="sea", system="dense")])[0]
        assert (fresh.total, len(fresh.hits), fresh.generation) == (2, 2, stale.generation + 1)


def test_no_number_of_answers_breaks_it(searcher: Searcher) -> None:
    for k in (0, -1, 1001, 2**31, 2**63, 2**64, "3", 2.0, True, None):
        with pytest.raises(QueryError, match="k must be"):
            searcher.search([Query(text="sea", k=k)])  # type: ignore[arg-type]


def test_a_library_that_takes_no_text_is_asked_with_pictures(tmp_path: Path) -> None:
    """Its model encodes pictures alone: it is loaded, answers pictures and items, and says so of texts."""
    from PIL import Image

    photos = tmp_path / "photos"
    photos.mkdir()
    for at in range(4):
        Image.new("RGB", (30, 30), (60 * at, 90, 200)).save(photos / f"{at}.png")
    update(photos, tmp_path / "library", model="pixels")
    with Searcher.open(tmp_path / "library", device="cpu") as searcher:
        searcher.load()
        assert not searcher.takes_texts
        item = searcher.library.indexes["dense"].ids.to_pylist()[0]
        texts_asked = Query(text="sea"), Query(text="sea", like=item), Query(category="sea")
        asked = [*texts_asked, Query(like=item), Query(image=Image.new("RGB", (30, 30), (60, 90, 200)))]
        *refused, like, shown = searcher.search_each(asked)
        for fault in refused:
            assert isinstance(fault, QueryError) and "takes no text" in fault.message
        assert isinstance(like, ResultPage) and len(like.hits) == 3
        assert isinstance(shown, ResultPage) and len(shown.hits) == 4
