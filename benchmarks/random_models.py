"""Well-known architectures in their full size with random weights, for benchmarks where no weights are at hand.

    python benchmarks/random_models.py clip-vit-base-patch32 runs/clip

Speed does not depend on the weights, nearness of vectors does: quote no recall of such a model.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import torch
import transformers


def clip(folder: Path) -> None:
    """CLIP ViT-B/32 with OpenAI's byte-pair vocabulary, which open_clip brings along."""
    packed = (files("open_clip") / "bpe_simple_vocab_16e6.txt.gz").read_bytes()
    merges = gzip.decompress(packed).decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    characters = list(transformers.convert_slow_tokenizer.bytes_to_unicode().values())
    tokens = [*characters, *(f"{character}</w>" for character in characters)]
    tokens += ["".join(merge.split()) for merge in merges]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    settings = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"unk_token": "<|endoftext|>"}))
    transformers.CLIPImageProcessor().save_pretrained(folder)
    transformers.CLIPModel(transformers.CLIPConfig()).save_pretrained(folder)


def siglip(folder: Path) -> None:
    """SigLIP base, 224 px, with a small vocabulary: every text is padded to 64 tokens, whatever they are."""
    import sentencepiece

    model = io.BytesIO()
    letters = "abcdefghijklmnopqrstuvwxyz0123456789,."
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(letters), "a dog runs on the beach, two children play beside an old boat"]),
        model_writer=model,
        vocab_size=64,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.model").write_bytes(model.getvalue())
    settings = {"tokenizer_class": "SiglipTokenizer", "model_max_length": 64, "model_input_names": ["input_ids"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    transformers.SiglipImageProcessor(size={"height": 224, "width": 224}).save_pretrained(folder)
    transformers.SiglipModel(transformers.SiglipConfig()).save_pretrained(folder)


MODELS: dict[str, Callable[[Path], None]] = {"clip-vit-base-patch32": clip, "siglip-base-patch16-224": siglip}
"""By name."""


def make(name: str, folder: Path) -> Path:
    """Write a model into a folder, unless it is there already.

    Args:
        name: One of `MODELS`.
        folder: Where to.

    Returns:
        The folder.
    """
    if not (folder / "config.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            MODELS[name](folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    print(make(arguments.name, arguments.folder))


if __name__ == "__main__":
    main()
