"""Room for an ending: the helper against a slow oracle, and every family with a limit on its real tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_openclip
import tiny_sentence
import tiny_transformers as tiny
import torch
import transformers
from encoder_toys import Means
from hypothesis import given
from hypothesis import strategies as some
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules

from refusals import refused
from visir.encoders.base import Encoder
from visir.encoders.intake import truncate_texts
from visir.encoders.loading import load
from visir.encoders.models.joined import JoinedTexts
from visir.encoders.models.openclip import text_tower
from visir.encoders.models.towers import PretrainedTowersEncoder, TowersEncoder
from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.encoders.towers.gru import GRUBackbone, WordVocabulary
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.errors import EncoderError
from visir.evaluation.sources import read_texts

# --- the helper -------------------------------------------------------------------------------------------------------


def counted(limit: int, calls: list[int]) -> Any:
    """A model that reads `limit` letters, white space not counted, and two end tokens; notes how much it was asked."""

    def fits(texts: list[str]) -> list[bool]:
        calls.append(len(texts))
        return [len("".join(text.split())) + 2 <= limit for text in texts]

    return fits


def test_words_are_taken_from_the_end_until_text_and_ending_fit() -> None:
    # 12 letters, 2 of them for the ends and 2 for the ending "1 2": 8 are left for the text.
    calls: list[int] = []
    texts = ["a bcd efgh", "a bcd  efghi j", "abcdefghi", "", " a\tbcdefgh \n", " abcdefgh ijk", "日本語の長い文章です"]
    # "a bcd efgh" has 8; of 10 the last two words go ("a bcd  efghi" has 9), and the space before them; a word of 9
    # leaves nothing; white space costs nothing here, so the fifth fits as it stands.
    expected = ["a bcd efgh", "a bcd", "", "", " a\tbcdefgh \n", " abcdefgh", ""]
    assert truncate_texts(texts, "1 2", counted(12, calls), limit=12) == expected
    assert calls[:2] == [7, 1]  # all texts at once; then the ending alone
    assert truncate_texts([], "1 2", counted(1, calls), limit=1) == []
    assert truncate_texts(["ab", ""], "12", counted(6, []), limit=6) == ["ab", ""]


def test_no_room_for_the_ending_alone() -> None:
    # "123" and two ends are 5.
    assert truncate_texts(["a b", ""], "123", counted(5, []), limit=5) == ["", ""]
    with refused(EncoderError, "4", "123", code="ending-not-fit-even") as caught:
        truncate_texts(["a b", ""], "123", counted(4, []), limit=4)
    assert "a larger max_length in the encoder's name, a shorter template" in caught.value.hint
    assert "on=images" in caught.value.hint


def slow(text: str, ending: str, fits: Any) -> str:
    """The text itself, or its first words, one fewer at a time: the first of these that fits."""
    firsts = (re.match(rf"(\s*\S+){{{kept}}}", text) for kept in range(len(text.split()), -1, -1))
    heads = [text, *(first.group() for first in firsts if first)]
    return next(head for head in heads if fits([f"{head} {ending}"])[0])


@given(
    texts=some.lists(some.text(" \t\nabcé日", max_size=60), max_size=12),
    ending=some.text("0 1", min_size=1, max_size=5),
    piece=some.integers(1, 4),
    white=some.booleans(),
    limit=some.integers(7, 30),
)
def test_as_the_oracle_cuts(texts: list[str], ending: str, piece: int, white: bool, limit: int) -> None:
    """Words cost a token for every `piece` letters begun; white space a token each, in some tokenizers."""
    calls: list[int] = []

    def tokens(text: str) -> int:
        return 2 + sum(-(-len(word) // piece) for word in text.split()) + white * sum(map(str.isspace, text))

    def fits(several: list[str]) -> list[bool]:
        calls.append(len(several))
        return [tokens(text) <= limit for text in several]

    if tokens(f" {ending}") > limit:
        return
    found = truncate_texts(texts, ending, fits, limit=limit)
    # At most 60 words and what is behind them: 61 places, halved six times; before that all texts and the ending.
    assert len(calls) <= 2 + 6
    assert found == [slow(text, ending, fits) for text in texts]
    assert all(text.startswith(cut) for text, cut in zip(texts, found, strict=True))


def test_texts_are_asked_for_in_blocks() -> None:
    calls: list[int] = []
    texts = ["abc def"] * 1500
    # 8 letters: 2 ends, 2 of the ending, 4 for the text, so one word of three.
    assert truncate_texts(texts, "12", counted(8, calls), limit=8) == ["abc"] * 1500
    # All 1500; the ending; then places 0, 1, 2 (behind no, one, both words), of which 1 is to be tried.
    assert calls == [1024, 476, 1, 1024, 476]


# --- every family -----------------------------------------------------------------------------------------------------

TRANSFORMERS = {"clip": 77, "altclip": 128, "align": 64, "groupvit": 77, "siglip": 64, "blip": 512}
FAMILIES = {**TRANSFORMERS, "tiny-ViT": 77, "tiny-CoCa": 76, "tiny-bert": 40, "tiny-stripped": 40, "sentence": 40}
LONG = "the dog is running and the child runs in the grass " * 60
"""More words than any of these models reads tokens."""
FIRST, SECOND = "1 2 3 4 1 2", "1 2 3 4 1 3"
"""Digits that occur in the captions which the small vocabularies were made of."""


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `load` takes for each tiny model."""
    folder = tmp_path_factory.mktemp("models")
    for kind in TRANSFORMERS:
        tiny.save(kind, folder / kind)
    found = {kind: str(folder / kind) for kind in TRANSFORMERS}
    (folder / "zoo").mkdir()
    zoo = tiny_openclip.save_zoo(folder / "zoo")
    found |= {name: f"openclip:{name}/{zoo}/{name}.safetensors" for name in ("tiny-ViT", "tiny-CoCa")}
    found["tiny-bert"] = _save_openclip_bert(folder / "openclip-bert")
    found["tiny-stripped"] = _save_openclip_bert(folder / "stripped", tokenizer_kwargs={"strip_sep_token": True})
    sentence = tiny_sentence.save(folder / "sentence", **tiny_sentence.PROMPT)
    found["sentence"] = f"st:{sentence}"
    return found


