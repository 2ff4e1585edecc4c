"""Catalogues as they come: broken pictures, endless texts, categories that nobody is in. Clear messages, no crash."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from refusals import refused
from visir.errors import CollectionError, ImageError, VisirError
from visir.products import load_categories_model, open_catalogue, train
from visir.products.cli import app
from visir.products.encoding import encode_catalogue
from visir.products.evaluation import evaluate
from visir.products.systems import TitleBm25
from visir.products.task import folds
from visir.records import Catalogue

HUGE = "x" * 10_000_000
KINDS = ("Boots", "Mugs", "Lamps")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "200"})


def said(result: Result) -> str:
    """What was printed; a fault that a person can mend included, any other raised."""
    if isinstance(result.exception, VisirError):
        return f"{result.output}{result.exception}"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def lines(path: Path, *rows: dict[str, Any] | str) -> Path:
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in rows), encoding="utf-8")
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """60 products in three kinds and a lone category, with every fault of pictures and texts that is legal."""
    rows: list[dict[str, Any]] = []
    for row in range(60):
        kind = row % 3
        Image.new("RGB", (16, 16), ("red", "green", "blue")[kind]).save(tmp_path / f"{row}.jpg")
        rows.append(
            {
                "id": f"p{row}",
                "title": f"{KINDS[kind]} number {row}",
                "category_path": ["Shop", KINDS[kind]],
                "image": f"{row}.jpg",
                "attributes": {"colour": ("red", "green", "blue")[kind]},
            }
        )
    (tmp_path / "7.jpg").unlink()  # not there
    (tmp_path / "8.jpg").write_text("no picture")
    whole = (tmp_path / "9.jpg").read_bytes()
    (tmp_path / "9.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "10.jpg").write_bytes(b"")
    rows[11]["attributes"] = {"story": HUGE}
    rows[12]["attributes"] = {}
    rows[13]["attributes"] = {"colour": "", "": "red"}
    rows[14]["title"] = None
    rows[15]["title"] = HUGE
    rows[16]["category_path"] = ["Lonely"]
    rows.append(rows[0])
    return lines(tmp_path / "shop.jsonl", *rows)


def test_what_is_wrong_is_told_and_shortly(shop: Path) -> None:
    catalogue = open_catalogue(shop)
    assert catalogue.products.num_rows == 60
    assert catalogue.notes == (
        "set aside: 1 rows joined to an earlier one with the same id ('p0': line 61 to line 1)",
        "set aside: 1 attributes without a value (line 14: 'p13': 'colour')",
        "set aside: 1 attributes without a name (line 14: 'p13')",
    )
    assert catalogue.remarks() == [
        "products without a picture: 1 ('p7')",
        "products without a title: 1 ('p14')",
        "products without attributes: 2 ('p12', 'p13')",
        "titles longer than 10,000 characters (models cut them, visir does not): 1 ('p15' (10,000,000))",
        "attribute values longer than 10,000 characters (models cut them, visir does not): 1 ('p11' (10,000,000))",
    ]


def test_a_broken_picture_stops_encoding_by_name_or_counts_as_absent(shop: Path) -> None:
    catalogue = open_catalogue(shop)
    with refused(ImageError, "8.jpg"):
        encode_catalogue(catalogue, image="pixels", text="bow")
    vectors = encode_catalogue(catalogue, image="pixels", text="bow", skip_broken=True)
    assert vectors.images is not None and vectors.titles is not None and vectors.attributes is not None
    assert np.flatnonzero(~vectors.images.present).tolist() == [7, 8, 9, 10]
    assert np.flatnonzero(~vectors.titles.present).tolist() == [14]
    assert np.flatnonzero(~vectors.attributes.present).tolist() == [12, 13]
    assert np.isfinite(vectors.images.vectors).all()


def test_a_training_stops_at_a_broken_picture_unless_it_may_skip_it(tmp_path: Path) -> None:
    for row in range(24):
        Image.new("RGB", (16, 16), ("red", "green", "blue")[row % 3]).save(tmp_path / f"{row}.jpg")
    (tmp_path / "8.jpg").write_text("no picture")
    rows = [
        {"id": f"p{row}", "title": f"{row}", "category_path": ["Shop", KINDS[row % 3]], "image": f"{row}.jpg"}
        for row in range(24)
    ]
    few: dict[str, Any] = {"image": "pixels", "text": "bow:64", "folds": 2, "epochs": 1, "changes": {"dimension": 8}}
    source = f"products:{lines(tmp_path / 'shop.jsonl', *rows)}"
    with refused(ImageError, "8.jpg"):
        train(source, out=tmp_path / "first", **few)
    folder = train(source, out=tmp_path / "second", skip_broken=True, **few)
    assert "images" in load_categories_model(folder).cards


@pytest.mark.nightly
def test_train_and_evaluate_from_end_to_end(shop: Path, tmp_path: Path) -> None:
    few = ["--folds", 3, "--image-model", "pixels", "--text-model", "bow", "--set", "optimiser.epochs=1"]
    few += ["--set", "optimiser.batch=8", "--recipe", "clip-ita"]
    caught = said(run("train", shop, *few, "--out", tmp_path / "refused"))
    assert "8.jpg" in caught
    assert not (tmp_path / "refused" / "heads.safetensors").exists()
    model = tmp_path / "model"
    assert f"model: {model}" in said(run("train", shop, *few, "--out", model, "--skip-broken"))
    printed = said(
        run("evaluate", shop, "--model", model, "--baselines", "bm25,text:bow", "--folds", 3, "--out", tmp_path / "out")
    )
    assert "bm25" in printed.lower()
    assert (tmp_path / "out" / "report.html").is_file()
    found = said(run("search", shop, "Boots", "--model", model, "-k", 5, "--html", tmp_path / "page.html"))
    assert "Boots" in found


def test_a_category_without_test_products_is_no_query(shop: Path, tmp_path: Path) -> None:
    """ "Lonely" has one product, so in two of three folds nobody asks for it; "Shop > Hats" has none at all."""
    row = {"id": "p60", "title": "Hat", "category_path": ["Shop", "Hats"], "image": "0.jpg"}
    shop.write_text(f"{shop.read_text()}\n{json.dumps(row)}")
    catalogue = open_catalogue(shop)
    catalogue = catalogue.keep_products(np.arange(61) < 60)  # the tree stays whole
    assert catalogue.remarks()[2:4] == [
        "products without attributes: 2 ('p12', 'p13')",
        "categories without products: 1 ('Shop > Hats')",
    ]
    trials = evaluate(catalogue, [TitleBm25()], folds(catalogue, 3)).trials
    asked = [one.task.judgements().queries.to_pylist() for one in trials["BM25", "specific"]]
    everywhere = ["Shop > Boots", "Shop > Lamps", "Shop > Mugs"]
    assert sorted(map(len, asked)) == [3, 3, 4]
    assert all(set(one) - {"Lonely"} == set(everywhere) for one in asked)
    for found in trials.values():
        assert all(np.isfinite(one.values("rprecision")).all() for one in found)


def test_all_pictures_gone(tmp_path: Path) -> None:
    rows = [{"id": str(row), "title": "t", "category_path": ["A"], "image": f"{row}.jpg"} for row in range(30)]
    shop = lines(tmp_path / "shop.jsonl", *rows)
    assert "no product has a picture" in said(run("train", shop, "--image-model", "pixels", "--text-model", "bow"))
    with refused(CollectionError, "30", code="none-images"):
        open_catalogue(shop, images=tmp_path)


def test_endless_texts_anywhere_make_no_endless_messages(tmp_path: Path) -> None:
    shop = lines(
        tmp_path / "shop.jsonl",
        {"id": HUGE, "category_path": ["A"]},
        {"id": HUGE, "category_path": ["A"]},
        {"id": "2", "category_path": ["A", HUGE], "image": HUGE},
        {"id": "3", "category_path": ["A"], "attributes": {HUGE: "v", f"{HUGE}y": ""}},
        {"id": "4", "category_path": HUGE + ">" * 100},
        f'{{"id": "{HUGE}',
        f'"{HUGE}"',
    )
    catalogue = open_catalogue(shop)
    assert catalogue.products.num_rows == 3
    assert all(len(line) < 700 for line in (*catalogue.notes, *catalogue.remarks()))
    assert any(line.startswith("names of categories longer than 10,000") for line in catalogue.remarks())
    assert any(line.startswith("attribute names longer than 10,000") for line in catalogue.remarks())
    table = catalogue.products
    with pytest.raises(CollectionError) as told:
        Catalogue("twice", table.take([0, 0]), catalogue.attributes, catalogue.categories)
    assert "(10,000,000 characters)" in str(told.value)
    assert len(str(told.value)) < 2_000


@pytest.mark.parametrize("ending", ["gz", "xz"])
@pytest.mark.parametrize("how", ["cut", "spoilt", "not compressed"])
def test_a_download_that_broke(tmp_path: Path, ending: str, how: str) -> None:
    whole = b"".join(b'{"id": "%d", "category_path": ["A"]}\n' % row for row in range(20_000))
    packed = (gzip.compress if ending == "gz" else lzma.compress)(whole)
    middle = len(packed) // 2
    spoilt = packed[:middle] + bytes(200) + packed[middle + 200 :]
    path = tmp_path / f"shop.jsonl.{ending}"
    path.write_bytes({"cut": packed[:middle], "spoilt": spoilt, "not compressed": whole}[how])
    with refused(VisirError, "shop.jsonl", code="cannot-decompressed"):
        open_catalogue(path, format="products")


def test_a_line_that_is_not_utf8(tmp_path: Path) -> None:
    good = b'{"id": "1", "category_path": ["A"]}\n'
    (tmp_path / "shop.jsonl").write_bytes(b"\xef\xbb\xbf" + good + good.replace(b"A", b"Caf\xe9").replace(b"1", b"2"))
    catalogue = open_catalogue(tmp_path / "shop.jsonl")
    assert catalogue.products["id"].to_pylist() == ["1"]
    assert "1 lines that are not valid JSON (line 2: " in catalogue.notes[0]
    (tmp_path / "shop.csv").write_bytes("id,category\n1,A\n2,Café\n".encode("latin1"))
    with refused(CollectionError, "shop.csv", "3", "0xe9", code="table-not-utf-8"):
        open_catalogue(tmp_path / "shop.csv")
