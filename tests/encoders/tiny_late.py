"""Small random late-interaction models of the real architectures, saved in their own format with their processors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny_transformers as tiny
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

KINDS = ("colpali", "colqwen2", "colmodernvbert", "neomme")
DIMENSION = 24
LAYERS = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
QWEN_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}
NEOMME_TEMPLATE = (
    "{% for message in messages %}{{ '<query>' if task == 'query' else '<doc>' }}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<img>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% if task == 'query' %}{{ '<mask>' * 4 }}{% endif %}{% endfor %}"
)
"""A template of the form of the published retriever's: a marker of the task first, masks behind queries."""


def save(kind: str, folder: Path, dimension: int = DIMENSION) -> Any:
    """Save a model of `kind` with its processor into `folder`, and return the model in evaluation mode."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    model = globals()[f"_{kind}"](folder, dimension).eval()
    tiny._spread(model)
    model.save_pretrained(folder)
    return model


def byte_tokenizer(special: list[str], words: int = 320) -> Tokenizer:
    """Byte-pair encoding trained on the captions; the special tokens come first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=words + len(special),
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(tiny.CAPTIONS, trainer)
    return tokenizer


def _colpali(folder: Path, dimension: int) -> Any:
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(["<pad>", "<eos>", "<bos>", "<unk>"]),
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        unk_token="<unk>",
    )
    pixels = transformers.SiglipImageProcessor(size={"height": 32, "width": 32})
    pixels.image_seq_length = 16
    processor = transformers.ColPaliProcessor(image_processor=pixels, tokenizer=tokenizer)
    processor.save_pretrained(folder)
    text = dict(LAYERS, vocab_size=len(processor.tokenizer), num_key_value_heads=2, head_dim=8, model_type="gemma")
    vision = dict(LAYERS, image_size=32, patch_size=8, model_type="siglip_vision_model", projection_dim=32)
    vlm = transformers.PaliGemmaConfig(
        text_config=text, vision_config=vision, projection_dim=32, image_token_index=processor.image_token_id
    )
    return transformers.ColPaliForRetrieval(transformers.ColPaliConfig(vlm_config=vlm, embedding_dim=dimension))


def _colqwen2(folder: Path, dimension: int) -> Any:
    processor = qwen_processor(transformers.ColQwen2Processor)
    processor.save_pretrained(folder)
    return transformers.ColQwen2ForRetrieval(
        transformers.ColQwen2Config(vlm_config=qwen2_vl_config(processor.tokenizer), embedding_dim=dimension)
    )


def qwen_processor(kind: Any, **settings: Any) -> Any:
    """A processor of the Qwen-VL family, for pictures of 28² to 112² pixels."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    special += ["<|image_pad|>", "<|video_pad|>"]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(special),
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        padding_side="left",
    )
    pixels = transformers.Qwen2VLImageProcessor(
        size={"shortest_edge": 28 * 28, "longest_edge": 16 * 28 * 28}, patch_size=14, merge_size=2
    )
    return kind(image_processor=pixels, tokenizer=tokenizer, **settings)


def qwen2_vl_config(tokenizer: Any) -> Any:
    """Qwen2-VL with two layers."""
    return transformers.Qwen2VLConfig(
        text_config=dict(
            LAYERS,
            vocab_size=len(tokenizer),
            num_key_value_heads=2,
            rope_parameters={"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0},
        ),
        vision_config={"embed_dim": 32, "hidden_size": 32, "depth": 2, "num_heads": 4, "mlp_ratio": 2},
        **{f"{name}_id": tokenizer.convert_tokens_to_ids(mark) for name, mark in QWEN_TOKENS.items()},
    )


def _colmodernvbert(folder: Path, dimension: int) -> Any:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|begin_of_text|>", "<global-img>"]
    special += [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(special), pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]"
    )
    tokenizer.add_special_tokens(
        {"additional_special_tokens": ["<fake_token_around_image>", "<image>", "<end_of_utterance>"]}
    )
    pixels = transformers.Idefics3ImageProcessor(size={"longest_edge": 96}, max_image_size={"longest_edge": 32})
    processor = transformers.ColModernVBertProcessor(pixels, tokenizer=tokenizer, image_seq_len=4)
    processor.save_pretrained(folder)
    text = dict(
        LAYERS,
        vocab_size=len(tokenizer),
        model_type="modernbert",
        global_attn_every_n_layers=2,
        local_attention=8,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        cls_token_id=2,
        sep_token_id=3,
    )
    vision = dict(LAYERS, image_size=32, patch_size=8, model_type="siglip_vision_model")
    vlm = transformers.ModernVBertConfig(
        text_config=text, vision_config=vision, pixel_shuffle_factor=2, image_token_id=processor.image_token_id
    )
    return transformers.ColModernVBertForRetrieval(
        transformers.ColModernVBertConfig(vlm_config=vlm, embedding_dim=dimension)
    )


def _neomme(folder: Path, dimension: int) -> Any:
    special = ["<pad>", "<unk>", "<mask>", "<bos>", "<query>", "<doc>", "<img>", "<row>"]
    names = {"query_token": "<query>", "document_token": "<doc>", "image_token": "<img>", "row_token": "<row>"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(special),
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        extra_special_tokens=names,
    )
    pixels = transformers.NeoMMEImageProcessor(patch_size=8, max_side=48)
    transformers.NeoMMEProcessor(pixels, tokenizer=tokenizer, chat_template=NEOMME_TEMPLATE).save_pretrained(folder)
    return transformers.NeoMMEForRetrieval(
        transformers.NeoMMEConfig(
            vocab_size=len(tokenizer), embedding_rank=16, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
            num_attention_heads=2, num_key_value_heads=1, head_dim=16, patch_size=8, embedding_dim=dimension,
            pad_token_id=0, document_token_id=5, image_token_id=6, sliding_window=8,
        )
    )  # fmt: skip