def _save_openclip_bert(folder: Path, **settings: Any) -> str:
    """A folder in open_clip's own format whose text tower and tokenizer are a BERT of transformers."""
    folder.mkdir()
    words = tiny.wordpiece_tokenizer(folder, limit=512)
    bert = transformers.BertConfig(**tiny._layers(), vocab_size=words, max_position_embeddings=40)
    bert.save_pretrained(folder / "bert")
    text = {"hf_model_name": str(folder / "bert"), "hf_tokenizer_name": str(folder), "hf_proj_type": "mlp"}
    text |= {"hf_pooler_type": "mean_pooler", "context_length": 40, **settings}
    config = {**tiny_openclip.ARCHITECTURES["tiny-ViT"], "custom_text": True, "text_cfg": text}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": {}}))
    import open_clip

    torch.manual_seed(4)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False)
    tiny_openclip.save_weights(model, folder / "open_clip_model.safetensors")
    return f"openclip:local-dir:{folder}"


def ids(pretrained_tower: PretrainedBackbone, text: str) -> list[int]:
    """Token ids of a text, without the padding (0) that open_clip puts behind them."""
    return [int(one) for one in np.trim_zeros(pretrained_tower.prepare_all([text])[0], "b")]


def tail(pretrained_tower: PretrainedBackbone, ending: str) -> list[int]:
    """The ending's tokens and what closes a text: all that "dog" with the ending has more than "dog", and its last."""
    without, full = ids(pretrained_tower, "dog"), ids(pretrained_tower, f"dog {ending}")
    closing = 1 if without[-1] == full[-1] else 0  # a stripped end token looks like padding
    more = len(full) - len(without)
    assert more >= 6
    return full[-more - closing :]


