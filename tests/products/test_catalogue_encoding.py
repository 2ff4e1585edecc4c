"""Catalogues through encoders: every distinct text once, found again by content, what is absent marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from refusals import refused
from visir.encoders import load
from visir.encoders.models.small import BagOfWords
from visir.encoders.store import Store
from visir.errors import ConfigurationError, EmbeddingError, EncoderError
from visir.products.encoding import ABSENT, LONGEST, attribute_texts, encode_catalogue
from visir.products.generated import generate_catalogue
from visir.records import Catalogue

TOY = Catalogue.of(
    "toy",
    ids=["a", "b", "c"],
    paths=[["Home", "Rugs"], ["Home", "Lamps"], ["Garden", "Lamps"]],
    titles=["Red rug", None, " "],
    attributes=[[("colour", "red"), ("size", "small")], [], [("colour", "red")]],
)


class Counting(BagOfWords):
    """A bag of words that notes what it was given."""

    def __init__(self) -> None:
        known = ["home", "rugs", "lamps", "garden", "red", "rug", "colour", "size", "small", "x"]
        super().__init__(known, np.ones(len(known), np.float32), len(known))
        self.given: list[str] = []

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        self.given += texts
        return super().embed_texts(texts)


def test_each_distinct_text_is_encoded_once_and_found_again(tmp_path: Path) -> None:
    words, store = Counting(), Store(tmp_path)
    vectors = encode_catalogue(TOY, text=words, store=store)
    assert sorted(words.given) == ["Garden", "Home", "Lamps", "Red rug", "Rugs", "colour: red", "size: small"]
    again = encode_catalogue(TOY, text=words, store=store)
    assert len(words.given) == 7
    assert np.array_equal(again.categories, vectors.categories)
    assert len({tuple(one) for one in vectors.categories}) == 4  # 5 categories, two called Lamps
    assert vectors.titles is not None
    assert vectors.titles.rows.tolist() == [0, ABSENT, ABSENT]
    assert vectors.attributes is not None
    assert vectors.attributes.offsets.tolist() == [0, 2, 2, 3]
    assert vectors.attributes.rows.tolist() == [0, 1, 0]
    assert vectors.images is None
    assert set(vectors.cards) == {"categories", "titles", "attributes"}


def test_attributes_follow_their_products_in_any_order(tmp_path: Path) -> None:
    table = TOY.attributes.take([2, 1, 0])
    mixed = Catalogue("toy", TOY.products, table, TOY.categories)
    vectors = encode_catalogue(mixed, text=Counting(), store=Store(tmp_path)).attributes
    assert vectors is not None
    assert vectors.offsets.tolist() == [0, 2, 2, 3]
    texts = list(dict.fromkeys(attribute_texts(mixed)))
    assert [texts[row] for row in vectors.rows] == ["size: small", "colour: red", "colour: red"]


def test_pictures_by_product(tmp_path: Path) -> None:
    catalogue = generate_catalogue(6, size=64).catalogue
    whole = encode_catalogue(catalogue, image="pixels", text=Counting(), store=Store(tmp_path)).images
    products = catalogue.products.set_column(2, "path", [[None, *catalogue.products["path"].to_pylist()[1:]]])
    some = Catalogue("some", products, catalogue.attributes, catalogue.categories)
    part = encode_catalogue(some, image="pixels", text=Counting(), store=Store(tmp_path)).images
    assert whole is not None
    assert part is not None
    assert part.rows.tolist() == [ABSENT, 0, 1, 2, 3, 4]
    assert np.allclose(part.vectors[part.rows[1:]], whole.vectors[whole.rows[1:]])


def test_imported_vectors_by_product_id_and_by_text(tmp_path: Path) -> None:
    texts = ["Home", "Rugs", "Lamps", "Garden", "Red rug", "colour: red", "size: small", "unused"]
    file = tmp_path / "made.npz"
    np.savez(file, text=np.arange(16, dtype=np.float32).reshape(8, 2), text_ids=np.array(texts))
    vectors = encode_catalogue(TOY, text=f"npz:{file}")
    names = TOY.categories["name"].to_pylist()
    assert vectors.categories.tolist() == [[2 * texts.index(one), 2 * texts.index(one) + 1] for one in names]
    np.savez(file, text=np.ones((2, 2), np.float32), text_ids=np.array(["Home", "Rugs"]))
    with refused(EmbeddingError, "2", "4", "texts", "toy", "categories", "Lamps", "Garden", code="no-vector"):
        encode_catalogue(TOY, text=f"npz:{file}")


def test_an_endless_value_is_cut_before_it_is_read(tmp_path: Path) -> None:
    endless = Catalogue.of("big", ids=["a"], paths=[["Home"]], attributes=[[("text", "x " * 5_000_000)]])
    words = Counting()
    encode_catalogue(endless, text=words, store=Store(tmp_path))
    assert max(map(len, words.given)) == LONGEST


def test_what_cannot_be_encoded_is_told(tmp_path: Path) -> None:
    with refused(ConfigurationError, "toy", code="no-product-picture"):
        encode_catalogue(TOY, image="pixels", text=Counting(), store=Store(tmp_path))
    with refused(EncoderError, "texts", code="encodes-no"):
        encode_catalogue(TOY, text=load("pixels"), store=Store(tmp_path))
