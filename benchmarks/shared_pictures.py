"""What it saves to encode a picture once that several choices name.

    python benchmarks/shared_pictures.py [--pictures 200 --items 5 --rounds 3]

A generated choice task, as SugarCrepe's files are laid out: several items for each picture, each with a right and a
wrong caption. The model is a CLIP of the real architecture (a vision transformer of 12 layers of 192 at 224 pixels in
patches of 32, a text tower of the same depth), with random weights: nothing is downloaded. "each" encodes the picture
of every item, "once" each distinct picture and text once; both through the same code, in turn, the best of the rounds.
The greatest difference between the vectors of both ways is printed too.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import visir
from visir.collections.images import ImageReader
from visir.encoders import encode_items, forms
from visir.records import Items

WORDS = ["a", "red", "green", "blue", "yellow", "box", "dog", "boat", "left", "right", "near", "two", "three", "small"]


def small_clip(folder: Path) -> Path:
    """Save a CLIP with random weights, its image processor and a word tokenizer."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {name: row for row, name in enumerate(["<pad>", "<start>", "<unk>", *WORDS, "<end>"])}
    end = len(vocabulary) - 1
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", 1), ("<end>", end)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<start>", eos_token="<end>", unk_token="<unk>",
        model_max_length=32,
    )  # fmt: skip
    size = {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 12, "num_attention_heads": 3}
    text = {**size, "vocab_size": len(vocabulary), "max_position_embeddings": 32, "eos_token_id": end}
    config = transformers.CLIPConfig(
        text_config={**text, "bos_token_id": 1, "pad_token_id": 0},
        vision_config={**size, "image_size": 224, "patch_size": 32}, projection_dim=128,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.CLIPModel(config).eval().save_pretrained(folder)
    transformers.CLIPProcessor(transformers.CLIPImageProcessor(), tokenizer).save_pretrained(folder)
    return folder


def choices(folder: Path, pictures: int, items: int) -> Any:
    """The choice task: `items` rows for each picture."""
    rng = np.random.default_rng(0)
    reader = ImageReader(visir.open(f"scenes:{pictures}?size=224"))
    photos = [folder / f"{row}.jpg" for row in range(pictures)]
    for row, photo in enumerate(photos):
        reader.open(row).save(photo)
    rows = [
        {"image": str(photo), "caption": " ".join(rng.choice(WORDS, 8)), "foil": " ".join(rng.choice(WORDS, 8))}
        for photo in photos
        for _ in range(items)
    ]
    (folder / "choices.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return visir.open(folder / "choices.jsonl", format="choices")


def encoded(model: Any, items: Items, few: int, store: Path) -> tuple[np.ndarray, float]:
    """The vectors of items, and the seconds that they take."""
    before, forms._FEW = forms._FEW, few
    try:
        started = time.process_time()
        vectors = encode_items(model, items, store=store)
        return np.array(vectors.vectors), time.process_time() - started  # type: ignore[union-attr]
    finally:
        forms._FEW = before


def main() -> None:
    """Print the times of both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--items", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    shape = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = visir.load(str(small_clip(folder / "clip")))
        task = choices(folder, shape.pictures, shape.items).task("i2t")
        for items in (task.queries, task.documents):
            times: dict[str, list[float]] = {"each": [], "once": []}
            vectors = {}
            for number in range(shape.rounds):
                for way, few in (("each", 0), ("once", 20)):
                    vectors[way], seconds = encoded(model, items, few, folder / f"store-{way}-{number}-{items.title}")
                    times[way].append(seconds)
            apart = float(np.abs(vectors["each"] - vectors["once"]).max())
            each, once = (min(values) for values in times.values())
            print(
                f"{len(items):,} {items.title}: each {each:.2f} s, once {once:.2f} s of one core ({each / once:.1f} "
                f"times as fast); greatest difference {apart:.1e}, {'' if apart else 'no bit differs'}"
            )


if __name__ == "__main__":
    main()
