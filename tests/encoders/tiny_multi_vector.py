"""Small random late-interaction models in the files of sentence-transformers, PyLate and Stanford's ColBERT."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import tiny_late
import tiny_transformers as tiny
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

WIDTH, DIMENSION = 32, 24


def bert(folder: Path) -> Path:
    """A BERT of 64 tokens with its tokenizer, and the two markers of Stanford's ColBERT."""
    folder.mkdir(parents=True)
    torch.manual_seed(5)
    words = tiny.wordpiece_tokenizer(folder, limit=64)
    with (folder / "vocab.txt").open("a") as file:
        file.write("[unused0]\n[unused1]\n")
    model = transformers.BertModel(
        transformers.BertConfig(**tiny_late.LAYERS, vocab_size=words + 2, max_position_embeddings=64)
    )
    tiny._spread(model)
    model.save_pretrained(folder)
    return folder


def save_text(folder: Path, **mask: Any) -> Path:
    """A ColBERT as sentence-transformers saves it: 12 tokens of a query, [MASK] for the rest, no punctuation."""
    base = bert(folder.with_name(f"{folder.name}-bert"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    markers = [transformers.AddedToken(token, special=True, normalized=False) for token in ("[unused0]", "[unused1]")]
    tokenizer.add_special_tokens({"additional_special_tokens": markers})
    tokenizer.save_pretrained(base)
    expansion = {"strategy": "fixed", "attend": False, "length": 12}
    transformer = Transformer(str(base), document_length=40, query_expansion=expansion)
    MultiVectorEncoder(
        modules=[
            transformer,
            _projection(),
            MultiVectorMask(**mask or {"skiplist_words": list(string.punctuation)}),
            _unit(),
        ],
        prompts={"query": "[unused0] ", "document": "[unused1] "},
        device="cpu",
    ).save(str(folder))
    return folder


def save_pylate(folder: Path) -> Path:
    """The same model in the files of PyLate 1."""
    save_text(folder)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 40, "do_lower_case": False}))
    dense = {"in_features": WIDTH, "out_features": DIMENSION, "bias": False}
    dense["activation_function"] = "torch.nn.modules.linear.Identity"
    (folder / "1_Dense" / "config.json").write_text(json.dumps(dense))
    settings = {
        "model_type": "ColBERT",
        "prompts": {"query": "", "document": ""},
        "similarity_fn_name": "MaxSim",
        "query_prefix": "[unused0] ",
        "document_prefix": "[unused1] ",
        "query_length": 12,
        "document_length": 40,
        "attend_to_expansion_tokens": False,
        "skiplist_words": list(string.punctuation),
        "do_query_expansion": True,
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return folder


def save_stanford(folder: Path) -> Path:
    """The same in the files of Stanford's ColBERT: the projection beside the weights, `artifact.metadata`."""
    bert(folder)
    weights = load_file(folder / "model.safetensors")
    torch.manual_seed(6)
    weights = {f"bert.{name}": value for name, value in weights.items()}
    save_file(
        {**weights, "linear.weight": torch.randn(DIMENSION, WIDTH) / 5}, folder / "model.safetensors", {"format": "pt"}
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["HF_ColBERT"]}))
    settings = {"query_maxlen": 12, "doc_maxlen": 40, "mask_punctuation": True, "attend_to_mask_tokens": False}
    settings |= {"query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
    (folder / "artifact.metadata").write_text(json.dumps(settings))
    return folder


def save_pictures(folder: Path) -> Path:
    """A Qwen2-VL with a projection of each token, as ColQwen models are saved with sentence-transformers."""
    backbone = folder.with_name(f"{folder.name}-backbone")
    backbone.mkdir(parents=True)
    torch.manual_seed(8)
    video = transformers.Qwen2VLVideoProcessor()
    processor = tiny_late.qwen_processor(transformers.Qwen2VLProcessor, chat_template=CHAT, video_processor=video)
    processor.save_pretrained(backbone)
    model = transformers.Qwen2VLForConditionalGeneration(tiny_late.qwen2_vl_config(processor.tokenizer))
    tiny._spread(model)
    model.save_pretrained(backbone)
    MultiVectorEncoder(
        modules=[Transformer(str(backbone)), _projection(), MultiVectorMask(), _unit()],
        prompts={"query": "find: "},
        device="cpu",
    ).save(str(folder))
    return folder


CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _projection() -> Any:
    torch.manual_seed(9)
    return Dense(
        WIDTH, DIMENSION, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"
    )


def _unit() -> Any:
    return Normalize(module_input_name="token_embeddings")
