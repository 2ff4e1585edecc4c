"""Tiny models with random weights, saved as sentence-transformers saves them: texts, pictures, both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import tiny_transformers as tiny
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Router
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sparse_encoder.modules import (
    SparseAutoEncoder,
    SparseStaticEmbedding,
    SpladePooling,
)

TOKENS, WIDTH = 40, 32
PROMPT = {"prompts": {"query": "the dog: "}, "default_prompt_name": "query"}
"""What is put before every text."""


def save(folder: Path, *more: Any, **settings: Any) -> Path:
    """A BERT of 40 tokens with mean pooling to 32 numbers, then the modules `more`; the BERT itself lies beside it."""
    bert = folder.with_name(f"{folder.name}-bert")
    bert.mkdir()
    torch.manual_seed(5)
    words = tiny.wordpiece_tokenizer(bert, limit=48)
    model = transformers.BertModel(
        transformers.BertConfig(**tiny._layers(), vocab_size=words, max_position_embeddings=48)
    )
    tiny._spread(model)
    model.save_pretrained(bert)
    parts = [modules.Transformer(str(bert), max_seq_length=TOKENS), modules.Pooling(WIDTH), *more]
    SentenceTransformer(modules=parts, device="cpu", **settings).save(str(folder))
    return folder


def save_clip(folder: Path, **settings: Any) -> Path:
    """A CLIP, as the library saves one today."""
    raw = folder.with_name(f"{folder.name}-clip")
    tiny.save("clip", raw)
    SentenceTransformer(modules=[modules.Transformer(str(raw))], device="cpu", **settings).save(str(folder))
    return folder


def save_old_clip(folder: Path) -> Path:
    """A CLIP in the layout of clip-ViT-B-32: all of it in a folder 0_CLIPModel."""
    raw = folder.with_name(f"{folder.name}-clip")
    tiny.save("clip", raw)
    shutil.copytree(raw, folder / "0_CLIPModel")
    first = {"idx": 0, "name": "0", "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}
    (folder / "modules.json").write_text(json.dumps([first]))
    return folder


def save_vit(folder: Path) -> Path:
    """A single image tower: a ViT with its first token."""
    raw = folder.with_name(f"{folder.name}-vit")
    raw.mkdir()
    torch.manual_seed(6)
    model = transformers.ViTModel(transformers.ViTConfig(**tiny._layers(), image_size=32, patch_size=8))
    tiny._spread(model)
    model.save_pretrained(raw)
    tiny.image_processor("ViTImageProcessor", raw, size={"height": 32, "width": 32})
    parts = [modules.Transformer(str(raw)), modules.Pooling(32, pooling_mode="cls")]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    return folder


CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}"
    "{{ c['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
)
"""A template that says all roles, so queries and documents of pairs too."""
_MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
QWEN_PROMPTS = {"query": "Find the picture. ", "document": "Say what is there. "}


def qwen(folder: Path, kind: Any = transformers.Qwen2VLModel) -> Path:
    """A Qwen2-VL of pictures at their own resolution, with its processor, as transformers saves it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = {letter: place for place, letter in enumerate(tiny._byte_characters().values())}
    backend = Tokenizer(models.BPE(vocab=letters, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=[*_MARKS, "<|video_pad|>"],
        model_max_length=4096,
        padding_side="left",
    )
    number = {mark: tokenizer.convert_tokens_to_ids(mark) for mark in (*_MARKS, "<|video_pad|>")}
    processor = transformers.Qwen2VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(size={"shortest_edge": 28 * 28, "longest_edge": 112 * 112}),
        tokenizer=tokenizer,
        video_processor=transformers.Qwen2VLVideoProcessor(),
        chat_template=CHAT,
    )
    words = {**tiny._layers(), "num_key_value_heads": 2, "vocab_size": len(tokenizer), "max_position_embeddings": 512}
    rotary = {"type": "mrope", "rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    ends = {"bos_token_id": None, "eos_token_id": number["<|im_end|>"], "pad_token_id": number["<|endoftext|>"]}
    sight = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2, "patch_size": 14}
    config = transformers.Qwen2VLConfig(
        text_config={**words, "rope_parameters": rotary, **ends},
        vision_config=sight,
        image_token_id=number["<|image_pad|>"],
        video_token_id=number["<|video_pad|>"],
        vision_start_token_id=number["<|vision_start|>"],
        vision_end_token_id=number["<|vision_end|>"],
    )
    torch.manual_seed(8)
    model = kind(config)
    tiny._spread(model)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_qwen(folder: Path) -> Path:
    """The same as an encoder of the library: its last token, normalised; prompts for both roles."""
    raw = qwen(folder.with_name(f"{folder.name}-qwen"))
    parts = [modules.Transformer(str(raw)), modules.Pooling(32, pooling_mode="lasttoken"), modules.Normalize()]
    SentenceTransformer(modules=parts, device="cpu", prompts=QWEN_PROMPTS).save(str(folder))
    return folder


