"""A tiny sentence encoder with random weights, saved as sentence-transformers saves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny_transformers as tiny
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules

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