@pytest.mark.parametrize("kind", FAMILIES)
def test_says_how_much_of_a_text_it_reads(names: dict[str, str], kind: str) -> None:
    encoder = load(names[kind], device="cpu")
    limit = encoder.text_limit()
    assert limit is not None
    assert limit.tokens == FAMILIES[kind]
    cut = encoder.truncate([LONG], "1")[0]
    longer = LONG[: len(cut) + 40]
    assert limit.fits([cut, "a dog", longer, LONG]) == [True, True, False, False]
    assert limit.count([LONG])[0] > 5 * limit.tokens or limit.tokens == 512
    reading = read_texts([LONG, "a dog"], limit)
    assert reading.cut.tolist() == [True, False]
    assert reading.words_read[0] >= len(cut.split())
    first = " ".join(LONG.split()[: int(reading.words_read[0])])
    assert limit.fits([first, f"{first} {LONG.split()[int(reading.words_read[0])]}"]) == [True, False]
    assert np.array_equal(*encoder.encode_texts([LONG, f"{LONG} the child"])), "what is cut changes nothing"


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_ending_of_a_long_caption_is_read(names: dict[str, str], kind: str) -> None:
    encoder = load(names[kind], device="cpu")
    pretrained_tower = encoder.pretrained_tower("text")  # type: ignore[attr-defined]
    cut, short = encoder.truncate([LONG, "A dog,  runs. "], FIRST)
    assert short == "A dog,  runs. "
    assert LONG.startswith(f"{cut} ") and len(cut.split()) >= 3
    found = ids(pretrained_tower, f"{cut} {FIRST}")
    assert found[-len(tail(pretrained_tower, FIRST)) :] == tail(pretrained_tower, FIRST)
    assert encoder.card.text_preprocessing["max_length"] == FAMILIES[kind] and len(found) <= FAMILIES[kind]
    # One word more, and the ending is not whole any more.
    longer = LONG[: len(cut) + 1 + len(LONG[len(cut) :].split()[0])]
    assert len(longer.split()) == len(cut.split()) + 1
    assert ids(pretrained_tower, f"{longer} {FIRST}")[-len(tail(pretrained_tower, FIRST)) :] != tail(
        pretrained_tower, FIRST
    )
    # Without room, the digits are not seen at all; with it, the last one alone makes another vector.
    blind = encoder.encode_texts([f"{LONG} {FIRST}", f"{LONG} {SECOND}"])
    assert np.array_equal(blind[0], blind[1])
    seen = encoder.encode_texts([f"{cut} {FIRST}", f"{cut} {SECOND}"])
    assert np.abs(seen[0] - seen[1]).max() > 1e-4 * np.abs(seen).max()
    # The same caption twice is the same caption, and what was cut is not cut again.
    assert encoder.truncate([cut, LONG], SECOND) == [cut, cut]
    assert (
        pretrained_tower.truncate([LONG], FIRST)
        == PretrainedBackbone.of(encoder, "text").truncate([LONG], FIRST)
        == [cut]
    )


@pytest.mark.parametrize("kind", ["clip", "tiny-ViT", "tiny-bert", "sentence"])
def test_what_fits_exactly_is_not_touched(names: dict[str, str], kind: str) -> None:
    """ "dog" is one token in each of these vocabularies, and so is a digit."""
    pretrained_tower = load(names[kind], device="cpu").pretrained_tower("text")  # type: ignore[attr-defined]
    room = FAMILIES[kind] - len(ids(pretrained_tower, FIRST))
    text = " ".join(["dog"] * room)
    assert len(ids(pretrained_tower, f"{text} {FIRST}")) == FAMILIES[kind]
    assert pretrained_tower.truncate([text, f"{text} dog", f"{text} "], FIRST) == [text, text, f"{text} "]


@pytest.mark.parametrize("kind", ["clip", "tiny-ViT", "sentence"])
def test_the_template_takes_its_part_of_the_room(names: dict[str, str], kind: str) -> None:
    """Twelve words of template, one token each (two in the CLIP made here, whose vocabulary has no "grass")."""
    plain = load(names[kind], device="cpu")
    template = "the dog " * 4 + "{} and the dog in"
    templated = load(f"{names[kind]}?template={template}", device="cpu")
    text = "dog " * 100
    without, within = (one.truncate([text], FIRST)[0] for one in (plain, templated))
    pretrained_tower = plain.pretrained_tower("text")  # type: ignore[attr-defined]
    taken = len(ids(pretrained_tower, template.replace("{}", "dog"))) - len(ids(pretrained_tower, "dog"))
    assert taken >= 12 and len(within.split()) == len(without.split()) - taken
    # A `{}` in a caption is a caption's, and no place for another.
    assert templated.truncate(["a {} b"], FIRST) == ["a {} b"]
    filled = template.replace("{}", f"{within} {FIRST}")
    closing = ids(pretrained_tower, "dog and the dog in")[-5:]  # four words and the end token
    assert (
        ids(pretrained_tower, filled)[-len(closing) :] == closing
        and len(ids(pretrained_tower, filled)) == FAMILIES[kind]
    )


@pytest.mark.parametrize("kind", ["clip", "siglip", "blip", "sentence"])
def test_too_small_a_limit_is_refused(names: dict[str, str], kind: str) -> None:
    small = load(f"{names[kind]}?max_length=6", device="cpu")  # six digits and an end token are seven
    with refused(EncoderError, "6", FIRST, code="ending-not-fit-even"):
        small.truncate(["a dog"], FIRST)
    larger = load(f"{names[kind]}?max_length=24", device="cpu")
    assert 1 <= len(larger.truncate(["dog " * 100], FIRST)[0].split()) <= 24 - 7


