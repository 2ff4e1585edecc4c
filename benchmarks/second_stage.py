"""What a pair costs in a second stage, on one core: BLIP's matching head at full size, random weights.

    OMP_NUM_THREADS=1 python benchmarks/second_stage.py [--pairs 16] [--times 3]

A BLIP of the architecture of Salesforce/blip-itm-base-coco (ViT-B/16 at 384 pixels, 577 tokens; 12 text layers), 16
texts of about 13 tokens with one image. Processor seconds, best of several:

- tower: one image through the vision tower: what would be paid for every pair without tokens that are shared
- stacked: the pairs with the image's tokens repeated for each, as transformers' own forward pass has them
- shared: `CrossEncoder.match`, in which keys and values of the image are computed once
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

from visir.encoders import load_cross_encoder

WORDS = ["a", "dog", "runs", "across", "the", "wet", "grass", "behind", "its", "ball", "and", "the", "children"]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--pairs", type=int, default=16)
    asked.add_argument("--times", type=int, default=3)
    options = asked.parse_args()
    with TemporaryDirectory() as folder:
        model = save(Path(folder))
        cross_encoder = load_cross_encoder(folder, device="cpu")
        pixels = cross_encoder.preprocess(
            Image.fromarray(np.random.default_rng(0).integers(0, 256, (375, 500, 3), np.uint8))
        )
        tower = best(lambda: cross_encoder.image_tokens([pixels]), options.times)
        (image,) = cross_encoder.image_tokens([pixels])
        texts = [" ".join(WORDS[at % 3 :]) for at in range(options.pairs)]
        tokens = cross_encoder.text_tokens(texts)
        shared = best(lambda: cross_encoder.match([image] * len(texts), tokens), options.times)
        inputs = {name: ids.long() for name, ids in cross_encoder._text.tokens.collate(tokens).items()}  # type: ignore[attr-defined]

        def stack() -> torch.Tensor:
            with torch.inference_mode():
                states = model.text_encoder(**inputs, encoder_hidden_states=image.expand(len(texts), -1, -1))
                logits: torch.Tensor = model.itm_head(states.last_hidden_state[:, 0])[:, 1]
            return logits

        stacked = best(stack, options.times)
        apart = np.abs(stack().numpy() - cross_encoder.match([image] * len(texts), tokens)).max()
        rates = [options.pairs / seconds for seconds in (stacked, shared)]
        print(f"tower {tower:.2f} s an image; stacked {rates[0]:.2f}, shared {rates[1]:.2f} pairs a second")
        print(f"shared is {stacked / shared:.1f} times as fast; largest difference of the scores {apart:.1e}")


def save(folder: Path) -> torch.nn.Module:
    """BLIP's base architecture with random weights, its processor and a vocabulary of the words above."""
    import transformers

    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(WORDS))]))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "model_max_length": 512}')
    transformers.BlipImageProcessor(size={"height": 384, "width": 384}).save_pretrained(folder)
    torch.manual_seed(0)
    text = {"encoder_hidden_size": 768, "pad_token_id": 0, "num_attention_heads": 12, "max_position_embeddings": 512}
    vision = {"image_size": 384, "patch_size": 16}
    model = transformers.BlipForImageTextRetrieval(transformers.BlipConfig(text_config=text, vision_config=vision))
    model.save_pretrained(folder)
    return model.eval()


def best(work: Callable[[], object], times: int) -> float:
    """Processor seconds of the fastest of several calls."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


if __name__ == "__main__":
    main()
