"""Embedders that are vision-language models: a vector of a text, a picture, or both; and those that need own code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import tiny_late
import tiny_multi_vector as tiny_multi
import tiny_transformers as tiny
import transformers
from sentence_transformers import SentenceTransformer

import visir
from refusals import refused
from visir.collections.images import to_rgb
from visir.errors import EncoderError

PHOTOS = [to_rgb(image) for image in [*tiny.photos(), *tiny.photos(1)[:9]]]
BOTH = [{"text": text, "image": image} for text, image in zip(tiny.CAPTIONS, PHOTOS, strict=False)]


@pytest.fixture(scope="module", params=["qwen3", "idefics3"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    save = {"qwen3": tiny_multi.save_qwen3, "idefics3": tiny_multi.save_idefics3}[request.param]
    return save(tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture(scope="module")
def encoder(saved: Path) -> Any:
    return visir.load(f"st:{saved}", device="cpu")


@pytest.mark.parametrize("role", ["query", "document"])
def test_texts_photos_and_both_get_the_vectors_of_the_library(role: Any, saved: Path, encoder: Any) -> None:
    library = SentenceTransformer(str(saved), device="cpu", local_files_only=True)
    encode = library.encode_query if role == "query" else library.encode_document
    photos = encoder.encode_images(PHOTOS, role)
    np.testing.assert_allclose(encoder.encode_texts(tiny.CAPTIONS, role), encode(tiny.CAPTIONS), atol=1e-5)
    np.testing.assert_allclose(photos, encode(PHOTOS), atol=1e-5)
    asked = encoder.for_role(role)
    ready = [asked.preprocess(photo) for photo in PHOTOS[: len(BOTH)]]
    both = asked.embed_texts_with_images(tiny.CAPTIONS, ready)
    np.testing.assert_allclose(both, encode(BOTH), atol=1e-5)
    assert np.std(photos, axis=0).mean() > 0.05 and np.abs(both - photos[: len(BOTH)]).max() > 0.1
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1, atol=1e-5)


def test_what_it_takes_and_its_prompts_are_on_the_card(encoder: Any) -> None:
    assert encoder.modalities == {"text", "image", "text+image"} and encoder.form == "dense"
    assert "Find what is meant. " in str(encoder.card.text_preprocessing)


def test_the_way_that_a_refusal_names_works(tmp_path: Path) -> None:
    """A model that writes texts has no vectors; saved as the hint says it has those of its last token."""
    backbone, saved = tmp_path / "backbone", tmp_path / "saved"
    processor = tiny_late.qwen_processor(
        transformers.Qwen2VLProcessor,
        chat_template=tiny_multi.CHAT,
        video_processor=transformers.Qwen2VLVideoProcessor(),
    )
    processor.save_pretrained(backbone)
    transformers.Qwen2VLForConditionalGeneration(tiny_late.qwen2_vl_config(processor.tokenizer)).save_pretrained(
        backbone
    )
    with refused(EncoderError, "Qwen2VLForConditionalGeneration", "write texts about images") as error:
        visir.load(backbone, device="cpu")
    recipe = str(error.value).partition("Save it so: ")[2].partition("; then st:FOLDER")[0]
    exec(recipe.replace("FOLDER", str(saved)))  # what a reader would paste
    encoder: Any = visir.load(f"st:{saved}", device="cpu")
    assert encoder.encode_images(PHOTOS[:2]).shape == (2, 32)


CODE = "needs Python code that comes with it"
PUBLISHED = {
    "GME": ("qwen2_vl", "Qwen2VLForConditionalGeneration", None, "custom_st.MultiModalTransformer", CODE),
    "NV-Embed": ("nvembed", "NVEmbedModel", "modeling_nvembed.NVEmbedModel", None, CODE),
    "jina-v4": ("jina_embeddings_v4", "JinaEmbeddingsV4Model", "jina.Model", "custom_st.Transformer", CODE),
    "VLM2Vec": ("qwen2_vl", "Qwen2VLForConditionalGeneration", None, None, "takes the vector of its last token"),
    "colqwen2.5": ("qwen2_5_vl", "ColQwen2_5", None, None, "in the files of colpali-engine"),
    "colSmol": ("idefics3", "ColIdefics3", None, None, "vidore/colpali-v1.3-hf"),
}
"""What the configurations of published models say: model type, class, own code, first module; and the answer."""


@pytest.mark.parametrize("model", PUBLISHED)
def test_models_that_are_not_read_are_refused_from_their_configuration(model: str, tmp_path: Path) -> None:
    kind, architecture, code, module, answer = PUBLISHED[model]
    config: dict[str, Any] = {"model_type": kind, "architectures": [architecture]}
    config |= {"auto_map": {"AutoModel": code}} if code else {}
    (tmp_path / "config.json").write_text(json.dumps(config))
    if module:
        first = {"idx": 0, "name": "0", "path": "", "type": module}
        (tmp_path / "modules.json").write_text(json.dumps([first]))
    with pytest.raises(EncoderError) as error:
        visir.load(tmp_path, device="cpu")
    assert answer in str(error.value)
    if answer == CODE:
        assert "?code=trusted" in str(error.value)
