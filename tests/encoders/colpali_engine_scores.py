"""What colpali-engine makes of a folder that visir reads too: run by a Python that has colpali-engine.

    python colpali_engine_scores.py KIND MODEL PHOTOS TEXTS OUT

The weights are put into the package's own class; photos, forward pass and scores are the package's own code. TEXTS are
whole prompts: those of transformers' processors differ from the package's by a line break or a word.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from colpali_engine import models
from PIL import Image

CLASSES = {
    "colpali": (models.ColPali, models.ColPaliProcessor, transformers.ColPaliForRetrieval),
    "colqwen2": (models.ColQwen2, models.ColQwen2Processor, transformers.ColQwen2ForRetrieval),
    "colmodernvbert": (models.ColModernVBert, models.ColModernVBertProcessor, transformers.ColModernVBertForRetrieval),
}


def main(kind: str, folder: Path, photos: Path, texts: Path, out: Path) -> None:
    model_class, processor_class, source_class = CLASSES[kind]
    processor = processor_class(**parts_of(kind, folder))
    if kind == "colpali":  # the package writes <bos> twice, transformers once
        processor.visual_prompt_prefix = "<image>Describe the image."
    source = source_class.from_pretrained(folder).eval()
    model = model_class(source.config.vlm_config).eval()
    backbone = {"colpali": lambda: model.model.model, "colqwen2": lambda: model, "colmodernvbert": lambda: model.model}
    missing, unexpected = backbone[kind]().load_state_dict(source.vlm.state_dict(), strict=False)
    assert not unexpected and all(name.startswith("custom_text_proj") for name in missing), (missing, unexpected)
    model.custom_text_proj.load_state_dict(source.embedding_proj_layer.state_dict())
    images = [Image.open(path) for path in sorted(photos.glob("*.png"))]
    vectors = {}
    with torch.inference_mode():
        for name, inputs in (
            ("photo", processor.process_images(images)),
            ("text", processor.process_texts(json.loads(texts.read_text()))),
        ):
            # Without it, transformers 5 lets PaliGemma look back only; ColPali was trained to look both ways.
            both_ways = {"token_type_ids": torch.zeros_like(inputs["input_ids"])} if kind == "colpali" else {}
            outputs = model(**{**inputs, **both_ways})
            vectors[name] = [rows[mask.bool()] for rows, mask in zip(outputs, inputs["attention_mask"], strict=True)]
    # One photo at a time: in a batch, the zeros that fill up a shorter one would count as vectors.
    scores = processor.score_multi_vector(vectors["text"], vectors["photo"], batch_size=1, device="cpu")
    arrays = {f"{name}-{row}": value.numpy() for name, rows in vectors.items() for row, value in enumerate(rows)}
    np.savez(out, scores=scores.numpy(), **arrays)


def parts_of(kind: str, folder: Path) -> dict[str, Any]:
    own = transformers.AutoProcessor.from_pretrained(folder)
    pixels = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    parts: dict[str, Any] = {"image_processor": pixels, "tokenizer": own.tokenizer}
    if kind == "colpali":
        pixels.image_seq_length = own.image_seq_length
    if kind == "colqwen2":
        parts["video_processor"] = transformers.Qwen2VLVideoProcessor()
    if kind == "colmodernvbert":
        parts["image_seq_len"] = own.image_seq_len
    return parts


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