class _Clips:
    """Stands for open_clip's `HFTokenizer(tokenizer_mode="clips")`, which takes a start, an end and a class token."""

    tokenizer_mode, context_length = "clips", 12
    clean_fn = staticmethod(str.strip)

    def __init__(self, folder: Path) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)


def test_the_class_token_of_clips_takes_a_place(names: dict[str, str], tmp_path: Path) -> None:
    tiny.wordpiece_tokenizer(tmp_path, limit=512)
    source: Any = load(names["tiny-bert"], device="cpu").pretrained_tower("text")  # type: ignore[attr-defined]
    configuration = json.loads(source.files()["open_clip_config.json"])["model_cfg"]
    pretrained_tower = text_tower(source.network.model, configuration, {}, _Clips(tmp_path), "{}")
    # 12 places: three for start, end and class, six for the digits, three for words.
    assert pretrained_tower.truncate(["dog " * 9], FIRST) == ["dog dog dog"]


def test_word_vectors_have_a_limit_only_when_asked(tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    tokenizer = WhitespaceTokenizer(["dog", *"1234"], stop_words=[])
    vectors = modules.WordEmbeddings(tokenizer, np.eye(5), max_seq_length=10)
    SentenceTransformer(modules=[vectors, modules.Pooling(5)], device="cpu").save(str(tmp_path / "vectors"))
    assert load(f"st:{tmp_path / 'vectors'}", device="cpu").truncate(["dog " * 9], FIRST) == ["dog dog dog dog"]
    tiny.wordpiece_tokenizer(tmp_path, limit=512)
    static = modules.StaticEmbedding(transformers.AutoTokenizer.from_pretrained(tmp_path), embedding_dim=8)
    SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path / "static"))
    assert load(f"st:{tmp_path / 'static'}", device="cpu").truncate([LONG], FIRST) == [LONG]


# --- encoders made of others ------------------------------------------------------------------------------------------


def towers(text: Tower, base_encoder: Encoder | None = None) -> TowersEncoder:
    pixels = load("pixels")
    image = Tower(None, Head(HeadSpec(pixels.dimension, 6)))
    return TowersEncoder({"image": image, "text": text}, {"image": pixels, "text": base_encoder}, device="cpu")


def test_towers_ask_their_text_side(names: dict[str, str]) -> None:
    clip, sentence = (load(names[kind], device="cpu") for kind in ("clip", "sentence"))
    expected = {one.card.family: one.truncate([LONG], FIRST) for one in (clip, sentence)}
    tuned = towers(Tower(PretrainedBackbone.of(clip, "text"), Head(HeadSpec(24, 6))))
    assert tuned.truncate([LONG], FIRST) == expected["transformers-clip"]
    assert tuned.pretrained_tower("text").truncate([LONG], FIRST) == expected["transformers-clip"]
    frozen = towers(Tower(None, Head(HeadSpec(32, 6))), sentence)
    assert frozen.truncate([LONG], FIRST) == expected["sentence-transformers"]
    gru = towers(Tower(GRUBackbone(WordVocabulary.fit(["a dog", "a dog"]), words=5, hidden=3), Head(HeadSpec(6, 6))))
    assert gru.truncate([LONG], FIRST) == gru.pretrained_tower("text").truncate([LONG], FIRST) == [LONG]


def test_joined_encoders_are_cut_for_the_one_that_reads_least(names: dict[str, str]) -> None:
    sentence, bow = load(names["sentence"], device="cpu"), load("bow")
    for parts in ([sentence, bow], [bow, sentence]):
        assert JoinedTexts(parts).truncate([LONG, "a dog"], FIRST) == sentence.truncate([LONG, "a dog"], FIRST)


def test_without_a_limit_texts_stay(names: dict[str, str]) -> None:
    texts: Sequence[str] = (LONG, "")
    for encoder in (Means(), load("bow")):
        assert encoder.truncate(texts, FIRST) == [LONG, ""]
    clip: Any = load(names["clip"], device="cpu")
    images = PretrainedTowersEncoder(clip.card, {"image": clip.pretrained_tower("image")}, device="cpu")
    assert clip.pretrained_tower("image").truncate(texts, FIRST) == [LONG, ""]
    with refused(EncoderError, "texts", code="encodes-no"):
        images.truncate(texts, FIRST)
