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
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Pooling

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
    dense: dict[str, Any] = {"in_features": WIDTH, "out_features": DIMENSION, "bias": False}
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
    settings: dict[str, Any] = {
        "query_maxlen": 12,
        "doc_maxlen": 40,
        "mask_punctuation": True,
        "attend_to_mask_tokens": False,
    }
    settings |= {"query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
    (folder / "artifact.metadata").write_text(json.dumps(settings))
    return folder


def save_pictures(folder: Path, *more: Any, document: str = "") -> Path:
    """A Qwen2-VL with a projection of each token, as ColQwen models are saved with sentence-transformers.

    Args:
        more: Further modules.
        document: What is said before documents.
    """
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
        modules=[Transformer(str(backbone)), _projection(), MultiVectorMask(), _unit(), *more],
        prompts={"query": "find: ", **({"document": document} if document else {})},
        device="cpu",
    ).save(str(folder))
    return folder


def save_qwen3(folder: Path) -> Path:
    """A Qwen3-VL with the vector of the last token, in the files of Qwen3-VL-Embedding."""
    special = tiny_late.QWEN_TOKENS
    processor = tiny_late.qwen_processor(
        transformers.Qwen3VLProcessor, chat_template=CHAT, video_processor=transformers.Qwen3VLVideoProcessor()
    )
    token = processor.tokenizer.convert_tokens_to_ids
    text = {
        **tiny_late.LAYERS,
        "vocab_size": len(processor.tokenizer),
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0},
    }
    sight = {"hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 4}
    config = transformers.Qwen3VLConfig(
        text_config=text,
        vision_config={**sight, "patch_size": 14, "deepstack_visual_indexes": [0], "num_position_embeddings": 64},
        **{f"{name}_id": token(mark) for name, mark in special.items()},
    )
    return _last_token(folder, processor, transformers.Qwen3VLModel(config))


def save_idefics3(folder: Path) -> Path:
    """An Idefics3 (SmolVLM's family), which cuts pictures into tiles, with the vector of the last token."""
    marks = ["<pad>", "<unk>", "<bos>", "<global-img>"]
    marks += [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    marks += ["<fake_token_around_image>", "<image>", "<end_of_utterance>"]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tiny_late.byte_tokenizer(marks), pad_token="<pad>", unk_token="<unk>", bos_token="<bos>"
    )
    pixels = transformers.Idefics3ImageProcessor(size={"longest_edge": 96}, max_image_size={"longest_edge": 32})
    processor = transformers.Idefics3Processor(pixels, tokenizer, image_seq_len=4, chat_template=TILED)
    config = transformers.Idefics3Config(
        text_config={**tiny_late.LAYERS, "vocab_size": len(tokenizer), "model_type": "llama", "pad_token_id": 0},
        vision_config={**tiny_late.LAYERS, "image_size": 32, "patch_size": 8},
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=0,
    )
    return _last_token(folder, processor, transformers.Idefics3Model(config))


def _last_token(folder: Path, processor: Any, model: Any) -> Path:
    backbone = folder.with_name(f"{folder.name}-backbone")
    backbone.mkdir(parents=True)
    torch.manual_seed(8)
    tiny._spread(model.eval())
    processor.save_pretrained(backbone)
    model.save_pretrained(backbone)
    parts = [Transformer(str(backbone)), Pooling(WIDTH, pooling_mode="lasttoken"), Normalize()]
    prompts = {"query": "Find what is meant. ", "document": "Say what is there. "}
    SentenceTransformer(modules=parts, prompts=prompts, device="cpu").save(str(folder))
    return folder


TILED = (
    "{% for message in messages %}<bos>{{ message['role'] }}: {% if message['content'] is string %}"
    "{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_utterance>\n{% endfor %}"
)
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
