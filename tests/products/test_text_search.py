"""Words against a catalogue: the index that is kept, changes of products, fusion, faults, the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusals import refused
from visir.cli.main import app
from visir.errors import ConfigurationError, VisirError
from visir.products.text_search import TextOptions, catalogue_texts, search, text_index
from visir.records import Catalogue
from visir.retrieval.text import index as postings
from visir.retrieval.text.index import Bm25F
from visir.retrieval.text.words import words_of


def shop(titles: list[str | None], name: str = "shop") -> Catalogue:
    n = len(titles)
    attributes = [[("Colour", "red"), ("Material", "cotton")], [("Colour", "navy blue")], [], []][:n]
    paths = [["Clothes", "Skirts"], ["Clothes", "Skirts"], ["Toys", "Trains"], ["Toys", "Wooden trains"]][:n]
    return Catalogue.of(name, ids=["a", "b", "c", "d"][:n], paths=paths, titles=titles, attributes=attributes)


TITLES: list[str | None] = ["long skirt", "short skirt", "an engine", None]


def test_titles_categories_and_attributes_are_searched() -> None:
    catalogue = shop(TITLES)
    assert catalogue_texts(catalogue)[1] == {
        "title": ["long skirt", "short skirt", "an engine", ""],
        "category": ["Clothes, Skirts", "Clothes, Skirts", "Toys, Trains", "Toys, Wooden trains"],
        "attributes": ["Colour red, Material cotton", "Colour navy blue", "", ""],
    }
    assert [product for product, _ in search(catalogue, "red skirts").products] == ["a", "b"]
    assert [product for product, _ in search(catalogue, "wooden toy").products] == ["d", "c"]
    answer = search(catalogue, "skrits", k=1)
    assert answer.changes == ("searched for 'skirts' instead of 'skrits'",) and len(answer.products) == 1
    plain = search(catalogue, "skrits", text=TextOptions(spelling=False))
    assert plain.products == () and plain.changes == ()
    assert "searched for 'skirts'" in repr(answer)


def test_the_index_is_kept_and_follows_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(postings, "words_of", lambda text: read.append(text) or words_of(text))
    first = text_index(shop(TITLES), root=tmp_path)
    assert "long skirt" in read
    read.clear()
    again = text_index(shop(TITLES), root=tmp_path)  # another object of the same content
    assert not read and again.postings.words == first.postings.words
    changed = shop(["long skirt", "short skirt", "a locomotive", None])
    later = text_index(changed, root=tmp_path)
    assert read == ["a locomotive", "Toys, Trains", ""]  # the fields of one product
    assert later.search("locomotive").ids == ("c",) and later.search("engine", spelling=False).ids == ()
    assert text_index(shop(TITLES), root=tmp_path).search("engine").ids == ("c",)
    assert len(list(tmp_path.rglob("starts.npy"))) == 1  # one index, of the last catalogue


def test_a_damaged_index_is_made_again(tmp_path: Path) -> None:
    text_index(shop(TITLES), root=tmp_path)
    for file_name, cut in (("words.parquet", False), ("starts.npy", True)):
        (path,) = (path for path in tmp_path.rglob(file_name) if ".damaged-" not in str(path))
        path.write_bytes(b"" if cut else b"x" * path.stat().st_size)
        with pytest.warns(UserWarning, match=rf"damaged \(index-1/{file_name} .*made again"):
            assert text_index(shop(TITLES), root=tmp_path).search("engine").ids == ("c",)


def test_settings_are_not_part_of_what_is_kept(tmp_path: Path) -> None:
    catalogue = shop(["red skirt", "skirt", "train", None])
    attributes_first = Bm25F(weights={"title": 0, "category": 0})
    index = text_index(catalogue, bm25f=attributes_first, root=tmp_path)
    assert index.search("skirt").ids == () and text_index(catalogue, root=tmp_path).search("skirt").ids == ("b", "a")
    with refused(ConfigurationError, "no field", "titel", hint=False):
        text_index(catalogue, bm25f=Bm25F(weights={"titel": 2}), root=tmp_path)


def test_several_systems_are_fused() -> None:
    catalogue = shop(TITLES)
    parts = [search(catalogue, "red skirt", system, 100) for system in ("bm25f", "text:bow")]
    ranks = [{product: rank for rank, (product, _) in enumerate(part.products, 1)} for part in parts]
    wanted = {
        product: sum(1 / (60 + rank[product]) for rank in ranks if product in rank)
        for product in {**ranks[0], **ranks[1]}
    }
    answer = search(catalogue, "red skirt", ["bm25f", "text:bow"])
    assert dict(answer.products) == pytest.approx(wanted)
    assert answer.system == "rrf(BM25F, bow:4096, titles)" and answer.unit == "rrf"
    only = search(catalogue, "red skirt", ["bm25f", "text:bow"], fusion="weighted", weights=[1, 0])
    assert [product for product, _ in only.products[:2]] == [product for product, _ in parts[0].products]
    assert search(catalogue, "zzzz", ["bm25f", "bm25"]).products == ()
    corrected = search(catalogue, "red skrit", ["bm25f", "text:bow"])  # the encoder, too, reads "red skirt"
    assert corrected.products == answer.products and corrected.query == "red skrit"


def test_faults_are_named_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as failure:
        search(shop(TITLES), " ", ["bm25f", "bm25f"], 0, weights=[1.0])
    message = str(failure.value)
    assert all(part in message for part in ("query is empty", "k must be", "named twice", "1 weights for 2"))
    with refused(VisirError, hint="bm25f"):
        search(shop(TITLES), "red", "bm25g")
    with refused(VisirError, code="cannot-read"):
        search(shop(TITLES), "red", text=TextOptions(synonyms=tmp_path / "absent.txt"))


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("id,title,category\np1,Blue denim skirt,Clothes > Skirts\np2,Dog,Toys\n")
    (tmp_path / "synonyms.txt").write_text("jeans => denim\n")
    catalogue = f"products:{tmp_path / 'shop.csv'}"
    result = CliRunner().invoke(
        app, ["products", "search", catalogue, "jeans skrit", "--synonyms", str(tmp_path / "synonyms.txt")]
    )
    assert result.exit_code == 0, result.output
    flat = " ".join(result.output.split())
    assert "p1" in flat and "Searched for 'denim' instead of 'jeans': synonyms" in flat
    assert "'skirt' instead of 'skrit'" in flat
    fused = CliRunner().invoke(
        app, ["products", "search", catalogue, "skirt", "-m", "bm25f", "-m", "text:bow", "--fusion", "rff"]
    )
    assert fused.exit_code != 0 and "rrf" in str(fused.exception or fused.output)