def save_re_ranker(folder: Path, *, old: bool = False, classes: int = 1, **settings: Any) -> Path:
    """A BERT that scores pairs of texts; `old`: as transformers saves it, without any file of the library."""
    raw = folder if old else folder.with_name(f"{folder.name}-bert")
    raw.mkdir(parents=True)
    words = tiny.wordpiece_tokenizer(raw, limit=48)
    torch.manual_seed(9)
    config = transformers.BertConfig(**tiny._layers(), vocab_size=words, max_position_embeddings=48, num_labels=classes)
    model = transformers.BertForSequenceClassification(config)
    tiny._spread(model)
    model.save_pretrained(raw)
    if not old:
        CrossEncoder(str(raw), device="cpu", **settings).save(str(folder))
    return folder


def save_picture_re_ranker(folder: Path) -> Path:
    """A Qwen2-VL that scores pairs of texts and pictures by the logits of two tokens."""
    raw = qwen(folder.with_name(f"{folder.name}-qwen"), transformers.Qwen2VLForConditionalGeneration)
    parts = [
        modules.Transformer(str(raw), transformer_task="any-to-any"),
        LogitScore(true_token_id=5, false_token_id=9),
    ]
    CrossEncoder(modules=parts, device="cpu").save(str(folder))
    return folder


def save_chat_re_ranker(folder: Path, template: str) -> Path:
    """A Qwen2 that scores pairs of texts in a chat of this template."""
    raw = folder.with_name(f"{folder.name}-qwen")
    tokenizer = transformers.AutoProcessor.from_pretrained(qwen(raw)).tokenizer
    tokenizer.chat_template = template
    torch.manual_seed(12)
    model = transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(**tiny._layers(), num_key_value_heads=2, vocab_size=len(tokenizer))
    )
    tiny._spread(model)
    shutil.rmtree(raw)
    model.save_pretrained(raw)
    tokenizer.save_pretrained(raw)
    settings = json.loads((raw / "tokenizer_config.json").read_text())
    del settings["processor_class"]  # it reads no pictures any more
    (raw / "tokenizer_config.json").write_text(json.dumps(settings))
    parts = [
        modules.Transformer(str(raw), transformer_task="text-generation"),
        LogitScore(true_token_id=5, false_token_id=9),
    ]
    CrossEncoder(modules=parts, device="cpu").save(str(folder))
    return folder


