"""Late-interaction models of transformers: the vectors of their own processor and forward pass, and what they show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import tiny_late
import tiny_transformers as tiny
import torch
import transformers
from PIL import Image

import visir
from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders.models.late_interaction import token_pieces
from visir.errors import EncoderError, ImageError
from visir.records import EncoderCard, Items, MultiVectorEmbeddings, TokenVectors, strings
from visir.retrieval.exact import search

PHOTOS = [to_rgb(image) for image in [*tiny.photos(), *tiny.photos(1)[:9]]]
KINDS = tiny_late.KINDS


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("late")
    for kind in KINDS:
        tiny_late.save(kind, root / kind)
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(scope="session")
def encoders(folders: dict[str, Path]) -> dict[str, Any]:
    return {kind: load(folder) for kind, folder in folders.items()}


@pytest.fixture(scope="session")
def references(folders: dict[str, Path]) -> dict[str, Reference]:
    return {kind: Reference(folder) for kind, folder in folders.items()}


class Reference:
    """The same model through the library's own processor, forward pass and scores, without the code under test."""

    def __init__(self, folder: Path) -> None:
        self.processor = transformers.AutoProcessor.from_pretrained(folder)
        architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
        self.model = getattr(transformers, architecture).from_pretrained(folder).eval()

    def images(self, images: list[Image.Image]) -> list[torch.Tensor]:
        if hasattr(self.processor, "process_images"):
            return self._vectors(self.processor.process_images(images=images))
        return self._vectors(self.processor(images=images, return_tensors="pt", padding=True))

    def texts(self, texts: list[str], task: str) -> list[torch.Tensor]:
        if hasattr(self.processor, "process_queries"):
            return self._vectors(self.processor.process_queries(text=texts))
        conversations = [[{"role": "user", "content": [{"type": "text", "text": text}]}] for text in texts]
        padding = {"padding": True, "return_tensors": "pt"}
        return self._vectors(
            self.processor.apply_chat_template(
                conversations, task=task, tokenize=True, return_dict=True, processor_kwargs=padding
            )
        )

    def _vectors(self, inputs: Any) -> list[torch.Tensor]:
        given = {name: value for name, value in inputs.items() if name != "labels"}
        if "image_grid_thw" in given:  # rows and columns, which the class does not hand on (see test_colpali_engine.py)
            is_image = (given["input_ids"] == self.processor.image_token_id).int()
            names = ("input_ids", "image_grid_thw", "attention_mask")
            places = self.model.vlm.get_rope_index(**{name: given[name] for name in names}, mm_token_type_ids=is_image)
            given["position_ids"] = places[0]
        with torch.inference_mode():
            outputs = self.model(**given).embeddings
        return [rows[mask.bool()] for rows, mask in zip(outputs, inputs["attention_mask"], strict=True)]


def load(name: object, **options: Any) -> Any:
    return visir.load(name, device="cpu", **options)  # type: ignore[arg-type]  # a name or a folder


def same(found: Any, expected: list[torch.Tensor]) -> None:
    assert [len(rows) for rows in found] == [len(rows) for rows in expected]
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_photos_get_the_vectors_of_the_models_own_processor(kind: str, encoders: Any, references: Any) -> None:
    found = encoders[kind].encode_images(PHOTOS)
    same(found, references[kind].images(PHOTOS))
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, atol=1e-5)
    assert found.dimension == tiny_late.DIMENSION == encoders[kind].dimension


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ["query", "document"])
def test_texts_get_the_vectors_of_the_models_own_processor(
    kind: str, role: Any, encoders: Any, references: Any
) -> None:
    same(encoders[kind].encode_texts(tiny.CAPTIONS, role), references[kind].texts(tiny.CAPTIONS, role))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "neomme"])  # its processor has no score_retrieval
def test_maxsim_is_score_retrieval(kind: str, encoders: Any, references: Any) -> None:
    reference = references[kind]
    queries, photos = reference.texts(tiny.CAPTIONS, "query"), reference.images(PHOTOS)
    # One document at a time: in a batch, the zeros that fill up a shorter one would count as vectors.
    expected = reference.processor.score_retrieval(queries, photos, batch_size=1).numpy()
    texts, images = encoders[kind].encode_texts(tiny.CAPTIONS, "query"), encoders[kind].encode_images(PHOTOS)
    np.testing.assert_allclose(maxsim(texts, images), expected, rtol=1e-5)


