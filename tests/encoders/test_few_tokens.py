"""A tokenizer of the pieces of a text alone gives the ids of the whole one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("tokenizers")

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from visir.encoders.models import exported
from visir.encoders.models.text_inputs import (
    PIECES,
    TOKENIZER,
    FastTokens,
    FewTokens,
    TextInputs,
    TokenRules,
    pieces_of,
)

TEXT = (
    "a dog runs on the beach with two children in red shirts who run along the water beside an old wooden boat it's "
    "1962 and they're dogs' runners unbelievable running shirtless waterless Straße naïve 中文字符 мир 🐕 don't"
)
WORDS = TEXT.split()


def clip_like() -> Tokenizer:
    """BPE over bytes, in lower case, with an end of words, as CLIP's."""
    tokenizer = Tokenizer(models.BPE(unk_token="<|end|>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _trained(tokenizer, trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<|start|>", "<|end|>"], end_of_word_suffix="</w>", show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    ), "<|start|>", "<|end|>")  # fmt: skip


def gemma_like() -> Tokenizer:
    """BPE over a whole text, whose unknown characters are bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.ByteFallback()
    special = ["<bos>", "<eos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    return _trained(tokenizer, trainer, "<bos>", "<eos>")


def bert_like() -> Tokenizer:
    """WordPiece."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=260, special_tokens=special, show_progress=False)
    return _trained(tokenizer, trainer, "[CLS]", "[SEP]")


def _trained(tokenizer: Tokenizer, trainer: trainers.Trainer, first: str, last: str) -> Tokenizer:
    drawn = random.Random(0)
    tokenizer.train_from_iterator((" ".join(drawn.choices(WORDS, k=8)) for _ in range(200)), trainer)
    numbers = [(mark, tokenizer.token_to_id(mark)) for mark in (first, last)]
    tokenizer.post_processor = processors.TemplateProcessing(f"{first} $A {last}", special_tokens=numbers)
    tokenizer.add_special_tokens([AddedToken("<mark>", lstrip=True)])  # its number is behind the model's own
    return tokenizer


def both(content: bytes, folder: Path) -> tuple[TextInputs, TextInputs]:
    """The tokenizer of the pieces of a text, and the whole one."""
    rules = TokenRules(("input_ids", "attention_mask"), limit=24, padded=False, side="right", padding=0)
    (folder / TOKENIZER).write_bytes(content)
    pieces = pieces_of(content)
    assert pieces is not None
    (folder / PIECES).write_bytes(pieces)
    values = {"rules": asdict(rules)}
    return FastTokens.read_once(values, folder), FastTokens.read(values, folder)


@pytest.mark.parametrize("make", [clip_like, gemma_like, bert_like])
def test_the_ids_are_those_of_the_whole_vocabulary(make: Callable[[], Tokenizer], tmp_path: Path) -> None:
    tokenizer = make()
    few, whole = both(tokenizer.to_str().encode(), tmp_path)
    assert isinstance(few, FewTokens) and not isinstance(whole, FewTokens)
    drawn, vocabulary = random.Random(1), [*tokenizer.get_vocab()]
    letters = [*"abcdefghijklmnopqrstuvwxyzABC   '1.!ßéя中🐕\u0301\t"]
    texts = ["", " ", "a red circle", *exported._DIFFICULT]
    texts += [" ".join(drawn.choices(WORDS, k=6)) for _ in range(100)]
    texts += ["".join(drawn.choices(letters, k=drawn.randint(1, 60))) for _ in range(300)]
    texts += ["".join(drawn.choices(vocabulary, k=drawn.randint(1, 6))) for _ in range(200)]  # marks among them
    for text in texts:
        assert few([text])["input_ids"].tolist() == whole([text])["input_ids"].tolist(), text
    together = [few(texts[:40])[name].tolist() for name in few.names]
    assert together == [whole(texts[:40])[name].tolist() for name in whole.names]


def test_the_whole_vocabulary_is_read_for_long_texts_and_marks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, whole = both(clip_like().to_str().encode(), tmp_path)
    read: list[str] = []
    by_all = FewTokens._by_all
    monkeypatch.setattr(FewTokens, "_by_all", lambda self, texts: read.extend(texts) or by_all(self, texts))
    few(["a dog on the beach"])
    assert not read
    long = "".join(random.Random(0).choices("abcdef ", k=900))
    for text in (long, "a dog<|end|> on", "a dog <MARK> on", "a dog <mark> on"):
        assert few([text])["input_ids"].tolist() == whole([text])["input_ids"].tolist()
    assert read == [long, "a dog<|end|> on", "a dog <MARK> on", "a dog <mark> on"]


def test_vocabularies_of_other_kinds_have_no_pieces(tmp_path: Path) -> None:
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0))
    dropping = Tokenizer(models.BPE(vocab={"a": 0}, merges=[], dropout=0.1))
    for tokenizer in (unigram, dropping, Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))):
        content = tokenizer.to_str().encode()
        assert pieces_of(content) is None
        (tmp_path / TOKENIZER).write_bytes(content)
        rules = TokenRules(("input_ids",), limit=None, padded=False, side="right", padding=0)
        assert type(FastTokens.read_once({"rules": asdict(rules)}, tmp_path)) is FastTokens


def _same(tokenizer: Tokenizer, texts: list[str], folder: Path) -> None:
    few, whole = both(tokenizer.to_str().encode(), folder)
    assert isinstance(few, FewTokens)
    for text in texts:
        assert few([text])["input_ids"].tolist() == whole([text])["input_ids"].tolist(), text


def test_letters_that_meet_because_one_between_them_is_unknown(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")]))  # what is unknown goes
    _same(tokenizer, ["ab", "a?b", "a??b", "", "?"], tmp_path)


def test_marks_as_the_normalizer_writes_them(tmp_path: Path) -> None:
    vocabulary = {"▁": 0, "a": 1, "b": 2, "c": 3, "▁c": 4}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("▁", "c")], unk_token="▁"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Metaspace()
    tokenizer.add_tokens([AddedToken("[Mark]", normalized=True)])
    _same(tokenizer, ["ab[MARK]c", "ab[mark]c", "ab[Mark]c", "abc"], tmp_path)


def test_two_merges_that_make_one_piece(tmp_path: Path) -> None:
    pieces = ["<", "/", "w", ">", "a", "a</w>", "a<", "/w", "/w>", "b", "b</w>", "ba</w>"]
    merges = [("a", "<"), ("/", "w"), ("/w", ">"), ("a<", "/w>"), ("b", "a</w>")]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, "?"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, end_of_word_suffix="</w>", unk_token="?"))
    _same(tokenizer, ["ba", "a", "a</w>b", "ba</w>a"], tmp_path)


def test_a_mark_that_reads_like_the_bytes_of_a_word(tmp_path: Path) -> None:
    vocabulary = {"Ġ": 0, "a": 1, "b": 2, "?": 3}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="?", ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_tokens([AddedToken("Ġa")])
    _same(tokenizer, ["b a", "b Ġa", "ba"], tmp_path)