def save_clap(folder: Path) -> Path:
    """A CLAP: texts and sounds in one space."""
    raw = folder.with_name(f"{folder.name}-clap")
    raw.mkdir()
    torch.manual_seed(13)
    words = tiny.wordpiece_tokenizer(raw, limit=48)
    sizes = {"num_hidden_layers": 2, "projection_dim": 24, "patch_embeds_hidden_size": 16, "window_size": 4}
    sound = {"num_mel_bins": 64, "spec_size": 64, "patch_stride": [4, 4], "hidden_size": 64, "depths": [1, 1]}
    config = transformers.ClapConfig(
        text_config={**tiny._layers(), "vocab_size": words, "max_position_embeddings": 60, "projection_dim": 24},
        audio_config={**sizes, **sound, "num_attention_heads": [2, 2]},
        projection_dim=24,
    )
    model = transformers.ClapModel(config)
    tiny._spread(model)
    model.save_pretrained(raw)
    tokenizer = transformers.AutoTokenizer.from_pretrained(raw)
    transformers.ClapProcessor(transformers.ClapFeatureExtractor(), tokenizer).save_pretrained(raw)
    SentenceTransformer(modules=[modules.Transformer(str(raw))], device="cpu").save(str(folder))
    return folder


def _mlm(folder: Path) -> Path:
    folder.mkdir()
    tiny.wordpiece_tokenizer(folder, limit=48)
    distinct = dict.fromkeys((folder / "vocab.txt").read_text().splitlines())  # one piece is in there twice
    (folder / "vocab.txt").write_text("\n".join(distinct) + "\n")
    words = len(distinct)
    torch.manual_seed(10)
    config = transformers.BertConfig(**tiny._layers(), vocab_size=words, max_position_embeddings=48)
    model = transformers.BertForMaskedLM(config)
    tiny._spread(model)
    model.cls.predictions.bias.data -= 1.0  # so that most words have no weight
    model.save_pretrained(folder)
    return folder


def save_splade(folder: Path, **settings: Any) -> Path:
    """SPLADE: what a masked language model would say, cut at 0."""
    raw = _mlm(folder.with_name(f"{folder.name}-bert"))
    SparseEncoder(
        modules=[modules.Transformer(str(raw), transformer_task="fill-mask"), SpladePooling("max")],
        device="cpu",
        **settings,
    ).save(str(folder))
    return folder


def save_inference_free(folder: Path) -> Path:
    """Documents by SPLADE, queries by a weight for each of their words."""
    raw = _mlm(folder.with_name(f"{folder.name}-bert"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(raw)
    weights = torch.rand(len(tokenizer), generator=torch.Generator().manual_seed(3))
    router = Router.for_query_document(
        query_modules=[SparseStaticEmbedding(tokenizer, weight=weights)],
        document_modules=[modules.Transformer(str(raw), transformer_task="fill-mask"), SpladePooling("max")],
    )
    SparseEncoder(modules=[router], device="cpu").save(str(folder))
    return folder


def save_sparse_clip(folder: Path) -> Path:
    """A CLIP whose vectors are said in learnt dimensions, of which a few have a weight."""
    raw = folder.with_name(f"{folder.name}-clip")
    tiny.save("clip", raw)
    torch.manual_seed(11)
    parts = [modules.Transformer(str(raw)), SparseAutoEncoder(input_dim=24, hidden_dim=96, k=8, k_aux=8)]
    SparseEncoder(modules=parts, device="cpu").save(str(folder))
    return folder


def save_routed(folder: Path) -> Path:
    """A BERT for queries and another for documents, each with its own pooling, in a router in a folder of its own."""
    routes = []
    for number, name in enumerate(("first", "second")):
        saved = SentenceTransformer(str(save(folder.with_name(f"{folder.name}-{name}"))), device="cpu")
        with torch.no_grad():
            saved[0].auto_model.embeddings.word_embeddings.weight += number / 10
        routes.append(list(saved))
    router = Router.for_query_document(query_modules=routes[0], document_modules=routes[1])
    SentenceTransformer(modules=[router], device="cpu").save(str(folder))
    (folder / "0_Router").mkdir()
    for path in (folder / "router_config.json", *folder.glob("query_*"), *folder.glob("document_*")):
        path.rename(folder / "0_Router" / path.name)
    (folder / "modules.json").write_text(
        (folder / "modules.json").read_text().replace('"path": ""', '"path": "0_Router"')
    )
    return folder