def maxsim(queries: TokenVectors, documents: TokenVectors) -> np.ndarray[Any, Any]:
    """The scores that visir's exact search gives, in the order of queries and documents."""
    card = EncoderCard("late", "test", revision="1")
    names = [strings(f"{row:03}" for row in range(len(side))) for side in (queries, documents)]
    texts = MultiVectorEmbeddings("text", names[0], queries.offsets, queries.vectors, card)
    images = MultiVectorEmbeddings("image", names[1], documents.offsets, documents.vectors, card)
    run = search(texts, images, depth=len(documents)).run
    return np.array([[score for _, score in sorted(run.answer(name))] for name in names[0].to_pylist()])


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_do_not_depend_on_company(kind: str, encoders: Any) -> None:
    encoder = encoders[kind]
    together = encoder.encode_images(PHOTOS[:6])
    for photo, vectors in zip(PHOTOS, together, strict=False):
        np.testing.assert_allclose(encoder.encode_images([photo])[0], vectors, atol=1e-5)
    assert len(encoder.embed_images([])) == len(encoder.embed_texts([])) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_a_piece_for_each_vector_of_a_text(kind: str, encoders: Any) -> None:
    encoder = encoders[kind]
    for role in ("query", "document"):
        pieces = encoder.text_pieces(tiny.CAPTIONS, role)
        assert [len(row) for row in pieces] == encoder.encode_texts(tiny.CAPTIONS, role).counts.tolist()
        assert "A dog runs across the green grass." in "".join(pieces[0])
    assert "犬" in pieces[5] and "🐕" in pieces[5] and not any("\ufffd" in piece for piece in pieces[5])


def test_a_piece_of_a_broken_character_is_the_character() -> None:
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tiny_late.byte_tokenizer(["<pad>"], 257))
    ids = tokenizer("a犬 \ufffd").input_ids
    assert token_pieces(tokenizer, ids) == ["a", "犬", "犬", "犬", " ", "\ufffd", "\ufffd", "\ufffd"]
    assert token_pieces(tokenizer, ids[:3]) == ["a", "\ufffd", "\ufffd"]


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_a_place_for_each_vector_of_a_photo(kind: str, encoders: Any) -> None:
    encoder = encoders[kind]
    for photo, count in zip(PHOTOS, encoder.encode_images(PHOTOS).counts, strict=True):
        places = encoder.image_regions(photo)
        assert places.shape == (count, 4)
        cells = places[np.isfinite(places).all(1)]
        assert (cells >= 0).all() and (cells <= 1).all() and (cells[:, :2] < cells[:, 2:]).all()
        # Together they cover the picture once; the tiles of ColModernVBERT a second time, as a whole.
        area = np.prod(cells[:, 2:] - cells[:, :2], 1).sum()
        assert area == pytest.approx(2 if kind == "colmodernvbert" else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_places_are_where_the_model_sees_the_pixels(kind: str, encoders: Any) -> None:
    photo = Image.new("RGB", (95, 61), "white")
    photo.paste("black", (46, 2, 90, 34))
    encoder = encoders[kind]
    places = encoder.image_regions(photo)
    cells = places[np.isfinite(places).all(1)]
    box = np.array([46 / 95, 2 / 61, 90 / 95, 34 / 61])
    sides = np.clip(np.minimum(cells[:, 2:], box[2:]) - np.maximum(cells[:, :2], box[:2]), 0, None)
    inside = sides.prod(1) / np.prod(cells[:, 2:] - cells[:, :2], 1)
    dark = dark_shares(kind, encoder.preprocess(photo))
    assert len(dark) == len(cells) and (inside > 0.5).any() and (inside == 0).any()
    assert np.abs(dark - inside).max() < 0.25 and np.corrcoef(dark, inside)[0, 1] > 0.97


def dark_shares(kind: str, inputs: Any) -> np.ndarray[Any, Any]:
    """How black the pixels are that each token of a picture is made of; the layouts are those of the models' code."""
    pixels: torch.Tensor = inputs["pixel_values"]
    if kind == "colpali":  # 4 × 4 patches of 8 × 8 pixels
        tokens = pixels[0].unfold(1, 8, 8).unfold(2, 8, 8).permute(1, 2, 0, 3, 4).reshape(16, -1)
    elif kind == "colqwen2":  # four patches that lie together follow each other
        tokens = pixels[0].reshape(-1, 4 * pixels.shape[-1])
    elif kind == "colmodernvbert":  # tiles of 2 × 2 tokens of 16 × 16 pixels
        tokens = pixels[0].unfold(2, 16, 16).unfold(3, 16, 16).permute(0, 2, 3, 1, 4, 5).reshape(-1, 3 * 16 * 16)
    else:  # what stands out of the picture is black: it does not count
        tokens = pixels
    dark = np.asarray(1 - (tokens.double().mean(1) - tokens.min()) / (tokens.max() - tokens.min()))
    if kind == "neomme":
        rows, columns = np.divmod(np.arange(len(dark)), 6)
        size = np.round(np.array([48, 61 * 48 / 95]))  # scaled to 48 pixels, 31 of them down
        share = np.clip(size[0] - columns * 8, 0, 8) * np.clip(size[1] - rows * 8, 0, 8) / 64
        dark = np.asarray(1 - (1 - dark) / share)
    return dark


def test_only_the_vectors_of_the_picture_count_when_asked(folders: Any, encoders: Any) -> None:
    encoder = load(f"{folders['colpali']}?vectors=image")
    whole, image = encoders["colpali"].encode_images(PHOTOS), encoder.encode_images(PHOTOS)
    assert set(image.counts) == {16} and set(whole.counts) == {33}
    np.testing.assert_array_equal(image[3], whole[3][:16])
    assert np.isfinite(encoder.image_regions(PHOTOS[3])).all() and len(encoder.image_regions(PHOTOS[3])) == 16
    assert encoder.card.image_preprocessing["counted"] == "image" and encoder.card != encoders["colpali"].card


def test_photos_have_at_most_as_many_tokens_as_asked(folders: Any, encoders: Any) -> None:
    encoder = load(f"{folders['colqwen2']}?image_tokens=6&vectors=image")
    whole = load(f"{folders['colqwen2']}?vectors=image")
    few, many = encoder.encode_images(PHOTOS).counts, whole.encode_images(PHOTOS).counts
    assert few.max() == 7 and many.max() == 16 and (few <= many).all()  # the library lets slivers have one more
    assert few[[1, 2]].tolist() == [4, 4] and many[[1, 2]].tolist() == [16, 14]
    assert encoder.card.image_preprocessing["size"] != whole.card.image_preprocessing["size"]
    assert len(encoder.image_regions(PHOTOS[1])) == few[1]
    with refused(EncoderError, "9", code="image-tokens-number-tokens"):
        load(f"{folders['colpali']}?image_tokens=9")


def test_the_card_says_prompts_settings_and_how_many_vectors(encoders: Any) -> None:
    card = encoders["colpali"].card
    assert card.family == "transformers-colpali" and card.is_versioned
    assert card.image_preprocessing["prompt"] == "Describe the image."
    assert card.image_preprocessing["vectors"] == "33 for 640 × 480 pixels"
    assert card.image_preprocessing["size"] == {"height": 32, "width": 32}
    assert card.text_preprocessing["prompt"] == "<bos>Question: {}" + "<pad>" * 10 + "\n"
    prompts = encoders["neomme"].card.text_preprocessing["prompt"]
    assert prompts == {"query": "<query>{}<mask><mask><mask><mask>", "document": "<doc>{}"}
    assert encoders["neomme"].distinguishes_roles and not encoders["colqwen2"].distinguishes_roles


def test_long_texts_are_cut_before_the_prompt_is_put_around_them(folders: Any) -> None:
    encoder = load(f"{folders['colqwen2']}?max_length=5")
    assert encoder.card.text_preprocessing["max_length"] == 5
    text, ending = tiny.CAPTIONS[8], "<|endoftext|>" * 10 + "\n"
    read = "".join(encoder.text_pieces([text], "query")[0])
    assert read.startswith("Query: the q") and read.endswith(ending)
    assert text.startswith(read[len("Query: ") : -len(ending)]) and len(read) < len(ending) + 40
    assert encoder.truncate(["the the the the the the"], "3") == ["the the the"]
    with refused(EncoderError, "99999", code="max-length-more"):
        load(f"{folders['colqwen2']}?max_length=99999")


def test_both_implementations_of_the_preprocessing(folders: Any, encoders: Any) -> None:
    encoder = load(f"{folders['colqwen2']}?processor=pil")
    assert encoder.card.image_preprocessing["backend"] == "pil"
    found = encoder.encode_images(PHOTOS[:3])
    assert found.counts.tolist() == encoders["colqwen2"].encode_images(PHOTOS[:3]).counts.tolist()
    with refused(EncoderError, "pil", code="encoder-cannot-run", hint="torchvision"):
        load(f"{folders['neomme']}?processor=pil")


def test_half_precision(folders: Any, encoders: Any) -> None:
    encoder = load(folders["colmodernvbert"], dtype="bfloat16")
    found, expected = encoder.encode_images(PHOTOS[:2]), encoders["colmodernvbert"].encode_images(PHOTOS[:2])
    assert found.vectors.dtype == np.float32 and encoder.card.dtype == "bfloat16"
    assert 1e-6 < np.abs(found.vectors - expected.vectors).max() < 0.5


def test_a_sliver_is_refused_by_its_size_or_read(encoders: Any) -> None:
    sliver = Image.new("RGB", (1, 4000), "red")
    with refused(ImageError, "1", "4000", "Qwen2VLImageProcessor", code="image-pixels-cannot-taken"):
        encoders["colqwen2"].encode_images([sliver])
    for kind in ("colpali", "colmodernvbert", "neomme"):
        assert np.isfinite(encoders[kind].encode_images([sliver]).vectors).all()
        assert len(encoders[kind].image_regions(sliver)) == encoders[kind].encode_images([sliver]).counts[0]


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_text_has_the_vectors_of_its_prompt(kind: str, encoders: Any) -> None:
    found = encoders[kind].encode_texts(["", "a dog"], "query")
    assert 1 <= found.counts[0] < found.counts[1] and np.isfinite(found.vectors).all()


@pytest.mark.parametrize(("kind", "mark"), [("colpali", "<image>"), ("colqwen2", "<|image_pad|>"), ("neomme", "<img>")])
def test_a_text_with_the_mark_of_a_picture_is_refused(kind: str, mark: str, encoders: Any) -> None:
    with refused(EncoderError, "dog", "picture", code="text-stands-model"):
        encoders[kind].encode_texts(["fine", f"a {mark} dog"], "query")


def test_texts_with_images_are_refused(encoders: Any) -> None:
    with refused(EncoderError, "texts with images", "images and texts", code="encodes-no"):
        encoders["colpali"].embed_texts_with_images(["a"], [encoders["colpali"].preprocess(PHOTOS[0])])


def test_the_store_keeps_all_vectors(encoders: Any, tmp_path: Path) -> None:
    encoder = encoders["colqwen2"]
    items = Items.of_texts({"a": "a dog", "b": "the quick brown fox"}, title="captions")
    first: Any = visir.encoders.encode_items(encoder, items, "query", store=tmp_path)
    again: Any = visir.encoders.encode_items(encoder, items, "query", store=tmp_path)
    assert "store" in again.origin and "store" not in first.origin
    np.testing.assert_array_equal(first.vectors, again.vectors)
    expected = encoder.encode_texts(["the quick brown fox"], "query")[0]
    np.testing.assert_allclose(again.row(1), expected, atol=1e-3)


def test_a_backbone_without_the_head_is_refused_before_its_weights_are_read(folders: Any, tmp_path: Path) -> None:
    config = json.loads((folders["neomme"] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["NeoMMEForMaskedLM"]}))
    with refused(EncoderError, "neomme"):
        load(tmp_path)


def test_a_model_without_its_processor_is_refused(folders: Any, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folders["colpali"] / name).read_bytes())
    with pytest.raises(EncoderError, match=str(tmp_path)):
        load(tmp_path)
